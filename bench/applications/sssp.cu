// Shortest paths from one vertex to all, by delta-stepping. Distances are kept where a vertex is owned, and improved by
// messages that keep the smaller value. A PE remembers beside its own distances the best one that it has sent to each
// vertex of other PEs (a ghost), and sends only what is better: of many edges to a vertex few become messages.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/mapped_rendezvous.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/model.hpp"
#include "bench/rivals/no_sender.hpp"
#include "bench/rivals/serial_paths.hpp"
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/lane_share.hpp"
#include "examples/common/program.hpp"
#include "examples/common/ranking.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::copy_behind_kernels;
using gravel::csr;
using gravel::device_array;
using gravel::fetch_add;
using gravel::launch_alone;
using gravel::load_relaxed;
using gravel::make_csr;
using gravel::mapped_sender;
using gravel::rendezvous_memory;
using gravel::scope;
using gravel::vertex_code;

constexpr const char* program_name = "sssp";
/// A vertex with more edges than 2^5 is expanded in pieces, by several warps; or with fewer, if the networking model
/// cannot send so many.
constexpr uint32_t piece_log2 = 5;
/// Pieces with as many edges are expanded by all lanes of a warp together.
constexpr uint64_t warp_edges = 32;
constexpr unsigned collect_lanes = GRAVEL_CUDA ? 256 : 32, collect_each = 4;
/// Steps (a collection, and an expansion of what it found) that are started before a host sees whether there are more
/// to come.
constexpr unsigned steps_at_once = 8;

struct sssp_options {
  graph_input graph;
  model_options network;
  std::optional<uint64_t> source;  ///< its id in the file
  double delta = 0;
  unsigned repeat = 1;
  bool no_verify = false;
  std::string json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// Distances are floats from 0 on, which are ordered as their bits are.
constexpr uint32_t unreached = ~uint32_t{0};
GRAVEL_BOTH uint32_t bits_of(float distance) { return static_cast<uint32_t>(to_word(distance)); }
GRAVEL_BOTH float distance_of(uint32_t bits) { return from_word<float>(bits); }

struct alignas(8) arc {
  uint32_t to;  ///< index into `best`
  float weight;
};
struct alignas(8) piece {
  uint32_t vertex, number;
};
/// What a collection finds: two words.
struct alignas(16) found {
  uint32_t any;     ///< vertices to be expanded? (not 0)
  uint32_t pieces;  ///< of their edges, in the queue
  uint32_t beyond;  ///< the least distance at or above the limit that is still to be expanded
};
constexpr uint32_t words_of_found = sizeof(found) / sizeof(uint64_t);
/// Edges shorter than delta are light: they may lead to vertices nearer than the limit.
enum class edges_of : int { light, heavy, none };
/// The limit behind which a vertex waits.
GRAVEL_BOTH uint32_t limit_after(uint32_t least, float delta) {
  const uint32_t limit = bits_of(distance_of(least) + delta);
  return limit > least ? limit : least + 1;
}

/// Where the search stands: the same at all PEs, as each goes on by what all have found.
struct search {
  edges_of collects, expands;  ///< now; and of what was collected then
  uint32_t from, limit;        ///< distances whose vertices are expanded
  uint32_t open;               ///< those have heavy edges to be expanded (not 0)
  uint32_t ended, rounds;

  /// Behind a collection that found words[0 .. words_of_found), and `stride` words further what the next PE found.
  GRAVEL_BOTH void advance(const uint64_t* words, uint32_t stride, uint32_t n_pes, float delta) {
    bool any = false;
    uint32_t beyond = unreached;
    for (uint32_t pe = 0; pe < n_pes; ++pe) {
      found one;
      std::memcpy(&one, words + pe * stride, sizeof(one));
      any |= one.any != 0;
      if (one.beyond < beyond) beyond = one.beyond;
    }
    expands = edges_of::none;
    if (collects == edges_of::heavy) {
      expands = edges_of::heavy;
      collects = edges_of::light;
      open = 0;
      ++rounds;
    } else if (any) {
      expands = edges_of::light;
      open = 1;
      ++rounds;
    } else if (open) {
      collects = edges_of::heavy;
    } else if (beyond != unreached) {
      from = beyond;
      limit = limit_after(from, delta);
    } else {
      ended = 1;
    }
  }
};

GRAVEL_BOTH uint64_t pieces_of(uint64_t edges, uint32_t piece_log2) {
  return (edges + (uint64_t{1} << piece_log2) - 1) >> piece_log2;
}

/// This PE's part, in device memory.
struct path_job {
  const uint64_t* offsets;
  const arc* arcs;         ///< of each row the light ones first
  const uint32_t* light;   ///< of each row, how many are light
  const uint32_t* ghosts;  ///< codes of other PEs' vertices that edges lead to
  vertex_code codes;
  uint64_t own, n_ghosts;
  uint32_t piece_log2;
  uint32_t* best;      ///< symmetric: distances of own vertices; then, of ghosts, the best one sent from here
  uint32_t* expanded;  ///< the distance with which a vertex was expanded last
  piece* queue;
  found* results;  ///< two, used in turn
  search* where;
};

/// Edges with their weights beside them, and the sum of all weights.
__global__ void join_arcs(const uint32_t* targets, const float* weights, uint64_t edges, arc* arcs, double* sum) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  double mine = 0;
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < edges; e += lanes) {
    arcs[e] = {targets[e], weights[e]};
    mine += weights[e];
  }
  for (int step = 16; step; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

__global__ void fill_unreached(uint32_t* distances, uint64_t count) {
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; ++i) distances[i] = unreached;
}

__global__ void start_paths(path_job job, uint64_t all, uint64_t source_place) {
  const lane_share mine(all);
  for (uint64_t i = mine.first; i < mine.last; ++i) {
    job.best[i] = i == source_place ? 0 : unreached;
    if (i < job.own) job.expanded[i] = unreached;
  }
  if (blockIdx.x == 0 && threadIdx.x < 2) job.results[threadIdx.x] = {0, 0, unreached};
  if (blockIdx.x == 0 && threadIdx.x == 0) *job.where = {};
}

/// How many edges of each row are lighter than delta. Rows are sorted by weight.
__global__ void count_light(const uint64_t* offsets, const arc* arcs, uint64_t rows, float delta, uint32_t* light) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < rows; v += lanes) {
    uint64_t low = offsets[v], high = offsets[v + 1];
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (arcs[middle].weight < delta) low = middle + 1;
      else high = middle;
    }
    light[v] = static_cast<uint32_t>(low - offsets[v]);
  }
}

struct edge_range {
  uint64_t begin, end;
  GRAVEL_DEVICE edge_range(const path_job& job, uint64_t vertex, edges_of which)
      : begin(job.offsets[vertex]), end(begin + job.light[vertex]) {
    if (which == edges_of::heavy) {
      begin = end;
      end = job.offsets[vertex + 1];
    }
  }
};

/// Where this lane's `mine` entries of the queue begin; the lanes of a block get theirs together. Thread scope: block,
/// converged.
GRAVEL_DEVICE uint32_t take_places(uint32_t mine, uint32_t* taken) {
  __shared__ uint32_t of_warp[collect_lanes / 32];
  uint32_t to_here = mine;
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, to_here, step);
    if (threadIdx.x % 32 >= step) to_here += below;
  }
  if (threadIdx.x % 32 == 31) of_warp[threadIdx.x / 32] = to_here;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) all += of_warp[w];
    uint32_t at = all ? atomicAdd(taken, all) : 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) {
      at += of_warp[w];
      of_warp[w] = at - of_warp[w];
    }
  }
  __syncthreads();
  const uint32_t at = of_warp[threadIdx.x / 32] + to_here - mine;
  __syncthreads();
  return at;
}

/// Queues light edges: of the vertices whose distance is better than when they were expanded last, and below the limit.
/// Or heavy ones: of all from `from` to the limit. No distance changes meanwhile.
__global__ void __launch_bounds__(collect_lanes) collect(path_job job, int turn) {
  if (job.where->ended) return;
  const edges_of which = job.where->collects;
  const uint32_t from = job.where->from, limit = job.where->limit;
  found& result = job.results[turn];
  if (blockIdx.x == 0 && threadIdx.x == 0) job.results[1 - turn] = {0, 0, unreached};
  const uint64_t step = uint64_t{blockDim.x} * collect_each;
  uint32_t beyond = unreached;
  bool any = false;
  for (uint64_t first = blockIdx.x * step; first < job.own; first += gridDim.x * step) {
    uint32_t pieces[collect_each], mine = 0;
    for (unsigned i = 0; i < collect_each; ++i) {
      const uint64_t v = first + i * blockDim.x + threadIdx.x;
      pieces[i] = 0;
      if (v >= job.own) continue;
      const uint32_t distance = job.best[v];
      if (which == edges_of::heavy) {
        if (distance < from || distance >= limit) continue;
      } else {
        if (distance >= job.expanded[v]) continue;
        if (distance >= limit) {
          beyond = distance < beyond ? distance : beyond;
          continue;
        }
        job.expanded[v] = distance;
      }
      any = true;
      const edge_range edges(job, v, which);
      pieces[i] = static_cast<uint32_t>(pieces_of(edges.end - edges.begin, job.piece_log2));
      mine += pieces[i];
    }
    if (!__syncthreads_or(mine != 0)) continue;
    uint32_t at = take_places(mine, &result.pieces);
    const uint32_t lane = threadIdx.x % 32;
    for (unsigned i = 0; i < collect_each; ++i) {
      const auto v = static_cast<uint32_t>(first + i * blockDim.x + threadIdx.x);
      // A long row's are written by all lanes of the warp.
      for (unsigned rest = __ballot_sync(~0u, pieces[i] >= 32); rest; rest &= rest - 1) {
        const int of = __ffs(static_cast<int>(rest)) - 1;
        const uint32_t to = __shfl_sync(~0u, at, of), count = __shfl_sync(~0u, pieces[i], of);
        for (uint32_t k = lane; k < count; k += 32) job.queue[to + k] = {v - lane + static_cast<uint32_t>(of), k};
      }
      for (uint32_t k = 0; k < pieces[i] && pieces[i] < 32; ++k) job.queue[at + k] = {v, k};
      at += pieces[i];
    }
  }
  beyond = __reduce_min_sync(~0u, beyond);
  const bool some = __ballot_sync(~0u, any) != 0;
  if (threadIdx.x % 32 == 0 && beyond != unreached) atomicMin(&result.beyond, beyond);
  if (threadIdx.x % 32 == 0 && some) atomicOr(&result.any, 1u);
}

/// Offers a way to where edge `e` leads. Thread scope: lane.
template <class Sender>
GRAVEL_DEVICE void follow_edge(Sender& sender, const path_job& job, float distance, uint64_t e) {
  const arc over = job.arcs[e];
  const uint32_t offer = bits_of(distance + over.weight);
  if (offer >= load_relaxed<scope::device>(&job.best[over.to])) return;
  if (offer >= atomicMin(&job.best[over.to], offer) || over.to < job.own) return;
  const uint32_t vertex = job.ghosts[over.to - job.own];
  sender.min(&job.best[job.codes.place(vertex)], offer, job.codes.owner(vertex));
}

/// The pieces first ... first + pieces of the queue.
template <class Sender>
GRAVEL_DEVICE void expand_pieces(Sender& sender, const path_job& job, edges_of which, uint64_t first_piece,
                                 uint64_t pieces) {
  const uint32_t warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  const uint64_t piece_edges = uint64_t{1} << job.piece_log2;
  // Pieces are dealt out to warps one by one: those of one long row, which follow each other in the queue, are not a
  // single warp's.
  for (uint64_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32; of_warp < pieces;
       of_warp += uint64_t{warps} * 32) {
    uint64_t begin = 0, end = 0;
    float distance = 0;
    if (of_warp + uint64_t{lane} * warps < pieces) {
      const piece mine = job.queue[first_piece + of_warp + uint64_t{lane} * warps];
      const edge_range edges(job, mine.vertex, which);
      begin = edges.begin + mine.number * piece_edges;
      end = edges.end - begin > piece_edges ? begin + piece_edges : edges.end;
      distance = distance_of(job.expanded[mine.vertex]);
    }
    for (unsigned rest = __ballot_sync(~0u, end - begin >= warp_edges); rest; rest &= rest - 1) {
      const int of = __ffs(static_cast<int>(rest)) - 1;
      const uint64_t first = __shfl_sync(~0u, begin, of), last = __shfl_sync(~0u, end, of);
      const float from = __shfl_sync(~0u, distance, of);
      for (uint64_t e = first + lane; e < last; e += 32) follow_edge(sender, job, from, e);
    }
    // The edges of short pieces are dealt out to all lanes: `to_here` says whose an edge is.
    const uint32_t mine = end - begin < warp_edges ? static_cast<uint32_t>(end - begin) : 0;
    uint32_t to_here = mine;
    for (unsigned step = 1; step < 32; step *= 2) {
      const uint32_t below = __shfl_up_sync(~0u, to_here, step);
      if (lane >= step) to_here += below;
    }
    const uint32_t all = __shfl_sync(~0u, to_here, 31);
    for (uint32_t first = 0; first < all; first += 32) {
      const uint32_t k = first + lane;
      int of = 0;
      for (int step = 16; step; step /= 2)
        if (__shfl_sync(~0u, to_here, of + step - 1) <= k) of += step;
      const uint64_t begins = __shfl_sync(~0u, begin, of);
      const uint32_t before = __shfl_sync(~0u, to_here - mine, of);
      const float from = __shfl_sync(~0u, distance, of);
      if (k < all) follow_edge(sender, job, from, begins + (k - before));
    }
  }
}

template <class Sender, class Handle>
__global__ void expand(Handle g, path_job job, edges_of which, uint64_t first_piece, uint64_t pieces) {
  __shared__ Sender sender;
  sender.begin(g);
  expand_pieces(sender, job, which, first_piece, pieces);
  sender.end();
}

// Where all PEs have each other's memory mapped no host looks at what was found.
__global__ void advance(path_job job, const uint64_t* found_by_all, uint32_t n_pes, float delta) {
  if (threadIdx.x == 0 && !job.where->ended)
    job.where->advance(found_by_all, rendezvous_memory::most_words, n_pes, delta);
}
template <class Sender>
__global__ void expand_found(gravel_t g, path_job job, const found* result) {
  const edges_of which = job.where->expands;
  if (which == edges_of::none) return;
  __shared__ Sender sender;
  sender.begin(g);
  expand_pieces(sender, job, which, 0, result->pieces);
  sender.end();
}

/// The check of distances without a serial run: `best` has them, and `again`, which had none, gets what all edges
/// together offer.
__global__ void offer_again(gravel_t g, path_job job, uint32_t* again, bool to_others) {
  __shared__ gravel_block_sender<lanes_of_block> sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (to_others) {
    for (uint64_t k = lane; k < job.n_ghosts; k += lanes)
      if (again[job.own + k] != unreached)
        sender.min(&again[job.codes.place(job.ghosts[k])], again[job.own + k], job.codes.owner(job.ghosts[k]));
  } else {
    for (uint64_t v = lane / 32; v < job.own; v += lanes / 32) {
      const uint32_t distance = job.best[v];
      for (uint64_t e = job.offsets[v] + lane % 32; distance != unreached && e < job.offsets[v + 1]; e += 32) {
        const uint32_t offer = bits_of(distance_of(distance) + job.arcs[e].weight);
        if (offer < load_relaxed<scope::device>(&again[job.arcs[e].to])) atomicMin(&again[job.arcs[e].to], offer);
      }
    }
  }
  sender.end();
}

/// Own vertices, other than the source, whose best offer is not their distance.
__global__ void count_unequal(path_job job, const uint32_t* again, uint64_t source_place, uint64_t* unequal) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint32_t mine = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < job.own; v += lanes)
    mine += v != source_place && job.best[v] != again[v];
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0 && mine) fetch_add<scope::device>(unequal, uint64_t{mine});
}

/// Not more blocks than have something to do: most rounds on a road network have little.
unsigned blocks_up_to(unsigned most, uint64_t items, unsigned items_of_block) {
  return static_cast<unsigned>(std::clamp<uint64_t>((items + items_of_block - 1) / items_of_block, 1, most));
}

/// All rounds. Collective; returns how many there were.
uint32_t find_paths(const path_job& job, network_model& net, float delta) {
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
  int turn = 0;
  const auto collect_edges = [&] {
    launch_alone(collect,
                 {.grid = blocks_up_to(2 * blocks_to_fill_device(), job.own, collect_lanes * collect_each),
                  .block = collect_lanes},
                 job, turn);
    turn = 1 - turn;
    return &job.results[1 - turn];
  };
  search now{};
  if (net.is_mapped()) {
    const auto expand_all = n_pes == 1 ? expand_found<no_sender> : expand_found<mapped_sender>;
    while (!now.ended) {
      for (unsigned step = 0; step < steps_at_once; ++step) {
        const found* const result = collect_edges();
        // No PE expands before all have collected, so no distance changes meanwhile.
        const uint64_t* const found_by_all = net.rendezvous().say(result, words_of_found);
        launch_alone(advance, {.grid = 1, .block = 32}, job, found_by_all, n_pes, delta);
        launch_alone(expand_all, {.grid = 3 * blocks_to_fill_device(), .block = lanes_of_block}, gravel_handle(), job,
                     result);
        net.rendezvous().round();
      }
      copy_behind_kernels(&now, job.where, sizeof(now));
    }
    return now.rounds;
  }

  const auto send = n_pes > 2 ? expand<gravel_block_sender<lanes_of_block, 1024, 3>, gravel_t>
                              : expand<gravel_block_sender<lanes_of_block>, gravel_t>;
  network_work offers{.of_item = uint64_t{1} << job.piece_log2,
                      .of_item_to_one = uint64_t{1} << job.piece_log2,
                      .message_bytes = bytes_of(update_kind(op::min, value_type::u32))};
  for (;;) {
    gravel_copy(job.where, &now, sizeof(now));
    const auto of_all = net.rendezvous().gather(collect_edges(), words_of_found);
    now.advance(of_all.data(), words_of_found, n_pes, delta);
    if (now.ended) return now.rounds;
    if (now.expands == edges_of::none) continue;
    found mine;
    std::memcpy(&mine, &of_all[static_cast<size_t>(gravel_my_pe()) * words_of_found], sizeof(mine));
    offers.items = mine.pieces;
    offers.blocks = blocks_up_to(blocks_for(offers.items * warp_edges), offers.items, lanes_of_block / 32);
    if (offers.items || net.is_collective())
      net.launch(send, expand<model_sender, model_handle>, offers, job, now.expands);
    net.rendezvous().round();
  }
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const sssp_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  device_part graph;
  all_succeed(program_name, [&] {
    graph = load_on_device(o.graph, {.weights = true}, me, n_pes);
    sort_by_weight(graph);
  });
  const graph_part& part = graph.part;
  const csr& rows = part.rows;
  const uint64_t own = graph.own(), n_ghosts = graph.ghosts.codes.size(), vertices = part.vertices;
  const uint64_t edges = gravel_sum_all(graph.edges), all_ghosts = gravel_sum_all(n_ghosts);
  const uint64_t remote_edges = gravel_sum_all(graph.ghosts.uses);
  device_array<arc> arcs(graph.edges);
  device_array<double> weight_sum(std::vector<double>(1));
  gravel_launch(join_arcs, blocks_for(graph.edges), lanes_of_block, static_cast<const uint32_t*>(graph.targets.data()),
                static_cast<const float*>(graph.weights.data()), graph.edges, arcs.data(), weight_sum.data());
  gravel_synchronize();
  graph.targets.release();
  graph.weights.release();
  double weights = 0;
  gravel_copy(&weights, weight_sum.data(), sizeof(weights));
  weights = gravel_sum_all(weights);
  // Davidson and others (2014) take 32; light edges of fewer are followed again less often.
  const double mean = edges ? weights / static_cast<double>(edges) : 1;
  const double wanted =
      o.delta > 0
          ? o.delta
          : std::max(12 * mean * static_cast<double>(vertices) / static_cast<double>(std::max<uint64_t>(edges, 1)),
                     1e-6);
  const double delta = std::min<double>(wanted, std::numeric_limits<float>::max());

  std::vector<ranked<uint64_t>> degrees;
  for (uint64_t i = 0; i < own; ++i) degrees.push_back({rows.degree(i), part.old_numbers[i]});
  uint64_t source = 0;
  if (!o.source) source = gather_best(std::move(degrees), 1).front().vertex;
  all_succeed(program_name, [&] {
    if (o.source) source = find_vertex(o.graph, part, *o.source);
  });
  uint64_t source_place = ~uint64_t{0};
  for (uint64_t i = 0; i < own; ++i)
    if (part.old_numbers[i] == source) source_place = i;
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges, in memory after %.2f s, %llu of "
        "other PEs' vertices in "
        "all; from vertex %llu, "
        "delta %.4g\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges), graph.seconds,
        static_cast<unsigned long long>(all_ghosts), static_cast<unsigned long long>(part.ids.of(source)), delta);
  std::fflush(stdout);

  device_array<uint32_t> ghosts(graph.ghosts.codes), light(own);
  gravel_launch(count_light, blocks_for(own), lanes_of_block, static_cast<const uint64_t*>(graph.offsets.data()),
                static_cast<const arc*>(arcs.data()), own, static_cast<float>(delta), light.data());
  const auto most = [](uint64_t count) { return std::max<uint64_t>(gravel_max_all(count), 1); };
  network_model net(program_name, o.network);
  path_job job{};
  job.offsets = graph.offsets.data();
  job.arcs = arcs.data();
  job.light = light.data();
  job.ghosts = ghosts.data();
  job.codes = part.codes;
  job.own = own;
  job.n_ghosts = n_ghosts;
  job.piece_log2 = std::min(piece_log2, static_cast<uint32_t>(std::bit_width(net.most_of_lane()) - 1));
  uint64_t pieces = 0;
  for (uint64_t v = 0; v < own; ++v) pieces += pieces_of(rows.degree(v), job.piece_log2);
  job.best = gravel_malloc<uint32_t>(most(own + n_ghosts) * sizeof(uint32_t));
  job.expanded = gravel_malloc<uint32_t>(most(own) * sizeof(uint32_t));
  job.queue = gravel_malloc<piece>(most(pieces) * sizeof(piece));
  job.results = gravel_malloc<found>(2 * sizeof(found));
  job.where = gravel_malloc<search>(sizeof(search));

  double seconds = 0;
  uint32_t rounds = 0;
  for (unsigned run = 0; run < o.repeat; ++run) {
    gravel_launch(start_paths, blocks_to_fill_device(), lanes_of_block, job, own + n_ghosts, source_place);
    gravel_barrier_all();
    const double took = seconds_of([&] { rounds = find_paths(job, net, static_cast<float>(delta)); });
    seconds = run == 0 ? took : std::min(seconds, took);
  }

  net.check();
  // Where no weight is zero, distances that are what all edges together offer are the least ones.
  uint32_t* const again = gravel_malloc<uint32_t>(most(own + n_ghosts) * sizeof(uint32_t));
  device_array<uint64_t> unequal(std::vector<uint64_t>(1));
  gravel_launch(fill_unreached, blocks_to_fill_device(), lanes_of_block, again, own + n_ghosts);
  gravel_barrier_all();
  for (const bool to_others : {false, true})
    gravel_launch(offer_again, blocks_for(graph.edges), lanes_of_block, gravel_handle(), job, again, to_others);
  gravel_barrier_all();
  gravel_launch(count_unequal, blocks_to_fill_device(), lanes_of_block, job, again, source_place, unequal.data());
  gravel_synchronize();
  uint64_t wrong = 0;
  gravel_copy(&wrong, unequal.data(), sizeof(wrong));
  std::vector<uint32_t> distance(own);
  gravel_copy(distance.data(), job.best, own * sizeof(uint32_t));
  uint64_t reached = 0;
  uint32_t farthest = 0;
  uint64_t too_far = 0;
  for (const uint32_t d : distance)
    if (d != unreached) {
      ++reached;
      farthest = std::max(farthest, d);
      too_far += std::isinf(distance_of(d));
    }
  reached = gravel_sum_all(reached);
  farthest = gravel_max_all(farthest);
  too_far = gravel_sum_all(too_far);
  all_succeed(program_name, [&] { check_range_of_distances(too_far); });
  const bool rounded = distance_of(farthest) > most_exact_whole && gravel_min_all(uint64_t{graph.whole_weights}) != 0;
  const bool serial = !o.no_verify && edges <= o.serial_limit;
  wrong += reached == 0;
  if (serial) {
    std::optional<path_oracle> oracle;
    all_succeed(program_name, [&] { oracle.emplace(make_csr(o.graph.edges({.weights = true})), source); });
    for (uint64_t i = 0; i < own; ++i) {
      const float found = distance[i] == unreached ? std::numeric_limits<float>::infinity() : distance_of(distance[i]);
      wrong += !oracle->is_right(part.old_numbers[i], found);
    }
    std::vector<arc> edges_here(graph.edges);
    gravel_copy(edges_here.data(), arcs.data(), edges_here.size() * sizeof(arc));
    for (uint64_t v = 0; v < own; ++v)  // else light edges are not found
      for (uint64_t e = rows.offsets[v] + 1; e < rows.offsets[v + 1]; ++e)
        wrong += edges_here[e].weight < edges_here[e - 1].weight;
  }
  wrong = gravel_sum_all(wrong);
  if (me == 0) {
    std::printf("%.4f s, %.4g M edges/s, %u rounds; %llu vertices reached, the farthest at %.9g\n", seconds,
                static_cast<double>(edges) / seconds / 1e6, rounds, static_cast<unsigned long long>(reached),
                static_cast<double>(distance_of(farthest)));
    std::printf("%llu wrong distances, compared with %s\n", static_cast<unsigned long long>(wrong),
                serial ? "what all edges offer and a serial Dijkstra" : "what all edges offer");
    if (rounded) std::printf("distances are floats: whole ones above 16777216 are rounded\n");
  }
  if (!o.dump.empty()) {
    std::vector<double> lengths;  // -1: not reached
    for (const uint32_t d : distance) lengths.push_back(d == unreached ? -1 : static_cast<double>(distance_of(d)));
    dump_columns(program_name, o.dump, "distances", {{"vertex", {}, part.own_ids()}, {"distance", lengths}});
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"graph", o.graph.description()},
                             {"vertices", vertices},
                             {"edges", edges},
                             {"load_seconds", graph.seconds},
                             {"division", o.graph.division},
                             {"model", o.network.name},
                             {"ghosts", all_ghosts},
                             {"remote_edges", remote_edges},
                             {"source", part.ids.of(source)},
                             {"delta", delta},
                             {"rounds", uint64_t{rounds}},
                             {"seconds", seconds},
                             {"edges_per_s", static_cast<double>(edges) / seconds},
                             {"reached", reached},
                             {"farthest", static_cast<double>(distance_of(farthest))},
                             {"rounded", rounded},
                             {"compared_with_serial", serial},
                             {"wrong", wrong},
                             {"right", wrong == 0}});
  return wrong == 0;
}

void sssp_options::add_options(command_line& line) {
  graph.add_options(line);
  network.add_options(line);
  add_source_option(line, source);
  line.add_option(
          "--delta", delta,
          "Vertices within this distance of the nearest are expanded together; if not given, from weights and degrees")
      .range(1e-30, 1e30);
  line.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1, 1000).capture_default_str();
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial Dijkstra");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void sssp_options::check() {
  graph.check();
  network.prepare();
}
uint64_t sssp_options::symmetric_bytes() const {
  return 28 * graph.vertices_of_generated() + network.symmetric_bytes();
}
void sssp_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application({program_name, "Shortest paths from one vertex of a weighted graph, by delta-stepping."}, argc,
                         argv, sssp_options{}, solve);
}
