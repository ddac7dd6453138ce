// p_bw, atomic_bw, am_rate: how many messages of one kind a PE sends to another in a second. Timed from the launch
// until all PEs' messages are applied.
#pragma once
#include <bit>

#include "bench/perf/limits.cuh"
#include "bench/perf/options.hpp"
#include "bench/perf/report.hpp"
#include "bench/perf/send.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

inline int destination_of(const options& o, int pe) { return o.to == "self" ? pe : (pe + 1) % gravel_n_pes(); }
inline int source_of(const options& o, int pe) {
  return o.to == "self" ? pe : (pe + gravel_n_pes() - 1) % gravel_n_pes();
}
inline uint64_t salt_of(int pe) { return static_cast<uint64_t>(pe + 1) << 40; }

/// True if messages to that PE go into a ring in its memory.
inline bool is_peer(int pe) {
  const gravel_t g = gravel_handle();
  if (pe == gravel_my_pe() || !g.peers) return false;
  gravel::detail::peer_link link;
  gravel_copy(&link, g.peers + pe, sizeof(link));
  return link.ring.slots != nullptr;
}
inline std::string name_of_target(const options& o) { return destination_of(o, 0) == 0 ? "self" : "next"; }

struct measured {
  timed_runs seconds;
  verified check;
};

/// Messages of a row: fewer where each has a slot of its own. A power of two.
inline uint64_t count_of(const options& o, const std::string& scope) {
  return std::max<uint64_t>(o.messages / (scope == "thread" ? 32 : 1), 1);
}

/// Words in which these messages count: fewer than messages, or one for each.
inline uint64_t words_of(const options& o, operation op, uint64_t count) {
  return op == operation::put ? count : std::min(count, uint64_t{1} << o.table_log2);
}

/// Every word of this PE is written by exactly one message (puts), or counted up by as many as the others (the rest).
/// Collective.
inline measured run_messages(const options& o, operation op, const std::string& scope) {
  const int me = gravel_my_pe();
  const uint64_t count = count_of(o, scope);
  const uint64_t n_words = words_of(o, op, count);
  void* before = o.offset_mib ? gravel_malloc(o.offset_mib << 20) : nullptr;
  auto* words = gravel_malloc<uint64_t>(n_words * sizeof(uint64_t));
  const send_job job{op, words, n_words - 1, count, salt_of(me), static_cast<uint32_t>(destination_of(o, me)), 0};
  send_job arriving = job;
  arriving.salt = salt_of(source_of(o, me));
  const device_array<uint64_t> wrong(1);
  const unsigned grid = o.grid ? o.grid : blocks_for(count);
  measured result;
  std::vector<double> seconds;
  for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
    fill_with(words, n_words, poison);
    gravel_barrier_all();
    const double begin = seconds_now();
    with_sending_kernel(scope, lanes_of_block, [&](auto kernel, unsigned) {
      gravel_launch(kernel, grid, lanes_of_block, gravel_handle(), job);
    });
    gravel_barrier_all();
    const double took = slowest(seconds_now() - begin);
    if (run) seconds.push_back(took);
    if (op == operation::put) launch_plain(check_puts, grid, lanes_of_block, arriving, wrong.data());
    else launch_plain(check_words, grid, lanes_of_block, words, n_words, poison + count / n_words, wrong.data());
    gravel_synchronize();
    result.check.checked += n_words;
  }
  result.seconds = timed_runs::of(seconds);
  result.check = {gravel_sum_all(result.check.checked), gravel_sum_all(wrong.read())};
  gravel_barrier_all();
  gravel_free(words);
  if (before) gravel_free(before);
  return result;
}

/// `value_bytes`: what the program sends; the message carries it and an index or a first word, or, of active messages,
/// nothing else.
inline void rate_row(report& r, const options& o, const limits& l, operation op, const char* name,
                     uint64_t value_bytes) {
  for (const std::string& scope : o.scopes) {
    const measured m = run_messages(o, op, scope);
    const bool is_self = destination_of(o, 0) == 0;
    const uint64_t count = count_of(o, scope);
    const double rate = static_cast<double>(count) / m.seconds.median;
    const uint64_t message = message_bytes(op);
    // The time ends when the data is in the destination's memory, by every way.
    limit most = is_self ? increments_limit(l) : wire_limit(l, is_peer(destination_of(o, gravel_my_pe())));
    double limit_rate = is_self ? most.per_s : most.per_s / static_cast<double>(message);
    if (op != operation::put && l.increments > 0 && l.increments < limit_rate) {
      most = increments_limit(l);
      limit_rate = l.increments;
    }
    r.row({{"operation", "operation", std::string(name)},
           {"scope", "scope", scope},
           {"to", "to", name_of_target(o)},
           {"value_bytes", "value B", value_bytes},
           {"message_bytes", "message B", message},
           {"messages", "messages", count},
           {"table_log2", "table log2", uint64_t{std::bit_width(words_of(o, op, count)) - 1u}},
           {"offset_mib", "offset MiB", o.offset_mib},
           {"ms", "ms", m.seconds.median * 1e3},
           {"ms_least", "least", m.seconds.least * 1e3},
           {"ms_most", "most", m.seconds.most * 1e3},
           {"million_messages_per_s", "M msg/s", rate / 1e6},
           {"value_gb_per_s", "value GB/s", rate * static_cast<double>(value_bytes) / 1e9},
           {"message_gb_per_s", "message GB/s", rate * static_cast<double>(message) / 1e9},
           {"limit", "limit", most.name},
           {"limit_million_per_s", "limit M/s", limit_rate / 1e6},
           {"ratio", "ratio", rate / limit_rate}},
          m.check);
  }
}

inline void p_bw(report& r, const options& o, limits& l) {
  measure(l, true, own_table_log2);
  rate_row(r, o, l, operation::put, "put", 8);
}
inline void atomic_bw(report& r, const options& o, limits& l) {
  measure(l, true, std::min(o.table_log2, own_table_log2));
  rate_row(r, o, l, operation::inc, "inc", 8);
}
inline void am_rate(report& r, const options& o, limits& l) {
  measure(l, true, std::min(o.table_log2, own_table_log2));
  rate_row(r, o, l, operation::am8, "am", 8);
  rate_row(r, o, l, operation::am24, "am", 24);
  rate_row(r, o, l, operation::am48, "am", 48);
  rate_row(r, o, l, operation::am256, "am", 256);
}

}  // namespace gravel_bench::perf
