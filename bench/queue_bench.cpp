// From producer to consumer: Gravel's queue (lib/base/queue.hpp) between host threads, by size of slots and
// messages and by number of threads, beside an SPSC and an MPMC queue that move the same messages one by one
// (figure 8 of the paper). Every message is read where it arrives, and compared with the sent one.
#include <sched.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <thread>

#include "bench/bench.hpp"
#include "bench/rivals/rival_queues.hpp"
#include "lib/base/error.hpp"
#include "lib/base/queue_consumer.hpp"

using namespace gravel_bench;
using namespace gravel::detail;

namespace {

constexpr size_t ring_bytes = 1 << 20;  // of messages, in each kind of queue

struct shape {
  uint32_t producers, consumers;
  uint64_t messages;  ///< in all, a multiple of producers and of consumers
};

template <uint32_t UNITS>
struct message {
  unit part[UNITS];
};

template <uint32_t UNITS>
message<UNITS> make_message(uint64_t number) {
  message<UNITS> m;
  for (uint32_t u = 0; u < UNITS; ++u) m.part[u] = {{number * UNITS + u, number ^ 0x5555}};
  return m;
}
/// Products, so that a message lost is not made good by others that come twice.
template <uint32_t UNITS>
uint64_t digest(const message<UNITS>& m) {
  uint64_t sum = 0;
  for (const unit& part : m.part) sum += part.word[0] * part.word[1];
  return sum;
}

/// Binds each thread to a processor of its own, as far as there are enough: the system places short-lived threads by
/// chance.
void pin(uint32_t thread) {
  cpu_set_t allowed, chosen;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  uint32_t skip = thread % static_cast<uint32_t>(CPU_COUNT(&allowed));
  int processor = 0;
  while (!CPU_ISSET(processor, &allowed) || skip-- > 0) ++processor;
  CPU_ZERO(&chosen);
  CPU_SET(processor, &chosen);
  sched_setaffinity(0, sizeof chosen, &chosen);  // without it the numbers only vary more
}

/// Runs produce(first, last) and consume(index), which returns the digests of what it got, on threads of
/// their own. Returns seconds.
template <uint32_t UNITS, class Produce, class Consume>
double run_threads(const shape& s, Produce produce, Consume consume) {
  std::latch start(s.producers + s.consumers + 1);
  std::atomic<uint64_t> got{0};
  std::vector<std::thread> threads;
  const uint64_t each = s.messages / s.producers;
  for (uint32_t p = 0; p < s.producers; ++p)
    threads.emplace_back([&, p] {
      pin(p);
      start.arrive_and_wait();
      produce(p * each, (p + 1) * each);
    });
  for (uint32_t c = 0; c < s.consumers; ++c)
    threads.emplace_back([&, c] {
      pin(s.producers + c);
      start.arrive_and_wait();
      got += consume(c);
    });
  start.arrive_and_wait();
  const double begin = seconds_now();
  for (std::thread& thread : threads) thread.join();
  const double seconds = seconds_now() - begin;
  uint64_t sent = 0;
  for (uint64_t n = 0; n < s.messages; ++n) sent += digest(make_message<UNITS>(n));
  if (got != sent) fail("what arrived is not what was sent: {:#x} where {:#x} was expected", got.load(), sent);
  return seconds;
}

template <uint32_t UNITS>
double gravel_seconds(const shape& s, uint32_t slot_bytes) {
  const queue_shape sizes{static_cast<uint32_t>(ring_bytes / slot_bytes), 64, slot_bytes / uint32_t{sizeof(unit)},
                          s.consumers};
  const bench_memory memory(sizes.bytes());
  std::memset(memory.data(), 0, sizeof(queue_control));
  queue_state state{};
  const queue q = queue::in(memory.data(), &state, sizes);
  const uint32_t capacity = sizes.payload_units / UNITS;
  const uint64_t each = s.messages / s.producers, total = s.producers * ((each + capacity - 1) / capacity);

  const auto produce = [&](uint64_t number, uint64_t last) {
    while (number != last) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(capacity, last - number));
      const uint64_t ticket = q.claim();
      slot_header* slot = q.slot(ticket);
      auto* to = reinterpret_cast<message<UNITS>*>(q.payload(slot));
      for (uint32_t i = 0; i < count; ++i) to[i] = make_message<UNITS>(number + i);
      q.rows(slot)[0] = {wide_kind(UNITS), 0, count};
      q.publish(ticket, slot, 1, count * UNITS);
      number += count;
    }
  };
  // As a plane does: the tickets of its class, in order, alone.
  const auto consume = [&](uint32_t plane) {
    uint64_t sum = 0;
    slot_table table(sizes.max_rows);
    for (queue_consumer taken(q, plane); taken.next() < total; taken.take_and_release()) {
      for (relax wait; !taken.arrived();) wait();
      if (!taken.read(taken.next(), {1, UNITS}, table)) fail("a corrupt slot arrived");
      const auto* from = reinterpret_cast<const message<UNITS>*>(taken.payload(taken.next()));
      for (uint32_t i = 0; i < table.rows[0].messages; ++i) sum += digest(from[i]);
    }
    return sum;
  };
  return run_threads<UNITS>(s, produce, consume);
}

template <uint32_t UNITS, template <class> class Queue>
double rival_seconds(const shape& s) {
  Queue<message<UNITS>> q(ring_bytes / sizeof(message<UNITS>));
  return run_threads<UNITS>(
      s,
      [&](uint64_t number, uint64_t last) {
        for (; number != last; ++number) q.push(make_message<UNITS>(number));
      },
      [&](uint32_t) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < s.messages / s.consumers; ++i) sum += digest(q.pop());
        return sum;
      });
}

/// Nanoseconds that a cache line takes from one processor to another: what every queue between them is built
/// on. On a virtual machine it may be another one a second later.
double line_ns() {
  constexpr uint64_t rounds = 20'000;
  alignas(64) std::atomic<uint64_t> turn{0};
  const auto play = [&](uint32_t player) {
    pin(player);
    for (uint64_t i = player; i < 2 * rounds; i += 2) {
      for (relax wait; turn.load(std::memory_order_acquire) != i;) wait();
      turn.store(i + 1, std::memory_order_release);
    }
  };
  std::thread other(play, 1);
  const double begin = seconds_now();
  std::thread one(play, 0);
  one.join();
  other.join();
  return (seconds_now() - begin) / (2 * rounds) * 1e9;
}

/// "2x1" -> 2 producers, 1 consumer.
std::pair<uint32_t, uint32_t> parse_threads(const std::string& text) {
  unsigned producers = 0, consumers = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%2ux%2u%n", &producers, &consumers, &end) != 2 || text[end] || !producers ||
      !consumers)
    fail("--threads: '{}' is no PRODUCERSxCONSUMERS, such as 2x1", text);
  return {producers, consumers};
}

}  // namespace

int main(int argc, char** argv) {
  install_terminate_handler();
  bench b("queue", "From producers to consumers: Gravel's queue beside an SPSC and an MPMC queue.",
          {{"queue", "queue"},
           {"slot_kib", "slot KiB"},
           {"message_bytes", "message B"},
           {"producers", "producers"},
           {"consumers", "consumers"},
           {"million_messages_per_s", "M msg/s"},
           {"gb_per_s", "GB/s"},
           {"memcpy_gb_per_s", "memcpy GB/s"},
           {"ratio", "ratio"},
           {"line_ns", "line ns"}});
  uint64_t messages = 8'000'000;
  std::vector<uint32_t> slot_kib{1, 4, 16, 64};
  std::vector<std::string> threads{"1x1", "2x1", "1x2", "2x2"};
  b.app.add_option("--messages", messages, "messages of a run, about")
      .range(uint64_t{1000}, uint64_t{1} << 34)
      .capture_default_str();
  b.app.add_option("--slots", slot_kib, "sizes of slots (payload, KiB)")
      .delimiter(',')
      .one_of({1, 2, 4, 8, 16, 32, 64})
      .capture_default_str();
  b.app.add_option("--threads", threads, "producers x consumers").delimiter(',').capture_default_str();
  b.parse(argc, argv);

  const auto measure = [&]<uint32_t UNITS>(std::integral_constant<uint32_t, UNITS>, shape s) {
    s.messages = (messages / (s.producers * s.consumers) + 1) * s.producers * s.consumers;
    const auto add = [&](const char* name, const nlohmann::ordered_json& kib, uint32_t piece, auto seconds_of) {
      const double limit = memcpy_rate(ring_bytes, ring_bytes, piece) / 1e9;
      const double rate = static_cast<double>(s.messages) / b.median_of(seconds_of) / 1e6;
      const double bytes = rate * UNITS * sizeof(unit) / 1e3;
      b.row({name, kib, UNITS * sizeof(unit), s.producers, s.consumers, rate, bytes, limit, bytes / limit, line_ns()});
    };
    for (uint32_t kib : slot_kib) add("gravel", kib, kib * 1024, [&] { return gravel_seconds<UNITS>(s, kib * 1024); });
    // One message is no piece to copy at once: their limit is that of large pieces.
    if (s.producers == 1 && s.consumers == 1)
      add("spsc", nullptr, 65536, [&] { return rival_seconds<UNITS, spsc_queue>(s); });
    add("mpmc", nullptr, 65536, [&] { return rival_seconds<UNITS, mpmc_queue>(s); });
  };
  for (const std::string& text : threads) {
    const auto [producers, consumers] = parse_threads(text);
    const shape s{producers, consumers, 0};
    measure(std::integral_constant<uint32_t, 1>(), s);
    measure(std::integral_constant<uint32_t, 2>(), s);
    measure(std::integral_constant<uint32_t, 4>(), s);
  }
  b.finish();
}
