// Ghosts: places for the values of other PEs' vertices, after a PE's own vertices; one for each such vertex that the
// PE's rows name.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/partition.hpp"

namespace gravel::detail {

struct ghost_list {
  std::vector<uint32_t> codes;  ///< codes of the vertices, by owner and place
  std::vector<uint64_t> first;  ///< the ghosts of owner p are codes[first[p]] to codes[first[p + 1]] (exclusive)
  uint64_t uses = 0;            ///< number of edges that lead to other parts
};

/// Finds the ghosts of part `me` in `named`, the codes that its rows name, and replaces each code by the vertex's
/// place: own vertices keep their places, ghost k has place `own` + k.
/// @param named codes that the rows name; becomes places
/// @param codes how codes name vertices
/// @param me this part
/// @param parts number of parts
/// @param own number of vertices of this part
/// @return the ghosts, by owner
/// @scope any host thread
/// @completion on return
/// @errors gravel::error if 32 bits cannot name them
/// @source Gravel
ghost_list find_ghosts(std::vector<uint32_t>& named, vertex_code codes, int me, int parts, uint64_t own);

}  // namespace gravel::detail
