// Breadth-first search by a distributed worklist. Where many vertices are found at once, it goes the other way round:
// each vertex that has not been found looks back, for one among its neighbours that has.
#pragma once
#include "lib/worklist/algorithms/frontier_bits.cuh"

namespace gravel::detail {

/// The program of the worklist: keys are levels.
struct search_hops {
  static constexpr const char* name = "breadth_first_search";
  static constexpr uint32_t rank_levels = 16;  ///< levels of a rank of an asynchronous run
  using state = least_keys;
  state vertices;
  uint32_t width;  ///< levels that are worked on together
  GRAVEL_DEVICE uint32_t begin(uint32_t, uint32_t level, uint64_t) const { return level; }
  GRAVEL_DEVICE uint32_t along(uint32_t level, uint64_t) const { return level + 1; }
  GRAVEL_BOTH uint32_t limit_after(uint32_t level) const {
    return level < least_keys::unreached - width ? level + width : least_keys::unreached;
  }
  GRAVEL_BOTH uint32_t rank_of(uint32_t level) const { return level / rank_levels; }
};

/// Options of a breadth_first_search.
struct breadth_first_options {
  gravel_worklist_options work = {};  ///< asynchronous: no vertex looks back
  uint32_t width = 0;            ///< of several PEs: levels that each works on before they exchange; 0: 64 if no vertex
                                 ///< looks back, else 1, which looking back needs
  bool looks_back = true;        ///< false: by the worklist alone
  double look_back_from = 0.01;  ///< share of all edges, of a level's vertices, from which on vertices look back
  double work_on_below = 0.0005;  ///< share of all vertices, found in a level, below which the worklist goes on
};

/// A breadth-first search of an undirected graph: made once, for searches from any number of vertices. gravel_init
/// names `breadth_first_search::delivery` among its handlers.
///
///   gravel::breadth_first_search search(graph, edges);   // collective
///   search.run(owner, place);                            // collective
///
/// Memory: that of a gravel_worklist, and of the device 8 bytes for each own vertex; in the symmetric heap 4 bytes for
/// each vertex and ghost, and with several PEs a bit for each vertex of all PEs.
/// @scope the program's host thread; collective, except calls that only read. At most one is open
/// @completion on return
/// @errors gravel::error, at all PEs
/// @source Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first search", SC12
class breadth_first_search {
 public:
  using delivery = gravel_worklist_delivery<search_hops>;
  static constexpr uint32_t unreached = least_keys::unreached;      ///< the level of a vertex that was not found
  static constexpr uint32_t no_parent = gravel::detail::no_parent;  ///< also the parent of the source

  /// Makes the worklist. The graph's memory stays the caller's.
  /// @param graph this PE's rows; each edge is in the rows of both of its ends, and the codes of ghosts ascend
  /// @param edges number of edges of this PE's rows
  /// @param options the same at all PEs
  breadth_first_search(const worklist_graph& graph, uint64_t edges, const breadth_first_options& options = {})
      : exceptions_(std::uncaught_exceptions()),
        options_(checked(options)),
        vertices_(graph),
        all_vertices_(static_cast<double>(vertices_.sum())),
        work_(search_hops{{}, width_of(options)}, graph, edges, options.work),
        bits_(graph, edges),
        most_edges_(looks_back(options)
                        ? static_cast<uint64_t>(options.look_back_from * static_cast<double>(gravel_sum_all(edges)))
                        : ~uint64_t{0}) {}
  ~breadth_first_search() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() == exceptions_) bits_.release();
  }
  /// @internal
  breadth_first_search(const breadth_first_search&) = delete;
  breadth_first_search& operator=(const breadth_first_search&) = delete;

  /// Searches from one vertex. All PEs pass the same.
  /// @param owner the vertex's PE
  /// @param place its number there
  void run(int owner, uint64_t place) {
    vertices_.check("breadth_first_search", owner, place);
    looked_back_ = 0;
    work_.start();
    if (owner == gravel_my_pe()) work_.offer(static_cast<uint32_t>(place), 0);
    bits_.forget_parents();
    while (!work_.run(most_edges_)) {
      uint32_t level = bits_.take_near(work_.kernels_view());
      for (uint64_t found = 1; found != 0;) {
        bits_.notify_others();
        found = bits_.pull(work_.kernels_view(), ++level);
        ++looked_back_;
        if (static_cast<double>(found) < options_.work_on_below * all_vertices_) break;
      }
      bits_.give_near(work_.kernels_view(), level);
    }
    bits_.find_parents(work_.kernels_view(), owner, place);
  }

  /// Returns the words of own vertices, then of ghosts, in device memory: level_of() reads them.
  const uint32_t* vertex_words() const { return work_.vertex_words(); }
  /// Returns the level in a vertex's word: the number of edges from the source, or `unreached`.
  /// @param word of a vertex
  GRAVEL_BOTH static uint32_t level_of(uint32_t word) { return least_keys::key_of(word); }
  /// Returns the parents of own vertices: [own], in device memory. A parent is called as the rows call it: numbers from
  /// `own` on are ghosts.
  const uint32_t* parents() const { return bits_.view().parents; }
  /// Returns what the last run did at this PE.
  const gravel_worklist_counts& counts() const { return work_.counts(); }
  /// Returns in how many levels of the last run vertices looked back.
  unsigned levels_looked_back() const { return looked_back_; }
  /// @internal
  frontier_bits& bits() { return bits_; }
  /// @internal
  const gravel_worklist<search_hops>::view& kernels_view() const { return work_.kernels_view(); }

 private:
  static bool looks_back(const breadth_first_options& options) {
    return options.looks_back && options.work.execution != gravel_execution::asynchronous;
  }
  static uint32_t width_of(const breadth_first_options& options) {
    if (gravel_n_pes() == 1) return least_keys::unreached;
    if (options.width) return options.width;
    return options.looks_back ? 1 : 64;
  }
  static const breadth_first_options& checked(const breadth_first_options& options) {
    if (options.looks_back && options.width > 1)
      fail_text("breadth_first_search: a width above 1 goes without looking back, which must know a whole level");
    return options;
  }

  int exceptions_;
  breadth_first_options options_;
  vertices_of_pes vertices_;
  double all_vertices_;
  gravel_worklist<search_hops> work_;
  frontier_bits bits_;
  uint64_t most_edges_;
  unsigned looked_back_ = 0;
};

}  // namespace gravel::detail
