// Call table: combines the calls of one key that a block makes, for sections that have `combine`. It is a table of keys
// in the block's shared memory. If a section has `combine_by`, "key" means here and in the model the key and the value
// of combine_by.
//
// Problem. A warp combines only calls that its lanes make together. Often-called keys come again and again from all
// warps.
// Solution. Each key has one place in the table. A call, after its warp has combined what it can, is added to the call
// that is there for its key, or is put there if the place is empty. If there is a call of another key, the lane
// continues with its own call and takes one from the `worth` of the other. Each call that is added raises the worth. At
// worth 1 the newcomer takes the place, and its lane continues with the call that was there. So keys that are called
// often stay, whichever they are.
//
//   lock 0 -> 1                           [U3] acquire
//   read and change worth, key, argument
//   lock = 0                              [U3] release
//
// A lane that has locked a place waits for nothing. A lane that finds the place locked tries a few times, and then
// continues as if there were no table. So no lane waits for another.
// Invariant: a call is with one lane or in one place, and `worth` is 0 where there is no call.
// The model is test/models/call_table.pml.
//
// If keys are spread evenly, the table does not help. So a block checks how many of its first calls were added to
// others, and stops using the table if there were few.
#pragma once
#include "device/block_add.hpp"
#include "device/lane_group.cuh"
#include "lib/base/relax.hpp"
#include "lib/critical/section.hpp"

namespace gravel::detail {

/// The table of section S, in shared memory. PLACES: a power of two.
template <class S, class Record, uint32_t PLACES>
class call_table {
  static_assert(PLACES > 0 && (PLACES & (PLACES - 1)) == 0);

 public:
  using argument = typename first_type<typename section_traits<Record, S>::arguments>::type;
  static constexpr uint32_t place_bytes = 12 + 4 * words_of<argument>;
  static constexpr uint32_t sample = PLACES < 32 ? 64 : 2 * PLACES;  ///< number of calls after which the block decides
  static constexpr uint32_t least = 16;  ///< the table stays in use if one of this many calls was added to another

  /// Empties the table. `salt` differs from block to block, so that two often-called keys do not share a place in all
  /// blocks. Thread scope: block, converged; the caller adds the barriers before and after.
  GRAVEL_DEVICE void begin(uint32_t rank, uint32_t size, uint32_t salt = 0) {
    for (uint32_t i = rank; i < PLACES; i += size) lock_[i] = worth_[i] = 0;
    if (rank == 0) {
      state_ = trying;
      seen_ = added_ = 0;
      factor_ = 0x9e3779b1u ^ salt << 1;
    }
  }

  /// True: the table has the lane's call now. False: the lane must make the call of `key` and `value`, which may be
  /// another call than its own. `calls`: this lane has a call. Thread scope: the lanes of `group`, together.
  GRAVEL_DEVICE bool keep(const lane_group& group, bool calls, uint32_t& key, argument& value) {
    const uint32_t state = group.from_leader(load_relaxed<scope::shared>(&state_));
    if (state == unused) return false;
    const found what = calls ? visit(key, value) : found::nothing;
    if (state == trying) judge(group, calls, what == found::same);
    return what == found::same || what == found::empty;
  }

  /// Calls call(key, value) for each call in the table, and empties it. Thread scope: block, converged; barriers as for
  /// begin().
  template <class F>
  GRAVEL_DEVICE void empty(uint32_t rank, uint32_t size, const F& call) {
    for (uint32_t i = rank; i < PLACES; i += size) {
      if (worth_[i] == 0) continue;
      worth_[i] = 0;
      call(key_[i], value_at(i));
    }
  }

 private:
  static constexpr uint32_t trying = 0, used = 1, unused = 2;  ///< values of state_
  enum class found { nothing, same, empty, other };
  static constexpr uint32_t tries = 8;
  static constexpr uint32_t first_worth = 2, gain = 4, most_worth = 64;

  using by_type = combined_by<S, argument>;
  GRAVEL_DEVICE uint32_t place_of(uint32_t key, [[maybe_unused]] const by_type& by) const {
    uint32_t mixed = key * factor_;
    if constexpr (by_type::words > 0) {
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < by_type::words; ++i) mixed = (mixed ^ by.word[i]) * factor_;
    }
    if constexpr (PLACES == 1) return 0;
    else return mixed >> (32 - lane_group::popcount(PLACES - 1));
  }
  GRAVEL_DEVICE found visit(uint32_t& key, argument& value) {
    const uint32_t at = place_of(key, by_type(value));
    found what = found::nothing;
    relax wait;
    // A lane that has locked the place unlocks it in the same round: other lanes of its warp may try to lock it.
    for (uint32_t i = 0; i < tries; ++i) {
      if (compare_swap_acquire<scope::shared>(&lock_[at], 0u, 1u)) {  // [U3]
        what = change(at, key, value);
        store_release<scope::shared>(&lock_[at], 0u);  // [U3]
        break;
      }
      wait();
    }
    return what;
  }
  /// Adds, puts or exchanges the call. The lane has locked the place.
  GRAVEL_DEVICE found change(uint32_t at, uint32_t& key, argument& value) {
    const uint32_t worth = worth_[at];
    if (worth == 0) {
      put(at, key, value);
      return found::empty;
    }
    if (key_[at] == key && by_type(value_at(at)) == by_type(value)) {
      set_value(at, S::combine(value_at(at), value));
      worth_[at] = worth + gain < most_worth ? worth + gain : most_worth;
      return found::same;
    }
    if (worth > 1) {
      worth_[at] = worth - 1;
      return found::other;
    }
    const uint32_t other = key_[at];
    const argument its = value_at(at);
    put(at, key, value);
    key = other;
    value = its;
    return found::other;
  }
  GRAVEL_DEVICE void put(uint32_t at, uint32_t key, const argument& value) {
    key_[at] = key;
    worth_[at] = first_worth;
    set_value(at, value);
  }
  /// Counts calls and additions, and decides after `sample` calls whether the table stays in use. Thread scope: the
  /// lanes of `group`, together.
  GRAVEL_DEVICE void judge(const lane_group& group, bool calls, bool was_added) {
    const uint32_t called = lane_group::popcount(group.ballot(calls)),
                   added = lane_group::popcount(group.ballot(was_added));
    if (!group.is_leader()) return;
    const uint32_t all_added = block_add_relaxed(&added_, added) + added,
                   all = block_add_relaxed(&seen_, called) + called;
    if (all >= sample && all - called < sample)
      store_relaxed<scope::shared>(&state_, all_added * least >= all ? used : unused);
  }
  GRAVEL_DEVICE argument value_at(uint32_t at) const {
    uint32_t words[words_of<argument>];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < words_of<argument>; ++i) words[i] = word_[i][at];
    return read_words<argument>(words);
  }
  GRAVEL_DEVICE void set_value(uint32_t at, const argument& value) {
    uint32_t words[words_of<argument>];
    write_words(words, value);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < words_of<argument>; ++i) word_[i][at] = words[i];
  }

  // One array for each word: lanes that read scattered places have few bank conflicts.
  uint32_t state_, seen_, added_, factor_;
  uint32_t lock_[PLACES], worth_[PLACES], key_[PLACES];
  uint32_t word_[words_of<argument>][PLACES];
};

/// In place of a table, for sections that do not combine and for senders without tables.
template <class S>
struct no_call_table {
  static constexpr uint32_t place_bytes = 0;
};
template <class S, class Record, uint32_t PLACES, bool COMBINES = section_traits<Record, S>::combines>
struct call_table_of {
  using type = no_call_table<S>;
};
template <class S, class Record, uint32_t PLACES>
struct call_table_of<S, Record, PLACES, true> {
  using type = call_table<S, Record, PLACES>;
};

/// The tables of a sender: one for each section that has `combine`.
template <uint32_t PLACES, class Record, class... Sections>
struct call_tables : call_table_of<Sections, Record, PLACES>::type... {
  template <class S>
  GRAVEL_DEVICE auto& of() {
    return static_cast<typename call_table_of<S, Record, PLACES>::type&>(*this);
  }
};
template <class Record, class... Sections>
struct call_tables<0, Record, Sections...> {};

/// Number of places of each table, a power of two, if all tables together may take `bytes` bytes.
template <class Record, class... Sections>
constexpr uint32_t places_in(uint32_t bytes) {
  const uint32_t each = (call_table_of<Sections, Record, 1>::type::place_bytes + ... + 0);
  uint32_t places = 4096;
  while (places > 1 && places * each > bytes) places /= 2;
  return each ? places : 0;
}

}  // namespace gravel::detail
