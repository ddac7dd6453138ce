// How kernels and messages name a vertex of a graph that is divided among PEs.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// A vertex as kernels name it: owner and place within the owner's part, in one number of 32 bits, so that neither
/// takes a division.
/// @scope any thread, kernels too
/// @completion on return
/// @errors none are checked
/// @source Gravel
struct vertex_code {
  uint32_t shift;

  /// How vertices are named if parts have up to `most`.
  /// @param most vertices of the largest part
  /// @param parts how many there are
  /// @errors gravel::error if 32 bits are too few
  static vertex_code of(uint64_t most, int parts);
  /// The code of a vertex.
  /// @param owner its part
  /// @param place its number there
  GRAVEL_BOTH uint32_t code(int owner, uint64_t place) const {
    return static_cast<uint32_t>(owner) << shift | static_cast<uint32_t>(place);
  }
  /// The part of a vertex.
  /// @param code of the vertex
  GRAVEL_BOTH int owner(uint32_t code) const { return static_cast<int>(code >> shift); }
  /// The number of a vertex in its part.
  /// @param code of the vertex
  GRAVEL_BOTH uint32_t place(uint32_t code) const { return code & ((1u << shift) - 1); }
};

}  // namespace gravel::detail
