// A channel: a bounded queue of elements of one type in the memory of one GPU, which any number of lanes fill and empty
// at the same time (Channels, ISCA 2014, section 3.2, adapted).
//
// Problem. Thousands of lanes put and take elements. A lock would serialize them, and a lane must not wait for another
// one.
// Solution. Producers draw tickets of free places (slots.hpp). Consumers take ready elements wherever they lie
// (ready_set.cuh), so a producer that is slow delays no element but its own. No call waits: if there is no room, or no
// element, the call says so. Elements are a structure of arrays (columns.hpp). A warp or a block reserves, commits and
// takes for all its lanes at once.
//
//   producer                                              consumer
//   room for n, all or nothing        [K1]                if some are unclaimed: unclaimed -= n         [K7]
//   n tickets from the tail           [K2]                clears the bits of as many that are ready     [K4] acquire
//   writes the elements                                   returns what it has not got                   [K7]
//   sets their bits, for each chunk   [K4] release        reads the elements
//   unclaimed += n                    [K7]                done count of each chunk                      [K3] release
//
// The end. A channel can be closed, by one who takes all its room for ever; a word then says so [K8]. A producer that
// has taken room before still hands its elements over. So the channel has ended when it is closed and all room has come
// back: no element is left, and none will come.
//
// States of an element: available, reserved (its ticket is drawn), ready (its bit is set), taken (its bit is cleared),
// done. A chunk is 32 tickets; one word has the bits of the ready ones, and one counts those that are done. Room comes
// back in the order of tickets (slots.hpp). The order of elements is about that of their reservations; a consumer takes
// a later one if an earlier one is not ready. An element that is passed over is found when consumers find nothing
// nearer: at the latest when the room is used up, since room comes back in order.
//
// Invariants
// - Reserved = in work by producers + ready + taken + done, and at most `capacity` of them are not done.
// - Each element is taken once, and as it was written: see ready_set.cuh.
//
// The model is test/models/channel.pml; test/unit/channel_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "device/team_check.cuh"
#include "lib/channel/columns.hpp"
#include "lib/channel/ready_set.cuh"
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

/// The words of a channel, besides those of its slots, each on a cache line of its own. Initially zero.
struct channel_words : slots_words {
  alignas(128) uint64_t ready;  ///< a ready_count
  alignas(128) uint32_t sweep;  ///< where consumers look that find nothing near the cursor
  uint32_t closing;             ///< 1: close() has begun; 2: no more elements come
};

/// A channel: plain data, passed to kernels by value. `Word`: the type of the counts of what is done; a narrow one is
/// for tests. S: the processors that use the channel. ORDER: if it is kept, what one producer puts comes to one
/// consumer in order.
/// @scope the group, converged: the lanes of a warp, or a block, that make the call together
/// @completion on return: no call waits
/// @errors none are checked; the answer says if there is no room, or no element
/// @source Channels (ISCA 2014), section 3.2
template <class T, class Word = uint32_t, scope S = scope::device, count_order ORDER = count_order::none>
struct channel {
  slots<Word, S> space;
  ready_set<S, ORDER> ready;
  columns<T> elements;

  /// @internal
  GRAVEL_BOTH channel_words& state() const { return *static_cast<channel_words*>(space.state); }

  // ---- layout: the state, two words for each chunk, the elements. All parts are aligned to 128 bytes.

  /// @internal
  GRAVEL_BOTH static constexpr uint32_t chunks_for(uint32_t capacity) { return slots<Word, S>::chunks_for(capacity); }
  /// @internal
  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  /// Memory that a channel takes, in bytes.
  /// @param capacity elements, up to 2^30
  /// @scope any
  GRAVEL_BOTH static constexpr uint64_t bytes(uint32_t capacity) {
    const uint64_t chunks = chunks_for(capacity);
    return sizeof(channel_words) + line(chunks * sizeof(Word)) + line(chunks * 4) +
           line(columns<T>::bytes(chunks * chunk_tickets));
  }
  /// A view of memory. `room` in state() must be set to `capacity` once.
  /// @param memory [bytes(capacity)], zeroed, aligned to 128 bytes
  /// @param capacity elements, up to 2^30
  /// @scope any
  GRAVEL_BOTH static channel in(char* memory, uint32_t capacity) { return in(memory, capacity, chunks_for(capacity)); }
  /// @internal
  GRAVEL_BOTH static channel in(char* memory, uint32_t capacity, uint32_t chunks) {
    auto* const words = reinterpret_cast<channel_words*>(memory);
    char* const done = memory + sizeof(channel_words);
    char* const bits = done + line(chunks * sizeof(Word));
    char* const elements = bits + line(chunks * 4);
    return {{words, {reinterpret_cast<Word*>(done), chunks}, capacity},
            {&words->ready, &words->sweep, reinterpret_cast<uint32_t*>(bits), chunks},
            {reinterpret_cast<uint32_t*>(elements), chunks * chunk_tickets}};
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

  /// Hands over what the group wrote. Consumers can take it at once.
  /// @param group the lanes that reserved
  /// @param r what reserve() returned
  template <class Group>
  GRAVEL_BOTH void commit(const Group& group, const channel_reservation& r) const {
    ready.add(group, r.first, r.granted ? r.total : 0);
  }

  // ---- consumers

  /// Takes elements for the group: up to 32, or 1024 for a whole warp. None: none are ready, or it has found none where
  /// it has looked, and finds one when it asks again. Then the lanes call read(), and all together free().
  /// @param group the lanes that call
  /// @param most elements, at most
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, uint32_t most) const {
    const uint32_t there = group.from_leader(group.is_leader() ? ready.unclaimed() : 0);
    return ready.take(group, claim(group, there < most ? there : most));
  }
  /// Claims elements for the group: the first half of take(). The second is ready.take().
  /// @param group the lanes that call
  /// @param most elements, at most
  template <class Group>
  GRAVEL_BOTH channel_claim claim(const Group& group, uint32_t most) const {
    channel_claim mine;
    if (most != 0 && group.is_leader()) mine = ready.claim(most);
    if constexpr (ORDER == count_order::kept) group.sync();  // what the leader has acquired, all lanes have acquired
    return {group.from_leader(mine.n), group.from_leader(mine.cursor)};
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
    const uint64_t end = b.first + b.count, chunk = b.first / chunk_tickets * chunk_tickets;
    for (uint64_t c = chunk + group.rank() * chunk_tickets; c < end; c += group.size() * chunk_tickets) {
      const uint64_t from = c < b.first ? b.first : c, to = end < c + chunk_tickets ? end : c + chunk_tickets;
      space.done.add(c, static_cast<uint32_t>(to - from));  // [K3]
    }
  }

  // ---- the end

  /// Closes the channel: from now on no caller finds room. Elements whose room was taken before still come. A second
  /// call does nothing.
  /// @scope lane, or a host thread
  GRAVEL_BOTH void close() const {
    if (!compare_swap_acquire<S>(&state().closing, 0u, 1u)) return;
    space.close();
    store_release<S>(&state().closing, 2u);  // [K8]
  }
  /// Whether the channel is closed, or is being closed. A producer that has found no room asks this.
  /// @scope any
  GRAVEL_BOTH bool is_closed() const { return load_acquire<S>(&state().closing) != 0; }
  /// Whether the channel is closed, and all its elements are done: taken and freed. Then no more elements come. A
  /// consumer asks this when it has found none, after it has freed what it took.
  /// @scope lane, or a host thread
  GRAVEL_BOTH bool has_ended() const {
    return load_acquire<S>(&state().closing) == 2 && space.is_drained();  // [K8]
  }
  /// Room for elements, 0 if the channel is full or closed. The number may be out of date at once.
  /// @scope any
  GRAVEL_BOTH uint32_t room() const {
    const auto left = static_cast<int32_t>(load_relaxed<S>(&state().room));
    return left < 0 ? 0 : static_cast<uint32_t>(left);
  }

  /// Number of elements that are ready and that no consumer has claimed. The number may be out of date at once.
  /// @scope any
  GRAVEL_BOTH uint32_t waiting() const { return ready.unclaimed(); }
  /// Number of elements that are reserved, written or not, and that no consumer has claimed. The number may be out of
  /// date at once.
  /// @scope any
  GRAVEL_BOTH uint32_t reserved() const {
    const uint32_t claimed = ready.claimed();  // read first: it does not overtake the tail
    return static_cast<uint32_t>(load_relaxed<S>(&state().tail)) - claimed;
  }
};

/// Puts an element of each lane of the group into a channel: those of all lanes, or none. Thread scope: the group,
/// converged.
template <class Channel, class Group, class T>
GRAVEL_BOTH bool put_into(const Channel& to, const Group& group, const T& element) {
  const channel_reservation r = to.reserve(group, 1);
  if (r.granted) to.write(r.mine, element);
  to.commit(group, r);
  return r.granted;
}
/// Puts one element into a channel, for each lane. False: there is no room, or none that is visible yet. Thread scope:
/// lane, divergent; handlers may call it.
template <class Channel, class T>
GRAVEL_BOTH bool put_into(const Channel& to, const T& element) {
  return put_into(to, lane_group::active(), element);
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
    if (rank < 32) {
      uint32_t total = 0;
      if (rank == 0)
        for (uint32_t w = 0; w < (threads + 31) / 32; ++w) {
          const uint32_t of_warp = sum[w];
          sum[w] = total;
          total += of_warp;
        }
      total = warp.from_leader(total);
      const bool granted = to.space.take_room(warp, total);  // a warp collects the room of many chunks at once
      if (rank == 0) whole = {granted ? to.space.draw(total) : 0, 0, total, granted};
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
