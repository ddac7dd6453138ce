// Colouring: neighbours get different colours, few in all. Every vertex takes the first colour that none of its
// neighbours seems to have, all at once; what other PEs' vertices have lies in ghosts, which messages bring up to date
// while the kernel runs. Then vertices look whether a neighbour took the same colour at the same time, and of two one
// chooses again in the next round. Where vertices are numbered by degrees, this is done in stages: those of most
// neighbours first. A stage reads no colours of later ones, and looks for equal colours within itself alone.
#include <cstdio>
#include <cstring>
#include <numeric>

#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/model.hpp"
#include "bench/rivals/no_sender.hpp"
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/ghost_readers.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "lib/worklist/words_of_all.cuh"

using namespace app;
using gravel::csr;
using gravel::device_array;
using gravel::edge;
using gravel::edge_list;
using gravel::fetch_add;
using gravel::ghost_list;
using gravel::launch_alone;
using gravel::make_csr;
using gravel::mapped_sender;
using gravel::scope;
using gravel::simplify;
using gravel::vertex_code;
using gravel::detail::launch_for;
using gravel::detail::words_of_all;
using gravel::detail::worklist_graph;

constexpr const char* program_name = "color";
/// Vertices with fewer neighbours are coloured by one lane, those with fewer than block_degree by a warp, others by a
/// block.
constexpr uint64_t warp_degree = 32, block_degree = 2048;
constexpr uint32_t classes = 3;
/// Of vertices numbered by degrees: how many are in the first stage, and how many times as many each later stage ends
/// at.
constexpr uint64_t first_stage = 4096, stage_factor = 16;
/// Colours that a warp or block looks at together, a bit each.
constexpr uint32_t window = 1024;
/// Neighbours that a lane reads together: of a row that a warp or block shares, and of one that is its own.
constexpr unsigned at_once = GRAVEL_CUDA ? 8 : 1, at_once_alone = GRAVEL_CUDA ? 4 : 1;

/// Lanes of a block without a block sender: the longest rows, which a block looks through, say how long a round is.
constexpr unsigned wide_block = GRAVEL_CUDA ? 512 : 32;

struct color_options {
  graph_input graph;
  model_options network;
  unsigned repeat = 1;
  bool no_verify = false;
  bool one_stage = false;
  std::string json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// Two bytes: all that is read at random fits a GPU's cache for longer.
using color = uint16_t;
constexpr color uncolored = 0xffff;

struct alignas(8) work_item {
  uint32_t vertex;
  uint32_t skip;  ///< free colours to leave to neighbours that choose again as well
};
/// Vertices that choose in a round, by class.
struct work_list {
  work_item* items[classes];
  uint32_t* counts;  ///< whole words of 64 bits; what is behind the classes' is 0
};
constexpr uint32_t words_of_counts = (classes + 1) / 2;

/// This PE's part, in device memory.
struct color_job {
  const uint64_t* offsets;
  const uint32_t* targets;  ///< indices into `colors`
  const uint32_t* ghosts;   ///< codes of other PEs' vertices that edges lead to
  const uint64_t* reader_offsets;
  const uint64_t* readers;  ///< of each own vertex: PE (high half), and where it is a ghost there
  vertex_code codes;
  uint32_t own;
  bool is_alone;     ///< there is one PE: rows are sorted by their targets
  color* colors;     ///< symmetric: of own vertices, then of ghosts
  uint32_t* excess;  ///< vertices that found no colour
};

__global__ void start_colors(color_job job, uint64_t all, uint32_t* counts) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t i = lane; i < all; i += lanes) job.colors[i] = uncolored;
  if (lane < classes) counts[lane] = 0;
  if (lane == 0) *job.excess = 0;
}

/// A warp, or the whole block.
template <bool BLOCK>
struct team {
  GRAVEL_DEVICE static unsigned rank() { return BLOCK ? threadIdx.x : threadIdx.x % 32; }
  GRAVEL_DEVICE static unsigned size() { return BLOCK ? blockDim.x : 32; }
  GRAVEL_DEVICE static unsigned index() { return BLOCK ? blockIdx.x : (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
  GRAVEL_DEVICE static unsigned count() { return BLOCK ? gridDim.x : gridDim.x * blockDim.x / 32; }
  GRAVEL_DEVICE static void sync() {
    if constexpr (BLOCK) __syncthreads();
    else __syncwarp();
  }
};

/// The colour of number `skip` among those that are clear in words[0 .. 32), or else, in `skip`, how many are still to
/// be left. The answer is the same in all lanes. Thread scope: warp, converged.
GRAVEL_DEVICE bool find_clear(const uint32_t* words, uint32_t* skip, uint32_t* found) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t clear = ~words[lane];
  const uint32_t mine = static_cast<uint32_t>(__popc(clear));
  uint32_t to_here = mine;
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, to_here, step);
    if (lane >= step) to_here += below;
  }
  const bool here = *skip < to_here && *skip >= to_here - mine;
  if (here)
    for (uint32_t left = *skip - (to_here - mine); left; --left) clear &= clear - 1;
  const uint32_t bit = lane * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(clear)) - 1);
  const unsigned who = __ballot_sync(~0u, here);
  const uint32_t all = __shfl_sync(~0u, to_here, 31);
  const uint32_t answer = __shfl_sync(~0u, bit, who ? __ffs(static_cast<int>(who)) - 1 : 0);
  if (who) *found = answer;
  else *skip -= all;
  return who != 0;
}

/// Own vertices by their numbers: [first, end).
struct number_range {
  uint32_t first, end;
  GRAVEL_BOTH bool has(uint32_t vertex) const { return vertex - first < end - first; }
};

/// The first entry of [first, end), sorted, that is at least `bound`. Thread scope: lane.
GRAVEL_DEVICE uint64_t find_entry(const uint32_t* targets, uint64_t first, uint64_t end, uint32_t bound) {
  while (first < end) {
    const uint64_t middle = first + (end - first) / 2;
    if (targets[middle] < bound) first = middle + 1;
    else end = middle;
  }
  return first;
}

/// Calls visit(neighbour, its colour) for the neighbours of `vertex` numbered place, place + stride, ... that `wanted`
/// has, and for ghosts. Several are read before any is looked at: the longest rows are as slow as memory is far.
/// IS_LONG: what a sorted row has besides is not read. Thread scope: lane.
template <unsigned AT_ONCE, bool IS_LONG, class Visit>
GRAVEL_DEVICE void each_neighbour(const color_job& job, uint32_t vertex, unsigned place, unsigned stride,
                                  const number_range& wanted, Visit visit) {
  uint64_t first = job.offsets[vertex], end = job.offsets[vertex + 1];
  if (IS_LONG && job.is_alone) {
    if (wanted.first) first = find_entry(job.targets, first, end, wanted.first);
    if (wanted.end < job.own) end = find_entry(job.targets, first, end, wanted.end);
  }
  for (uint64_t e = first + place; e < end; e += AT_ONCE * stride) {
    uint32_t other[AT_ONCE] = {};
    color its[AT_ONCE] = {};
    const uint64_t left = (end - e + stride - 1) / stride;
    for (unsigned i = 0; i < AT_ONCE; ++i) other[i] = i < left ? job.targets[e + i * stride] : ~0u;
    const auto is_wanted = [&](unsigned i) { return i < left && (other[i] >= job.own || wanted.has(other[i])); };
    for (unsigned i = 0; i < AT_ONCE; ++i)
      if (is_wanted(i)) its[i] = gravel::detail::read_in_place(&job.colors[other[i]]);
    for (unsigned i = 0; i < AT_ONCE; ++i)
      if (is_wanted(i)) visit(other[i], its[i]);
  }
}

/// What the lanes of a block share to colour long rows.
struct color_scratch {
  uint32_t words[wide_block / 32][window / 32];
  uint32_t skip, found, is_found;
};

/// The colour for a vertex with many neighbours. Thread scope: the team, converged.
template <bool BLOCK>
GRAVEL_DEVICE uint32_t choose_together(const color_job& job, const work_item& item, const number_range& seen,
                                       color_scratch& scratch) {
  using t = team<BLOCK>;
  uint32_t* const words = scratch.words[BLOCK ? 0 : threadIdx.x / 32];
  uint32_t skip = item.skip, found = 0;
  for (uint32_t first = 0;; first += window) {
    for (unsigned w = t::rank(); w < window / 32; w += t::size()) words[w] = 0;
    t::sync();
    each_neighbour<at_once, true>(job, item.vertex, t::rank(), t::size(), seen, [&](uint32_t, color its) {
      const uint32_t c = its - first;
      if (c < window && its != uncolored) atomicOr(&words[c / 32], 1u << c % 32);
    });
    t::sync();
    bool is_found = false;
    if constexpr (BLOCK) {
      if (threadIdx.x < 32) {
        is_found = find_clear(words, &skip, &found);
        if (threadIdx.x == 0) {
          scratch.skip = skip;
          scratch.found = found;
          scratch.is_found = is_found;
        }
      }
      __syncthreads();
      skip = scratch.skip;
      found = scratch.found;
      is_found = scratch.is_found;
    } else {
      is_found = find_clear(words, &skip, &found);
    }
    t::sync();
    if (is_found) return first + found;
  }
}

/// The colour for a vertex with fewer than warp_degree neighbours: with what is skipped, less than twice as many.
/// Thread scope: lane.
GRAVEL_DEVICE uint32_t choose_alone(const color_job& job, const work_item& item, const number_range& seen) {
  uint64_t clear = ~uint64_t{0};
  each_neighbour<at_once_alone, false>(job, item.vertex, 0, 1, seen, [&](uint32_t, color its) {
    if (its < 64) clear &= ~(uint64_t{1} << its);
  });
  for (uint32_t left = item.skip; left; --left) clear &= clear - 1;
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(clear)) - 1);
}

/// Stores the choice, and sends it to the PEs that have a ghost of the vertex. Thread scope: lane.
template <class Sender>
GRAVEL_DEVICE void take(Sender& sender, const color_job& job, uint32_t vertex, uint32_t chosen) {
  if (chosen >= uncolored) {
    atomicAdd(job.excess, 1u);
    return;
  }
  gravel::detail::put_in_place(&job.colors[vertex], static_cast<color>(chosen));
  for (uint64_t r = job.reader_offsets[vertex]; r < job.reader_offsets[vertex + 1]; ++r)
    sender.put(&job.colors[static_cast<uint32_t>(job.readers[r])], static_cast<color>(chosen),
               static_cast<int>(job.readers[r] >> 32));
}

template <bool BLOCK, class Sender>
GRAVEL_DEVICE void choose_class(Sender& sender, const color_job& job, const work_item* items, uint32_t count,
                                const number_range& seen, color_scratch& scratch) {
  using t = team<BLOCK>;
  for (uint32_t i = t::index(); i < count; i += t::count()) {
    const uint32_t chosen = choose_together<BLOCK>(job, items[i], seen, scratch);
    if (t::rank() == 0) take(sender, job, items[i].vertex, chosen);
    t::sync();
  }
}

/// Of the vertices in `work` those of one class, or of all, and of each class those numbered first ... first + most,
/// choose. The longest rows first: they would be the last to end. `seen`: own vertices that have colours, or get them
/// meanwhile.
template <class Sender, class Handle>
__global__ void choose(Handle g, color_job job, work_list work, number_range seen, uint32_t one_class, uint64_t first,
                       uint64_t most) {
  __shared__ Sender sender;
  __shared__ color_scratch scratch;
  sender.begin(g);
  const auto count = [&](uint32_t c) -> uint32_t {
    if (one_class != c && one_class != classes) return 0;
    return static_cast<uint32_t>(work.counts[c] - first < most ? work.counts[c] - first : most);
  };
  choose_class<true>(sender, job, work.items[2] + first, count(2), seen, scratch);
  choose_class<false>(sender, job, work.items[1] + first, count(1), seen, scratch);
  const uint32_t lanes = gridDim.x * blockDim.x, alone = count(0);
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < alone; i += lanes) {
    const work_item item = work.items[0][first + i];
    take(sender, job, item.vertex, choose_alone(job, item, seen));
  }
  sender.end();
}

/// Who of a vertex's neighbours has its colour, and goes before it.
struct conflicts {
  uint32_t own;  ///< vertices of this PE
  uint32_t pes;  ///< other PEs, a bit each (of 32 in turn)
  GRAVEL_DEVICE bool any() const { return own || pes; }
  /// Neighbours that chose one colour at the same moment would do so again. So each leaves out some free ones: drawn
  /// from an eighth as many as it has such neighbours before it, which come apart in few rounds. (As many as there are
  /// cost five times the colours, in an R-MAT graph all of whose vertices had chosen the same.) Vertices of one PE with
  /// one colour are seldom neighbours of each other, so all of a PE count as one.
  GRAVEL_DEVICE uint32_t skip(uint32_t vertex, uint32_t round) const {
    const uint32_t before = own + static_cast<uint32_t>(__popc(pes)) - 1;
    return pick(mix(uint64_t{round} << 32 | vertex), before / 8 + 1);
  }
};

/// Reads each `stride`-th neighbour that chose in this stage, AT_ONCE of them together. Of two PEs another one goes
/// before for every colour; of one PE's vertices the one with more neighbours: of the many that chose when it did, most
/// have few. Thread scope: lane.
template <unsigned AT_ONCE, bool IS_LONG>
GRAVEL_DEVICE conflicts find_conflicts(const gravel_t& g, const color_job& job, uint32_t vertex, unsigned place,
                                       unsigned stride, const number_range& stage) {
  const color mine = job.colors[vertex];
  conflicts found{};
  each_neighbour<AT_ONCE, IS_LONG>(job, vertex, place, stride, stage, [&](uint32_t other, color its) {
    if (its != mine) return;
    if (other < job.own) {
      const uint64_t here = job.offsets[vertex + 1] - job.offsets[vertex],
                     there = job.offsets[other + 1] - job.offsets[other];
      found.own += there > here || (there == here && mix(other) > mix(vertex));
    } else {
      const auto pe = static_cast<uint32_t>(job.codes.owner(job.ghosts[other - job.own]));
      if ((pe + mine) % g.n_pes < (g.my_pe + mine) % g.n_pes) found.pes |= 1u << pe % 32;
    }
  });
  return found;
}

template <bool BLOCK>
GRAVEL_DEVICE void check_class(const gravel_t& g, const color_job& job, const work_item* items, uint32_t count,
                               const number_range& stage, work_item* next, uint32_t* next_count, conflicts* shared,
                               uint32_t round) {
  using t = team<BLOCK>;
  for (uint32_t i = t::index(); i < count; i += t::count()) {
    conflicts found = find_conflicts<at_once, true>(g, job, items[i].vertex, t::rank(), t::size(), stage);
    found = {__reduce_add_sync(~0u, found.own), __reduce_or_sync(~0u, found.pes)};
    if constexpr (BLOCK) {
      if (threadIdx.x == 0) *shared = {};
      __syncthreads();
      if (threadIdx.x % 32 == 0) {
        atomicAdd(&shared->own, found.own);
        atomicOr(&shared->pes, found.pes);
      }
      __syncthreads();
      found = *shared;
    }
    if (t::rank() == 0 && found.any())
      next[atomicAdd(next_count, 1u)] = {items[i].vertex, found.skip(items[i].vertex, round)};
    t::sync();
  }
}

/// The vertices in `work`, all of one stage, that must choose again go to `next`. No colour changes meanwhile.
__global__ void check(gravel_t g, color_job job, work_list work, number_range stage, work_list next, uint32_t round) {
  __shared__ conflicts shared;
  check_class<true>(g, job, work.items[2], work.counts[2], stage, next.items[2], &next.counts[2], &shared, round);
  check_class<false>(g, job, work.items[1], work.counts[1], stage, next.items[1], &next.counts[1], &shared, round);
  const uint32_t lanes = gridDim.x * blockDim.x;
  for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < work.counts[0];
       of_warp += lanes) {
    const uint32_t i = of_warp + threadIdx.x % 32;
    const uint32_t vertex = i < work.counts[0] ? work.items[0][i].vertex : 0;
    conflicts found{};
    if (i < work.counts[0]) found = find_conflicts<at_once_alone, false>(g, job, vertex, 0, 1, stage);
    const unsigned again = __ballot_sync(~0u, found.any());
    uint32_t at = 0;
    if (again && threadIdx.x % 32 == 0) at = atomicAdd(&next.counts[0], static_cast<uint32_t>(__popc(again)));
    at = __shfl_sync(~0u, at, 0);
    if (found.any())
      next.items[0][at + static_cast<uint32_t>(__popc(again & ((1u << threadIdx.x % 32) - 1)))] = {
          vertex, found.skip(vertex, round)};
  }
}

__global__ void clear_counts(uint32_t* counts) {
  if (threadIdx.x < classes) counts[threadIdx.x] = 0;
}

/// The check of the result at any size: `words` has the colours of own vertices, and of ghosts what their owners have
/// now.
__global__ void count_conflicts(worklist_graph graph, const uint32_t* words, uint64_t* wrong) {
  uint64_t mine = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < graph.own;
       v += uint64_t{gridDim.x} * blockDim.x) {
    mine += words[v] == uncolored;
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
      mine += graph.targets[e] != v && words[graph.targets[e]] == words[v];
  }
  if (mine) fetch_add<scope::device>(wrong, mine);
}

constexpr graph_wish rows_of_neighbours{.undirected = true, .simple = true};

struct prepared {
  device_part graph;
  std::vector<work_item> work[classes];
};

prepared prepare(const color_options& o, int me, int n_pes) {
  prepared p;
  p.graph = load_on_device(o.graph, rows_of_neighbours, me, n_pes);
  const csr& rows = p.graph.part.rows;
  for (uint64_t v = 0; v < rows.rows(); ++v) {
    uint32_t kind = 2;
    if (rows.degree(v) < warp_degree) kind = 0;
    else if (rows.degree(v) < block_degree) kind = 1;
    p.work[kind].push_back({static_cast<uint32_t>(v), 0});
  }
  return p;
}

/// The requests by vertex instead of by PE.
csr readers_by_vertex(const ghost_readers& readers, uint64_t own) {
  std::vector<uint64_t> requests(readers.count());
  gravel_copy(requests.data(), readers.requests, requests.size() * sizeof(uint64_t));
  edge_list list;
  list.vertices = std::max<uint64_t>(own, 1);
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
  for (uint64_t i = 0, turn = 0; i < requests.size(); ++i) {
    while (i >= readers.end[turn]) ++turn;
    list.edges.push_back({requests[i] >> 32, (static_cast<uint64_t>(gravel_my_pe()) + 1 + turn) % n_pes << 32 |
                                                 (requests[i] & ~uint32_t{0})});
  }
  return make_csr(list);
}

/// Vertices that choose together, and their list.
struct stage_of_colors {
  number_range range;
  work_list work;
  uint32_t counts[classes];
};

/// All rounds of a stage. Collective; returns how many there were. `lists` have room for the stage's vertices; the
/// first is empty. `most_readers`: PEs that have a ghost of one vertex.
uint32_t find_colors(const color_job& job, const stage_of_colors& stage, const work_list (&lists)[2],
                     network_model& net, uint64_t most_readers, uint32_t rounds_before) {
  const auto kernel = gravel_n_pes() == 1  ? choose<no_sender, gravel_t>
                      : net.is_mapped()    ? choose<mapped_sender, gravel_t>
                      : gravel_n_pes() > 2 ? choose<gravel_block_sender<lanes_of_block, 1024, 3>, gravel_t>
                                           : choose<gravel_block_sender<lanes_of_block>, gravel_t>;
  network_work choices{.of_item = most_readers,
                       .of_item_to_one = 1,
                       .message_bytes = bytes_of(update_kind(op::put, value_type::u16)),
                       .mapped = net.is_mapped(),
                       .mapped_lanes = wide_block};
  const number_range seen{0, stage.range.end};
  uint32_t counts[classes];
  std::memcpy(counts, stage.counts, sizeof(counts));
  uint64_t left = stage.range.end - stage.range.first;
  work_list work = stage.work;
  for (uint32_t round = 1;; ++round) {
    const work_list& next = lists[(round - 1) % 2];
    const unsigned blocks = blocks_for(left * 16),
                   wide_blocks = (blocks * lanes_of_block + wide_block - 1) / wide_block;
    launch_alone(clear_counts, {.grid = 1, .block = 32}, next.counts);
    const auto launch = [&](uint32_t one_class, uint64_t items) {
      choices.items = items;
      choices.blocks = net.is_mapped() ? wide_blocks : blocks;
      net.launch(kernel, choose<model_sender, model_handle>, choices, job, work, seen, one_class);
    };
    if (!net.gathers()) launch(classes, left);
    else
      for (uint32_t c = 0; c < classes; ++c) launch(c, counts[c]);
    net.rendezvous().round();  // all ghosts have the colours of this round
    launch_alone(check, {.grid = wide_blocks, .block = wide_block}, gravel_handle(), job, work, stage.range, next,
                 rounds_before + round);
    // No PE chooses again before all have checked.
    const auto of_all = net.rendezvous().gather(next.counts, words_of_counts);
    if (std::all_of(of_all.begin(), of_all.end(), [](uint64_t word) { return word == 0; })) return round;
    std::memcpy(counts, &of_all[static_cast<size_t>(gravel_my_pe()) * words_of_counts], sizeof(counts));
    left = uint64_t{counts[0]} + counts[1] + counts[2];
    work = next;
  }
}

/// Divides the vertices of `work`, which is in order of numbers and lies at `items`, into stages that end at the same
/// numbers at all PEs. `counts` gets three numbers for each, which the stages' lists refer to.
std::vector<stage_of_colors> make_stages(const std::vector<work_item> (&work)[classes],
                                         work_item* const (&items)[classes], uint64_t own, uint64_t most_own,
                                         bool by_degrees, device_array<uint32_t>& counts) {
  std::vector<stage_of_colors> stages;
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
  uint64_t first = 0;
  for (uint64_t end = first_stage / n_pes + 1; first < most_own || stages.empty(); end *= stage_factor) {
    if (!by_degrees || end > most_own) end = std::max<uint64_t>(most_own, 1);
    const auto at = [&](uint64_t number) { return static_cast<uint32_t>(std::min(number, own)); };
    stage_of_colors stage{{at(first), at(end)}, {}, {}};
    for (uint32_t c = 0; c < classes; ++c) {
      const auto place = [&](uint32_t number) {
        return std::partition_point(work[c].begin(), work[c].end(),
                                    [&](const work_item& one) { return one.vertex < number; }) -
               work[c].begin();
      };
      stage.work.items[c] = items[c] + place(stage.range.first);
      stage.counts[c] = static_cast<uint32_t>(place(stage.range.end) - place(stage.range.first));
    }
    stages.push_back(stage);
    first = end;
  }
  std::vector<uint32_t> all;
  for (const stage_of_colors& stage : stages) all.insert(all.end(), stage.counts, stage.counts + classes);
  counts = device_array<uint32_t>(all);
  for (size_t i = 0; i < stages.size(); ++i) stages[i].work.counts = counts.data() + i * classes;
  return stages;
}

/// First colour that no neighbour has, vertex by vertex, in the order of the numbers; how many colours that takes.
uint32_t count_greedy(const csr& graph) {
  std::vector<uint32_t> colors(graph.rows(), ~0u);
  std::vector<uint64_t> taken_by(graph.rows() + 1, ~uint64_t{0});
  uint32_t most = 0;
  for (uint64_t v = 0; v < graph.rows(); ++v) {
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
      if (colors[graph.targets[e]] != ~0u) taken_by[colors[graph.targets[e]]] = v;
    uint32_t c = 0;
    while (taken_by[c] == v) ++c;
    colors[v] = c;
    most = std::max(most, c + 1);
  }
  return most;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const color_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  prepared p;
  all_succeed(program_name, [&] { p = prepare(o, me, n_pes); });
  const graph_part& part = p.graph.part;
  const csr& rows = part.rows;
  const ghost_list& ghost_vertices = p.graph.ghosts;
  const uint64_t own = p.graph.own(), n_ghosts = ghost_vertices.codes.size(), vertices = part.vertices;
  const uint64_t edges = gravel_sum_all(p.graph.edges), all_ghosts = gravel_sum_all(n_ghosts);
  const uint64_t remote_edges = gravel_sum_all(ghost_vertices.uses);
  uint64_t highest = 0;
  for (uint64_t v = 0; v < own; ++v) highest = std::max(highest, rows.degree(v));
  highest = gravel_max_all(highest);
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu neighbours, up to %llu of one, in memory "
        "after %.2f s; %llu of "
        "other PEs in all\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges),
        static_cast<unsigned long long>(highest), p.graph.seconds, static_cast<unsigned long long>(all_ghosts));
  std::fflush(stdout);

  const ghost_readers readers = find_readers(ghost_vertices, part.codes, own);
  const csr by_vertex = readers_by_vertex(readers, own);
  device_array<uint64_t> reader_offsets(by_vertex.offsets), reader_list(by_vertex.targets);
  device_array<uint32_t> ghosts(ghost_vertices.codes);
  const auto most = [](uint64_t count) { return std::max<uint64_t>(gravel_max_all(count), 1); };
  color_job job{};
  job.offsets = p.graph.offsets.data();
  job.targets = p.graph.targets.data();
  job.ghosts = ghosts.data();
  job.reader_offsets = reader_offsets.data();
  job.readers = reader_list.data();
  job.codes = part.codes;
  job.own = static_cast<uint32_t>(own);
  job.is_alone = n_pes == 1;
  job.colors = gravel_malloc<color>(most(own + n_ghosts) * sizeof(color));
  job.excess = gravel_malloc<uint32_t>(sizeof(uint32_t));
  work_list lists[3];
  for (work_list& list : lists) {
    list.counts = gravel_malloc<uint32_t>(words_of_counts * sizeof(uint64_t));
    const uint64_t none[words_of_counts] = {};
    gravel_copy(list.counts, none, sizeof(none));
    for (uint32_t c = 0; c < classes; ++c)
      list.items[c] = gravel_malloc<work_item>(most(p.work[c].size()) * sizeof(work_item));
  }
  uint32_t counts[classes];
  for (uint32_t c = 0; c < classes; ++c) {
    counts[c] = static_cast<uint32_t>(p.work[c].size());
    gravel_copy(lists[0].items[c], p.work[c].data(), p.work[c].size() * sizeof(work_item));
  }
  gravel_copy(lists[0].counts, counts, sizeof(counts));

  device_array<uint32_t> stage_counts;
  const std::vector<stage_of_colors> stages =
      make_stages(p.work, lists[0].items, own, most(own), !o.one_stage && o.graph.division == "degrees", stage_counts);
  network_model net(program_name, o.network);
  uint64_t most_readers = 1;
  for (uint64_t v = 0; v < own; ++v) most_readers = std::max(most_readers, by_vertex.degree(v));
  most_readers = most(most_readers);
  double seconds = 0;
  uint32_t rounds = 0;
  for (unsigned run = 0; run < o.repeat; ++run) {
    gravel_launch(start_colors, blocks_to_fill_device(), lanes_of_block, job, own + n_ghosts, lists[1].counts);
    wait_to_begin_together();
    const double took = seconds_of([&] {
      rounds = 0;
      for (const stage_of_colors& stage : stages)
        rounds += find_colors(job, stage, {lists[1], lists[2]}, net, most_readers, rounds);
    });
    seconds = run == 0 ? took : std::min(seconds, took);
  }

  net.check();
  // All vertices once more: who would have to choose again? And what the graph's own edges say.
  gravel_launch(clear_counts, 1, 32, lists[1].counts);
  gravel_launch(check, blocks_for(own * 16), lanes_of_block, gravel_handle(), job, lists[0], number_range{0, job.own},
                lists[1], 0u);
  gravel_synchronize();
  gravel_copy(counts, lists[1].counts, sizeof(counts));
  uint32_t excess = 0;
  gravel_copy(&excess, job.excess, sizeof(excess));
  uint64_t wrong = gravel_sum_all(uint64_t{counts[0]} + counts[1] + counts[2] + excess);
  const uint64_t block = most(own);
  std::vector<color> mine(block, uncolored);
  gravel_copy(mine.data(), job.colors, own * sizeof(color));
  uint64_t colors = 0;
  for (uint64_t i = 0; i < own; ++i) colors = std::max<uint64_t>(colors, uint64_t{mine[i]} + 1);
  colors = gravel_max_all(colors);
  {
    const worklist_graph here{p.graph.offsets.data(), p.graph.targets.data(), ghosts.data(), part.codes, own, n_ghosts};
    const std::vector<uint32_t> wide(mine.begin(), mine.end());
    device_array<uint32_t> own_colors(wide);
    words_of_all<uint32_t> words(here);
    words.fetch(own_colors.data());
    device_array<uint64_t> conflicts(std::vector<uint64_t>(1));
    launch_for(own, count_conflicts, here, static_cast<const uint32_t*>(words.words()), conflicts.data());
    gravel_synchronize();
    uint64_t found = 0;
    gravel_copy(&found, conflicts.data(), sizeof(found));
    wrong += gravel_sum_all(found);
  }
  const bool serial = !o.no_verify && edges <= o.serial_limit;
  uint32_t greedy = 0;
  if (serial) {
    std::vector<color> parts(block * static_cast<uint64_t>(n_pes));
    std::vector<uint64_t> names(block, 0), all_names(parts.size());
    std::copy(part.old_numbers.begin(), part.old_numbers.end(), names.begin());
    gravel_allgather(parts.data(), mine.data(), block);
    gravel_allgather(all_names.data(), names.data(), block);
    std::vector<color> of(vertices, uncolored);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i] != uncolored) of[all_names[i]] = parts[i];
    uint64_t unlike = 0;
    all_succeed(program_name, [&] {
      unlike = rows_unlike_host(p.graph, o.graph, rows_of_neighbours, me, n_pes);
      const edge_list graph = o.graph.edges({.undirected = true});
      for (const edge& e : graph.edges) wrong += e.source != e.target && of[e.source] == of[e.target];
      for (const color c : of) wrong += c == uncolored;
      csr whole = make_csr(graph);
      simplify(whole);
      greedy = count_greedy(whole);
    });
    wrong += gravel_sum_all(unlike);
  }
  const bool right = wrong == 0 && colors <= 2 * highest + 1;
  if (me == 0) {
    std::printf("%.4f s, %.4g M neighbours/s, %u rounds in %zu stages; %llu colours, %llu mistakes\n", seconds,
                static_cast<double>(edges) / seconds / 1e6, rounds, stages.size(),
                static_cast<unsigned long long>(colors), static_cast<unsigned long long>(wrong));
    if (serial) std::printf("serial greedy colouring takes %u colours\n", greedy);
  }
  if (!o.dump.empty()) {
    const ids_by_code id_of(part);
    std::vector<uint32_t> targets(p.graph.edges);
    gravel_copy(targets.data(), p.graph.targets.data(), targets.size() * sizeof(uint32_t));
    column from{"vertex", {}}, to{"neighbour", {}};
    const std::vector<uint64_t> ids = part.own_ids();
    for (uint64_t v = 0; v < own; ++v)
      for (uint64_t e = rows.offsets[v]; e < rows.offsets[v + 1]; ++e) {
        from.numbers.push_back(ids[v]);
        to.numbers.push_back(targets[e] < own ? ids[targets[e]] : id_of(ghost_vertices.codes[targets[e] - own]));
      }
    dump_columns(program_name, o.dump, "edges", {from, to});
    mine.resize(own);
    dump_columns(program_name, o.dump, "colors", {{"vertex", {}, ids}, {"color", {mine.begin(), mine.end()}}});
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"graph", o.graph.description()},
                             {"vertices", vertices},
                             {"neighbours", edges},
                             {"load_seconds", p.graph.seconds},
                             {"division", o.graph.division},
                             {"model", o.network.name},
                             {"ghosts", all_ghosts},
                             {"remote_edges", remote_edges},
                             {"rounds", uint64_t{rounds}},
                             {"stages", uint64_t{stages.size()}},
                             {"seconds", seconds},
                             {"colors", colors},
                             {"compared_with_serial", serial},
                             {"colors_of_greedy", uint64_t{greedy}},
                             {"wrong", wrong},
                             {"right", right}});
  return right;
}

void color_options::add_options(command_line& line) {
  graph.add_options(line);
  network.add_options(line);
  line.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1, 1000).capture_default_str();
  line.add_flag("--one-stage", one_stage, "With --division degrees: all vertices choose at once");
  line.add_flag("--no-verify", no_verify, "Do not check the result against the graph's edges, one by one");
  line.add_option("--serial-limit", serial_limit, "Check so for up to so many neighbours").capture_default_str();
}
void color_options::check() {
  graph.check();
  network.prepare();
}
uint64_t color_options::symmetric_bytes() const {
  return 64 * graph.vertices_of_generated() + network.symmetric_bytes();
}
void color_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application(
      {program_name, "Colours the vertices of a graph so that neighbours differ. Directions of edges do not matter."},
      argc, argv, color_options{}, solve);
}
