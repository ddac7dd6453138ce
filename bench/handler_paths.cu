// Shortest paths by a handler that relaxes a vertex and sends on to its neighbours, in two forms: how many messages
// handlers send a second. The graph is R-MAT with random weights. Only the memory that Gravel has for messages bounds
// the messages in flight.
#include <chrono>
#include <cstdio>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/graph.hpp>
#include <gravel/gravel.cuh>
#include "bench/perf/report.hpp"
#include "examples/common/lane_share.hpp"
#include "examples/common/program.hpp"
#include "examples/common/together.hpp"
#include "lib/base/mix.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "handler_paths";
constexpr uint32_t unreached = ~0u;

/// This PE's part of the graph and of the result, in device memory.
struct part {
  block_distribution map{1, 1};
  const uint64_t* offsets;
  const uint32_t* targets;  ///< numbers of the whole graph
  uint32_t* distance;       ///< symmetric, map.block of them
  uint64_t* relaxed;        ///< messages that arrived
  uint32_t max_weight;

  GRAVEL_BOTH uint32_t weight(uint64_t source, uint64_t target) const {
    return 1 + pick(mix(source << 32 ^ target), max_weight);
  }
  GRAVEL_DEVICE void count(const lane_group& group) const {
    if (group.is_leader())
      fetch_add<scope::device>(&relaxed[(threadIdx.x / 32 + blockIdx.x * 16) % 64 * 8], uint64_t{group.size()});
  }
  /// True if this is the shortest way to `vertex` so far.
  GRAVEL_DEVICE bool improve(uint32_t vertex, uint32_t distance_to_it) const {
    return distance_to_it < atomicMin(&distance[vertex], distance_to_it);
  }
  /// Sends on over edge `e` of `vertex`.
  template <class Handler>
  GRAVEL_DEVICE void send_on(const gravel_t& g, uint32_t vertex, uint32_t distance_to_it, uint64_t e) const {
    const uint32_t target = targets[e];
    const int owner =
        static_cast<int>(target / static_cast<uint32_t>(map.block));  // shorter than a division of 64 bits
    gravel_am<Handler>(g, owner, static_cast<uint32_t>(target - map.first(owner)),
                       distance_to_it + weight(map.first(static_cast<int>(g.my_pe)) + vertex, target));
  }
};

/// Each lane sends over the edges of its vertex: a vertex with many edges keeps one lane busy, and 31 waiting.
struct relax_vertex {
  static constexpr const char* name = "relax_vertex";
  using context = part;
  GRAVEL_HANDLER void operator()(const gravel_t& g, part* mine, uint32_t vertex, uint32_t distance) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    const part p = *mine;
    p.count(lane_group::active_to_count());
    if (!p.improve(vertex, distance)) return;
    const uint64_t end = p.offsets[vertex + 1];
    for (uint64_t e = p.offsets[vertex]; e < end; ++e) p.send_on<relax_vertex>(g, vertex, distance, e);
#endif
  }
};

/// The lanes that hold messages send over the edges of vertices with many of them together.
struct relax_vertices {
  static constexpr const char* name = "relax_vertices";
  static constexpr bool batch = true;
  using context = part;
  GRAVEL_HANDLER void operator()(const gravel_t& g, part* mine, const gravel_batch& lanes, uint32_t vertex,
                                 uint32_t distance) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    const part p = *mine;
    p.count(lanes);
    uint64_t begin = 0, end = 0;
    if (p.improve(vertex, distance)) {
      begin = p.offsets[vertex];
      end = p.offsets[vertex + 1];
    }
    for (uint32_t rest = lanes.ballot(end - begin >= lanes.size()); rest; rest &= rest - 1) {
      const uint32_t of = lane_group::lowest(rest), from = lanes.from_lane(vertex, of),
                     way = lanes.from_lane(distance, of);
      const uint64_t last = lanes.from_lane(end, of);
      for (uint64_t e = lanes.from_lane(begin, of) + lanes.rank(); e < last; e += lanes.size())
        p.send_on<relax_vertices>(g, from, way, e);
      if (lanes.lane() == of) begin = end;
      lanes.sync();
    }
    for (uint64_t e = begin; e < end; ++e) p.send_on<relax_vertices>(g, vertex, distance, e);
#endif
  }
};

template <class Handler>
__global__ void start_at(gravel_t g, block_distribution map, uint64_t source) {
  if (threadIdx.x == 0) gravel_am<Handler>(g, map.owner(source), static_cast<uint32_t>(map.local_index(source)), 0u);
}
__global__ void fill(uint32_t* words, uint64_t count, uint32_t value) {
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; ++i) words[i] = value;
}

/// Checks every edge of this PE against the distances of the whole graph: none is too long, and whose end is reached by
/// it is noted at its owner. Weights are positive, so a vertex that no edge reaches has a wrong distance.
__global__ void check_edges(gravel_t g, part p, const uint32_t* all, uint32_t* reached, uint64_t* wrong) {
  const uint64_t first = p.map.first(static_cast<int>(g.my_pe)), count = p.map.count(static_cast<int>(g.my_pe));
  const lane_share mine(count);
  for (uint64_t v = mine.first; v < mine.last; ++v) {
    const uint32_t from = all[first + v];
    if (from == unreached) continue;
    for (uint64_t e = p.offsets[v]; e < p.offsets[v + 1]; ++e) {
      const uint32_t target = p.targets[e], way = from + p.weight(first + v, target);
      if (all[target] > way) fetch_add<scope::device>(wrong, uint64_t{1});
      if (all[target] == way) gravel_put(g, &reached[p.map.local_index(target)], 1u, p.map.owner(target));
    }
  }
}
__global__ void check_vertices(gravel_t g, part p, const uint32_t* all, const uint32_t* reached, uint64_t source,
                               uint64_t* wrong) {
  const uint64_t first = p.map.first(static_cast<int>(g.my_pe));
  const lane_share mine(p.map.count(static_cast<int>(g.my_pe)));
  for (uint64_t v = mine.first; v < mine.last; ++v) {
    const uint32_t d = all[first + v];
    bool right;
    if (first + v == source) right = d == 0;
    else right = d == unreached ? reached[v] == 0 : reached[v] != 0;
    if (!right) fetch_add<scope::device>(wrong, uint64_t{1});
  }
}
__global__ void send_distances(gravel_t g, part p, uint32_t* all) {
  const uint64_t first = p.map.first(static_cast<int>(g.my_pe)), count = p.map.count(static_cast<int>(g.my_pe));
  if (count) gravel_put_bulk(g, all + first, p.distance, count * sizeof(uint32_t), static_cast<int>(blockIdx.x));
}

int main(int argc, char** argv) {
  int scale = 12, repeat = 3;
  uint64_t edges_per_vertex = 16, seed = 1;
  uint32_t max_weight = 255;
  std::string json, handler = "warp";
  command_line app("Shortest paths by a handler that relaxes and sends on: the rate of messages that handlers send.",
                   program_name);
  app.add_option("--scale", scale, "Vertices of the R-MAT graph, as a power of two").range(1, 30).capture_default_str();
  app.add_option("--edges-per-vertex", edges_per_vertex, "Edges of a vertex on average")
      .range(1, 64)
      .capture_default_str();
  app.add_option("--max-weight", max_weight, "Weights are from 1 to this; 1: as a breadth-first search")
      .range(1u, 1u << 20)
      .capture_default_str();
  app.add_option("--seed", seed, "Of graph and source").capture_default_str();
  app.add_option("--repeat", repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_option("--handler", handler,
                 "Lanes that send over the edges of a vertex: its own, or with many edges all lanes of the warp that "
                 "hold messages")
      .one_of({"lane", "warp"})
      .capture_default_str();
  app.add_option("--json", json, "File for the results");
  const uint64_t vertices = [&] {
    parse_or_exit(app, argc, argv, [&] {
      if (!json.empty()) need_writable(json);
      need_symmetric((uint64_t{4} << scale) * 3 + (64 << 10));
    });
    return uint64_t{1} << scale;
  }();

  gravel_init<relax_vertex, relax_vertices>();
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  part p;
  p.map = block_distribution(vertices, n_pes);
  p.max_weight = max_weight;
  csr rows;
  all_succeed(program_name, [&] { rows = make_csr(rmat(scale, edges_per_vertex, seed, {me, n_pes}), me, n_pes); });
  const std::vector<uint32_t> narrow(rows.targets.begin(), rows.targets.end());
  device_array<uint64_t> offsets(rows.offsets);
  device_array<uint32_t> targets(narrow);
  auto* all = gravel_malloc<uint32_t>(vertices * sizeof(uint32_t));
  auto* reached = gravel_malloc<uint32_t>(p.map.block * sizeof(uint32_t));
  p.distance = gravel_malloc<uint32_t>(p.map.block * sizeof(uint32_t));
  auto* counts = gravel_malloc<uint64_t>(65 * 64);  // 64 lines of arrivals, then mistakes
  auto* here = gravel_malloc<part>(sizeof(part));
  p.offsets = offsets.data();
  p.targets = targets.data();
  p.relaxed = counts;
  gravel_copy(here, &p, sizeof(p));
  gravel_set_context<relax_vertex>(here);
  gravel_set_context<relax_vertices>(here);
  // A source with neighbours.
  const uint64_t candidate = gravel_min_all([&]() -> uint64_t {
    for (uint64_t v = 0; v + 1 < rows.offsets.size(); ++v)
      if (rows.offsets[v] != rows.offsets[v + 1]) return p.map.first(me) + v;
    return ~uint64_t{0};
  }());
  const uint64_t source = candidate == ~uint64_t{0} ? 0 : candidate;

  const unsigned grid = GRAVEL_CUDA ? blocks_to_fill_device() : 4, block = lanes_of_block;
  std::vector<double> seconds;
  uint64_t messages = 0, wrong = 0;
  std::vector<uint64_t> zeros(65 * 8);
  for (int run = 0; run < repeat; ++run) {
    gravel_copy(counts, zeros.data(), 65 * 64);
    gravel_launch(fill, grid, block, p.distance, p.map.block, unreached);
    gravel_launch(fill, grid, block, reached, p.map.block, 0u);
    gravel_launch(fill, grid, block, all, vertices, 0xA5A5A5A5u);
    gravel_barrier_all();
    const auto begin = std::chrono::steady_clock::now();
    if (me == 0)
      gravel_launch(handler == "warp" ? start_at<relax_vertices> : start_at<relax_vertex>, 1, 32, gravel_handle(),
                    p.map, source);
    gravel_wait_quiescent();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    gravel_launch(send_distances, static_cast<unsigned>(n_pes), block, gravel_handle(), p, all);
    gravel_barrier_all();
    gravel_launch(check_edges, grid, block, gravel_handle(), p, all, reached, counts + 64 * 8);
    gravel_barrier_all();
    gravel_launch(check_vertices, grid, block, gravel_handle(), p, all, reached, source, counts + 64 * 8);
    gravel_barrier_all();
    std::vector<uint64_t> words(65 * 8);
    gravel_copy(words.data(), counts, 65 * 64);
    messages = 0;
    for (int line = 0; line < 64; ++line) messages += words[static_cast<size_t>(line) * 8];
    messages = gravel_sum_all(messages);
    wrong += gravel_sum_all(words[64 * 8]);
    if (me == 0)
      std::printf("%s: scale %d, %d PEs: %.4f s, %llu messages, %.1f M/s per PE, %llu wrong so far\n", program_name,
                  scale, n_pes, seconds.back(), static_cast<unsigned long long>(messages),
                  static_cast<double>(messages) / seconds.back() / n_pes / 1e6, static_cast<unsigned long long>(wrong));
    std::fflush(stdout);
  }
  {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const double took = sorted[sorted.size() / 2];
    std::string command = program_name;
    for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
    perf::report r(me == 0, command, json);
    r.fact("hardware", current_backend().describe());
    r.fact("pes", static_cast<uint64_t>(n_pes));
    r.title("handler_paths", "messages of handlers, per PE; the last run's");
    r.row({{"handler", "handler", handler},
           {"scale", "scale", static_cast<uint64_t>(scale)},
           {"messages", "messages", messages},
           {"ms", "ms", took * 1e3},
           {"million_messages_per_s", "M msg/s", static_cast<double>(messages) / took / n_pes / 1e6}},
          {vertices * static_cast<uint64_t>(repeat), wrong});
    r.finish();
  }
  gravel_synchronize();
  offsets.release();
  targets.release();
  return finish(program_name, wrong == 0);
}
