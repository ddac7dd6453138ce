// put_bw: gravel_put_bulk by size. Every put has its own part of the buffer; all of it is checked.
#pragma once
#include "bench/perf/rate.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

/// Puts number 0 ... puts: each block makes those of its number, and every grid-th after.
struct bulk_job {
  char* from;
  char* to;
  uint64_t size, puts;
  uint32_t pe;
};
__global__ void put_parts(gravel_t g, bulk_job job) {
  for (uint64_t p = blockIdx.x; p < job.puts; p += gridDim.x)
    gravel_put_bulk(g, job.to + p * job.size, job.from + p * job.size, job.size, static_cast<int>(job.pe));
}

/// Byte i of what PE `source` puts.
GRAVEL_BOTH char pattern_at(uint64_t i, uint32_t source) {
  return static_cast<char>((i * 0x9E3779B97F4A7C15u >> 32) + source * 89);
}
__global__ void fill_pattern(char* to, uint64_t bytes, uint32_t source) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += lanes)
    to[i] = pattern_at(i, source);
}
/// The first `put` bytes hold the pattern, the others up to `bytes` still poison.
__global__ void check_pattern(const char* at, uint64_t put, uint64_t bytes, uint32_t source, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += lanes)
    mine += at[i] != (i < put ? pattern_at(i, source) : static_cast<char>(poison & 255));
  if (mine) fetch_add<scope::device>(wrong, mine);
}

inline void put_bw(report& r, const options& o, limits& l) {
  measure(l, true, 0);
  const int me = gravel_my_pe();
  const auto source = static_cast<uint32_t>(source_of(o, me));
  for (uint64_t size : o.sizes) {
    const uint64_t puts = std::clamp<uint64_t>(o.bytes / size, 1, 1 << 20), bytes = puts * size,
                   room = (bytes + 15) / 8 * 8;
    auto* to = gravel_malloc<char>(room);
    auto* from = gravel_malloc<char>(room);
    const device_array<uint64_t> wrong(1);
    const unsigned all = blocks_to_fill_device(),
                   grid = static_cast<unsigned>(std::min<uint64_t>(o.grid ? o.grid : all, puts));
    const bulk_job job{from, to, size, puts, static_cast<uint32_t>(destination_of(o, me))};
    launch_plain(fill_pattern, all, lanes_of_block, from, bytes, static_cast<uint32_t>(me));
    verified v;
    std::vector<double> seconds;
    for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
      fill_with(reinterpret_cast<uint64_t*>(to), room / 8, poison);
      gravel_barrier_all();
      const double begin = seconds_now();
      gravel_launch(put_parts, grid, lanes_of_block, gravel_handle(), job);
      gravel_barrier_all();
      const double took = slowest(seconds_now() - begin);
      if (run) seconds.push_back(took);
      launch_plain(check_pattern, all, lanes_of_block, to, bytes, room, source, wrong.data());
      gravel_synchronize();
      v.checked += room;
    }
    v = {gravel_sum_all(v.checked), gravel_sum_all(wrong.read())};
    const double rate = static_cast<double>(bytes) / median(seconds);
    const limit most = destination_of(o, 0) == 0 ? stores_limit(l) : wire_limit(l, is_peer(destination_of(o, me)));
    r.row({{"scope", "scope", std::string("block")},
           {"to", "to", name_of_target(o)},
           {"size_bytes", "size B", size},
           {"puts", "puts", puts},
           {"ms", "ms", median(seconds) * 1e3},
           {"million_puts_per_s", "M put/s", rate / static_cast<double>(size) / 1e6},
           {"gb_per_s", "GB/s", rate / 1e9},
           {"limit", "limit", most.name},
           {"limit_gb_per_s", "limit GB/s", most.per_s / 1e9},
           {"ratio", "ratio", rate / most.per_s}},
          v);
    gravel_barrier_all();
    gravel_free(from);
    gravel_free(to);
  }
}

}  // namespace gravel_bench::perf
