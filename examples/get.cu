// Get: every lane reads two words of the next PE, one without waiting for it and one that it waits for.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

constexpr unsigned blocks = 4, threads = 64, lanes = blocks * threads;

__global__ void read_next(gravel_t g, const uint64_t* table, uint64_t* copies, uint64_t* sums) {
  const unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  gravel_get(g, &copies[lane], &table[lane], next);                        // returns at once
  const uint64_t other = gravel_fetch(g, &table[lanes - 1 - lane], next);  // waits for the answer
  gravel_quiet(g);                                                         // the get has arrived, too
  sums[lane] = other + gravel::load_relaxed<gravel::scope::device>(&copies[lane]);
}

int main() {
  gravel_init<>();
  const auto me = static_cast<uint64_t>(gravel_my_pe()), n_pes = static_cast<uint64_t>(gravel_n_pes());
  auto* table = gravel_malloc<uint64_t>(lanes * sizeof(uint64_t));
  auto* copies = gravel_malloc<uint64_t>(lanes * sizeof(uint64_t));
  auto* sums = gravel_malloc<uint64_t>(lanes * sizeof(uint64_t));
  std::vector<uint64_t> words(lanes);
  for (unsigned i = 0; i < lanes; ++i) words[i] = 1000 * me + i;
  gravel_copy(table, words.data(), lanes * sizeof(uint64_t));
  gravel_barrier_all();  // every table is filled
  gravel_launch(read_next, blocks, threads, gravel_handle(), table, copies, sums);
  gravel_barrier_all();

  gravel_copy(words.data(), sums, lanes * sizeof(uint64_t));
  uint64_t wrong = 0;
  for (const uint64_t sum : words) wrong += sum != 2000 * ((me + 1) % n_pes) + lanes - 1;
  wrong = gravel_sum_all(wrong);
  if (me == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
