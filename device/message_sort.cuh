// Sorts the messages that a block sender has gathered: the positions of messages by their keys. The sort is done by
// some lanes of a warp, or by a whole block.
//
// Small keys are counted while messages are gathered, by the lanes that write them: count() gives each message its
// place among those with its key. Then the sort only sums up the counts and stores each position in its place. This is
// worth it because mostly one warp sorts while the block waits.
//
// Other keys, and messages that were not counted, take a stable radix sort. Each warp goes through its own part of the
// positions. There is a counter for each digit and warp: first it counts, then it holds the place of the next position.
#pragma once
#include "device/block_add.hpp"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// The team that sorts. Thread scope of every member: all lanes of the team, converged.
template <class Lanes>
struct group_team {  ///< Lanes: lane_group, or a type with its members
  const Lanes& lanes;
  static constexpr uint32_t warp = 0, warps = 1;
  GRAVEL_DEVICE uint32_t rank() const { return lanes.rank(); }
  GRAVEL_DEVICE uint32_t size() const { return lanes.size(); }
  GRAVEL_DEVICE void sync() const { lanes.sync(); }
};
template <int BLOCK>
struct block_team {
  lane_group lanes;
  uint32_t warp, rank_;
  static constexpr uint32_t warps = (BLOCK + 31) / 32;
  GRAVEL_DEVICE explicit block_team(uint32_t rank)
      : lanes(lane_group::converged_warp(rank, BLOCK)), warp(rank / 32), rank_(rank) {}
  GRAVEL_DEVICE uint32_t rank() const { return rank_; }
  GRAVEL_DEVICE uint32_t size() const { return BLOCK; }
  GRAVEL_DEVICE void sync() const { __syncthreads(); }
};

/// The sort's memory, for a buffer of CAPACITY units in blocks of BLOCK threads. In shared memory.
template <int BLOCK, int CAPACITY>
struct message_sort {
  static constexpr uint32_t no_message = ~0u;
  static constexpr uint32_t warps = (BLOCK + 31) / 32, n_counters = warps <= 8 ? 256 : 32 * warps;
  static constexpr uint32_t n_counted_log2 = 7, n_counted = 1u << n_counted_log2;  ///< smaller keys are counted
  static_assert(n_counted <= n_counters);

  uint16_t order[CAPACITY];      ///< positions of messages, sorted by key
  uint16_t row_first[CAPACITY];  ///< index into `order` of each row's first message
  /// `order` in every second pass of the radix sort; by position, the place of a message among those with its key.
  uint16_t other[CAPACITY];
  uint16_t counter[n_counters];  ///< [digit][warp]
  uint16_t sum[32];
  uint32_t n_rows, n_messages;
  uint32_t counted[n_counted];  ///< by key: messages so far
  uint32_t others;              ///< not 0: there are messages with other keys

  /// Begins to count messages. Thread scope: the team, which synchronizes after it.
  GRAVEL_DEVICE void begin_count(uint32_t rank, uint32_t size) {
    for (uint32_t k = rank; k < n_counted; k += size) counted[k] = 0;
    if (rank == 0) others = 0;
  }
  /// Counts messages: each lane has written one, with its key, at `position`. Thread scope: the lanes.
  template <class Lanes>
  GRAVEL_DEVICE void count(const Lanes& lanes, uint32_t key, uint32_t position) {
    const uint32_t peers = lanes.match(key), first = lane_group::lowest(peers);
    uint32_t before = 0;
    if (lanes.rank_in(peers) == 0) {
      if (key < n_counted) before = block_add_relaxed(&counted[key], lane_group::popcount(peers));
      else store_relaxed<scope::shared>(&others, 1u);
    }
    before = lanes.from_lane(before, first);
    other[position] = static_cast<uint16_t>(before + lanes.rank_in(peers));
  }

  /// As sort(), for messages that have all been counted since the last sort. Counting begins anew.
  template <class Team>
  GRAVEL_DEVICE void sort_counted(const Team& team, const uint32_t* key, uint32_t units, uint32_t key_bits) {
    const uint32_t n_keys = key_bits < n_counted_log2 ? 1u << key_bits : n_counted;
    if (others == 0) {
      if (team.warp == 0) place_rows(team.lanes, n_keys);
      team.sync();
      for (uint32_t i = team.rank(); i < units; i += team.size()) {
        const uint32_t k = key[i];
        if (k != no_message) order[counter[k] + other[i]] = static_cast<uint16_t>(i);
      }
      team.sync();
    } else {
      sort(team, key, units, key_bits);
      begin_count(team.rank(), team.size());
      team.sync();
    }
  }

  /// Sorts the messages among the first `units` positions by the lowest `key_bits` bits of their keys, and finds the
  /// rows of equal keys. key: by position; no_message where no message begins. Thread scope: the team.
  template <class Team>
  GRAVEL_DEVICE void sort(const Team& team, const uint32_t* key, uint32_t units, uint32_t key_bits) {
    // The fewest passes for which there are counters, with digits as short as this allows.
    uint32_t most_bits = 0;
    while ((uint32_t{Team::warps} << (most_bits + 1)) <= n_counters && most_bits < 8) ++most_bits;
    const uint32_t passes = (key_bits + most_bits - 1) / most_bits, bits = (key_bits + passes - 1) / passes;
    const uint16_t* from = nullptr;  // the first pass takes the positions in their order
    uint32_t count = units;
    for (uint32_t pass = 0; pass < passes; ++pass) {
      uint16_t* const to = (passes - pass) % 2 ? order : other;
      scatter(team, key, from, to, count, pass * bits, bits);
      from = to;
      if (pass == 0) count = n_messages;
    }
    if (team.warp == 0) find_rows(team.lanes, key, count);
    team.sync();
  }

 private:
  /// Sets counter[k] to the first index of key k in `order`. Thread scope: one warp, or some lanes of it.
  template <class Lanes>
  GRAVEL_DEVICE void place_rows(const Lanes& lanes, uint32_t n_keys) {
    for (uint32_t k = lanes.rank(); k < n_keys; k += lanes.size()) counter[k] = static_cast<uint16_t>(counted[k]);
    lanes.sync();
    sum_up(lanes, n_keys);
    uint32_t rows = 0;
    for (uint32_t base = 0; base < n_keys; base += lanes.size()) {
      const uint32_t k = base + lanes.rank();
      const bool begins = k < n_keys && counted[k] != 0;
      const uint32_t votes = lanes.ballot(begins);
      if (begins) {
        row_first[rows + lanes.rank_in(votes)] = counter[k];
        counted[k] = 0;
      }
      rows += lane_group::popcount(votes);
    }
    if (lanes.is_leader()) n_rows = rows;
    lanes.sync();
  }

  /// One pass of the radix sort.
  template <class Team>
  GRAVEL_DEVICE void scatter(const Team& team, const uint32_t* key, const uint16_t* from, uint16_t* to, uint32_t count,
                             uint32_t shift, uint32_t bits) {
    const uint32_t digits = 1u << bits, none = digits, width = team.lanes.size(), rank = team.lanes.rank();
    const uint32_t part = (count + 32 * Team::warps - 1) / (32 * Team::warps) * 32;
    const uint32_t begin = team.warp * part, end = begin + part < count ? begin + part : count;
    const auto position_at = [&](uint32_t i) { return from ? from[i] : static_cast<uint16_t>(i); };
    const auto digit_of = [&](uint32_t position) {
      const uint32_t k = key[position];
      return k == no_message ? none : k >> shift & (digits - 1);
    };
    for (uint32_t c = team.rank(); c < digits * Team::warps; c += team.size()) counter[c] = 0;
    team.sync();
    // Of the lanes of a warp with the same digit, only the lowest adds, so plain additions suffice.
    for (uint32_t base = begin; base < end; base += width) {
      const uint32_t i = base + rank;
      const uint32_t digit = i < end ? digit_of(position_at(i)) : none;
      const uint32_t peers = team.lanes.match(digit);
      if (digit != none && team.lanes.rank_in(peers) == 0) add_to(digit * Team::warps + team.warp, peers);
      team.lanes.sync();
    }
    team.sync();
    if (team.warp == 0) sum_up(team.lanes, digits * Team::warps);
    team.sync();
    for (uint32_t base = begin; base < end; base += width) {
      const uint32_t i = base + rank;
      const uint16_t position = i < end ? position_at(i) : uint16_t{0};
      const uint32_t digit = i < end ? digit_of(position) : none, mine = digit * Team::warps + team.warp;
      const uint32_t peers = team.lanes.match(digit);
      if (digit != none) to[counter[mine] + team.lanes.rank_in(peers)] = position;
      team.lanes.sync();
      if (digit != none && team.lanes.rank_in(peers) == 0) add_to(mine, peers);
      team.lanes.sync();
    }
    team.sync();
  }

  GRAVEL_DEVICE void add_to(uint32_t c, uint32_t lanes) {
    counter[c] = static_cast<uint16_t>(counter[c] + lane_group::popcount(lanes));
  }

  /// Sets each of the first `n` counters to the sum of those before it, and n_messages to the sum of all. Thread scope:
  /// one warp, or some lanes of it.
  template <class Lanes>
  GRAVEL_DEVICE void sum_up(const Lanes& lanes, uint32_t n) {
    const uint32_t each = (n + lanes.size() - 1) / lanes.size(), begin = lanes.rank() * each;
    const uint32_t end = begin + each < n ? begin + each : n;
    uint32_t mine = 0;
    for (uint32_t c = begin; c < end; ++c) mine += counter[c];
    sum[lanes.rank()] = static_cast<uint16_t>(mine);
    lanes.sync();
    uint32_t before = 0;
    for (uint32_t r = 0; r < lanes.rank(); ++r) before += sum[r];
    if (lanes.rank() + 1 == lanes.size()) n_messages = before + mine;
    for (uint32_t c = begin; c < end; ++c) {
      const uint32_t here = counter[c];
      counter[c] = static_cast<uint16_t>(before);
      before += here;
    }
    lanes.sync();
  }

  template <class Lanes>
  GRAVEL_DEVICE void find_rows(const Lanes& lanes, const uint32_t* key, uint32_t count) {
    uint32_t rows = 0;
    for (uint32_t base = 0; base < count; base += lanes.size()) {
      const uint32_t i = base + lanes.rank();
      const bool begins = i < count && (i == 0 || key[order[i]] != key[order[i - 1]]);
      const uint32_t votes = lanes.ballot(begins);
      if (begins) row_first[rows + lanes.rank_in(votes)] = static_cast<uint16_t>(i);
      rows += lane_group::popcount(votes);
    }
    if (lanes.is_leader()) n_rows = rows;
    lanes.sync();
  }
};

}  // namespace gravel::detail
