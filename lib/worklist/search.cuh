// gravel_search: breadth-first search of an undirected graph that is divided among PEs, in one kernel
// (lib/worklist/search_kernel.cuh). It needs mapped memory and a graph with hubs; a gravel_worklist needs neither.
//
//   gravel_search search(graph, edges);                       // collective
//   if (search.fits() && search.run(owner, place)) ...        // collective: parents() are those of a shortest path
//   else ...                                                  // by a gravel_worklist
#pragma once
#include <algorithm>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "host/mapped_sender.cuh"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/search_tables.cuh"

/// How a search names parents.
enum class gravel_parents {
  codes,  ///< by their codes: gravel_search::owner_of(), place_of()
  names,  ///< by the names that the program gave its vertices
};

/// A breadth-first search of an undirected graph. Each level is a part of one kernel that runs at all PEs.
///
/// The constructor finds out whether the kernel suits the job and the graph, the same at all PEs:
/// - all PEs have each other's memory mapped;
/// - the vertices of a block fit into its shared memory, a bit for each: about a hundred million vertices of a PE of an
///   H200, if they are numbered by falling degree;
/// - at least half of the vertices have their first neighbour in the hub part of the bitmap. That is so if each PE
///   numbers its vertices by falling degree and some have many edges, or if the graph is small.
/// If not, fits() returns false, what was allocated is free again, and run() is an error.
///
/// Memory of the device: 64 bytes for each vertex of this PE that has an edge, or has a smaller number than one with
/// edges; with several PEs also 8 bytes for each edge and for each such vertex of all PEs; with names 8 more. In the
/// symmetric heap: symmetric_bytes().
/// @scope the program's host thread; collective, except calls that only read
/// @completion on return
/// @errors gravel::error
/// @source Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first search", SC12
class gravel_search {
 public:
  /// The parent of a vertex that was not found.
  static constexpr uint32_t no_parent = gravel::detail::no_parent;

  /// Makes the tables of the kernel. The graph's memory stays the caller's.
  /// @param graph this PE's rows; each edge is in the rows of both of its ends
  /// @param edges number of edges of this PE's rows
  /// @param names [graph.own] of own vertices, in device memory, up to 2^32 - 2; stays the caller's. nullptr: none
  gravel_search(const gravel::detail::worklist_graph& graph, uint64_t edges, const uint32_t* names = nullptr)
      : exceptions_(std::uncaught_exceptions()), own_(graph.own), own_of_(static_cast<size_t>(gravel_n_pes())) {
    gravel_allgather(own_of_.data(), &own_, 1);
    const bool has_names = gravel::detail::check_coded_graph("search", graph, edges, names);
    if (!gravel::detail::all_are_mapped()) {
      refusal_ = "not all PEs have each other's memory mapped";
      return;
    }
    refusal_ = make(graph, edges, names, has_names);
    if (!fits()) release();
    gravel_barrier_all();
  }
  ~gravel_search() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() == exceptions_) release();
  }
  /// @internal
  gravel_search(const gravel_search&) = delete;
  gravel_search& operator=(const gravel_search&) = delete;

  /// Returns the bytes that a search needs in the symmetric heap, rounded up.
  /// @param vertices most vertices of a PE
  /// @param pes number of PEs
  /// @param names whether vertices get names
  static uint64_t symmetric_bytes(uint64_t vertices, int pes, bool names) {
    const uint64_t codes = (vertices + strip) * static_cast<uint64_t>(pes);
    return codes / 4 + (names ? codes * 4 : 0) + (uint64_t{1} << 20) * static_cast<uint64_t>(pes);
  }

  /// Returns whether the kernel suits the job and the graph.
  bool fits() const { return refusal_.empty(); }
  /// Returns why the kernel does not suit the job and the graph; empty if it does.
  const std::string& refusal() const { return refusal_; }

  /// Searches from one vertex. Returns false, at all PEs, if looking back turned out to be too much work, as in a deep
  /// graph: then parents() are worth nothing.
  /// @param owner the vertex's PE
  /// @param place its number there
  /// @param how how parents are named
  bool run(int owner, uint64_t place, gravel_parents how = gravel_parents::codes) {
    if (!fits()) gravel::detail::fail_text("search: run() of a search that does not fit: " + refusal_);
    if (owner < 0 || owner >= gravel_n_pes() || place >= own_of_[static_cast<size_t>(owner)])
      gravel::detail::fail_text("search: there is no vertex " + std::to_string(place) + " of PE " +
                                std::to_string(owner));
    if (how == gravel_parents::names && !names_)
      gravel::detail::fail_text("search: run() by names, but the constructor got none");
    gravel::detail::search_view view = view_;
    if (how == gravel_parents::codes) view.names = view.first_names = view.own_names = nullptr;
    const bool is_here = owner == gravel_my_pe();
    const gravel::detail::search_root root{view_.bitmap.code_of(owner, static_cast<uint32_t>(place)),
                                           is_here ? static_cast<uint32_t>(place) : ~0u, last_place_};
    last_place_ = root.place;
    gravel::detail::launch_alone(gravel::detail::search_all_levels<>,
                                 {.grid = view.rendezvous.blocks,
                                  .block = gravel::detail::search_threads,
                                  .shared_bytes = layout_.words() * sizeof(uint32_t),
                                  .cooperative = true},
                                 gravel_handle(), view, root);
    gravel::detail::current_backend().synchronize_stream(nullptr);
    return log().gave_up == 0;
  }

  /// Returns the parents of own vertices: [own], in device memory. The root is its own parent.
  const uint32_t* parents() const { return parents_.data(); }
  /// Returns the owner of the vertex with a code.
  /// @param code of a parent
  int owner_of(uint32_t code) const { return view_.bitmap.owner_of(code); }
  /// Returns the number at its owner of the vertex with a code.
  /// @param code of a parent
  uint64_t place_of(uint32_t code) const { return view_.bitmap.place_of(code); }
  /// @internal
  const gravel::detail::replicated_bitmap& bitmap() const { return view_.bitmap; }
  /// @internal
  const gravel::detail::search_log& log() const { return *log_.data(); }

 private:
  static constexpr uint32_t strip = gravel::detail::replicated_bitmap::strip;
  /// Words of the hub part at most: 2^20 vertices. More of them leave less L1 cache.
  static constexpr uint32_t most_hub_words = 32768;

  /// Makes all tables. Returns why the kernel does not suit the graph; empty if it does.
  std::string make(const gravel::detail::worklist_graph& graph, uint64_t edges, const uint32_t* names, bool has_names) {
    using namespace gravel::detail;
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    facts_ = device_array<search_facts>(std::vector<search_facts>(1));
    if (std::string wrong = rows_.make(graph, edges); !wrong.empty()) return wrong;
    const uint64_t strips = rows_.layout().strips;

    const uint32_t blocks = resident_blocks(search_all_levels<>, search_threads);
    if (blocks == 0) return "no block has room beside the resolver and services of a PE";
    const uint64_t each = std::max<uint64_t>((strips + blocks - 1) / blocks, 1);
    layout_ = {static_cast<uint32_t>(each + 15) / 16 * 16, pes * blocks, 0};
    const uint64_t room = gravel_min_all(words_of_block());
    if (each > room || layout_.words() > room)
      return std::to_string(rows_.last()) + " vertices of a PE are too many for the shared memory of its blocks";
    const uint64_t hub_room = room - layout_.list_at(), bitmap_words = strips * pes * (strip / 32);
    layout_.hub_words = static_cast<uint32_t>(std::min({hub_room, bitmap_words, uint64_t{most_hub_words}}) / 4 * 4);

    bitmap_.make(static_cast<uint32_t>(strips));
    view_.bitmap = bitmap_.view();
    view_.offsets = view_.cut_offsets = graph.offsets;
    view_.codes = rows_.codes();
    view_.cut_places = graph.targets;  // the same numbers, if there is one PE
    view_.cut_rows = graph.own;
    view_.strips_of_block = layout_.strips;
    view_.hub_words = layout_.hub_words;
    if (!make_columns()) return "most vertices have no neighbour among those with the most edges";
    if (pes > 1) make_cut_rows(edges);
    if (has_names) make_names(names);

    rendezvous_ = level_rendezvous_memory(blocks);
    view_.rendezvous = rendezvous_.view();
    queues_ = gravel_malloc<uint32_t>(uint64_t{2} * pes * blocks * most_of_block * sizeof(uint32_t));
    view_.queues = queues_;
    lists_ = device_array<uint32_t>(uint64_t{2} * blocks * search_warps * view_.places_of_warp());
    view_.lists[0] = lists_.data();
    view_.lists[1] = lists_.data() + uint64_t{blocks} * search_warps * view_.places_of_warp();
    const uint64_t places = std::max<uint64_t>(own_, strips * strip);
    parents_ = device_array<uint32_t>(std::max<uint64_t>(places, 1));
    launch_for(places, fill_words<uint32_t>, parents_.data(), places, +no_parent);
    view_.parents = parents_.data();
    log_ = {current_backend(), 1, "the log of a search"};
    view_.log = log_.data();
    const uint64_t all_edges = gravel_sum_all(edges), all_vertices = strips * strip * pes;
    view_.most_edges = static_cast<uint32_t>(std::clamp<uint64_t>(all_edges / 40, 1, level_report::most - 1));
    view_.most_looks = 8 * all_vertices;
    gravel_synchronize();
    return {};
  }
  /// Returns whether enough vertices have their first neighbour in the hub part.
  bool make_columns() {
    using namespace gravel::detail;
    const uint64_t places = view_.places();
    columns_ = device_array<uint32_t>((1 + more_columns) * places);
    closed_ = device_array<uint32_t>(places / 32);
    view_.columns = columns_.data();
    view_.closed = closed_.data();
    launch_for(places, find_neighbours<>, view_, own_, columns_.data(), closed_.data(), facts_.data());
    const search_facts found = facts();
    std::copy(std::begin(found.column_size), std::end(found.column_size), std::begin(view_.column_size));
    return 2 * gravel_sum_all(found.near_hubs) >= gravel_sum_all(found.with_neighbours);
  }
  void make_cut_rows(uint64_t edges) {
    using namespace gravel::detail;
    const uint64_t codes = view_.bitmap.codes();
    std::vector<uint64_t> begins(codes + 1);
    cut_offsets_ = device_array<uint64_t>(begins);
    cut_places_ = device_array<uint32_t>(edges);
    launch_for(edges, count_cut_rows<>, view_.codes, edges, cut_offsets_.data() + 1);
    copy_behind_kernels(begins.data(), cut_offsets_.data(), begins.size() * sizeof(uint64_t));
    // Word c + 1 has the length of row c, and becomes its beginning; when the row is filled, it is its end.
    std::exclusive_scan(begins.begin() + 1, begins.end(), begins.begin() + 1, uint64_t{0});
    gravel_copy(cut_offsets_.data(), begins.data(), begins.size() * sizeof(uint64_t));
    launch_for(own_ * 32, fill_cut_rows<>, view_.offsets, view_.codes, own_, cut_offsets_.data() + 1,
               cut_places_.data());
    view_.cut_offsets = cut_offsets_.data();
    view_.cut_places = cut_places_.data();
    view_.cut_rows = codes;
  }
  void make_names(const uint32_t* own_names) {
    using namespace gravel::detail;
    view_.own_names = own_names;
    const uint32_t places = view_.places();
    names_ = gravel_malloc<uint32_t>(std::max<uint64_t>(view_.bitmap.codes(), 1) * sizeof(uint32_t));
    launch_for(own_, spread_words<>, gravel_handle(), view_.bitmap, own_names, own_, names_);
    gravel_barrier_all();
    first_names_ = device_array<uint32_t>(places);
    launch_for(places, name_first<>, view_.columns, view_.closed, static_cast<const uint32_t*>(names_), places,
               first_names_.data());
    view_.names = names_;
    view_.first_names = first_names_.data();
  }
  gravel::detail::search_facts facts() {
    gravel::detail::search_facts here;
    gravel::detail::copy_behind_kernels(&here, facts_.data(), sizeof(here));
    return here;
  }
  /// Collective.
  void release() {
    gravel_synchronize();
    for (uint32_t** memory : {&queues_, &names_}) {
      if (*memory) gravel_free(*memory);
      *memory = nullptr;
    }
    rendezvous_.release();
    bitmap_.release();
    rows_.release();
    for (auto* table : {&columns_, &closed_}) table->release();
  }

  gravel::detail::open_object open_{"gravel_search"};
  int exceptions_;
  uint64_t own_;
  std::vector<uint64_t> own_of_;  ///< of each PE
  std::string refusal_;
  gravel::detail::search_view view_{};
  gravel::detail::search_layout layout_{};
  uint32_t last_place_ = ~0u;  ///< of the last search's root; ~0: at another PE

  gravel::detail::coded_rows rows_;
  gravel::detail::bitmap_memory bitmap_;
  gravel::detail::level_rendezvous_memory rendezvous_;
  uint32_t *queues_ = nullptr, *names_ = nullptr;  ///< symmetric
  gravel::detail::device_array<gravel::detail::search_facts> facts_;
  gravel::detail::device_array<uint32_t> columns_, closed_, cut_places_, lists_, parents_, first_names_;
  gravel::detail::device_array<uint64_t> cut_offsets_;
  gravel::detail::pinned_array<gravel::detail::search_log> log_;  ///< the kernel writes it
};
