// The asynchronous execution: one resident kernel works off a worklist without rounds.
//
// Problem. In rounds, every PE waits for the slowest one. Without rounds, work must be ordered roughly by priority, and
// all PEs must find out when nothing is left.
// Solution. The kernel's warps take vertices from channels (lib/channel) ordered by rank, expand them, and put vertices
// to be listed back. Handlers put in vertices for which other PEs have sent values. The price: a vertex may be expanded
// with a value that is not final yet.
//
// Ranks are hints. Channel r % n holds vertices of rank r; the lowest rank that may have vertices is `base`. A warp
// that finds lower channels empty moves `base` on. A vertex whose rank is below `base`, or beyond the last channel,
// goes into the first or the last channel. So nothing is lost if `base` is wrong. PEs report their lowest ranks to each
// other, and do not take vertices whose rank is too far beyond the lowest rank of all PEs.
//
// The end is found by four counters (Mattern 1987). `pending` counts entries of this PE, from before other warps can
// see them until their expansion is done. `sent` counts messages before they leave. `received` counts messages when
// their vertices have been listed. One warp of each PE, the watch, repeats waves, which have the same numbers at all
// PEs:
//
//   this PE                                                                             every other PE
//   reads received [W2] acquire, then sees pending == 0 [W3] acquire, then reads sent
//   puts its words, with the number of the wave, to each PE                             sees all words of that wave
//
// The watch ends when the number of messages received in the previous wave equals the number sent in this wave. Proof:
// R(k-1) <= received when wave k-1 ended <= sent when wave k-1 ended <= S(k). If R(k-1) equals S(k), no message was in
// flight when wave k-1 ended. A PE that was idle in wave k-1 and has entries now would have received a message since,
// so S(k) would be larger. All PEs see the same words, and so decide alike in each wave.
//
// A PE may be one wave ahead of a PE that has not read its words yet, but not two. So there are two sets of words, used
// in turn, and each word carries the number of its wave.
//
// Hubs, vertices with many edges, are cut up. The warp that has taken a hub keeps a piece of its edges and puts the
// other pieces into a channel of their own, which all warps poll first. `pending` counts pieces like entries, before
// the entry of the hub is done. If the channel has no room for the pieces, the warp follows all edges itself.
//
// A vertex that finds no room in any channel is dropped, but stays marked (lib/worklist/vertex_words.cuh). After the
// end, all vertices are checked for marks, and rounds do the rest. Model of the end: test/models/worklist_end.pml.
#pragma once
#include <gravel/gravel.cuh>
#include "device/watched_wait.cuh"
#include "lib/channel/channel.cuh"
#include "lib/worklist/expand.cuh"

template <class Program>
struct gravel_worklist_delivery;

namespace gravel::detail {

/// A count that carries the number of its wave. The count has 56 bits.
struct wave_word {
  GRAVEL_BOTH static uint64_t of(uint64_t wave, uint64_t count) { return count << 8 | (wave & 0xff); }
  GRAVEL_BOTH static bool is_of(uint64_t word, uint64_t wave) { return (word & 0xff) == (wave & 0xff); }
  GRAVEL_BOTH static uint64_t count(uint64_t word) { return word >> 8; }
};
/// The lowest rank of which a PE may have vertices; no_rank: the PE is idle. Puts may overtake each other, also puts to
/// one word. So reports are numbered, the later one is the larger number, and gravel_max carries it.
constexpr uint32_t no_rank = ~0u;
struct lowest_word {
  GRAVEL_BOTH static uint64_t of(uint32_t number, uint32_t rank) { return uint64_t{number} << 32 | rank; }
  GRAVEL_BOTH static uint32_t rank(uint64_t word) { return static_cast<uint32_t>(word); }
};
/// The report of one PE, which the PE writes at each other PE. Symmetric.
struct wave_report {
  uint64_t received[2],
      sent[2];      ///< [even and odd waves] a word of wave k + 2 is sent when all PEs have seen that of wave k
  uint64_t lowest;  ///< 0 when a run begins
};

struct asynchronous_words {
  alignas(128) uint64_t pending;   ///< entries that are not done
  alignas(128) uint64_t sent;      ///< messages that have left, or are about to leave
  alignas(128) uint64_t received;  ///< messages whose vertices have been listed
  alignas(128) uint32_t base;
  uint32_t allowed;  ///< vertices of higher ranks are not taken yet
  uint32_t ended;
  uint32_t overflows;  ///< not 0: a vertex found no room
  uint64_t wave;       ///< number of the last wave; continues from run to run
};

constexpr uint32_t most_ranks = 32;

/// Some edges of a hub, for any warp, and the value that they pass on.
struct edge_piece {
  uint64_t begin, end, from;
};
/// The least number of edges of a piece. It is small on the CPU backend, so that small graphs have many pieces.
constexpr uint64_t edges_of_piece = GRAVEL_CUDA ? 1024 : 128;

/// The asynchronous kernel's memory, in addition to worklist_view. Plain data. A copy lies in device memory, for
/// handlers.
struct asynchronous_view {
  asynchronous_words* words;
  char* memory;  ///< memory of the channels
  uint64_t stride;
  uint32_t n_ranks, capacity;
  uint32_t slack;        ///< a PE takes so many ranks beyond the lowest of all PEs
  wave_report* reports;  ///< [PEs] symmetric; includes this PE's own report
  char* piece_memory;    ///< memory of the channel of pieces
  uint32_t pieces_room;  ///< 0: the graph has no hubs

  GRAVEL_BOTH channel<edge_piece> pieces() const { return channel<edge_piece>::in(piece_memory, pieces_room); }
  GRAVEL_BOTH channel<uint32_t> of(uint32_t rank) const {
    return channel<uint32_t>::in(memory + rank % n_ranks * stride, capacity);
  }
  /// Returns the rank of the channel for a vertex of this rank.
  GRAVEL_DEVICE uint32_t place_for(uint32_t rank) const {
    const uint32_t base = load_relaxed<scope::device>(&words->base);
    return rank < base ? base : rank - base >= n_ranks ? base + n_ranks - 1 : rank;
  }
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
  uint32_t rest = group.ballot(have);
  if (rest == 0) return;
  const uint32_t rank = have ? a.place_for(rank_of_vertex(w, v)) : 0;
  while (rest != 0) {
    const uint32_t now = group.from_lane(rank, lane_group::lowest(rest));
    const bool mine = have && rank == now;
    // A vertex that finds no room goes into the next channel. Any channel is correct, and all together have room for
    // several times the vertices.
    uint32_t further = 0;
    channel<uint32_t> to = a.of(now);
    channel_reservation r = to.reserve(group, mine ? 1 : 0);
    while (!r.granted && ++further < a.n_ranks) {
      to = a.of(now + further);
      r = to.reserve(group, mine ? 1 : 0);
    }
    if (group.is_leader()) {
      if (r.granted) fetch_add<scope::device>(&a.words->pending, uint64_t{r.total});  // before other warps can see them
      else store_relaxed<scope::device>(&a.words->overflows, 1u);
    }
    group.sync();
    if (r.granted && mine) to.write(r.mine, v);
    to.commit(group, r);
    rest &= ~group.ballot(mine);
  }
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

/// The watch: reports this PE's lowest rank to all PEs, and finds the end. Thread scope: the first warp of the first
/// block.
template <class Program>
GRAVEL_DEVICE void keep_watch(const gravel_t& g, const asynchronous_view& a) {
  asynchronous_words& words = *a.words;
  const uint32_t lane = threadIdx.x;
  uint64_t wave = words.wave + 1, received_before = ~uint64_t{0};
  uint32_t last_lowest = no_rank - 1, lowest_reports = 0;
  bool reported = false;
  uint32_t late = g.n_pes;  // a PE whose words of this wave have not come; n_pes: this lane misses none
  const auto late_pe = [&] { return wait_subject{.what = awaited::worklist, .pe = late}; };
  for (watched_wait wait;; wait.attentively(g, reported && late < g.n_pes, late_pe)) {
    const uint64_t received = load_acquire<scope::device>(&words.received);        // [W2]
    const bool idle = load_acquire<scope::device>(&words.pending) == uint64_t{0};  // [W3]
    if (g.n_pes == 1) {
      if (__ballot_sync(~0u, idle) == ~0u) break;
      continue;
    }
    const uint32_t lowest = __shfl_sync(~0u, idle ? no_rank : load_relaxed<scope::device>(&words.base), 0);
    if (lowest != last_lowest) {
      last_lowest = lowest;
      const uint64_t word = lowest_word::of(++lowest_reports, lowest);
      for (uint32_t pe = lane; pe < g.n_pes; pe += 32)
        gravel_max(g, &a.reports[g.my_pe].lowest, word, static_cast<int>(pe));
    }
    if (!reported && __shfl_sync(~0u, idle, 0)) {
      const uint64_t r = __shfl_sync(~0u, received, 0),
                     s = __shfl_sync(~0u, load_relaxed<scope::device>(&words.sent), 0);
      for (uint32_t pe = lane; pe < g.n_pes; pe += 32) {
        gravel_put(g, &a.reports[g.my_pe].received[wave % 2], wave_word::of(wave, r), static_cast<int>(pe));
        gravel_put(g, &a.reports[g.my_pe].sent[wave % 2], wave_word::of(wave, s), static_cast<int>(pe));
      }
      if (lane == 0) gravel_flush(g);
      reported = true;
    }
    late = g.n_pes;
    uint64_t r = 0, s = 0;
    uint32_t least = no_rank;
    for (uint32_t pe = lane; pe < g.n_pes; pe += 32) {
      const uint64_t theirs = poll_word(g, &a.reports[pe].received[wave % 2]),
                     out = poll_word(g, &a.reports[pe].sent[wave % 2]);
      if (!wave_word::is_of(theirs, wave) || !wave_word::is_of(out, wave)) late = pe;
      r += wave_word::count(theirs);
      s += wave_word::count(out);
      const uint32_t rank = lowest_word::rank(poll_word(g, &a.reports[pe].lowest));
      least = rank < least ? rank : least;
    }
    least = __reduce_min_sync(~0u, least);
    if (lane == 0) store_relaxed<scope::device>(&words.allowed, least > no_rank - a.slack ? no_rank : least + a.slack);
    if (!reported || __ballot_sync(~0u, late < g.n_pes) != 0) continue;
    for (int step = 16; step; step /= 2) {
      r += __shfl_xor_sync(~0u, r, step);
      s += __shfl_xor_sync(~0u, s, step);
    }
    if (s == received_before) break;
    received_before = r;
    ++wave;
    reported = false;
    wait.reset();
  }
  __syncwarp();
  if (lane == 0) {
    words.wave = wave;
    store_release<scope::device>(&words.ended, 1u);  // [W4]
  }
}

/// The asynchronous kernel. A cooperative launch; blocks have whole warps.
template <class Program>
__global__ void __launch_bounds__(256)
    work_asynchronously(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                        const __grid_constant__ asynchronous_view a) {
  const lane_group warp = lane_group::of(~0u);
  const uint32_t lane = threadIdx.x % 32;
  if (blockIdx.x == 0 && threadIdx.x < 32) return keep_watch<Program>(g, a);
  work_done done;
  uint64_t sent = 0;
  relax wait;
  while (true) {
    const uint32_t over = __shfl_sync(~0u, load_acquire<scope::device>(&a.words->ended), 0);  // [W4]
    if (over != 0) break;
    if (follow_piece(w, a)) {
      wait.reset();
      continue;
    }
    const uint32_t base = __shfl_sync(~0u, load_relaxed<scope::device>(&a.words->base), 0),
                   allowed = __shfl_sync(~0u, load_relaxed<scope::device>(&a.words->allowed), 0);
    // Each lane polls one channel; the warp takes from the lowest that is not empty.
    const uint32_t some = __ballot_sync(~0u, lane < a.n_ranks && a.of(base + lane).waiting() != 0);
    const uint32_t rank = some ? base + lane_group::lowest(some) : base;
    // Also if the warp may not take this rank: the rank that is reported to other PEs must follow the lowest that this
    // PE has.
    if (rank != base && lane == 0) atomicMax(&a.words->base, rank);
    if (some == 0 || rank > allowed) {
      wait();
      continue;
    }
    const channel<uint32_t> from = a.of(rank);
    const channel_batch batch = from.take(warp, 32);
    if (batch.count == 0) {
      wait();
      continue;
    }
    wait.reset();
    const bool have = lane < batch.count;
    const uint32_t v = have ? from.read(batch.first + lane) : 0;
    from.free(warp, batch);
    expand_taken(g, w, a, have, v, done, sent);
    __syncwarp();
    if (lane == 0) fetch_add_release<scope::device>(&a.words->pending, ~uint64_t{batch.count} + 1);  // [W3]
  }
  done.add_to(w.words);
  for (int step = 16; step; step /= 2) sent += __shfl_xor_sync(~0u, sent, step);
  if (lane == 0 && sent) fetch_add<scope::device>(&w.words->sent, sent);
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
