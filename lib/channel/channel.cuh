// A channel: a bounded queue of elements of one type in the memory of one GPU, which any number of lanes fill and empty at the same time
// (paper 002, section 3.2, recast). It has no lock, and nobody waits in it: what finds no room, or nothing to take, is told so. Elements
// are a structure of arrays; a warp, or a block, reserves, commits and takes for all its lanes at once.
//
//   producer                                              consumer
//   room for n, all or nothing        [K1]                how many of a chunk are committed?          [K4] acquire
//   n tickets from the tail           [K2]                head: h -> h + n, by compare and swap
//   writes the elements                                   reads the elements
//   committed count of each chunk     [K4] release        done count of the chunk                     [K3] release
//
// An element is: available, reserved (ticket drawn), ready (committed, and so are all before it in its chunk), taken, done. A chunk is 32
// tickets, and has one word that counts commits and one that counts what is done. Room comes back in the order of tickets; who finds too
// little looks for it (lib/channel/slots.hpp).
//
// Invariants: done <= taken <= ready <= reserved, of which no more than the capacity are not done. A take lies in one chunk and is ready as a whole:
// either all 32 are committed, or as many as there are tickets. For that, the count is read before the tail, which only grows: were it
// read behind it, later tickets could stand for an earlier one that is not committed. What was ready stays ready, so the compare and swap
// of `head`, which only grows, may come behind that look (no ABA).
//
// The model is test/models/channel.pml; test/channel_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "lib/channel/columns.hpp"
#include "lib/channel/slots.hpp"

namespace gravel {

/// Of a value that each lane of a group has: the sum of those before this lane, and of all. Thread scope: the group, converged.
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
};

/// Plain data, passed to kernels by value. `Word`: of the sequence words; a narrow one is for tests.
template <class T, class Word = uint32_t>
struct channel {
  slots<Word> space;
  sequence<Word> committed;
  columns<T> elements;

  GRAVEL_BOTH channel_words& state() const { return *static_cast<channel_words*>(space.state); }

  // ---- layout. State, two words for each chunk, elements; aligned to 128 bytes, and so are the parts.

  GRAVEL_BOTH static constexpr uint32_t chunks_for(uint32_t capacity) { return slots<Word>::chunks_for(capacity); }
  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  GRAVEL_BOTH static constexpr uint64_t bytes(uint32_t capacity) {
    const uint64_t chunks = chunks_for(capacity);
    return sizeof(channel_words) + 2 * line(chunks * sizeof(Word)) + line(columns<T>::bytes(chunks * chunk_tickets));
  }
  /// A view of zeroed memory; `capacity` up to 2^30. room must be set to capacity once.
  GRAVEL_BOTH static channel in(char* memory, uint32_t capacity) {
    const uint32_t chunks = chunks_for(capacity);
    char* const words = memory + sizeof(channel_words);
    const uint64_t each = line(chunks * sizeof(Word));
    return {{reinterpret_cast<channel_words*>(memory), {reinterpret_cast<Word*>(words), chunks}, capacity},
            {reinterpret_cast<Word*>(words + each), chunks},
            {reinterpret_cast<uint32_t*>(words + 2 * each), chunks * chunk_tickets}};
  }

  // ---- producers

  /// Room for `n` elements of each lane (which may differ, and be 0), for all of the group or for none. Thread scope: the group,
  /// converged. After it: write() of each ticket, then commit() of the whole.
  template <class Group>
  GRAVEL_BOTH channel_reservation reserve(const Group& group, uint32_t n) const {
    const group_sum sum = group_sum::of(group, n);
    channel_reservation r{0, 0, sum.total, false};
    if (group.is_leader()) {
      r.granted = take_room(sum.total);
      if (r.granted) r.first = space.draw(sum.total);
    }
    r.granted = group.from_leader(static_cast<uint32_t>(r.granted)) != 0;
    r.first = group.from_leader(r.first);
    r.mine = r.first + sum.before;
    return r;
  }
  /// The same out of room that take_room() has promised.
  template <class Group>
  GRAVEL_BOTH channel_reservation draw(const Group& group, uint32_t n) const {
    const group_sum sum = group_sum::of(group, n);
    channel_reservation r{0, 0, sum.total, true};
    if (sum.total && group.is_leader()) r.first = space.draw(sum.total);
    r.first = group.from_leader(r.first);
    r.mine = r.first + sum.before;
    return r;
  }
  /// Promises room to be drawn later. Thread scope: lane.
  GRAVEL_BOTH bool take_room(uint32_t n) const { return space.take_room(n); }
  GRAVEL_BOTH void give_room(uint32_t n) const { space.give_room(n); }

  /// Thread scope: lane, which holds the ticket.
  GRAVEL_BOTH void write(uint64_t ticket, const T& element) const { elements.store(space.row(ticket), element); }

  /// Hands over what the group wrote. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH void commit(const Group& group, const channel_reservation& r) const {
    group.sync();
    if (!r.granted || r.total == 0) return;
    const uint64_t end = r.first + r.total, chunk = r.first / chunk_tickets * chunk_tickets;
    for (uint64_t c = chunk + uint64_t{group.rank()} * chunk_tickets; c < end; c += uint64_t{group.size()} * chunk_tickets) {
      const uint64_t from = c < r.first ? r.first : c, to = end < c + chunk_tickets ? end : c + chunk_tickets;
      committed.add(c, static_cast<uint32_t>(to - from));  // [K4]
    }
  }

  // ---- consumers

  /// Takes up to `most` elements for the group, at most what is left of the first chunk: none if none are ready, or other groups were
  /// faster. `head`: where it was a moment ago. Thread scope: the group, converged. After it: read(), then free() of the whole.
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, uint32_t most, uint64_t head) const {
    channel_batch b;
    if (group.is_leader()) b = take_alone(most, head);
    b.count = group.from_leader(b.count);
    b.first = group.from_leader(b.first);
    return b;
  }
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, uint32_t most) const {
    return take(group, most, load_relaxed<scope::device>(&state().head));
  }
  /// The same for one lane.
  GRAVEL_BOTH channel_batch take_alone(uint32_t most) const { return take_alone(most, load_relaxed<scope::device>(&state().head)); }
  GRAVEL_BOTH channel_batch take_alone(uint32_t most, uint64_t head) const {
    for (uint32_t tries = 0; tries < 4; ++tries, head = load_relaxed<scope::device>(&state().head)) {
      const uint64_t chunk = head / chunk_tickets * chunk_tickets;
      const uint32_t count = committed.count(head);  // [K4]; before the tail
      if (count > chunk_tickets) continue;           // the head has moved
      const uint64_t end = chunk + count;
      if (end <= head) return {};
      if (count < chunk_tickets && load_relaxed<scope::device>(&state().tail) != end) return {};
      const auto n = static_cast<uint32_t>(end - head < most ? end - head : most);
      if (n == 0) return {};
      if (compare_swap_acquire<scope::device>(&state().head, head, head + n)) return {head, n};
    }
    return {};
  }
  /// Thread scope: lane.
  GRAVEL_BOTH T read(uint64_t ticket) const { return elements.load(space.row(ticket)); }
  /// The slots may be used again: all lanes have read. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH void free(const Group& group, const channel_batch& b) const {
    group.sync();
    if (b.count && group.is_leader()) space.free(b.first, b.count);  // [K3]
  }

  /// Elements that have been reserved and not been taken; most of them are ready. A moment later it may be another number.
  GRAVEL_BOTH uint32_t waiting() const {
    const uint64_t head = load_relaxed<scope::device>(&state().head), tail = load_relaxed<scope::device>(&state().tail);
    return static_cast<uint32_t>(tail - head);
  }
};

/// One element of each lane. False: no room, or none that has been seen yet. Thread scope: lane, divergent; handlers, too.
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
    __syncthreads();
    const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                   threads = blockDim.x * blockDim.y * blockDim.z;
    if (rank < 32) to.commit(lane_group::converged_warp(rank, threads), r);
    __syncthreads();
  }
};

}  // namespace gravel
