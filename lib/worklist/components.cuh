// gravel_components: connected components of an undirected graph that is divided among PEs, in one kernel
// (lib/worklist/components_kernel.cuh). It needs mapped memory and a graph with hubs; gravel::connected_components
// needs neither.
//
//   gravel_components components(graph, edges);         // collective
//   if (components.fits()) components.run();            // collective: names() are those of the components
//   else ...                                            // by gravel::connected_components
#pragma once
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "host/mapped_sender.cuh"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/components_kernel.cuh"

namespace gravel::detail {

/// What the making of tables finds out.
struct components_facts {
  uint32_t top;        ///< the least code of a vertex with edges
  uint32_t is_deep;    ///< 1: a way to a root has more than most_steps
  uint64_t connected;  ///< own vertices that have a neighbour
  uint64_t outside;    ///< own vertices outside the top's tree that have a neighbour
  uint64_t asymmetry;  ///< 0 over all PEs, with near certainty, if each edge is in the rows of both of its ends
};

/// Finds what each own vertex hangs below, and stores it at all PEs. A warp takes a vertex at a time.
template <int = 0>
__global__ void plant_forest(const __grid_constant__ gravel_t g, const __grid_constant__ components_view v,
                             uint32_t* first, components_facts* facts) {
  __shared__ mapped_sender others;
  others.begin(g);
  const uint32_t lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
  uint32_t top = ~0u;
  uint64_t connected = 0, asymmetry = 0;
  for (uint32_t place = (blockIdx.x * blockDim.x + threadIdx.x) / 32; place < v.places(); place += warps) {
    const uint64_t begin = place < v.own ? v.offsets[place] : 0, end = place < v.own ? v.offsets[place + 1] : 0;
    const uint32_t self = v.layout.code_of(static_cast<int>(v.layout.me), place);
    uint32_t least = ~0u;
    for (uint64_t e = begin + lane; e < end; e += 32) {
      const uint32_t other = v.codes[e];
      if (other == self) continue;
      least = least < other ? least : other;
      asymmetry += self < other ? edge_number(self, other) : ~edge_number(self, other) + 1;
    }
    least = __reduce_min_sync(~0u, least);
    const bool has_edges = least != ~0u;
    if (has_edges && self < top) top = self;
    connected += has_edges;
    uint32_t above = least < self ? least : self;
    if (!has_edges) above |= components_view::no_edges;
    for (uint32_t pe = lane; pe < g.n_pes; pe += 32) *others.at(&first[self], static_cast<int>(pe)) = above;
  }
  fetch_add<scope::device>(&facts->asymmetry, asymmetry);
  if (lane != 0) return;
  atomicMin(&facts->top, top);
  fetch_add<scope::device>(&facts->connected, connected);
}
/// Counts the own vertices outside the top's tree, and finds out whether ways are long.
template <int = 0>
__global__ void count_outside(const __grid_constant__ components_view v, uint32_t most_steps, components_facts* facts) {
  uint64_t outside = 0;
  bool is_deep = false;
  for (uint32_t place = blockIdx.x * blockDim.x + threadIdx.x; place < v.places(); place += gridDim.x * blockDim.x) {
    uint32_t here = v.layout.code_of(static_cast<int>(v.layout.me), place), steps = 0;
    if (v.first[here] & components_view::no_edges) continue;
    for (uint32_t next = v.first[here]; next < here && steps <= most_steps; next = v.first[here]) {
      here = next;
      ++steps;
    }
    is_deep |= steps > most_steps;
    outside += here != v.top;
  }
  if (is_deep) atomicMax(&facts->is_deep, 1u);
  if (outside) fetch_add<scope::device>(&facts->outside, outside);
}
/// Names of vertices as if none had an edge.
template <int = 0>
__global__ void name_alone(const __grid_constant__ components_view v) {
  for (uint64_t place = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; place < v.own;
       place += uint64_t{gridDim.x} * blockDim.x)
    v.found[place] = v.own_name(static_cast<uint32_t>(place));
}

}  // namespace gravel::detail

/// Connected components of an undirected graph, in one kernel that runs at all PEs.
///
/// The constructor finds out whether the kernel suits the job and the graph, the same at all PEs:
/// - all PEs have each other's memory mapped;
/// - each edge is in the rows of both of its ends (compared by a sum of hashes);
/// - if each vertex hangs below its neighbour of the lowest code, ways to the roots have up to 64 steps, and all but
///   1/16 of the vertices with edges, or 4096 of a PE, are in one tree. That is so if each PE numbers its vertices by
///   falling degree and some have many edges, or if the graph is small.
/// If not, fits() returns false, what was allocated is free again, and run() is an error.
///
/// The tables are those of the edges that the graph had when they were made. Memory of the device: 12 bytes for each
/// vertex of this PE up to the last one with edges, and with several PEs 4 bytes for each edge. In the symmetric heap:
/// symmetric_bytes().
/// @scope the program's host thread; collective, except calls that only read
/// @completion on return
/// @errors gravel::error
/// @source Sutton, Ben-Nun, Barak, IPDPS18: most edges are within one component that is found early
class gravel_components {
 public:
  /// Makes the tables of the kernel. The graph's memory stays the caller's.
  /// @param graph this PE's rows; each edge is in the rows of both of its ends
  /// @param edges number of edges of this PE's rows
  /// @param names [graph.own] of own vertices, in device memory; stays the caller's. nullptr: their codes
  gravel_components(const gravel::detail::worklist_graph& graph, uint64_t edges, const uint32_t* names = nullptr)
      : exceptions_(std::uncaught_exceptions()) {
    const bool has_names = gravel::detail::check_coded_graph("components", graph, edges, names);
    if (!gravel::detail::all_are_mapped()) {
      refusal_ = "not all PEs have each other's memory mapped";
      return;
    }
    refusal_ = make(graph, edges, names, has_names);
    if (!fits()) release();
    gravel_barrier_all();
  }
  ~gravel_components() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() == exceptions_) release();
  }
  /// @internal
  gravel_components(const gravel_components&) = delete;
  gravel_components& operator=(const gravel_components&) = delete;

  /// Returns the bytes that an object needs in the symmetric heap, rounded up.
  /// @param vertices most vertices of a PE
  /// @param pes number of PEs
  /// @param names whether vertices get names
  static uint64_t symmetric_bytes(uint64_t vertices, int pes, bool names) {
    const uint64_t codes = (vertices + gravel::detail::replicated_bitmap::strip) * static_cast<uint64_t>(pes);
    return codes * (names ? 16 : 12) + (uint64_t{4} << 20) * static_cast<uint64_t>(pes);
  }

  /// Returns whether the kernel suits the job and the graph.
  bool fits() const { return refusal_.empty(); }
  /// Returns why the kernel does not suit the job and the graph; empty if it does.
  const std::string& refusal() const { return refusal_; }

  /// Finds the components.
  void run() {
    if (!fits()) gravel::detail::fail_text("components: run() of an object that does not fit: " + refusal_);
    gravel::detail::components_view view = view_;
    view.above = above_[turn_];
    turn_ = 1 - turn_;
    gravel::detail::launch_alone(
        gravel::detail::find_components<>,
        {.grid = view.rendezvous.blocks,
         .block = gravel::detail::component_threads,
         .shared_bytes = static_cast<uint64_t>(gravel_n_pes()) * view.rendezvous.blocks * sizeof(uint32_t),
         .cooperative = true},
        gravel_handle(), view);
    gravel::detail::current_backend().synchronize_stream(nullptr);
  }

  /// Returns the names of own vertices' components: [own], in device memory. The name of a component is that of one of
  /// its vertices, the same at all PEs: with one PE the first one that has edges, and if vertices are numbered by
  /// falling degree one of the most edges. A vertex without edges has its own name.
  const uint32_t* names() const { return found_.data(); }
  /// @internal
  const gravel::detail::components_log& log() const { return *log_.data(); }

 private:
  /// Makes all tables. Returns why the kernel does not suit the graph; empty if it does.
  std::string make(const gravel::detail::worklist_graph& graph, uint64_t edges, const uint32_t* names, bool has_names) {
    using namespace gravel::detail;
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    if (std::string wrong = rows_.make(graph, edges); !wrong.empty()) return wrong;
    const uint32_t blocks = resident_blocks(find_components<>, component_threads);
    if (blocks == 0) return "no block has room beside the resolver and services of a PE";
    view_.offsets = graph.offsets;
    view_.codes = rows_.codes();
    view_.own = graph.own;
    view_.vertices = graph.codes;
    view_.layout = rows_.layout();
    const uint64_t words = std::max<uint64_t>(view_.layout.codes(), 1) * sizeof(uint32_t), places = view_.places();
    first_ = gravel_malloc<uint32_t>(words);
    view_.first = first_;
    view_.hubs = std::min(component_hubs, view_.layout.codes());
    if (std::string wrong = plant(); !wrong.empty()) return wrong;

    if (has_names) {
      view_.own_names = names;
      names_ = gravel_malloc<uint32_t>(words);
      launch_for(graph.own, spread_words<>, gravel_handle(), view_.layout, names, graph.own, names_);
      view_.names = names_;
    }
    rendezvous_ = level_rendezvous_memory(blocks);
    view_.rendezvous = rendezvous_.view();
    above_[0] = above_[1] = gravel_malloc<uint32_t>(words);
    // With one PE the end of a kernel separates it from the next one.
    if (pes > 1) above_[1] = gravel_malloc<uint32_t>(words);
    pairs_ = gravel_malloc<root_pair>(uint64_t{2} * pes * blocks * most_pairs * sizeof(root_pair));
    view_.pairs = pairs_;
    outside_ = device_array<outside_vertex>(std::max<uint64_t>(uint64_t{blocks} * view_.places_of_block(blocks), 1));
    view_.outside = outside_.data();
    found_ = device_array<uint32_t>(std::max<uint64_t>({graph.own, places, 1}));
    view_.found = found_.data();
    launch_for(graph.own, name_alone<>, view_);
    log_ = {current_backend(), 1, "the log of components"};
    view_.log = log_.data();
    gravel_synchronize();
    return {};
  }
  /// Makes the forest.
  std::string plant() {
    using namespace gravel::detail;
    constexpr uint32_t most_steps = 64;
    constexpr uint64_t few = GRAVEL_CUDA ? 4096 : 1024, share = 16;
    device_array<components_facts> facts(std::vector<components_facts>{{~0u, 0, 0, 0, 0}});
    launch_for(view_.places() * uint64_t{32}, plant_forest<>, gravel_handle(), view_, first_, facts.data());
    components_facts here;
    copy_behind_kernels(&here, facts.data(), sizeof(here));
    // The forest of all PEs is there behind the collective calls.
    view_.top = static_cast<uint32_t>(gravel_min_all(uint64_t{here.top}));
    const uint64_t connected = gravel_sum_all(here.connected);
    if (connected == 0) view_.top = 0;
    if (gravel_sum_all(here.asymmetry) != 0) return "some edges are in the row of one of their ends alone";
    launch_for(view_.places(), count_outside<>, view_, +most_steps, facts.data());
    copy_behind_kernels(&here, facts.data(), sizeof(here));
    if (gravel_max_all(here.is_deep) != 0)
      return "a vertex is more than " + std::to_string(most_steps) +
             " steps from the root, if each hangs below its neighbour with the lowest number";
    const uint64_t outside = gravel_sum_all(here.outside);
    if (outside > std::max(connected / share, few * static_cast<uint64_t>(gravel_n_pes())))
      return std::to_string(outside) + " of " + std::to_string(connected) +
             " vertices with edges are outside the largest tree, if each hangs below its neighbour with the lowest "
             "number";
    return {};
  }
  /// Collective.
  void release() {
    gravel_synchronize();
    if (above_[1] == above_[0]) above_[1] = nullptr;
    for (uint32_t** memory : {&first_, &names_, &above_[0], &above_[1]}) {
      if (*memory) gravel_free(*memory);
      *memory = nullptr;
    }
    if (pairs_) gravel_free(pairs_);
    pairs_ = nullptr;
    rendezvous_.release();
    rows_.release();
  }

  gravel::detail::open_object open_{"gravel_components"};
  int exceptions_;
  std::string refusal_;
  gravel::detail::components_view view_{};
  unsigned turn_ = 0;  ///< of above_

  gravel::detail::coded_rows rows_;
  gravel::detail::level_rendezvous_memory rendezvous_;
  uint32_t *first_ = nullptr, *names_ = nullptr, *above_[2] = {};  ///< symmetric
  gravel::detail::root_pair* pairs_ = nullptr;                     ///< symmetric
  gravel::detail::device_array<gravel::detail::outside_vertex> outside_;
  gravel::detail::device_array<uint32_t> found_;
  gravel::detail::pinned_array<gravel::detail::components_log> log_;  ///< the kernel writes it
};
