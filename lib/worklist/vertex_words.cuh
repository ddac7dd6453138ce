// What a worklist keeps for each vertex: one word, which is offered values and tells when the vertex is to be listed.
// Own vertices come first, then ghosts: vertices of other PEs, with the best that this PE has had for them. So one
// atomic decides about value and list together, and what a list has no room for stays marked at the vertex.
#pragma once
#include <cstdint>

#include "device/simt.hpp"
#include "device/value.cuh"
#include "lib/base/atomic.hpp"

namespace gravel::detail {

/// What is to be done with a vertex that was offered a value.
enum class listing : uint8_t { none, near, far };

/// The least key that each vertex was offered, for distances, levels, labels. A word is twice the key, and one more
/// while the vertex waits in a list: so a vertex that was taken is not listed again for the key that it was taken with.
///
///   offer   word = min(word, 2 * key + 1)   if that changed it: who waits nowhere, or in the far list and is near now,
///   is to be listed take    word &= ~1                      whoever clears the bit expands the vertex; other entries
///   of it are stale
///
/// Invariants: keys never grow. An odd word's vertex has an entry in a list that fits its key, but for what was dropped
/// for lack of room. A vertex enters the far list once in a run: limits grow and keys fall, so one that was near never
/// is far again.
/// @scope lane, from divergent code; kernels, handlers
/// @completion on return
/// @errors none are checked
/// @source Groute, chapters 4 and 5
struct least_keys {
  using value = uint32_t;
  static constexpr uint32_t unreached = ~0u >> 1;  ///< the key of who was offered none; keys are below it
  static constexpr bool is_ordered = true;
  uint32_t* words;

  static constexpr uint32_t initial_word = 2 * unreached;
  /// The key in a word.
  /// @param word of a vertex
  GRAVEL_BOTH static uint32_t key_of(uint32_t word) { return word / 2; }
  /// Whether the vertex waits in a list.
  /// @param word of a vertex
  GRAVEL_BOTH static bool waits(uint32_t word) { return (word & 1) != 0; }
  /// The word of a key.
  /// @param key below `unreached`
  /// @param waits whether the vertex waits in a list
  GRAVEL_BOTH static uint32_t word_of(uint32_t key, bool waits) { return 2 * key + waits; }

  /// Whether an offer may change anything: one load saves most atomics.
  /// @param v number of the vertex here
  /// @param key what would be offered
  GRAVEL_DEVICE bool may_take(uint32_t v, uint32_t key) const {
    return key < unreached && word_of(key, true) < load_relaxed<scope::device>(&words[v]);
  }
  /// Offers a key to a vertex. Returns the list that it is to enter.
  /// @param v number of the vertex here
  /// @param key what is offered
  /// @param limit keys below it are near
  GRAVEL_DEVICE listing offer(uint32_t v, uint32_t key, uint32_t limit) const {
    if (key >= unreached) return listing::none;
    return place_of(atomicMin(&words[v], word_of(key, true)), key, limit);
  }
  /// @internal
  GRAVEL_BOTH static listing place_of(uint32_t old, uint32_t key, uint32_t limit) {
    if (old <= word_of(key, true)) return listing::none;
    const bool is_near = key < limit;
    if (waits(old) && (key_of(old) < limit) == is_near) return listing::none;
    return is_near ? listing::near : listing::far;
  }
  /// Offers a key to a vertex, where lists have ranks instead of a limit: near if the rank of the key is another than
  /// that of the list in which the vertex waits.
  /// @param v number of the vertex here
  /// @param key what is offered
  /// @param rank gives the rank of a key
  template <class Rank>
  GRAVEL_DEVICE listing offer_ranked(uint32_t v, uint32_t key, Rank rank) const {
    if (key >= unreached) return listing::none;
    const uint32_t old = atomicMin(&words[v], word_of(key, true));
    if (old <= word_of(key, true) || (waits(old) && rank(key_of(old)) == rank(key))) return listing::none;
    return listing::near;
  }
  /// Takes the vertex out of its list. False: another entry of it has been taken.
  /// @param v number of the vertex here
  /// @param key where its key goes
  GRAVEL_DEVICE bool take(uint32_t v, uint32_t* key) const {
    const uint32_t old = atomicAnd(&words[v], ~1u);
    *key = key_of(old);
    return waits(old);
  }
};

/// The sum of what each vertex was offered since it was last taken, for residuals: it is listed when it reaches a
/// threshold. T: float, or double, whose messages have 12 bytes instead of 8.
template <class T>
struct sums {
  using value = T;
  static constexpr bool is_ordered = false;
  T* words;
  T threshold;

  static constexpr T initial_word = 0;
  GRAVEL_DEVICE bool waits(T word) const { return word >= threshold; }

  GRAVEL_DEVICE bool may_take(uint32_t, T) const { return true; }
  GRAVEL_DEVICE listing offer(uint32_t v, T part, uint32_t) const {
    const T old = atomicAdd(&words[v], part);
    return old < threshold && old + part >= threshold ? listing::near : listing::none;
  }
  template <class Rank>
  GRAVEL_DEVICE listing offer_ranked(uint32_t v, T part, Rank) const {
    return offer(v, part, 0);
  }
  GRAVEL_DEVICE bool take(uint32_t v, T* sum) const {
    using bits = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
    *sum = from_word<T>(atomicExch(reinterpret_cast<bits*>(&words[v]), bits{0}));
    return *sum != 0;
  }
};
using float_sums = sums<float>;
using double_sums = sums<double>;

}  // namespace gravel::detail
