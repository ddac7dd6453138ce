// A channel: a bounded queue of elements of one type in the memory of one GPU, which any number of lanes fill and empty
// at the same time (paper 002, section 3.2, recast). It has no lock, and nobody waits in it: what finds no room, or
// nothing to take, is told so. Elements are a structure of arrays; a warp, or a block, reserves, commits and takes for
// all its lanes at once.
//
//   producer                                              consumer
//   room for n, all or nothing        [K1]                if something is offered: offered -= n       [K7]
//   n tickets from the tail           [K2]                were there fewer: offered += what is amiss  [K7]
//   writes the elements                                   n tickets from the head                     [K8]
//   committed count of each chunk     [K4] release        sees that ready has reached the end of them [K9] acquire
//                                                         reads the elements
//                                                         done count of each chunk                    [K3] release
//   who publishes, and who finds nothing offered
//   reads how many of the chunk are committed             [K4] acquire
//   ready: r -> behind those that are, by compare and swap [K9] release
//   offered += so many, but for those that it takes       [K7]
//
// An element is: available, reserved (ticket drawn), ready (committed, and so are all before it), taken, done. A chunk
// is 32 tickets, and has one word that counts commits and one that counts what is done. Room comes back in the order of
// tickets; who finds too little looks for it (lib/channel/slots.hpp). What is ready is offered in the same way: who
// takes some does not compete for a word by compare and swap, of which among many that try only one succeeds in the
// time of some round trips.
//
// Invariants: done <= taken <= ready <= reserved, of which no more than the capacity are not done; ready = taken +
// offered + what somebody holds between two steps. Chunks become ready as a whole, and the last one as far as there are
// tickets. For that, the count is read before the tail, which only grows: were it read behind it, later tickets could
// stand for an earlier one that is not committed. What was ready stays ready, so the compare and swap of `ready`, which
// only grows, may come behind that look (no ABA).
//
// What is taken is seen: whoever makes elements ready wrote them, or has acquired them by [K4]; and who reads a later
// `ready` by [K9] acquires from all who moved it before (a release sequence, as all do so by compare and swap). What is
// offered and the head are counts without an order. No more tickets are drawn from the head than `ready` has passed: so
// [K9] waits at most until that is seen, and its load is under way together with the addition to the head.
//
// Who publishes: a producer may offer what it has committed, once for all that it put there, so that consumers find it
// by one addition. It need not succeed: where others were faster, or tickets before are not committed yet, nothing is
// lost, as consumers who find nothing offered look for themselves.
//
// Or, with commit_and_offer, without a look at the counts: that `ready` was its own first ticket says that all before
// it are ready. On the GPU one fence stands before the counts and the compare and swap, so that others may see the
// counts later: then they take less to be committed than is, for a while.
//
// The model is test/models/channel.pml; test/unit/channel_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "device/team_check.cuh"
#include "lib/channel/columns.hpp"
#include "lib/channel/slots.hpp"

namespace gravel::detail {

/// Of a value that each lane of a group has: the sum of those before this lane, and of all. Thread scope: the group,
/// converged.
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

/// What a group reserved: `total` tickets from `first` on, of which this lane's begin at `mine`.
struct channel_reservation {
  uint64_t first = 0, mine = 0;
  uint32_t total = 0;
  bool granted = false;  ///< the same for the whole group
};
/// What a group took: the lane of rank r < count has ticket first + r.
struct channel_batch {
  uint64_t first = 0;
  uint32_t count = 0;
};

/// Words of a channel on lines of their own, beside those of its slots. All zeros to begin with.
struct channel_words : slots_words {
  alignas(128) uint64_t head;  ///< tickets taken so far
  alignas(128) uint32_t
      offered;  ///< ready elements that nobody has taken; below 0 while one who was too late has not given back
  alignas(128) uint64_t ready;  ///< all tickets before this one are ready

  /// Up to n of those that are offered. Thread scope: lane.
  GRAVEL_BOTH uint32_t claim_offered(uint32_t n) {
    const auto there = static_cast<int32_t>(fetch_add<scope::device>(&offered, 0u - n));  // [K7]
    const uint32_t got = there <= 0 ? 0 : static_cast<uint32_t>(there) < n ? static_cast<uint32_t>(there) : n;
    if (got < n) fetch_add<scope::device>(&offered, n - got);  // [K7]
    return got;
  }
  /// The first of n tickets, where so many have been claimed. Thread scope: lane.
  GRAVEL_BOTH uint64_t take_claimed(uint32_t n) {
    const uint64_t first = fetch_add<scope::device>(&head, uint64_t{n});  // [K8]
    // [K9] It has got there. That may not be seen yet.
    while (static_cast<int64_t>(load_acquire<scope::device>(&ready) - first - n) < 0) {
    }
    return first;
  }
};

/// A channel: plain data, passed to kernels by value. `Word`: of the sequence words; a narrow one is for tests.
/// @scope the group, converged: the lanes of a warp, or a block, that make the call together
/// @completion on return: nobody waits in a channel
/// @errors none are checked; a lack of room, or of elements, is in the answer
/// @source Channels (ISCA 2014), section 3.2
template <class T, class Word = uint32_t>
struct channel {
  slots<Word> space;
  sequence<Word> committed;
  columns<T> elements;

  /// @internal
  GRAVEL_BOTH channel_words& state() const { return *static_cast<channel_words*>(space.state); }

  // ---- layout. State, two words for each chunk, elements; aligned to 128 bytes, and so are the parts.

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

  /// Reserves room for all of the group or for none. After it: write() of each ticket, then commit() of the whole.
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
  /// Reserves as reserve(), out of room that take_room() has promised.
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
  /// Reserves as draw(), for elements that all lanes know of.
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
  /// Gives back promised room that was not drawn.
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
  /// Hands over as commit(), and offers it to consumers if all before it is ready. False: it is not, and publish()
  /// would have to find out.
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
  /// Offers to consumers what has become ready. Once for several commits; it may be left out.
  /// @param group the lanes that call
  template <class Group>
  GRAVEL_BOTH void publish(const Group& group) const {
    offer(group, 0);
  }

  // ---- consumers

  /// Takes elements for the group: none if none are ready, or other groups were faster. After it: read(), then free()
  /// of the whole.
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
    // Where something was offered it is not looked for more: others were faster. The leader says so, as what the lanes
    // know of it may differ.
    constexpr uint32_t was_offered = 1u << 31;
    uint32_t n = 0;
    if (static_cast<int32_t>(offered) > 0 && group.is_leader())
      n = was_offered | state().claim_offered(offered < most ? offered : most);
    n = group.from_leader(n);
    return n != 0 ? n & ~was_offered : offer(group, most);
  }
  /// Returns which elements claim() has got: the second half of take().
  /// @param group the lanes that claimed
  /// @param n what claim() returned
  template <class Group>
  GRAVEL_BOTH channel_batch take_claimed(const Group& group, uint32_t n) const {
    channel_batch b{0, n};
    if (n != 0 && group.is_leader()) b.first = state().take_claimed(n);
    b.first = group.from_leader(b.first);
    return b;
  }
  /// Takes elements for the group, as above, and finds out how many are offered.
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
  /// Gives back the slots: all lanes have read.
  /// @param group the lanes that took
  /// @param b what take() returned
  template <class Group>
  GRAVEL_BOTH void free(const Group& group, const channel_batch& b) const {
    group.sync();
    count(group, space.done, b.first, b.count);  // [K3]
  }

  /// Number of elements that have been reserved and not been taken; most of them are ready. A moment later it may be
  /// another number.
  /// @scope any
  GRAVEL_BOTH uint32_t waiting() const {
    const uint64_t head = load_relaxed<scope::device>(&state().head), tail = load_relaxed<scope::device>(&state().tail);
    return static_cast<uint32_t>(tail - head);
  }

 private:
  /// Adds n tickets to the counts of their chunks: of neighbouring chunks at once, so that one fence is waited for.
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
  /// Offers what has become ready, but for `most` of them at most, which it takes: so many. 0: nothing has, or others
  /// were faster. A warp looks at 32 chunks at once. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH uint32_t offer(const Group& group, uint32_t most) const {
    const uint64_t at = group.from_leader(load_relaxed<scope::device>(&state().ready)),
                   chunk = at / chunk_tickets * chunk_tickets;
    const counted_chunks seen = committed.look(group, at);  // [K4]
    uint64_t end = chunk + uint64_t{seen.full} * chunk_tickets;
    uint32_t mine = 0;
    if (group.is_leader()) {
      // Of the chunk behind them: all, if there are no more tickets. More than there are in a chunk: others were
      // faster.
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

/// One element of each lane. False: no room, or none that has been seen yet. Thread scope: lane, divergent; handlers,
/// too.
template <class T>
GRAVEL_BOTH bool put_into(const channel<T>& to, const T& element) {
  const lane_group here = lane_group::active();
  const channel_reservation r = to.reserve(here, 1);
  if (r.granted) to.write(r.mine, element);
  to.commit(here, r);
  return r.granted;
}

/// One reservation for a whole block. Lies in shared memory, and serves one channel at a time.
struct channel_block {
  uint32_t sum[32];  ///< of each warp, then of those before it
  channel_reservation whole;

  /// As channel::reserve, for all threads of the block together, each of which must come here.
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
  /// As channel::commit. A barrier lies before it and behind it.
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
