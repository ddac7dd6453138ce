// Latencies: one lane (for gravel_put_bulk one block) of PE 0 does one operation after the other; each is timed by the
// device's clock. The others wait in the barrier after it.
#pragma once

#include <thread>

#include "bench/clock.cuh"
#include "bench/perf/rate.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

enum class timed : uint32_t { put_quiet, inc_quiet, fetch_add, compare_swap, quiet, put_bulk_quiet };

struct latency_job {
  timed op;
  uint32_t pe, iterations;
  uint64_t* word;    ///< symmetric; the operation's destination
  const char* from;  ///< put_bulk_quiet
  char* to;          ///< symmetric
  uint64_t size;     ///< of put_bulk; quiet: messages sent before it, untimed
  uint64_t* ticks;   ///< of each iteration, by clock64
  uint64_t* all;     ///< {ticks, nanoseconds} of the whole, and how many answers were wrong
};

GRAVEL_DEVICE uint64_t do_timed(const gravel_t& g, const latency_job& job, uint64_t i) {
  const int pe = static_cast<int>(job.pe);
  switch (job.op) {
    case timed::put_quiet: gravel_put(g, job.word, i + 1, pe); break;
    case timed::inc_quiet: gravel_inc(g, job.word, pe); break;
    case timed::fetch_add: return gravel_fetch_add(g, job.word, 1, pe) != i;
    case timed::compare_swap: return gravel_compare_swap(g, job.word, i, i + 1, pe) != i;
    case timed::quiet:
    case timed::put_bulk_quiet: break;
  }
  gravel_quiet(g);
  return 0;
}

__global__ void time_operations(gravel_t g, latency_job job) {
  uint64_t wrong = 0;
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t i = 0; i < job.iterations; ++i) {
    if (job.op == timed::quiet)
      for (uint64_t m = 0; m < job.size; ++m) gravel_inc(g, job.word, static_cast<int>(job.pe));
    const uint64_t start = static_cast<uint64_t>(clock64());
    if (job.op == timed::put_bulk_quiet) gravel_put_bulk(g, job.to, job.from, job.size, static_cast<int>(job.pe));
    __syncthreads();
    if (threadIdx.x == 0) {
      wrong += do_timed(g, job, i);
      job.ticks[i] = static_cast<uint64_t>(clock64()) - start;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    job.all[0] = static_cast<uint64_t>(clock64()) - first;
    job.all[1] = nanoseconds_now() - begin;
    job.all[2] = wrong;
  }
}

/// PE 0 and its partner answer each other by puts. `asks`: each also calls gravel_flush.
__global__ void play_ping_pong(gravel_t g, uint64_t* flag, uint32_t partner, bool starts, bool asks,
                               uint32_t iterations, uint64_t* ticks, uint64_t* all) {
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t i = 1; i <= iterations; ++i) {
    const uint64_t start = static_cast<uint64_t>(clock64());
    if (!starts) gravel_wait_until(g, flag, GRAVEL_GE, i);
    gravel_put(g, flag, i, static_cast<int>(partner));
    if (asks) gravel_flush(g);
    if (starts) gravel_wait_until(g, flag, GRAVEL_GE, i);
    ticks[i - 1] = static_cast<uint64_t>(clock64()) - start;
  }
  all[0] = static_cast<uint64_t>(clock64()) - first;
  all[1] = nanoseconds_now() - begin;
}

/// Microseconds, sorted.
inline void latency_row(report& r, const limits& l, const char* what, const std::string& to, uint64_t size,
                        std::vector<double> us, verified v) {
  std::sort(us.begin(), us.end());
  const auto part = [&](double p) { return us[static_cast<size_t>(p * static_cast<double>(us.size() - 1))]; };
  r.row({{"operation", "operation", std::string(what)},
         {"to", "to", to},
         {"size", "size", size},
         {"iterations", "iterations", static_cast<uint64_t>(us.size())},
         {"min_us", "min us", us.front()},
         {"median_us", "median us", part(0.5)},
         {"p99_us", "p99 us", part(0.99)},
         {"max_us", "max us", us.back()},
         {"limit_us", "flag trip us", l.round_trip_us},
         {"ratio", "median / it", part(0.5) / l.round_trip_us}},
        v);
}

/// Times of the iterations in microseconds, from ticks; `all` holds the ticks and nanoseconds of the whole.
inline std::vector<double> microseconds(const device_array<uint64_t>& ticks, const device_array<uint64_t>& all,
                                        unsigned count, double trips) {
  std::vector<uint64_t> raw(count);
  gravel_copy(raw.data(), ticks.data(), count * sizeof(uint64_t));
  const double us_per_tick =
      static_cast<double>(all.read(1)) / 1e3 / static_cast<double>(std::max<uint64_t>(all.read(0), 1));
  std::vector<double> us;
  for (uint64_t t : raw) us.push_back(static_cast<double>(t) * us_per_tick / trips);
  return us;
}

inline void time_row(report& r, const options& o, limits& l, timed op, const char* what, uint64_t size = 8) {
  measure_round_trip(l);
  const int pe = destination_of(o, 0), me = gravel_my_pe();
  const bool bulk = op == timed::put_bulk_quiet;
  const unsigned warm = 10, block = bulk ? lanes_of_block : 1;
  auto* words = gravel_malloc<uint64_t>(64);  // the operation's word, and one that must stay poisoned
  auto* buffer = gravel_malloc<char>(2 * size + 64);
  const uint64_t half = (size + 31) / 16 * 16;  // something stays poisoned behind what is put
  const device_array<uint64_t> ticks(o.iterations + warm), all(3);
  fill_with(reinterpret_cast<uint64_t*>(buffer), (2 * size + 64) / 8, poison);
  std::vector<char> pattern(size);
  for (uint64_t i = 0; i < size; ++i) pattern[i] = static_cast<char>(i * 131 + 7);
  gravel_copy(buffer + half, pattern.data(), std::min(size, 2 * size + 64 - half));
  uint64_t wrong = 0;
  latency_job job{op, static_cast<uint32_t>(pe), warm, words, buffer + half, buffer, size, ticks.data(), all.data()};
  for (unsigned n : {warm, o.iterations}) {
    job.iterations = n;
    fill_with(words, 8, poison);
    const uint64_t zero = 0;
    gravel_copy(words, &zero, 8);
    gravel_barrier_all();
    if (me == 0) gravel_launch(time_operations, 1, block, gravel_handle(), job);
    gravel_barrier_all();
    if (me == 0) wrong += all.read(2);
    if (me != pe) continue;
    uint64_t got[8];
    gravel_copy(got, words, sizeof(got));
    uint64_t expected = 0;
    if (!bulk) expected = op == timed::quiet ? n * size : n;
    wrong += got[0] != expected;
    for (int i = 1; i < 8; ++i) wrong += got[i] != poison;
    std::vector<char> arrived(half);
    gravel_copy(arrived.data(), buffer, half);
    for (uint64_t i = 0; i < half; ++i)
      wrong += arrived[i] != (bulk && i < size ? pattern[i] : static_cast<char>(poison & 255));
  }
  const verified v{gravel_sum_all(me == pe ? 16 + 2 * half : 0), gravel_sum_all(wrong)};
  std::vector<double> us(1);
  if (me == 0) us = microseconds(ticks, all, o.iterations, 1);
  latency_row(r, l, what, name_of_target(o), size, std::move(us), v);
  gravel_barrier_all();
  gravel_free(buffer);
  gravel_free(words);
}

inline void p_latency(report& r, const options& o, limits& l) { time_row(r, o, l, timed::put_quiet, "put, quiet"); }
inline void atomic_latency(report& r, const options& o, limits& l) {
  time_row(r, o, l, timed::inc_quiet, "inc, quiet");
  time_row(r, o, l, timed::fetch_add, "fetch_add");
  time_row(r, o, l, timed::compare_swap, "compare_swap");
}
/// Sizes are numbers of messages here.
inline void quiet_latency(report& r, const options& o, limits& l) {
  for (uint64_t messages : {0, 1, 32, 1024}) time_row(r, o, l, timed::quiet, "quiet", messages);
}
inline void put_latency(report& r, const options& o, limits& l) {
  for (uint64_t size : o.sizes) time_row(r, o, l, timed::put_bulk_quiet, "put_bulk", size);
}

inline void ping_pong_latency(report& r, const options& o, limits& l) {
  measure_round_trip(l);
  const int me = gravel_my_pe(), partner = destination_of(o, 0);
  const double trips = partner == 0 ? 1 : 2;
  for (bool asks : {true, false}) {
    auto* flag = gravel_malloc<uint64_t>(sizeof(uint64_t));
    const device_array<uint64_t> ticks(o.iterations), all(2);
    gravel_barrier_all();
    if (me == 0 || me == partner)
      gravel_launch(play_ping_pong, 1, 1, gravel_handle(), flag, static_cast<uint32_t>(me == 0 ? partner : 0), me == 0,
                    asks, o.iterations, ticks.data(), all.data());
    gravel_barrier_all();
    uint64_t got = 0;
    gravel_copy(&got, flag, sizeof(got));
    const verified v{1, gravel_sum_all((me == 0 || me == partner) && got != o.iterations)};
    std::vector<double> us(1);
    if (me == 0) us = microseconds(ticks, all, o.iterations, trips);
    latency_row(r, l, asks ? "put, flushed" : "put", name_of_target(o), 8, std::move(us), v);
    gravel_barrier_all();
    gravel_free(flag);
  }
}

/// How long a call of the host takes, each time.
inline std::vector<double> microseconds_of(void (*call)(), unsigned iterations) {
  std::vector<double> us;
  for (unsigned i = 0; i < iterations; ++i) {
    const double begin = seconds_now();
    call();
    us.push_back((seconds_now() - begin) * 1e6);
  }
  return us;
}

/// Counts that it ran.
__global__ void count_launch(uint64_t* count) { ++*count; }

/// A kernel of one thread is launched and awaited, so many times. The rows are stations: the call of gravel_launch
/// alone, then with the wait; the same for a kernel beside which no resolver need run, which is what CUDA takes; and
/// after pauses in which the resolver ends.
inline void launch_latency(report& r, const options& o, limits& l) {
  measure_round_trip(l);
  const device_array<uint64_t> count(1);
  const auto stations = [&](const char* what, unsigned iterations, auto start, std::chrono::milliseconds pause) {
    const uint64_t before = count.read(0);
    std::vector<double> started, ended;
    for (unsigned i = 0; i < iterations; ++i) {
      if (pause.count()) std::this_thread::sleep_for(pause);
      const double begin = seconds_now();
      start();
      started.push_back((seconds_now() - begin) * 1e6);
      gravel_synchronize();
      ended.push_back((seconds_now() - begin) * 1e6);
    }
    const uint64_t ran = count.read(0) - before;
    const verified v{gravel_sum_all(uint64_t{iterations}), gravel_sum_all(uint64_t{ran != iterations})};
    latency_row(r, l, what, "call", 0, std::move(started), v);
    latency_row(r, l, what, "end", 0, std::move(ended), v);
    gravel_barrier_all();
  };
  const auto leased = [&] { gravel_launch(count_launch, 1, 1, count.data()); };
  const auto alone = [&] { launch_plain(count_launch, 1, 1, count.data()); };
  leased();
  alone();
  gravel_synchronize();
  stations("launch", o.iterations, leased, {});
  stations("launch alone", o.iterations, alone, {});
  stations("launch after 2 ms", std::min(o.iterations, 50u), leased, std::chrono::milliseconds(2));
}

/// Barriers of all blocks of all PEs' grids, one after the other.
__global__ void time_barriers(const __grid_constant__ gravel_t g, uint32_t iterations, uint64_t* ticks, uint64_t* all) {
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint32_t i = 0; i < iterations; ++i) {
    const uint64_t start = static_cast<uint64_t>(clock64());
    gravel_barrier(g);
    if (blockIdx.x == 0 && threadIdx.x == 0) ticks[i] = static_cast<uint64_t>(clock64()) - start;
  }
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  all[0] = static_cast<uint64_t>(clock64()) - first;
  all[1] = nanoseconds_now() - begin;
}
inline void kernel_barrier_row(report& r, const options& o, limits& l, unsigned blocks) {
  const device_array<uint64_t> ticks(o.iterations), all(2);
  gravel_launch(time_barriers, gravel_launch_config{.grid = blocks, .block = 128, .cooperative = blocks > 1},
                gravel_handle(), static_cast<uint32_t>(o.iterations), ticks.data(), all.data());
  gravel_barrier_all();
  const verified v{gravel_sum_all(uint64_t{1}), gravel_sum_all(uint64_t{all.read(0) == 0})};
  latency_row(r, l, "barrier in a kernel", std::to_string(blocks) + " blocks", 0,
              microseconds(ticks, all, o.iterations, 1), v);
  gravel_barrier_all();
}

/// First some barriers that must have something to wait for: an increment to the next PE before each.
inline void barrier_latency(report& r, const options& o, limits& l) {
  measure_round_trip(l);
  auto* count = gravel_malloc<uint64_t>(sizeof(uint64_t));
  uint64_t wrong = 0;
  const uint64_t checks = 10;
  for (uint64_t i = 1; i <= checks; ++i) {
    gravel_inc(gravel_host_handle(), count, (gravel_my_pe() + 1) % gravel_n_pes());
    gravel_barrier_all();
    uint64_t got = 0;
    gravel_copy(&got, count, sizeof(got));
    wrong += got != i;
    gravel_barrier_all();  // no PE increments again before all have checked
  }
  const verified v{gravel_sum_all(checks), gravel_sum_all(wrong)};
  latency_row(r, l, "barrier", "all", 0, microseconds_of(gravel_barrier_all, o.iterations), v);
  gravel_free(count);
  for (const unsigned blocks : {1u, GRAVEL_CUDA ? 64u : 2u}) kernel_barrier_row(r, o, l, blocks);
}

/// First some chains that must be waited for: each message is sent on by its handler, around all PEs.
struct goes_around {
  static constexpr const char* name = "goes around";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t* count, uint32_t hops) const {
    if (hops) gravel_am<goes_around>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), hops - 1);
    gravel_local_add(g, count, 1);
  }
};
inline void quiescence_latency(report& r, const options& o, limits& l) {
  measure_round_trip(l);
  auto* count = gravel_malloc<uint64_t>(sizeof(uint64_t));
  gravel_set_context<goes_around>(count);
  gravel_barrier_all();
  uint64_t wrong = 0;
  const uint64_t checks = 10, around = 3;
  for (uint64_t i = 1; i <= checks; ++i) {
    const auto hops = static_cast<uint32_t>(around * static_cast<uint64_t>(gravel_n_pes()) - 1);
    gravel_am<goes_around>(gravel_host_handle(), gravel_my_pe(), hops);
    gravel_wait_quiescent();
    uint64_t got = 0;
    gravel_copy(&got, count, sizeof(got));
    wrong += got != i * around * static_cast<uint64_t>(gravel_n_pes());
    gravel_barrier_all();  // no PE sends again before all have checked
  }
  const verified v{gravel_sum_all(checks), gravel_sum_all(wrong)};
  latency_row(r, l, "quiescence", "all", 0, microseconds_of(gravel_wait_quiescent, o.iterations), v);
  gravel_free(count);
}

}  // namespace gravel_bench::perf
