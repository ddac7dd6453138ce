// The asynchronous execution: one resident kernel works off a worklist without rounds, from channels by rank
// (lib/worklist/ranked_channels.cuh). Warps take vertices, expand them, and put vertices to be listed back. Handlers
// put in vertices for which other PEs have sent values. The price: a vertex may be expanded with a value that is not
// final yet.
//
// Hubs, vertices with many edges, are cut up. The warp that has taken a hub keeps a piece of its edges and puts the
// other pieces into a channel of their own, which all warps poll first. `pending` counts pieces like entries, before
// the entry of the hub is done. If the channel has no room for the pieces, the warp follows all edges itself.
//
// A vertex that finds no room in any channel is dropped, but stays marked (lib/worklist/vertex_words.cuh). After the
// end, all vertices are checked for marks, and rounds do the rest.
#pragma once
#include "lib/worklist/expand.cuh"
#include "lib/worklist/ranked_channels.cuh"

template <class Program>
struct gravel_worklist_delivery;

namespace gravel::detail {

/// Some edges of a hub, for any warp, and the value that they pass on.
struct edge_piece {
  uint64_t begin, end, from;
};
/// The least number of edges of a piece. It is small on the CPU backend, so that small graphs have many pieces.
constexpr uint64_t edges_of_piece = GRAVEL_CUDA ? 1024 : 128;

/// The asynchronous kernel's memory, in addition to worklist_view. Plain data. A copy lies in device memory, for
/// handlers.
struct asynchronous_view : ranked_channels<uint32_t> {
  char* piece_memory;    ///< memory of the channel of pieces
  uint32_t pieces_room;  ///< 0: the graph has no hubs

  GRAVEL_BOTH channel<edge_piece> pieces() const { return channel<edge_piece>::in(piece_memory, pieces_room); }
};

template <class Program>
GRAVEL_DEVICE uint32_t rank_of_vertex(const worklist_view<Program>& w, uint32_t v) {
  if constexpr (worklist_view<Program>::state::is_ordered)
    return w.program.rank_of(least_keys::key_of(load_relaxed<scope::device>(&w.program.vertices.words[v])));
  else return 0;
}

/// Puts vertex `v` of each lane with `have` into the channel of its rank. Thread scope: the group, converged; also in
/// handlers.
template <class Program, class Group>
GRAVEL_DEVICE void put_ranked(const worklist_view<Program>& w, const asynchronous_view& a, const Group& group,
                              bool have, uint32_t v) {
  a.put(group, have, have ? rank_of_vertex(w, v) : 0, v);
}

/// The lists of the asynchronous kernel: channels. Thread scope of all calls but offer(): warp, converged.
template <class Program>
struct ranked_lists {
  const worklist_view<Program>& w;
  const asynchronous_view& a;

  GRAVEL_DEVICE listing offer(uint32_t v, typename worklist_view<Program>::value x) const {
    const Program& program = w.program;
    return program.vertices.offer_ranked(v, x, [&](uint32_t key) {
      if constexpr (worklist_view<Program>::state::is_ordered) return program.rank_of(key);
      else return 0u;
    });
  }
  GRAVEL_DEVICE void near(bool have, uint32_t v) const { put_ranked(w, a, lane_group::of(~0u), have, v); }
  GRAVEL_DEVICE void far(bool have, uint32_t v) const { near(have, v); }
  GRAVEL_DEVICE void remote(bool have, uint32_t v) const { near(have, v); }
};

/// The context of the handlers.
template <class Program>
struct worklist_inbox {
  worklist_view<Program> w;
  asynchronous_view a;
};

/// Puts the edges of each lane that has a hub into the channel of pieces, except the first piece. Returns the end of
/// the edges that the lane keeps. Thread scope: warp, converged.
template <class Program>
GRAVEL_DEVICE uint64_t pass_on_pieces(const worklist_view<Program>& w, const asynchronous_view& a, uint64_t begin,
                                      uint64_t end, typename worklist_view<Program>::value from) {
  if (a.pieces_room == 0) return end;
  const lane_group warp = lane_group::of(~0u);
  const channel<edge_piece> pieces = a.pieces();
  const uint32_t lane = threadIdx.x % 32;
  for (unsigned rest = __ballot_sync(~0u, end - begin >= hub_edges); rest; rest &= rest - 1) {
    const int of = __ffs(static_cast<int>(rest)) - 1;
    const uint64_t first = __shfl_sync(~0u, begin, of), last = __shfl_sync(~0u, end, of),
                   passed = __shfl_sync(~0u, to_word(from), of);
    // A hub is never cut into more pieces than the channel has room for.
    const uint64_t least = (last - first + a.pieces_room) / (uint64_t{a.pieces_room} + 1),
                   each = least < edges_of_piece ? edges_of_piece : least;
    const auto others = static_cast<uint32_t>((last - first - 1) / each);
    const channel_reservation r = pieces.reserve(warp, lane == 0 ? others : 0);
    if (!r.granted || others == 0) continue;
    if (lane == 0) {
      fetch_add<scope::device>(&a.words->pending, uint64_t{others});  // before other warps can see them
      fetch_add<scope::device>(&w.words->pieces, uint64_t{others});
    }
    __syncwarp();
    for (uint32_t k = lane; k < others; k += 32) {
      const uint64_t at = first + (k + 1) * each;
      pieces.write(r.first + k, {at, last - at < each ? last : at + each, passed});
    }
    pieces.commit(warp, r);
    if (lane == static_cast<uint32_t>(of)) end = first + each;
  }
  return end;
}
/// Follows one piece of a hub. Returns false if there was no piece. Thread scope: warp, converged.
template <class Program>
GRAVEL_DEVICE bool follow_piece(const worklist_view<Program>& w, const asynchronous_view& a) {
  if (a.pieces_room == 0) return false;
  const lane_group warp = lane_group::of(~0u);
  const channel<edge_piece> pieces = a.pieces();
  if (__shfl_sync(~0u, pieces.waiting(), 0) == 0) return false;
  const channel_batch batch = pieces.take(warp, 1);
  if (batch.count == 0) return false;
  const edge_piece piece = pieces.read(batch.first);
  pieces.free(warp, batch);
  const bool mine = threadIdx.x % 32 == 0;
  distribute<true>(w, ranked_lists<Program>{w, a}, mine ? piece.begin : 0, mine ? piece.end : 0,
                   from_word<typename worklist_view<Program>::value>(piece.from));
  __syncwarp();
  if (mine) fetch_add_release<scope::device>(&a.words->pending, ~uint64_t{0});  // [W3]
  return true;
}

/// Expands up to 32 vertices that the warp has taken. Values of ghosts are sent to their owners. Thread scope: warp,
/// converged.
template <class Program>
GRAVEL_DEVICE void expand_taken(const gravel_t& g, const worklist_view<Program>& w, const asynchronous_view& a,
                                bool have, uint32_t v, work_done& done, uint64_t& sent) {
  const ranked_lists<Program> lists{w, a};
  const uint32_t lane = threadIdx.x % 32;
  typename worklist_view<Program>::value from{};
  uint64_t begin = 0, end = 0;
  const bool ghost = have && w.is_ghost(v);
  have = have && w.program.vertices.take(v, &from);
  const uint32_t sends = __ballot_sync(~0u, have && ghost);
  if (sends != 0) {
    if (lane == 0) fetch_add<scope::device>(&a.words->sent, static_cast<uint64_t>(__popc(sends)));  // before they leave
    __syncwarp();
    if (have && ghost) {
      const uint32_t code = w.graph.ghosts[v - w.graph.own];
      gravel_am<gravel_worklist_delivery<Program>>(g, w.graph.codes.owner(code), w.graph.codes.place(code), from);
      ++sent;
    }
    __syncwarp();
  }
  if (have && !ghost) {
    begin = w.graph.offsets[v];
    end = w.graph.offsets[v + 1];
    from = w.program.begin(v, from, end - begin);
    ++done.expanded;
    done.edges += end - begin;
  }
  end = pass_on_pieces(w, a, begin, end, from);
  distribute<true>(w, lists, begin, end, from);
}

/// What a warp of the asynchronous kernel does with vertices (work_off).
template <class Program>
struct vertex_worker {
  const gravel_t& g;
  const worklist_view<Program>& w;
  const asynchronous_view& a;
  work_done done{};
  uint64_t sent = 0;

  GRAVEL_DEVICE bool work_first() { return follow_piece(w, a); }
  GRAVEL_DEVICE void work(bool have, uint32_t v, uint32_t) { expand_taken(g, w, a, have, v, done, sent); }
};

/// The asynchronous kernel. A cooperative launch; blocks have whole warps.
template <class Program>
__global__ void __launch_bounds__(256)
    work_asynchronously(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                        const __grid_constant__ asynchronous_view a) {
  if (blockIdx.x == 0 && threadIdx.x < 32) return keep_watch(g, a);
  vertex_worker<Program> worker{g, w, a};
  work_off(a, worker);
  worker.done.add_to(w.words);
  uint64_t sent = worker.sent;
  for (int step = 16; step; step /= 2) sent += __shfl_xor_sync(~0u, sent, step);
  if (threadIdx.x % 32 == 0 && sent) fetch_add<scope::device>(&w.words->sent, sent);
}

/// Moves waiting vertices from lists into channels, before the asynchronous kernel.
template <class Program>
__global__ void lists_to_ranks(const __grid_constant__ worklist_view<Program> w,
                               const __grid_constant__ asynchronous_view a) {
  const uint32_t near = w.words->near_size[w.words->near_turn], far = w.words->far_size[w.words->far_turn];
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < near + far;
       of_warp += gridDim.x * blockDim.x) {
    const uint32_t i = of_warp + lane;
    const bool have = i < near + far;
    uint32_t v = 0;
    if (have) v = i < near ? w.near[w.words->near_turn][i] : w.far[w.words->far_turn][i - near];
    put_ranked(w, a, lane_group::of(~0u), have, v);
  }
}
/// Moves vertices that found no room in channels into lists: all marked vertices, and ghosts. Runs after the
/// asynchronous kernel.
template <class Program>
__global__ void collect_waiting(const __grid_constant__ worklist_view<Program> w) {
  const device_lists<Program> lists{w, w.words->near_turn, w.words->far_turn, w.words->limit};
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32, all = w.graph.vertices();
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < all;
       of_warp += lanes) {
    const auto v = static_cast<uint32_t>(of_warp + lane);
    const bool waits = of_warp + lane < all && w.program.vertices.waits(w.program.vertices.words[v]);
    bool near = waits;
    if constexpr (worklist_view<Program>::state::is_ordered)
      near = waits && least_keys::key_of(w.program.vertices.words[v]) < w.words->limit;
    lists.near(near && !w.is_ghost(v), v);
    lists.far(waits && !near && !w.is_ghost(v), v);
    lists.remote(waits && w.is_ghost(v), v);
  }
}

}  // namespace gravel::detail
