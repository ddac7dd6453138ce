// gravel_ranks: PageRank of an undirected graph that is divided among PEs, by power iteration in one kernel
// (lib/worklist/ranks_kernel.cuh). It needs mapped memory and a graph with hubs; gravel::page_rank needs neither.
//
//   gravel_ranks ranks(graph, edges);                   // collective
//   if (ranks.fits()) ranks.run({.tolerance = 1e-5});   // collective: ranks() are those of own vertices
//   else ...                                            // by gravel::page_rank
#pragma once
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/ranks_tables.cuh"

/// Options of gravel_ranks::run(), the same at all PEs.
struct gravel_ranks_options {
  double damping = 0.85;       ///< share of a rank that is passed on, 0 to 1 (exclusive)
  double tolerance = 1e-6;     ///< the run ends when a step has changed all ranks together by less; above 0
  uint32_t most_steps = 1000;  ///< it also ends then
};

/// PageRank of an undirected graph, in one kernel that runs at all PEs.
///
/// A rank is (1 - damping) / vertices plus `damping` times what the neighbours pass on; a vertex without edges passes
/// its rank on to all vertices alike. All ranks together are 1. Ranks are floats: apart from the tolerance the sum of
/// their errors is about 1e-6.
///
/// The constructor finds out whether the kernel suits the job and the graph, the same at all PEs:
/// - all PEs have each other's memory mapped;
/// - each edge is in the rows of both of its ends (compared by a sum of hashes);
/// - at least half of the edges have an end among the hubs, and neighbouring vertices have about as many of the other
///   edges. That is so if each PE numbers its vertices by falling degree and some have many edges.
/// If not, fits() returns false, what was allocated is free again, and run() is an error.
///
/// Memory of the device: 2 bytes for each edge of a hub, 4 for each other one and direction, and 60 for each vertex of
/// this PE up to the last one with edges; with several PEs 4 more for each edge. In the symmetric heap:
/// symmetric_bytes().
/// @scope the program's host thread; collective, except calls that only read
/// @completion on return
/// @errors gravel::error
/// @source Page, Brin, Motwani, Winograd: "The PageRank citation ranking", 1999
class gravel_ranks {
 public:
  /// Makes the tables of the kernel. The graph's memory stays the caller's, and is not used behind the constructor.
  /// @param graph this PE's rows; each edge is in the rows of both of its ends
  /// @param edges number of edges of this PE's rows
  gravel_ranks(const gravel::detail::worklist_graph& graph, uint64_t edges)
      : exceptions_(std::uncaught_exceptions()), own_(graph.own), vertices_(gravel_sum_all(graph.own)) {
    gravel::detail::check_coded_graph("ranks", graph, edges, nullptr);
    if (!gravel::detail::all_are_mapped()) {
      refusal_ = "not all PEs have each other's memory mapped";
      return;
    }
    refusal_ = make(graph, edges);
    rows_.release();
    if (!fits()) release();
    gravel_barrier_all();
  }
  ~gravel_ranks() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() == exceptions_) release();
  }
  /// @internal
  gravel_ranks(const gravel_ranks&) = delete;
  gravel_ranks& operator=(const gravel_ranks&) = delete;

  /// Returns the bytes that an object needs in the symmetric heap, rounded up.
  /// @param vertices most vertices of a PE
  /// @param pes number of PEs
  static uint64_t symmetric_bytes(uint64_t vertices, int pes) {
    const uint64_t codes = (vertices + gravel::detail::replicated_bitmap::strip) * static_cast<uint64_t>(pes);
    return codes * 8 + (uint64_t{2} << 20) * static_cast<uint64_t>(pes + 1);
  }

  /// Returns whether the kernel suits the job and the graph.
  bool fits() const { return refusal_.empty(); }
  /// Returns why the kernel does not suit the job and the graph; empty if it does.
  const std::string& refusal() const { return refusal_; }

  /// Finds the ranks, from equal ones of all vertices with edges on. Returns the number of steps.
  /// @param options damping and tolerance
  uint32_t run(const gravel_ranks_options& options = {}) {
    using namespace gravel::detail;
    if (!fits()) fail_text("ranks: run() of an object that does not fit: " + refusal_);
    const bool takes = options.damping >= 0 && options.damping < 1 && options.tolerance > 0;
    if (!takes)
      fail_text("ranks: damping " + std::to_string(options.damping) + ", tolerance " +
                std::to_string(options.tolerance) + ": damping is from 0 to 1 (exclusive), tolerance above 0");
    ranks_view view = view_;
    // Vertices without edges have their final rank, `base`, from the beginning, and the others the rest in equal parts:
    // so all ranks together are 1 in each step.
    const auto all = static_cast<double>(vertices_), connected = static_cast<double>(connected_);
    const double base = (1 - options.damping) / (all - options.damping * (all - connected));
    view.base = static_cast<float>(base);
    view.first_rank = static_cast<float>((1 - base * (all - connected)) / connected);
    view.damping = static_cast<float>(options.damping);
    view.tolerance = static_cast<float>(options.tolerance);
    view.most_steps = options.most_steps;
    launch_for(own_, fill_words<float>, view.ranks, own_, view.base);
    launch_alone(
        iterate_ranks<>,
        {.grid = view.rendezvous.blocks, .block = rank_threads, .shared_bytes = shared_bytes(), .cooperative = true},
        gravel_handle(), view);
    current_backend().synchronize_stream(nullptr);
    return log().steps;
  }

  /// Returns the ranks of own vertices: [own], in device memory.
  const float* ranks() const { return ranks_.data(); }
  /// Returns the share of all edges that have an end among the hubs, and stand in tiles: 0 to 1.
  double share_in_tiles() const { return share_in_tiles_; }
  /// @internal
  const gravel::detail::ranks_log& log() const { return *log_.data(); }

 private:
  static constexpr uint32_t group = gravel::detail::group_vertices;

  uint64_t shared_bytes() const {
    return (uint64_t{2} * gravel::detail::tile_hubs + static_cast<uint64_t>(gravel_n_pes()) * blocks_) *
           sizeof(uint32_t);
  }
  /// Makes all tables. Returns why the kernel does not suit the graph; empty if it does.
  std::string make(const gravel::detail::worklist_graph& graph, uint64_t edges) {
    using namespace gravel::detail;
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    if (std::string wrong = rows_.make(graph, edges); !wrong.empty()) return wrong;
    view_.layout = rows_.layout();
    if (view_.layout.strips == 0) return "the graph has no edges";
    blocks_ = resident_blocks(iterate_ranks<>, rank_threads);
    if (blocks_ == 0) return "no block has room beside the resolver and services of a PE";
    if (gravel_max_all(shared_bytes() > words_of_block() * sizeof(uint32_t) ? 1u : 0u) != 0)
      return "the shared memory of a block has no room for a tile of " + std::to_string(tile_hubs) + " hubs";
    const uint32_t places = view_.places(), codes = view_.layout.codes();
    view_.tiles = std::min({most_tiles, blocks_, (codes + tile_hubs - 1) / tile_hubs});
    view_.places_in_tiles =
        std::min(places, std::max(places_of_all_tiles / pes / window_vertices, 1u) * window_vertices);

    inverse_degree_ = device_array<float>(places);
    view_.inverse_degree = inverse_degree_.data();
    device_array<uint32_t> counts(uint64_t{most_tiles + 1} * places);
    const ranks_rows rows{graph.offsets, rows_.codes(), graph.own, counts.data()};
    device_array<ranks_facts> found(std::vector<ranks_facts>(1));
    launch_for(uint64_t{places} * 32, count_rank_edges<>, view_, rows, inverse_degree_.data(), found.data());
    ranks_facts facts;
    copy_behind_kernels(&facts, found.data(), sizeof(facts));
    if (gravel_sum_all(facts.asymmetry) != 0) return "some edges are in the row of one of their ends alone";
    connected_ = gravel_sum_all(facts.connected);
    uint64_t in_tiles = 0;
    for (uint32_t k = 0; k < view_.tiles; ++k) in_tiles += facts.standing[k];
    share_in_tiles_ = 2 * static_cast<double>(gravel_sum_all(in_tiles)) / static_cast<double>(gravel_sum_all(edges));
    if (share_in_tiles_ < 0.5)
      return "of all edges only " + std::to_string(share_in_tiles_) + " have an end among the vertices with the most";

    bool is_large = false;
    std::vector<double> cost;
    for (uint32_t k = 0; k < view_.tiles; ++k) cost.push_back(make_tile(k, rows, is_large));
    make_rest(rows, facts.standing[most_tiles], is_large);
    if (gravel_max_all(is_large ? 1u : 0u) != 0)
      return "neighbouring vertices have different numbers of edges: number them by falling degree";
    share_out_blocks(cost);
    make_state(pes, places, codes);
    count_edges_of_hubs();
    gravel_synchronize();
    return {};
  }
  /// Memory of parts, and where each group begins.
  struct parts_memory {
    gravel::detail::device_array<uint32_t> offsets, groups, group_offsets;
    uint64_t all = 0;  ///< elements
  };
  /// Cuts groups into parts. `of_turn`: edges of a vertex that a warp follows at once. `large`: set if there are more
  /// than `most` elements. `places`: of the groups' vertices are at most a window away from their groups.
  gravel::detail::rank_parts make_parts(const gravel::detail::device_array<uint32_t>& widths, uint32_t groups,
                                        uint32_t of_turn, uint64_t most, parts_memory& to, bool& large) {
    using namespace gravel::detail;
    std::vector<uint32_t> width(groups), begins(groups), offsets, group_of;
    copy_behind_kernels(width.data(), widths.data(), groups * sizeof(uint32_t));
    uint32_t last_cut = 0;
    for (uint32_t i = 0; i < groups; ++i) {
      begins[i] = static_cast<uint32_t>(to.all);
      const uint32_t turns = width[i] / of_turn, parts = (turns + turns_of_part - 1) / turns_of_part;
      if (parts > 1) last_cut = i + 1;
      for (uint32_t k = 0; k < std::max(parts, 1u); ++k) {
        offsets.push_back(static_cast<uint32_t>(to.all) + k * turns_of_part * of_turn * group);
        group_of.push_back(parts > 1 ? i | rank_parts::is_cut : i);
      }
      to.all += uint64_t{width[i]} * group;
    }
    if (to.all > most || to.all >= uint64_t{1} << 32) {
      large = true;
      to.all = 0;
      return {};
    }
    offsets.push_back(static_cast<uint32_t>(to.all));
    to.offsets = device_array<uint32_t>(offsets);
    to.groups = device_array<uint32_t>(group_of);
    to.group_offsets = device_array<uint32_t>(begins);
    const uint32_t windows = (last_cut * group + window_vertices - 1) / window_vertices;
    return {to.offsets.data(), to.groups.data(), static_cast<uint32_t>(group_of.size()), windows * window_vertices};
  }
  /// Makes a tile. Returns what it costs, about.
  double make_tile(uint32_t k, const gravel::detail::ranks_rows& rows, bool& is_large) {
    using namespace gravel::detail;
    const uint32_t places = k == 0 ? view_.places() : view_.places_in_tiles, groups = places / group;
    const uint32_t* const counts = rows.counts + uint64_t{k} * view_.places();
    places_[k] = device_array<uint32_t>(places);
    device_array<uint32_t> widths(groups), at(places);
    launch_alone(order_windows<>,
                 {.grid = std::min(vertex_blocks(places), (places + window_vertices - 1) / window_vertices),
                  .block = vertex_threads},
                 counts, places, places_[k].data());
    launch_for(uint64_t{groups} * 32, measure_groups<>, counts, static_cast<const uint32_t*>(places_[k].data()), groups,
               2u, widths.data(), at.data());
    const rank_parts parts = make_parts(widths, groups, 2, ~uint64_t{0}, parts_of_[k], is_large);
    const uint64_t all = parts_of_[k].all;
    hubs_[k] = device_array<uint32_t>(std::max<uint64_t>(all / 2, 1));
    sums_[k] = device_array<float>(places);
    launch_for(all / 2, fill_words<uint32_t>, hubs_[k].data(), all / 2, ~0u);
    launch_for(places, fill_words<float>, sums_[k].data(), uint64_t{places}, 0.0f);
    if (!is_large)
      launch_for(uint64_t{places} * 32, fill_groups<>, view_, rows, k, places, static_cast<const uint32_t*>(at.data()),
                 static_cast<const uint32_t*>(parts_of_[k].group_offsets.data()),
                 reinterpret_cast<uint16_t*>(hubs_[k].data()), static_cast<uint32_t*>(nullptr));
    gravel_synchronize();  // `at` is in use until then
    view_.tile[k] = {
        reinterpret_cast<const uint16_t*>(hubs_[k].data()), parts, places_[k].data(), sums_[k].data(), 0, 0};
    return static_cast<double>(all) / 32 + 6.0 * parts.count;
  }
  void make_rest(const gravel::detail::ranks_rows& rows, uint64_t edges, bool& is_large) {
    using namespace gravel::detail;
    const uint32_t places = view_.places(), groups = places / group;
    const uint32_t* const counts = rows.counts + uint64_t{most_tiles} * places;
    device_array<uint32_t> widths(groups);
    launch_for(uint64_t{groups} * 32, measure_groups<>, counts, static_cast<const uint32_t*>(nullptr), groups, 1u,
               widths.data(), static_cast<uint32_t*>(nullptr));
    const uint64_t most = 4 * edges + uint64_t{16} * places;
    view_.rest_parts = make_parts(widths, groups, 1, most, rest_parts_, is_large);
    const uint64_t all = rest_parts_.all;
    rest_ = device_array<uint32_t>(std::max<uint64_t>(all, 1));
    launch_for(all, fill_words<uint32_t>, rest_.data(), all, ~0u);
    if (!is_large)
      launch_for(uint64_t{places} * 32, fill_groups<>, view_, rows, +most_tiles, places,
                 static_cast<const uint32_t*>(nullptr), static_cast<const uint32_t*>(rest_parts_.group_offsets.data()),
                 static_cast<uint16_t*>(nullptr), rest_.data());
    gravel_synchronize();
    view_.rest = rest_.data();
  }
  /// Gives each tile blocks by its cost.
  void share_out_blocks(const std::vector<double>& cost) {
    for (uint32_t k = 0; k < view_.tiles; ++k) view_.tile[k].blocks = 1;
    for (uint32_t left = blocks_ - view_.tiles; left > 0; --left) {
      uint32_t most = 0;
      const auto of_block = [&](uint32_t k) { return cost[k] / view_.tile[k].blocks; };
      for (uint32_t k = 1; k < view_.tiles; ++k)
        if (of_block(k) > of_block(most)) most = k;
      ++view_.tile[most].blocks;
    }
    for (uint32_t k = 1; k < view_.tiles; ++k)
      view_.tile[k].first_block = view_.tile[k - 1].first_block + view_.tile[k - 1].blocks;
  }
  void make_state(uint32_t pes, uint32_t places, uint32_t codes) {
    using namespace gravel::detail;
    for (float*& shares : shares_)
      shares = gravel_malloc<float>(uint64_t{std::max(codes, view_.hubs())} * sizeof(float));
    std::copy(std::begin(shares_), std::end(shares_), std::begin(view_.shares));
    hub_sums_ = gravel_malloc<float>(uint64_t{pes} * view_.hubs() * sizeof(float));
    view_.hub_sums = hub_sums_;
    records_ = gravel_malloc<rank_record>(uint64_t{pes} * blocks_ * sizeof(rank_record));
    view_.records = records_;
    rendezvous_ = level_rendezvous_memory(blocks_);
    view_.rendezvous = rendezvous_.view();
    parts_ = device_array<uint32_t>(uint64_t{blocks_} * tile_hubs);
    view_.parts = parts_.data();
    rest_sums_ = device_array<float>(places);
    launch_for(places, fill_words<float>, rest_sums_.data(), uint64_t{places}, 0.0f);
    view_.rest_sums = rest_sums_.data();
    next_rest_ = device_array<uint32_t>(std::vector<uint32_t>(2));
    view_.next_rest = next_rest_.data();
    ranks_ = device_array<float>(std::max<uint64_t>(own_, places));
    view_.ranks = ranks_.data();
    log_ = {current_backend(), 1, "the log of ranks"};
    view_.log = log_.data();
  }
  void count_edges_of_hubs() {
    using namespace gravel::detail;
    ranks_view counting = view_;
    counting.counts = true;
    launch_alone(iterate_ranks<>, {.grid = blocks_, .block = rank_threads, .shared_bytes = shared_bytes()},
                 gravel_handle(), counting);
    const uint64_t words = uint64_t{blocks_} * tile_hubs;
    device_array<uint32_t> most(std::vector<uint32_t>(1));
    launch_for(words, find_largest_word<>, static_cast<const uint32_t*>(parts_.data()), words, most.data());
    copy_behind_kernels(&view_.most_of_hub, most.data(), sizeof(uint32_t));
    view_.most_of_hub = std::max(view_.most_of_hub, 1u);
  }
  /// Collective.
  void release() {
    gravel_synchronize();
    for (float** memory : {&shares_[0], &shares_[1], &hub_sums_}) {
      if (*memory) gravel_free(*memory);
      *memory = nullptr;
    }
    if (records_) gravel_free(records_);
    records_ = nullptr;
    rendezvous_.release();
    rest_.release();
    for (auto& table : hubs_) table.release();
  }

  gravel::detail::open_object open_{"gravel_ranks"};
  int exceptions_;
  uint64_t own_, vertices_, connected_ = 0;  ///< of this PE; of all PEs, also with edges
  double share_in_tiles_ = 0;
  std::string refusal_;
  gravel::detail::ranks_view view_{};
  uint32_t blocks_ = 0;

  gravel::detail::coded_rows rows_;
  gravel::detail::level_rendezvous_memory rendezvous_;
  float *shares_[2] = {}, *hub_sums_ = nullptr;     ///< symmetric
  gravel::detail::rank_record* records_ = nullptr;  ///< symmetric
  gravel::detail::device_array<uint32_t> hubs_[gravel::detail::most_tiles], places_[gravel::detail::most_tiles], rest_,
      parts_, next_rest_;
  parts_memory parts_of_[gravel::detail::most_tiles], rest_parts_;
  gravel::detail::device_array<float> sums_[gravel::detail::most_tiles], inverse_degree_, rest_sums_, ranks_;
  gravel::detail::pinned_array<gravel::detail::ranks_log> log_;  ///< the kernel writes it
};
