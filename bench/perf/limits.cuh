// The rates of the hardware without Gravel, measured in the same run by all PEs at once: the limits with which rates
// are compared.
#pragma once
#include <atomic>
#include <string>
#include <thread>

#include "bench/perf/device.cuh"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

namespace gravel_bench::perf {
using namespace gravel::detail;

/// Words of the table of the limit of what goes to the PE itself.
constexpr uint32_t own_table_log2 = GRAVEL_CUDA ? 27 : 22;

/// Per PE; 0: not there, or not measured yet.
struct limits {
  double host_bytes = 0;  ///< bytes/s: a kernel's 16-byte stores to pinned host memory; CPU backend: memcpy by one core
  double peer_bytes = 0;  ///< bytes/s: a kernel's 16-byte stores to another GPU's memory
  double increments = 0;  ///< 1/s: random 8-byte increments of own memory; CPU backend: a plain loop on one core
  double round_trip_us = 0;  ///< a flag from one lane to a host thread and back, over pinned memory
  uint32_t table_log2 = 0;   ///< words of the table of `increments`
};

__global__ void store_lines(unit* to, uint64_t units, uint64_t salt, unsigned rounds) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (unsigned round = 0; round < rounds; ++round)
    for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < units; i += lanes)
      store_unit(to + i, {{i + salt, round}});
}

__global__ void increment_random(uint64_t* table, uint64_t mask, uint64_t count) {
  const lane_share mine(count);
  uint64_t ran = random_stream::at(mine.first);
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    ran = random_stream::next(ran);
#if GRAVEL_CUDA
    atomicAdd(&table[ran & mask], uint64_t{1});
#else
    ++table[ran & mask];  // one lane runs this
#endif
  }
}

/// Bytes/s of a kernel's stores to `to`; `read` copies a unit from there for the check.
template <class Read>
double rate_of_stores(unit* to, uint64_t units, unsigned rounds, Read&& read) {
  const unsigned grid = 4 * blocks_to_fill_device();
  launch_plain(store_lines, grid, 256u, to, units, uint64_t{7}, 1u);
  gravel_synchronize();
  const double begin = seconds_now();
  launch_plain(store_lines, grid, 256u, to, units, uint64_t{11}, rounds);
  gravel_synchronize();
  const double seconds = seconds_now() - begin;
  for (uint64_t i = 0; i < units; i += units / 64 + 1) {
    const unit got = read(to + i);
    if (got.word[0] != i + 11 || got.word[1] != rounds - 1)
      fail_text("stores of a kernel did not arrive where limits are measured");
  }
  return static_cast<double>(units * sizeof(unit)) * rounds / seconds;
}

inline double measure_host_bytes() {
  constexpr uint64_t bytes = 64 << 20;
  const pinned_memory to(bytes);
#if GRAVEL_CUDA
  return rate_of_stores(reinterpret_cast<unit*>(to.data()), bytes / sizeof(unit), 16, [](const unit* u) { return *u; });
#else
  const pinned_memory from(bytes);
  std::memset(from.data(), 1, bytes);
  const double begin = seconds_now();
  constexpr int rounds = 4;
  for (int round = 0; round < rounds; ++round)
    for (uint64_t at = 0; at < bytes; at += 16384) std::memcpy(to.data() + at, from.data() + at, 16384);
  const double seconds = seconds_now() - begin;
  for (uint64_t at = 0; at < bytes; at += 4096)
    if (to.data()[at] != 1) fail_text("memcpy did not copy where limits are measured");
  return double{bytes} * rounds / seconds;
#endif
}

/// 0 where there is no second GPU that this one reaches directly.
inline double measure_peer_bytes() {
#if GRAVEL_CUDA
  int count = 0, own = 0, reaches = 0;
  cuda_check(cudaGetDeviceCount(&count), "counting GPUs");
  cuda_check(cudaGetDevice(&own), "cudaGetDevice");
  const int peer = (own + 1) % count;
  if (count < 2) return 0;
  cuda_check(cudaDeviceCanAccessPeer(&reaches, own, peer), "cudaDeviceCanAccessPeer");
  if (!reaches) return 0;
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
  else cuda_check(enabled, "cudaDeviceEnablePeerAccess");
  constexpr uint64_t bytes = 256 << 20;
  void* there = nullptr;
  cuda_check(cudaSetDevice(peer), "cudaSetDevice");
  const cudaError_t allocated = cudaMalloc(&there, bytes);
  cuda_check(cudaSetDevice(own), "cudaSetDevice");
  cuda_check(allocated, "memory of the peer GPU");
  const double rate = rate_of_stores(static_cast<unit*>(there), bytes / sizeof(unit), 32, [](const unit* u) {
    unit copy;
    gravel_copy(&copy, u, sizeof(copy));
    return copy;
  });
  cudaFree(there);
  return rate;
#else
  return 0;
#endif
}

inline double measure_increments(uint32_t table_log2) {
  const uint64_t words = uint64_t{1} << table_log2, count = GRAVEL_CUDA ? uint64_t{1} << 30 : uint64_t{1} << 22;
  const device_array<uint64_t> table(words, "table of the limit of random increments");
  const unsigned grid = GRAVEL_CUDA ? 4 * blocks_to_fill_device() : 1, block = GRAVEL_CUDA ? 256 : 1;
  launch_plain(increment_random, grid, block, table.data(), words - 1, count);  // pages are there, clocks are up
  gravel_synchronize();
  const double begin = seconds_now();
  launch_plain(increment_random, grid, block, table.data(), words - 1, count);
  gravel_synchronize();
  const double seconds = seconds_now() - begin;
  if (sum_of(table.data(), words) != 2 * count) fail_text("random increments were lost where limits are measured");
  return static_cast<double>(count) / seconds;
}

/// The host answers each number that the lane writes; both wait as Gravel does. words: 0 from the lane, 64 bytes on to
/// it.
__global__ void ask_host(uint64_t* words, uint64_t rounds) {
  for (uint64_t i = 1; i <= rounds; ++i) {
    store_release(&words[0], i);
    for (relax wait; load_acquire(&words[8]) != i; wait()) {
    }
  }
}
inline double measure_round_trip_us() {
  constexpr uint64_t rounds = GRAVEL_CUDA ? 10'000 : 200;
  const pinned_memory memory(4096);
  std::memset(memory.data(), 0, memory.size());
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  std::atomic<bool> failed{false};
  std::thread host([&] {
    for (uint64_t i = 1; i <= rounds && !failed; store_release(&words[8], i++))
      for (relax wait; load_acquire(&words[0]) != i && !failed; wait.briefly()) {
      }
  });
  const double begin = seconds_now();
  try {
    launch_plain(ask_host, 1, 1, words, rounds);
    gravel_synchronize();
  } catch (...) {
    failed = true;
    host.join();
    throw;
  }
  const double seconds = seconds_now() - begin;
  host.join();
  if (words[0] != rounds || words[8] != rounds) fail_text("a flag did not come back where limits are measured");
  return seconds / double{rounds} * 1e6;
}
/// By PE 0 alone, as latencies are. Collective.
inline void measure_round_trip(limits& l) {
  gravel_barrier_all();
  if (l.round_trip_us == 0 && gravel_my_pe() == 0) l.round_trip_us = measure_round_trip_us();
  gravel_barrier_all();
}

/// Measures what is missing, at all PEs at once. Collective.
inline void measure(limits& l, bool bytes, uint32_t table_log2) {
  if (bytes && l.host_bytes == 0) {
    gravel_barrier_all();
    l.host_bytes = mean_of_pes(measure_host_bytes());
    gravel_barrier_all();
    l.peer_bytes = mean_of_pes(measure_peer_bytes());
  }
  if (table_log2 && l.table_log2 != table_log2) {
    gravel_barrier_all();
    l.increments = mean_of_pes(measure_increments(table_log2));
    l.table_log2 = table_log2;
  }
  gravel_barrier_all();
}

/// The limit of a rate, by name.
struct limit {
  std::string name;
  double per_s;  ///< bytes or increments
};
inline limit stores_limit(const limits& l) { return {GRAVEL_CUDA ? "host stores" : "memcpy", l.host_bytes}; }
inline limit increments_limit(const limits& l) {
  return {GRAVEL_CUDA ? "random atomics" : "random loop", l.increments};
}
/// The limit of bytes to the next PE: NVLink where Gravel may use it, else pinned host memory.
inline limit wire_limit(const limits& l, bool peer) {
  return peer && l.peer_bytes > 0 ? limit{"peer stores", l.peer_bytes} : stores_limit(l);
}

}  // namespace gravel_bench::perf
