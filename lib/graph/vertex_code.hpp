// Vertex codes: how kernels and messages name a vertex of a graph that is divided among PEs.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// A vertex as kernels name it: owner and place within the owner's part, in one number of 32 bits. Neither needs a
/// division.
/// @scope any thread, kernels too
/// @completion on return
/// @errors none are checked
/// @source Gravel
struct vertex_code {
  uint32_t shift;

  /// Returns the code format for parts of up to `most` vertices.
  /// @param most number of vertices of the largest part
  /// @param parts number of parts
  /// @errors gravel::error if 32 bits are too few
  static vertex_code of(uint64_t most, int parts);
  /// Returns the code of a vertex.
  /// @param owner its part
  /// @param place its number there
  GRAVEL_BOTH uint32_t code(int owner, uint64_t place) const {
    return static_cast<uint32_t>(owner) << shift | static_cast<uint32_t>(place);
  }
  /// Returns the part of a vertex.
  /// @param code of the vertex
  GRAVEL_BOTH int owner(uint32_t code) const { return static_cast<int>(code >> shift); }
  /// Returns the number of a vertex in its part.
  /// @param code of the vertex
  GRAVEL_BOTH uint32_t place(uint32_t code) const { return code & ((1u << shift) - 1); }
};

}  // namespace gravel::detail
