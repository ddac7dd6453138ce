// The ready elements of a channel (channel.cuh): how many there are, and which places hold one.
//
// Problem. Elements are written in any order. A consumer may take an element as soon as it is written, whether those
// that were reserved before it are written or not. No consumer may wait, and thousands of them must not compete for one
// word by compare and swap, of which only one in each round trip to memory succeeds.
// Solution. A word for each 32 places (a chunk) has a bit for each place that holds a ready element. One word counts
// the ready elements that nobody has claimed. A consumer claims some of them by an addition, which says how many it may
// take, and then clears as many bits. The same addition counts what was claimed before it: the cursor. If elements were
// written in the order of their reservation, those of the consumer lie at the cursor. Otherwise it looks near it, and
// then at the next chunks of the sweep, which all consumers of the channel do together, round and round. If it finds
// nothing it returns its claim. So no call takes more than some trips to memory: a search of all chunks would take
// thousands of them, just when elements are few and far apart. A consumer that asks again looks at other chunks, and
// those that are ready become more until they are found.
//
//   producer, which has written                            consumer
//   sets the bits of each chunk         [K4] release       if some are unclaimed: unclaimed -= n         [K7]
//   unclaimed += n                      [K7]               were there fewer: unclaimed += the difference [K7]
//                                                          clears the bits at the cursor                 [K4] acquire
//                                                          were they all 0: looks for others, near the
//                                                            cursor and in the sweep, and clears these   [K4] acquire
//                                                          sets the bits that are not in a row again     [K4] release
//                                                          unclaimed += what it does not take            [K7]
//
// Invariants
// - The bits that are set, and those that a consumer has cleared and not yet set again, are at least as many as the
//   elements that are unclaimed or claimed and not taken: a producer sets them first, and a consumer that takes an
//   element has claimed it.
// - No element is lost: each call that takes nothing although it has claimed moves the sweep on. After as many such
//   calls as the sweep has steps, one of them has looked at the chunk of any element that was ready.
// - An element belongs to the consumer that has changed its bit from 1 to 0.
// - A bit is set only by the producer that holds the ticket, or by the consumer that has just cleared it. A place is
//   used again only after its last element is done (slots.hpp), so its bit is 0 then: a bit never stands for an older
//   element (no ABA).
// - A consumer sees what it takes: all changes of a chunk's word are read-modify-writes, so one that acquires the word
//   acquires from all producers that have set bits before (a release sequence).
// - The cursor is a hint. Its errors cost a search.
// - With count_order::kept the elements of one producer come to one consumer in order. The producer writes in the order
//   of its tickets and sets bits before it counts [K7]. A consumer that claims has acquired the count, so all that it
//   claims is ready at the cursor, which nobody else moves.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "lib/base/atomic.hpp"
#include "lib/channel/slots.hpp"

namespace gravel::detail {

/// The batch that a group has taken: the lane of rank r < count has ticket first + r.
struct channel_batch {
  uint64_t first = 0;
  uint32_t count = 0;
};

/// The value of the word that counts ready elements. Low half: elements that nobody has claimed, below 0 while a late
/// consumer has not returned what it claimed too much. High half: elements claimed so far, modulo 2^32.
struct ready_count {
  uint64_t word;
  GRAVEL_BOTH int32_t unclaimed() const { return static_cast<int32_t>(static_cast<uint32_t>(word)); }
  GRAVEL_BOTH uint32_t cursor() const {
    return static_cast<uint32_t>((word - static_cast<uint64_t>(static_cast<int64_t>(unclaimed()))) >> 32);
  }
  /// What the claim of n elements adds to the word.
  GRAVEL_BOTH static constexpr uint64_t claim_of(uint32_t n) { return (uint64_t{n} << 32) - n; }
};

/// A claim of n elements, and where to begin to look for them.
struct channel_claim {
  uint32_t n = 0, cursor = 0;
};

/// The order of the count of a channel's ready elements. `none`: additions without order. `kept`: they are ordered with
/// the bits, so a consumer that claims elements finds the bits of those at the cursor.
enum class count_order : uint8_t { none, kept };

/// Adds n to a word for each lane of those that make this call together and add as much to the same word, by one
/// addition. Returns what the word was before, as if the lanes had added one after the other. Thread scope: lane,
/// divergent.
template <scope S, count_order ORDER, class T>
[[gnu::always_inline]] GRAVEL_BOTH T add_together(T* word, T n) {
  const auto add = [word](T all) {
    if constexpr (ORDER == count_order::kept) return fetch_add_acq_rel<S>(word, all);
    else return fetch_add<S>(word, all);
  };
  const lane_group here = lane_group::active();
  if (here.size() == 1) return add(n);
  const lane_group alike = here.part(here.match(reinterpret_cast<uint64_t>(word)) & here.match(n));
  if constexpr (ORDER == count_order::kept) alike.sync();
  T before{};
  if (alike.is_leader()) before = add(static_cast<T>(n * alike.size()));
  before = alike.from_leader(before) + static_cast<T>(n * alike.rank());
  if constexpr (ORDER == count_order::kept) alike.sync();
  return before;
}

/// The ready elements of one channel: plain data. S: the processors that use it.
template <scope S = scope::device, count_order ORDER = count_order::none>
struct ready_set {
  uint64_t* count;  ///< a ready_count
  uint32_t* sweep;  ///< number of chunks at which consumers have looked that found nothing near the cursor; it wraps
  uint32_t* bits;   ///< [chunks] bit i: place i of the chunk holds a ready element
  uint32_t chunks;  ///< power of two

  /// Number of ready elements that nobody has claimed. It may be out of date at once. Thread scope: any.
  GRAVEL_BOTH uint32_t unclaimed() const {
    const int32_t n = ready_count{load_relaxed<S>(count)}.unclaimed();
    return n < 0 ? 0 : static_cast<uint32_t>(n);
  }
  /// Number of elements that consumers have claimed so far, modulo 2^32. It may be out of date at once. Thread scope:
  /// any.
  GRAVEL_BOTH uint32_t claimed() const { return ready_count{load_relaxed<S>(count)}.cursor(); }
  /// Makes n elements ready that the group has written, from ticket `first` on. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH void add(const Group& group, uint64_t first, uint32_t n) const {
    group.sync();
    if (n == 0) return;
    const uint64_t end = first + n;
    for (uint64_t c = start_of(first) + group.rank() * chunk_tickets; c < end; c += group.size() * chunk_tickets)
      fetch_add_release<S>(word_of(c), part_of(c, first, end));  // [K4] these bits are 0
    group.sync();
    if (group.is_leader()) add_together<S, ORDER>(count, uint64_t{n});  // [K7]
  }
  /// Claims up to n elements, for take(). Thread scope: lane.
  GRAVEL_BOTH channel_claim claim(uint32_t n) const {
    const ready_count before{add_together<S, ORDER>(count, ready_count::claim_of(n))};  // [K7]
    const uint32_t there = before.unclaimed() <= 0 ? 0 : static_cast<uint32_t>(before.unclaimed()),
                   got = there < n ? there : n;
    return_claim(n - got);
    return {got, before.cursor()};
  }
  /// Takes elements that have been claimed, and returns the rest of the claim. None: it has found none where it has
  /// looked. A whole warp takes up to 1024, another group up to 32. Thread scope: the group, converged; all lanes have
  /// the claim.
  template <class Group>
  GRAVEL_BOTH channel_batch take(const Group& group, const channel_claim& mine) const {
    if (mine.n == 0) return {};
    channel_batch b = clear(group, mine.cursor, mine.n);
    const uint32_t width = group.size() * each_looks_at;
    uint32_t chunk = mine.cursor / chunk_tickets - width / 2;
    for (bool sweeps = false; b.count == 0; sweeps = true) {
      uint32_t place = 0;
      if (find(group, chunk, mine, &place)) b = clear(group, place, mine.n);
      if (b.count != 0 || sweeps) break;
      if (group.is_leader()) chunk = add_together<S, count_order::none>(sweep, width);
      chunk = group.from_leader(chunk);
    }
    if (group.is_leader()) return_claim(mine.n - b.count);
    return b;
  }

 private:
  /// Number of chunks at which each lane looks at once: loads that are in flight together.
  static constexpr uint32_t each_looks_at = 8;

  GRAVEL_BOTH static uint64_t start_of(uint64_t ticket) { return ticket / chunk_tickets * chunk_tickets; }
  GRAVEL_BOTH uint32_t* word_of(uint64_t ticket) const { return &bits[ticket / chunk_tickets & (chunks - 1)]; }
  /// `n` bits from bit `low` on; low + n is at most 32.
  GRAVEL_BOTH static uint32_t row_of_bits(uint32_t low, uint32_t n) {
    return (n == chunk_tickets ? ~0u : (1u << n) - 1) << low;
  }
  /// The bits of the tickets from `first` to `end` that lie in the chunk that begins with ticket c; 0: there are none.
  GRAVEL_BOTH static uint32_t part_of(uint64_t c, uint64_t first, uint64_t end) {
    const uint64_t from = c < first ? first : c, to = end < c + chunk_tickets ? end : c + chunk_tickets;
    return from < to ? row_of_bits(static_cast<uint32_t>(from - c), static_cast<uint32_t>(to - from)) : 0;
  }
  GRAVEL_BOTH void return_claim(uint32_t n) const {
    if (n != 0) add_together<S, ORDER>(count, uint64_t{0} - ready_count::claim_of(n));  // [K7]
  }

  /// Clears the bits of n places from ticket `first` on. Returns the first row of neighbouring places whose bits were
  /// set. A bit that was set and is not in this row is set again. Each lane of a whole warp clears those of one chunk;
  /// of another group, the leader those of the first chunk.
  template <class Group>
  GRAVEL_BOTH channel_batch clear(const Group& group, uint64_t first, uint32_t n) const {
    const bool is_warp = group.is_whole_warp();
    const uint64_t chunk = start_of(first) + group.rank() * chunk_tickets;
    const uint32_t wanted = is_warp || group.is_leader() ? part_of(chunk, first, first + n) : 0;
    uint32_t got = 0;
    if (wanted != 0) got = fetch_and_acquire<S>(word_of(chunk), ~wanted) & wanted;  // [K4]
    const uint32_t some = group.ballot(got != 0);
    if (some == 0) return {};
    const uint32_t lane = lane_group::lowest(some), low = got == 0 ? 0 : lane_group::lowest(got);
    channel_batch b{group.from_lane(chunk + low, lane), group.from_lane(low_ones(got >> low), lane)};
    uint32_t kept = group.lane() == lane ? row_of_bits(low, b.count) : 0;
    if (is_warp && (b.first + b.count) % chunk_tickets == 0) {  // the row may go on in the chunks of the next lanes
      const uint32_t behind = lane == 31 ? 0 : group.ballot(got == ~0u) >> (lane + 1),
                     last = lane + 1 + low_ones(behind);
      const uint32_t more = low_ones(got);  // of lane `last`, whose chunk is not full
      if (group.lane() > lane && group.lane() < last) kept = ~0u;
      if (group.lane() == last) kept = row_of_bits(0, more);
      b.count += (last - lane - 1) * chunk_tickets + (last < 32 ? group.from_lane(more, last) : 0);
    }
    if (got != kept) fetch_add_release<S>(word_of(chunk), got & ~kept);  // [K4]
    group.sync();  // what one lane has acquired, all lanes have acquired
    return b;
  }
  /// Looks for a ready element in each_looks_at chunks for each lane, from `chunk` on. Of the lanes that find one it
  /// takes one by chance, so that consumers do not all come to the same place. False: there is none just now.
  template <class Group>
  GRAVEL_BOTH bool find(const Group& group, uint32_t chunk, const channel_claim& mine, uint32_t* place) const {
    uint32_t ready[each_looks_at];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < each_looks_at; ++k) {
      const uint32_t i = k * group.size() + group.rank();
      ready[k] = i < chunks ? load_relaxed<S>(&bits[(chunk + i) & (chunks - 1)]) : 0;
    }
    // A consumer of one element begins at a bit of its own: lanes that look at the same chunks take different ones.
    const uint32_t from = mine.n == 1 ? mine.cursor % chunk_tickets : 0;
    uint32_t found = 0;
    bool has = false;
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < each_looks_at; ++k) {
      if (has || ready[k] == 0) continue;
      const uint32_t behind = ready[k] >> from << from;
      has = true;
      found = (chunk + k * group.size() + group.rank()) * chunk_tickets +
              lane_group::lowest(behind != 0 ? behind : ready[k]);
    }
    uint32_t some = group.ballot(has);
    if (some == 0) return false;
    for (uint32_t skip = (mine.cursor * 0x9e3779b9u >> 16) % lane_group::popcount(some); skip != 0; --skip)
      some &= some - 1;
    *place = group.from_lane(found, lane_group::lowest(some));
    return true;
  }
};

}  // namespace gravel::detail
