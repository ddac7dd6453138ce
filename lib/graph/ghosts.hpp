// Places for what a PE reads of other PEs' vertices: behind its own vertices, one for each that its rows name.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/partition.hpp"

namespace gravel::detail {

struct ghost_list {
  std::vector<uint32_t> codes;  ///< of the vertices, by owner and place
  std::vector<uint64_t> first;  ///< those of owner p are codes[first[p]] to codes[first[p + 1]] (exclusive)
  uint64_t uses = 0;            ///< how often the rows name one: edges that lead to other parts
};

/// Finds the ghosts of part `me` in `named`, the codes that its rows name, and replaces each code by where the vertex
/// is: the part's own ones at their places, ghost k at `own` + k. Throws gravel::error if 32 bits cannot name them.
/// @param named codes that the rows name; becomes places
/// @param codes how vertices are named
/// @param me this part
/// @param parts how many there are
/// @param own vertices of this part
/// @return the ghosts, by owner
/// @scope any host thread
/// @completion on return
/// @errors gravel::error if 32 bits cannot name them
/// @source Gravel
ghost_list find_ghosts(std::vector<uint32_t>& named, vertex_code codes, int me, int parts, uint64_t own);

}  // namespace gravel::detail
