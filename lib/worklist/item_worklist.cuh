// Distributed worklists of items of a program's own type (docs/worklists.md, "Items of any type"). The host's side; the
// kernels are in lib/worklist/items.cuh.
//
//   gravel_init<gravel_item_delivery<search>>();
//   gravel_item_worklist<search> work(search{...}, {.capacity = 1 << 20});  // collective
//   if (gravel_my_pe() == 0) work.offer(root);
//   work.run();                                                             // collective: until no PE has an item
#pragma once
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "host/pe/libgravel.hpp"
#include "lib/worklist/execution.hpp"
#include "lib/worklist/item_rounds.cuh"
#include "lib/worklist/items.cuh"
#include "lib/worklist/list_kernels.cuh"
#include "lib/worklist/ranked_memory.cuh"

/// Options of a worklist of items. `execution`, `ranks` and `items_move` are the same at all PEs. Each line says which
/// execution reads it; the others ignore it.
struct gravel_item_options {
  gravel_execution execution = gravel_execution::asynchronous;  ///< or rounds, or fused: one kernel for all rounds
  uint32_t ranks = 16;  ///< asynchronous: number of channels, 1 to 32; without priority() one is used
  uint32_t capacity =
      1u << 16;  ///< items that each channel has room for, or each list of rounds, 32 to 2^30; memory: ranks * capacity
                 ///< items, in rounds 2 * capacity, with limit_after() 4 * capacity
  uint32_t slack = 8;       ///< asynchronous: a PE takes so many ranks beyond the lowest rank of all PEs
  uint32_t blocks = 0;      ///< asynchronous, fused: blocks of the kernel; 0: by the device's number of multiprocessors
  bool items_move = false;  ///< any PE may process any item: PEs that have none get some of others. In rounds
                            ///< `capacity` is the same at all PEs then
};

/// Counts of what the last run() did at this PE.
struct gravel_item_counts {
  uint64_t processed = 0;  ///< items
  uint64_t sent = 0;       ///< items that went to other PEs
  uint64_t received = 0;   ///< items that came from other PEs
  uint64_t moved = 0;      ///< items that went to an idle PE; part of `sent`
  uint64_t rounds = 0;     ///< rounds, the same at all PEs; asynchronous: 0
};

/// A worklist of items of this job. The constructor, run() and the destructor are collective. The program is plain
/// data, an argument of all kernels, with a name, the type `item`, owner() and process(), and whatever else it wants of
/// docs/worklists.md. Executions (gravel_execution):
/// - asynchronous: items wait in channels by rank; one kernel at each PE works them off without rounds.
/// - rounds: a round takes the items that are in the lists when it starts, and what they push goes into the next one.
///   Hosts start the kernels of each round.
/// - fused: the same rounds in one kernel at each PE.
/// @scope the program's host thread; collective, except offer() and counts()
/// @completion on return
/// @errors gravel::error; run() at all PEs, if an item found no room at any PE
/// @source Groute, chapter 4
template <class Program>
class gravel_item_worklist {
 public:
  using item = typename gravel::detail::item_of<Program>::type;

  /// Allocates device memory for the items, as gravel_item_options says, and a little more.
  /// @param program the program
  /// @param options how the items are worked off
  explicit gravel_item_worklist(const Program& program, const gravel_item_options& options = {})
      : options_(options), exceptions_(std::uncaught_exceptions()), counts_here_(uint64_t{1}), context_(uint64_t{1}) {
    if constexpr (gravel::detail::is_item_program<Program>) {
      if constexpr (!gravel::detail::has_priority<Program>) options_.ranks = 1;
      check();
      view_.program = program;
      view_.channels.n_ranks = in_rounds() ? 0 : options_.ranks;
      view_.channels.capacity = options_.capacity;
      view_.channels.slack = options_.slack;
      channels_.open(view_.channels);
      if (in_rounds()) {
        open_lists();
      } else if (options_.items_move && gravel_n_pes() > 1) {
        answered_ = gravel::detail::device_array<uint32_t>(static_cast<uint64_t>(gravel_n_pes()));
        view_.channels.answered = answered_.data();
      }
      gravel_copy(context_.data(), &view_, sizeof(view_));
      gravel_set_context<gravel_item_delivery<Program>>(context_.data());
      gravel_barrier_all();
      is_open = true;
    }
  }
  ~gravel_item_worklist() {
    is_open = false;
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() != exceptions_) return;
    channels_.release(view_.channels);
    if (round_reports_) gravel_free(round_reports_);
    if (moving_lists_) gravel_free(moving_lists_);
  }
  /// @internal
  gravel_item_worklist(const gravel_item_worklist&) = delete;
  gravel_item_worklist& operator=(const gravel_item_worklist&) = delete;

  /// Offers an item to the next run, which pushes it at this PE. Not collective.
  /// @param x the item
  void offer(const item& x) { offered_.push_back(x); }
  /// Processes the offered items and all that they lead to. Returns when no PE has an item and none is in flight. If it
  /// fails for lack of room, what process() has done remains; the next run begins without items.
  void run() {
    if constexpr (gravel::detail::is_item_program<Program>) {
      channels_.empty(view_.channels);
      if (in_rounds()) empty_lists();
      if (view_.channels.answered)
        gravel::detail::current_backend().zero(view_.channels.answered,
                                               static_cast<uint64_t>(gravel_n_pes()) * sizeof(uint32_t));
      gravel::detail::current_backend().zero(counts_here_.data(), sizeof(gravel::detail::item_counts));
      const gravel::detail::device_array<item> offered(offered_);
      gravel_barrier_all();  // from now on items of other PEs may come
      if (!offered_.empty())
        gravel_launch(gravel::detail::push_items<Program>, gravel::detail::vertex_blocks(offered_.size()),
                      gravel::detail::vertex_threads, gravel_handle(), view_, offered.data(),
                      uint64_t{offered_.size()});
      const auto rounds = gravel::detail::process_all_rounds<Program>;
      const auto asynchronous = gravel::detail::process_items<Program>;
      if (in_rounds()) begin_rounds();
      if (options_.execution == gravel_execution::rounds) run_rounds();
      else if (in_rounds())
        gravel_launch(rounds, resident(rounds), gravel_handle(), view_, counts_here_.data(), round_reports_,
                      options_.items_move);
      else gravel_launch(asynchronous, resident(asynchronous), gravel_handle(), view_, counts_here_.data());
      gravel_barrier_all();
      offered_.clear();
      const gravel::detail::asynchronous_words words = channels_.words(view_.channels);
      gravel::detail::item_counts here;
      gravel_copy(&here, counts_here_.data(), sizeof(here));
      counts_ = {here.processed, words.sent, words.received, here.moved};
      if (in_rounds()) {
        counts_.sent += here.moved;
        counts_.received += here.fetched;
        counts_.rounds = list_words().rounds;
      }
      fail_without_room(words.overflows != 0);
    }
  }
  /// Returns what the last run did at this PE.
  const gravel_item_counts& counts() const { return counts_; }

 private:
  /// Handlers find the worklist by its program, so at most one worklist of each program is open.
  GRAVEL_API inline static bool is_open = false;

  template <class... P>
  gravel_launch_config resident(void (*kernel)(P...)) const {
    return gravel::detail::resident_launch(kernel, options_.blocks, false, false);
  }
  bool in_rounds() const { return options_.execution != gravel_execution::asynchronous; }

  // The lists of rounds.

  static constexpr uint32_t n_lists = gravel::detail::has_limit<Program> ? 4 : 2;
  void open_lists() {
    using namespace gravel::detail;
    const uint64_t each = options_.capacity;
    if (options_.items_move) moving_lists_ = gravel_malloc<item>(n_lists * each * sizeof(item));
    else lists_ = device_array<item>(n_lists * each);
    item* const first = options_.items_move ? moving_lists_ : lists_.data();
    for (uint32_t i = 0; i < n_lists; ++i) (i < 2 ? view_.lists.near : view_.lists.far)[i % 2] = first + i * each;
    view_.lists.room = options_.capacity;
    list_words_ = device_array<worklist_words>(uint64_t{1});
    view_.lists.words = list_words_.data();
    round_reports_ = gravel_malloc<round_report>(static_cast<uint64_t>(gravel_n_pes()) * sizeof(round_report));
  }
  gravel::detail::worklist_words list_words() const {
    gravel::detail::worklist_words here;
    gravel_copy(&here, list_words_.data(), sizeof(here));
    return here;
  }
  void empty_lists() {
    gravel::detail::worklist_words here{};
    here.near_turn = 1;  // what the host has offered goes into the list of the first round
    here.limit = gravel::detail::has_limit<Program> ? 0 : ~0u;
    here.least = gravel::detail::no_rank;
    gravel_copy(list_words_.data(), &here, sizeof(here));
  }
  /// Waits for the kernels and messages of all PEs, also for items that handlers pass on.
  static void wait_for_items() {
    if constexpr (gravel::detail::has_on_receive<Program>) gravel_wait_quiescent();
    else gravel_barrier_all();
  }
  /// Begins the first round, after the offered items have been pushed.
  void begin_rounds() {
    wait_for_items();
    gravel::detail::worklist_words here = list_words();
    here.near_turn = 0;
    gravel_copy(list_words_.data(), &here, sizeof(here));
  }
  template <class... P, class... A>
  void launch_for(uint64_t items, void (*kernel)(P...), A... arguments) {
    gravel::detail::launch_alone(
        kernel, {.grid = gravel::detail::vertex_blocks(items), .block = gravel::detail::vertex_threads}, arguments...);
  }
  std::vector<gravel::detail::round_report> reports() const {
    std::vector<gravel::detail::round_report> of_all(static_cast<size_t>(gravel_n_pes()));
    gravel_copy(of_all.data(), round_reports_, of_all.size() * sizeof(of_all[0]));
    return of_all;
  }
  /// The rounds that hosts start, by the steps and barriers of process_all_rounds.
  void run_rounds() {
    using namespace gravel::detail;
    const unsigned threads = vertex_threads;
    gravel_launch(report_first_round<Program>, 1, threads, gravel_handle(), view_, round_reports_);
    while (true) {
      gravel_barrier_all();  // [W6]
      uint64_t most = 0;
      for (const round_report& of_pe : reports()) most = std::max(most, of_pe.some);
      if (most != 0) {
        const unsigned grid = vertex_blocks(most);
        if (options_.items_move)
          gravel_launch(fetch_round<Program>, grid, threads, gravel_handle(), view_, counts_here_.data(),
                        round_reports_);
        gravel_launch(process_one_round<Program>, grid, threads, gravel_handle(), view_, counts_here_.data(),
                      round_reports_, options_.items_move);
        wait_for_items();  // [W5]
        gravel_launch(end_round<Program>, 1, threads, gravel_handle(), view_, round_reports_);
        continue;
      }
      if constexpr (!has_limit<Program>) {
        return;
      } else {
        const uint64_t far = list_words().far_size[list_words().far_turn];
        launch_for(far, find_least_far_item<Program>, view_);
        gravel_launch(report_least<Program>, 1, threads, gravel_handle(), view_, round_reports_);
        gravel_barrier_all();  // [W7]
        uint32_t least = no_rank;
        for (const round_report& of_pe : reports()) least = std::min(least, static_cast<uint32_t>(of_pe.least));
        if (least == no_rank) return;
        launch_for(far, split_far_list_of_items<Program>, view_, least);
        gravel_launch(move_limit<Program>, 1, threads, gravel_handle(), view_, round_reports_, least);
      }
    }
  }

  // All executions.

  void check() const {
    std::string wrong;
    if (is_open) wrong = std::string("a worklist of the program '") + Program::name + "' is open already";
    else if (options_.execution == gravel_execution::automatic)
      wrong = "execution is automatic: of items it is rounds, fused or asynchronous";
    else if (options_.ranks == 0 || options_.ranks > gravel::detail::most_ranks)
      wrong =
          "ranks is " + std::to_string(options_.ranks) + ": it is 1 to " + std::to_string(gravel::detail::most_ranks);
    else if (options_.capacity < 32 ||
             options_.capacity > 1u << 30)  // a channel has room for what a warp pushes at once
      wrong = "capacity is " + std::to_string(options_.capacity) + ": it is 32 to 2^30";
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      gravel::detail::fail_text("worklist of items: " + (wrong.empty() ? std::string("refused at another PE") : wrong));
    const uint64_t mine =
        static_cast<uint64_t>(options_.execution) << 40 | uint64_t{options_.items_move} << 32 | options_.ranks;
    if (gravel_min_all(mine) != gravel_max_all(mine))
      gravel::detail::fail_text("worklist of items: PEs differ in execution, ranks or items_move");
    if (in_rounds() && options_.items_move && gravel_min_all(options_.capacity) != gravel_max_all(options_.capacity))
      gravel::detail::fail_text(
          "worklist of items: PEs differ in capacity. It is the same at all PEs if items move in "
          "rounds");
  }
  void fail_without_room(bool is_full) const {
    const auto none = static_cast<uint32_t>(gravel_n_pes());
    const uint32_t pe = gravel_min_all(is_full ? static_cast<uint32_t>(gravel_my_pe()) : none);
    if (pe == none) return;
    const std::string capacity = "capacity = " + std::to_string(options_.capacity);
    gravel::detail::fail_text(
        "worklist of items '" + std::string(Program::name) + "': PE " + std::to_string(pe) +
        " had no room for an item, with " +
        (in_rounds() ? capacity + " in rounds. Give it more capacity, as a list holds all items of a round"
                     : "ranks = " + std::to_string(options_.ranks) + " and " + capacity +
                           ". Give it more capacity, or a priority() by which items that push few come first"));
  }

  gravel::detail::open_object open_{"gravel_item_worklist"};
  gravel_item_options options_;
  int exceptions_;
  gravel_item_counts counts_;
  std::vector<item> offered_;
  gravel::detail::ranked_memory<gravel::detail::item_channels<Program>> channels_;
  gravel::detail::device_array<uint32_t> answered_;
  gravel::detail::device_array<gravel::detail::item_counts> counts_here_;
  gravel::detail::device_array<gravel::detail::item_view<Program>> context_;  ///< of the handler
  gravel::detail::item_view<Program> view_{};

  // Rounds; otherwise empty.
  gravel::detail::device_array<item> lists_;
  item* moving_lists_ = nullptr;  ///< symmetric: the lists, if items move
  gravel::detail::device_array<gravel::detail::worklist_words> list_words_;
  gravel::detail::round_report* round_reports_ = nullptr;  ///< symmetric [PEs]
};
