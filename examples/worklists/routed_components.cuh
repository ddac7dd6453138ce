// Connected components through routers, as in Groute (TOPC 2020, section 5.1.4).
//
// Problem. Edges lie at some PEs, and all PEs are to work on them; each PE may be faster or slower than the others.
// Solution. A router scatters the edges of all PEs, in packets, to the PE that has room first. Each PE has a forest of
// all vertices, and hooks edges into it as they come: the higher root below the lower one. Then the forests are merged
// in pairs, with half of the PEs left after each step, until PE 0 has the forest of all edges: a chain router of two
// PEs streams the roots of one PE to the other, whose merge hooks them into its forest. A ring carries the names back.
//
// Invariants
// - A vertex is below a vertex of a lower code, or a root, so there is no circle, and a component's root is its least
//   vertex. A vertex that was above another one stays above it.
// - A PE sends its roots only when its forest is complete: a root that was sent never gets another root above it there.
//   Therefore the steps are not one reduction along a tree, in which a packet leaves before the next one has come.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <gravel/algorithms.cuh>
#include <gravel/device_array.hpp>
#include <gravel/link.cuh>

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::lane_group;
using gravel::scope;
using gravel::worklist_graph;
using gravel::detail::copy_words;
using gravel::detail::find_root;
using gravel::detail::flatten;
using gravel::detail::join;
using gravel::detail::launch_for;

/// An edge in 8 bytes: the codes of both ends.
struct coded_edge {
  uint32_t one, other;
};

/// Appends each edge to `edges`, in one direction. A warp takes a vertex at a time. Only counts if `edges` is null.
static __global__ void list_edges(const __grid_constant__ worklist_graph graph, uint32_t me, coded_edge* edges,
                                  uint64_t* count) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32;
  for (uint64_t v = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; v < graph.own; v += warps) {
    const uint32_t self = graph.codes.code(static_cast<int>(me), v);
    for (uint64_t e = graph.offsets[v] + threadIdx.x % 32; e < graph.offsets[v + 1]; e += 32) {
      const uint32_t target = graph.targets[e];
      const uint32_t other =
          target < graph.own ? graph.codes.code(static_cast<int>(me), target) : graph.ghosts[target - graph.own];
      if (other <= self) continue;  // the row of the other end has it, or it is a loop
      const lane_group group = lane_group::active();
      uint64_t at = 0;
      if (group.is_leader()) at = fetch_add<scope::device>(count, uint64_t{group.size()});
      at = group.from_leader(at) + group.rank();
      if (edges) edges[at] = {self, other};
    }
  }
}
static __global__ void plant_roots(uint32_t* forest, uint64_t vertices) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < vertices;
       v += uint64_t{gridDim.x} * blockDim.x)
    forest[v] = static_cast<uint32_t>(v);
}
static __global__ void hook_edges(const coded_edge* edges, uint64_t count, uint32_t* forest) {
  const uint64_t lane = threadIdx.x % 32, lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t of_warp = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane; of_warp < count; of_warp += lanes) {
    const coded_edge e = of_warp + lane < count ? edges[of_warp + lane] : coded_edge{0, 0};
    join(forest, e.one, e.other);
  }
}

/// The merge of two forests: what is above a vertex in one of them is joined with what is above it in the other one, in
/// `forest`. Thread scope: lane.
struct merge_forests {
  uint32_t* forest;

  GRAVEL_DEVICE void operator()(uint32_t& into, const uint32_t& from) const {
    uint32_t a = into, b = from;
    if (a != b) {
      a = find_root(forest, a);
      b = find_root(forest, b);
    }
    while (a != b) {
      const uint32_t high = a > b ? a : b, low = a > b ? b : a;
      const uint32_t above = atomicCAS(&forest[high], high, low);
      a = above == high ? low : find_root(forest, above);
      b = low;
    }
    into = b;
  }
};

/// Components of a graph that is divided among PEs. Host thread; all calls but names() and edges_taken() are
/// collective.
class routed_components {
 public:
  /// The graph's memory stays the caller's. Each edge is in the rows of both of its ends.
  explicit routed_components(const worklist_graph& graph)
      : graph_(graph),
        vertices_(static_cast<uint64_t>(gravel_n_pes()) << graph.codes.shift),
        forest_(vertices_),
        roots_(gravel_malloc<uint32_t>(vertices_ * sizeof(uint32_t))),
        ring_(gravel_all_devices(), gravel_all_devices(), GRAVEL_RING, path_options()) {
    device_array<uint64_t> counters(std::vector<uint64_t>(2));
    const auto me = static_cast<uint32_t>(gravel_my_pe());
    launch_for(32 * graph.own, list_edges, graph, me, static_cast<coded_edge*>(nullptr), counters.data());
    gravel_synchronize();
    gravel_copy(&edges_here_, counters.data(), sizeof(edges_here_));
    edges_ = device_array<coded_edge>(std::max<uint64_t>(edges_here_, 1));
    launch_for(32 * graph.own, list_edges, graph, me, edges_.data(), counters.data() + 1);
    gravel_synchronize();
    const int n = gravel_n_pes();
    for (int distance = 1; distance < n; distance *= 2)
      for (int to = 0; to + distance < n; to += 2 * distance) {
        const gravel_endpoint ends[] = {gravel_device(to + distance), gravel_device(to)};
        pairs_.push_back(std::make_unique<gravel_router>(std::vector<gravel_endpoint>{ends[0], ends[1]},
                                                         std::vector<gravel_endpoint>{ends[1]}, GRAVEL_CHAIN,
                                                         path_options()));
      }
  }
  routed_components(const routed_components&) = delete;
  routed_components& operator=(const routed_components&) = delete;

  /// Symmetric memory at each PE, bytes, for up to 16 PEs.
  static uint64_t symmetric_bytes(uint64_t vertices) {
    const gravel_link_options scatter = scatter_options(), path = path_options();
    return 2 * sizeof(uint32_t) * vertices +
           16 * (scatter.buffers * uint64_t{scatter.packet_bytes} +
                 path.lanes * path.buffers * uint64_t{path.packet_bytes}) +
           (16 << 20);
  }

  /// Opens the router of the edges, for one run: a stream of segments ends once.
  void open() {
    const std::vector<gravel_endpoint> outputs = gravel_all_devices();
    std::vector<gravel_endpoint> inputs;
    for (const gravel_endpoint& e : outputs) inputs.push_back(gravel_device(e.pe, 1));
    scatter_.reset();
    scatter_.emplace(inputs, outputs, GRAVEL_SCATTER, scatter_options());
  }
  /// Finds the components; after open().
  void run() {
    take_edges();
    find_roots();
    for (const auto& pair : pairs_) {
      const int from = pair->inputs()[0].pe, to = pair->inputs()[1].pe;
      if (gravel_my_pe() != from && gravel_my_pe() != to) continue;
      gravel_reduce_start(*pair, roots_, roots_, vertices_, merge_forests{forest_.data()});
      if (gravel_my_pe() == to) find_roots();
    }
    gravel_broadcast_start(ring_, roots_, vertices_ * sizeof(uint32_t), 0);
    gravel_synchronize();
  }
  /// [own] in device memory: the code of the least vertex of each one's component.
  const uint32_t* names() const { return roots_ + graph_.codes.code(gravel_my_pe(), 0); }
  /// How many edges this PE has hooked in the last run.
  uint64_t edges_taken() const { return edges_taken_; }

 private:
  static gravel_link_options scatter_options() { return {.packet_bytes = GRAVEL_CUDA ? 1 << 20 : 4096, .buffers = 2}; }
  static gravel_link_options path_options() {
    gravel_link_options how = gravel_path_options();
    how.lanes = std::min(how.lanes, 32u);
    return how;
  }
  /// Sends the edges that lie here, and hooks those that come.
  void take_edges() {
    launch_for(vertices_, plant_roots, forest_.data(), vertices_);
    scatter_->input().send(edges_.data(), edges_here_ * sizeof(coded_edge));
    scatter_->input().shutdown();
    gravel_receiver& in = scatter_->output();
    edges_taken_ = 0;
    while (true) {
      const gravel_segment s = in.receive().get();
      if (s.empty()) break;
      const uint64_t count = s.bytes / sizeof(coded_edge);
      launch_for(count, hook_edges, reinterpret_cast<const coded_edge*>(s.data), count, forest_.data());
      in.release(s);
      edges_taken_ += count;
    }
  }
  void find_roots() {
    launch_for(vertices_, flatten<>, static_cast<const uint32_t*>(forest_.data()), vertices_, forest_.data());
    launch_for(vertices_, copy_words<uint32_t>, roots_, static_cast<const uint32_t*>(forest_.data()), vertices_);
  }

  worklist_graph graph_;
  uint64_t vertices_;  ///< number of codes
  device_array<uint32_t> forest_;
  uint32_t* roots_;  ///< [vertices_], symmetric; gravel_finalize frees it
  device_array<coded_edge> edges_;
  uint64_t edges_here_ = 0, edges_taken_ = 0;
  gravel_router ring_;
  std::vector<std::unique_ptr<gravel_router>> pairs_;
  std::optional<gravel_router> scatter_;
};

}  // namespace app
