// A link: PE 0 sends a table to the last PE in packets. That PE adds up a segment while the next packets arrive.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/link.cuh>

constexpr uint64_t n = 10000;

__global__ void add(const uint64_t* words, uint64_t count, uint64_t* sum) {
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) gravel::fetch_add<gravel::scope::device>(sum, words[i]);
}

int main() {
  gravel_init<>();
  const int me = gravel_my_pe(), last = gravel_n_pes() - 1;
  auto* table = gravel_malloc<uint64_t>(n * sizeof(uint64_t));
  auto* sum = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const gravel_stream_t stream = gravel_stream_create();
  {
    gravel_link link(gravel_device(0), gravel_device(last, 1), 16384, 2);  // two packets of 16 KiB; collective
    if (me == 0) {
      std::vector<uint64_t> words(n);
      for (uint64_t i = 0; i < n; ++i) words[i] = i;
      gravel_copy(table, words.data(), n * sizeof(uint64_t));
      link.send(table, n * sizeof(uint64_t));  // returns at once
      link.shutdown();
    }
    while (me == last) {
      const gravel_segment segment = link.receive().get();
      if (segment.empty()) break;  // the sender has shut down, and everything has arrived
      gravel_launch(add, gravel_launch_config{.grid = 1, .block = 64, .stream = stream},
                    reinterpret_cast<const uint64_t*>(segment.data), segment.bytes / sizeof(uint64_t), sum);
      link.release(segment, stream);  // its buffer is free when the kernel has ended
    }
    gravel_stream_synchronize(stream);
  }
  uint64_t here = 0;
  gravel_copy(&here, sum, sizeof(here));
  const bool right = gravel_sum_all(here) == n * (n - 1) / 2;
  if (me == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  gravel_stream_destroy(stream);
  gravel_finalize();
  return right ? 0 : 1;
}
