// What kernels see of a gravel::map: a plain value, which is passed by value, with calls for single keys.
//
// Problem. A lane finds out in the middle of a kernel or of a handler which key it needs.
//
// Solution. Where the caller can reach the owner's slots, it uses them as the owner does (map_slots.cuh), by loads and
// atomics. Elsewhere a change is a message to the owner's handler (map_messages.cuh), and find() reads the owner's
// slots by fetches, one word after the other. So no memory for answers is needed, and no room for them is ever short.
//
// Invariant: lanes of the owner use scopes of the device, and lanes of other PEs scopes of the system. Both kinds of
// atomics take place in the owner's memory, so each is atomic for the other.
#pragma once
#include "device/caller.cuh"
#include "lib/table/map_messages.cuh"

namespace gravel::detail {

/// What a call does to keys.
enum class map_update { insert, add, erase };

/// Reads a slot at a PE that the caller does not reach, for map_slots::read(): one round trip for each word.
struct map_slot_fetches {
  const gravel_t& g;
  int pe;

  GRAVEL_BOTH uint32_t state(const uint32_t* at) const { return gravel_fetch(g, at, pe); }
  GRAVEL_BOTH uint32_t acquire(const uint32_t* at) const { return gravel_fetch(g, at, pe); }
  template <uint32_t BYTES>
  GRAVEL_BOTH map_words<BYTES> words(const map_words<BYTES>* at) const {
    map_words<BYTES> found;
    for (uint32_t i = 0; i < found.count; ++i) found.word[i] = gravel_fetch(g, &at->word[i], pe);
    return found;
  }
};

/// A map, for kernels and handlers. gravel::map::view() returns it; it is valid until the map gets new slots, by
/// reserve(), make_room(), or as it grows.
///
/// Calls for one key. They may run at the same time as others, and as bulk calls that change the map, but not beside
/// collective insertions. In which order changes of a key from several lanes take place is open. Kernels that use other
/// PEs' items are started by gravel_launch.
/// @scope lane, from divergent code; host threads: owner() alone
/// @completion on return
/// @errors none
/// @source cuCollections: cuco::static_map_ref
template <class Key, class Value>
struct map_view {
  static constexpr uint32_t key_bytes = sizeof(Key), value_bytes = sizeof(Value);
  using message = map_message<key_bytes, value_bytes>;
  using table = map_slots<key_bytes, value_bytes>;

  table own;  ///< this PE's slots, symmetric
  uint64_t capacity;
  map_header* header;  ///< symmetric
  uint32_t n_pes, number;

  /// Returns the PE that has a key, or would have it.
  /// @param key any value
  GRAVEL_BOTH int owner(const Key& key) const {
    return static_cast<int>(map_hash(__builtin_bit_cast(map_words<key_bytes>, key)).owner(n_pes));
  }

  /// Finds a key. Beside calls that change the map: an item whose insertion is complete is found. A value of several
  /// words may be a mixture if its key is erased and inserted again meanwhile.
  /// @param g handle: the one that the kernel or the handler was given
  /// @param key any value
  /// @param value where the value is stored if the key is there; otherwise it stays as it is
  /// @return whether the key is there
  /// @scope lane of a kernel, from divergent code; handlers: if the owner is this PE, or gravel_ptr reaches it
  /// @errors a handler that asks for a key of a PE that it does not reach: the job ends with a message. In a kernel
  ///   such a find waits for several round trips; map::find() has many keys under way
  GRAVEL_DEVICE bool find(const gravel_t& g, const Key& key, Value* value) const {
    const auto words = __builtin_bit_cast(map_words<key_bytes>, key);
    const int pe = owner(key);
    map_words<value_bytes> found;
    const auto* const theirs = gravel_ptr(g, own.slots, pe);
    bool is_there = false;
    if (pe == gravel_my_pe(g)) is_there = own.read(words, &found, map_slot_loads<scope::device>{});
    else if (theirs) is_there = at(theirs).read(words, &found, map_slot_loads<scope::system>{});
    else if (!forbidden_in_handler(g, op::fetch)) is_there = own.read(words, &found, map_slot_fetches{g, pe});
    if (is_there) *value = __builtin_bit_cast(Value, found);
    return is_there;
  }
  /// Inserts an item. A key that is there keeps its value; of several values for one new key the map keeps one.
  /// @param g handle: the one that the kernel or the handler was given
  /// @param key any value
  /// @param value of the item
  /// @scope lane of a kernel or of a handler, from divergent code
  /// @completion on return, if the owner is this PE, or gravel_ptr reaches it; otherwise gravel_quiet, and of calls in
  ///   handlers gravel_wait_quiescent
  /// @errors a key that finds no slot ends the job with a message: gravel::map::make_room() prevents that
  GRAVEL_DEVICE void insert(const gravel_t& g, const Key& key, const Value& value) const {
    change<map_update::insert>(g, key, __builtin_bit_cast(map_words<value_bytes>, value));
  }
  /// Inserts an item, or adds the value to that of the key if it is there. Value is one number: an integer of 4 or 8
  /// bytes, float or double.
  /// @param g handle: the one that the kernel or the handler was given
  /// @param key any value
  /// @param value of the item, or what is added
  /// @scope as of insert()
  /// @completion as of insert()
  /// @errors as of insert()
  GRAVEL_DEVICE void insert_or_add(const gravel_t& g, const Key& key, const Value& value) const {
    static_assert(map_number_of<Value> != map_number::none,
                  "gravel::map_view::insert_or_add: the value is an integer of 4 or 8 bytes, float or double");
    change<map_update::add>(g, key, __builtin_bit_cast(map_words<value_bytes>, value));
  }
  /// Erases a key, if it is there. Its slot stays its own until the map gets new slots, or clear().
  /// @param g handle: the one that the kernel or the handler was given
  /// @param key any value
  /// @scope as of insert()
  /// @completion as of insert()
  GRAVEL_DEVICE void erase(const gravel_t& g, const Key& key) const { change<map_update::erase>(g, key, {}); }

  /// Changes slots that the caller reaches.
  /// @internal
  /// @param slots this PE's, or those of `pe` in mapped memory
  /// @param pe the PE that has them
  template <map_update HOW, scope S>
  GRAVEL_DEVICE void change_slots(const gravel_t& g, const table& slots, uint32_t pe, const map_words<key_bytes>& key,
                                  const map_words<value_bytes>& value) const {
    if constexpr (HOW == map_update::erase) {
      slots.template erase<S>(key);
    } else {
      const auto combine = [&](map_words<value_bytes>* at) {
        if constexpr (HOW == map_update::add) add_to_value<map_number_of<Value>, S>(at, value);
      };
      if (!slots.template put<S>(key, value, combine))
        report_full_map<key_bytes, value_bytes>(g, pe, own.count, capacity);
    }
  }
  /// Returns the message that asks a key's owner for a change.
  /// @internal
  template <map_update HOW>
  GRAVEL_BOTH message message_of(const map_words<key_bytes>& key, const map_words<value_bytes>& value) const {
    constexpr map_request requests[] = {map_request::insert, map_request::add, map_request::erase};
    message m = message::of(number, requests[static_cast<int>(HOW)]);
    m.set(0, key);
    if constexpr (HOW != map_update::erase) m.set(message::key_words, value);
    return m;
  }

 private:
  /// Returns the slots of another PE, which begin at this address.
  GRAVEL_BOTH table at(const typename table::slot_type* begin) const {
    return {const_cast<typename table::slot_type*>(begin), own.count};
  }
  template <map_update HOW>
  GRAVEL_DEVICE void change(const gravel_t& g, const Key& key, const map_words<value_bytes>& value) const {
    const auto words = __builtin_bit_cast(map_words<key_bytes>, key);
    const int pe = owner(key);
    const auto* const theirs = gravel_ptr(g, own.slots, pe);
    if (pe == gravel_my_pe(g)) change_slots<HOW, scope::device>(g, own, g.my_pe, words, value);
    else if (theirs) change_slots<HOW, scope::system>(g, at(theirs), static_cast<uint32_t>(pe), words, value);
    else gravel_am<map_delivery<key_bytes, value_bytes>>(g, pe, message_of<HOW>(words, value));
  }
};

}  // namespace gravel::detail
