// Kernels of collective insertions into a gravel::map, by phases.
//
// Problem. An insertion by itself costs a random access to device memory and two atomics there; an insertion at another
// PE costs a message.
//
// Solution. Each PE's slots are divided into parts (map_slots.cuh). Items are dealt into lists, one for each part, and
// a block inserts the items of a list into a copy of the part in its shared memory. If there are too many parts to deal
// to all of them at once, neighbours form a group: items are dealt into lists of groups first, and then into lists of
// parts. Items for other PEs are stored into lists at their owner. Hot keys are absorbed before (map_hot_keys.cuh).
//
// Protocol of a chunk of items, all in one CUDA stream of each PE:
//
//   phase    kernel          what it does
//            wait_for_others rendezvous: all PEs have come to this chunk
//   dealing  empty_lists     empties the lists
//            find_hot_keys   decides by a sample whether keys are hot
//            deal_items      deals the PE's items into lists of groups, at all PEs; absorbs hot keys
//            notify_owners   stores at each owner how many items its lists have
//            wait_for_others rendezvous: all items have come
//   own      deal_again      deals the items of groups into lists of parts  (if groups have several parts)
//            insert_parts    inserts the lists of each part
//            insert_left     inserts what has found its part full
//
// Where memory is not mapped, an exchange has brought the items to their owners (map_exchange.cuh). Then each PE does
// the same for itself, without a rendezvous.
//
// An item that finds its list full is inserted at once, by the slots' own protocol, through mapped memory if it is
// another PE's.
//
// Invariants.
// - In the own phase only this PE's kernels touch its slots, one kernel after the other. In insert_parts a block alone
//   touches the slots of its part, so it may change a copy and store the copy.
// - In the dealing phase slots change by the slots' protocol alone. No PE is in its own phase then: the rendezvous
//   before says that all have left it.
// - Each item is in one list once, or absorbed, or inserted at once. If insert_parts has no slot for an item, all slots
//   of the part have other keys for ever. So insert_left knows these items: their keys are not in the part. All items
//   of such a key are left, as its part had no slot for any of them.
// The model is test/models/map_phases.pml.
#pragma once
#include "lib/table/bulk_copy.cuh"
#include "lib/table/map_hot_keys.cuh"
#include "lib/table/map_kernels.cuh"
#include "lib/table/map_tile.cuh"

namespace gravel::detail {

/// How lists are laid out, and the memory. Plain data; the layout is the same at all PEs.
template <uint32_t KEY, uint32_t VALUE>
struct map_phase_memory {
  using item = map_item<KEY, VALUE>;
  uint32_t parts, part_shift;    ///< of a PE; logarithm of a part's slots
  uint32_t groups, group_shift;  ///< of a PE; logarithm of a group's parts
  uint32_t sources;              ///< PEs that deal to this PE; 1: it deals alone, and has items of its own keys only
  uint32_t room, room_of_part;   ///< items of a list of a group and source, and of a list of a part
  uint32_t hot_slots;            ///< of a block's cache; 0: nothing is absorbed
  item* items;                   ///< symmetric [source][group][room]: what has come
  uint32_t* arrived;             ///< symmetric [source][group]: places taken, even beyond the room
  item* items_of_parts;          ///< [part][room_of_part], if groups have several parts
  uint32_t* tails;               ///< [PE][group]: places that this PE has taken there
  uint32_t* tails_of_parts;      ///< [part]: places taken, even beyond the room
  uint32_t* full;                ///< [part]: 1: some items are left
  uint32_t* is_hot;              ///< 1: hot keys are absorbed

  GRAVEL_BOTH uint32_t bins() const { return sources * groups; }
  GRAVEL_BOTH uint32_t part_of(uint64_t slot) const { return static_cast<uint32_t>(slot >> part_shift); }
  GRAVEL_BOTH uint32_t group_of(uint64_t slot) const { return part_of(slot) >> group_shift; }
  GRAVEL_BOTH bool has_one_dealing() const { return group_shift == 0; }
  GRAVEL_BOTH uint32_t lists_of_part() const { return has_one_dealing() ? sources : 1; }
  /// Returns how many items list `which` of a part has.
  GRAVEL_DEVICE uint32_t size(uint32_t part, uint32_t which) const {
    if (has_one_dealing()) return least(arrived[which * groups + part], room);
    return least(tails_of_parts[part], room_of_part);
  }
  /// Returns the items of list `which` of a part.
  GRAVEL_DEVICE const item* list(uint32_t part, uint32_t which) const {
    if (has_one_dealing()) return items + (uint64_t{which} * groups + part) * room;
    return items_of_parts + uint64_t{part} * room_of_part;
  }
  GRAVEL_BOTH static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
};

/// How a block deals: items in few lists; in many lists, so with a larger tile; or items without hot keys.
enum class map_dealing { few, many, cold };
template <map_dealing D>
struct map_deal_shape {
  static constexpr uint32_t lanes = D == map_dealing::few ? 512 : 1024;  ///< of a block, on a GPU
  static constexpr uint32_t blocks = D == map_dealing::few ? 2 : 1;      ///< of a multiprocessor
  static constexpr uint32_t halves = D == map_dealing::cold ? 3 : 2;  ///< without hot keys, half of the items are left
  static constexpr uint32_t kib = D == map_dealing::many ? 128 : 64;
};
template <map_dealing D>
constexpr uint32_t map_deal_lanes = GRAVEL_CUDA ? map_deal_shape<D>::lanes : 64;
template <class Item, map_dealing D>
using map_deal_tile = map_tile<Item, map_deal_lanes<D>, map_deal_shape<D>::halves, map_deal_shape<D>::kib>;
/// Lanes of a block that inserts a part, and blocks of a multiprocessor.
constexpr uint32_t map_part_lanes = GRAVEL_CUDA ? 512 : 64, map_part_blocks = 4;

/// Changes the value of a key that is there.
template <map_update HOW, map_number NUMBER, scope S>
struct map_change {
  template <uint32_t BYTES>
  GRAVEL_BOTH void operator()([[maybe_unused]] map_words<BYTES>* at,
                              [[maybe_unused]] const map_words<BYTES>& more) const {
    if constexpr (HOW == map_update::add) add_to_value<NUMBER, S>(at, more);
  }
};

/// Inserts an item at a PE by the slots' protocol. Thread scope: lane.
template <map_update HOW, class Key, class Value>
GRAVEL_DEVICE void insert_at(const gravel_t& g, const map_view<Key, Value>& map, const mapped_sender& others,
                             uint32_t pe, const map_item<sizeof(Key), sizeof(Value)>& item) {
  if (pe == g.my_pe) return map.template change_slots<HOW, scope::device>(g, map.own, pe, item.key, item.value);
  const typename map_view<Key, Value>::table theirs{others.at(map.own.slots, static_cast<int>(pe)), map.own.count};
  map.template change_slots<HOW, scope::system>(g, theirs, pe, item.key, item.value);
}

/// Empties the lists: sets `words` words from m.tails on to 0.
template <uint32_t KEY, uint32_t VALUE>
__global__ void __launch_bounds__(map_lanes)
    empty_lists(const __grid_constant__ map_phase_memory<KEY, VALUE> m, uint64_t words) {
  each_of_lane(words, [&](uint64_t i) { m.tails[i] = 0; });
}

/// Looks at some keys, at equal distances: are many of them equal? One block.
template <class Key, class Value>
__global__ void __launch_bounds__(map_deal_lanes<map_dealing::cold>)
    find_hot_keys(const __grid_constant__ map_phase_memory<sizeof(Key), sizeof(Value)> m, const Key* keys, uint64_t n) {
  constexpr uint64_t most_sampled = 8192, least_share = 4;  // hot: a quarter of the sample was absorbed
  __shared__ uint32_t absorbed;
  const map_hot_keys<sizeof(Key), sizeof(Value)> cache(gravel_dynamic_shared(), m.hot_slots);
  cache.begin();
  if (threadIdx.x == 0) absorbed = 0;
  __syncthreads();
  const uint64_t sampled = n < most_sampled ? n : most_sampled, distance = sampled ? n / sampled : 0;
  uint32_t mine = 0;
  for (uint64_t i = threadIdx.x; i < sampled; i += blockDim.x) {
    const auto key = __builtin_bit_cast(map_words<sizeof(Key)>, keys[i * distance]);
    cache.absorb(map_hash(key), key, {}, [&](map_words<sizeof(Value)>*) { ++mine; });
  }
  if (mine) fetch_add<scope::shared>(&absorbed, mine);
  __syncthreads();
  if (threadIdx.x == 0) *m.is_hot = sampled != 0 && absorbed * least_share >= sampled;
}

/// Deals items into lists of groups. The kernel for cold items does nothing if no keys are hot, and the others if some
/// are.
template <map_update HOW, map_dealing D, class Key, class Value>
__global__ void __launch_bounds__(map_deal_lanes<D>, map_deal_shape<D>::blocks)
    deal_items(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
               const __grid_constant__ map_phase_memory<sizeof(Key), sizeof(Value)> m, const Key* keys,
               const Value* values, uint64_t n) {
  using item = map_item<sizeof(Key), sizeof(Value)>;
  using tile_type = map_deal_tile<item, D>;
  constexpr bool absorbs = D == map_dealing::cold;
  using value_words = map_words<sizeof(Value)>;
  constexpr uint32_t lanes = tile_type::lanes, per_lane = tile_type::per_lane, none = tile_type::none;
  if (absorbs != (*m.is_hot != 0)) return;
  __shared__ mapped_sender others;
  const tile_type tile(gravel_dynamic_shared(), m.bins());
  const map_hot_keys<sizeof(Key), sizeof(Value)> cache(gravel_dynamic_shared() + tile_type::bytes(m.bins()),
                                                       absorbs ? m.hot_slots : 0);
  cache.begin();
  others.begin(g);
  const bool is_alone = m.sources == 1;
  const auto bin_of = [&](const map_hash& hash) {
    const uint32_t first = is_alone ? 0 : hash.owner(map.n_pes) * m.groups;
    return first + m.group_of(hash.slot(map.own.count));
  };
  const auto owner_of = [&](uint32_t bin) { return is_alone ? g.my_pe : bin / m.groups; };
  const auto list_of = [&](uint32_t bin) {
    if (is_alone) return m.items + uint64_t{bin} * m.room;
    const uint32_t pe = bin / m.groups;
    const uint64_t list = uint64_t{g.my_pe} * m.groups + (bin - pe * m.groups);
    return others.at(m.items + list * m.room, static_cast<int>(pe));
  };
  const auto insert = [&](uint32_t bin, const item& it) { insert_at<HOW>(g, map, others, owner_of(bin), it); };
  const uint64_t step = uint64_t{gridDim.x} * tile_type::items;
  for (uint64_t first = uint64_t{blockIdx.x} * tile_type::items; first < n; first += step) {
    item mine[per_lane];
    uint32_t bin[per_lane];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      const uint64_t i = first + k * lanes + threadIdx.x;
      bin[k] = none;
      if (i >= n) continue;
      mine[k].key = __builtin_bit_cast(map_words<sizeof(Key)>, keys[i]);
      mine[k].value = __builtin_bit_cast(value_words, values[i]);
      bin[k] = 0;
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      if (bin[k] == none) continue;
      const map_hash hash(mine[k].key);
      bool is_absorbed = false;
      if constexpr (absorbs)
        is_absorbed = cache.absorb(hash, mine[k].key, mine[k].value, [&](value_words* at) {
          map_change<HOW, map_number_of<Value>, scope::shared>{}(at, mine[k].value);
        });
      bin[k] = is_absorbed ? none : bin_of(hash);
    }
    tile.deal(mine, bin, m.tails, m.room, list_of, insert);
  }
  // The items of the cache. The barriers above, or in tile.deal(), are behind its last change.
  for (uint32_t first = 0; first < cache.count(); first += tile_type::items) {
    item mine[per_lane];
    uint32_t bin[per_lane];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      const uint32_t i = first + k * lanes + threadIdx.x;
      bin[k] = none;
      if (i >= cache.count() || cache.slot(i).state == map_state::free) continue;
      mine[k].key = cache.slot(i).key;
      mine[k].value = cache.slot(i).value;
      bin[k] = bin_of(map_hash(mine[k].key));
    }
    tile.deal(mine, bin, m.tails, m.room, list_of, insert);
  }
}

/// Stores at each owner how many items this PE has dealt to its lists.
template <uint32_t KEY, uint32_t VALUE>
__global__ void __launch_bounds__(map_lanes)
    notify_owners(const __grid_constant__ gravel_t g, const __grid_constant__ map_phase_memory<KEY, VALUE> m) {
  __shared__ mapped_sender others;
  others.begin(g);
  each_of_lane(m.bins(), [&](uint64_t bin) {
    const auto pe = static_cast<uint32_t>(bin / m.groups), group = static_cast<uint32_t>(bin - uint64_t{pe} * m.groups);
    others.put(&m.arrived[g.my_pe * m.groups + group], m.tails[bin], static_cast<int>(pe));
  });
}

/// Deals the items of groups into lists of parts.
template <map_update HOW, class Key, class Value>
__global__ void __launch_bounds__(map_deal_lanes<map_dealing::few>, map_deal_shape<map_dealing::few>::blocks)
    deal_again(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
               const __grid_constant__ map_phase_memory<sizeof(Key), sizeof(Value)> m) {
  using item = map_item<sizeof(Key), sizeof(Value)>;
  using tile_type = map_deal_tile<item, map_dealing::few>;
  constexpr uint32_t lanes = tile_type::lanes, per_lane = tile_type::per_lane, none = tile_type::none;
  __shared__ mapped_sender others;
  const tile_type tile(gravel_dynamic_shared(), 1u << m.group_shift);
  others.begin(g);
  const uint32_t lists = m.bins();
  const uint64_t tiles = (m.room + tile_type::items - 1) / tile_type::items * uint64_t{lists};
  for (uint64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto list = static_cast<uint32_t>(number % lists);
    const uint64_t first = number / lists * tile_type::items;
    const uint32_t size = m.least(m.arrived[list], m.room), first_part = list % m.groups << m.group_shift;
    if (first >= size) continue;
    const item* const from = m.items + uint64_t{list} * m.room;
    item mine[per_lane];
    uint32_t bin[per_lane];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      const uint64_t i = first + k * lanes + threadIdx.x;
      bin[k] = none;
      if (i >= size) continue;
      mine[k] = from[i];
      bin[k] = 0;
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k)
      if (bin[k] != none) bin[k] = m.part_of(map_hash(mine[k].key).slot(map.own.count)) - first_part;
    tile.deal(
        mine, bin, m.tails_of_parts + first_part, m.room_of_part,
        [&](uint32_t to) { return m.items_of_parts + uint64_t{first_part + to} * m.room_of_part; },
        [&](uint32_t, const item& it) { insert_at<HOW>(g, map, others, g.my_pe, it); });
  }
}

/// Inserts the lists of a part into a copy of the part in shared memory, and stores the copy. A block for each part.
template <map_update HOW, class Key, class Value>
__global__ void __launch_bounds__(map_part_lanes, map_part_blocks)
    insert_parts(const __grid_constant__ map_view<Key, Value> map,
                 const __grid_constant__ map_phase_memory<sizeof(Key), sizeof(Value)> m) {
  using item = map_item<sizeof(Key), sizeof(Value)>;
  using table = typename map_view<Key, Value>::table;
  using slot_type = typename table::slot_type;
  using value_words = map_words<sizeof(Value)>;
  __shared__ bulk_copy copy;
  const uint32_t number = blockIdx.x, slots = 1u << m.part_shift, lists = m.lists_of_part();
  uint32_t items = 0;  // not 0: there are some
  for (uint32_t l = 0; l < lists; ++l) items |= m.size(number, l);
  if (items == 0) return;
  auto* const original = map.own.slots + (uint64_t{number} << m.part_shift);
  auto* const copied = reinterpret_cast<slot_type*>(gravel_dynamic_shared());
  const auto bytes = static_cast<uint32_t>(slots * sizeof(slot_type));
  copy.load(copied, original, bytes);
  const table part{copied, slots};
  bool is_full = false;
  for (uint32_t l = 0; l < lists; ++l) {
    const uint32_t size = m.size(number, l);
    const item* const list = m.list(number, l);
    each_by_warps(threadIdx.x + 0u, size, map_part_lanes, [&](uint32_t i) {
      const item it = list[i];
      const map_hash hash(it.key);
      const map_part_probe probe(hash.tag(), static_cast<uint32_t>(hash.slot(map.own.count)) & (slots - 1), slots);
      const auto change = [&](value_words* at) {
        map_change<HOW, map_number_of<Value>, scope::shared>{}(at, it.value);
      };
      is_full |= !part.template put<scope::shared>(hash.tag(), probe, slots, it.key, it.value, change);
    });
  }
  if (is_full) store_relaxed<scope::device>(&m.full[number], 1u);
  copy.store(original, copied, bytes);
}

/// Inserts the items whose part is full.
template <map_update HOW, class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    insert_left(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
                const __grid_constant__ map_phase_memory<sizeof(Key), sizeof(Value)> m) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint32_t number = blockIdx.x; number < m.parts; number += gridDim.x) {
    if (m.full[number] == 0) continue;
    for (uint32_t l = 0; l < m.lists_of_part(); ++l) {
      const auto* const list = m.list(number, l);
      for (uint32_t i = threadIdx.x; i < m.size(number, l); i += map_lanes)
        if (!map.own.is_in_part(list[i].key)) insert_at<HOW>(g, map, others, g.my_pe, list[i]);
    }
  }
}

}  // namespace gravel::detail
