// A channel: a bounded queue of elements of one type in the memory of one GPU, which any number of lanes fill and empty
// at the same time (Channels, ISCA 2014, section 3.2, adapted).
//
// Problem. Thousands of lanes put and take elements. A lock would serialize them, and a lane must not wait for another
// one.
// Solution. Tickets, with counts of committed tickets instead of a flag for each element. No call waits: if there is no
// room, or no element, the call says so. Elements are a structure of arrays (columns.hpp). A warp or a block reserves,
// commits and takes for all its lanes at once.
//
//   producer                                              consumer
//   room for n, all or nothing        [K1]                if something is offered: offered -= n       [K7]
//   n tickets from the tail           [K2]                were there fewer: offered += the difference [K7]
//   writes the elements                                   n tickets from the head                     [K8]
//   committed count of each chunk     [K4] release        sees that ready has reached the end of them [K9] acquire
//                                                         reads the elements
//                                                         done count of each chunk                    [K3] release
//   a producer that publishes, a consumer that finds nothing offered
//   reads how many of the chunk are committed             [K4] acquire
//   ready: r -> behind those that are, by compare and swap [K9] release
//   offered += so many, except for those that it takes    [K7]
//
// States of an element: available, reserved (its ticket is drawn), ready (it and all elements before it are committed),
// taken, done. A chunk is 32 tickets; one word counts its committed tickets, and one those that are done. Room comes
// back in the order of tickets (slots.hpp). Ready elements are offered by an addition, too: consumers do not compete
// for a word by compare and swap, of which only one in each round trip to memory would succeed.
//
// Publishing. A producer may offer what it has committed, once for several commits, so that consumers find it by one
// addition. It may fail, if another lane was faster or if earlier tickets are not committed yet. No element is lost
// then: consumers that find nothing offered poll the counts themselves. commit_and_offer() offers without polling the
// counts: if `ready` was its own first ticket, all elements before it are ready. On the GPU one fence precedes the
// counts and the compare and swap, so other lanes may see the counts later. They then take fewer elements to be
// committed, for a while.
//
// Invariants
// - done <= taken <= ready <= reserved, and at most `capacity` of the reserved elements are not done. ready = taken +
//   offered + what callers hold between two steps.
// - Chunks become ready as a whole, and the last chunk as far as there are tickets. For that, a caller reads the count
//   before the tail, which only grows. In the other order, later tickets could be counted for an earlier one that is
//   not committed.
// - What was ready stays ready, and `ready` only grows. So its compare and swap may come after the poll (no ABA).
// - A consumer sees what it takes. A lane that makes elements ready wrote them, or has acquired them by [K4]. A lane
//   that reads a later `ready` by [K9] acquires from all lanes that moved it before (a release sequence, since all use
//   compare and swap). `offered` and the head are counts without an order.
// - Only tickets that `ready` has passed are drawn from the head. So [K9] waits at most until that is visible, and its
//   load is in flight together with the addition to the head.
//
// The model is test/models/channel.pml; test/unit/channel_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "device/team_check.cuh"
#include "lib/channel/columns.hpp"
#include "lib/channel/slots.hpp"

namespace gravel::detail {

/// Sums of a value that each lane of a group has: over the lanes before this one, and over all lanes. Thread scope: the
/// group, converged.
struct group_sum {
  uint32_t before, total;
  template <class Group>
  GRAVEL_BOTH static group_sum of(const Group& group, uint32_t value) {
    group_sum s{0, 0};
    for (uint32_t bit = 0; group.ballot(value >> bit != 0) != 0; ++bit) {
      const uint32_t some = group.ballot(value >> bit & 1);
      s.before += group.rank_in(some) << bit;
      s.total += lane_group::popcount(some) << bit;
    }
    return s;
  }
};

/// The reservation of a group: `total` tickets from `first` on. This lane's tickets begin at `mine`.
struct channel_reservation {
  uint64_t first = 0, mine = 0;
  uint32_t total = 0;
  bool granted = false;  ///< the same for the whole group
};
/// The batch that a group has taken: the lane of rank r < count has ticket first + r.
struct channel_batch {
  uint64_t first = 0;
  uint32_t count = 0;
};

/// The words of a channel, besides those of its slots, each on a cache line of its own. Initially zero.
struct channel_words : slots_words {
  alignas(128) uint64_t head;  ///< tickets taken so far
  alignas(128) uint32_t
      offered;  ///< ready elements that may be taken; below 0 while a late consumer has not returned what it took
  alignas(128) uint64_t ready;  ///< all tickets before this one are ready

  /// Claims up to n of the offered elements. Returns how many. Thread scope: lane.
  GRAVEL_BOTH uint32_t claim_offered(uint32_t n) {
    const auto there = static_cast<int32_t>(fetch_add<scope::device>(&offered, 0u - n));  // [K7]
    const uint32_t some = there <= 0 ? 0 : static_cast<uint32_t>(there), got = some < n ? some : n;
    if (got < n) fetch_add<scope::device>(&offered, n - got);  // [K7]
    return got;
  }
  /// Takes n elements that have been claimed. Returns the first ticket. Thread scope: lane.
  GRAVEL_BOTH uint64_t take_claimed(uint32_t n) {
    const uint64_t first = fetch_add<scope::device>(&head, uint64_t{n});  // [K8]
    // [K9] `ready` has passed these tickets. That may not be visible yet.
    while (static_cast<int64_t>(load_acquire<scope::device>(&ready) - first - n) < 0) {
    }
    return first;
  }
};

/// A channel: plain data, passed to kernels by value. `Word`: the type of the sequence words; a narrow one is for
/// tests.
/// @scope the group, converged: the lanes of a warp, or a block, that make the call together
/// @completion on return: no call waits
/// @errors none are checked; the answer says if there is no room, or no element
/// @source Channels (ISCA 2014), section 3.2
template <class T, class Word = uint32_t>
struct channel {
  slots<Word> space;
  sequence<Word> committed;
  columns<T> elements;

  /// @internal
  GRAVEL_BOTH channel_words& state() const { return *static_cast<channel_words*>(space.state); }

  // ---- layout: the state, two words for each chunk, the elements. All parts are aligned to 128 bytes.

  /// @internal
  GRAVEL_BOTH static constexpr uint32_t chunks_for(uint32_t capacity) { return slots<Word>::chunks_for(capacity); }
  /// @internal
  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  /// Memory that a channel takes, in bytes.
  /// @param capacity elements, up to 2^30
  /// @scope any
  GRAVEL_BOTH static constexpr uint64_t bytes(uint32_t capacity) {
    const uint64_t chunks = chunks_for(capacity);
    return sizeof(channel_words) + 2 * line(chunks * sizeof(Word)) + line(columns<T>::bytes(chunks * chunk_tickets));
  }
  /// A view of memory. `room` in state() must be set to `capacity` once.
  /// @param memory [bytes(capacity)], zeroed, aligned to 128 bytes
  /// @param capacity elements, up to 2^30
  /// @scope any
  GRAVEL_BOTH static channel in(char* memory, uint32_t capacity) { return in(memory, capacity, chunks_for(capacity)); }
  /// @internal
  GRAVEL_BOTH static channel in(char* memory, uint32_t capacity, uint32_t chunks) {
    char* const words = memory + sizeof(channel_words);
    const uint64_t each = line(chunks * sizeof(Word));
    return {{reinterpret_cast<channel_words*>(memory), {reinterpret_cast<Word*>(words), chunks}, capacity},
            {reinterpret_cast<Word*>(words + each), chunks},
            {reinterpret_cast<uint32_t*>(words + 2 * each), chunks * chunk_tickets}};
  }

  // ---- producers

  /// Reserves room for all elements of the group or for none. Then the lanes call write() for each ticket, and all
  /// together commit().
  /// @param group the lanes that call
  /// @param n elements of this lane; lanes may differ, and it may be 0
  template <class Group>
  GRAVEL_BOTH channel_reservation reserve(const Group& group, uint32_t n) const {
    const group_sum sum = group_sum::of(group, n);
    channel_reservation r{0, 0, sum.total, space.take_room(group, sum.total)};
    if (r.granted && group.is_leader()) r.first = space.draw(sum.total);
    r.first = group.from_leader(r.first);
    r.mine = r.first + sum.before;
    return r;
  }
  /// Reserves like reserve(), out of room that take_room() has promised.
  /// @param group the lanes that call
  /// @param n elements of this lane
  template <class Group>
  GRAVEL_BOTH channel_reservation draw(const Group& group, uint32_t n) const {
    const group_sum sum = group_sum::of(group, n);
    channel_reservation r{0, 0, sum.total, true};
    if (sum.total && group.is_leader()) r.first = space.draw(sum.total);
    r.first = group.from_leader(r.first);
    r.mine = r.first + sum.before;
    return r;
  }
  /// Reserves like draw(), where all lanes know the total.
  /// @param group the lanes that call
  /// @param total elements of the group, the same in all lanes
  template <class Group>
  GRAVEL_BOTH channel_reservation draw_together(const Group& group, uint32_t total) const {
    channel_reservation r{0, 0, total, true};
    if (total && group.is_leader()) r.first = space.draw(total);
    r.first = r.mine = group.from_leader(r.first);
    return r;
  }
  /// Promises room to be drawn later. False: there is none.
  /// @param n elements
  /// @scope lane
  GRAVEL_BOTH bool take_room(uint32_t n) const { return space.take_room(n); }
  /// Returns promised room that was not drawn.
  /// @param n elements
  /// @scope lane
  GRAVEL_BOTH void return_room(uint32_t n) const { space.return_room(n); }

  /// Writes an element.
  /// @param ticket of a reservation
  /// @param element what is written
  /// @scope lane, which holds the ticket
  GRAVEL_BOTH void write(uint64_t ticket, const T& element) const { elements.store(space.row(ticket), element); }

  /// Hands over what the group wrote.
  /// @param group the lanes that reserved
  /// @param r what reserve() returned
  template <class Group>
  GRAVEL_BOTH void commit(const Group& group, const channel_reservation& r) const {
    group.sync();
    if (r.granted) count(group, committed, r.first, r.total);  // [K4]
  }
  /// Hands over like commit(), and offers the elements to consumers if all elements before them are ready. False: they
  /// are not known to be ready, and publish() has to poll.
  /// @param group the lanes that reserved
  /// @param r what reserve() returned
  template <class Group>
  GRAVEL_BOTH bool commit_and_offer(const Group& group, const channel_reservation& r) const {
    group.sync();
    if (!r.granted || r.total == 0) return true;
    acquire_now<scope::device>();                     // on the GPU this fence is the release of both [K4] and [K9]
    count<true>(group, committed, r.first, r.total);  // [K4]
    uint32_t offers = 0;
    if (group.is_leader()) {
      offers = compare_swap_behind_fence<scope::device>(&state().ready, r.first, r.first + r.total);  // [K9]
      if (offers) fetch_add<scope::device>(&state().offered, r.total);                                // [K7]
    }
    return group.from_leader(offers) != 0;
  }
  /// Offers to consumers what has become ready. One call suffices for several commits, and the call may be left out.
  /// @param group the lanes that call
  template <class Group>
  GRAVEL_BOTH void publish(const Group& group) const {
    offer(group, 0);
  }

  // ---- consumers

  /// Takes elements for the group: none if none are ready, or if other groups were faster. Then the lanes call read(),
  /// and all together free().
  /// @param group the lanes that call
  /// @param most elements, at most
  /// @param offered how many were offered a moment ago
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, uint32_t most, uint32_t offered) const {
    return take_claimed(group, claim(group, most, offered));
  }
  /// Claims elements for the group: the first half of take(). Returns how many.
  /// @param group the lanes that call
  /// @param most elements, at most
  /// @param offered how many were offered a moment ago
  template <class Group>
  GRAVEL_BOTH uint32_t claim(const Group& group, uint32_t most, uint32_t offered) const {
    if (most == 0) return 0;
    // If elements were offered, the group does not poll for more: other groups were faster. The leader decides, as
    // `offered` may differ between lanes.
    constexpr uint32_t was_offered = 1u << 31;
    uint32_t n = 0;
    if (static_cast<int32_t>(offered) > 0 && group.is_leader())
      n = was_offered | state().claim_offered(offered < most ? offered : most);
    n = group.from_leader(n);
    return n != 0 ? n & ~was_offered : offer(group, most);
  }
  /// Takes the elements that claim() has claimed: the second half of take().
  /// @param group the lanes that claimed
  /// @param n what claim() returned
  template <class Group>
  GRAVEL_BOTH channel_batch take_claimed(const Group& group, uint32_t n) const {
    channel_batch b{0, n};
    if (n != 0 && group.is_leader()) b.first = state().take_claimed(n);
    b.first = group.from_leader(b.first);
    return b;
  }
  /// Takes elements for the group, like the call above, and polls how many are offered.
  /// @param group the lanes that call
  /// @param most elements, at most
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, uint32_t most) const {
    return take(group, most, load_relaxed<scope::device>(&state().offered));
  }
  /// The element of a ticket.
  /// @param ticket of a batch
  /// @scope lane
  GRAVEL_BOTH T read(uint64_t ticket) const { return elements.load(space.row(ticket)); }
  /// Frees the slots, after all lanes have read.
  /// @param group the lanes that took
  /// @param b what take() returned
  template <class Group>
  GRAVEL_BOTH void free(const Group& group, const channel_batch& b) const {
    group.sync();
    count(group, space.done, b.first, b.count);  // [K3]
  }

  /// Number of elements that have been reserved and not been taken. Most of them are ready. The number may be out of
  /// date at once.
  /// @scope any
  GRAVEL_BOTH uint32_t waiting() const {
    const uint64_t head = load_relaxed<scope::device>(&state().head), tail = load_relaxed<scope::device>(&state().tail);
    return static_cast<uint32_t>(tail - head);
  }

 private:
  /// Adds n tickets to the counts of their chunks. Lanes do so for neighbouring chunks at once, so that the group waits
  /// for one fence.
  /// Thread scope: the group, converged.
  template <bool BEHIND_FENCE = false, class Group>
  GRAVEL_BOTH static void count(const Group& group, const sequence<Word>& of, uint64_t first, uint32_t n) {
    const uint64_t end = first + n, chunk = first / chunk_tickets * chunk_tickets;
    for (uint64_t c = chunk + uint64_t{group.rank()} * chunk_tickets; c < end;
         c += uint64_t{group.size()} * chunk_tickets) {
      const uint64_t from = c < first ? first : c, to = end < c + chunk_tickets ? end : c + chunk_tickets;
      if (to <= from) continue;
      if constexpr (BEHIND_FENCE) add_behind_fence<scope::device>(of.of(c), static_cast<Word>(to - from));
      else of.add(c, static_cast<uint32_t>(to - from));
    }
  }
  /// Takes up to `most` of the elements that have become ready, and offers the others. Returns how many it took. 0:
  /// none have become ready, or other groups were faster. A warp polls 32 chunks at once. Thread scope: the group,
  /// converged.
  template <class Group>
  GRAVEL_BOTH uint32_t offer(const Group& group, uint32_t most) const {
    const uint64_t at = group.from_leader(load_relaxed<scope::device>(&state().ready)),
                   chunk = at / chunk_tickets * chunk_tickets;
    const counted_chunks seen = committed.poll(group, at);  // [K4]
    uint64_t end = chunk + uint64_t{seen.full} * chunk_tickets;
    uint32_t mine = 0;
    if (group.is_leader()) {
      // The next chunk is ready too if all its tickets that were drawn are committed. A count of more than a chunk
      // means that other groups were faster.
      const uint64_t last = end + seen.behind;
      if (seen.behind <= chunk_tickets && last > at && load_relaxed<scope::device>(&state().tail) == last) end = last;
      if (end > at && compare_swap_acq_rel<scope::device>(&state().ready, at, end)) {  // [K9]
        const auto n = static_cast<uint32_t>(end - at);
        mine = n < most ? n : most;
        if (n > mine) fetch_add<scope::device>(&state().offered, n - mine);  // [K7]
      }
    }
    return group.from_leader(mine);
  }
};

/// Puts one element into a channel, for each lane. False: there is no room, or none that is visible yet. Thread scope:
/// lane, divergent; handlers may call it.
template <class T>
GRAVEL_BOTH bool put_into(const channel<T>& to, const T& element) {
  const lane_group here = lane_group::active();
  const channel_reservation r = to.reserve(here, 1);
  if (r.granted) to.write(r.mine, element);
  to.commit(here, r);
  return r.granted;
}

/// One reservation for a whole block. It lies in shared memory and serves one channel at a time.
struct channel_block {
  uint32_t sum[32];  ///< the sum of each warp; then the sum of the warps before it
  channel_reservation whole;

  /// Reserves like channel::reserve. All threads of the block must call it.
  template <class Channel>
  GRAVEL_DEVICE channel_reservation reserve(const Channel& to, uint32_t n) {
    enter_lanes_or_trap(team_call::channel_reserve, 0);
    const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                   threads = blockDim.x * blockDim.y * blockDim.z;
    const lane_group warp = lane_group::converged_warp(rank, threads);
    const group_sum mine = group_sum::of(warp, n);
    if (warp.is_leader()) sum[rank / 32] = mine.total;
    __syncthreads();
    if (rank == 0) {
      uint32_t total = 0;
      for (uint32_t w = 0; w < (threads + 31) / 32; ++w) {
        const uint32_t of_warp = sum[w];
        sum[w] = total;
        total += of_warp;
      }
      whole = {0, 0, total, to.take_room(total)};
      if (whole.granted) whole.first = to.space.draw(total);
    }
    __syncthreads();
    channel_reservation r = whole;
    r.mine = r.first + sum[rank / 32] + mine.before;
    return r;
  }
  /// Commits like channel::commit. It begins and ends with a barrier of the block.
  template <class Channel>
  GRAVEL_DEVICE void commit(const Channel& to, const channel_reservation& r) {
    enter_lanes_or_trap(team_call::channel_commit, 0);
    __syncthreads();
    const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                   threads = blockDim.x * blockDim.y * blockDim.z;
    if (rank < 32) to.commit(lane_group::converged_warp(rank, threads), r);
    __syncthreads();
  }
};

}  // namespace gravel::detail
