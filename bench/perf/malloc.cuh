// malloc_time: gravel_malloc, which zeroes, and gravel_free, by size. A small object lies at the start of the heap, so
// small sizes find an extent there, and large ones need extents of their own. Each word is checked.
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
  auto* const first = gravel_malloc<uint64_t>(sizeof(uint64_t));
  for (uint64_t size : o.sizes) {
    const uint64_t words = (size + 7) / 8;
    const device_array<uint64_t> wrong(1);
    verified v;
    std::vector<double> seconds, freed, plain;
    for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one is not counted
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
      gravel_barrier_all();
      begin = seconds_now();
      gravel_free(at);
      const double gone = slowest(seconds_now() - begin);
      if (run) freed.push_back(gone);
    }
    v = {gravel_sum_all(v.checked), gravel_sum_all(wrong.read())};
    const double bytes = static_cast<double>(words * sizeof(uint64_t)), rate = bytes / median(seconds),
                 most = bytes / median(plain);
    r.row({{"size_bytes", "size B", words * sizeof(uint64_t)},
           {"median_us", "p50 us", median(seconds) * 1e6},
           {"free_us", "free us", median(freed) * 1e6},
           {"gb_per_s", "GB/s", rate / 1e9},
           {"limit", "limit", std::string("a kernel that writes")},
           {"limit_gb_per_s", "limit GB/s", most / 1e9},
           {"ratio", "ratio", rate / most}},
          v);
  }
  gravel_free(first);
}

}  // namespace gravel_bench::perf
