// Tasks in a job: each runs once, sees its payload whole up to the last byte, and raises its signal once; by warps, by
// workers in several blocks, by kernels of their own and on the host; from blocks of kernels, from hosts and from
// tasks; into queues that are full, and into registered buffers; in short and long chains over all PEs; in floods from
// all sides. What cannot be is refused at all PEs, or ends the job with a message that names the sender (arguments of
// this program). One source for the CPU backend and for GPUs.
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#include "lib/base/mix.hpp"
#include "lib/remote_task/task.cuh"
#include "lib/remote_task/task_allreduce.cuh"

using namespace gravel::detail;

namespace {

int failures = 0;
void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s\n", gravel_my_pe(), what.c_str());
}

constexpr uint32_t most = 36000;  ///< bytes of a payload: over `net` some messages

/// Counts of the tasks of one sender: symmetric words that say how often each has run at this PE, and the errors.
struct board {
  uint64_t wrong;
  uint64_t hops, leaves, sum;
  uint32_t times[1];  ///< [sender][number]
};
GRAVEL_BOTH unsigned char byte_of(uint32_t number, uint32_t i) {
  return static_cast<unsigned char>(mix(uint64_t{number} << 32 | i));
}
GRAVEL_BOTH uint32_t bytes_of(uint32_t number) {
  const uint64_t r = mix(number);
  if (r % 4 == 1) return 0;
  return static_cast<uint32_t>(r / 4 % (r % 4 == 0 ? most : 140));
}

/// Every byte of the payload, by the threads of all blocks; the last byte by all of them.
GRAVEL_DEVICE void check_payload(const gravel_task_t& t, board* at, const unsigned char* payload, uint32_t number,
                                 uint32_t tasks) {
  uint64_t wrong = t.bytes != bytes_of(number);
  for (uint32_t i = t.first(); i < t.bytes; i += t.stride()) wrong += payload[i] != byte_of(number, i);
  if (t.bytes) wrong += payload[t.bytes - 1] != byte_of(number, static_cast<uint32_t>(t.bytes) - 1);
  if (wrong) fetch_add<scope::device>(&at->wrong, wrong);
  t.sync();
  if (t.rank() == 0)
    fetch_add<scope::device>(&at->times[static_cast<uint32_t>(t.from) * tasks + number], 1u);  // each block
}
struct by_warp {
  static constexpr const char* name = "by warp";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const unsigned char* payload, uint32_t number,
                                uint32_t tasks) const {
    check_payload(t, at, payload, number, tasks);
  }
};
struct by_blocks {
  static constexpr const char* name = "by blocks";
  static constexpr gravel_task_shape shape{.blocks = 3, .threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const unsigned char* payload, uint32_t number,
                                uint32_t tasks) const {
    check_payload(t, at, payload, number, tasks);
  }
};
struct by_launch {
  static constexpr const char* name = "by launch";
  static constexpr gravel_task_shape shape{.blocks = 2, .threads = 64, .start = GRAVEL_TASK_LAUNCH};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const unsigned char* payload, uint32_t number,
                                uint32_t tasks) const {
    check_payload(t, at, payload, number, tasks);
  }
};
std::atomic<uint64_t> host_wrong{0};
std::vector<std::atomic<uint32_t>>* host_times = nullptr;
struct by_host {
  static constexpr const char* name = "by host";
  static constexpr bool on_host = true;
  void operator()(const gravel_task_t& t, board*, const unsigned char* payload, uint32_t number, uint32_t tasks) const {
    uint64_t wrong = t.bytes != bytes_of(number);
    for (uint32_t i = 0; i < t.bytes; ++i) wrong += payload[i] != byte_of(number, i);
    host_wrong += wrong;
    ++(*host_times)[static_cast<uint32_t>(t.from) * tasks + number];
  }
};

/// Slots with which so many tasks, each of which sends one, find room at any time: all of them may wait at one PE,
/// where one more slot is about to be freed.
uint32_t room_for(uint32_t tasks) { return std::bit_ceil(tasks + 1); }

/// A walk over the PEs: each sends itself on.
struct hop {
  static constexpr const char* name = "hop";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const uint64_t* left, gravel_signal done) const {
    if (t.rank() == 0) fetch_add<scope::device>(&at->hops, uint64_t{1});
    const uint64_t rest = *left;
    if (rest == 0) return;
    const uint64_t one_less = rest - 1;
    const int next = (gravel_my_pe(t.queue.g) + 1) % gravel_n_pes(t.queue.g);
    gravel_task_put<hop>(t, next, at, {{&one_less, 8}}, rest == 1 ? done : gravel_signal{}, done);
  }
};
/// A tree: each sends two, to whatever PEs, until its depth is used up.
struct branch {
  static constexpr const char* name = "branch";
  static constexpr gravel_task_shape shape{.threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const char*, uint32_t depth, uint64_t seed) const {
    if (depth == 0) {
      if (t.rank() == 0) fetch_add<scope::device>(&at->leaves, uint64_t{1});
      return;
    }
    for (uint64_t child = 0; child < 2; ++child) {
      const uint64_t r = mix(seed * 2 + child);
      gravel_task_put<branch>(t, static_cast<int>(r % static_cast<uint64_t>(gravel_n_pes(t.queue.g))), at, {}, {},
                              depth - 1, r);
    }
  }
};
/// For chains: adds its payload and an argument to a word of the target.
struct add {
  static constexpr const char* name = "add";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* target, const uint64_t* payload,
                                uint64_t more) const {
    if (t.rank() == 0) *target += (t.bytes ? *payload : 0) + more;
  }
};
/// For long chains: adds its first argument to the word that came with it. The others must be as far from it as they
/// were sent.
struct relay {
  static constexpr const char* name = "relay";
  static constexpr gravel_task_shape shape{.threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* target, const uint64_t* payload, uint64_t a,
                                uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) const {
    const bool right = b == a + 1 && c == a + 2 && d == a + 3 && e == a + 4 && f == a + 5;
    if (t.rank() == 0) *target = (t.bytes ? *payload : 0) + (right ? a : uint64_t{1} << 40);
  }
};
/// Sends its payload on to a registered buffer of the next PE, more often than there are slots.
struct burst {
  static constexpr const char* name = "burst";
  static constexpr uint32_t times = 3;  ///< one may run where it is sent, with two slots
  static constexpr gravel_task_shape shape{.threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const unsigned char* payload, uint32_t number,
                                uint32_t tasks, gravel_task_buffer into, gravel_signal done) const {
    const int next = (gravel_my_pe(t.queue.g) + 1) % gravel_n_pes(t.queue.g);
    for (uint32_t i = 0; i < times; ++i)
      gravel_task_put<by_warp>(t, next, at, {{payload, t.bytes}, {}, into.at(i * most)}, done, number, tasks);
  }
};
/// Waits until the host of its PE lets it go.
struct slow {
  static constexpr const char* name = "slow";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* gate, const char*) const {
    if (t.rank() == 0)
      for (relax wait; load_acquire(gate) == 0; wait()) {
      }
    t.sync();
  }
};
using queue_type =
    gravel_task_queue<by_warp, by_blocks, by_launch, by_host, hop, branch, add, relay, burst, slow,
                      gravel_accumulate_task<GRAVEL_SUM, float>, gravel_accumulate_task<GRAVEL_MAX, int32_t>>;

/// Puts as late as the protocol allows: the first word of a command long before the others, or the command before the
/// payload, of which the last byte comes last.
struct late_sender {
  const gravel_task_handle& q;
  const gravel_t& g;
};
GRAVEL_DEVICE void pause() {
  relax wait;
  for (int i = 0; i < 20; ++i) wait();
}
/// Thread scope: a block of one thread.
template <class Task, class... A>
GRAVEL_DEVICE void gravel_task_put(const late_sender& late, int pe, board* at, const gravel_payload& p,
                                   gravel_signal done, const A&... arguments) {
  const gravel_task_handle& q = late.q;
  const copy_team team = copy_team::block(q.g);
  const auto to = static_cast<uint32_t>(pe);
  task_order o;
  if (!make_order<Task>(o, q, team, task_start::shaped, pe, at, p, done, arguments...)) return;
  const slot_claim claim = take_ticket(q, to);
  wait_for_slot(q, ring_to_pe(q, to), claim);
  const uint64_t slot = q.memory.slot(ring_from_here(q), claim.ticket),
                 tag = task_tag::make(claim.ticket, o.start, o.sent_words(), o.blocks);
  const uint64_t asleep = q.memory.asleep(to),
                 place = p.into.number ? p.into.offset + p.into.first : slot + sizeof(task_slot);
  char* const heap = mapped_heap(q.g, pe);
  if (!heap) {
    send_command(q.g, o, to, q.memory.at, slot, tag);
    if (o.is_small()) return;
    uint64_t sent = 0;
    for (const gravel_task_source& part : {p.first, p.second})
      for (uint64_t done_of_it = 0; done_of_it < part.bytes;) {
        const uint64_t now = done_of_it + 1 < part.bytes ? part.bytes - done_of_it - 1 : 1;  // the last byte by itself
        pause();
        send_counted(q.g, team, place + sent, static_cast<const char*>(part.data) + done_of_it, now,
                     slot + offsetof(task_slot, arrived), to);
        gravel_flush(q.g);
        sent += now;
        done_of_it += now;
      }
    return;
  }
  if (!o.is_small()) {
    copy_bytes(team, heap + place, static_cast<const char*>(p.first.data), p.first.bytes);
    copy_bytes(team, heap + place + p.first.bytes, static_cast<const char*>(p.second.data), p.second.bytes);
  }
  auto* const words = reinterpret_cast<tagged_word*>(heap + slot);
  thread_fence();
  for (uint32_t i = 0; i < o.sent_words(); ++i, pause()) store_tagged(words + i, word_of(o, o.payload, i), tag);
  full_fence();
  if (load_acquire(reinterpret_cast<const uint64_t*>(q.g.heap + asleep)) != 0) call_workers(q.g, to, q.memory.at, slot);
}

/// What all tasks of each_once have in common. Payloads that a slot cannot hold go into the buffer, each to its place.
struct mailing {
  board* at;
  uint32_t tasks, kinds, slot_bytes;
  gravel_signal done;
  gravel_task_buffer buffer;

  GRAVEL_BOTH uint64_t place(uint32_t pe, uint32_t number) const { return (uint64_t{pe} * tasks + number) * most; }
  GRAVEL_BOTH gravel_task_buffer into(uint32_t pe, uint32_t number) const {
    return bytes_of(number) > slot_bytes ? buffer.at(place(pe, number)) : gravel_task_buffer{};
  }
};
/// Tasks `number` with number % gridDim.x == blockIdx.x, to PE number % PEs, each a quarter of the numbers of each
/// kind.
template <class Sender>
GRAVEL_BOTH void send_one(const Sender& q, const mailing& all, const unsigned char* bytes, uint32_t number) {
  const auto [at, tasks, kinds, slot_bytes, done, buffer] = all;
  const int pe = static_cast<int>(mix(number * 7u) % q.g.n_pes);
  const uint32_t n = bytes_of(number), half = number % 3 ? n / 2 : n;
  const gravel_payload p{{bytes, half}, {bytes + half, n - half}, all.into(q.g.my_pe, number)};
  switch (number % kinds) {
    case 0: gravel_task_put<by_warp>(q, pe, at, p, done, number, tasks); break;
    case 1: gravel_task_put<by_blocks>(q, pe, at, p, done, number, tasks); break;
    case 2: gravel_task_put<by_launch>(q, pe, at, p, done, number, tasks); break;
    default: gravel_task_put<by_host>(q, pe, at, p, done, number, tasks);
  }
}
__global__ void send_all(gravel_task_handle q, mailing all, unsigned char* memory) {
  unsigned char* const mine = memory + blockIdx.x * most;
  const bool is_late = blockDim.x == 1;
  for (uint32_t number = blockIdx.x * 2; number < all.tasks; number += number % 2 ? 2 * gridDim.x - 1 : 1) {
    if (number / 2 % 4 == 3) continue;  // the host's
    for (uint32_t i = threadIdx.x; i < bytes_of(number); i += blockDim.x) mine[i] = byte_of(number, i);
    if (is_late) send_one(late_sender{q, q.g}, all, mine, number);
    else send_one(q, all, mine, number);
  }
}

/// Two reductions of the whole arrays.
__global__ void __launch_bounds__(512) reduce_twice(gravel_task_reducer_handle<float> r) {
  for (int i = 0; i < 2; ++i) {
    gravel_task_allreduce_start(r, 0, r.count);
    gravel_task_allreduce_wait(r);
  }
}

template <class T>
T read(const T* from) {
  T value;
  gravel_copy(&value, from, sizeof(T));
  return value;
}
GRAVEL_BOTH uint32_t runs_of(uint32_t number, uint32_t kinds) {
  if (number % kinds == 1) return 3;
  return number % kinds == 2 ? 2 : 1;
}

/// `tasks` of each PE, by kernels and hosts, to all PEs; those of kernels by blocks of so many `threads`, 1: late.
void each_once(const std::string& what, const gravel_task_queue_options& how, uint32_t tasks, uint32_t kinds,
               unsigned threads = 64) {
  const auto n = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  const uint64_t bytes = sizeof(board) + uint64_t{n} * tasks * 4;
  auto* const at = gravel_malloc<board>(bytes);
  const unsigned grid = 2;
  auto* const memory = gravel_malloc<unsigned char>(grid * most);
  const uint64_t buffer_bytes = how.payload_bytes < most ? uint64_t{n} * tasks * most : 0;
  auto* const buffer = gravel_malloc<unsigned char>(buffer_bytes + 8);
  const gravel_signal done = gravel_new_signal();
  std::vector<std::atomic<uint32_t>> times(n * tasks);
  host_times = &times;
  gravel_barrier_all();
  {
    queue_type queue(how);
    const gravel_task_buffer into = buffer_bytes ? queue.register_buffer(buffer, buffer_bytes) : gravel_task_buffer{};
    const mailing all{at, tasks, kinds, how.payload_bytes, done, into};
    gravel_launch(send_all, grid, threads, queue.handle(), all, memory);
    std::vector<unsigned char> mine(most);
    for (uint32_t number = 6; number < tasks; number += number % 2 ? 7 : 1) {
      for (uint32_t i = 0; i < bytes_of(number); ++i) mine[i] = byte_of(number, i);
      send_one(queue.host_handle(), all, mine.data(), number);
    }
  }
  std::vector<char> all(bytes);
  gravel_copy(all.data(), at, bytes);
  const auto& now = *reinterpret_cast<const board*>(all.data());
  uint64_t here = 0;
  for (uint32_t pe = 0; pe < n; ++pe)
    for (uint32_t number = 0; number < tasks; ++number) {
      const bool mine = mix(number * 7u) % n == me, on_host = number % kinds == 3;
      const uint32_t device = now.times[pe * tasks + number], host = times[pe * tasks + number];
      here += mine;
      expect(device == (mine && !on_host ? runs_of(number, kinds) : 0) && host == (mine && on_host),
             what + ": task " + std::to_string(number) + " of PE " + std::to_string(pe) + " ran " +
                 std::to_string(device) + " and " + std::to_string(host) + " times");
    }
  expect(now.wrong + host_wrong == 0, what + ": " + std::to_string(now.wrong + host_wrong) + " bytes were wrong");
  expect(gravel_read(done) == here,
         what + ": a signal of " + std::to_string(gravel_read(done)) + " for " + std::to_string(here) + " tasks");
  host_times = nullptr;
  gravel_free_signal(done);
  gravel_free(buffer);
  gravel_free(memory);
  gravel_free(at);
}

__global__ void begin_walk(gravel_task_handle q, board* at, uint64_t hops, gravel_signal done) {
  __shared__ uint64_t left;
  if (threadIdx.x == 0) left = hops;
  gravel_task_put<hop>(q, gravel_my_pe(q.g), at, {{&left, 8}}, {}, done);
}
__global__ void begin_tree(gravel_task_handle q, board* at, uint32_t depth) {
  gravel_task_put<branch>(q, (gravel_my_pe(q.g) + 1) % gravel_n_pes(q.g), at, {}, {}, depth, uint64_t{q.g.my_pe} + 1);
}
void walks_and_trees(const gravel_task_queue_options& how, uint64_t hops, uint32_t depth) {
  const auto n = static_cast<uint64_t>(gravel_n_pes());
  auto* const at = gravel_malloc<board>(sizeof(board));
  const gravel_signal done = gravel_new_signal();
  {
    queue_type queue(how);
    gravel_launch(begin_walk, 1, 32, queue.handle(), at, hops, done);
    gravel_wait(done.at(gravel_my_pe()), 1);  // each PE sees the end of one walk
    queue.wait();
    expect(gravel_sum_all(read(&at->hops)) == n * (hops + 1), "a walk: " + std::to_string(read(&at->hops)) + " hops");
    expect(gravel_read(done) == 1, "a walk: its signal is not exact");
    gravel_launch(begin_tree, 1, 64, queue.handle(), at, depth);
  }
  expect(gravel_sum_all(read(&at->leaves)) == n << depth, "a tree: leaves are missing, or there are too many");
  gravel_free_signal(done);
  gravel_free(at);
}

__global__ void begin_chains(gravel_task_handle q, uint64_t* words, gravel_signal first, gravel_signal last) {
  const int me = gravel_my_pe(q.g), n = gravel_n_pes(q.g), a = (me + 1) % n, b = (me + 2) % n;
  uint64_t* const mine = words + 4 * me;
  // 5 into a word of the next PE, that word and 10 into one of the PE after it, and that and 100 back here.
  gravel_make_task<add>(q, a, &mine[0], {}, first, uint64_t{5})
      .then<add>(b, &mine[1], {&mine[0], 8}, {}, uint64_t{10})
      .then<add>(me, &mine[2], {&mine[1], 8}, last, uint64_t{100})
      .put();
}
void chains(const gravel_task_queue_options& how) {
  const auto n = static_cast<uint64_t>(gravel_n_pes());
  auto* const words = gravel_malloc<uint64_t>(n * 4 * 8);
  const gravel_signal first = gravel_new_signal(), last = gravel_new_signal();
  {
    queue_type queue(how);
    gravel_launch(begin_chains, 1, 64, queue.handle(), words, first, last);
    gravel_wait(last, 1);
    const uint64_t here = read(&words[4 * static_cast<uint64_t>(gravel_my_pe()) + 2]);
    expect(here == 115, "a chain brought " + std::to_string(here) + ", not 115");
  }
  expect(gravel_read(first) == 1 && gravel_read(last) == 1, "a chain: signals are not exact");
  gravel_free_signal(first);
  gravel_free_signal(last);
  gravel_free(words);
}

/// A chain of `length` tasks, by turns at all PEs, over cell `g.my_pe` of `cells`. Every fifth payload goes into a
/// registered buffer.
template <class Handle>
GRAVEL_BOTH void send_long_chain(const Handle& q, uint64_t* cells, uint32_t length, gravel_task_buffer buffer,
                                 gravel_signal done, uint64_t* memory, uint32_t words) {
  const int me = gravel_my_pe(q.g), n = gravel_n_pes(q.g);
  uint64_t* const mine = cells + me;
  auto chain = gravel_make_task<add>(q, (me + 1) % n, mine, {}, {}, uint64_t{0}).steps_in(memory, words);
  for (uint32_t i = 1; i < length; ++i) {
    const uint64_t a = i * 10;
    const auto into = i % 5 == 0 ? buffer.at(static_cast<uint64_t>(me) * 8) : gravel_task_buffer{};
    const int pe = (me + 1 + static_cast<int>(i)) % n;
    const auto at_end = i + 1 == length ? done.at(me) : gravel_signal{};
    if (i % 3 == 0) chain.template then<add>(pe, mine, {}, at_end, a);
    else chain.template then<relay>(pe, mine, {mine, 8, into}, at_end, a, a + 1, a + 2, a + 3, a + 4, a + 5);
  }
  chain.put();
}
__global__ void begin_long_chain(gravel_task_handle q, uint64_t* cells, uint32_t length, gravel_task_buffer buffer,
                                 gravel_signal done) {
  __shared__ uint64_t steps[512];
  send_long_chain(q, cells, length, buffer, done, steps, 512);
}
/// The word that a long chain leaves at its last PE. A step that gets no word adds to that which the chain has left at
/// its PE before.
uint64_t end_of_long_chain(uint32_t length, uint32_t n) {
  std::vector<uint64_t> cells(n);
  for (uint32_t i = 1; i < length; ++i) cells[i % n] = (i % 3 == 0 ? cells[i % n] : cells[(i + n - 1) % n]) + i * 10;
  return cells[(length - 1) % n];
}
/// Two chains of each PE at once, by a kernel and by the host.
void long_chains(uint32_t length) {
  const auto n = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  auto* const cells = gravel_malloc<uint64_t>(2 * n * 8);
  auto* const buffer = gravel_malloc<uint64_t>(2 * n * 8);
  const gravel_signal done = gravel_new_signal();
  {
    queue_type queue({.workers = 2, .slots = room_for(2 * n)});
    const gravel_task_buffer into = queue.register_buffer(buffer, 2 * n * 8);
    std::vector<uint64_t> steps(512);
    gravel_launch(begin_long_chain, 1, 64, queue.handle(), cells, length, into, done);
    send_long_chain(queue.host_handle(), cells + n, length, into.at(n * 8), done, steps.data(), 512);
    gravel_wait(done, 2);
  }
  const uint64_t expected = end_of_long_chain(length, n);
  const uint32_t from = (me + 2 * n - length % n) % n;  // whose chains have ended here
  for (const uint64_t here : {read(&cells[from]), read(&cells[n + from])})
    expect(here == expected, "a long chain brought " + std::to_string(here) + ", not " + std::to_string(expected));
  expect(gravel_read(done) == 2, "a long chain: its signal is not exact");
  gravel_free_signal(done);
  gravel_free(buffer);
  gravel_free(cells);
}

__global__ void begin_burst(gravel_task_handle q, board* at, unsigned char* memory, uint32_t number,
                            gravel_task_buffer into, gravel_signal done) {
  for (uint32_t i = threadIdx.x; i < bytes_of(number); i += blockDim.x) memory[i] = byte_of(number, i);
  gravel_task_put<burst>(q, gravel_my_pe(q.g), at, {{memory, bytes_of(number)}}, {}, number, number + 1, into, done);
}
/// Tasks that send payloads into buffers when all slots are taken.
void bursts() {
  const auto n = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  uint32_t number = 0;
  while (bytes_of(number) < 1000 || bytes_of(number) > 4096) ++number;
  auto* const at = gravel_malloc<board>(sizeof(board) + uint64_t{n} * (number + 1) * 4);
  auto* const memory = gravel_malloc<unsigned char>(most);
  auto* const buffer = gravel_malloc<unsigned char>(burst::times * most);
  const gravel_signal done = gravel_new_signal();
  {
    queue_type queue({.workers = 1, .slots = 2});
    const gravel_task_buffer into = queue.register_buffer(buffer, burst::times * most);
    gravel_launch(begin_burst, 1, 64, queue.handle(), at, memory, number, into, done);
    gravel_wait(done, burst::times);
  }
  const uint32_t before = (me + n - 1) % n, runs = read(&at->times[before * (number + 1) + number]);
  expect(runs == burst::times && read(&at->wrong) == 0,
         "a burst: " + std::to_string(runs) + " tasks, " + std::to_string(read(&at->wrong)) + " wrong bytes");
  for (uint32_t i = 0; i < burst::times; ++i)
    expect(read(&buffer[i * most + bytes_of(number) - 1]) == byte_of(number, bytes_of(number) - 1),
           "a burst: a payload does not lie in its buffer");
  gravel_free_signal(done);
  for (void* m : {static_cast<void*>(at), static_cast<void*>(memory), static_cast<void*>(buffer)}) gravel_free(m);
}

void expect_refusal(const char* what, const std::vector<std::string>& words, const std::function<void()>& call);
/// Sums by tasks: by the host of two ranges at once, and by a kernel, one after the other.
void reductions(uint64_t count, uint32_t chains) {
  const int n = gravel_n_pes();
  auto* const to = gravel_malloc<float>(count * sizeof(float));
  auto* const from = gravel_malloc<float>(count * sizeof(float));
  const auto value = [](int factor, uint64_t i) { return static_cast<float>(factor * static_cast<int>(i % 97 + 1)); };
  std::vector<float> mine(count), got(count);
  for (uint64_t i = 0; i < count; ++i) mine[i] = value(gravel_my_pe() + 1, i);
  const auto check = [&](const char* what) {
    gravel_copy(got.data(), to, count * sizeof(float));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) wrong += got[i] != value(n * (n + 1) / 2, i);
    expect(wrong == 0, std::string("a sum by tasks ") + what + ": " + std::to_string(wrong) + " of " +
                           std::to_string(count) + " elements are wrong");
  };
  gravel_copy(from, mine.data(), count * sizeof(float));
  {
    gravel_task_reducer<float> reducer(to, from, count, {.chains = chains, .workers = 2, .slots = 32});
    const uint64_t half = count / 2 + 1;
    reducer.start(0, half);
    reducer.start(half, count - half);
    reducer.wait();
    check("of two ranges");
    gravel_copy(to, mine.data(), count * sizeof(float));
    gravel_launch(reduce_twice, gravel_launch_config{.grid = chains, .block = 64, .cooperative = chains > 1},
                  reducer.handle());
    gravel_synchronize();
    check("twice, in a kernel");
  }
  expect_refusal("a reducer with too few slots", {"2 slots", "4 chains", "need " + std::to_string(4 * n)},
                 [&] { gravel_task_reducer<float>(to, from, count, {.chains = 4, .slots = 2}); });
  if (n > 1)
    expect_refusal("PEs that open different reducers", {"PE 0", std::to_string(count) + " elements", "PE 1"}, [&] {
      gravel_task_reducer<float>(to, from, gravel_my_pe() == 1 ? count - 1 : count, {.slots = 64});
    });
  gravel_free(from);
  gravel_free(to);
}

__global__ void accumulate(gravel_task_handle q, float* sums, int32_t* largest, float* source, int32_t* numbers,
                           uint32_t n, gravel_signal done) {
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    source[i] = static_cast<float>(i);
    numbers[i] = static_cast<int32_t>(i * (q.g.my_pe + 1));
  }
  __syncthreads();
  for (int pe = 0; pe < gravel_n_pes(q.g); ++pe) {
    gravel_task_accumulate(q, pe, sums, source, n, done);
    gravel_task_accumulate<GRAVEL_MAX>(q, pe, largest, numbers, n, done);
  }
}
/// Sums of the kernels and hosts of all PEs, in tasks of 16 elements.
void accumulates() {
  constexpr uint32_t n = 100, pieces = (n + 15) / 16;
  const auto pes = static_cast<uint32_t>(gravel_n_pes());
  auto* const sums = gravel_malloc<float>(n * 4);
  auto* const largest = gravel_malloc<int32_t>(n * 4);
  auto* const source = gravel_malloc<float>(n * 4);
  auto* const numbers = gravel_malloc<int32_t>(n * 4);
  const gravel_signal done = gravel_new_signal();
  const std::vector<float> ones(n, 1.0f);
  {
    queue_type queue({.workers = 2, .slots = 4, .payload_bytes = 64});
    gravel_launch(accumulate, 1, 64, queue.handle(), sums, largest, source, numbers, n, done);
    for (int pe = 0; pe < gravel_n_pes(); ++pe)
      expect(gravel_task_accumulate(queue.host_handle(), pe, sums, ones.data(), n, done) == pieces,
             "accumulates: the number of tasks");
    gravel_wait(done, 3 * pieces * pes);
    std::vector<float> sum(n);
    std::vector<int32_t> most_of_all(n);
    gravel_copy(sum.data(), sums, n * 4);
    gravel_copy(most_of_all.data(), largest, n * 4);
    for (uint32_t i = 0; i < n; ++i)
      expect(sum[i] == static_cast<float>(pes * (i + 1)) && most_of_all[i] == static_cast<int32_t>(i * pes),
             "accumulates: element " + std::to_string(i));
  }
  expect(gravel_read(done) == 3 * pieces * pes, "accumulates: the signal is not exact");
  gravel_free_signal(done);
  for (void* memory :
       {static_cast<void*>(sums), static_cast<void*>(largest), static_cast<void*>(source), static_cast<void*>(numbers)})
    gravel_free(memory);
}

/// Adds to a word of the target.
struct tick {
  static constexpr const char* name = "tick";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* target, const char*, uint64_t more) const {
    if (t.rank() == 0) fetch_add<scope::device>(target, more);
  }
};
using first_queue = gravel_task_queue<tick, hop>;
using second_queue = gravel_task_queue<add, tick>;
__global__ void send_to_both(gravel_task_handle a, gravel_task_handle b, uint64_t* words, uint32_t tasks,
                             gravel_signal done) {
  for (uint32_t i = 0; i < tasks; ++i) {
    const int pe = static_cast<int>((a.g.my_pe + i) % a.g.n_pes);
    gravel_task_put<tick>(a, pe, words, {}, done, uint64_t{1});
    gravel_task_put<tick>(b, pe, words + 1, {}, done, uint64_t{1000});
  }
}
/// The host polls `to` meanwhile, and tasks add to `from`.
__global__ void copy_word(uint64_t* to, const uint64_t* from) { gravel::store_relaxed(to, gravel::load_relaxed(from)); }
/// Kernels in a stream that waits for tasks, again and again; and a word that the stream stores after them.
void streams(uint32_t rounds) {
  const auto n = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  auto* const words = gravel_malloc<uint64_t>((rounds + 2) * 8);
  const gravel_signal done = gravel_new_signal();
  const gravel_stream_t own = gravel_stream_create();
  {
    first_queue queue({.workers = 2, .slots = 4, .payload_bytes = 64});
    for (const gravel_stream_t stream : {own, gravel_stream_t{}}) {
      const uint64_t before = stream == own ? 0 : rounds;
      for (uint64_t i = 0; i < rounds; ++i) {  // long before there is a task
        gravel_wait(done, before + i + 1, stream);
        gravel_launch(copy_word, gravel_launch_config{.grid = 1, .block = 1, .stream = stream}, words + 2 + i, words);
      }
      gravel_stream_write(stream, words + 1, before + 9);
      expect(read(words + 1) < before + 9,
             "a stream did not wait for a task");  // the own one is among those that it waits for
      for (uint64_t i = 0; i < rounds; ++i) {
        gravel_task_put<tick>(queue.host_handle(), static_cast<int>((me + 1) % n), words, {}, done, uint64_t{5});
        gravel_wait_until(gravel_host_handle(), words + 2 + i, GRAVEL_GE,
                          5 * (before + i + 1));  // the kernel after the wait has run
      }
      gravel_wait_until(gravel_host_handle(), words + 1, GRAVEL_GE, before + 9);
      gravel_stream_synchronize(stream);
    }
    expect_refusal("a stream that waits for no signal", {"gravel_stream_wait", "symmetric heap"},
                   [&] { gravel_wait(gravel_signal{}, 1, own); });
    expect_refusal("a stream that stores anywhere", {"gravel_stream_write", "symmetric heap"}, [&] {
      uint64_t here = 0;
      gravel_stream_write(own, &here, 1);
    });
  }
  gravel_stream_destroy(own);
  gravel_free_signal(done);
  gravel_free(words);
}
__global__ void begin_walks(gravel_task_handle q, board* at, uint32_t walks, uint64_t hops, gravel_signal done) {
  __shared__ uint64_t left;
  if (threadIdx.x == 0) left = hops;
  for (uint32_t i = 0; i < walks; ++i)
    gravel_task_put<hop>(q, (gravel_my_pe(q.g) + 1) % gravel_n_pes(q.g), at, {{&left, 8}}, {}, done);
}
__global__ void send_ticks(gravel_task_handle q, uint64_t* word, uint64_t ticks) {
  for (uint64_t i = 0; i < ticks; ++i)
    gravel_task_put<tick>(q, (gravel_my_pe(q.g) + 1) % gravel_n_pes(q.g), word, {}, {}, uint64_t{1});
}
/// Walks whose tasks find all slots taken at each step, since kernels send tasks the same way. Where they wait there is
/// room for all of them.
void crowds(uint64_t hops) {
  const auto n = static_cast<uint64_t>(gravel_n_pes());
  auto* const at = gravel_malloc<board>(sizeof(board));
  auto* const word = gravel_malloc<uint64_t>(8);
  const gravel_signal done = gravel_new_signal();
  constexpr uint32_t walks = 3;
  {
    first_queue queue({.workers = 3, .slots = room_for(walks), .payload_bytes = 64});
    if (gravel_my_pe() == 0) gravel_launch(begin_walks, 1, 32, queue.handle(), at, walks, hops, done);
    gravel_launch(send_ticks, 2, 32, queue.handle(), word, hops);
  }
  expect(gravel_sum_all(read(&at->hops)) == walks * (hops + 1), "a crowd: hops are missing, or there are too many");
  expect(gravel_sum_all(read(word)) == n * 2 * hops, "a crowd: ticks are missing, or there are too many");
  expect(gravel_sum_all(gravel_read(done)) == walks, "a crowd: the signal is not exact");
  gravel_free_signal(done);
  gravel_free(word);
  gravel_free(at);
}
/// Queues open beside each other: each has the tasks, workers and credits that are its own, and closes when it wants.
void side_by_side(uint32_t tasks) {
  const auto n = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  auto* const words = gravel_malloc<uint64_t>(3 * 8);
  auto* const at = gravel_malloc<board>(sizeof(board));
  const gravel_signal done = gravel_new_signal(), walked = gravel_new_signal();
  const auto sums = [&](uint32_t i) { return gravel_sum_all(read(&words[i])); };
  {
    const uint32_t slots = room_for(static_cast<uint32_t>(n));  // for the walks below
    auto a =
        std::make_unique<first_queue>(gravel_task_queue_options{.workers = 2, .slots = slots, .payload_bytes = 64});
    second_queue b({.workers = 1, .slots = 2, .payload_bytes = 128});
    gravel_launch(send_to_both, 2, 64, a->handle(), b.handle(), words, tasks, done);
    gravel_task_put<tick>(a->host_handle(), static_cast<int>((me + 1) % n), words, {}, done, uint64_t{1});
    gravel_task_put<tick>(b.host_handle(), static_cast<int>((me + 1) % n), words + 1, {}, done, uint64_t{1000});
    if (n > 1)
      expect_refusal("PEs that close different queues", {"PE 0", "queue 0", "PE 1", "queue 1"},
                     [&] { me == 1 ? b.close() : a->close(); });
    const gravel_task_handle old = a->host_handle();
    gravel_launch(begin_walk, 1, 32, a->handle(), at, uint64_t{20}, walked);
    a->close();  // before the one that was opened later
    expect(sums(0) == n * (2 * tasks + 1), "beside another: the first queue ran " + std::to_string(sums(0)) + " tasks");
    expect(gravel_sum_all(read(&at->hops)) == n * 21 && gravel_read(walked) == 1, "beside another: a walk");
    expect_refusal("a handle of a closed queue", {"gravel_task_put", "after the close()"},
                   [&] { gravel_task_put<tick>(old, 0, words, {}, done, uint64_t{1}); });
    first_queue c({.workers = 1, .slots = 2});  // takes the place of the first
    gravel_launch(send_to_both, 1, 32, c.handle(), b.handle(), words, tasks, done);
    b.close();
    expect(sums(1) == n * (3 * tasks + 1) * 1000, "beside another: the second queue ran " + std::to_string(sums(1)));
    gravel_launch(send_to_both, 1, 32, c.handle(), c.handle(), words, tasks, done);
  }
  expect(sums(0) == n * (4 * tasks + 1) && sums(1) == n * (4 * tasks + 1) * 1000, "beside another: the last queue");
  expect(gravel_sum_all(gravel_read(done)) == n * (8 * tasks + 2), "beside another: the signal is not exact");
  gravel_free_signal(done);
  gravel_free_signal(walked);
  gravel_free(at);
  gravel_free(words);
}

void expect_refusal(const char* what, const std::vector<std::string>& words, const std::function<void()>& call) {
  std::string text = "(nothing)";
  try {
    call();
  } catch (const gravel::detail::error& e) {
    text = e.what();
  }
  for (const std::string& word : words)
    expect(text.find(word) != std::string::npos, std::string(what) + ": expected '" + word + "', got " + text);
}
void refusals() {
  const auto open = [](const gravel_task_queue_options& how) { return [how] { queue_type queue(how); }; };
  expect_refusal("no workers", {"0 workers"}, open({.workers = 0}));
  expect_refusal("slots", {"3 slots", "power of two"}, open({.slots = 3}));
  if (gravel_n_pes() > 1)
    expect_refusal("PEs that differ", {"PE 0 opens 2 workers", "PE 1 1 workers"},
                   open({.workers = gravel_my_pe() == 1 ? 1u : 2u}));
  {
    second_queue queue;
    auto* const memory = gravel_malloc<char>(128);
    uint64_t elsewhere[4];
    expect_refusal("a buffer that is not symmetric", {"register_buffer", "32 bytes", "symmetric heap"},
                   [&] { queue.register_buffer(elsewhere, sizeof(elsewhere)); });
    if (gravel_n_pes() > 1)
      expect_refusal("buffers that differ", {"PE 0 registers 64 bytes", "PE 1 128"},
                     [&] { queue.register_buffer(memory, gravel_my_pe() == 1 ? 128 : 64); });
    for (uint32_t i = 1; i <= buffer_place::most_buffers && gravel_n_pes() == 1; ++i)
      expect(queue.register_buffer(memory, 8).number == i, "the number of a buffer");
    if (gravel_n_pes() == 1)
      expect_refusal("too many buffers", {"64 buffers are registered"}, [&] { queue.register_buffer(memory, 8); });
    gravel_free(memory);
  }
  using other = gravel_task_queue<by_warp, by_blocks>;
  if (gravel_n_pes() > 1)
    expect_refusal("other tasks", {"'by warp'", "'add'", "PE 1"}, [] {
      if (gravel_my_pe() == 1) gravel_task_queue<add, by_blocks> queue;
      else other queue;
    });
}

// Errors that end the job.
struct stranger {
  static constexpr const char* name = "stranger";
  GRAVEL_DEVICE void operator()(const gravel_task_t&, char*, const char*) const {}
};
__global__ void send_wrong(gravel_task_handle q, board* at, uint64_t* gate, gravel_task_buffer buffer, int what) {
  __shared__ uint64_t steps[6000];
  const int last = gravel_n_pes(q.g) - 1;
  if (what == 0) gravel_task_put<stranger>(q, last, nullptr, {}, {});
  if (what == 8) gravel_task_put<by_warp>(q, last, at, {}, {}, 0u, 1u);
  if (what == 1) gravel_task_put<by_warp>(q, last + 1, at, {}, {}, 0u, 1u);
  if (what == 2) gravel_task_put<by_warp>(q, last, at, {{at, most + 2000}}, {}, 0u, 1u);
  if (what == 3) gravel_task_put<by_warp>(q, last, reinterpret_cast<board*>(q.g.heap + q.g.heap_bytes), {}, {}, 0u, 1u);
  if (what == 4) gravel_task_put<branch>(q, last, at, {}, {}, 20u, uint64_t{1});
  if (what == 5 || what == 6) gravel_task_put<slow>(q, last, gate, {}, {});
  if (what == 9) {
    gravel_task_chain<false> chain = gravel_make_task<add>(q, last, gate, {}, {}, uint64_t{1});
    chain.then<add>(last, gate, {}, {}, uint64_t{1})
        .then<add>(last, gate, {}, {}, uint64_t{1})
        .then<add>(last, gate, {}, {}, uint64_t{1})
        .put();
  }
  task_order forged;
  if (what == 10 &&
      make_order<by_warp>(forged, q, copy_team::block(q.g), task_start::shaped, last, at, {}, {}, 0u, 1u)) {
    forged.words[task_words::places] |= uint64_t{0xffff} << 16;  // a signal of no PE
    send_order(q, copy_team::block(q.g), forged, static_cast<uint32_t>(last));
  }
  if (what == 11 && threadIdx.x == 0)
    gravel_am<gravel_task_delivery>(q.g, last, q.memory.at + sizeof(task_queue_record), q.memory.slot(0, 0),
                                    uint64_t{0}, command_words{});
  if (what >= 12 && what <= 16) {  // long chains
    auto chain = gravel_make_task<add>(q, last, gate, {}, {}, uint64_t{1}).steps_in(steps, what == 12 ? 8 : 6000);
    chain.then<add>(last, gate, {}, {}, uint64_t{1});
    for (int i = 0; i < 799 && (what == 12 || what == 13); ++i) chain.then<add>(last, gate, {}, {}, uint64_t{1});
    __syncthreads();
    if (what == 14 && threadIdx.x == 0) steps[0] |= uint64_t{static_cast<uint8_t>(task_start::forward)} << 8;
    if (what == 15 && threadIdx.x == 0) steps[0] = steps[0] << 32 >> 32 | uint64_t{handler_id<stranger>::value} << 32;
    if (what == 16) chain.order_.words[task_words::names] |= uint64_t{0xffff} << 16;
    __syncthreads();
    chain.put();
  }
  if (what == 17) gravel_task_put<by_warp>(q, last, at, {{at, 64}, {}, buffer.at(most - 60)}, {}, 0u, 1u);
  if (what == 18) buffer.number = 9;        // the PE that runs the task has no such buffer
  if (what == 19) buffer.bytes = 2 * most;  // but it has this one, which is shorter
  if (what >= 18 && what <= 19)
    gravel_task_put<by_warp>(q, last, at, {{at, 64}, {}, buffer.at(what == 19 ? most : 0)}, {}, 0u, 1u);
  if (what == 20) gravel_task_put<by_warp>(q, last, reinterpret_cast<board*>(q.g.heap + q.memory.at), {}, {}, 0u, 1u);
  if (what == 7)
    gravel_task_accumulate(q, last, reinterpret_cast<float*>(q.g.heap + q.g.heap_bytes) - 1,
                           reinterpret_cast<const float*>(at), 2);
}
/// "unknown", "pe", "payload", "target", "place": what a sender does wrong. "room": tasks that send more than there is
/// room for. "dies": the last PE ends while a task runs there. "finalize": the program ends while one does. "other": a
/// task that the first of two queues has is sent to the second. "chain": one of too many tasks. "forged": a command
/// whose signal is at no PE. "closed": one for a queue that is not there. "memory": a chain with more steps than its
/// memory holds; "steps": than a slot holds. "itself": a step that says that it is forwarded for ever; "step": one with
/// a task that the queue does not have; "endless": more steps than came. "into": a payload behind the end of a buffer;
/// "buffer", "beyond": the same with forged handles, of no buffer and of a longer one. "own": a target in the queue's
/// own memory.
int go_wrong(const std::string& what) {
  const char* const names[] = {"unknown", "pe",    "payload", "target", "room",   "dies",   "finalize",
                               "place",   "other", "chain",   "forged", "closed", "memory", "steps",
                               "itself",  "step",  "endless", "into",   "buffer", "beyond", "own"};
  int number = 0;
  while (number < 21 && what != names[number]) ++number;
  auto* const at = gravel_malloc<board>(sizeof(board) + 64);
  auto* const gate = gravel_malloc<uint64_t>(8);
  const gravel_signal done = gravel_new_signal();
  queue_type queue({.workers = 2, .slots = 8, .payload_bytes = most});
  const gravel_task_buffer buffer = queue.register_buffer(gravel_malloc<char>(2 * most), most);
  std::unique_ptr<second_queue> other;
  if (number == 8) other = std::make_unique<second_queue>();
  if (gravel_my_pe() == 0)
    gravel_launch(send_wrong, 1, 64, other ? other->handle() : queue.handle(), at, gate, buffer, number);
  if (number == 5 && gravel_my_pe() == gravel_n_pes() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    _exit(3);
  }
  if (number == 6) gravel_finalize();  // a task runs, and more: the queue is open
  queue.wait();
  gravel_wait(done, 1);  // the job ends here
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  gravel_init<gravel_task_delivery>();
  std::string how = GRAVEL_CUDA ? "--long" : "--short";  // PEs that share a GPU take long
  if (argc > 1) how = argv[1];
  if (!how.starts_with("--")) return go_wrong(how);
  const bool is_long = how == "--long";
  each_once("roomy", {.workers = 3, .slots = 64, .payload_bytes = most}, is_long ? 4000 : 160, 4);
  each_once("narrow", {.workers = 2, .slots = 2, .payload_bytes = 3000}, is_long ? 1000 : 96, 2);
  each_once("late", {.workers = 2, .slots = 4, .payload_bytes = 18000}, is_long ? 400 : 32, 4, 1);
  accumulates();
  walks_and_trees({.workers = 2, .slots = is_long ? 1024u : 64u, .payload_bytes = 64}, is_long ? 100'000 : 150,
                  is_long ? 10 : 5);
  chains({.workers = 2});
  long_chains(is_long ? 45 : 16);  // up to 45 such tasks fit 4096 bytes
  bursts();
  reductions(9000, 2);
  if (is_long) reductions(3, 1);  // not a piece for each PE
  streams(4);
  crowds(is_long ? 10'000 : 100);
  side_by_side(is_long ? 1000 : 12);
  refusals();
  const bool right = gravel_sum_all(static_cast<uint64_t>(failures)) == 0;
  if (right && gravel_my_pe() == 0) std::printf("ok\n");
  gravel_finalize();
  return right ? 0 : 1;
}
