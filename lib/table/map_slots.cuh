// A PE's part of a gravel::map: a hash table with open addressing in device memory.
//
// Problem. Kernels and handlers change the table at the same time. Each key value is legal, so no key can mark a free
// slot, and a key of 16 bytes is written in several steps.
//
// Solution. Each slot has a state word apart from its key. A lane claims a slot, writes key and value, and publishes
// the slot. The state word has 30 bits of the key's hash beside the state: a lane that finds a slot claimed waits only
// if these bits are those of its own key, which then is nearly always the same key.
//
// Protocol. State of a slot, and who changes it:
//
//   from      to        who                                                    order
//   free      claimed   a lane that adds a key; it sets the tag for ever       acquire
//   claimed   present   the same lane, when key and value are written          [D1] release
//   present   erased    a lane that erases the key                             [D2] acquire and release
//   erased    claimed   a lane that adds the key again                         [D2] acquire
//
// A lane that finds the tag of its key reads the state again by [D1] acquire. Then it may read the key, and change the
// value by atomic operations.
//
// Invariants.
// - A slot's key never changes once it is published, not even when it is erased, until the whole table is cleared or
//   moved into another one. So the slots that a key probes never become free again: two lanes with one key come to the
//   same slot, and a key has at most one slot. The price: the slot of an erased key serves this key alone.
// - Between claim and publication a lane waits for nobody. So a lane that waits for a claimed slot waits for a party
//   that runs: a lane of another warp, one of its own warp (GPUs from sm_70 on run diverged lanes independently), or
//   a lane of the CPU backend, which runs on when the waiting lane relaxes.
// - find() waits for nobody. Nothing may change the map while it runs; what is claimed then is not found.
// The model is test/models/map_slot.pml.
#pragma once
#include <cstdint>

#include "device/in_place.cuh"
#include "lib/base/mix.hpp"
#include "lib/base/relax.hpp"
#include "lib/table/divisor.hpp"

namespace gravel::detail {

/// The bits of a key or of a value, as words.
template <uint32_t BYTES>
struct map_words {
  using word_type = std::conditional_t<BYTES % 8 == 0, uint64_t, uint32_t>;
  static constexpr uint32_t count = BYTES / sizeof(word_type);
  word_type word[count];

  GRAVEL_BOTH bool operator==(const map_words& other) const {
    bool equal = true;
    for (uint32_t i = 0; i < count; ++i) equal &= word[i] == other.word[i];
    return equal;
  }
};

/// The hash of a key. The owner, the slot and the tag each come from bits of their own.
class map_hash {
 public:
  template <uint32_t BYTES>
  GRAVEL_BOTH explicit map_hash(const map_words<BYTES>& key) : bits_(0) {
    for (uint32_t i = 0; i < key.count; ++i) bits_ = mix(bits_ + key.word[i]);
  }
  /// Returns the PE that has the key: 0 to n_pes - 1.
  GRAVEL_BOTH uint32_t owner(uint32_t n_pes) const { return pick(bits_, n_pes); }
  /// Returns the first slot that the key probes: 0 to slots - 1.
  GRAVEL_BOTH uint64_t slot(uint64_t slots) const { return divisor::high_product(mix(~bits_), slots); }
  /// Returns the bits of a state word that are not the state.
  GRAVEL_BOTH uint32_t tag() const { return static_cast<uint32_t>(bits_) << 2; }

 private:
  uint64_t bits_;
};

/// State of a slot: the lowest two bits of its state word. The word of a free slot is 0.
struct map_state {
  static constexpr uint32_t free = 0, claimed = 1, present = 2, erased = 3, mask = 3;
};

template <uint32_t KEY, uint32_t VALUE>
struct map_slot {
  uint32_t state;  ///< map_state, and the tag of the key above it
  map_words<KEY> key;
  map_words<VALUE> value;

  GRAVEL_BOTH bool is_present() const {
    return (load_relaxed<scope::device>(&state) & map_state::mask) == map_state::present;
  }
};

/// All slots of a PE, or those of another one where its memory is mapped.
template <uint32_t KEY, uint32_t VALUE>
struct map_slots {
  using key_type = map_words<KEY>;
  using value_type = map_words<VALUE>;
  using slot_type = map_slot<KEY, VALUE>;
  /// A key that finds no slot within so many probes finds none: the table is too crowded.
  static constexpr uint64_t most_probes = uint64_t{1} << 14;

  slot_type* slots;
  uint64_t count;

  /// Adds a key with a value; or calls change(&value) with the value of a key that is there. False: there is no slot
  /// for it, and nothing is changed. Waits while another lane writes the same key.
  /// @scope lane, from divergent code
  template <class Change>
  GRAVEL_BOTH bool put(const key_type& key, const value_type& value, const Change& change) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    uint64_t at = hash.slot(count), probes = 0;
    bool is_done = false;
    relax wait;
    while (!is_done && probes < limit()) {
      slot_type& slot = slots[at];
      uint32_t state = load_relaxed<scope::device>(&slot.state);
      if (has_tag(state, tag)) state = load_acquire<scope::device>(&slot.state);  // [D1]
      const bool is_free = state == map_state::free;
      const bool is_claimed = state == (tag | map_state::claimed);
      const bool is_here = has_tag(state, tag) && !is_claimed && slot.key == key;
      if (is_free || (is_here && state == (tag | map_state::erased))) {
        // If the exchange fails, the next round sees what has become of the slot.
        if (compare_swap_acquire<scope::device>(&slot.state, state, tag | map_state::claimed)) {  // [D2]
          if (is_free) slot.key = key;
          store_value(&slot.value, value);
          store_release<scope::device>(&slot.state, tag | map_state::present);  // [D1]
          is_done = true;
        }
      } else if (is_here) {
        change(&slot.value);
        is_done = true;
      } else if (is_claimed) {
        wait.closely();
      } else {
        at = behind(at);
        ++probes;
      }
    }
    return is_done;
  }

  /// Erases a key, if it is there.
  /// @scope lane, from divergent code
  GRAVEL_BOTH void erase(const key_type& key) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    uint64_t at = hash.slot(count), probes = 0;
    bool is_done = false;
    relax wait;
    while (!is_done && probes < limit()) {
      slot_type& slot = slots[at];
      uint32_t state = load_relaxed<scope::device>(&slot.state);
      if (has_tag(state, tag)) state = load_acquire<scope::device>(&slot.state);  // [D1]
      const bool is_claimed = state == (tag | map_state::claimed);
      if (state == map_state::free) {
        is_done = true;
      } else if (is_claimed) {
        wait.closely();
      } else if (has_tag(state, tag) && slot.key == key) {
        is_done = state == (tag | map_state::erased) ||
                  compare_swap_acq_rel<scope::device>(&slot.state, state, tag | map_state::erased);  // [D2]
      } else {
        at = behind(at);
        ++probes;
      }
    }
  }

  /// Returns the value of a key; nullptr: it is not there.
  /// @scope lane, from divergent code
  GRAVEL_BOTH const value_type* find(const key_type& key) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    uint64_t at = hash.slot(count);
    for (uint64_t probes = 0; probes < limit(); ++probes, at = behind(at)) {
      const slot_type& slot = slots[at];
      const uint32_t state = load_relaxed<scope::device>(&slot.state);
      if (state == map_state::free) return nullptr;
      if (!has_tag(state, tag) || (state & map_state::mask) == map_state::claimed) continue;
      if (slot.key == key) return (state & map_state::mask) == map_state::present ? &slot.value : nullptr;
    }
    return nullptr;
  }

 private:
  /// True for a slot that is not free, and whose key has this tag.
  GRAVEL_BOTH static bool has_tag(uint32_t state, uint32_t tag) {
    return state != map_state::free && (state ^ tag) <= map_state::mask;
  }
  GRAVEL_BOTH uint64_t limit() const { return count < most_probes ? count : most_probes; }
  GRAVEL_BOTH uint64_t behind(uint64_t at) const { return at + 1 < count ? at + 1 : 0; }
  /// Stores the value of a claimed slot. A lane that has found the key before it was erased may still be adding to a
  /// value of one word.
  GRAVEL_BOTH static void store_value(value_type* to, const value_type& value) {
    if constexpr (value_type::count == 1) store_relaxed<scope::device>(&to->word[0], value.word[0]);
    else *to = value;
  }
};

}  // namespace gravel::detail
