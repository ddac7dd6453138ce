// Distributed worklists of items of a program's own type (docs/worklists.md, "Items of any type"). The host's side; the
// kernels are in lib/worklist/items.cuh.
//
//   gravel_init<gravel_item_delivery<search>>();
//   gravel_item_worklist<search> work(search{...}, {.capacity = 1 << 20});  // collective
//   if (gravel_my_pe() == 0) work.offer(root);
//   work.run();                                                             // collective: until no PE has an item
#pragma once
#include <exception>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/device_array.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/worklist/items.cuh"
#include "lib/worklist/list_kernels.cuh"
#include "lib/worklist/ranked_memory.cuh"

/// Options of a worklist of items. `ranks` and `items_move` are the same at all PEs.
struct gravel_item_options {
  uint32_t ranks = 16;           ///< number of channels, 1 to 32; without priority() one is used
  uint32_t capacity = 1u << 16;  ///< items that each channel has room for, 32 to 2^30; memory: ranks * capacity items
  uint32_t slack = 8;            ///< a PE takes so many ranks beyond the lowest rank of all PEs
  uint32_t blocks = 0;           ///< blocks of the kernel; 0: by the device's number of multiprocessors
  bool items_move = false;       ///< any PE may process any item: PEs that have none get some of others
};

/// Counts of what the last run() did at this PE.
struct gravel_item_counts {
  uint64_t processed = 0;  ///< items
  uint64_t sent = 0;       ///< items that went to other PEs
  uint64_t received = 0;   ///< items that came from other PEs
  uint64_t moved = 0;      ///< items that went to an idle PE; part of `sent`
};

/// A worklist of items of this job. The constructor, run() and the destructor are collective. The program is plain
/// data, an argument of all kernels, with a name, the type `item`, owner() and process(), and whatever else it wants of
/// docs/worklists.md. Items wait in channels by rank; one kernel at each PE works them off without rounds.
/// @scope the program's host thread; collective, except offer() and counts()
/// @completion on return
/// @errors gravel::error; run() at all PEs, if an item found no room at any PE
/// @source Groute, chapter 4
template <class Program>
class gravel_item_worklist {
 public:
  using item = typename gravel::detail::item_of<Program>::type;

  /// Allocates options.ranks * options.capacity * sizeof(item) bytes of device memory and a little more.
  /// @param program the program
  /// @param options how the items are worked off
  explicit gravel_item_worklist(const Program& program, const gravel_item_options& options = {})
      : options_(options), exceptions_(std::uncaught_exceptions()), counts_here_(uint64_t{1}), context_(uint64_t{1}) {
    if constexpr (gravel::detail::is_item_program<Program>) {
      if constexpr (!gravel::detail::has_priority<Program>) options_.ranks = 1;
      check();
      view_.program = program;
      view_.channels.n_ranks = options_.ranks;
      view_.channels.capacity = options_.capacity;
      view_.channels.slack = options_.slack;
      channels_.open(view_.channels);
      if (options_.items_move && gravel_n_pes() > 1) {
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
    if (std::uncaught_exceptions() == exceptions_) channels_.release(view_.channels);
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
      const gravel_launch_config how{.grid = blocks(), .block = gravel::detail::vertex_threads, .cooperative = true};
      gravel_launch(gravel::detail::process_items<Program>, how, gravel_handle(), view_, counts_here_.data());
      gravel_barrier_all();
      offered_.clear();
      const gravel::detail::asynchronous_words words = channels_.words(view_.channels);
      gravel::detail::item_counts here;
      gravel_copy(&here, counts_here_.data(), sizeof(here));
      counts_ = {here.processed, words.sent, words.received, here.moved};
      fail_without_room(words.overflows != 0);
    }
  }
  /// Returns what the last run did at this PE.
  const gravel_item_counts& counts() const { return counts_; }

 private:
  /// Handlers find the worklist by its program, so at most one worklist of each program is open.
  GRAVEL_API inline static bool is_open = false;

  unsigned blocks() const {
    // One warp keeps the watch; another must work.
    if (options_.blocks) return std::max(options_.blocks, gravel::detail::vertex_threads > 32 ? 1u : 2u);
    return gravel::detail::device_blocks{gravel::detail::current_backend().multiprocessors()}.resident(false, false);
  }
  void check() const {
    std::string wrong;
    if (is_open) wrong = std::string("a worklist of the program '") + Program::name + "' is open already";
    else if (options_.ranks == 0 || options_.ranks > gravel::detail::most_ranks)
      wrong =
          "ranks is " + std::to_string(options_.ranks) + ": it is 1 to " + std::to_string(gravel::detail::most_ranks);
    else if (options_.capacity < 32 ||
             options_.capacity > 1u << 30)  // a channel has room for what a warp pushes at once
      wrong = "capacity is " + std::to_string(options_.capacity) + ": it is 32 to 2^30";
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      gravel::detail::fail_text("worklist of items: " + (wrong.empty() ? std::string("refused at another PE") : wrong));
    const uint64_t mine = uint64_t{options_.items_move} << 32 | options_.ranks;
    if (gravel_min_all(mine) != gravel_max_all(mine))
      gravel::detail::fail_text("worklist of items: PEs differ in ranks or items_move");
  }
  void fail_without_room(bool is_full) const {
    const auto none = static_cast<uint32_t>(gravel_n_pes());
    const uint32_t pe = gravel_min_all(is_full ? static_cast<uint32_t>(gravel_my_pe()) : none);
    if (pe == none) return;
    gravel::detail::fail_text("worklist of items '" + std::string(Program::name) + "': PE " + std::to_string(pe) +
                              " had no room for an item, with ranks = " + std::to_string(options_.ranks) +
                              " and capacity = " + std::to_string(options_.capacity) +
                              ". Give it more capacity, or a priority() by which items that push few come first");
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
};
