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

namespace gravel_bench::perf {
using namespace gravel::detail;

enum class consume_mode { skip, sum, append, check };

/// The messages that consumers have found, all threads together.
struct consumed_totals {
  uint64_t slots = 0, messages = 0, sum = 0, wrong = 0;
  std::vector<uint64_t> of_sink;  ///< messages, by destination (append and check)
  void add(const consumed_totals& other) {
    slots += other.slots;
    messages += other.messages;
    sum += other.sum;
    wrong += other.wrong;
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
    g.heap_bytes = heap_words * 8;  // nobody writes there
    (by_block_ ? g.block : g.direct) = the_queue();
    g.counters = counters_.data();
    g.error = reinterpret_cast<device_error*>(error_.data());
    return g;
  }
  /// Increments differ by their words, the other operations by their values.
  send_job job(operation op, uint64_t count, uint64_t salt) const {
    return {op, heap_.data(), op == operation::inc ? heap_words - 1 : 0, count, salt, 0, destinations_};
  }
  /// The sum of all messages of a job without salt, modulo 2^64. A salt, a multiple of 2^50, is added to each message.
  uint64_t sum_of_words(const send_job& job) const;
  uint64_t sum_of_salt(const send_job& job) const;

  /// Sends `count` messages through the queue; returns seconds from the launch until the last of them is consumed.
  double transfer(const std::string& scope, unsigned grid, unsigned block, const send_job& job, consume_mode mode,
                  consumed_totals& totals);

 private:
  static queue_shape shape_of(bool by_block, uint32_t slots, uint64_t payload_bytes, uint32_t consumers,
                              uint32_t destinations) {
    if (!by_block) return queue_shape::of_warps(slots ? slots : 8192, consumers);
    return queue_shape::of_blocks(slots ? slots : 4096, payload_bytes, destinations, consumers);
  }
  queue the_queue() const { return queue::in(memory_.data(), state_.data(), shape_); }
  void consume(uint32_t plane, const send_job& job, consume_mode mode, consumed_totals& totals);
  void take(slot_header* slot, const send_job& job, consume_mode mode, consumed_totals& totals, char* packets,
            std::vector<uint32_t>& filled);
  void check_message(const uint32_t* m, const gravel::detail::message_row& row, const send_job& job,
                     consumed_totals& totals);
  /// The words of message i; returns how many.
  static uint32_t words_of(const send_job& job, uint64_t i, uint32_t (&to)[max_compact_words]);

  static constexpr uint64_t packet_bytes = 65536, unknown = ~uint64_t{0}, heap_words = uint64_t{1} << 31;
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

inline double queue_rig::transfer(const std::string& scope, unsigned grid, unsigned block, const send_job& job,
                                  consume_mode mode, consumed_totals& totals) {
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
    with_sending_kernel(scope, block, [&](auto kernel, unsigned shared) {
      launch_with_shared(kernel, grid, block, shared, handle(), job);
    });
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
  for (queue_consumer slots(q, plane);; slots.take_and_release()) {
    for (relax wait; !slots.arrived(); wait.briefly())
      if (slots.next() >= end_.load(std::memory_order_acquire)) return;
    take(q.slot(slots.next()), job, mode, totals, packets.get(), filled);
    ++totals.slots;
  }
}

/// The sum of words that begin at a unit. It should cost less than reading them, so it adds four at a time.
inline uint64_t sum_of(const uint32_t* words, uint32_t n) {
  typedef uint64_t pairs __attribute__((vector_size(sizeof(unit))));
  const auto* const units = reinterpret_cast<const pairs*>(words);
  pairs low{}, high{};
  for (uint32_t u = 0; u < n / 4; ++u) {
    low += units[u] & 0xffffffffu;
    high += units[u] >> 32;
  }
  low += high;
  uint64_t sum = low[0] + low[1];
  for (uint32_t w = n / 4 * 4; w < n; ++w) sum += words[w];
  return sum;
}

inline void queue_rig::take(slot_header* slot, const send_job& job, consume_mode mode, consumed_totals& totals,
                            char* packets, std::vector<uint32_t>& filled) {
  const queue q = the_queue();
  const unit* payload = q.payload(slot);
  const row_kind kind = kind_of(job.op);
  for (uint32_t r = 0; r < slot->n_rows; ++r) {
    const gravel::detail::message_row row = q.rows(slot)[r];
    const uint32_t pe = pe_of_sink(row.sink), words = row.messages * kind.words, bytes = words * 4;
    if (pe >= destinations_ || row.kind != kind || bytes > packet_bytes) {
      ++totals.wrong;
      return;
    }
    const uint32_t* const at = words_at(payload);
    if (mode == consume_mode::append) {
      if (filled[pe] + bytes > packet_bytes) filled[pe] = 0;  // here the packet would leave
      std::memcpy(packets + pe * packet_bytes + filled[pe], at, bytes);
      filled[pe] += bytes;
    } else if (mode == consume_mode::sum) {
      totals.sum += sum_of(at, words);
    } else if (mode == consume_mode::check) {
      for (uint32_t m = 0; m < row.messages; ++m) check_message(at + m * kind.words, row, job, totals);
    }
    payload += row.units();
    totals.messages += row.messages;
    totals.of_sink[pe] += row.messages;
  }
}

inline uint32_t queue_rig::words_of(const send_job& job, uint64_t i, uint32_t (&to)[max_compact_words]) {
  const uint32_t n = kind_of(job.op).words;
  const uint64_t value = job.salt + i;
  for (uint32_t w = 0; w < n; ++w)
    to[w] = w < 2 ? 0 : static_cast<uint32_t>(value >> w % 2 * 32);  // word 0, and values after it
  if (job.op == operation::inc) to[0] = static_cast<uint32_t>(job.word_of(i));
  if (job.op == operation::put32) to[1] = static_cast<uint32_t>(value);
  return n;
}

inline uint64_t queue_rig::sum_of_words(const send_job& job) const {
  uint64_t sum = 0;
  uint32_t words[max_compact_words];
  for (uint64_t i = 0; i < job.count; ++i)
    for (uint32_t n = words_of(job, i, words), w = 0; w < n; ++w) sum += words[w];
  return sum;
}

inline uint64_t queue_rig::sum_of_salt(const send_job& job) const {
  send_job one = job, unsalted = job;
  one.count = unsalted.count = 1;
  unsalted.salt = 0;
  return sum_of_words(one) - sum_of_words(unsalted);
}

/// Every message must be one of the job's, be meant for this sink, and come once.
inline void queue_rig::check_message(const uint32_t* m, const gravel::detail::message_row& row, const send_job& job,
                                     consumed_totals& totals) {
  uint64_t inverse = 1;  // of the odd factor of word_of, modulo 2^32
  for (int round = 0; round < 6; ++round) inverse *= 2 - 0x9E3779B97F4A7C15u * inverse;
  uint64_t i;
  if (job.op == operation::inc) i = m[0] * inverse & (heap_words - 1);
  else if (job.op == operation::put32) i = static_cast<uint32_t>(m[1] - job.salt);
  else i = (m[2] | uint64_t{m[3]} << 32) - job.salt;
  bool right = i < job.count && pe_of_sink(row.sink) == job.pe_of(i) && (row.sink & 1) == 0;
  uint32_t words[max_compact_words];
  for (uint32_t n = words_of(job, i, words), w = 0; w < n; ++w) right &= m[w] == words[w];
  if (right) right = !(seen_[i / 64].fetch_or(uint64_t{1} << i % 64) >> i % 64 & 1);
  totals.wrong += !right;
}

}  // namespace gravel_bench::perf
