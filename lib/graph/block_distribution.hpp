// Division of vertices into blocks: part p (a PE) owns the p-th block of `block` consecutive vertices. All blocks have
// the same size; the last ones may be shorter or empty. So owner() is one division in a kernel, and a symmetric array
// of `block` elements per PE holds the share of every part.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The division of vertices into blocks of one size.
/// @scope any thread, kernels too
/// @completion on return
/// @errors none are checked
/// @source Gravel
struct block_distribution {
  uint64_t vertices;
  int parts;
  uint64_t block;  ///< vertices per part, rounded up; at least 1

  /// Divides vertices.
  /// @param n number of vertices
  /// @param k number of parts, at least 1
  GRAVEL_BOTH block_distribution(uint64_t n, int k)
      : vertices(n), parts(k), block(n == 0 ? 1 : (n - 1) / static_cast<uint64_t>(k) + 1) {}

  /// Returns the part that owns a vertex.
  /// @param vertex below `vertices`
  GRAVEL_BOTH int owner(uint64_t vertex) const { return static_cast<int>(vertex / block); }
  /// Returns the index of the vertex within its owner's share: less than count(owner(vertex)).
  /// @param vertex below `vertices`
  GRAVEL_BOTH uint64_t local_index(uint64_t vertex) const { return vertex % block; }
  /// Returns the first vertex of a part; `vertices` if the part is empty.
  /// @param part 0 to parts
  GRAVEL_BOTH uint64_t first(int part) const {
    const uint64_t vertex = block * static_cast<uint64_t>(part);
    return vertex < vertices ? vertex : vertices;
  }
  /// Returns the number of vertices of a part.
  /// @param part 0 to parts - 1
  GRAVEL_BOTH uint64_t count(int part) const { return first(part + 1) - first(part); }
};

}  // namespace gravel::detail
