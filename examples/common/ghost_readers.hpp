// Which PEs have ghosts of this PE's vertices, and where: agreed once, by messages.
#pragma once
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/graph.hpp>
#include <gravel/gravel.cuh>
#include "examples/common/together.hpp"

namespace app {
using gravel::device_array;
using gravel::ghost_list;
using gravel::vertex_code;

/// What the PEs me + 1, me + 2, ... in turn, which share a symmetric array, want of this PE.
struct ghost_readers {
  uint64_t*
      requests;  ///< symmetric: a vertex (high half), and where it is a ghost (low half); those of one PE together
  std::vector<uint64_t>
      end;  ///< of each turn, where in `requests` its PE's end; as many as there are PEs, the last turn is empty

  uint64_t count() const { return end.back(); }
};

/// Puts this PE's requests to the owners. `first`: of each owner, its first ghost here; `there`: where this PE's
/// requests begin there.
static __global__ void put_requests(gravel_t g, uint64_t* requests, vertex_code codes, const uint32_t* ghosts,
                                    const uint64_t* first, const uint64_t* there, uint64_t n_ghosts, uint64_t own) {
  __shared__ gravel_block_sender<lanes_of_block> sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n_ghosts; k += lanes) {
    const int owner = codes.owner(ghosts[k]);
    sender.put(&requests[there[owner] + k - first[owner]], uint64_t{codes.place(ghosts[k])} << 32 | (own + k), owner);
  }
  sender.end();
}

/// Collective. `list`: the ghosts of this PE, which lie behind its `own` vertices.
inline ghost_readers find_readers(const ghost_list& list, vertex_code codes, uint64_t own) {
  const auto n = static_cast<size_t>(gravel_n_pes()), me = static_cast<size_t>(gravel_my_pe());
  // wants[r * n + o]: how many vertices of PE o are ghosts at PE r.
  std::vector<uint64_t> wanted(n), wants(n * n), there(n);
  for (size_t owner = 0; owner < n; ++owner) wanted[owner] = list.first[owner + 1] - list.first[owner];
  gravel_allgather(wants.data(), wanted.data(), n);
  for (size_t owner = 0; owner < n; ++owner)
    for (size_t r = (owner + 1) % n; r != me && r != owner; r = (r + 1) % n) there[owner] += wants[r * n + owner];
  ghost_readers readers;
  uint64_t asked = 0;
  for (size_t turn = 0; turn < n; ++turn)
    readers.end.push_back(asked += turn + 1 < n ? wants[(me + 1 + turn) % n * n + me] : 0);
  readers.requests = gravel_malloc<uint64_t>(std::max<uint64_t>(gravel_max_all(asked), 1) * sizeof(uint64_t));
  const device_array<uint32_t> ghosts(list.codes);
  const device_array<uint64_t> first(list.first), starts(there);
  gravel_launch(put_requests, blocks_for(list.codes.size()), lanes_of_block, gravel_handle(), readers.requests, codes,
                ghosts.data(), first.data(), starts.data(), static_cast<uint64_t>(list.codes.size()), own);
  gravel_barrier_all();
  return readers;
}

}  // namespace app
