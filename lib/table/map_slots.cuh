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
// - find() and read() wait for nobody; what is claimed then is not found. Nothing may change the map while find() runs.
// - A key probes all slots of its part of the table, and the other parts behind that. So a key lies outside its part
//   only if all slots of the part had other keys when it came, and then they still have.
// The model is test/models/map_slot.pml.
//
// The same protocol serves tables in shared memory, among the lanes of a block: a copy of a part
// (lib/table/map_phases.cuh), and the cache of hot keys (lib/table/map_hot_keys.cuh).
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
  GRAVEL_BOTH uint32_t owner(uint32_t n_pes) const { return pick(n_pes); }
  /// Returns a number below n, which depends on owner() but not on tag().
  GRAVEL_BOTH uint32_t pick(uint32_t n) const { return detail::pick(bits_, n); }
  /// Returns the first slot that the key probes: 0 to slots - 1. Each bit of the hash changes the high bits of the
  /// product, so slots do not depend on owners.
  GRAVEL_BOTH uint64_t slot(uint64_t slots) const { return divisor::high_product(bits_ * 0x9e3779b97f4a7c15u, slots); }
  /// Returns the lowest bits: a number below n, a power of 2. They do not depend on leading_zeros().
  GRAVEL_BOTH uint32_t low_bits(uint32_t n) const { return static_cast<uint32_t>(bits_) & (n - 1); }
  GRAVEL_DEVICE uint32_t leading_zeros() const { return static_cast<uint32_t>(__clzll(static_cast<long long>(bits_))); }
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

/// Parts of a table: 2^shift slots each, so that a block can have one in its shared memory. A large table has at least
/// 2^least_parts_shift of them.
template <uint32_t SLOT_BYTES>
struct map_parts {
  static constexpr uint32_t least_parts_shift = GRAVEL_CUDA ? 8 : 3, least_shift = GRAVEL_CUDA ? 8 : 4;
  static constexpr uint32_t most_bytes = GRAVEL_CUDA ? 48 << 10 : 2 << 10;
  static constexpr uint32_t most_shift = [] {
    uint32_t shift = least_shift;
    while ((SLOT_BYTES << (shift + 1)) <= most_bytes) ++shift;
    return shift;
  }();

  /// Returns the logarithm of a part's slots, in a table with `slots` slots.
  GRAVEL_BOTH static constexpr uint32_t shift(uint64_t slots) {
    uint32_t found = least_shift;
    GRAVEL_UNROLL
    for (uint32_t next = least_shift + 1; next <= most_shift; ++next)
      if (slots >> (least_parts_shift + next) != 0) found = next;
    return found;
  }
  /// Returns the number of slots for which a table has whole parts: `slots` or a few more.
  static constexpr uint64_t round_up(uint64_t slots) {
    const uint64_t part = uint64_t{1} << shift(slots);
    return (slots + part - 1) / part * part;
  }
};

/// The slots of a part that a key probes: four neighbours, which are mostly in one line of memory, then four neighbours
/// elsewhere, and so on in a circle. The distance differs from key to key: so crowded places do not grow, as they do
/// where each key goes on to the next slot.
class map_part_probe {
 public:
  /// @param tag of the key
  /// @param first slot of the part that the key probes
  /// @param slots of the part: a power of 2; for any other number, the key probes one neighbour after the other
  GRAVEL_BOTH map_part_probe(uint32_t tag, uint32_t first, uint32_t slots) : offset_(first), slots_(slots) {
    const uint32_t mask = slots - 1, odd = tag >> 2 | 1;
    jump_ = (slots & mask) == 0 ? (odd * neighbours - (neighbours - 1)) & mask : 1;
  }
  GRAVEL_BOTH uint32_t at() const { return offset_; }
  GRAVEL_BOTH void advance() {
    ++probes_;
    offset_ += probes_ % neighbours == 0 ? jump_ : 1;
    if (offset_ >= slots_) offset_ -= slots_;
  }
  GRAVEL_BOTH uint32_t slots() const { return slots_; }

 private:
  static constexpr uint32_t neighbours = 4;
  uint32_t offset_, jump_, slots_, probes_ = 0;
};

/// The slots that a key probes: those of its part, then those of the other parts.
class map_probe {
 public:
  /// @param part first slot of the key's part
  /// @param in_part the slots of the part; those of other parts are probed in the same order
  /// @param slots of the table
  GRAVEL_BOTH map_probe(uint64_t part, const map_part_probe& in_part, uint64_t slots)
      : part_(part), slots_(slots), in_part_(in_part), left_(in_part.slots()) {}
  GRAVEL_BOTH uint64_t at() const { return part_ + in_part_.at(); }
  GRAVEL_BOTH void advance() {
    in_part_.advance();
    --left_;
    if (left_ != 0) return;
    left_ = in_part_.slots();
    part_ += left_;
    if (part_ >= slots_) part_ = 0;
  }

 private:
  uint64_t part_, slots_;
  map_part_probe in_part_;
  uint32_t left_;
};

/// Reads a slot by loads, for map_slots::read().
/// @tparam S where the lanes run that may change the slot now
template <scope S>
struct map_slot_loads {
  GRAVEL_BOTH uint32_t state(const uint32_t* at) const { return load_relaxed<S>(at); }
  GRAVEL_BOTH uint32_t acquire(const uint32_t* at) const { return load_acquire<S>(at); }
  template <uint32_t BYTES>
  GRAVEL_BOTH map_words<BYTES> words(const map_words<BYTES>* at) const {
    map_words<BYTES> found;
    for (uint32_t i = 0; i < found.count; ++i) found.word[i] = load_relaxed<S>(&at->word[i]);
    return found;
  }
};

/// All slots of a PE, or those of another one where its memory is mapped, or slots in shared memory.
template <uint32_t KEY, uint32_t VALUE>
struct map_slots {
  using key_type = map_words<KEY>;
  using value_type = map_words<VALUE>;
  using slot_type = map_slot<KEY, VALUE>;
  using parts = map_parts<sizeof(slot_type)>;
  /// A key that finds no slot within so many probes finds none: the table is too crowded.
  static constexpr uint32_t most_probes = 1 << 14;

  slot_type* slots;
  uint64_t count;  ///< of slots: whole parts, or less than one

  /// Adds a key with a value; or calls change(&value) with the value of a key that is there. False: there is no slot
  /// for it, and nothing is changed. Waits while another lane writes the same key.
  /// @tparam S where the lanes run that may use these slots now
  /// @scope lane, from divergent code
  template <scope S = scope::device, class Change>
  GRAVEL_BOTH bool put(const key_type& key, const value_type& value, const Change& change) const {
    const map_hash hash(key);
    return put<S>(hash.tag(), probe(hash), limit(), key, value, change);
  }
  /// As above, for a key with this tag, and at most `limit` probes.
  template <scope S, class Probe, class Change>
  GRAVEL_BOTH bool put(uint32_t tag, Probe probe, uint32_t limit, const key_type& key, const value_type& value,
                       const Change& change) const {
    bool is_done = false;
    relax wait;
    while (!is_done && limit != 0) {
      slot_type& slot = slots[probe.at()];
      uint32_t state = load_relaxed<S>(&slot.state);
      if (has_tag(state, tag)) state = load_acquire<S>(&slot.state);  // [D1]
      const bool is_free = state == map_state::free;
      const bool is_claimed = state == (tag | map_state::claimed);
      const bool is_here = has_tag(state, tag) && !is_claimed && slot.key == key;
      if (is_free || (is_here && state == (tag | map_state::erased))) {
        // If the exchange fails, the next round sees what has become of the slot.
        if (compare_swap_acquire<S>(&slot.state, state, tag | map_state::claimed)) {  // [D2]
          if (is_free) slot.key = key;
          store_value<S>(&slot.value, value);
          store_release<S>(&slot.state, tag | map_state::present);  // [D1]
          is_done = true;
        }
      } else if (is_here) {
        change(&slot.value);
        is_done = true;
      } else if (is_claimed) {
        wait.closely();
      } else {
        probe.advance();
        --limit;
      }
    }
    return is_done;
  }

  /// Erases a key, if it is there.
  /// @tparam S where the lanes run that may use these slots now
  /// @scope lane, from divergent code
  template <scope S = scope::device>
  GRAVEL_BOTH void erase(const key_type& key) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    map_probe at = probe(hash);
    uint32_t left = limit();
    bool is_done = false;
    relax wait;
    while (!is_done && left != 0) {
      slot_type& slot = slots[at.at()];
      uint32_t state = load_relaxed<S>(&slot.state);
      if (has_tag(state, tag)) state = load_acquire<S>(&slot.state);  // [D1]
      const bool is_claimed = state == (tag | map_state::claimed);
      if (state == map_state::free) {
        is_done = true;
      } else if (is_claimed) {
        wait.closely();
      } else if (has_tag(state, tag) && slot.key == key) {
        is_done = state == (tag | map_state::erased) ||
                  compare_swap_acq_rel<S>(&slot.state, state, tag | map_state::erased);  // [D2]
      } else {
        at.advance();
        --left;
      }
    }
  }

  /// Reads the value of a key, also beside lanes that change the table. False: the key is not there.
  /// @param value where the value is stored; of several words, these may be of two values if the key is erased and
  ///   added again meanwhile
  /// @param read reads a state, state(&slot.state), again behind [D1], acquire(&slot.state), and a key or a value,
  ///   words(&slot.key)
  /// @scope lane, from divergent code
  template <class Read>
  GRAVEL_BOTH bool read(const key_type& key, value_type* value, const Read& read) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    map_probe at = probe(hash);
    for (uint32_t left = limit(); left != 0; --left, at.advance()) {
      const slot_type& slot = slots[at.at()];
      uint32_t state = read.state(&slot.state);
      if (has_tag(state, tag)) state = read.acquire(&slot.state);  // [D1]
      if (state == map_state::free) return false;
      const bool may_be_here = has_tag(state, tag) && (state & map_state::mask) != map_state::claimed;
      if (!may_be_here || !(read.words(&slot.key) == key)) continue;
      if ((state & map_state::mask) != map_state::present) return false;
      *value = read.words(&slot.value);
      return true;
    }
    return false;
  }

  /// Returns the value of a key; nullptr: it is not there. Nothing may change the table meanwhile.
  /// @scope lane, from divergent code
  GRAVEL_BOTH const value_type* find(const key_type& key) const {
    uint32_t state = 0;
    const slot_type* const slot = slot_of(key, limit(), &state);
    return slot && (state & map_state::mask) == map_state::present ? &slot->value : nullptr;
  }
  /// Returns whether a key has a slot of its part, be it present or erased. All slots of the part have keys.
  GRAVEL_BOTH bool is_in_part(const key_type& key) const {
    uint32_t state = 0;
    return slot_of(key, part_slots(), &state) != nullptr;
  }

  /// Returns the number of slots of a part.
  GRAVEL_BOTH uint32_t part_slots() const {
    const uint64_t part = uint64_t{1} << parts::shift(count);
    return static_cast<uint32_t>(part < count ? part : count);
  }
  /// Returns the probes of a key.
  GRAVEL_BOTH map_probe probe(const map_hash& hash) const {
    const uint64_t first = hash.slot(count);
    const uint32_t in_part = part_slots();
    const uint64_t part = in_part == count ? 0 : first & ~uint64_t{in_part - 1};
    return {part, {hash.tag(), static_cast<uint32_t>(first - part), in_part}, count};
  }

 private:
  /// True for a slot that is not free, and whose key has this tag.
  GRAVEL_BOTH static bool has_tag(uint32_t state, uint32_t tag) {
    return state != map_state::free && (state ^ tag) <= map_state::mask;
  }
  GRAVEL_BOTH uint32_t limit() const { return static_cast<uint32_t>(count < most_probes ? count : most_probes); }
  /// Returns the slot of a key, present or erased, with its state; nullptr: it has none among the first `limit` that it
  /// probes.
  GRAVEL_BOTH const slot_type* slot_of(const key_type& key, uint32_t limit, uint32_t* seen) const {
    const map_hash hash(key);
    const uint32_t tag = hash.tag();
    map_probe at = probe(hash);
    for (uint32_t left = limit; left != 0; --left, at.advance()) {
      const slot_type& slot = slots[at.at()];
      const uint32_t state = load_relaxed<scope::device>(&slot.state);
      if (state == map_state::free) return nullptr;
      if (!has_tag(state, tag) || (state & map_state::mask) == map_state::claimed) continue;
      if (slot.key == key) {
        *seen = state;
        return &slot;
      }
    }
    return nullptr;
  }
  /// Stores the value of a claimed slot. A lane that has found the key before it was erased may still be adding to a
  /// value of one word.
  template <scope S>
  GRAVEL_BOTH static void store_value(value_type* to, const value_type& value) {
    if constexpr (value_type::count == 1) store_relaxed<S>(&to->word[0], value.word[0]);
    else *to = value;
  }
};

}  // namespace gravel::detail
