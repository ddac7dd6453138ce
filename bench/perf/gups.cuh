// gups and packet_size: random 8-byte increments of a table over all PEs. The table begins poisoned; afterwards the sum
// of all words must be right, and a sample of the words (all of a small table) is compared with the updates of all PEs,
// which every PE draws again for itself.
#pragma once
#include "bench/perf/limits.cuh"
#include "bench/perf/options.hpp"
#include "bench/perf/rate.cuh"
#include "bench/perf/report.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;

template <operation OP, class Sender>
GRAVEL_DEVICE void send_updates(Sender& s, const update_job& job, uint32_t me) {
  const lane_share mine(job.count);
  uint64_t ran = random_stream::at(me * job.count + mine.first);
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    ran = random_stream::next(ran);
    const uint64_t word = job.map.word_of(ran);
    const int pe = static_cast<int>(job.map.pe_of(ran, me));
    auto* const half = reinterpret_cast<uint32_t*>(&job.table[word]);
    if constexpr (OP == operation::inc) s.inc(&job.table[word], pe);
    else if constexpr (OP == operation::add32) s.add(half, 1u, pe);
    else if constexpr (OP == operation::min32) s.min(half, job.value_of(word), pe);
    else s.put(half, job.value_of(word), pe);
  }
}
template <operation OP, int PEERS>
__global__ void __launch_bounds__(lanes_of_block, 6) update_by_block(gravel_t g, update_job job) {
  __shared__ gravel_block_sender<lanes_of_block, 1024, PEERS> sender;
  sender.begin(g);
  send_updates<OP>(sender, job, g.my_pe);
  sender.end();
}
template <operation OP>
__global__ void update_by_warp(gravel_t g, update_job job) {
  direct sender{g};
  send_updates<OP>(sender, job, g.my_pe);
}
using update_kernel = void (*)(gravel_t, update_job);
template <operation OP>
update_kernel update_kernel_of(bool by_block, bool many) {
  if (!by_block) return update_by_warp<OP>;
  return many ? update_by_block<OP, 3> : update_by_block<OP, 1>;
}
inline update_kernel update_kernel_of(operation op, bool by_block, bool many) {
  switch (op) {
    case operation::add32: return update_kernel_of<operation::add32>(by_block, many);
    case operation::min32: return update_kernel_of<operation::min32>(by_block, many);
    case operation::put32: return update_kernel_of<operation::put32>(by_block, many);
    default: return update_kernel_of<operation::inc>(by_block, many);
  }
}
inline operation update_operation(const std::string& name) {
  if (name == "add32") return operation::add32;
  if (name == "min32") return operation::min32;
  return name == "put32" ? operation::put32 : operation::inc;
}

inline measured run_updates(const options& o, operation op, bool remote_only, const std::string& scope) {
  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  const gups_table map(o.table_log2, n_pes, remote_only);
  void* before = o.offset_mib ? gravel_malloc(o.offset_mib << 20) : nullptr;
  auto* table = gravel_malloc<uint64_t>(map.words() * sizeof(uint64_t));
  const update_job job{map, table, o.updates, op};
  const bool adds = job.op == operation::inc || job.op == operation::add32;
  const unsigned fill_grid = blocks_to_fill_device(), grid = o.grid ? o.grid : blocks_for(o.updates);
  const word_sample sample{o.table_log2 > 20 ? o.table_log2 - 20 : 0, o.table_log2 > 20 ? (5 + me) % 2 : 0};
  const uint64_t sampled = map.words() >> sample.shift;
  const device_array<uint64_t> expected(sampled), wrong(1);
  launch_plain(count_updates, 4 * fill_grid, lanes_of_block, job, sample, me, expected.data());
  gravel_synchronize();

  measured result;
  std::vector<double> seconds;
  uint64_t wrong_sums = 0;
  for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
    fill_with(table, map.words(), poison);
    gravel_barrier_all();
    const double begin = seconds_now();
    gravel_launch(update_kernel_of(job.op, scope == "block", n_pes > 2), grid, lanes_of_block, gravel_handle(), job);
    gravel_barrier_all();
    const double took = slowest(seconds_now() - begin);
    if (run) seconds.push_back(took);
    if (adds) wrong_sums += gravel_sum_all(sum_of(table, map.words()) - poison * map.words()) != o.updates * n_pes;
    launch_plain(compare_sample, fill_grid, lanes_of_block, job, sample, expected.data(), sampled, wrong.data());
    gravel_synchronize();
    result.check.checked += sampled;
  }
  result.seconds = timed_runs::of(seconds);
  result.check = {gravel_sum_all(result.check.checked), gravel_sum_all(wrong.read()) + wrong_sums};
  gravel_barrier_all();
  gravel_free(table);
  if (before) gravel_free(before);
  return result;
}

inline void gups_row(report& r, const options& o, const limits& l, const std::string& name, const std::string& scope,
                     bool remote_only, bool with_packet_size) {
  const operation op = update_operation(name);
  const measured m = run_updates(o, op, remote_only, scope);
  const double rate = static_cast<double>(o.updates) / m.seconds.median;
  const limit most = remote_only ? wire_limit(l, is_peer((gravel_my_pe() + 1) % gravel_n_pes())) : increments_limit(l);
  const double message = static_cast<double>(message_bytes(op));
  const double limit_rate = remote_only ? std::min(most.per_s / message, l.increments) : most.per_s;
  std::vector<cell> cells{{"operation", "operation", name},
                          {"targets", "targets", std::string(remote_only ? "remote" : "uniform")}};
  if (with_packet_size) cells.push_back({"packet_bytes", "packet B", current_settings().packet_size});
  for (const cell& c : std::initializer_list<cell>{
           {"scope", "scope", scope},
           {"table_log2", "table log2", uint64_t{o.table_log2}},
           {"offset_mib", "offset MiB", o.offset_mib},
           {"updates", "updates", o.updates},
           {"ms", "ms", m.seconds.median * 1e3},
           {"ms_least", "least", m.seconds.least * 1e3},
           {"ms_most", "most", m.seconds.most * 1e3},
           {"million_updates_per_s", "M upd/s", rate / 1e6},
           {"message_bytes", "message B", static_cast<uint64_t>(message)},
           {"message_gb_per_s", "message GB/s", rate * message / 1e9},
           {"gups_of_job", "GUPS (job)", rate * gravel_n_pes() / 1e9},
           {"limit", "limit", limit_rate == l.increments ? increments_limit(l).name : most.name},
           {"limit_million_per_s", "limit M/s", limit_rate / 1e6},
           {"ratio", "ratio", rate / limit_rate}})
    cells.push_back(c);
  r.row(std::move(cells), m.check);
}
inline void gups_rows(report& r, const options& o, const limits& l, bool with_packet_size) {
  for (const std::string& name : o.operations)
    for (const std::string& scope : o.scopes)
      for (bool remote_only : {true, false}) {
        if (scope == "thread" || o.targets == (remote_only ? "uniform" : "remote") ||
            (remote_only && gravel_n_pes() == 1))
          continue;
        gups_row(r, o, l, name, scope, remote_only, with_packet_size);
      }
}

inline void gups(report& r, const options& o, limits& l) {
  measure(l, true, o.table_log2);
  gups_rows(r, o, l, false);
}
inline void packet_size(report& r, const options& o, limits& l) {
  measure(l, true, o.table_log2);
  gups_rows(r, o, l, true);
}

}  // namespace gravel_bench::perf
