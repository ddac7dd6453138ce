// Shortest paths by one kernel (lib/worklist/paths_kernel.cuh): its tables, and the host's side.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "host/pe/pinned_array.hpp"
#include "lib/base/mix.hpp"
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/paths_kernel.cuh"
#include "lib/worklist/words_of_all.cuh"

namespace gravel::detail {

/// What the making of tables finds out.
struct paths_facts {
  uint64_t unlike;        ///< sum over the edges of all PEs: 0 if each edge has its like in the row of the other end
  uint64_t to_hubs;       ///< edges that lead to the first codes
  uint32_t class_end[2];  ///< as in paths_view
};
/// Rows of as many edges get 32 lanes; of as many, 8.
constexpr uint64_t warp_row = GRAVEL_CUDA ? 512 : 24, group_row = GRAVEL_CUDA ? 32 : 6;

/// Makes the edges of all rows, not yet sorted. Each edge adds a number to `unlike`, which depends on its ends and its
/// weight, and on the direction only by its sign. hub_codes: codes below it are those of hubs.
template <int = 0>
__global__ void make_weighted_edges(const __grid_constant__ worklist_graph graph, const float* weights,
                                    const __grid_constant__ replicated_bitmap codes, uint32_t hub_codes,
                                    uint64_t* edges, paths_facts* facts) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32,
                 places = uint64_t{codes.strips} * replicated_bitmap::strip;
  const uint32_t lane = threadIdx.x % 32;
  uint64_t unlike = 0, to_hubs = 0;
  uint32_t class_end[2] = {};
  for (uint64_t place = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; place < graph.own && place < places;
       place += warps) {
    const uint64_t begin = graph.offsets[place], end = graph.offsets[place + 1];
    const uint32_t self = codes.code_of(static_cast<int>(codes.me), static_cast<uint32_t>(place));
    if (end - begin >= warp_row) class_end[0] = static_cast<uint32_t>(place) + 1;
    if (end - begin >= group_row) class_end[1] = static_cast<uint32_t>(place) + 1;
    for (uint64_t e = begin + lane; e < end; e += 32) {
      const uint32_t target = graph.targets[e];
      uint32_t code = 0;
      if (target < graph.own) {
        code = codes.code_of(static_cast<int>(codes.me), target);
      } else {
        const uint32_t ghost = graph.ghosts[target - graph.own];
        code = codes.code_of(graph.codes.owner(ghost), graph.codes.place(ghost));
      }
      edges[e] = weighted_edge::of(weights[e], code);
      const uint32_t low = code < self ? code : self, high = code < self ? self : code;
      const uint64_t ends = mix(uint64_t{high} << 32 | low) + weighted_edge::weight(edges[e]);
      if (code != self) unlike += code < self ? mix(ends) : ~mix(ends) + 1;
      to_hubs += code < hub_codes;
    }
  }
  if (unlike) fetch_add<scope::device>(&facts->unlike, unlike);
  if (to_hubs) fetch_add<scope::device>(&facts->to_hubs, to_hubs);
  for (int i = 0; i < 2; ++i)
    if (lane == 0 && class_end[i]) atomicMax(&facts->class_end[i], class_end[i]);
}

/// Sorts edge[0 .. n) by a bitonic network, which takes any n: what would lie beyond the end is larger than all.
/// `sync` lets `lanes` lanes, of which this one is `rank`, come together.
template <class Sync>
GRAVEL_DEVICE void sort_edges(uint64_t* edge, uint64_t n, uint64_t rank, uint64_t lanes, Sync sync) {
  const auto order = [&](uint64_t low, uint64_t high) {
    if (high >= n) return;
    const uint64_t a = edge[low], b = edge[high];
    if (a <= b) return;
    edge[low] = b;
    edge[high] = a;
  };
  for (uint64_t run = 2; run / 2 < n; run *= 2) {
    // Two sorted runs, the second one read backwards, are one that rises and falls.
    for (uint64_t i = rank; i < (n + 1) / 2 + run; i += lanes) {
      const uint64_t begin = i / (run / 2) * run, at = i % (run / 2);
      order(begin + at, begin + run - 1 - at);
    }
    sync();
    for (uint64_t step = run / 4; step != 0; step /= 2) {
      for (uint64_t i = rank; i < (n + 1) / 2 + run; i += lanes) {
        const uint64_t low = i / step * (2 * step) + i % step;
        order(low, low + step);
      }
      sync();
    }
  }
}
/// Sorts the edges of each row: a warp a short one, a block a long one.
template <int = 0>
__global__ void sort_rows(const uint64_t* offsets, uint64_t rows, uint64_t* edges) {
  constexpr uint64_t most_of_warp = GRAVEL_CUDA ? 512 : 32;
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32;
  for (uint64_t row = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; row < rows; row += warps) {
    const uint64_t begin = offsets[row], n = offsets[row + 1] - begin;
    if (n > 1 && n <= most_of_warp) sort_edges(edges + begin, n, threadIdx.x % 32, 32, [] { __syncwarp(); });
  }
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const uint64_t begin = offsets[row], n = offsets[row + 1] - begin;
    if (n > most_of_warp) sort_edges(edges + begin, n, threadIdx.x, blockDim.x, [] { __syncthreads(); });
  }
}
/// Stores the lightest_pair of own vertices at all PEs.
template <int = 0>
__global__ void spread_lightest(const __grid_constant__ gravel_t g, const __grid_constant__ replicated_bitmap codes,
                                const uint64_t* offsets, const uint64_t* edges, uint64_t own, uint32_t* lightest) {
  __shared__ mapped_sender others;
  others.begin(g);
  const uint32_t places = codes.strips * replicated_bitmap::strip;
  for (uint32_t place = blockIdx.x * blockDim.x + threadIdx.x; place < places; place += gridDim.x * blockDim.x) {
    uint64_t edge[2] = {weighted_edge::none, weighted_edge::none};
    for (uint32_t k = 0; k < 2 && place < own; ++k)
      if (offsets[place] + k < offsets[place + 1]) edge[k] = edges[offsets[place] + k];
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      *others.at(&lightest[codes.code_of(static_cast<int>(g.my_pe), place)], static_cast<int>(pe)) =
          lightest_pair::of(edge[0], edge[1]);
  }
}

/// Shortest paths by one kernel. The constructor finds out whether it suits the job and the graph, the same at all PEs:
/// - all PEs have each other's memory mapped;
/// - each edge is in the rows of both of its ends, with the same weight;
/// - half of the edges lead to the first codes: a sixteenth of all, or the core.
/// If not, fits() returns false, and what was allocated is free again. Host thread; collective, except refusal().
class paths_search {
 public:
  /// The graph has no faults, and the weights are finite and from 0 on.
  paths_search(const worklist_graph& graph, uint64_t edges, const float* weights) : own_(graph.own) {
    refusal_ = all_are_mapped() ? make(graph, edges, weights) : "not all PEs have each other's memory mapped";
    if (!fits()) release();
  }
  bool fits() const { return refusal_.empty(); }
  const std::string& refusal() const { return refusal_; }

  /// Returns the bytes that it needs in the symmetric heap, rounded up. `vertices`: most of a PE.
  static uint64_t symmetric_bytes(uint64_t vertices, int pes) {
    const auto all = static_cast<uint64_t>(pes);
    return (8 * (vertices + strip) + (uint64_t{GRAVEL_CUDA ? 24 : 1} << 20)) * all;
  }

  /// Finds the distances from a vertex. Returns false, at all PEs, if that takes too many steps, as in a deep graph.
  bool run(int owner, uint64_t place) {
    const bool has_code = place < view_.places();
    const paths_source source{has_code ? view_.codes.code_of(owner, static_cast<uint32_t>(place)) : ~0u,
                              owner == gravel_my_pe() ? place : ~uint64_t{0}};
    launch_alone(find_all_paths<>,
                 {.grid = view_.rendezvous.blocks,
                  .block = paths_threads,
                  .shared_bytes = layout_.words() * sizeof(uint32_t),
                  .cooperative = true},
                 gravel_handle(), view_, source);
    current_backend().synchronize_stream(nullptr);
    return log().gave_up == 0;
  }
  /// [own] words of least_keys.
  const uint32_t* words() const { return words_.data(); }
  const paths_log& log() const { return *log_.data(); }

  void release() {
    gravel_synchronize();
    for (void* memory : {static_cast<void*>(keys_), static_cast<void*>(lightest_), static_cast<void*>(queues_),
                         static_cast<void*>(dropped_), static_cast<void*>(reports_)})
      if (memory) gravel_free(memory);
    keys_ = lightest_ = dropped_ = nullptr;
    queues_ = reports_ = nullptr;
    rendezvous_.release();
    edges_.release();
  }

 private:
  static constexpr uint32_t strip = replicated_bitmap::strip;
  static constexpr const char* no_room = "there is no room for the kernel's tables";

  /// Allocates; returns false, at all PEs, if any has no room.
  template <class Allocate>
  static bool all_have_room(Allocate allocate) {
    bool has_room = true;
    try {
      allocate();
    } catch (const gravel::error&) {
      has_room = false;
    }
    return gravel_min_all(has_room ? 1u : 0u) != 0;
  }

  std::string make(const worklist_graph& graph, uint64_t edges, const float* weights) {
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    facts_ = device_array<paths_facts>(std::vector<paths_facts>(1));
    coded_rows rows;
    if (std::string wrong = rows.number(graph, edges); !wrong.empty()) return wrong;
    view_.codes = rows.layout();
    view_.own = own_;
    view_.offsets = graph.offsets;
    const uint64_t codes = view_.codes.codes(), core = uint64_t{core_strips} * strip;

    if (!all_have_room([&] { edges_ = device_array<uint64_t>(std::max<uint64_t>(edges, 1)); })) return no_room;
    launch_for(32 * own_, make_weighted_edges<>, graph, weights, view_.codes,
               static_cast<uint32_t>(std::max(codes / 16, core)), edges_.data(), facts_.data());
    const paths_facts found = facts();
    if (gravel_sum_all(found.unlike) != 0)
      return "some edges are not in the rows of both of their ends, with one weight";
    if (2 * gravel_sum_all(found.to_hubs) < gravel_sum_all(edges))
      return "most edges do not lead to the vertices with the most edges";
    const auto blocks = static_cast<uint32_t>(gravel_min_all(uint64_t{most_blocks()}));
    if (blocks == 0) return "no block has room beside the resolver and services of a PE";
    std::copy(std::begin(found.class_end), std::end(found.class_end), std::begin(view_.class_end));
    launch_for(edges, sort_rows<>, graph.offsets, std::min<uint64_t>(own_, view_.places()), edges_.data());
    view_.edges = edges_.data();

    const uint64_t blocks_of_all = uint64_t{pes} * blocks;
    layout_ = {pes * blocks};
    rendezvous_ = level_rendezvous_memory(blocks);
    view_.rendezvous = rendezvous_.view();
    set_stages();
    const uint64_t warps = uint64_t{blocks} * (paths_threads / 32);
    view_.list_room = static_cast<uint32_t>(view_.places() / warps + 32 * (view_.stages + 4));
    const bool has_room = all_have_room([&] {
      lists_ = device_array<uint32_t>(warps * view_.list_room);
      words_ = device_array<uint32_t>(std::max<uint64_t>(own_, 1));
    });
    const bool has_symmetric = has_room && all_have_room([&] {
                                 keys_ = gravel_malloc<uint32_t>(std::max<uint64_t>(codes, 1) * sizeof(uint32_t));
                                 lightest_ = gravel_malloc<uint32_t>(std::max<uint64_t>(codes, 1) * sizeof(uint32_t));
                                 queues_ = gravel_malloc<uint64_t>(2 * blocks_of_all * queue_room * sizeof(uint64_t));
                                 dropped_ = gravel_malloc<uint32_t>(2 * blocks_of_all * sizeof(uint32_t));
                                 reports_ = gravel_malloc<uint64_t>(view_.stages * blocks_of_all * sizeof(uint64_t));
                               });
    if (!has_symmetric) return no_room;
    view_.lists = lists_.data();
    view_.words = words_.data();
    view_.keys = keys_;
    view_.lightest = lightest_;
    view_.queues = queues_;
    view_.dropped = dropped_;
    view_.reports = reports_;
    launch_for(view_.places(), spread_lightest<>, gravel_handle(), view_.codes, graph.offsets, view_.edges, own_,
               lightest_);
    log_ = {current_backend(), 1, "the log of shortest paths"};
    view_.log = log_.data();
    gravel_synchronize();
    gravel_barrier_all();
    return {};
  }
  /// The core, then ranges that are four times as long as all before them together, then twice.
  void set_stages() {
    const uint32_t pes = view_.codes.pes, all = view_.places();
    const auto places_of = [&](uint64_t strips_of_all) {
      return static_cast<uint32_t>(std::min<uint64_t>((strips_of_all + pes - 1) / pes * strip, all));
    };
    view_.core_end[0] = places_of(core_strips / core_share);
    view_.core_end[1] = places_of(core_strips);
    view_.stages = 0;
    for (uint64_t strips = core_strips;; strips *= strips < 16 * core_strips ? 4 : 2) {
      const bool is_last = places_of(strips) == all || view_.stages + 1 == paths_view::most_stages;
      view_.stage_end[view_.stages++] = is_last ? all : places_of(strips);
      if (is_last) break;
    }
  }
  /// Blocks of the kernel: all that may wait for each other.
  static unsigned most_blocks() {
    constexpr unsigned on_processors = 2;
    const unsigned most =
        most_cooperative_blocks(find_all_paths<>, {.block = paths_threads, .shared_bytes = 16384}, gravel_n_pes() > 1);
    return GRAVEL_CUDA ? most : std::min(most, on_processors);
  }
  paths_facts facts() {
    paths_facts here;
    copy_behind_kernels(&here, facts_.data(), sizeof(here));
    return here;
  }

  uint64_t own_;
  std::string refusal_;
  paths_view view_{};
  paths_layout layout_{};
  level_rendezvous_memory rendezvous_;
  uint32_t *keys_ = nullptr, *lightest_ = nullptr, *dropped_ = nullptr;  ///< symmetric
  uint64_t *queues_ = nullptr, *reports_ = nullptr;                      ///< symmetric
  device_array<paths_facts> facts_;
  device_array<uint64_t> edges_;
  device_array<uint32_t> lists_, words_;
  pinned_array<paths_log> log_;  ///< the kernel writes it
};

}  // namespace gravel::detail
