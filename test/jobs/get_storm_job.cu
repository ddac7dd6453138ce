// Every PE's kernel and host thread get from PE 0, far more than may be under way at once, while PE 0 and all others
// fetch and count there, too. Run with a small GRAVEL_SPILL_SIZE and few packets: answers that wait for their way out
// must not end the job, nor must requests and answers wait for each other.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

namespace {

constexpr int words = 4096;
constexpr int threads = 128, blocks = 8;
constexpr int each = 64;  // gets of a lane: 65536 of a PE's kernel, 1 MB of answers

__global__ void storm(gravel_t g, uint64_t* table, uint64_t* got, uint64_t* counter) {
  const int lane = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = 0; i < each; ++i) {
    const int word = (lane + i * 64) % words;
    gravel_get(g, got + word, table + word, 0);
    if (i % 16 == lane % 16) gravel_inc(g, counter, 0);
    if (i == each / 2 && lane % 32 == 5) gravel_quiet(g);
  }
  if (lane % 64 == 0) gravel_fetch_add(g, counter + 1, uint64_t{1}, 0);
  gravel_quiet(g);
  // The last get of this lane has arrived.
  const int last = (lane + (each - 1) * 64) % words;
  if (got[last] != static_cast<uint64_t>(last) * 3 + 1) gravel_inc(g, counter + 2, 0);
}

int wrong(const char* what, uint64_t is, uint64_t expected) {
  std::printf("PE %d: %s is %llu, not %llu\n", gravel_my_pe(), what, static_cast<unsigned long long>(is),
              static_cast<unsigned long long>(expected));
  return 1;
}

}  // namespace

int main() {
  gravel_init();
  const auto n = static_cast<uint64_t>(gravel_n_pes());
  auto* table = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  auto* got = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  auto* of_host = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  auto* counter = gravel_malloc<uint64_t>(3 * sizeof(uint64_t));
  std::vector<uint64_t> values(words);
  for (int i = 0; i < words; ++i) values[static_cast<size_t>(i)] = static_cast<uint64_t>(i) * 3 + 1;
  gravel_copy(table, values.data(), words * sizeof(uint64_t));
  gravel_barrier_all();
  for (int round = 0; round < 2; ++round) {
    gravel_launch(storm, blocks, threads, gravel_handle(), table, got, counter);
    for (int i = 0; i < words; ++i) gravel_get(gravel_host_handle(), of_host + i, table + i, 0);
    gravel_synchronize();
    gravel_barrier_all();
  }
  int errors = 0;
  std::vector<uint64_t> here(words);
  for (uint64_t* from : {got, of_host}) {
    gravel_copy(here.data(), from, words * sizeof(uint64_t));
    for (size_t i = 0; i < words && !errors; ++i)
      if (here[i] != values[i])
        errors += wrong(from == got ? "a word that the kernel got" : "a word that the host got", here[i], values[i]);
  }
  if (gravel_my_pe() == 0) {
    uint64_t counts[3];
    gravel_copy(counts, counter, sizeof(counts));
    const uint64_t lanes = threads * blocks;
    if (counts[0] != 2 * n * lanes * (each / 16))
      errors += wrong("the counter", counts[0], 2 * n * lanes * (each / 16));
    if (counts[1] != 2 * n * lanes / 64) errors += wrong("the fetched counter", counts[1], 2 * n * lanes / 64);
    if (counts[2] != 0) errors += wrong("the number of gets missing after gravel_quiet", counts[2], 0);
  }
  gravel_barrier_all();
  if (gravel_my_pe() == 0 && !errors)
    std::printf("ok: %d PEs on %d nodes, %s\n", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return errors ? 1 : 0;
}
