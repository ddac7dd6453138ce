// A queue of its own, as a PE has one, without an aggregator: kernels on one side, host threads on the other.
//
// Slots lie in pinned host memory, the producers' words in device memory. The handle for the kernels is made by hand:
// it names as many PEs as there shall be destinations, so the public block sender and the direct sends run unchanged.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "bench/perf/send.cuh"
#include "lib/base/queue_consumer.hpp"

namespace gravel::perf {

enum class consume_mode { skip, sum, append, check };

/// What consumers found, all threads together.
struct consumed_totals {
  uint64_t slots = 0, messages = 0, sum = 0, wrong = 0;
  std::vector<uint64_t> of_sink;  ///< messages, by destination (append and check)
  void add(const consumed_totals& other) {
    slots += other.slots, messages += other.messages, sum += other.sum, wrong += other.wrong;
    for (size_t i = 0; i < other.of_sink.size(); ++i) of_sink[i] += other.of_sink[i];
  }
};

class queue_rig {
 public:
  /// `by_block`: slots of thread blocks, of `payload_bytes`; otherwise those of warps.
  queue_rig(bool by_block, uint32_t slots, uint64_t payload_bytes, uint32_t consumers, uint32_t destinations)
      : by_block_(by_block),
        destinations_(destinations),
        shape_(shape_of(by_block, slots, payload_bytes, consumers, destinations)),
        memory_(shape_.bytes()),
        state_(1),
        counters_(1),
        error_(4096),
        heap_(8) {
    std::memset(memory_.data(), 0, sizeof(queue_control));
    const queue q = the_queue();
    for (uint64_t s = 0; s < shape_.slots; ++s) q.slot(s)->published = 0;  // all else stays poisoned
    std::memset(error_.data(), 0, error_.size());
  }

  gravel_t handle() const {
    gravel_t g{};
    g.n_pes = destinations_;
    g.stamp = valid_stamp;
    g.handlers = handler_set::all();  // nobody applies what is sent
    g.heap = reinterpret_cast<char*>(heap_.data());
    g.heap_bytes = 64;
    (by_block_ ? g.block : g.direct) = the_queue();
    g.counters = counters_.data();
    g.error = reinterpret_cast<device_error*>(error_.data());
    return g;
  }
  send_job job(operation op, uint64_t count, uint64_t salt) const { return {op, heap_.data(), 0, count, salt, 0, destinations_}; }

  /// Sends `count` messages through the queue; returns seconds from the launch until the last of them is consumed.
  double transfer(const std::string& scope, unsigned grid, unsigned block, const send_job& job, consume_mode mode, consumed_totals& totals);

 private:
  static queue_shape shape_of(bool by_block, uint32_t slots, uint64_t payload_bytes, uint32_t consumers, uint32_t destinations) {
    if (!by_block) return queue_shape::of_warps(slots ? slots : 2048, consumers);
    return queue_shape::of_blocks(slots ? slots : 4096, payload_bytes, destinations, consumers);
  }
  queue the_queue() const { return queue::in(memory_.data(), state_.data(), shape_); }
  void consume(uint32_t plane, const send_job& job, consume_mode mode, consumed_totals& totals);
  void take(slot_header* slot, const send_job& job, consume_mode mode, consumed_totals& totals, char* packets,
            std::vector<uint32_t>& filled);
  void check_message(const unit* m, const gravel::message_row& row, const send_job& job, consumed_totals& totals);

  static constexpr uint64_t packet_bytes = 65536, unknown = ~uint64_t{0};
  bool by_block_;
  uint32_t destinations_;
  queue_shape shape_;
  pinned_memory memory_;
  device_array<queue_state> state_;
  device_array<device_counters> counters_;
  pinned_memory error_;
  device_array<uint64_t> heap_;
  uint64_t begin_ = 0;                             ///< tickets of earlier runs
  std::atomic<uint64_t> end_{unknown};             ///< tickets of this run, once its kernel has ended
  std::unique_ptr<std::atomic<uint64_t>[]> seen_;  ///< check: one bit of each message
};

inline double queue_rig::transfer(const std::string& scope, unsigned grid, unsigned block, const send_job& job, consume_mode mode,
                                  consumed_totals& totals) {
  end_ = unknown;
  if (mode == consume_mode::check) seen_ = std::make_unique<std::atomic<uint64_t>[]>(job.count / 64 + 1);
  totals.of_sink.assign(destinations_, 0);
  std::mutex lock;
  std::atomic<uint32_t> ready{0};
  std::vector<std::thread> threads;
  for (uint32_t plane = 0; plane < shape_.n_planes; ++plane)
    threads.emplace_back([&, plane] {
      consumed_totals mine;
      mine.of_sink.assign(destinations_, 0);
      ++ready;
      consume(plane, job, mode, mine);
      std::lock_guard guard(lock);
      totals.add(mine);
    });
  while (ready != threads.size()) std::this_thread::yield();
  const double begin = seconds_now();
  std::exception_ptr failure;
  try {
    with_sending_kernel(scope, block,
                        [&](auto kernel, unsigned shared) { launch_with_shared(kernel, grid, block, shared, handle(), job); });
    gravel_synchronize();
    begin_ = state_.read().tickets;
  } catch (...) {
    failure = std::current_exception();
  }
  end_ = begin_;
  for (std::thread& thread : threads) thread.join();
  const double seconds = seconds_now() - begin;
  if (failure) std::rethrow_exception(failure);
  const auto* error = reinterpret_cast<const device_error*>(error_.data());
  if (error->code) fail_text("a kernel of the queue's measurement reported error " + std::to_string(error->code));
  return seconds;
}

/// As a plane of the aggregator does (host/aggregator/plane.cpp): the tickets of its class, in order, alone.
inline void queue_rig::consume(uint32_t plane, const send_job& job, consume_mode mode, consumed_totals& totals) {
  const queue q = the_queue();
  std::unique_ptr<char[]> packets(mode == consume_mode::append ? new char[packet_bytes * destinations_] : nullptr);
  std::vector<uint32_t> filled(destinations_, 0);
  for (queue_consumer slots(q, plane);; slots.release()) {
    slot_header* slot;
    for (relax wait; !(slot = slots.arrived()); wait.briefly())
      if (slots.next() >= end_.load(std::memory_order_acquire)) return;
    take(slot, job, mode, totals, packets.get(), filled);
    ++totals.slots;
  }
}

inline void queue_rig::take(slot_header* slot, const send_job& job, consume_mode mode, consumed_totals& totals, char* packets,
                            std::vector<uint32_t>& filled) {
  const queue q = the_queue();
  const unit* payload = q.payload(slot);
  if (mode == consume_mode::sum) {
    uint64_t sum[2] = {0, 0};
    for (uint32_t u = 0; u < slot->n_units; ++u) sum[0] += payload[u].word[0], sum[1] += payload[u].word[1];
    totals.sum += sum[0] + sum[1];
    totals.messages += slot->n_units / units_of(job.op);
    return;
  }
  if (mode == consume_mode::skip) {
    totals.messages += slot->n_units / units_of(job.op);
    return;
  }
  for (uint32_t r = 0; r < slot->n_rows; ++r) {
    const gravel::message_row row = q.rows(slot)[r];
    const uint32_t pe = pe_of_sink(row.sink), bytes = uint32_t{row.messages} * row.units * uint32_t{sizeof(unit)};
    if (pe >= destinations_ || row.units != units_of(job.op) || bytes > packet_bytes) {
      ++totals.wrong;
      return;
    }
    if (mode == consume_mode::append) {
      if (filled[pe] + bytes > packet_bytes) filled[pe] = 0;  // here the packet would leave
      std::memcpy(packets + pe * packet_bytes + filled[pe], payload, bytes);
      filled[pe] += bytes;
    } else {
      for (uint32_t m = 0; m < row.messages; ++m) check_message(payload + m * row.units, row, job, totals);
    }
    payload += uint32_t{row.messages} * row.units;
    totals.messages += row.messages;
    totals.of_sink[pe] += row.messages;
  }
}

/// Every message must be one of the job's, be meant for this sink, and come once.
inline void queue_rig::check_message(const unit* m, const gravel::message_row& row, const send_job& job, consumed_totals& totals) {
  const uint64_t* word = m->word;
  const uint64_t value = word[job.op == operation::put ? 1 : 2], i = value - job.salt;
  bool right = i < job.count && pe_of_sink(row.sink) == job.pe_of(i) && (row.sink & 1) == 0 &&
               word[0] == (job.op == operation::put    ? make_word0(op::put, static_cast<uint8_t>(value_type::u64), 0)
                           : job.op == operation::am32 ? make_am_word0(handler_id<am32>::value, 24)
                                                       : make_am_word0(handler_id<am64>::value, 48));
  if (job.op != operation::put) {
    right &= word[1] == 0;
    for (uint32_t w = 3; w < (job.op == operation::am32 ? 4u : 7u); ++w) right &= word[w] == value;
    if (job.op == operation::am64) right &= word[7] == 0;
  }
  if (right) right = !(seen_[i / 64].fetch_or(uint64_t{1} << i % 64) >> i % 64 & 1);
  totals.wrong += !right;
}

}  // namespace gravel::perf
