// divergence: GUPS-mod of the paper (section 8.2). Few of the work-items send, each a random number of increments.
// Three ways to write the kernel:
//
//   predication  the paper's section 5: all lanes of the block loop to the largest number of any of them, and the block
//                sends in converged control flow, once a round, what its active lanes have
//   direct       gravel_inc in divergent code: the lanes that are together share a slot
//   block        gravel_block_sender in divergent code
#pragma once
#include "bench/perf/gups.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

struct divergence_job {
  gups_table map;
  uint64_t* table;
  uint64_t items;  ///< work-items of each PE
  uint32_t active, most;

  GRAVEL_BOTH static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
  }
  GRAVEL_BOTH static uint64_t seed_of(uint64_t item, uint32_t pe) {
    return mix((item + 1) * 0x9E3779B97F4A7C15u ^ uint64_t{pe} << 48);
  }
  GRAVEL_BOTH uint32_t updates_of(uint64_t seed) const {
    return (seed >> 32) % 100 < active ? 1 + static_cast<uint32_t>(seed % most) : 0;
  }
  GRAVEL_BOTH static uint64_t random_of(uint64_t seed, uint32_t update) {
    return mix(seed + update * 0x9E3779B97F4A7C15u);
  }
};

template <class Sender>
GRAVEL_DEVICE void send_update(Sender& s, const divergence_job& job, uint64_t seed, uint32_t update, uint32_t me) {
  const uint64_t ran = divergence_job::random_of(seed, update);
  s.inc(&job.table[job.map.word_of(ran)], static_cast<int>(job.map.pe_of(ran, me)));
}

/// This lane's work-items, in divergent code.
template <class Sender>
GRAVEL_DEVICE void send_diverged(Sender& s, const divergence_job& job, uint32_t me) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t item = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < job.items; item += lanes) {
    const uint64_t seed = divergence_job::seed_of(item, me);
    const uint32_t updates = job.updates_of(seed);
    for (uint32_t u = 0; u < updates; ++u) send_update(s, job, seed, u, me);
  }
}

__global__ void diverge_direct(gravel_t g, divergence_job job) {
  direct sender{g};
  send_diverged(sender, job, g.my_pe);
}
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) diverge_block(gravel_t g, divergence_job job) {
  __shared__ gravel_block_sender<BLOCK> sender;
  sender.begin(g);
  send_diverged(sender, job, g.my_pe);
  sender.end();
}

/// The round's messages are gathered by a block sender that is emptied every round: a converged send of the block. It
/// holds one message of each lane.
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) diverge_predicated(gravel_t g, divergence_job job) {
  __shared__ gravel_block_sender<BLOCK, (BLOCK < 128 ? 128 : BLOCK)> sender;
  __shared__ uint32_t most;
  const uint64_t lanes = uint64_t{gridDim.x} * BLOCK;
  for (uint64_t base = uint64_t{blockIdx.x} * BLOCK; base < job.items; base += lanes) {
    const uint64_t item = base + threadIdx.x, seed = divergence_job::seed_of(item, g.my_pe);
    const uint32_t updates = item < job.items ? job.updates_of(seed) : 0;
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    if (updates) raise_to<scope::shared>(&most, updates);
    __syncthreads();
    const uint32_t rounds = most;
    for (uint32_t u = 0; u < rounds; ++u) {
      sender.begin(g);
      if (u < updates) send_update(sender, job, seed, u, g.my_pe);
      sender.end();
    }
    __syncthreads();  // `most` is read by all before the next round sets it
  }
}

/// The updates of all PEs' work-items to this PE's words.
__global__ void count_diverged(divergence_job job, uint32_t me, uint64_t* expected, uint64_t* own) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint32_t from = 0; from < job.map.n_pes; ++from)
    for (uint64_t item = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < job.items; item += lanes) {
      const uint64_t seed = divergence_job::seed_of(item, from);
      const uint32_t updates = job.updates_of(seed);
      if (from == me && updates) fetch_add<scope::device>(own, uint64_t{updates});
      for (uint32_t u = 0; u < updates; ++u) {
        const uint64_t ran = divergence_job::random_of(seed, u);
        if (job.map.pe_of(ran, from) == me) fetch_add<scope::device>(&expected[job.map.word_of(ran)], uint64_t{1});
      }
    }
}

inline void divergence(report& r, const options& o, limits& l) {
  measure(l, true, o.table_log2);
  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  const gups_table map(o.table_log2, n_pes, n_pes > 1);  // to other PEs, where there are any
  auto* table = gravel_malloc<uint64_t>(map.words() * sizeof(uint64_t));
  const divergence_job job{map, table, o.messages, o.active, o.most};
  const unsigned all = blocks_to_fill_device(), grid = o.grid ? o.grid : all;
  constexpr int block = lanes_of_block;
  const device_array<uint64_t> expected(map.words()), own(1);
  launch_plain(count_diverged, all, lanes_of_block, job, me, expected.data(), own.data());
  gravel_synchronize();
  const uint64_t updates = own.read();

  const auto measure_way = [&](void (*kernel)(gravel_t, divergence_job), verified& v) {
    const device_array<uint64_t> wrong(1);
    std::vector<double> seconds;
    for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
      fill_with(table, map.words(), poison);
      gravel_barrier_all();
      const double begin = seconds_now();
      gravel_launch(kernel, grid, block, gravel_handle(), job);
      gravel_barrier_all();
      const double took = slowest(seconds_now() - begin);
      if (run) seconds.push_back(took);
      launch_plain(compare_sample, all, lanes_of_block, update_job{map, table, 0}, word_sample{0, 0}, expected.data(),
                   map.words(), wrong.data());
      gravel_synchronize();
      v.checked += map.words();
    }
    v = {gravel_sum_all(v.checked), gravel_sum_all(wrong.read())};
    return median(seconds);
  };
  const limit most = n_pes > 1 ? wire_limit(l, is_peer((gravel_my_pe() + 1) % gravel_n_pes())) : increments_limit(l);
  const double limit_rate = n_pes > 1 ? most.per_s / sizeof(unit) : most.per_s;
  double predicated = 0;
  const struct {
    const char* name;
    void (*kernel)(gravel_t, divergence_job);
  } ways[] = {{"predication", diverge_predicated<block>}, {"direct", diverge_direct}, {"block", diverge_block<block>}};
  for (const auto& way : ways) {
    verified v;
    const double seconds = measure_way(way.kernel, v), rate = static_cast<double>(updates) / seconds;
    if (predicated == 0) predicated = rate;
    r.row({{"way", "way", std::string(way.name)},
           {"work_items", "work-items", o.messages},
           {"active_percent", "active %", uint64_t{o.active}},
           {"messages", "messages", updates},
           {"ms", "ms", seconds * 1e3},
           {"million_messages_per_s", "M msg/s", rate / 1e6},
           {"message_gb_per_s", "message GB/s", rate * sizeof(unit) / 1e9},
           {"to_predication", "/ predication", rate / predicated},
           {"limit", "limit", most.name},
           {"limit_million_per_s", "limit M/s", limit_rate / 1e6},
           {"ratio", "ratio", rate / limit_rate}},
          v);
  }
  gravel_barrier_all();
  gravel_free(table);
}

}  // namespace gravel_bench::perf
