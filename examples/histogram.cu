// Increments by a block sender: a histogram that is spread over all PEs. The block gathers its increments in shared
// memory and sends them sorted by PE, which is much faster than one message each.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

constexpr unsigned blocks = 4, threads = 128, samples = 50, bins_of_pe = 100;

__global__ void draw(gravel_t g, uint64_t* bins) {
  __shared__ gravel_block_sender<threads> sender;
  sender.begin(g);  // all threads of the block call this
  uint32_t random = blockIdx.x * threads + threadIdx.x + 1;
  for (unsigned i = 0; i < samples; ++i) {
    random = random * 1664525u + 1013904223u;
    const uint32_t bin = (random >> 8) % (bins_of_pe * g.n_pes);
    if (bin % 3 != 0) sender.inc(&bins[bin / g.n_pes], static_cast<int>(bin % g.n_pes));  // divergent code may send
  }
  sender.end();  // all threads of the block call this: it sends the rest
}

int main() {
  gravel_init<>();
  auto* bins = gravel_malloc<uint64_t>(bins_of_pe * sizeof(uint64_t));
  gravel_launch(draw, blocks, threads, gravel_handle(), bins);
  gravel_barrier_all();

  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  std::vector<uint64_t> here(bins_of_pe), expected(bins_of_pe);
  gravel_copy(here.data(), bins, bins_of_pe * sizeof(uint64_t));
  for (uint32_t lane = 0; lane < blocks * threads; ++lane) {
    uint32_t random = lane + 1;
    for (unsigned i = 0; i < samples; ++i) {
      random = random * 1664525u + 1013904223u;
      const uint32_t bin = (random >> 8) % (bins_of_pe * n_pes);
      if (bin % 3 != 0 && bin % n_pes == me) expected[bin / n_pes] += n_pes;  // all PEs draw the same samples
    }
  }
  const bool right = gravel_sum_all(uint64_t{here != expected}) == 0;
  if (me == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  gravel_finalize();
  return right ? 0 : 1;
}
