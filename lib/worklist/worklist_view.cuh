// A worklist as kernels see it: this PE's part of the graph, a word for each vertex, and lists of vertices that are to
// be expanded. Source: Groute, chapter 4, recast.
//
// The program says what happens at vertices and along edges:
//
//   struct hops {
//     static constexpr const char* name = "hops";
//     using state = gravel::least_keys;  // or gravel::float_sums, gravel::double_sums
//     state vertices;                    // gravel_worklist fills it in
//     // Vertex v is expanded: returns the value that it passes on.
//     GRAVEL_DEVICE uint32_t begin(uint32_t v, uint32_t key, uint64_t degree) const { return key; }
//     // Returns what the neighbour at the end of an edge is offered.
//     GRAVEL_DEVICE uint32_t along(uint32_t from, uint64_t edge) const { return from + 1; }
//     // Ordered states: where near ends, and the ranks of an asynchronous run.
//     GRAVEL_BOTH uint32_t limit_after(uint32_t key) const { return key + 64; }
//     GRAVEL_BOTH uint32_t rank_of(uint32_t key) const { return key / 64; }
//   };
//
// Lists. `near`: two lists in turn, of the vertices that are expanded now and next. `far`: two lists in turn, of
// vertices beyond the limit. `remote`: ghosts whose values are to be sent to their owners. `hubs`: pieces of the edges
// of vertices that have many. Near, far and remote have room for all vertices, since a vertex waits in each at most
// once (lib/worklist/vertex_words.cuh).
#pragma once
#include "device/lane_group.cuh"
#include "lib/graph/vertex_code.hpp"
#include "lib/worklist/vertex_words.cuh"

namespace gravel::detail {

/// This PE's rows of the graph, in device memory. Own vertices have the numbers 0 to own - 1, ghosts follow.
/// @scope any
/// @completion on return
/// @errors none
/// @source Groute, chapter 4
struct worklist_graph {
  const uint64_t* offsets;  ///< [own + 1]
  const uint32_t* targets;  ///< [edges] own vertices and ghosts
  const uint32_t* ghosts;   ///< [n_ghosts] code of each: owner, and number at the owner
  vertex_code codes;
  uint64_t own, n_ghosts;

  /// Returns the number of own vertices and ghosts together.
  GRAVEL_BOTH uint64_t vertices() const { return own + n_ghosts; }
};

/// The parent of a vertex that a breadth-first search has not found.
constexpr uint32_t no_parent = ~0u;

/// Sizes that the hosts of all PEs compare between rounds.
struct worklist_sizes {
  uint32_t near_size[2], far_size[2], remote_size, hub_size;
  uint32_t near_turn, far_turn;  ///< which of the two lists is current
  uint32_t limit;                ///< keys below it are near
  uint32_t least;                ///< least key of the far list, when it was last searched
};
/// Words that kernels and the host share. The host accesses them only between kernels.
struct worklist_words : worklist_sizes {
  uint32_t epoch;  ///< number of rendezvous of blocks so far
  uint32_t rounds;
  uint32_t exchanges;              ///< exchanges in the kernel of all PEs' rounds
  uint32_t asynchronous;           ///< not 0: the asynchronous kernel runs; handlers list into its channels
  uint64_t expanded, edges, sent;  ///< vertices that were expanded, edges followed, values sent to other PEs
  uint64_t pieces;                 ///< pieces of hubs that went to blocks or other warps
  uint64_t near_edges;             ///< edges of the near vertices, when they were last counted
};

/// The report of a block to the others. Only that block writes it. Each block has two, used in turn: a block that has
/// read all reports of one rendezvous may write those of the rendezvous after next.
struct alignas(16) block_report {
  uint64_t size;   ///< upper half: epoch; lower half: size of the block's list, and flags [W1]
  uint64_t least;  ///< the least far key that the block saw
};
constexpr uint32_t most_rendezvous_blocks = 32;

struct alignas(16) hub_piece {
  uint32_t vertex, number;
  uint64_t from;  ///< the value that the edges pass on
};
/// A vertex with at least hub_edges edges is a hub: its edges are cut into pieces, and a block expands each piece.
constexpr uint64_t hub_edges = 1024, piece_edges = 8192;

template <class Program>
struct worklist_view {
  using program_type = Program;
  using state = typename Program::state;
  using value = typename state::value;

  Program program;
  worklist_graph graph;
  uint32_t *near[2], *far[2], *remote;
  hub_piece* hubs;
  worklist_words* words;
  block_report (*reports)[most_rendezvous_blocks];  ///< [2]

  GRAVEL_DEVICE bool is_ghost(uint32_t v) const { return v >= graph.own; }
};

/// Empties the remote list after it has been sent. Values of other PEs may change the least key. One thread.
GRAVEL_DEVICE void forget_ghosts(worklist_words& words) {
  words.remote_size = 0;
  words.least = ~0u;
}

/// Appends `item` of each lane with `have`. Thread scope: warp, converged.
template <class T>
GRAVEL_DEVICE void append(T* list, uint32_t* size, bool have, const T& item) {
  const unsigned having = __ballot_sync(~0u, have), lane = threadIdx.x % 32;
  if (having == 0) return;
  uint32_t at = 0;
  if (lane == 0) at = atomicAdd(size, static_cast<uint32_t>(__popc(having)));
  at = __shfl_sync(~0u, at, 0) + static_cast<uint32_t>(__popc(having & ((1u << lane) - 1)));
  if (have) list[at] = item;
}

/// Appends `item` of each lane with `have`, if its place is below `room`. Returns whether all found room; `size` counts
/// also those that found none. Thread scope: the group, converged; also in handlers.
template <class Group, class T>
GRAVEL_DEVICE bool append_by(const Group& group, T* list, uint32_t* size, bool have, const T& item, uint32_t room) {
  const uint32_t having = group.ballot(have);
  if (having == 0) return true;
  uint32_t at = 0;
  if (group.is_leader()) at = fetch_add<scope::device>(size, lane_group::popcount(having));
  at = group.from_leader(at) + group.rank_in(having);
  const bool fits = at < room;
  if (have && fits) list[at] = item;
  return group.ballot(have && !fits) == 0;
}

/// The lists in device memory, for kernels of a whole grid. Thread scope of all calls: warp, converged.
template <class Program>
struct device_lists {
  const worklist_view<Program>& w;
  uint32_t near_turn, far_turn;  ///< the lists that are filled
  uint32_t limit;                ///< keys below it are near

  /// All keys of ghosts are near. Thread scope: lane.
  GRAVEL_DEVICE listing offer(uint32_t v, typename worklist_view<Program>::value x) const {
    return w.program.vertices.offer(v, x, w.is_ghost(v) ? ~0u : limit);
  }
  GRAVEL_DEVICE void near(bool have, uint32_t v) const {
    append(w.near[near_turn], &w.words->near_size[near_turn], have, v);
  }
  GRAVEL_DEVICE void far(bool have, uint32_t v) const {
    append(w.far[far_turn], &w.words->far_size[far_turn], have, v);
  }
  GRAVEL_DEVICE void remote(bool have, uint32_t v) const { append(w.remote, &w.words->remote_size, have, v); }
};

}  // namespace gravel::detail
