// PageRank by power iteration. A vertex's rank is summed up from what leads to it, by the PE that owns it. What other
// PEs' vertices contribute lies beside the PE's own contributions, in ghosts: in each step every PE puts the
// contribution of a vertex, once, to each PE that reads it, however many edges lead there. No atomics, and sums in a
// fixed order. Undirected graphs with hubs are ranked by one kernel (gravel_ranks), where job and graph suit it.
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/model.hpp"
#include "bench/rivals/no_sender.hpp"
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/ghost_readers.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/ranking.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "lib/worklist/ranks.cuh"

using namespace app;
using gravel::csr;
using gravel::device_array;
using gravel::launch_alone;
using gravel::make_csr;
using gravel::mapped_sender;
using gravel::simplify;
using gravel::vertex_code;

constexpr const char* program_name = "pagerank";
/// Rows are summed up by one lane up to this many edges, by 8, by a warp; longer ones by a block.
constexpr uint64_t lane_row = 16, tile_row = 256, warp_row = 8192;
constexpr unsigned gather_lanes = GRAVEL_CUDA ? 256 : 32;

struct pagerank_options {
  graph_input graph;
  model_options network;
  double damping = 0.85, tolerance = 1e-6;
  uint32_t max_steps = 1000, top = 10;
  bool no_verify = false, compare = false;
  std::string method = "automatic", json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// This PE's part, in device memory.
struct rank_job {
  const uint64_t* offsets;
  const uint32_t* sources;              ///< of edges to row v, indices into `contribution`
  const uint32_t* order;                ///< all rows, shortest first
  uint64_t tiles, warps, blocks, rows;  ///< where in `order` rows for 8 lanes, a warp, a block begin; and the end
  uint64_t vertices;                    ///< of the whole graph
  float damping;
  float* rank;
  float* inverse_degree;  ///< 1 / edges that leave the vertex; 0: none do
  uint32_t* degree;       ///< symmetric; the same as a number
  float* contribution;    ///< symmetric: of own vertices, then of ghosts
  uint64_t* requests;  ///< symmetric: which own vertex (high half) is ghost (low half) where; those of one PE together
  const uint64_t*
      request_end;  ///< of the PEs me + 1, me + 2, ... in turn, where in `requests` theirs end (ghost_readers)
  double* sums;     ///< symmetric, two: how much ranks change, rank of vertices that no edge leaves
};

/// Adds what each lane of the grid has to *sum.
GRAVEL_DEVICE void add_to_sum(double* sum, double mine) {
  for (int step = 16; step; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0 && mine != 0) atomicAdd(sum, mine);
}

/// How many edges lead from each own vertex and each ghost to a row here.
__global__ void count_uses(const uint32_t* sources, uint64_t edges, uint32_t* uses) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < edges; e += lanes)
    atomicAdd(&uses[sources[e]], 1u);
}

/// Adds, at the owner of each vertex, the number of its edges that this PE has seen. `uses` has these numbers: first of
/// own vertices, then of ghosts.
__global__ void count_degrees(gravel_t g, rank_job job, vertex_code codes, const uint32_t* ghosts, const uint32_t* uses,
                              uint64_t n_ghosts) {
  __shared__ gravel_block_sender<lanes_of_block> sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t v = lane; v < job.rows; v += lanes)
    if (uses[v]) sender.add(&job.degree[v], uses[v], static_cast<int>(g.my_pe));
  for (uint64_t k = lane; k < n_ghosts; k += lanes)
    sender.add(&job.degree[codes.place(ghosts[k])], uses[job.rows + k], codes.owner(ghosts[k]));
  sender.end();
}

__global__ void start_ranks(rank_job job) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  const float rank = 1.0f / static_cast<float>(job.vertices);
  double dangling = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < job.rows; v += lanes) {
    job.rank[v] = rank;
    job.inverse_degree[v] = job.degree[v] ? 1.0f / static_cast<float>(job.degree[v]) : 0;
    if (!job.degree[v]) dangling += rank;
  }
  add_to_sum(&job.sums[1], dangling);
}

/// Those of requests first ... first + count; and this PE's own ones, in the first launch.
template <class Sender, class Handle>
__global__ void send_contributions(Handle g, rank_job job, uint64_t first, uint64_t count) {
  __shared__ Sender sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (first == 0) {
    if (lane < 2) job.sums[lane] = 0;
    for (uint64_t v = lane; v < job.rows; v += lanes) job.contribution[v] = job.rank[v] * job.inverse_degree[v];
  }
  // All PEs begin with the next one, so that not all send to one at the same time.
  uint32_t turn = 0;
  for (uint64_t i = first + lane; i < first + count; i += lanes) {
    while (i >= job.request_end[turn]) ++turn;
    const uint32_t pe = g.my_pe + 1 + turn, place = static_cast<uint32_t>(job.requests[i] >> 32),
                   ghost = static_cast<uint32_t>(job.requests[i]);
    sender.put(&job.contribution[ghost], job.rank[place] * job.inverse_degree[place],
               static_cast<int>(pe < g.n_pes ? pe : pe - g.n_pes));
  }
  sender.end();
}

/// One lane's share of the sums.
struct step_sums {
  double change = 0, dangling = 0;
};

GRAVEL_DEVICE void set_rank(const rank_job& job, float base, uint32_t row, float sum, step_sums& sums) {
  const float before = job.rank[row], now = base + job.damping * sum;
  job.rank[row] = now;
  sums.change += fabsf(now - before);
  if (job.inverse_degree[row] == 0) sums.dangling += now;
}

/// What the edges of `row` bring, each `stride`-th of them; four at a time, as each waits for memory.
GRAVEL_DEVICE float sum_edges(const rank_job& job, uint32_t row, unsigned first, unsigned stride) {
  float sum = 0;
  const uint64_t end = job.offsets[row + 1];
  uint64_t e = job.offsets[row] + first;
  // Sources are read once, contributions stay in caches.
  const auto bring = [&](uint64_t edge) { return __ldg(&job.contribution[__ldcs(&job.sources[edge])]); };
  for (; e + 3 * stride < end; e += 4 * stride)
    sum += (bring(e) + bring(e + stride)) + (bring(e + 2 * stride) + bring(e + 3 * stride));
  for (; e < end; e += stride) sum += bring(e);
  return sum;
}

/// Rows order[begin] to order[end], each by WIDTH lanes.
template <unsigned WIDTH>
GRAVEL_DEVICE void sum_rows(const rank_job& job, float base, uint64_t begin, uint64_t end, step_sums& sums) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // The lanes of a warp make the same number of rounds: all take part in each shuffle.
  for (uint64_t of_warp = begin + lane / 32 * (32 / WIDTH); of_warp < end; of_warp += lanes / WIDTH) {
    const uint64_t at = of_warp + lane % 32 / WIDTH;
    const uint32_t row = at < end ? job.order[at] : 0;
    float sum = at < end ? sum_edges(job, row, static_cast<unsigned>(lane % WIDTH), WIDTH) : 0;
    for (unsigned step = WIDTH / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, static_cast<int>(step));
    if (at < end && lane % WIDTH == 0) set_rank(job, base, row, sum, sums);
  }
}

/// `base`: what each vertex has whatever leads to it. Blocks have whole warps.
__global__ void __launch_bounds__(gather_lanes) sum_up(rank_job job, float base) {
  __shared__ float of_warp[gather_lanes / 32];
  step_sums sums;
  for (uint64_t at = job.blocks + blockIdx.x; at < job.rows; at += gridDim.x) {  // the longest first
    float sum = sum_edges(job, job.order[at], threadIdx.x, blockDim.x);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      sum = 0;
      for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += of_warp[w];
      set_rank(job, base, job.order[at], sum, sums);
    }
    __syncthreads();
  }
  sum_rows<32>(job, base, job.warps, job.blocks, sums);
  sum_rows<8>(job, base, job.tiles, job.warps, sums);
  sum_rows<1>(job, base, 0, job.tiles, sums);
  add_to_sum(&job.sums[0], sums.change);
  add_to_sum(&job.sums[1], sums.dangling);
}

/// The rank of vertices that no edge leaves.
__global__ void sum_dangling(rank_job job, double* sum) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  double mine = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < job.rows; v += lanes)
    if (!job.degree[v]) mine += job.rank[v];
  add_to_sum(sum, mine);
}

/// How far ranks, whose contributions are sent, are from what they should be by the definition: row by row, in double.
__global__ void find_residual(rank_job job, double base, double* residual) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32,
                 warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  double mine = 0;
  for (uint64_t row = warp; row < job.rows; row += warps) {
    double sum = 0;
    for (uint64_t e = job.offsets[row] + threadIdx.x % 32; e < job.offsets[row + 1]; e += 32)
      sum += job.contribution[job.sources[e]];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) mine += fabs(base + job.damping * sum - job.rank[row]);
  }
  add_to_sum(residual, mine);
}

/// The ranks of the whole graph under its own numbers, in double and from edges alone; until they change by less than
/// 1e-12.
std::vector<double> compute_serially(const pagerank_options& o) {
  csr graph = make_csr(o.graph.edges({}));
  if (o.graph.simple) simplify(graph);
  const auto n = static_cast<double>(graph.rows());
  std::vector<double> rank(graph.rows(), 1 / n), next(graph.rows());
  for (int step = 0; step < 10000; ++step) {
    double dangling = 0, change = 0;
    for (uint64_t v = 0; v < graph.rows(); ++v) dangling += graph.degree(v) ? 0 : rank[v];
    std::fill(next.begin(), next.end(), (1 - o.damping + o.damping * dangling) / n);
    for (uint64_t v = 0; v < graph.rows(); ++v)
      for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
        next[graph.targets[e]] += o.damping * rank[v] / static_cast<double>(graph.degree(v));
    for (uint64_t v = 0; v < graph.rows(); ++v) change += std::abs(next[v] - rank[v]);
    rank.swap(next);
    if (change < 1e-12) break;
  }
  return rank;
}

struct pagerank_result {
  uint32_t steps = 0;
  double seconds = 0, change = 1, sum = 0, residual = 0, distance = 0;
  bool serial = false, right = false;
};

constexpr graph_wish rows_of_sources{.reversed = true};

/// What load_on_device() gives, and the rows by length.
struct prepared {
  device_part graph;
  std::vector<uint32_t> order;
  uint64_t tiles = 0, warps = 0, blocks = 0;
};

prepared prepare(const pagerank_options& o, int me, int n_pes) {
  prepared p;
  p.graph = load_on_device(o.graph, rows_of_sources, me, n_pes);
  const csr& rows = p.graph.part.rows;
  for (const auto& [least, most, begin] : {std::tuple<uint64_t, uint64_t, uint64_t*>{0, lane_row, &p.tiles},
                                           {lane_row + 1, tile_row, &p.warps},
                                           {tile_row + 1, warp_row, &p.blocks},
                                           {warp_row + 1, ~uint64_t{0}, nullptr}}) {
    for (uint64_t v = 0; v < rows.rows(); ++v)
      if (rows.degree(v) >= least && rows.degree(v) <= most) p.order.push_back(static_cast<uint32_t>(v));
    if (begin) *begin = p.order.size();
  }
  return p;
}

/// All between gravel_init and gravel_finalize. Collective.
bool rank_vertices(const pagerank_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  prepared p;
  all_succeed(program_name, [&] { p = prepare(o, me, n_pes); });
  const graph_part& part = p.graph.part;
  const uint64_t own = p.graph.own(), n_ghosts = p.graph.ghosts.codes.size();
  const uint64_t edges = gravel_sum_all(p.graph.edges), all_ghosts = gravel_sum_all(n_ghosts);
  const uint64_t remote_edges = gravel_sum_all(p.graph.ghosts.uses);
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges, in memory after %.2f s; %llu "
        "contributions a step go to "
        "other PEs\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(part.vertices), static_cast<unsigned long long>(edges), p.graph.seconds,
        static_cast<unsigned long long>(all_ghosts));
  std::fflush(stdout);

  const auto most = [](uint64_t count) { return std::max<uint64_t>(gravel_max_all(count), 1); };
  const ghost_readers readers = find_readers(p.graph.ghosts, part.codes, own);
  device_array<uint64_t> ends(readers.end);
  device_array<uint32_t> order(p.order), uses(std::vector<uint32_t>(own + n_ghosts)), ghosts(p.graph.ghosts.codes);
  rank_job job{};
  job.offsets = p.graph.offsets.data();
  job.sources = p.graph.targets.data();
  job.order = order.data();
  job.request_end = ends.data();
  job.tiles = p.tiles;
  job.warps = p.warps;
  job.blocks = p.blocks;
  job.rows = own;
  job.vertices = part.vertices;
  job.damping = static_cast<float>(o.damping);
  const uint64_t places = most(own);
  job.rank = gravel_malloc<float>(places * sizeof(float));
  job.inverse_degree = gravel_malloc<float>(places * sizeof(float));
  job.degree = gravel_malloc<uint32_t>(places * sizeof(uint32_t));
  job.contribution = gravel_malloc<float>(most(own + n_ghosts) * sizeof(float));
  job.requests = readers.requests;
  job.sums = gravel_malloc<double>(2 * sizeof(double));
  network_model net(program_name, o.network);
  const auto send = n_pes == 1        ? send_contributions<no_sender, gravel_t>
                    : net.is_mapped() ? send_contributions<mapped_sender, gravel_t>
                    : n_pes > 2       ? send_contributions<gravel_block_sender<lanes_of_block, 1024, 3>, gravel_t>
                                      : send_contributions<gravel_block_sender<lanes_of_block>, gravel_t>;
  const network_work contributions{.items = readers.count(),
                                   .blocks = blocks_for(own + readers.count()),
                                   .of_item = 1,
                                   .of_item_to_one = 1,
                                   .message_bytes = bytes_of(update_kind(op::put, value_type::f32)),
                                   .mapped = net.is_mapped()};
  gravel_launch(count_uses, blocks_for(p.graph.edges), lanes_of_block, job.sources, p.graph.edges, uses.data());
  gravel_launch(count_degrees, blocks_for(own + n_ghosts), lanes_of_block, gravel_handle(), job, part.codes,
                ghosts.data(), uses.data(), n_ghosts);
  gravel_barrier_all();
  gravel_launch(start_ranks, blocks_to_fill_device(), gather_lanes, job);
  gravel_synchronize();
  const auto read_sums = [&] {
    double sums[2] = {};
    const auto of_all = net.rendezvous().gather(job.sums, 2);
    for (size_t i = 0; i < of_all.size(); ++i) sums[i % 2] += from_word<double>(of_all[i]);
    return std::pair(sums[0], sums[1]);
  };

  pagerank_result result;
  std::vector<double> changes;
  double dangling = read_sums().second;
  const auto vertices = static_cast<double>(job.vertices);
  progress report(program_name, me == 0);
  std::optional<gravel_ranks> kernel;
  std::string refusal;
  double table_seconds = 0;
  if (o.method == "kernel" || (o.method == "automatic" && o.graph.undirected)) {
    const gravel::detail::worklist_graph here{job.offsets, job.sources, ghosts.data(), part.codes, own, n_ghosts};
    table_seconds = seconds_of([&] { kernel.emplace(here, p.graph.edges); });
    refusal = kernel->refusal();
    if (!kernel->fits()) kernel.reset();
    all_succeed(program_name, [&] {
      if (!kernel && o.method == "kernel") fail_text("--method kernel: " + refusal);
    });
  }
  const auto iterate_by_rows = [&] {
    while (result.change >= o.tolerance && result.steps < o.max_steps) {
      net.launch(send, send_contributions<model_sender, model_handle>, contributions, job);
      net.rendezvous().round();  // all contributions are where they are read
      launch_alone(sum_up, {.grid = 6 * blocks_to_fill_device(), .block = gather_lanes}, job,
                   static_cast<float>((1 - o.damping + o.damping * dangling) / vertices));
      // No PE gets the sums before all have read their contributions, so the next ones may come.
      std::tie(result.change, dangling) = read_sums();
      report.at(++result.steps, o.max_steps);
      changes.push_back(result.change);
    }
  };
  const auto rate_of = [&](const pagerank_result& of) {
    return static_cast<double>(edges) * of.steps / of.seconds / 1e6;
  };
  gravel_barrier_all();
  if (!kernel || o.compare) result.seconds = seconds_of(iterate_by_rows);
  if (kernel) {
    if (o.compare && me == 0)
      std::printf("by rows: %u steps in %.4f s, %.4g M edges/s\n", result.steps, result.seconds, rate_of(result));
    const gravel_ranks_options how{.damping = o.damping, .tolerance = o.tolerance, .most_steps = o.max_steps};
    kernel->run(how);
    gravel_barrier_all();
    result.seconds = seconds_of([&] { result.steps = kernel->run(how); });
    result.change = kernel->log().change;
    changes.assign(1, result.change);
    gravel_copy(job.rank, kernel->ranks(), own * sizeof(float));
    const double none[2] = {};
    gravel_copy(job.sums, none, sizeof(none));
    gravel_barrier_all();
    gravel_launch(sum_dangling, blocks_to_fill_device(), gather_lanes, job, &job.sums[1]);
    gravel_synchronize();
    dangling = read_sums().second;
  }

  net.check();
  // Once more the contributions, and what should come of them: no rank is written.
  net.launch(send, send_contributions<model_sender, model_handle>, contributions, job);
  gravel_barrier_all();
  gravel_launch(find_residual, blocks_to_fill_device(), gather_lanes, job,
                (1 - o.damping + o.damping * dangling) / vertices, &job.sums[0]);
  gravel_synchronize();
  result.residual = read_sums().first;
  std::vector<float> rank(own);
  gravel_copy(rank.data(), job.rank, own * sizeof(float));
  result.sum = gravel_sum_all(std::accumulate(rank.begin(), rank.end(), 0.0));
  // Another step would change less than the last one; and ranks are float.
  result.right = result.change < o.tolerance && result.residual < o.tolerance + 1e-6 && std::abs(result.sum - 1) < 1e-4;
  result.serial = !o.no_verify && edges <= o.serial_limit;
  if (result.serial) {
    std::vector<double> expected;
    uint64_t unlike = 0;
    all_succeed(program_name, [&] {
      unlike = rows_unlike_host(p.graph, o.graph, rows_of_sources, me, n_pes);
      expected = compute_serially(o);
    });
    result.right &= gravel_sum_all(unlike) == 0;
    double distance = 0;
    for (uint64_t i = 0; i < own; ++i) distance += std::abs(rank[i] - expected[part.old_numbers[i]]);
    result.distance = gravel_sum_all(distance);
    // Later steps together change no more than the last one times d + d^2 + ...; and ranks are float.
    result.right &= result.distance < o.tolerance * o.damping / (1 - o.damping) + 1e-6;
  }
  std::vector<ranked<double>> scores;
  for (uint64_t i = 0; i < own; ++i) scores.push_back({rank[i], part.old_numbers[i]});
  const auto best = gather_best(std::move(scores), o.top);
  if (me == 0) {
    if (kernel) {
      const gravel::detail::ranks_log& log = kernel->log();
      const auto us = [&](uint64_t ns) { return static_cast<double>(ns) * 1e-3 / std::max(log.steps, 1u); };
      std::printf(
          "in one kernel: %.1f us a step, of them %.1f us edges, %.1f us sums, %.1f us rendezvous and hubs; %.1f %% of "
          "the "
          "edges in tiles; tables made in %.3f s\n",
          us(log.ns), us(log.tiles_ns), us(log.sums_ns), us(log.rendezvous_ns), kernel->share_in_tiles() * 100,
          table_seconds);
    }
    if (!refusal.empty()) std::printf("by rows: %s\n", refusal.c_str());
    std::printf("%u steps in %.4f s, %.4g M edges/s; the last one changed %.3g; residual %.3g, ranks sum up to %.7f\n",
                result.steps, result.seconds, rate_of(result), result.change, result.residual, result.sum);
    if (result.serial) std::printf("distance to a serial power iteration: %.3g\n", result.distance);
    for (const auto& r : best)
      std::printf("%12.9f  vertex %llu\n", r.score, static_cast<unsigned long long>(part.ids.of(r.vertex)));
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"graph", o.graph.description()},
                             {"vertices", job.vertices},
                             {"edges", edges},
                             {"load_seconds", p.graph.seconds},
                             {"division", o.graph.division},
                             {"model", o.network.name},
                             {"ghosts", all_ghosts},
                             {"remote_edges", remote_edges},
                             {"steps", uint64_t{result.steps}},
                             {"seconds", result.seconds},
                             {"method", kernel ? "kernel" : "rows"},
                             {"tables_seconds", table_seconds},
                             {"edges_per_s", static_cast<double>(edges) * result.steps / result.seconds},
                             {"change", result.change},
                             {"residual", result.residual},
                             {"sum", result.sum},
                             {"compared_with_serial", result.serial},
                             {"distance_to_serial", result.distance},
                             {"right", result.right}});
  if (!o.dump.empty()) {
    dump_columns(program_name, o.dump, "ranks", {{"vertex", {}, part.own_ids()}, {"rank", {rank.begin(), rank.end()}}});
    if (me != 0) changes.clear();
    dump_columns(program_name, o.dump, "steps", {{"change", changes}});
  }
  return result.right;
}

void pagerank_options::add_options(command_line& line) {
  graph.add_options(line);
  network.add_options(line);
  line.add_option("--damping", damping, "Share of a rank that goes on along edges")
      .range(0.0, 0.999)
      .capture_default_str();
  line.add_option("--tolerance", tolerance, "End when all ranks together change by less")
      .range(1e-7, 1.0)
      .capture_default_str();
  line.add_option("--max-steps", max_steps, "More steps are a failure").range(1, 1000000).capture_default_str();
  line.add_option("--top", top, "Print so many vertices of the highest ranks").range(0, 100000).capture_default_str();
  line.add_option("--method", method,
                  "One kernel for all steps; rows, one kernel and messages a step; automatic: the former for an "
                  "undirected graph, where job and graph suit it, else the latter")
      .one_of({"automatic", "kernel", "rows"})
      .capture_default_str();
  line.add_flag("--compare", compare, "Also measure the other method, if the kernel is taken");
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial power iteration");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void pagerank_options::check() {
  graph.check();
  if (method == "kernel" && !graph.undirected)
    fail_text("--method kernel is for undirected graphs: use --undirected, too");
  network.prepare();
}
uint64_t pagerank_options::symmetric_bytes() const {
  const uint64_t vertices = graph.vertices_of_generated();
  return 24 * vertices + (graph.undirected && vertices ? gravel_ranks::symmetric_bytes(vertices, 1) : 0) +
         network.symmetric_bytes();
}
void pagerank_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application(
      {program_name, "PageRank of a directed graph by power iteration, until ranks change by less than a tolerance."},
      argc, argv, pagerank_options{}, rank_vertices);
}
