// Distributed worklists (docs/worklists.md): vertices of a divided graph that are to be expanded, by priority, until no
// PE has any. The umbrella header of lib/worklist. Source: "Groute: asynchronous multi-GPU programming model", chapter
// 4 (distributed worklists), chapter 5 (priorities, kernel fusion).
//
//   gravel_init<gravel_worklist_delivery<hops>>();
//   gravel_worklist<hops> work(hops{}, graph);     // collective
//   work.start();                                  // all vertices unreached, lists empty
//   if (the source is here) work.offer(source, 0);
//   work.run();                                    // collective: until nothing waits at any PE
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
#include "lib/worklist/exchange.cuh"
#include "lib/worklist/fused.cuh"
#include "lib/worklist/list_kernels.cuh"
#include "lib/worklist/rounds_of_all.cuh"

/// How a worklist is worked off.
enum class gravel_execution {
  automatic,  ///< rounds of the whole grid, or, while the list is narrow, many rounds in one kernel of a few blocks
  rounds,     ///< rounds of the whole grid alone
  fused,  ///< as automatic, but wide lists are left to the grid only where they find no room; of several PEs one kernel
          ///< for all rounds (rounds_of_all.cuh)
  asynchronous,  ///< one kernel without rounds, from the first vertex to the last, at all PEs
                 ///< (lib/worklist/asynchronous.cuh)
};

struct gravel_worklist_options {
  gravel_execution execution = gravel_execution::automatic;
  uint32_t fused_most = 0;    ///< a list of more vertices is wide; 0: 1024 for each of the blocks
  uint32_t fused_blocks = 0;  ///< up to 32; 0: as measured best (docs/worklists.md)
  uint32_t ranks = 16;        ///< asynchronous: channels, 1 to 32
  uint32_t capacity = 0;      ///< of each, 1 to 2^30 vertices; 0: twice as many as the PE has, ghosts included
  uint32_t slack = 8;         ///< ranks beyond the lowest of all PEs that a PE takes
  uint32_t blocks = 0;  ///< asynchronous, and fused with several PEs; 0: one for half of the multiprocessors, or as
                        ///< many as there are if no other PE sends
};

/// What run() did at this PE.
struct gravel_worklist_counts {
  uint64_t expanded = 0;  ///< vertices; one that is improved later counts again
  uint64_t edges = 0;     ///< that were followed
  uint64_t sent = 0;      ///< values, to other PEs
  uint64_t pieces =
      0;  ///< of vertices with many edges, that were given to blocks, or in asynchronous runs to other warps
  uint64_t rounds = 0;      ///< in which a list was expanded
  uint64_t exchanges = 0;   ///< between PEs
  uint64_t launches = 0;    ///< of kernels
  bool overflowed = false;  ///< asynchronous: something found no room in its channel, and was done in rounds
};

/// A worklist of this job. The constructor, start(), run() and the destructor are collective; host threads call.
/// @scope the program's host thread; collective, but for offer(), offer_all() and what only reads
/// @completion on return
/// @errors gravel::error
/// @source Groute, chapters 4 and 5
template <class Program>
class gravel_worklist {
 public:
  using view = gravel::detail::worklist_view<Program>;
  using value = typename view::value;
  using word = std::remove_pointer_t<decltype(Program::state::words)>;

  /// Takes 20 bytes of device memory for each own vertex, 8 for each ghost, and 16 for each 800 edges.
  /// @param program without its vertices' words, which lie here
  /// @param graph this PE's rows; their memory stays the caller's
  /// @param edges of this PE's rows
  /// @param options how the list is worked off
  gravel_worklist(const Program& program, const gravel::detail::worklist_graph& graph, uint64_t edges,
                  const gravel_worklist_options& options = {})
      : options_(options),
        words_(std::max<uint64_t>(graph.vertices(), 1)),
        lists_(4 * std::max<uint64_t>(graph.own, 1) + std::max<uint64_t>(graph.n_ghosts, 1)),
        hubs_(edges / gravel::detail::hub_edges + edges / gravel::detail::piece_edges + 1),
        shared_(std::vector<gravel::detail::worklist_words>(1)),
        reports_(std::vector<gravel::detail::block_report>(2 * gravel::detail::most_rendezvous_blocks)),
        inbox_(uint64_t{1}),
        exceptions_(std::uncaught_exceptions()) {
    check(graph, edges);
    if (options_.fused_blocks == 0) options_.fused_blocks = GRAVEL_CUDA ? gravel::detail::most_rendezvous_blocks : 2;
    const uint32_t room = options_.fused_blocks * gravel::detail::local_entries * 3 / 4;
    const bool all = options_.execution == gravel_execution::fused;
    options_.fused_most = std::min(options.fused_most && !all ? options.fused_most
                                   : all                      ? room
                                                              : options_.fused_blocks * 1024,
                                   room);
    const uint64_t own = std::max<uint64_t>(graph.own, 1);
    view_.program = program;
    view_.program.vertices.words = words_.data();
    view_.graph = graph;
    for (int i = 0; i < 2; ++i) {
      view_.near[i] = lists_.data() + i * own;
      view_.far[i] = lists_.data() + (2 + i) * own;
    }
    view_.remote = lists_.data() + 4 * own;
    view_.hubs = hubs_.data();
    view_.words = shared_.data();
    view_.reports =
        reinterpret_cast<gravel::detail::block_report(*)[gravel::detail::most_rendezvous_blocks]>(reports_.data());
    launch_for(graph.own, gravel::detail::find_hubs<Program>, view_);
    has_hubs_ = words().hub_size != 0;
    gravel::detail::worklist_inbox<Program> inbox{view_, {}};
    if (options_.execution == gravel_execution::asynchronous) {
      open_ranks(edges);
      inbox.a = ranked_;
    }
    gravel_copy(inbox_.data(), &inbox, sizeof(inbox));
    if (options_.execution == gravel_execution::fused && gravel_n_pes() > 1)
      rounds_ = gravel_malloc<gravel::detail::round_report>(static_cast<uint64_t>(gravel_n_pes()) *
                                                            sizeof(gravel::detail::round_report));
    if (gravel_n_pes() > 1 && options_.execution != gravel_execution::asynchronous && rendezvous_.is_mapped())
      inboxes_ = gravel::detail::inbox_memory<value>(graph);
    gravel_set_context<gravel_worklist_delivery<Program>>(inbox_.data());
    gravel_barrier_all();
    is_open = true;
  }
  ~gravel_worklist() {
    is_open = false;
    // Where an exception passes, other PEs may not be here; gravel_finalize frees it, too.
    if (std::uncaught_exceptions() != exceptions_) return;
    if (ranked_.reports) gravel_free(ranked_.reports);
    if (rounds_) gravel_free(rounds_);
    inboxes_.release();
    rendezvous_.release();
  }
  /// @internal
  gravel_worklist(const gravel_worklist&) = delete;
  gravel_worklist& operator=(const gravel_worklist&) = delete;

  /// Begins anew: nobody has been offered anything, and the lists are empty.
  void start() {
    gravel::detail::worklist_words here{};
    here.epoch = words().epoch;
    here.limit = first_limit();
    here.least = ~0u;
    set_words(here);
    launch_for(view_.graph.vertices(), gravel::detail::fill_words<word>, words_.data(), view_.graph.vertices(),
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
      gravel::detail::fail_text("worklist: vertex " + std::to_string(v) + " is none of this PE's " +
                                std::to_string(view_.graph.own));
    launch(gravel::detail::offer_one<Program>, 1, 32, view_, v, x);
  }
  /// Offers to each own vertex what the program's `first(v)` says. Not collective.
  void offer_all() {
    need_start("offer_all");
    launch_for(view_.graph.own, gravel::detail::offer_first<Program>, view_);
  }

  /// Works until no vertex waits at any PE and nothing is under way. Or, where a program has a better way for many
  /// vertices, until those that are near have more than `most_edges` edges in all: then it returns false, and the
  /// values of all others are final if the limit goes from value to value (limit_after), or there is one PE.
  /// @param most_edges has no effect on the asynchronous kernel; with it rounds of several PEs go through their hosts
  bool run(uint64_t most_edges = ~uint64_t{0}) {
    need_start("run");
    most_edges_ = most_edges;
    const bool limited = most_edges != ~uint64_t{0};
    // Also: nobody sends before all have started.
    if (const auto pes = static_cast<uint64_t>(gravel_n_pes()); pes > 1 && gravel_sum_all(uint64_t{limited}) % pes != 0)
      gravel::detail::fail_text("worklist: run(most_edges) at some PEs, and run() at others");
    bool goes_on = true;
    if (options_.execution == gravel_execution::asynchronous) run_asynchronously();
    if (rounds_ && !limited) run_rounds_of_all();
    do {
      do goes_on = expand_here();
      while (goes_on && exchange());
    } while (goes_on && advance() && (goes_on = gravel_n_pes() == 1 || !is_too_wide()));
    const gravel::detail::worklist_words here = words();
    counts_.expanded = here.expanded;
    counts_.edges = here.edges;
    counts_.sent = here.sent;
    counts_.rounds = here.rounds;
    counts_.pieces = here.pieces;
    return goes_on;
  }
  /// What the last run did here.
  const gravel_worklist_counts& counts() const { return counts_; }
  /// The words of own vertices, then of ghosts, in device memory.
  const word* vertex_words() const { return words_.data(); }
  /// @internal
  const view& kernels_view() const { return view_; }

 private:
  /// Handlers find the worklist by its program, so there is one of each program at a time.
  GRAVEL_API inline static bool is_open = false;

  void check(const gravel::detail::worklist_graph& graph, uint64_t edges) const {
    std::string wrong;
    uint64_t by_offsets = 0;
    if (graph.own) gravel_copy(&by_offsets, &graph.offsets[graph.own], sizeof(by_offsets));
    if (is_open)
      wrong = std::string("one of the program '") + Program::name + "' is open already; its messages would come here";
    else if (graph.vertices() >= gravel::detail::block_rendezvous::size_mask)
      wrong = "a PE may have up to 2^31 - 2 vertices and ghosts";
    else if (by_offsets != edges)
      wrong = "the rows have " + std::to_string(by_offsets) + " edges by their offsets, not " + std::to_string(edges);
    else if (options_.fused_blocks > gravel::detail::most_rendezvous_blocks)
      wrong = "fused_blocks is " + std::to_string(options_.fused_blocks) + ", the most are " +
              std::to_string(gravel::detail::most_rendezvous_blocks);
    else if (options_.ranks == 0 || options_.ranks > gravel::detail::most_ranks || options_.capacity > 1u << 30)
      wrong = "ranks are 1 to " + std::to_string(gravel::detail::most_ranks) + ", the capacity of each up to 2^30";
    if (const std::string text = faults_of(graph, edges, wrong.empty()); wrong.empty()) wrong = text;
    const uint64_t mine = static_cast<uint64_t>(options_.execution) << 32 | options_.ranks;
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      gravel::detail::fail_text("worklist: " + (wrong.empty() ? std::string("refused at another PE") : wrong));
    if (gravel_min_all(mine) != gravel_max_all(mine))
      gravel::detail::fail_text("worklist: PEs differ in execution or ranks");
  }
  /// What cannot be in the graph: kernels and other PEs' handlers would write where nothing of the worklist's is.
  /// Collective; `looks`: not only for others.
  static std::string faults_of(const gravel::detail::worklist_graph& graph, uint64_t edges, bool looks) {
    std::vector<uint64_t> own(static_cast<size_t>(gravel_n_pes()));
    gravel_allgather(own.data(), &graph.own, 1);
    if (!looks) return {};
    const gravel::detail::device_array<uint64_t> own_of(own);
    gravel::detail::device_array<gravel::detail::graph_faults> found(std::vector<gravel::detail::graph_faults>(1));
    gravel::detail::launch_alone(gravel::detail::find_faults<>,
                                 {.grid = gravel::detail::vertex_blocks(std::max(edges, graph.vertices())),
                                  .block = gravel::detail::vertex_threads},
                                 graph, edges, own_of.data(), static_cast<uint32_t>(own.size()), found.data());
    gravel_synchronize();
    gravel::detail::graph_faults first;
    gravel_copy(&first, found.data(), sizeof(first));
    constexpr uint64_t none = gravel::detail::graph_faults::none;
    if (first.row != none)
      return "row " + std::to_string(first.row) + " ends before it begins, or behind the " + std::to_string(edges) +
             " edges";
    if (first.edge != none)
      return "edge " + std::to_string(first.edge) + " leads to a vertex beyond the " + std::to_string(graph.own) +
             " of this PE and its " + std::to_string(graph.n_ghosts) + " ghosts";
    if (first.ghost == none) return {};
    uint32_t code = 0;
    gravel_copy(&code, &graph.ghosts[first.ghost], sizeof(code));
    return "ghost " + std::to_string(first.ghost) + " is vertex " + std::to_string(graph.codes.place(code)) +
           " of PE " + std::to_string(graph.codes.owner(code)) + ", which there is not";
  }
  void need_start(const char* call) const {
    if (!started_) gravel::detail::fail_text(std::string("worklist: ") + call + "() before start()");
  }

  gravel::detail::worklist_words words() {
    gravel::detail::worklist_words here;
    gravel::detail::copy_behind_kernels(&here, shared_.data(), sizeof(here));
    return here;
  }
  void set_words(const gravel::detail::worklist_words& here) { gravel_copy(shared_.data(), &here, sizeof(here)); }
  uint32_t first_limit() const {
    if constexpr (Program::state::is_ordered) return view_.program.limit_after(0);
    else return ~0u;
  }

  template <class... P, class... A>
  void launch(void (*kernel)(P...), unsigned grid, unsigned block, A... arguments) {
    ++counts_.launches;
    gravel::detail::launch_alone(kernel, {.grid = grid, .block = block}, arguments...);
  }
  /// One whose lanes each take some of `items`.
  template <class... P, class... A>
  void launch_for(uint64_t items, void (*kernel)(P...), A... arguments) {
    launch(kernel, gravel::detail::vertex_blocks(items), gravel::detail::vertex_threads, arguments...);
  }

  /// Channels for the asynchronous kernel.
  void open_ranks(uint64_t edges) {
    constexpr uint64_t most = 1u << 30;
    const uint64_t vertices = std::max<uint64_t>(view_.graph.vertices(), 32);
    ranked_.n_ranks = options_.ranks;
    ranked_.capacity = options_.capacity ? options_.capacity : static_cast<uint32_t>(std::min(2 * vertices, most));
    ranked_.slack = options_.slack;
    ranked_.stride = (gravel::detail::channel<uint32_t>::bytes(ranked_.capacity) + 127) / 128 * 128;
    const uint64_t pieces =
        options_.capacity ? options_.capacity : std::min(2 * (edges / gravel::detail::edges_of_piece) + 32, most);
    ranked_.pieces_room = has_hubs_ ? static_cast<uint32_t>(pieces) : 0;
    channels_ = gravel::detail::device_array<char>(ranked_.stride * ranked_.n_ranks + bytes_of_pieces() + 128);
    ranked_.memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(channels_.data()) + 127) / 128 * 128);
    ranked_.piece_memory = ranked_.memory + ranked_.stride * ranked_.n_ranks;
    ranked_words_ = gravel::detail::device_array<gravel::detail::asynchronous_words>(
        std::vector<gravel::detail::asynchronous_words>(1));
    ranked_.words = ranked_words_.data();
    ranked_.reports = gravel_malloc<gravel::detail::wave_report>(static_cast<uint64_t>(gravel_n_pes()) *
                                                                 sizeof(gravel::detail::wave_report));
  }
  uint64_t bytes_of_pieces() const {
    return ranked_.pieces_room ? gravel::detail::channel<gravel::detail::edge_piece>::bytes(ranked_.pieces_room) : 0;
  }
  unsigned resident_blocks() const {
    // One warp of the asynchronous kernel keeps the watch; another must work.
    if (options_.blocks) return std::max(options_.blocks, gravel::detail::vertex_threads > 32 ? 1u : 2u);
    return gravel::detail::device_blocks{gravel::detail::current_backend().multiprocessors()}.resident(
        gravel_n_pes() == 1, static_cast<bool>(inboxes_));
  }
  void run_asynchronously() {
    gravel::detail::current_backend().zero(ranked_.memory, ranked_.stride * ranked_.n_ranks + bytes_of_pieces());
    for (uint32_t r = 0; r < ranked_.n_ranks; ++r)
      gravel_copy(&ranked_.of(r).state().room, &ranked_.capacity, sizeof(uint32_t));
    if (ranked_.pieces_room) gravel_copy(&ranked_.pieces().state().room, &ranked_.pieces_room, sizeof(uint32_t));
    gravel::detail::asynchronous_words here{};
    gravel::detail::asynchronous_words before;
    gravel_copy(&before, ranked_.words, sizeof(before));
    here.wave = before.wave;
    here.allowed = gravel::detail::no_rank;
    gravel_copy(ranked_.words, &here, sizeof(here));
    std::vector<gravel::detail::wave_report> reports(static_cast<size_t>(gravel_n_pes()));
    gravel_copy(reports.data(), ranked_.reports, reports.size() * sizeof(gravel::detail::wave_report));
    for (gravel::detail::wave_report& r : reports) r.lowest = 0;
    gravel_copy(ranked_.reports, reports.data(), reports.size() * sizeof(gravel::detail::wave_report));
    gravel::detail::worklist_words lists = words();
    launch_for(lists.near_size[lists.near_turn] + lists.far_size[lists.far_turn],
               gravel::detail::lists_to_ranks<Program>, view_, ranked_);
    lists = words();
    lists.near_size[lists.near_turn] = lists.far_size[lists.far_turn] = 0;
    lists.asynchronous = 1;
    set_words(lists);
    gravel_barrier_all();  // all take what others send
    ++counts_.launches;
    const gravel_launch_config how{
        .grid = resident_blocks(), .block = gravel::detail::vertex_threads, .cooperative = true};
    if (gravel_n_pes() == 1)
      gravel::detail::launch_alone(gravel::detail::work_asynchronously<Program>, how, gravel_handle(), view_, ranked_);
    else gravel_launch(gravel::detail::work_asynchronously<Program>, how, gravel_handle(), view_, ranked_);
    gravel_barrier_all();
    lists = words();
    lists.asynchronous = 0;
    set_words(lists);
    gravel_copy(&here, ranked_.words, sizeof(here));
    if ((counts_.overflowed = gravel_max_all(here.overflows) != 0))
      launch_for(view_.graph.vertices(), gravel::detail::collect_waiting<Program>, view_);
  }
  /// Until no PE has anything.
  void run_rounds_of_all() {
    const uint32_t before = words().exchanges;
    ++counts_.launches;
    const gravel_launch_config how{
        .grid = resident_blocks(), .block = gravel::detail::vertex_threads, .cooperative = true};
    if (inboxes_)
      gravel::detail::launch_alone(gravel::detail::run_rounds_of_all<Program, gravel::detail::mapped_sender>, how,
                                   gravel_handle(), view_, rounds_, inboxes_.view());
    else
      gravel_launch(gravel::detail::run_rounds_of_all<Program, gravel_block_sender<gravel::detail::vertex_threads>>,
                    how, gravel_handle(), view_, rounds_, inboxes_.view());
    counts_.exchanges += words().exchanges - before;
  }
  /// The edges of this PE's vertices that are near, into its words.
  void count_near() {
    gravel::detail::worklist_words here = words();
    here.near_edges = 0;
    set_words(here);
    const uint32_t near = here.near_size[here.near_turn];
    if (near) launch_for(near, gravel::detail::count_near_edges<Program>, view_);
  }
  bool is_too_wide() {
    if (most_edges_ == ~uint64_t{0}) return false;
    count_near();
    return rendezvous_.sum(&view_.words->near_edges) > most_edges_;
  }
  /// Until this PE has nothing near. False: it has too much.
  bool expand_here() {
    for (gravel::detail::worklist_words here = words();; here = words()) {
      const uint32_t near = here.near_size[here.near_turn];
      far_waiting_ = here.far_size[here.far_turn];
      const bool advances = gravel_n_pes() == 1 && Program::state::is_ordered;
      if (near == 0 && (!advances || here.far_size[here.far_turn] == 0)) return true;
      if (gravel_n_pes() > 1 && !Program::state::is_ordered) {
        // Sums that run ahead are passed on in many small parts.
        if (near) expand_wide(near);
        return true;
      }
      if (options_.execution != gravel_execution::rounds && near <= options_.fused_most) {
        ++counts_.launches;
        gravel::detail::launch_alone(
            gravel::detail::run_rounds<Program>,
            {.grid = options_.fused_blocks, .block = gravel::detail::fused_threads, .cooperative = true}, view_,
            gravel::detail::fused_limits{options_.fused_most, 1u << 24, advances, has_hubs_});
        launch(gravel::detail::turn_over_fused<Program>, 1, 1, view_);
        const gravel::detail::worklist_words after = words();
        if (after.near_size[after.near_turn] == 0 || after.near_size[after.near_turn] > options_.fused_most) continue;
        // It left for a hub, or for lack of room: the grid takes one round.
        if (gravel_n_pes() == 1 && is_too_wide()) return false;
        expand_wide(after.near_size[after.near_turn]);
      } else if (near != 0) {
        if (gravel_n_pes() == 1 && is_too_wide()) return false;
        expand_wide(near);
      } else {
        return true;
      }
    }
  }
  void expand_wide(uint32_t near) {
    launch_for(near, gravel::detail::expand_near<Program>, view_);
    launch(gravel::detail::expand_hubs<Program>, gravel::detail::vertex_blocks(~0u), gravel::detail::vertex_threads,
           view_);  // how many pieces there are it finds itself
    launch(gravel::detail::turn_over<Program>, 1, 1, view_);
  }

  /// Sends what others are to know. False: nobody had anything, nor has any vertex that is near; least_of_all_ is known
  /// then.
  bool exchange() {
    if (gravel_n_pes() == 1) return false;
    constexpr uint32_t first_words = sizeof(gravel::detail::worklist_sizes) / sizeof(uint64_t);
    if (far_waiting_) launch_for(far_waiting_, gravel::detail::find_least<Program>, view_);
    least_of_all_ = ~0u;
    const auto of_all = rendezvous_.gather(shared_.data(), first_words);
    uint32_t here = 0;
    bool some = false, near = false;
    for (size_t pe = 0; pe < of_all.size() / first_words; ++pe) {
      gravel::detail::worklist_sizes of_pe;
      std::memcpy(&of_pe, &of_all[pe * first_words], sizeof(of_pe));
      least_of_all_ = std::min(least_of_all_, of_pe.least);
      some |= of_pe.remote_size != 0;
      near |= of_pe.near_size[of_pe.near_turn] != 0;
      if (static_cast<int>(pe) == gravel_my_pe()) here = of_pe.remote_size;
    }
    if (!some) return near;
    ++counts_.exchanges;
    if (inboxes_) {
      launch_for(here, gravel::detail::post_remote<Program>, gravel_handle(), view_, inboxes_.view());
      launch(gravel::detail::notify_remote<Program>, 1, 32, gravel_handle(), view_, inboxes_.view());
      rendezvous_.round();
      launch_for(view_.graph.own, gravel::detail::take_remote<Program>, gravel_handle(), view_, inboxes_.view());
      return true;
    }
    if (here) {
      ++counts_.launches;
      gravel_launch(gravel::detail::send_remote<Program, gravel_block_sender<gravel::detail::vertex_threads>>,
                    gravel::detail::vertex_blocks(here), gravel::detail::vertex_threads, gravel_handle(), view_);
    }
    launch(gravel::detail::forget_remote<Program>, 1, 1, view_);
    gravel_barrier_all();
    return true;
  }
  /// Sets the limit beyond the least key that waits anywhere. False: none waits.
  bool advance() {
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

  gravel::detail::open_object open_{"gravel_worklist"};
  gravel_worklist_options options_;
  uint64_t most_edges_ = ~uint64_t{0};
  uint32_t far_waiting_ = 0,
           least_of_all_ = ~0u;  ///< entries of the far list when nothing was near; the least key in those of all PEs
  gravel_worklist_counts counts_;
  bool has_hubs_ = false, started_ = false;
  gravel::detail::device_array<word> words_;
  gravel::detail::device_array<uint32_t> lists_;
  gravel::detail::device_array<gravel::detail::hub_piece> hubs_;
  gravel::detail::device_array<gravel::detail::worklist_words> shared_;
  gravel::detail::device_array<gravel::detail::block_report> reports_;
  gravel::detail::device_array<gravel::detail::worklist_inbox<Program>> inbox_;
  gravel::detail::device_array<char> channels_;
  gravel::detail::device_array<gravel::detail::asynchronous_words> ranked_words_;
  gravel::detail::asynchronous_view ranked_{};
  gravel::detail::mapped_rendezvous rendezvous_;
  gravel::detail::inbox_memory<value> inboxes_;     ///< of several PEs, where all have each other's memory mapped
  gravel::detail::round_report* rounds_ = nullptr;  ///< fused, of several PEs
  view view_{};
  int exceptions_;
};
