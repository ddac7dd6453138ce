// gravel::map: a hash map whose items are spread over all PEs, with bulk calls on streams.
#pragma once
#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>

#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "lib/table/map_copies.cuh"
#include "lib/table/map_exchange.cuh"
#include "lib/table/map_growth.cuh"
#include "lib/table/map_phases.cuh"

namespace gravel::detail {

/// How a gravel::map is made.
/// @source Gravel
struct map_options {
  bool grow = true;  ///< collective insertions that would not fit give the map new slots first
};

/// A hash map, spread over all PEs. An item is a key and its value; a key occurs once. The hash of a key says which PE
/// has it. The program passes gravel::map<Key, Value>::delivery to gravel_init. Maps whose keys and values have the
/// same sizes have the same delivery, which is passed once.
///
/// Bulk calls take arrays in device memory. Calls that change the map (insert, insert_or_add, erase) may run at the
/// same time, from any PEs and in any streams. find() and the calls for local items must not run while something
/// changes the map: gravel_barrier_all separates them.
/// @tparam Key trivially copyable, of 4, 8 or 16 bytes; keys are equal if all their bytes are. Each value is legal
/// @tparam Value trivially copyable, of 4 to 64 bytes, a multiple of 4
/// @scope the program's host thread
/// @completion on return
/// @errors gravel::error
/// @source cuCollections: cuco::static_map
template <class Key, class Value>
class map {
  static_assert(std::is_trivially_copyable_v<Key> && (sizeof(Key) == 4 || sizeof(Key) == 8 || sizeof(Key) == 16),
                "a key of gravel::map is trivially copyable and has 4, 8 or 16 bytes");
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) % 4 == 0 && sizeof(Value) <= 64,
                "a value of gravel::map is trivially copyable and has 4 to 64 bytes, a multiple of 4");

 public:
  /// What the program passes to gravel_init: the handler that serves other PEs.
  using delivery = map_delivery<sizeof(Key), sizeof(Value)>;
  /// What kernels use.
  using view_type = map_view<Key, Value>;

  /// Makes an empty map. Collective: all PEs pass the same. `capacity` items use at most half of the slots, or at most
  /// 0.8 of them if a PE has more than 2^24 items.
  /// @param capacity number of items, of all PEs together, for which there is room
  /// @param options whether the map grows
  /// @completion on return: all PEs may use it
  /// @errors gravel::error on all PEs: capacity 0, PEs that differ, too little memory at one PE, a program that has not
  ///   passed `delivery` to gravel_init
  explicit map(uint64_t capacity, map_options options = {}) : open_("gravel::map"), options_(options) {
    check_delivery();
    check_capacity("gravel::map", capacity);
    if (gravel_min_all(uint64_t{options.grow}) != gravel_max_all(uint64_t{options.grow}))
      fail_text("gravel::map: some PEs make a map that grows, and others one that does not: pass the same at all PEs");
    room_ = gravel_malloc<char>(sizeof(map_header) + map_header::alignment);
    const char* const heap = gravel_handle().heap;
    const uint64_t begin = static_cast<uint64_t>(static_cast<char*>(room_) - heap) + map_header::alignment - 1;
    const uint64_t number = begin / map_header::alignment;
    view_.header = reinterpret_cast<map_header*>(gravel_handle().heap + number * map_header::alignment);
    view_.number = static_cast<uint32_t>(number);
    view_.n_pes = static_cast<uint32_t>(gravel_n_pes());
    try {
      if (number >= ~uint32_t{0} / message::requests) fail_text("gravel::map: too far up in the symmetric heap");
      use(allocate(capacity), capacity);
    } catch (const error&) {
      gravel_free(room_);
      throw;
    }
    mapped_ = all_are_mapped();
  }
  /// Frees the map, unless an exception passes. Collective. Waits for messages, as gravel_free does.
  ~map() noexcept(false) {
    if (std::uncaught_exceptions() != exceptions_) return;
    settle();
    phases_.release();
    copies_.release();
    exchange_.release();
    gravel_free(view_.own.slots);
    gravel_free(room_);
  }
  /// @internal
  map(const map&) = delete;
  map& operator=(const map&) = delete;

  /// @return number of items, of all PEs together, for which the map was made
  uint64_t capacity() const { return view_.capacity; }
  /// @return number of this PE's slots, the same at all PEs
  uint64_t local_slots() const { return view_.own.count; }
  /// @return whether all PEs have each other's items mapped
  bool is_mapped() const { return mapped_; }
  /// @return what kernels use; pass it by value. Valid until the map gets new slots: by reserve(), make_room(), and by
  ///   collective insertions unless the map was made with `grow` false. hold_slots() prevents that
  const map_view<Key, Value>& view() {
    growth_.note_view();
    return view_;
  }
  /// Keeps this PE's view valid, and CUDA graphs that contain finds: until release_slots(), calls of any PE that would
  /// give the map new slots are refused. Not collective; one call of release_slots() for each.
  void hold_slots() { growth_.hold(); }
  /// Ends what hold_slots() began.
  /// @errors gravel::error: this PE does not hold the slots
  void release_slots() {
    if (!growth_.release()) fail_text("gravel::map::release_slots: this PE does not hold the slots of the map");
  }

  /// Inserts items. A key that is there keeps its value; of several values for one new key the map keeps one. Not
  /// collective.
  /// @param keys [n], device memory; repeated ones too
  /// @param values [n], device memory
  /// @param n number of items
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion keys and values: in the stream. The items: gravel_quiet or gravel_barrier_all
  /// @errors a key that finds no slot ends the job with a message: make_room() prevents that
  void insert(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream = nullptr) {
    growth_.note_items(n);
    update<map_update::insert>(keys, values, n, stream);
  }
  /// Inserts items, or adds the values to those of the keys that are there: afterwards each key has the sum of all its
  /// values. Sums of floating-point numbers differ in their last bits from run to run. Value is one number: an integer
  /// of 4 or 8 bytes, float or double. Not collective.
  /// @param keys [n], device memory; repeated ones too
  /// @param values [n], device memory
  /// @param n number of items
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion keys and values: in the stream. The sums: gravel_quiet or gravel_barrier_all
  /// @errors a key that finds no slot ends the job with a message: make_room() prevents that
  void insert_or_add(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream = nullptr) {
    static_assert(map_number_of<Value> != map_number::none,
                  "gravel::map::insert_or_add: the value is an integer of 4 or 8 bytes, float or double");
    growth_.note_items(n);
    update<map_update::add>(keys, values, n, stream);
  }
  /// Inserts items of all PEs, as insert() does, but faster: by phases, in which each PE alone changes its slots.
  /// Collective: PEs may pass different numbers of items, also none. Nothing else may use the map meanwhile. Calls of
  /// insert, insert_or_add and erase must be complete (gravel_barrier_all); kernels before it in the stream, such as
  /// those of find(), need no barrier. If more than 0.85 of the slots would have keys, the map grows before, as by
  /// reserve(), to twice the capacity or several times that.
  /// @param keys [n], device memory; repeated ones too
  /// @param values [n], device memory
  /// @param n number of items of this PE
  /// @param stream nullptr: the PE's own stream
  /// @completion in the stream: kernels behind it see the items of all PEs. If the map is not mapped, or phases do not
  ///   pay and there are several PEs, the host waits: then on return. The host also waits for the stream if the items
  ///   would not fit if all keys were new
  /// @errors gravel::error on all PEs, and nothing is inserted: too little memory for the lists at one PE, or for more
  ///   slots; a map that must grow while a PE holds its slots. A map that does not grow: a key that finds no slot ends
  ///   the job with a message
  void insert_all(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream = nullptr) {
    update_all<map_update::insert>(keys, values, n, stream);
  }
  /// Inserts items of all PEs, or adds their values to those of the keys that are there, as insert_or_add() does, but
  /// faster: by phases, as insert_all(). Collective.
  /// @param keys [n], device memory; repeated ones too
  /// @param values [n], device memory
  /// @param n number of items of this PE
  /// @param stream nullptr: the PE's own stream
  /// @completion as of insert_all()
  /// @errors as of insert_all()
  void insert_or_add_all(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream = nullptr) {
    static_assert(map_number_of<Value> != map_number::none,
                  "gravel::map::insert_or_add_all: the value is an integer of 4 or 8 bytes, float or double");
    update_all<map_update::add>(keys, values, n, stream);
  }
  /// Erases keys, if they are there. Their slots stay theirs until reserve() or clear(). Not collective.
  /// @param keys [n], device memory; repeated ones too
  /// @param n number of keys
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion keys: in the stream. The map: gravel_quiet or gravel_barrier_all
  /// @errors none
  void erase(const Key* keys, uint64_t n, gravel_stream_t stream = nullptr) {
    update<map_update::erase>(keys, nullptr, n, stream);
  }
  /// Finds keys. Not collective. Nothing may change the map meanwhile.
  /// @param values [n], device memory: the value of keys[i] if the key is there; otherwise values[i] stays as it is
  /// @param found [n], device memory: 1 if the key is there, else 0
  /// @param keys [n], device memory; repeated ones too
  /// @param n number of keys
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread, one at a time
  /// @completion in the stream: kernels behind it see the values. If the map is not mapped, and the last find was in
  ///   another stream, the host waits for that one first
  /// @errors gravel::error: a launch that is not possible
  void find(Value* values, uint8_t* found, const Key* keys, uint64_t n, gravel_stream_t stream = nullptr) {
    if (n == 0) return;
    if (mapped_)
      return launch_alone(find_mapped<Key, Value>, small_blocks_for(n, stream), gravel_handle(), view_, values, found,
                          keys, n);
    if (last_stream_ && *last_stream_ != stream) settle();
    last_stream_ = stream;
    for (uint64_t first = 0; first < n; first += most_asked) {
      const uint64_t now = std::min(n - first, most_asked);
      gravel_stream_write(stream, &view_.header->values, reinterpret_cast<uint64_t>(values + first));
      gravel_stream_write(stream, &view_.header->found, reinterpret_cast<uint64_t>(found + first));
      gravel_launch(find_by_messages<Key, Value>, grid_for(now, stream), gravel_handle(), view_, values + first,
                    found + first, keys + first, now);
      asked_ += now;
      gravel_stream_wait(stream, &view_.header->answered, asked_);  // [D3]
    }
  }

  /// Finds keys of all PEs, as find() does, but faster if they are many for the size of the map: each PE copies the
  /// slots of the others first, and looks up its keys there. The copies take memory of the symmetric heap, at most 1
  /// GiB and 64 bytes for each key of the PE that has most, which the map keeps; without this memory the call does as
  /// find(). Collective: PEs may pass different numbers of keys, also none. Nothing may change the map meanwhile.
  /// @param values [n], device memory: the value of keys[i] if the key is there; otherwise values[i] stays as it is
  /// @param found [n], device memory: 1 if the key is there, else 0
  /// @param keys [n], device memory; repeated ones too
  /// @param n number of keys of this PE
  /// @param stream nullptr: the PE's own stream
  /// @completion in the stream: kernels behind it see the values. If the map is not mapped, or the last such call was
  ///   in another stream, the host waits for kernels
  /// @errors as of find()
  void find_all(Value* values, uint8_t* found, const Key* keys, uint64_t n, gravel_stream_t stream = nullptr) {
    const uint64_t most = view_.n_pes == 1 ? n : gravel_max_all(n);
    const auto copied = copies_.refresh(view_, mapped_, most, stream);
    if (!copied) return find(values, found, keys, n, stream);
    if (n == 0) return;
    launch_alone(find_copied<Key, Value>, small_blocks_for(n, stream), gravel_handle(), view_, *copied, values, found,
                 keys, n);
  }

  /// Calls function(key, value) for each of this PE's items, in any order. Not collective. Nothing may change the map
  /// meanwhile.
  /// @param function called in lanes of a kernel, with (const Key&, Value&); it may change the value. It is copied, and
  ///   may send messages by a handle that it contains
  /// @param stream nullptr: the PE's own stream
  /// @scope any host thread
  /// @completion in the stream
  /// @errors gravel::error: a launch that is not possible
  template <class F>
  void for_each_local(F function, gravel_stream_t stream = nullptr) {
    gravel_launch(each_item<Key, Value, F>, grid_for(local_slots(), stream), view_, function);
  }
  /// Copies this PE's items, in any order. Not collective. Nothing may change the map meanwhile.
  /// @param keys [room], device memory
  /// @param values [room], device memory
  /// @param room number of items for which there is room
  /// @return number of items
  /// @scope any host thread
  /// @completion on return
  /// @errors gravel::error: more items than room; then `room` of them are copied
  uint64_t copy_local(Key* keys, Value* values, uint64_t room) {
    const uint64_t items = count_or_copy(keys, values, room);
    if (items > room)
      fail_text("gravel::map::copy_local: room for " + std::to_string(room) + " items; PE " +
                std::to_string(gravel_my_pe()) + " has " + std::to_string(items) + ". local_size() returns the number");
    return items;
  }
  /// Counts this PE's items. Not collective. Nothing may change the map meanwhile.
  /// @return number of items
  /// @scope any host thread
  uint64_t local_size() { return count_or_copy(nullptr, nullptr, 0); }
  /// Counts the items of all PEs. Collective. Waits for all updates, as gravel_barrier_all does.
  /// @return number of items, the same at all PEs
  uint64_t size() {
    settle();
    gravel_barrier_all();
    const uint64_t items = gravel_sum_all(local_size());
    gravel_barrier_all();
    return items;
  }
  /// Erases all items, and frees the slots of erased ones. Collective. Waits for all updates before.
  /// @completion on return: all PEs may use the map
  void clear() {
    settle();
    gravel_barrier_all();
    launch_alone(clear_slots<Key, Value>, grid_for(local_slots(), nullptr), view_);
    gravel_barrier_all();
    growth_.note_empty();
  }
  /// Makes room for items that come by insert() and insert_or_add(), or by single calls in kernels: these do not let
  /// the map grow. If the slots do not suffice for them, the map grows as collective insertions let it. Collective.
  /// Waits for all updates before. Views of the map may be invalid behind it: call view() again.
  /// @param items number of items with new keys that this PE will insert, at most; PEs may pass different numbers
  /// @completion on return: all PEs may use the map
  /// @errors gravel::error on all PEs, and the map is as before: too little memory at one PE, a PE that holds the
  ///   slots, more items than any memory has; a map that was made with `grow` false
  void make_room(uint64_t items) {
    if (!options_.grow) fail_text("gravel::map::make_room: the map was made with `grow` false: call reserve()");
    constexpr uint64_t most = uint64_t{1} << 48;
    if (gravel_max_all(items) > most)
      fail_text("gravel::map::make_room: room for " + std::to_string(items) +
                " items here; some PE wants more than any memory has");
    settle();
    gravel_barrier_all();
    grow_for("one-sided insertions", nullptr, 0, items, nullptr);
  }
  /// Makes room for `capacity` items, more or fewer than before, and frees the slots of erased ones. All items stay.
  /// Each PE moves its items into new slots, so that for a while it needs memory for both. Collective. Waits for all
  /// updates before.
  /// @param capacity number of items, of all PEs together, for which there is room afterwards
  /// @completion on return: all PEs may use the map
  /// @errors gravel::error on all PEs, and the map is as before: capacity 0 or below the number of items, PEs that
  ///   differ, too little memory at one PE, a PE that holds the slots
  void reserve(uint64_t capacity) {
    check_capacity("gravel::map::reserve", capacity);
    if (const uint64_t holders = growth_.holders()) fail_text("gravel::map::reserve: " + held_by(holders));
    const uint64_t items = size(), most = gravel_max_all(local_size());
    if (items > capacity || most > slots_for(capacity))
      fail_text("gravel::map::reserve: the map has " + std::to_string(items) + " items, " + std::to_string(most) +
                " of them at one PE; it cannot be made for " + std::to_string(capacity));
    const auto next = allocate(capacity);
    launch_alone(move_items<Key, Value>, grid_for(local_slots(), nullptr), gravel_handle(), view_, next, capacity);
    gravel_barrier_all();  // all keys have found slots
    const auto old = view_.own;
    use(next, capacity);
    gravel_free(old.slots);
    growth_.note_new_slots();
  }

 private:
  using message = map_message<sizeof(Key), sizeof(Value)>;
  using table = typename map_view<Key, Value>::table;
  /// A PE has two slots for each of so many keys. From 1.6 times as many on, it has 1.25 slots for each.
  static constexpr uint64_t most_sparse = uint64_t{1} << 24;
  /// Keys of a find that are under way at once: answers of 2 MiB, far fewer than handlers may spill.
  static constexpr uint64_t most_asked = std::min<uint64_t>(65536, (uint64_t{2} << 20) / (sizeof(Value) + 12));

  static void check_delivery() {
    const handler_table all = current_backend().handlers();
    const auto is_it = [](const handler_info& h) { return h.id == handler_id<delivery>::value; };
    if (std::none_of(all.begin(), all.end(), is_it))
      fail_text(
          "gravel::map: gravel_init did not receive its handler: gravel_init<gravel::map<Key, "
          "Value>::delivery>(), with keys of " +
          std::to_string(sizeof(Key)) + " bytes and values of " + std::to_string(sizeof(Value)));
  }
  static void check_capacity(const char* call, uint64_t capacity) {
    const std::string text = std::string(call) + ": a capacity of " + std::to_string(capacity) + " items";
    if (gravel_min_all(capacity) != gravel_max_all(capacity)) fail_text(text + " here, and another one at other PEs");
    if (capacity == 0) fail_text(text + "; it is at least 1");
    if (capacity > (uint64_t{1} << 48) || slots_for(capacity) > (uint64_t{1} << 48) / sizeof(typename table::slot_type))
      fail_text(text + " is more than any memory has");
  }
  /// Returns the slots of each PE. The number of keys that the hash gives to a PE is random: its standard deviation is
  /// at most the root of the mean, of which eight are added. Two slots for a key keep probes short. A large table has
  /// fewer, up to 0.8 of which are used, as insertions by phases copy all slots.
  static uint64_t slots_for(uint64_t capacity) {
    const auto pes = static_cast<uint64_t>(gravel_n_pes());
    const uint64_t mean = (capacity + pes - 1) / pes;
    const uint64_t most = pes == 1 ? mean : mean + 8 * static_cast<uint64_t>(std::sqrt(static_cast<double>(mean)) + 1);
    const uint64_t keys = std::min(most, capacity);
    return table::parts::round_up(std::max(2 * std::min(keys, most_sparse), keys * 5 / 4) + 1);
  }
  static table allocate(uint64_t capacity) {
    const uint64_t slots = slots_for(capacity);
    return {gravel_malloc<typename table::slot_type>(slots * sizeof(typename table::slot_type)), slots};
  }
  /// Takes slots into use, when nothing uses the map. Collective.
  void use(const table& slots, uint64_t capacity) {
    view_.own = slots;
    view_.capacity = capacity;
    map_header header{};
    gravel_copy(&header, view_.header, sizeof(header));
    header.slots = static_cast<uint64_t>(reinterpret_cast<char*>(slots.slots) - gravel_handle().heap);
    header.count = slots.count;
    header.capacity = capacity;
    header.number = map_number_of<Value>;
    gravel_copy(view_.header, &header, sizeof(header));
    gravel_barrier_all();
  }
  /// Waits until this PE's finds by messages are complete.
  void settle() const {
    if (asked_) gravel_wait_until(gravel_host_handle(), &view_.header->answered, GRAVEL_GE, asked_);
  }
  template <map_update HOW>
  void update(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream) {
    if (n != 0) update<HOW>(keys, values, n, view_.n_pes == 1, stream);
  }
  /// @param are_own whether all keys are this PE's
  template <map_update HOW>
  void update(const Key* keys, const Value* values, uint64_t n, bool are_own, gravel_stream_t stream) {
    const bool may_be_short = are_own && HOW != map_update::add;  // no cache of hot keys, and no sender
    gravel_launch_config how = may_be_short ? small_blocks_for(n, stream) : grid_for(n, stream);
    uint32_t hot_slots = 0;
    if constexpr (HOW == map_update::add) {
      using absorber = hot_absorber<sizeof(Key), Value>;
      hot_slots = absorber::slots_for(n / how.grid.x);
      how.shared_bytes = absorber::bytes_for(hot_slots);
    }
    const gravel_t g = gravel_handle();
    if (are_own) launch_alone(update_lone_map<HOW, Key, Value>, how, g, view_, keys, values, n, hot_slots);
    else gravel_launch(update_map<HOW, Key, Value>, how, g, view_, keys, values, n, hot_slots);
  }
  template <map_update HOW>
  void update_all(const Key* keys, const Value* values, uint64_t n, gravel_stream_t stream) {
    const bool is_alone = view_.n_pes == 1;
    phases_.enter(stream);
    if (options_.grow) grow_for("a collective insertion", keys, n, 0, stream);
    const uint64_t most = is_alone ? n : gravel_max_all(n);
    if (!mapped_ && most >= map_exchange<Key, Value>::least_items)
      return update_by_exchange<HOW>(keys, values, n, most, stream);
    if (mapped_ && phases_.template insert<HOW>(view_, keys, values, n, most, view_.n_pes, stream)) return;
    update<HOW>(keys, values, n, stream);
    if (!is_alone) gravel_barrier_all();
  }
  /// As update_all(), where memory is not mapped. The host waits.
  template <map_update HOW>
  void update_by_exchange(const Key* keys, const Value* values, uint64_t n, uint64_t most, gravel_stream_t stream) {
    const uint64_t chunk = exchange_.chunk_for(most, view_.n_pes);
    for (uint64_t first = 0; first < most; first += chunk) {
      const uint64_t begin = std::min(first, n), count = std::min(n - begin, chunk);
      const uint64_t came =
          exchange_.exchange(view_, keys + begin, values + begin, count, grid_for(std::max(count, chunk), stream));
      const uint64_t most_came = gravel_max_all(came);
      if (phases_.template insert<HOW>(view_, exchange_.keys(), exchange_.values(), came, most_came, 1, stream))
        continue;
      if (came) update<HOW>(exchange_.keys(), exchange_.values(), came, true, stream);
    }
    gravel_stream_synchronize(stream);
    gravel_barrier_all();
  }
  /// Lets the map grow if items of all PEs do not fit. Collective. `what` brings the items: those of these keys, and
  /// `later` others.
  void grow_for(const char* what, const Key* keys, uint64_t n, uint64_t later, gravel_stream_t stream) {
    const auto need = growth_.before(view_, keys, n, later, stream);
    if (need.capacity == 0) return;
    const std::string text = std::string("gravel::map: ") + what + " into a map for " + std::to_string(view_.capacity) +
                             " items, which would have about " + std::to_string(need.keys) + "; ";
    if (need.holders) fail_text(text + held_by(need.holders) + ". Nothing was inserted");
    gravel_synchronize();  // finds of this PE in other streams
    try {
      reserve(need.capacity);
    } catch (const error& failed) {
      fail_text(text + "it cannot grow to " + std::to_string(need.capacity) +
                ". Nothing was inserted; pass fewer items, or free memory. " + failed.what());
    }
    growth_.note_grown(need);
  }
  static std::string held_by(uint64_t pes) {
    return "it gets no new slots, as " + std::to_string(pes) +
           " PEs hold its slots: they call release_slots() when their lookups have ended, or the map is made for more "
           "items";
  }
  uint64_t count_or_copy(Key* keys, Value* values, uint64_t room) {
    device_array<uint64_t> count(std::vector<uint64_t>{0});
    launch_alone(copy_items<Key, Value>, grid_for(local_slots(), nullptr), view_, keys, values, room, count.data());
    uint64_t items = 0;
    copy_behind_kernels(&items, count.data(), sizeof(items));
    return items;
  }
  /// A grid for n keys or slots: no more blocks than a device can run at once.
  static gravel_launch_config grid_for(uint64_t n, gravel_stream_t stream) {
    const uint64_t processors = current_backend().multiprocessors(), most = processors ? processors * 8 : 2;
    gravel_launch_config how{static_cast<unsigned>(std::min((n + map_lanes - 1) / map_lanes, most)), map_lanes};
    how.stream = stream;
    return how;
  }

  /// A grid of blocks that follow each other, with few of the n keys for each lane: no block waits for a slow one.
  static gravel_launch_config small_blocks_for(uint64_t n, gravel_stream_t stream) {
    constexpr uint64_t keys_of_lane = 8;
    gravel_launch_config how = grid_for(n, stream);
    how.grid.x = std::max(how.grid.x, static_cast<unsigned>(n / (map_lanes * keys_of_lane)));
    return how;
  }

  open_object open_;
  map_options options_;
  map_view<Key, Value> view_{};
  void* room_ = nullptr;  ///< symmetric; the header lies in it, aligned
  bool mapped_ = false;
  map_phases<Key, Value> phases_;
  map_exchange<Key, Value> exchange_;
  map_copies<Key, Value> copies_;
  map_growth<Key, Value> growth_;
  uint64_t asked_ = 0;                          ///< keys of all finds by messages
  std::optional<gravel_stream_t> last_stream_;  ///< of the last find by messages
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gravel::detail
