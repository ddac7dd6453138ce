// Collective insertions into a gravel::map by phases: the memory of the lists, and the launches. The protocol is in
// map_phase_kernels.cuh.
#pragma once
#include <algorithm>
#include <optional>

#include "host/device_array.hpp"
#include "host/mapped_rendezvous.cuh"
#include "lib/table/map_phase_kernels.cuh"
#include "lib/table/map_phase_plan.hpp"

namespace gravel::detail {

/// Called behind each phase of a collective insertion that nobody observes.
struct map_unobserved {
  void operator()(const char*) const {}
};

/// The collective insertions of a map, and their memory.
template <class Key, class Value>
class map_phases {
 public:
  using memory_type = map_phase_memory<sizeof(Key), sizeof(Value)>;
  using item = typename memory_type::item;

  /// Collective.
  map_phases() : shared_(gravel_min_all(current_backend().block_shared_bytes()) - map_phase_limits::static_bytes) {}
  map_phases(const map_phases&) = delete;
  map_phases& operator=(const map_phases&) = delete;

  /// Before a collective insertion: waits for the last one, if that was in another stream.
  void enter(gravel_stream_t stream) {
    if (last_stream_ && *last_stream_ != stream) gravel_synchronize();  // the last stream may be gone
    last_stream_ = stream;
  }
  /// Inserts items by phases. Collective. False: phases do not pay, and nothing is done.
  /// @param most items of the PE that has most
  /// @param pes that deal to each other: all, or 1: each PE has items of its own keys alone
  /// @param passed passed(name) is called behind the launches of each phase; it may launch kernels in the stream
  template <map_update HOW, class Passed = map_unobserved>
  bool insert(const map_view<Key, Value>& map, const Key* keys, const Value* values, uint64_t n, uint64_t most,
              uint32_t pes, gravel_stream_t stream, const Passed& passed = {}) {
    using slots = typename map_view<Key, Value>::table;
    if constexpr (sizeof(item) > map_phase_limits::most_item_bytes) return false;
    else {
      const map_phase_plan plan = map_phase_plan::of(map.own.count, slots::parts::shift(map.own.count), sizeof(item),
                                                     pes, plain_tile::most_bins, most);
      const uint64_t part_bytes = sizeof(typename slots::slot_type) << plan.part_shift;
      const uint32_t most_bins = std::max(plan.groups * pes, 1u << plan.group_shift);
      if (!plan.pays || std::max<uint64_t>(plain_tile::bytes(most_bins), part_bytes) > shared_) return false;
      lay_out(plan, pes);
      const uint64_t chunks = (most + plan.chunk - 1) / plan.chunk;
      all_arrive(stream);
      passed("begin");
      for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
        const uint64_t first = std::min(chunk * plan.chunk, n), count = std::min(n - first, plan.chunk);
        deal<HOW>(map, keys + first, values + first, count, stream, passed);
        all_arrive(stream);
        passed("all dealt");
        insert_own<HOW>(map, part_bytes, stream, passed);
        all_arrive(stream);
        passed("all inserted");
      }
      return true;
    }
  }
  /// Frees the memory. Collective.
  void release() {
    if (rendezvous_) rendezvous_->release();
    rendezvous_.reset();
    if (room_) gravel_free(room_);
    room_ = nullptr;
    room_bytes_ = 0;
  }

 private:
  using plain_tile = map_deal_tile<item, map_dealing::few>;
  using large_tile = map_deal_tile<item, map_dealing::many>;
  using cold_tile = map_deal_tile<item, map_dealing::cold>;
  using slot_type = typename map_view<Key, Value>::table::slot_type;

  /// Gives each list its memory; takes more if there was less.
  void lay_out(const map_phase_plan& plan, uint64_t pes) {
    const uint64_t items = plan.items_of_groups(pes), items_of_parts = plan.items_of_parts();
    const uint64_t lists = pes * plan.groups, words = plan.words(pes);
    const uint64_t bytes = (items + items_of_parts) * sizeof(item) + (lists + words) * sizeof(uint32_t);
    if (bytes > room_bytes_) {
      if (room_) gravel_free(room_);
      room_ = nullptr;
      room_bytes_ = 0;
      room_ = gravel_malloc<char>(bytes);
      room_bytes_ = bytes;
    }
    const uint64_t left = shared_ - std::min<uint64_t>(cold_tile::bytes(static_cast<uint32_t>(lists)), shared_);
    const uint64_t hot = std::min<uint64_t>(left, map_phase_limits::most_hot_bytes) / sizeof(slot_type);
    memory_.parts = plan.parts;
    memory_.part_shift = plan.part_shift;
    memory_.groups = plan.groups;
    memory_.group_shift = plan.group_shift;
    memory_.sources = static_cast<uint32_t>(pes);
    memory_.room = plan.room;
    memory_.room_of_part = plan.room_of_part;
    memory_.hot_slots = hot < map_phase_limits::least_hot_slots ? 0 : static_cast<uint32_t>(hot);
    memory_.items = reinterpret_cast<item*>(static_cast<char*>(room_));
    memory_.items_of_parts = memory_.items + items;
    words_ = words;
    memory_.tails = reinterpret_cast<uint32_t*>(memory_.items_of_parts + items_of_parts);
    memory_.tails_of_parts = memory_.tails + lists;
    memory_.full = memory_.tails_of_parts + (uint64_t{plan.groups} << plan.group_shift);
    memory_.is_hot = memory_.full + plan.parts;
    // A PE alone finds the places taken where it has counted them.
    memory_.arrived = pes == 1 ? memory_.tails : memory_.tails + words;
  }
  template <map_update HOW, class Passed>
  void deal(const map_view<Key, Value>& map, const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream,
            const Passed& passed) {
    start(empty_lists<sizeof(Key), sizeof(Value)>, (words_ + map_lanes - 1) / map_lanes, map_lanes, 0, stream, memory_,
          words_);
    if (n != 0) {
      if (memory_.hot_slots != 0) {
        const uint64_t hot_bytes = memory_.hot_slots * sizeof(slot_type);
        start(find_hot_keys<Key, Value>, 1, map_deal_lanes<map_dealing::cold>, hot_bytes, stream, memory_, keys, n);
        passed("hot keys found");
        deal_to_groups<HOW, map_dealing::cold>(map, keys, values, n, hot_bytes, stream);
        passed("dealt without hot keys");
      }
      const bool has_many = memory_.bins() > map_phase_limits::most_few_bins;
      if (has_many && large_tile::bytes(memory_.bins()) <= shared_)
        deal_to_groups<HOW, map_dealing::many>(map, keys, values, n, 0, stream);
      else deal_to_groups<HOW, map_dealing::few>(map, keys, values, n, 0, stream);
    }
    passed("dealt");
    if (memory_.sources > 1)
      start(notify_owners<sizeof(Key), sizeof(Value)>, (memory_.bins() + map_lanes - 1) / map_lanes, map_lanes, 0,
            stream, gravel_handle(), memory_);
  }
  template <map_update HOW, map_dealing D>
  void deal_to_groups(const map_view<Key, Value>& map, const Key* keys, const Value* values, uint64_t n,
                      uint64_t hot_bytes, gravel_stream_t stream) {
    const uint64_t bytes = map_deal_tile<item, D>::bytes(memory_.bins()) + hot_bytes;
    start(deal_items<HOW, D, Key, Value>, blocks_for(bytes, map_deal_lanes<D>), map_deal_lanes<D>, bytes, stream,
          gravel_handle(), map, memory_, keys, values, n);
  }
  template <map_update HOW, class Passed>
  void insert_own(const map_view<Key, Value>& map, uint64_t part_bytes, gravel_stream_t stream, const Passed& passed) {
    if (!memory_.has_one_dealing()) {
      const uint64_t bytes = plain_tile::bytes(1u << memory_.group_shift);
      start(deal_again<HOW, Key, Value>, blocks_for(bytes, map_deal_lanes<map_dealing::few>),
            map_deal_lanes<map_dealing::few>, bytes, stream, gravel_handle(), map, memory_);
      passed("dealt again");
    }
    start(insert_parts<HOW, Key, Value>, memory_.parts, map_part_lanes, part_bytes, stream, map, memory_);
    passed("inserted");
    start(insert_left<HOW, Key, Value>, std::min<uint64_t>(blocks_for(0, map_lanes), memory_.parts), map_lanes, 0,
          stream, gravel_handle(), map, memory_);
  }
  /// Waits in the stream until all PEs have come.
  void all_arrive(gravel_stream_t stream) {
    if (memory_.sources == 1) return;
    if (!rendezvous_) rendezvous_.emplace(true);
    rendezvous_->round(stream);
  }
  /// Returns the number of blocks that a device runs at once.
  uint64_t blocks_for(uint64_t shared_bytes, uint32_t lanes) const {
    const uint64_t processors = current_backend().multiprocessors();
    if (processors == 0) return 2;
    const uint64_t by_lanes = 2048 / lanes, by_memory = shared_ / std::max<uint64_t>(shared_bytes, 1);
    return processors * std::max<uint64_t>(std::min(by_lanes, by_memory), 1);
  }
  template <class... P, class... A>
  static void start(void (*kernel)(P...), uint64_t blocks, uint32_t lanes, uint64_t shared_bytes,
                    gravel_stream_t stream, A... arguments) {
    gravel_launch_config how{static_cast<unsigned>(blocks), lanes, shared_bytes};
    how.stream = stream;
    launch_alone(kernel, how, arguments...);
  }

  uint64_t shared_;  ///< dynamic shared memory that a block may have at all PEs
  memory_type memory_{};
  void* room_ = nullptr;  ///< symmetric: all lists and counts
  uint64_t room_bytes_ = 0;
  uint64_t words_ = 0;  ///< that empty_lists sets to 0
  std::optional<mapped_rendezvous> rendezvous_;
  std::optional<gravel_stream_t> last_stream_;  ///< of the last collective insertion
};

}  // namespace gravel::detail
