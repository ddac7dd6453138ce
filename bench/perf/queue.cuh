// queue and destinations: the producer/consumer queue alone, from a kernel to threads of the host (figures 6 and 8 of
// the paper). Each row is checked twice. An untimed run checks every message: it was sent, it comes in a row for its
// own sink, and it comes once. The timed runs check the count, the sum of all words, and the counts of the sinks.
#pragma once
#include "bench/perf/limits.cuh"
#include "bench/perf/options.hpp"
#include "bench/perf/queue_rig.cuh"
#include "bench/perf/report.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;

inline operation queue_operation(unsigned bytes) {
  switch (bytes) {
    case 4: return operation::inc;
    case 8: return operation::put32;
    case 16: return operation::am16;
    case 24: return operation::am24;
    default: return operation::am48;
  }
}

struct queue_row {
  std::string scope;
  unsigned block, message_bytes, threads, destinations;
};

inline void measure_queue(report& r, const options& o, const limits& l, const queue_row& row) {
  const bool by_block = row.scope == "block";
  queue_rig rig(by_block, o.slots, o.slot_size, row.threads, row.destinations);
  const operation op = queue_operation(row.message_bytes);
  // As many bytes with each size; single messages are slow.
  const uint64_t count = std::max<uint64_t>(o.messages * 16 / row.message_bytes / (row.scope == "thread" ? 32 : 1), 1);
  // As many threads for a message, whatever the size of the blocks.
  const unsigned grid = o.grid ? o.grid : std::max(1u, blocks_for(count) * lanes_of_block / row.block);
  verified v;

  const send_job small = rig.job(op, std::min<uint64_t>(count, 1 << 20), uint64_t{1} << 50);
  consumed_totals polled;
  rig.transfer(row.scope, grid, row.block, small, consume_mode::check, polled);
  v.checked += small.count;
  v.wrong += polled.wrong + (polled.messages != small.count);

  consume_mode mode = consume_mode::append;
  if (o.consume == "skip") mode = consume_mode::skip;
  else if (o.consume == "sum") mode = consume_mode::sum;
  std::vector<uint64_t> expected(row.destinations);
  const send_job job = rig.job(op, count, 0);
  if (mode == consume_mode::append)
    for (uint64_t i = 0; i < count; ++i) ++expected[job.pe_of(i)];
  const uint64_t unsalted = mode == consume_mode::sum ? rig.sum_of_words(job) : 0;
  std::vector<double> seconds;
  consumed_totals last;
  for (unsigned run = 0; run <= o.repeat; ++run) {  // the first one warms up
    send_job now = job;
    now.salt = uint64_t{run + 2} << 50;  // so that what an earlier run left is not taken for this one's
    consumed_totals totals;
    gravel_barrier_all();
    const double took = rig.transfer(row.scope, grid, row.block, now, mode, totals);
    if (run) seconds.push_back(slowest(took));
    v.wrong += totals.wrong + (totals.messages != count);
    if (mode == consume_mode::sum) v.wrong += totals.sum != unsalted + count * rig.sum_of_salt(now);
    if (mode == consume_mode::append) v.wrong += totals.of_sink != expected;
    v.checked += count;
    last = totals;
  }
  gravel_barrier_all();
  v = {gravel_sum_all(v.checked), gravel_sum_all(v.wrong)};

  const timed_runs took = timed_runs::of(seconds);
  const double rate = static_cast<double>(count) / took.median;
  const uint64_t message = row.message_bytes;
  const limit most = stores_limit(l);
  r.row({{"scope", "scope", row.scope},
         {"block", "block", uint64_t{row.block}},
         {"grid", "grid", uint64_t{grid}},
         {"message_bytes", "message B", message},
         {"destinations", "dest.", uint64_t{row.destinations}},
         {"slot_bytes", "slot B", by_block ? o.slot_size : 32 * message},
         {"consumers", "consumers", uint64_t{row.threads}},
         {"consume", "consume", o.consume},
         {"messages", "messages", count},
         {"messages_per_slot", "msg/slot",
          static_cast<double>(last.messages) / static_cast<double>(std::max<uint64_t>(last.slots, 1))},
         {"ms", "ms", took.median * 1e3},
         {"ms_least", "least", took.least * 1e3},
         {"ms_most", "most", took.most * 1e3},
         {"million_messages_per_s", "M msg/s", rate / 1e6},
         {"gb_per_s", "GB/s", rate * static_cast<double>(message) / 1e9},
         {"limit", "limit", most.name},
         {"limit_gb_per_s", "limit GB/s", most.per_s / 1e9},
         {"ratio", "ratio", rate * static_cast<double>(message) / most.per_s}},
        v);
}

inline void queue_rates(report& r, const options& o, limits& l) {
  measure(l, true, 0);
  for (const std::string& scope : o.scopes)
    for (unsigned bytes : o.message_bytes)
      for (unsigned threads : o.threads)
        for (unsigned destinations : o.destinations)
          for (unsigned block : o.blocks) measure_queue(r, o, l, {scope, block, bytes, threads, destinations});
}

}  // namespace gravel_bench::perf
