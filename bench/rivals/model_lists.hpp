// Coalesced APIs (Gravel paper, section 3.3): a call by a whole block with the same arguments sends one list of
// messages to one PE. So a block gathers its messages in shared memory, sorts them by destination, and calls once for
// each.
#pragma once
#include <gravel/gravel.cuh>
#include "device/hand_over.cuh"
#include "device/message_sort.cuh"
#include "examples/common/together.hpp"

namespace app {
using gravel::lane_group;
using gravel::detail::block_add;
using gravel::detail::block_add_relaxed;
using gravel::detail::block_team;
using gravel::detail::hand_over_to_peers;
using gravel::detail::hand_over_to_queue;
using gravel::detail::kind_table;
using gravel::detail::message_key;
using gravel::detail::message_sort;
using gravel::detail::row_kind;
using gravel::detail::sink_kind;
using gravel::detail::sink_of;
using gravel::detail::sorted_messages;
using gravel::detail::store_message;
using gravel::detail::unit;
using gravel::detail::words_at;

/// What a kernel did that its model cannot do. The first one stands in a word of device memory.
enum class model_misuse : uint32_t { none, many_of_block, many_of_queue, far_away, kinds };
GRAVEL_DEVICE void report_misuse(uint32_t* word, model_misuse what) {
  atomicCAS(word, 0u, static_cast<uint32_t>(what));
}

/// The messages of a block, in shared memory. All that it sends has to fit: nobody can empty the buffer but all lanes
/// together, and in divergent code they are not.
struct block_lists {
  static constexpr uint32_t capacity = 1024;

  uint32_t taken, in_place;
  uint16_t first_of_list;  ///< 0
  uint64_t ticket;
  kind_table kinds;
  unit buffer[capacity];
  uint32_t key[capacity];  ///< by message
  message_sort<static_cast<int>(lanes_of_block), static_cast<int>(capacity)> sorted;

  /// Thread scope: block, converged.
  GRAVEL_DEVICE void begin() {
    if (threadIdx.x == 0) {
      taken = in_place = first_of_list = 0;
      kinds.begin();
    }
    __syncthreads();
  }
  /// False: there is no room. Thread scope: lane, divergent.
  template <row_kind KIND, uint32_t N>
  GRAVEL_DEVICE bool add(const message_key& keys, uint32_t pe, const uint32_t (&message)[N]) {
    static_assert(N <= row_kind::words_of_unit, "messages of the models fit a unit");
    const lane_group group = lane_group::active();
    uint32_t at = 0;
    if (group.is_leader()) at = block_add(&taken, group.size());
    at = group.from_leader(at) + group.rank();
    if (at >= capacity) return false;
    store_message(words_at(&buffer[at]), message);
    key[at] = keys.of(kinds.number_of(KIND), sink_of(pe, sink_kind::device));
    return true;
  }
  /// A message was for this PE, and is applied. Thread scope: lane, divergent.
  GRAVEL_DEVICE void count_in_place() {
    const lane_group group = lane_group::active_to_count();
    if (group.is_leader()) block_add_relaxed(&in_place, group.size());
  }
  /// Sorts the messages, and calls visit(list) for each kind and PE. Thread scope: block, converged.
  template <class Visit>
  GRAVEL_DEVICE void each_list(const message_key& keys, Visit&& visit) {
    __syncthreads();
    const uint32_t n = taken < capacity ? taken : capacity;
    if (n == 0) return;
    sorted.sort(block_team<lanes_of_block>(threadIdx.x), key, n, keys.bits(kinds.size()));
    const sorted_messages all{buffer, key,   sorted.order, sorted.row_first, sorted.n_rows, sorted.n_messages,
                              keys,   &kinds};
    for (uint32_t row = 0; row < all.n_rows; ++row) {
      const uint32_t first = all.first_of(row);
      visit(
          sorted_messages{buffer, key, sorted.order + first, &first_of_list, 1, all.end_of(row) - first, keys, &kinds});
    }
  }
};

/// The coalesced API: sends one list to its PE. Thread scope: block, converged, with the same arguments.
GRAVEL_DEVICE void put_list(const gravel_t& g, const sorted_messages& list, uint64_t* ticket) {
  const auto sync = [] { __syncthreads(); };
  if (g.peers) hand_over_to_peers(g, list, ticket, threadIdx.x, lanes_of_block, sync);
  hand_over_to_queue(g, list, ticket, threadIdx.x, lanes_of_block, sync, [] {});
}

}  // namespace app
