// A worklist as kernels see it: this PE's part of the graph, a word for each vertex, and lists of those that are to be expanded (paper 001, chapter 4,
// recast).
//
// The program says what is worked on:
//
//   struct hops {
//     static constexpr const char* name = "hops";
//     using state = gravel::least_keys;                                     // or gravel::float_sums, gravel::double_sums
//     state vertices;                                                       // filled in by gravel_worklist
//     GRAVEL_DEVICE uint32_t begin(uint32_t v, uint32_t key, uint64_t degree) const { return key; }   // v is expanded
//     GRAVEL_DEVICE uint32_t along(uint32_t from, uint64_t edge) const { return from + 1; }           // what its neighbour is offered
//     GRAVEL_BOTH uint32_t limit_after(uint32_t key) const { return key + 64; }                       // ordered states: where near ends,
//     GRAVEL_BOTH uint32_t rank_of(uint32_t key) const { return key / 64; }                           // and ranks of an asynchronous run
//   };
//
// Lists: `near`, of two that take turns, what is expanded now and next; `far`, likewise, what lies behind the limit; `remote`, ghosts whose best is
// to be sent to their owners; `hubs`, pieces of the edges of vertices that have many. Near, far and remote have room for all vertices, since
// a vertex waits in each once at most (lib/worklist/vertex_words.cuh).
#pragma once
#include "device/lane_group.cuh"
#include "lib/graph/vertex_code.hpp"
#include "lib/worklist/vertex_words.cuh"

namespace gravel::detail {

/// This PE's rows, in device memory. Vertices are numbered from 0 to own, ghosts from own on.
/// @scope any
/// @completion on return
/// @errors none
/// @source Groute, chapter 4
struct worklist_graph {
  const uint64_t* offsets;  ///< [own + 1]
  const uint32_t* targets;  ///< [edges] own vertices and ghosts
  const uint32_t* ghosts;   ///< [n_ghosts] who they are: owner and place there
  vertex_code codes;
  uint64_t own, n_ghosts;

  /// Own vertices and ghosts together.
  GRAVEL_BOTH uint64_t vertices() const { return own + n_ghosts; }
};

/// What the hosts of all PEs look at between rounds.
struct worklist_sizes {
  uint32_t near_size[2], far_size[2], remote_size, hub_size;
  uint32_t near_turn, far_turn;  ///< which of the two is current
  uint32_t limit;                ///< keys below it are near
  uint32_t least;                ///< of the far list, when it was looked for
};
/// Words that kernels and the host share. The host reads and writes them only between kernels.
struct worklist_words : worklist_sizes {
  uint32_t epoch;  ///< meetings of blocks so far
  uint32_t rounds;
  uint32_t exchanges;              ///< in the kernel of all PEs' rounds
  uint32_t asynchronous;           ///< the asynchronous kernel runs: what comes from other PEs goes into its channels
  uint64_t expanded, edges, sent;  ///< vertices that were expanded, edges followed, values sent to other PEs
  uint64_t pieces;                 ///< of hubs, that were dealt out
  uint64_t near_edges;             ///< of the vertices that are near, when they were counted
};

/// What a block tells the others. One writer: that block. Two, used in turn: who has read all of one meeting may write
/// the second next.
struct alignas(16) block_report {
  uint64_t size;   ///< its epoch in the upper half; below the size of its list, and flags [W1]
  uint64_t least;  ///< of the far keys that it saw
};
constexpr uint32_t most_rendezvous_blocks = 32;

struct alignas(16) hub_piece {
  uint32_t vertex, number;
  uint64_t from;  ///< the value that its edges pass on
};
/// Vertices with as many edges or more are cut up, and each piece is expanded by a block.
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

/// Behind what has sent the remote list. Others' values may change what is the least. One thread.
GRAVEL_DEVICE void forget_ghosts(worklist_words& words) {
  words.remote_size = 0;
  words.least = ~0u;
}

/// Appends `item` of the lanes that have one. Thread scope: warp, converged.
template <class T>
GRAVEL_DEVICE void append(T* list, uint32_t* size, bool have, const T& item) {
  const unsigned having = __ballot_sync(~0u, have), lane = threadIdx.x % 32;
  if (having == 0) return;
  uint32_t at = 0;
  if (lane == 0) at = atomicAdd(size, static_cast<uint32_t>(__popc(having)));
  at = __shfl_sync(~0u, at, 0) + static_cast<uint32_t>(__popc(having & ((1u << lane) - 1)));
  if (have) list[at] = item;
}

/// Where a kernel of a whole grid puts what is to be listed: into the lists in device memory. Thread scope of all:
/// warp, converged.
template <class Program>
struct device_lists {
  const worklist_view<Program>& w;
  uint32_t near_turn, far_turn;  ///< which are filled
  uint32_t limit;                ///< keys below it are near

  /// Of ghosts all keys are near. Thread scope: lane.
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
