// The word of a vertex, by which a worklist decides whether the vertex must be listed.
//
// A vertex is offered values; one atomic on its word keeps the best value and says whether the vertex is to be listed.
// A vertex that finds no room in a list stays marked in its word. Own vertices come first, then ghosts: vertices of
// other PEs, with the best value that this PE has had for them.
#pragma once
#include <cstdint>

#include "device/simt.hpp"
#include "device/value.cuh"
#include "lib/base/atomic.hpp"

namespace gravel::detail {

/// The list that a vertex must enter after an offer.
enum class listing : uint8_t { none, near, far };

/// State of programs for distances, levels and labels: the least key that each vertex was offered. A word is twice the
/// key, plus one while the vertex waits in a list. So a vertex that was taken is not listed again for the same key.
///
///   offer   word = min(word, 2 * key + 1)  if this changed the word: a vertex that does not wait, or that waits in the
///                                          far list and is near now, is to be listed
///   take    word &= ~1                     the warp that clears the bit expands the vertex; other entries are stale
///
/// Invariants: keys never grow. A vertex with an odd word has an entry in a list that fits its key, unless the entry
/// was dropped for lack of room. A vertex enters the far list once in a run: limits grow and keys fall, so a vertex
/// that was near is never far again.
/// @scope lane, from divergent code; kernels, handlers
/// @completion on return
/// @errors none are checked
/// @source Groute, chapters 4 and 5
struct least_keys {
  using value = uint32_t;
  static constexpr uint32_t unreached = ~0u >> 1;  ///< the key of a vertex without an offer; keys are below it
  static constexpr bool is_ordered = true;
  uint32_t* words;

  static constexpr uint32_t initial_word = 2 * unreached;
  /// Returns the key in a word.
  /// @param word of a vertex
  GRAVEL_BOTH static uint32_t key_of(uint32_t word) { return word / 2; }
  /// Returns whether the vertex waits in a list.
  /// @param word of a vertex
  GRAVEL_BOTH static bool waits(uint32_t word) { return (word & 1) != 0; }
  /// Returns the word of a key.
  /// @param key below `unreached`
  /// @param waits whether the vertex waits in a list
  GRAVEL_BOTH static uint32_t word_of(uint32_t key, bool waits) { return 2 * key + waits; }

  /// Returns whether an offer may change anything: one load saves most atomics.
  /// @param v number of the vertex here
  /// @param key the key that would be offered
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
  /// Offers a key to a vertex whose lists have ranks instead of a limit. Returns near if the rank of the key differs
  /// from that of the list in which the vertex waits.
  /// @param v number of the vertex here
  /// @param key what is offered
  /// @param rank rank(key) returns the rank of a key
  template <class Rank>
  GRAVEL_DEVICE listing offer_ranked(uint32_t v, uint32_t key, Rank rank) const {
    if (key >= unreached) return listing::none;
    const uint32_t old = atomicMin(&words[v], word_of(key, true));
    if (old <= word_of(key, true) || (waits(old) && rank(key_of(old)) == rank(key))) return listing::none;
    return listing::near;
  }
  /// Takes the vertex out of its list. Returns false if another entry of it was taken before.
  /// @param v number of the vertex here
  /// @param key receives the vertex's key
  GRAVEL_DEVICE bool take(uint32_t v, uint32_t* key) const {
    const uint32_t old = atomicAnd(&words[v], ~1u);
    *key = key_of(old);
    return waits(old);
  }
};

/// State of programs for residuals: the sum of the values that each vertex was offered since it was last taken. A
/// vertex is listed when its sum reaches a threshold. T: float, or double, whose messages have 12 bytes instead of 8.
/// @scope lane, from divergent code; kernels, handlers
/// @completion on return
/// @errors none are checked
/// @source Groute, chapter 5
template <class T>
struct sums {
  using value = T;
  static constexpr bool is_ordered = false;
  T* words;
  T threshold;

  static constexpr T initial_word = 0;
  /// Returns whether the vertex waits in a list.
  /// @param word of a vertex
  GRAVEL_DEVICE bool waits(T word) const { return word >= threshold; }

  /// Returns true: any offer changes the sum.
  GRAVEL_DEVICE bool may_take(uint32_t, T) const { return true; }
  /// Adds a value to the sum of a vertex. Returns near if the sum reaches the threshold by that.
  /// @param v number of the vertex here
  /// @param part what is added
  GRAVEL_DEVICE listing offer(uint32_t v, T part, uint32_t) const {
    const T old = atomicAdd(&words[v], part);
    return old < threshold && old + part >= threshold ? listing::near : listing::none;
  }
  /// As offer().
  /// @param v number of the vertex here
  /// @param part what is added
  template <class Rank>
  GRAVEL_DEVICE listing offer_ranked(uint32_t v, T part, Rank) const {
    return offer(v, part, 0);
  }
  /// Takes the sum of a vertex, and makes it 0. Returns false if it was 0.
  /// @param v number of the vertex here
  /// @param sum receives the vertex's sum
  GRAVEL_DEVICE bool take(uint32_t v, T* sum) const {
    using bits = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
    *sum = from_word<T>(atomicExch(reinterpret_cast<bits*>(&words[v]), bits{0}));
    return *sum != 0;
  }
};
/// Sums of which a message has 8 bytes.
using float_sums = sums<float>;
/// Sums of which a message has 12 bytes.
using double_sums = sums<double>;

}  // namespace gravel::detail
