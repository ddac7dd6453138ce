// Completion and waiting inside kernels. Thread scope: lane. No handler may call these: a handler that waits would wait
// for itself. Such a call is reported as an error.
//
// What all calls of this file have in common:
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @errors a call from a handler: the job ends with a message that names the call
#pragma once
#include "device/caller.cuh"
#include "device/put.cuh"
#include "device/watched_wait.cuh"

namespace gravel::detail {
/// Reads from the device which gets of host threads have been answered (host/pe/runtime.cpp).
void update_host_gets(const gravel_t& g);
/// Does so if the caller is a host thread.
GRAVEL_BOTH void update_gets([[maybe_unused]] const gravel_t& g) {
#if !GRAVEL_ON_GPU
  if (g.from == sender::host) update_host_gets(g);
#endif
}

/// Reads a word that others write, from wherever the caller runs.
template <class T>
GRAVEL_BOTH T poll_word(const gravel_t& g, const T* address) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  if (static_cast<uint64_t>(reinterpret_cast<const char*>(address) - g.heap) < g.heap_bytes) {
    T value;
    copy_from_device(&value, address, sizeof(value));
    return value;
  }
#else
  (void)g;
#endif
  return load_acquire<scope::system>(address);
}
/// Returns true if everything that went through queues seems to be applied, and there is no get. Calls `behind_reads()`
/// when all words are being read. Thread scope: lane.
template <class F>
GRAVEL_BOTH bool queues_seem_applied(const gravel_t& g, const F& behind_reads) {
  const queue_state *const direct = g.direct.state, *const block = g.block.state ? g.block.state : direct;
  const uint64_t direct_tickets = load_acquire_later<scope::device>(&direct->tickets),
                 direct_below = load_acquire_later<scope::device>(&direct->flushed_below),
                 block_tickets = load_acquire_later<scope::device>(&block->tickets),
                 block_below = load_acquire_later<scope::device>(&block->flushed_below),
                 gets = load_acquire_later<scope::device>(&g.counters->gets.tickets);
  behind_reads();
  return !(direct_below < direct_tickets || block_below < block_tickets || gets != 0);  // most programs use no gets
}
/// Returns true if everything that this PE's kernels have sent seems to be applied, after a thread_fence() of each lane.
/// All words are read together, in no order, and the fence begins before they have come: so the whole takes little
/// longer than the fence, which acquires what was seen, and waits for operations in this PE's memory and in peers'
/// memory. Thread scope: the group.
GRAVEL_BOTH bool seems_applied_behind_fence(const gravel_t& g, const lane_group& group) {
  constexpr uint32_t at_once = 4;
  uint64_t tickets[at_once], below[at_once];
  const auto read_lines = [&](uint32_t base) {
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < at_once; ++i) {
      const uint32_t rank = base + i * group.size() + group.rank();
      tickets[i] = below[i] = 0;
      if (rank >= g.n_lines) continue;
      tickets[i] = load_acquire_later(&g.lines[rank].tickets);
      below[i] = load_acquire_later(&g.lines[rank].applied_below);
    }
  };
  const auto some_missing = [&] {
    bool some = false;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < at_once; ++i) some |= below[i] < tickets[i];
    return some;
  };
  bool some = false;
  uint32_t base = 0;
  for (; base + at_once * group.size() < g.n_lines; base += at_once * group.size()) {
    read_lines(base);
    some |= some_missing();
  }
  read_lines(base);
  // All lanes read the words of the queues, so that they call the fence together.
  some |= !queues_seem_applied(g, [] { thread_fence(); });
  return group.ballot(some || some_missing()) == 0;
}
/// Waits until everything that the group has sent before is applied, and its gets have arrived. Thread scope: the
/// group.
GRAVEL_BOTH_APART void finish_sends(gravel_t g, lane_group group) {
  if (group.is_leader()) {
    g.direct.flush_all();
    if (g.block.state) g.block.flush_all();
    wait_for_gets(g.counters->gets, [&] { update_gets(g); });
  }
  group.sync();
  flush_peers(g, group);
}
}  // namespace gravel::detail

/// Waits until everything that this lane has sent before is applied at its destinations, and its gets have arrived.
/// Messages that other lanes of this PE have handed over by now are flushed with it. Messages that are still inside a
/// gravel_block_sender are not.
/// @scope lane, from divergent code; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_quiet
GRAVEL_BOTH void gravel_quiet(const gravel_t& g) {
  using namespace gravel::detail;
  if (forbidden_in_handler(g, op::none, other_call::quiet)) return;
  // One lane waits for all lanes that are here, or all of them together: what they sent has its tickets already.
  const lane_group group = lane_group::active();
  group.sync();
  const bool applied = seems_applied_behind_fence(g, group);
  if (!applied) finish_sends(g, group);
  group.sync();
}
/// Orders operations: those on one PE before the call are applied before those after it. Packets of one pair of PEs may
/// travel on several streams, so this is gravel_quiet.
/// @scope lane, from divergent code; host threads. Not handlers
/// @completion on return
/// @source OpenSHMEM 1.5: shmem_fence
GRAVEL_BOTH void gravel_fence(const gravel_t& g) {
  if (!gravel::detail::forbidden_in_handler(g, gravel::detail::op::none, gravel::detail::other_call::fence))
    gravel_quiet(g);
}

/// Asks the aggregator to send at once what this PE has handed over: for a short latency instead of full packets.
/// Messages inside a gravel_block_sender, and those on the route `peer`, are not affected.
/// @scope lane, from divergent code; handlers; host threads
/// @completion returns at once; the messages are complete after gravel_quiet
/// @source Gravel
GRAVEL_BOTH void gravel_flush(const gravel_t& g) {
  using namespace gravel::detail;
  check_handle_everywhere(g, "gravel_flush");
  const uint64_t direct = load_relaxed<scope::device>(&g.direct.state->tickets);
  const uint64_t block = g.block.state ? load_relaxed<scope::device>(&g.block.state->tickets) : 0;
  if (!block) return g.direct.request_flush(direct);
  queue::flush_request of_direct(g.direct, direct), of_block(g.block, block);
  const auto either_requested = [&] {
    const bool direct_requested = of_direct.request();
    return of_block.request() || direct_requested;
  };
  while (either_requested()) {
    full_fence();
    of_direct.poll_again();
    of_block.poll_again();
  }
}

enum gravel_compare { GRAVEL_EQ, GRAVEL_NE, GRAVEL_GT, GRAVEL_GE, GRAVEL_LT, GRAVEL_LE };
static_assert(GRAVEL_LE == static_cast<int>(gravel::detail::comparison::le));

namespace gravel::detail {
template <class T>
GRAVEL_BOTH bool compares(T seen, gravel_compare compare, T value) {
  if (compare == GRAVEL_EQ) return seen == value;
  if (compare == GRAVEL_NE) return seen != value;
  if (compare == GRAVEL_GT) return seen > value;
  if (compare == GRAVEL_GE) return seen >= value;
  if (compare == GRAVEL_LT) return seen < value;
  return seen <= value;
}
/// Waits until `*address compare value` holds. Returns the value that was seen then. Thread scope: lane.
template <class T>
GRAVEL_BOTH T await_word(const gravel_t& g, const T* address, gravel_compare compare, T value) {
  T seen{};
  if (forbidden_in_handler(g, op::none, other_call::wait_until)) return seen;
  const auto holds = [&] {
    seen = poll_word(g, address);
    return compares(seen, compare, value);
  };
  for (watched_wait wait; !holds();)
    wait.attentively(
        g, [&] { return subject_of_word(g, awaited::word, address, static_cast<comparison>(compare), value, seen); });
  return seen;
}
}  // namespace gravel::detail

/// Waits until `*address compare value` holds. What other PEs wrote before the write that ended the wait, with a fence
/// between, is visible after it (to the host: by gravel_copy). A wait that lasts for GRAVEL_WATCHDOG_S is reported on
/// stderr, and goes on.
/// @param address aligned to its type, in this PE's own memory; on the host also a variable of the program
/// @param compare GRAVEL_EQ, GRAVEL_NE, GRAVEL_GT, GRAVEL_GE, GRAVEL_LT or GRAVEL_LE
/// @param value what `*address` is compared with
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return: the condition held
/// @source OpenSHMEM 1.5: shmem_wait_until
template <class T>
GRAVEL_BOTH void gravel_wait_until(const gravel_t& g, const T* address, gravel_compare compare,
                                   gravel::detail::same<T> value) {
  gravel::detail::await_word<T>(g, address, compare, value);
}
