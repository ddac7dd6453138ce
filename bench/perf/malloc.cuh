// malloc_time: gravel_malloc, which zeroes, of memory that has been written before, by size. Each word is checked.
#pragma once
#include "bench/perf/rate.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

__global__ void count_set(const uint64_t* words, uint64_t n, uint64_t* set) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) mine += words[i] != 0;
  if (mine) fetch_add<scope::device>(set, mine);
}

/// Beside it: a kernel of ours that writes as much.
inline void malloc_time(report& r, const options& o, limits&) {
  for (uint64_t size : o.sizes) {
    const uint64_t words = (size + 7) / 8;
    const device_array<uint64_t> wrong(1);
    verified v;
    std::vector<double> seconds, plain;
    for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one may get memory that nobody has used
      gravel_barrier_all();
      double begin = seconds_now();
      auto* at = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
      const double took = slowest(seconds_now() - begin);
      if (run) seconds.push_back(took);
      launch_plain(count_set, blocks_to_fill_device(), lanes_of_block, at, words, wrong.data());
      gravel_synchronize();
      begin = seconds_now();
      fill_with(at, words, poison);
      plain.push_back(slowest(seconds_now() - begin));
      v.checked += words;
      gravel_free(at);
    }
    v = {gravel_sum_all(v.checked), gravel_sum_all(wrong.read())};
    const double bytes = static_cast<double>(words * sizeof(uint64_t)), rate = bytes / median(seconds),
                 most = bytes / median(plain);
    r.row({{"size_bytes", "size B", words * sizeof(uint64_t)},
           {"median_us", "p50 us", median(seconds) * 1e6},
           {"gb_per_s", "GB/s", rate / 1e9},
           {"limit", "limit", std::string("a kernel that writes")},
           {"limit_gb_per_s", "limit GB/s", most / 1e9},
           {"ratio", "ratio", rate / most}},
          v);
  }
}

}  // namespace gravel_bench::perf
