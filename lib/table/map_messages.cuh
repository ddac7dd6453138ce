// Messages of a gravel::map: what a PE asks of the owner of a key, and what the owner answers.
//
// Each PE has a header of the map at the same offset of its heap. A message names the map by this offset, so one
// handler serves all maps whose keys and values have the same sizes.
//
//   step here            in the code                                     label
//   set the results      map::find: stores of the CUDA stream            stream order
//   request              find_by_messages: key, place, PE                as of any message
//   answer               the owner's handler: value, place               as of any message
//   store and count      the asker's handler: values, then `answered`    [D3] release
//   go on                map::find: the CUDA stream waits for the count  [D3] acquire
//
// A PE has few keys under way in a find (map::most_asked), so answers find room in what handlers may spill.
#pragma once
#include <gravel/gravel.cuh>
#include "lib/base/error.hpp"
#include "lib/table/map_slots.cuh"

namespace gravel::detail {

/// The types of numbers that insert_or_add adds.
enum class map_number : uint64_t { none, u32, u64, f32, f64 };
template <class Value>
constexpr map_number map_number_of = [] {
  if constexpr (std::is_same_v<Value, float>) return map_number::f32;
  else if constexpr (std::is_same_v<Value, double>) return map_number::f64;
  else if constexpr (std::is_integral_v<Value> && sizeof(Value) == 4) return map_number::u32;
  else if constexpr (std::is_integral_v<Value> && sizeof(Value) == 8) return map_number::u64;
  else return map_number::none;
}();

/// Adds to a number in shared memory, atomically. A GPU adds 8 bytes there by a loop, but 4 bytes at once: the halves
/// of a whole number are added one after the other. They may not fit together before the next barrier of the block.
template <class T>
GRAVEL_BOTH void add_in_shared(T* at, T value) {
#if GRAVEL_ON_GPU
  if constexpr (std::is_floating_point_v<T>) {
    __builtin_assume(__isShared(at));
    atomicAdd(at, value);
  } else if constexpr (sizeof(T) == 4) {
    fetch_add<scope::shared>(at, value);
  } else {
    auto* const half = reinterpret_cast<uint32_t*>(at);
    const auto low = static_cast<uint32_t>(value);
    const bool carries = fetch_add<scope::shared>(half, low) + low < low;
    const uint32_t high = static_cast<uint32_t>(value >> 32) + carries;
    if (high != 0) fetch_add<scope::shared>(half + 1, high);
  }
#else
  add_in_place(at, value);
#endif
}

/// Adds to a value of one number, atomically.
/// @tparam S where the lanes run that may add now
template <map_number NUMBER, scope S = scope::device, uint32_t VALUE>
GRAVEL_BOTH void add_to_value([[maybe_unused]] map_words<VALUE>* at, [[maybe_unused]] const map_words<VALUE>& more) {
  const auto add = [&]([[maybe_unused]] auto number) {
    using T = decltype(number);
    if constexpr (sizeof(T) == VALUE) {
      T value;
      __builtin_memcpy(&value, &more, sizeof(T));
      if constexpr (S == scope::shared) add_in_shared(reinterpret_cast<T*>(at), value);
      else apply_in_place<S>(op::add, reinterpret_cast<T*>(at), value);
    }
  };
  if constexpr (NUMBER == map_number::u32) add(uint32_t{});
  else if constexpr (NUMBER == map_number::u64) add(uint64_t{});
  else if constexpr (NUMBER == map_number::f32) add(float{});
  else if constexpr (NUMBER == map_number::f64) add(double{});
}

/// Header of a map, symmetric. The host writes it while nothing uses the map. All PEs have the same, but for the find
/// that is under way.
struct alignas(64) map_header {
  static constexpr uint64_t alignment = 1024;  ///< of its offset, so that messages name it by few bits
  uint64_t slots;                              ///< offset of the PE's slots in its heap
  uint64_t count;                              ///< of slots
  uint64_t capacity;
  map_number number;
  // For the find that is under way. The CUDA stream stores the addresses.
  uint64_t values, found;
  alignas(64) uint64_t answered;  ///< keys of all finds by messages so far whose results are there
};

/// What a message wants.
enum class map_request : uint32_t { insert, add, erase, find, answer };

/// A message: the map and the request, and the words that the request has. Position and PE follow the key in `find`;
/// the value follows the position in `answer`.
template <uint32_t KEY, uint32_t VALUE>
struct map_message {
  static constexpr uint32_t requests = 8;                   ///< values of map_request for which there is room
  static constexpr uint32_t was_found = uint32_t{1} << 31;  ///< beside the position of an answer
  static constexpr uint32_t key_words = KEY / 4, words = key_words + (VALUE > 8 ? VALUE / 4 : 2);
  uint32_t what;
  uint32_t word[words];

  GRAVEL_BOTH static map_message of(uint32_t map, map_request request) {
    map_message m{};
    m.what = map * requests + static_cast<uint32_t>(request);
    return m;
  }
  GRAVEL_BOTH map_request request() const { return static_cast<map_request>(what % requests); }
  GRAVEL_BOTH uint64_t header_offset() const { return what / requests * map_header::alignment; }
  template <class T>
  GRAVEL_BOTH void set(uint32_t at, const T& value) {
    __builtin_memcpy(&word[at], &value, sizeof(T));
  }
  template <class T>
  GRAVEL_BOTH T get(uint32_t at) const {
    T value;
    __builtin_memcpy(&value, &word[at], sizeof(T));
    return value;
  }
};

/// Reports that a key has found no slot at its owner `pe`, which has `slots`.
template <uint32_t KEY, uint32_t VALUE>
GRAVEL_BOTH void report_full_map(const gravel_t& g, uint32_t pe, uint64_t slots, uint64_t capacity) {
  report_error(g, message_fault::full_map, op::none, KEY / 4 | VALUE / 4 << 3 | pe << 8, slots, capacity);
}

/// The characters of a handler's name: one for each pair of sizes.
template <uint32_t KEY, uint32_t VALUE>
struct map_name {
  static constexpr char text[] = {'g',
                                  'r',
                                  'a',
                                  'v',
                                  'e',
                                  'l',
                                  '_',
                                  'm',
                                  'a',
                                  'p',
                                  '_',
                                  '0' + KEY / 10,
                                  '0' + KEY % 10,
                                  '_',
                                  '0' + VALUE / 10,
                                  '0' + VALUE % 10,
                                  0};
};

/// The handler of maps whose keys have KEY bytes and whose values have VALUE bytes. The program passes it to
/// gravel_init, as gravel::map<Key, Value>::delivery.
template <uint32_t KEY, uint32_t VALUE>
struct map_delivery {
  static constexpr const char* name = map_name<KEY, VALUE>::text;
  static constexpr bool batch = true;
  using message = map_message<KEY, VALUE>;
  using key_type = map_words<KEY>;
  using value_type = map_words<VALUE>;

  GRAVEL_HANDLER void operator()(const gravel_t& g, const lane_group& lanes, const message& m) const {
    auto* const header = reinterpret_cast<map_header*>(g.heap + m.header_offset());
    const bool is_sound = lies_in_heap(m.header_offset(), sizeof(map_header), g.heap_bytes);
    const bool is_answer = is_sound && m.request() == map_request::answer;
    if (is_answer) store_answer(*header, m);
    else if (is_sound) serve(g, *header, m);
    else report_error(g, message_fault::bad_size, op::am, g.my_pe, m.header_offset(), sizeof(m));
    // The answers for a map that came together are counted at once.
    const lane_group same = lanes.part(lanes.match(m.what));
    same.sync();
    if (is_answer && same.is_leader())
      fetch_add_release<scope::system>(&header->answered, uint64_t{same.size()});  // [D3]
  }

 private:
  GRAVEL_BOTH static void store_answer(const map_header& header, const message& m) {
    const auto position = m.template get<uint32_t>(0);
    const bool was_found = position & message::was_found;
    const uint64_t at = position & ~message::was_found;
    if (was_found) {
      const auto value = m.template get<value_type>(1);
      __builtin_memcpy(reinterpret_cast<char*>(load_relaxed(&header.values)) + at * VALUE, &value, VALUE);
    }
    reinterpret_cast<uint8_t*>(load_relaxed(&header.found))[at] = was_found;
  }
  GRAVEL_BOTH static void serve(const gravel_t& g, const map_header& header, const message& m) {
    const uint64_t count = load_relaxed<scope::device>(&header.count);
    const map_slots<KEY, VALUE> table{
        reinterpret_cast<map_slot<KEY, VALUE>*>(g.heap + load_relaxed<scope::device>(&header.slots)), count};
    const auto key = m.template get<key_type>(0);
    switch (m.request()) {
      case map_request::insert:
      case map_request::add: {
        const auto more = m.template get<value_type>(message::key_words);
        const bool adds = m.request() == map_request::add;
        const auto change = [&](value_type* at) {
          if (adds) add_by_number(header.number, at, more);
        };
        if (!table.put(key, more, change)) report_full_map<KEY, VALUE>(g, g.my_pe, count, header.capacity);
        break;
      }
      case map_request::erase: table.erase(key); break;
      default: answer(g, table.find(key), m);
    }
  }
  GRAVEL_BOTH static void answer(const gravel_t& g, const value_type* value, const message& m) {
    message reply = message::of(m.what / message::requests, map_request::answer);
    const auto position = m.template get<uint32_t>(message::key_words);
    reply.set(0, value ? position | message::was_found : position);
    if (value) reply.set(1, *value);
    gravel_am<map_delivery>(g, static_cast<int>(m.template get<uint32_t>(message::key_words + 1)), reply);
  }
  GRAVEL_BOTH static void add_by_number(map_number number, value_type* at, const value_type& more) {
    switch (number) {
      case map_number::u32: return add_to_value<map_number::u32>(at, more);
      case map_number::u64: return add_to_value<map_number::u64>(at, more);
      case map_number::f32: return add_to_value<map_number::f32>(at, more);
      case map_number::f64: return add_to_value<map_number::f64>(at, more);
      case map_number::none: return;
    }
  }
};

}  // namespace gravel::detail
