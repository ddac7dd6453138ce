// Distributed worklists (docs/worklists.md): vertices of a divided graph that are to be expanded, by priority, until no
// PE has any left. The umbrella header of lib/worklist. Source: "Groute: asynchronous multi-GPU programming model",
// chapter 4 (distributed worklists), chapter 5 (priorities, kernel fusion).
//
//   gravel_init<gravel_worklist_delivery<hops>>();
//   gravel_worklist<hops> work(hops{}, graph, edges);  // collective
//   work.start();                                      // all vertices unreached, lists empty
//   if (the source is here) work.offer(source, 0);
//   work.run();                                        // collective: until no vertex waits at any PE
#pragma once
#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "host/mapped_rendezvous.cuh"
#include "host/pe/libgravel.hpp"
#include "lib/worklist/check_graph.cuh"
#include "lib/worklist/exchange.cuh"
#include "lib/worklist/execution.hpp"
#include "lib/worklist/fused.cuh"
#include "lib/worklist/list_kernels.cuh"
#include "lib/worklist/ranked_memory.cuh"
#include "lib/worklist/rounds_of_all.cuh"

/// Options of a worklist. Each line says which execution reads it; the others ignore it.
struct gravel_worklist_options {
  gravel_execution execution = gravel_execution::automatic;
  uint32_t fused_most = 0;    ///< automatic: a list of more vertices is wide; 0: 1024 for each of the blocks
  uint32_t fused_blocks = 0;  ///< automatic, fused: up to 32; 0: the number measured best (docs/worklists.md)
  uint32_t ranks = 16;        ///< asynchronous: number of channels, 1 to 32
  uint32_t capacity = 0;  ///< asynchronous: of each channel, 1 to 2^30 vertices; 0: twice the PE's vertices and ghosts
  uint32_t slack = 8;     ///< asynchronous: a PE takes so many ranks beyond the lowest rank of all PEs
  uint32_t blocks = 0;    ///< asynchronous, fused with several PEs: blocks of the kernel; 0: by the device's number of
                          ///< multiprocessors (lib/worklist/list_kernels.cuh)
};

/// Counts of what run() did at this PE.
struct gravel_worklist_counts {
  uint64_t expanded = 0;    ///< vertices; a vertex that is improved later counts again
  uint64_t edges = 0;       ///< edges that were followed
  uint64_t sent = 0;        ///< values sent to other PEs
  uint64_t pieces = 0;      ///< pieces of hubs that went to blocks, or in asynchronous runs to other warps
  uint64_t rounds = 0;      ///< rounds in which a list was expanded
  uint64_t exchanges = 0;   ///< exchanges between PEs
  uint64_t launches = 0;    ///< kernels that were launched
  bool overflowed = false;  ///< asynchronous: a vertex found no room in any channel; rounds did the rest
};

/// A worklist of this job. The constructor, start(), run() and the destructor are collective; host threads call.
///
/// All executions (gravel_execution) expand the same vertices by the same program and find the same values. They differ
/// in the kernels that expand, and in the way that values are exchanged between PEs:
///
///     execution            kernels                                                exchange
///     rounds               grid rounds: a few kernels for each round              the hosts, after each round
///     automatic            grid rounds for wide lists, fused rounds for others    the hosts
///     fused, one PE        fused rounds; grid rounds for lists without room       none
///     fused, several PEs   the kernel of all rounds, one at each PE               the kernel, after each round
///     asynchronous         one kernel without rounds at each PE                   the kernel, at any time
///
/// - Grid rounds: a wide list needs the whole device, and then the time of a launch does not matter. They also finish
///   what other kernels leave: lists without room, hubs, full channels.
/// - Fused rounds (lib/worklist/fused.cuh): a narrow list takes longer to launch than to expand. A few blocks keep it
///   in shared memory for many rounds.
/// - The kernel of all rounds (lib/worklist/rounds_of_all.cuh): with several PEs hosts would launch several kernels for
///   each exchange. run(most_edges) does not use it, since there the hosts compare the lists' edges.
/// - The asynchronous kernel (lib/worklist/asynchronous.cuh): in rounds, PEs wait for the slowest one. The price is
///   that vertices are expanded with values that are not final.
///
/// With sums (unordered states) and several PEs, `rounds` and `automatic` run one grid round for each exchange.
/// @scope the program's host thread; collective, except offer(), offer_all() and calls that only read
/// @completion on return
/// @errors gravel::error
/// @source Groute, chapters 4 and 5
template <class Program>
class gravel_worklist {
 public:
  using view = gravel::detail::worklist_view<Program>;
  using value = typename view::value;
  using word = std::remove_pointer_t<decltype(Program::state::words)>;

  /// Allocates 20 bytes of device memory for each own vertex, 8 for each ghost, and 16 for each 800 edges.
  /// @param program the program; the worklist fills in its vertices' words
  /// @param graph this PE's rows; their memory belongs to the caller
  /// @param edges number of edges of this PE's rows
  /// @param options how the list is worked off
  gravel_worklist(const Program& program, const gravel::detail::worklist_graph& graph, uint64_t edges,
                  const gravel_worklist_options& options = {})
      : options_(options),
        exceptions_(std::uncaught_exceptions()),
        vertex_words_(std::max<uint64_t>(graph.vertices(), 1)),
        lists_(4 * std::max<uint64_t>(graph.own, 1) + std::max<uint64_t>(graph.n_ghosts, 1)),
        hub_pieces_(edges / gravel::detail::hub_edges + edges / gravel::detail::piece_edges + 1),
        shared_words_(std::vector<gravel::detail::worklist_words>(1)),
        context_(uint64_t{1}),
        block_reports_(std::vector<gravel::detail::block_report>(2 * gravel::detail::most_rendezvous_blocks)) {
    check(graph, edges);
    set_fused_limits();
    fill_view(program, graph);
    launch_for(graph.own, gravel::detail::find_hubs<Program>, view_);
    has_hubs_ = words().hub_size != 0;
    if (is_asynchronous()) open_channels(edges);
    const gravel::detail::worklist_inbox<Program> context{view_, channels_view_};
    gravel_copy(context_.data(), &context, sizeof(context));
    if (has_kernel_of_all_rounds())
      round_reports_ = gravel_malloc<gravel::detail::round_report>(static_cast<uint64_t>(gravel_n_pes()) *
                                                                   sizeof(gravel::detail::round_report));
    if (gravel_n_pes() > 1 && !is_asynchronous() && rendezvous_.is_mapped())
      inboxes_ = gravel::detail::inbox_memory<value>(graph);
    gravel_set_context<gravel_worklist_delivery<Program>>(context_.data());
    gravel_barrier_all();
    is_open = true;
  }
  ~gravel_worklist() {
    is_open = false;
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() != exceptions_) return;
    channels_.release(channels_view_);
    if (round_reports_) gravel_free(round_reports_);
    inboxes_.release();
    rendezvous_.release();
  }
  /// @internal
  gravel_worklist(const gravel_worklist&) = delete;
  gravel_worklist& operator=(const gravel_worklist&) = delete;

  /// Begins anew: no vertex has an offer, and all lists are empty.
  void start() {
    gravel::detail::worklist_words here{};
    here.epoch = words().epoch;
    here.limit = first_limit();
    here.least = ~0u;
    set_words(here);
    launch_for(view_.graph.vertices(), gravel::detail::fill_words<word>, vertex_words_.data(), view_.graph.vertices(),
               Program::state::initial_word);
    gravel_synchronize();
    counts_ = {};
    started_ = true;
  }
  /// Offers a value to an own vertex, between start() and run(). Not collective.
  /// @param v number of the vertex here
  /// @param x the value
  void offer(uint32_t v, value x) {
    need_start("offer");
    if constexpr (Program::state::is_ordered)
      if (x >= gravel::detail::least_keys::unreached) gravel::detail::fail_text("worklist: a key is below 2^31 - 1");
    if (v >= view_.graph.own)
      gravel::detail::fail_text("worklist: vertex " + std::to_string(v) + " is not a vertex of this PE, which has " +
                                std::to_string(view_.graph.own));
    launch(gravel::detail::offer_one<Program>, 1, 32, view_, v, x);
  }
  /// Offers to each own vertex the value that the program's `first(v)` returns. Not collective.
  void offer_all() {
    need_start("offer_all");
    launch_for(view_.graph.own, gravel::detail::offer_first<Program>, view_);
  }

  /// Works until no vertex waits at any PE and no value is in flight, and returns true. With `most_edges` it stops and
  /// returns false when the near vertices have more than `most_edges` edges in all, for programs that have a better way
  /// for many vertices. Then the values of all other vertices are final, if the limit goes from value to value
  /// (limit_after) or there is one PE.
  /// @param most_edges has no effect on the asynchronous kernel; with it the hosts of several PEs start all rounds
  bool run(uint64_t most_edges = ~uint64_t{0}) {
    need_start("run");
    most_edges_ = most_edges;
    const bool limited = most_edges != ~uint64_t{0};
    // This also makes sure that no PE sends before all have called start().
    if (const auto pes = static_cast<uint64_t>(gravel_n_pes()); pes > 1 && gravel_sum_all(uint64_t{limited}) % pes != 0)
      gravel::detail::fail_text("worklist: run(most_edges) at some PEs, and run() at others");
    if (is_asynchronous()) run_asynchronously();
    if (has_kernel_of_all_rounds() && !limited) run_kernel_of_all_rounds();
    const bool is_done = run_rounds();  // all rounds, or those that the kernels above have left
    const gravel::detail::worklist_words here = words();
    counts_.expanded = here.expanded;
    counts_.edges = here.edges;
    counts_.sent = here.sent;
    counts_.rounds = here.rounds;
    counts_.pieces = here.pieces;
    return is_done;
  }
  /// Returns what the last run did at this PE.
  const gravel_worklist_counts& counts() const { return counts_; }
  /// Returns the words of own vertices, then of ghosts, in device memory.
  const word* vertex_words() const { return vertex_words_.data(); }
  /// @internal
  const view& kernels_view() const { return view_; }

 private:
  /// Handlers find the worklist by its program, so at most one worklist of each program is open.
  GRAVEL_API inline static bool is_open = false;

  // All executions: checks, memory, launches.

  bool is_asynchronous() const { return options_.execution == gravel_execution::asynchronous; }
  bool has_kernel_of_all_rounds() const { return options_.execution == gravel_execution::fused && gravel_n_pes() > 1; }

  void check(const gravel::detail::worklist_graph& graph, uint64_t edges) const {
    std::string wrong;
    uint64_t by_offsets = 0;
    if (graph.own) gravel_copy(&by_offsets, &graph.offsets[graph.own], sizeof(by_offsets));
    if (is_open) wrong = std::string("a worklist of the program '") + Program::name + "' is open already";
    else if (graph.vertices() >= gravel::detail::block_rendezvous::size_mask)
      wrong = "a PE may have up to 2^31 - 2 vertices and ghosts";
    else if (by_offsets != edges)
      wrong = "the rows have " + std::to_string(by_offsets) + " edges by their offsets, not " + std::to_string(edges);
    else if (options_.fused_blocks > gravel::detail::most_rendezvous_blocks)
      wrong = "fused_blocks is " + std::to_string(options_.fused_blocks) + ", the most are " +
              std::to_string(gravel::detail::most_rendezvous_blocks);
    else if (options_.ranks == 0 || options_.ranks > gravel::detail::most_ranks || options_.capacity > 1u << 30)
      wrong = "ranks are 1 to " + std::to_string(gravel::detail::most_ranks) + ", the capacity of each up to 2^30";
    if (const std::string text = gravel::detail::faults_of(graph, edges, wrong.empty()); wrong.empty()) wrong = text;
    const uint64_t mine = static_cast<uint64_t>(options_.execution) << 32 | options_.ranks;
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      gravel::detail::fail_text("worklist: " + (wrong.empty() ? std::string("refused at another PE") : wrong));
    if (gravel_min_all(mine) != gravel_max_all(mine))
      gravel::detail::fail_text("worklist: PEs differ in execution or ranks");
  }
  void need_start(const char* call) const {
    if (!started_) gravel::detail::fail_text(std::string("worklist: ") + call + "() before start()");
  }

  void set_fused_limits() {
    if (options_.fused_blocks == 0) options_.fused_blocks = GRAVEL_CUDA ? gravel::detail::most_rendezvous_blocks : 2;
    const uint32_t room = options_.fused_blocks * gravel::detail::local_entries * 3 / 4;
    if (options_.execution == gravel_execution::fused) options_.fused_most = room;
    else if (options_.fused_most == 0) options_.fused_most = options_.fused_blocks * 1024;
    options_.fused_most = std::min(options_.fused_most, room);
  }
  void fill_view(const Program& program, const gravel::detail::worklist_graph& graph) {
    const uint64_t own = std::max<uint64_t>(graph.own, 1);
    view_.program = program;
    view_.program.vertices.words = vertex_words_.data();
    view_.graph = graph;
    for (int i = 0; i < 2; ++i) {
      view_.near[i] = lists_.data() + i * own;
      view_.far[i] = lists_.data() + (2 + i) * own;
    }
    view_.remote = lists_.data() + 4 * own;
    view_.hubs = hub_pieces_.data();
    view_.words = shared_words_.data();
    view_.reports = reinterpret_cast<gravel::detail::block_report(*)[gravel::detail::most_rendezvous_blocks]>(
        block_reports_.data());
  }

  /// Waits for this PE's kernels and returns the words that they share with the host.
  gravel::detail::worklist_words words() {
    gravel::detail::worklist_words here;
    gravel::detail::copy_behind_kernels(&here, shared_words_.data(), sizeof(here));
    return here;
  }
  void set_words(const gravel::detail::worklist_words& here) { gravel_copy(shared_words_.data(), &here, sizeof(here)); }
  uint32_t first_limit() const {
    if constexpr (Program::state::is_ordered) return view_.program.limit_after(0);
    else return ~0u;
  }

  template <class... P, class... A>
  void launch(void (*kernel)(P...), unsigned grid, unsigned block, A... arguments) {
    ++counts_.launches;
    gravel::detail::launch_alone(kernel, {.grid = grid, .block = block}, arguments...);
  }
  /// Launches a kernel whose lanes each take some of `items`.
  template <class... P, class... A>
  void launch_for(uint64_t items, void (*kernel)(P...), A... arguments) {
    launch(kernel, gravel::detail::vertex_blocks(items), gravel::detail::vertex_threads, arguments...);
  }

  /// How a kernel that stays until all is done is launched: the asynchronous kernel, and the kernel of all rounds.
  template <class... P>
  gravel_launch_config resident(void (*kernel)(P...)) const {
    return gravel::detail::resident_launch(kernel, options_.blocks, gravel_n_pes() == 1, static_cast<bool>(inboxes_));
  }

  // The asynchronous execution.

  void open_channels(uint64_t edges) {
    constexpr uint64_t most = 1u << 30;
    const uint64_t vertices = std::max<uint64_t>(view_.graph.vertices(), 32);
    channels_view_.n_ranks = options_.ranks;
    channels_view_.capacity =
        options_.capacity ? options_.capacity : static_cast<uint32_t>(std::min(2 * vertices, most));
    channels_view_.slack = options_.slack;
    const uint64_t pieces =
        options_.capacity ? options_.capacity : std::min(2 * (edges / gravel::detail::edges_of_piece) + 32, most);
    channels_view_.pieces_room = has_hubs_ ? static_cast<uint32_t>(pieces) : 0;
    channels_.open(channels_view_, bytes_of_pieces());
    channels_view_.piece_memory = channels_view_.memory + channels_view_.stride * channels_view_.n_ranks;
  }
  uint64_t bytes_of_pieces() const {
    return channels_view_.pieces_room
               ? gravel::detail::channel<gravel::detail::edge_piece>::bytes(channels_view_.pieces_room)
               : 0;
  }
  void run_asynchronously() {
    channels_.empty(channels_view_);
    if (channels_view_.pieces_room)
      gravel_copy(&channels_view_.pieces().state().room, &channels_view_.pieces_room, sizeof(uint32_t));
    gravel::detail::worklist_words lists = words();
    launch_for(lists.near_size[lists.near_turn] + lists.far_size[lists.far_turn],
               gravel::detail::lists_to_ranks<Program>, view_, channels_view_);
    lists = words();
    lists.near_size[lists.near_turn] = lists.far_size[lists.far_turn] = 0;
    lists.asynchronous = 1;
    set_words(lists);
    gravel_barrier_all();  // from now on the handlers of all PEs list into channels
    ++counts_.launches;
    const auto kernel = gravel::detail::work_asynchronously<Program>;
    const gravel_launch_config how = resident(kernel);
    if (gravel_n_pes() == 1) gravel::detail::launch_alone(kernel, how, gravel_handle(), view_, channels_view_);
    else gravel_launch(kernel, how, gravel_handle(), view_, channels_view_);
    gravel_barrier_all();
    lists = words();
    lists.asynchronous = 0;
    set_words(lists);
    if ((counts_.overflowed = gravel_max_all(channels_.words(channels_view_).overflows) != 0))
      launch_for(view_.graph.vertices(), gravel::detail::collect_waiting<Program>, view_);
  }

  // The kernel of all rounds: fused, with several PEs.

  void run_kernel_of_all_rounds() {
    const uint32_t before = words().exchanges;
    ++counts_.launches;
    using block_sender = gravel_block_sender<gravel::detail::vertex_threads>;
    const auto by_inboxes = gravel::detail::run_rounds_of_all<Program, gravel::detail::mapped_sender>;
    const auto by_messages = gravel::detail::run_rounds_of_all<Program, block_sender>;
    if (inboxes_)
      gravel::detail::launch_alone(by_inboxes, resident(by_inboxes), gravel_handle(), view_, round_reports_,
                                   inboxes_.view());
    else gravel_launch(by_messages, resident(by_messages), gravel_handle(), view_, round_reports_, inboxes_.view());
    counts_.exchanges += words().exchanges - before;
  }

  // Rounds that the hosts start, grid rounds and fused rounds: automatic, rounds, fused with one PE, run(most_edges),
  // and what the other executions leave.

  /// Runs rounds until no PE has a vertex. Returns false if it stops at near vertices with more than most_edges_ edges.
  bool run_rounds() {
    do {
      do {
        if (!expand_here()) return false;
      } while (exchange());
      if (!advance_limit()) return true;
    } while (gravel_n_pes() == 1 || !is_too_wide());
    return false;
  }
  bool is_too_wide() {
    if (most_edges_ == ~uint64_t{0}) return false;
    count_near();
    return rendezvous_.sum(&view_.words->near_edges) > most_edges_;
  }
  /// Counts the edges of this PE's near vertices, into its words.
  void count_near() {
    gravel::detail::worklist_words here = words();
    here.near_edges = 0;
    set_words(here);
    const uint32_t near = here.near_size[here.near_turn];
    if (near) launch_for(near, gravel::detail::count_near_edges<Program>, view_);
  }
  /// Expands until this PE has no near vertex. Returns false if the list is too wide.
  bool expand_here() {
    for (gravel::detail::worklist_words here = words();; here = words()) {
      const uint32_t near = here.near_size[here.near_turn];
      far_waiting_ = here.far_size[here.far_turn];
      const bool advances = gravel_n_pes() == 1 && Program::state::is_ordered;
      if (near == 0 && (!advances || far_waiting_ == 0)) return true;
      if (gravel_n_pes() > 1 && !Program::state::is_ordered) {
        // Sums: expanding further before the exchange would pass values on in many small parts.
        if (near) expand_by_grid(near);
        return true;
      }
      if (options_.execution != gravel_execution::rounds && near <= options_.fused_most) {
        run_fused_rounds(advances);
        const gravel::detail::worklist_words after = words();
        const uint32_t left = after.near_size[after.near_turn];
        if (left == 0 || left > options_.fused_most) continue;
        // The kernel has ended at a hub, or for lack of room: the grid runs one round.
        if (gravel_n_pes() == 1 && is_too_wide()) return false;
        expand_by_grid(left);
      } else if (near != 0) {
        if (gravel_n_pes() == 1 && is_too_wide()) return false;
        expand_by_grid(near);
      } else {
        return true;
      }
    }
  }
  /// One grid round.
  void expand_by_grid(uint32_t near) {
    launch_for(near, gravel::detail::expand_near<Program>, view_);
    launch(gravel::detail::expand_hubs<Program>, gravel::detail::vertex_blocks(~0u), gravel::detail::vertex_threads,
           view_);  // the kernel reads the number of pieces itself
    launch(gravel::detail::turn_over<Program>, 1, 1, view_);
  }
  /// Fused rounds, until the list is empty or wide, or a block must leave. `advances`: the kernel advances the limit.
  void run_fused_rounds(bool advances) {
    constexpr uint32_t most_rounds = 1u << 24;
    ++counts_.launches;
    gravel::detail::launch_alone(
        gravel::detail::run_rounds<Program>,
        {.grid = options_.fused_blocks, .block = gravel::detail::fused_threads, .cooperative = true}, view_,
        gravel::detail::fused_limits{options_.fused_most, most_rounds, advances, has_hubs_});
    launch(gravel::detail::turn_over_fused<Program>, 1, 1, view_);
  }

  /// Sends the values of ghosts to their owners. Returns false if no PE has a ghost with a new value or a near vertex;
  /// then least_of_all_ is known.
  bool exchange() {
    if (gravel_n_pes() == 1) return false;
    constexpr uint32_t first_words = sizeof(gravel::detail::worklist_sizes) / sizeof(uint64_t);
    if (far_waiting_) launch_for(far_waiting_, gravel::detail::find_least<Program>, view_);
    least_of_all_ = ~0u;
    const auto of_all = rendezvous_.gather(shared_words_.data(), first_words);
    uint32_t ghosts_here = 0;
    bool any_ghost = false, any_near = false;
    for (size_t pe = 0; pe < of_all.size() / first_words; ++pe) {
      gravel::detail::worklist_sizes of_pe;
      std::memcpy(&of_pe, &of_all[pe * first_words], sizeof(of_pe));
      least_of_all_ = std::min(least_of_all_, of_pe.least);
      any_ghost |= of_pe.remote_size != 0;
      any_near |= of_pe.near_size[of_pe.near_turn] != 0;
      if (static_cast<int>(pe) == gravel_my_pe()) ghosts_here = of_pe.remote_size;
    }
    if (!any_ghost) return any_near;
    ++counts_.exchanges;
    if (inboxes_) exchange_by_inboxes(ghosts_here);
    else exchange_by_messages(ghosts_here);
    return true;
  }
  void exchange_by_inboxes(uint32_t ghosts_here) {
    launch_for(ghosts_here, gravel::detail::post_remote<Program>, gravel_handle(), view_, inboxes_.view());
    launch(gravel::detail::notify_remote<Program>, 1, 32, gravel_handle(), view_, inboxes_.view());
    rendezvous_.round();
    launch_for(view_.graph.own, gravel::detail::take_remote<Program>, gravel_handle(), view_, inboxes_.view());
  }
  void exchange_by_messages(uint32_t ghosts_here) {
    if (ghosts_here) {
      ++counts_.launches;
      gravel_launch(gravel::detail::send_remote<Program, gravel_block_sender<gravel::detail::vertex_threads>>,
                    gravel::detail::vertex_blocks(ghosts_here), gravel::detail::vertex_threads, gravel_handle(), view_);
    }
    launch(gravel::detail::forget_remote<Program>, 1, 1, view_);
    gravel_barrier_all();
  }
  /// Sets the limit beyond the least key that waits at any PE. Returns false if no vertex waits.
  bool advance_limit() {
    if constexpr (!Program::state::is_ordered) {
      return false;
    } else {
      uint32_t least = least_of_all_;
      if (gravel_n_pes() == 1) {
        if (far_waiting_) launch_for(far_waiting_, gravel::detail::find_least<Program>, view_);
        least = words().least;
      }
      if (least == ~0u) return false;
      const uint32_t limit = std::max(view_.program.limit_after(least), least + 1);
      launch_for(far_waiting_, gravel::detail::split_far<Program>, view_, limit);
      launch(gravel::detail::set_limit<Program>, 1, 1, view_, limit);
      return true;
    }
  }

  // All executions.
  gravel::detail::open_object open_{"gravel_worklist"};
  gravel_worklist_options options_;
  int exceptions_;
  gravel_worklist_counts counts_;
  bool has_hubs_ = false, started_ = false;
  gravel::detail::device_array<word> vertex_words_;
  gravel::detail::device_array<uint32_t> lists_;
  gravel::detail::device_array<gravel::detail::hub_piece> hub_pieces_;
  gravel::detail::device_array<gravel::detail::worklist_words> shared_words_;
  gravel::detail::device_array<gravel::detail::worklist_inbox<Program>> context_;  ///< of the handlers
  view view_{};

  // Fused rounds: reports of the blocks to each other.
  gravel::detail::device_array<gravel::detail::block_report> block_reports_;

  // Rounds that the hosts start.
  uint64_t most_edges_ = ~uint64_t{0};  ///< the argument of run()
  uint32_t far_waiting_ = 0;            ///< entries of the far list when this PE had no near vertex
  uint32_t least_of_all_ = ~0u;         ///< the least key in the far lists of all PEs
  gravel::detail::mapped_rendezvous rendezvous_;

  // Exchanges of all executions but the asynchronous one, if all PEs have each other's memory mapped; otherwise empty.
  gravel::detail::inbox_memory<value> inboxes_;

  // The kernel of all rounds; otherwise null.
  gravel::detail::round_report* round_reports_ = nullptr;  ///< symmetric [PEs]

  // The asynchronous execution; otherwise empty.
  gravel::detail::ranked_memory<gravel::detail::asynchronous_view> channels_;
  gravel::detail::asynchronous_view channels_view_{};
};
