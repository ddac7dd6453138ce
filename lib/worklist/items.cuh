// Worklists of items of a program's own type, as kernels and handlers see them.
//
// Problem. Not all irregular work is a value for each vertex: nodes of a search tree, pairs, partial paths.
// Solution. Items lie in channels by rank themselves, where a worklist of vertices has numbers of vertices
// (lib/worklist/ranked_channels.cuh). The program says who owns an item. An item that is pushed goes into the channels
// of this PE, or as a message to its owner, whose handler puts it in. In rounds items lie in lists instead, as the
// vertices of a worklist do (lib/worklist/item_rounds.cuh).
//
// An item that finds no room is lost. This is recorded, and the run ends with an error at all PEs.
#pragma once
#include <gravel/gravel.cuh>
#include "lib/worklist/expand.cuh"
#include "lib/worklist/item_program.cuh"
#include "lib/worklist/ranked_channels.cuh"

namespace gravel::detail {

template <class Program>
using item_channels = ranked_channels<typename item_of<Program>::type, true>;

/// The lists of rounds. `near`: two lists in turn, of the items of this round and of the next one. `far`: two lists in
/// turn, of items that wait for a higher limit.
template <class Item>
struct item_lists {
  worklist_words* words;  ///< null: the execution is asynchronous
  Item *near[2], *far[2];
  uint32_t room;  ///< of each list
};
/// The rank of an item in rounds. ~0u stands for no item, so the last two ranks are one.
GRAVEL_BOTH constexpr uint32_t rank_in_rounds(uint32_t rank) { return rank < no_rank ? rank : no_rank - 1; }

/// What kernels and handlers need. Plain data; a copy lies in device memory, for handlers.
template <class Program>
struct item_view {
  using item = typename item_of<Program>::type;
  Program program;
  item_channels<Program> channels;  ///< in rounds without channels, only with counts
  item_lists<item> lists;

  GRAVEL_BOTH bool in_rounds() const { return lists.words != nullptr; }
  /// Puts in the item of each lane with `have`. Thread scope: the group, converged; also in handlers.
  template <class Group>
  GRAVEL_DEVICE void put(const Group& group, bool have, uint32_t rank, const item& x) const {
    if (!in_rounds()) return channels.put(group, have, rank, x);
    bool near = have, fits = true;
    if constexpr (has_limit<Program>) {
      near = have && rank_in_rounds(rank) < load_relaxed<scope::device>(&lists.words->limit);
      fits = append_far(group, load_relaxed<scope::device>(&lists.words->far_turn), have && !near, x);
    }
    fits &= append_near(group, 1 - load_relaxed<scope::device>(&lists.words->near_turn), near, x);
    if (!fits && group.is_leader()) store_relaxed<scope::device>(&channels.words->overflows, 1u);
  }
  /// Appends to a near list. Returns whether there was room. Thread scope: the group, converged; also in handlers.
  template <class Group>
  GRAVEL_DEVICE bool append_near(const Group& group, uint32_t turn, bool have, const item& x) const {
    return append_by(group, lists.near[turn], &lists.words->near_size[turn], have, x, lists.room);
  }
  /// As append_near, to a far list.
  template <class Group>
  GRAVEL_DEVICE bool append_far(const Group& group, uint32_t turn, bool have, const item& x) const {
    return append_by(group, lists.far[turn], &lists.words->far_size[turn], have, x, lists.room);
  }
};

/// Keeps the item of each lane, sends it, both or neither. Thread scope: the group, converged; also in handlers.
template <class Program, class Group>
GRAVEL_DEVICE void route_items(const gravel_t& g, const item_view<Program>& view, const Group& group,
                               gravel_item_flags flags, const typename item_of<Program>::type& item);

}  // namespace gravel::detail

/// The list of a worklist of items, as a program's process() and part() see it.
/// @scope lane, from divergent code
/// @completion push(): an item of this PE may be processed from now on, at once or later; in rounds, in the next round
/// @errors an item that finds no room makes run() fail; a PE that does not exist ends the job with a message
/// @source Groute, chapter 4
template <class Program>
class gravel_item_list {
 public:
  using item = typename gravel::detail::item_of<Program>::type;
  /// @internal
  GRAVEL_DEVICE gravel_item_list(const gravel_t& g, const gravel::detail::item_view<Program>& view)
      : g_(g), view_(view) {}

  /// Pushes a new item: on_send() says what happens to it; without on_send it goes to its owner.
  /// @param x the item
  GRAVEL_DEVICE void push(const item& x) const {
    gravel_item_flags flags = gravel_item_flags::pass;
    if constexpr (gravel::detail::has_on_send<Program>) flags = view_.program.on_send(x);
    gravel::detail::route_items(g_, view_, gravel::detail::lane_group::active(), flags, x);
  }
  /// Returns the number of the round, from 0 on: the same at all PEs. Without rounds it is 0.
  GRAVEL_DEVICE uint32_t round() const {
    return view_.in_rounds() ? gravel::detail::load_relaxed<gravel::detail::scope::device>(&view_.lists.words->rounds)
                             : 0;
  }
  /// Returns the handle of this PE, for messages of the program.
  GRAVEL_DEVICE const gravel_t& handle() const { return g_; }

 private:
  const gravel_t& g_;
  const gravel::detail::item_view<Program>& view_;
};

/// The handler that puts items of other PEs into this PE's list. Programs pass it to gravel_init.
/// @scope handlers
/// @completion the item is in the list
/// @errors as gravel_item_list
/// @source Groute, chapter 4
template <class Program>
struct gravel_item_delivery {
  static constexpr const char* name = gravel::detail::name_of_items<Program>();
  static constexpr bool batch = true;
  using context = gravel::detail::item_view<Program>;
  using packed = typename gravel::detail::packed_of<Program>::type;

  GRAVEL_HANDLER void operator()([[maybe_unused]] const gravel_t& g, [[maybe_unused]] context* view,
                                 [[maybe_unused]] const gravel_batch& lanes, [[maybe_unused]] packed x) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    using namespace gravel::detail;
    if constexpr (is_item_program<Program>) {
      gravel_item_flags flags = gravel_item_flags::take;
      if constexpr (has_on_receive<Program>) flags = view->program.on_receive(x);
      if constexpr (packs<Program>) route_items(g, *view, lanes, flags, view->program.unpack(x));
      else route_items(g, *view, lanes, flags, x);
      lanes.sync();
      if (lanes.is_leader())
        fetch_add_release<scope::device>(&view->channels.words->received, uint64_t{lanes.size()});  // [W2]
    }
#endif
  }
};

namespace gravel::detail {

/// Sends the item of each lane with `have` to a PE. Thread scope: the group, converged; also in handlers.
template <class Program, class Group>
GRAVEL_DEVICE void send_items(const gravel_t& g, const item_view<Program>& view, const Group& group, bool have, int to,
                              const typename item_of<Program>::type& item) {
  const uint32_t sends = group.ballot(have);
  if (sends == 0) return;
  if (group.is_leader())
    fetch_add<scope::device>(&view.channels.words->sent, uint64_t{lane_group::popcount(sends)});  // before they leave
  group.sync();
  if (!have) return;
  if constexpr (packs<Program>) gravel_am<gravel_item_delivery<Program>>(g, to, view.program.pack(item));
  else gravel_am<gravel_item_delivery<Program>>(g, to, item);
}

template <class Program, class Group>
GRAVEL_DEVICE void route_items(const gravel_t& g, const item_view<Program>& view, const Group& group,
                               gravel_item_flags flags, const typename item_of<Program>::type& item) {
  const Program& program = view.program;
  bool keeps = has_flag(flags, gravel_item_flags::take), passes = has_flag(flags, gravel_item_flags::pass);
  const int to = passes ? program.owner(item) : 0;
  if (passes && to == static_cast<int>(g.my_pe)) {
    keeps = true;
    passes = false;
  }
  uint32_t rank = 0;
  if constexpr (has_priority<Program>) {
    if (keeps) rank = program.priority(item);
  }
  view.put(group, keeps, rank, item);
  send_items(g, view, group, passes, to, item);
}

/// Returns the item of lane `lane`. Thread scope: warp, converged.
template <class T>
GRAVEL_DEVICE T item_of_lane(const T& item, uint32_t lane) {
  auto w = as_words<T>::from(item);
  GRAVEL_UNROLL
  for (uint32_t k = 0; k < as_words<T>::count; ++k) w.word[k] = __shfl_sync(~0u, w.word[k], static_cast<int>(lane));
  return w.value();
}

/// Counts of a run, in device memory.
struct item_counts {
  uint64_t processed, moved;
  uint64_t fetched;  ///< in rounds: items that have moved here
};

/// What a warp does with items (work_off).
template <class Program>
struct item_worker {
  using item = typename item_of<Program>::type;
  const gravel_t& g;
  const item_view<Program>& view;
  uint32_t processed = 0, moved = 0;

  GRAVEL_DEVICE bool work_first() { return false; }
  GRAVEL_DEVICE void work(bool have, const item& x, uint32_t n) {
    if (view.channels.entries_move()) have = keep_some(have, x, n);
    const gravel_item_list<Program> list(g, view);
    processed += have;
    if constexpr (has_parts<Program>) {
      uint32_t parts = 0;
      if (have) parts = view.program.process(list, x);
      __syncwarp();
      distribute_edges(uint64_t{0}, uint64_t{parts}, threadIdx.x % 32, [&](const edge_group<uint32_t>& some) {
        for (uint32_t j = 0; j < edges_at_once; ++j) {
          const item whole = item_of_lane(x, some.from[j]);
          if (some.have >> j & 1) view.program.part(list, whole, static_cast<uint32_t>(some.edge[j]));
          __syncwarp();
        }
      });
    } else if (have) {
      view.program.process(list, x);
    }
  }

 private:
  /// Sends half of a batch to an idle PE, if the watch has granted some. Returns whether this lane keeps its item.
  /// Thread scope: warp, converged.
  GRAVEL_DEVICE bool keep_some(bool have, const item& x, uint32_t n) {
    uint64_t* const word = &view.channels.words->grant;
    const uint32_t lane = threadIdx.x % 32;
    uint64_t grant = 0;
    if (lane == 0) {
      grant = load_relaxed<scope::device>(word);
      if (grant_word::batches(grant) != 0 && !compare_swap_acquire<scope::device>(word, grant, grant - 1)) grant = 0;
    }
    grant = __shfl_sync(~0u, grant, 0);
    if (grant_word::batches(grant) == 0) return have;
    const bool goes = have && lane >= n / 2;
    send_items(g, view, lane_group::of(~0u), goes, static_cast<int>(grant_word::to(grant)), x);
    __syncwarp();
    moved += goes;
    return have && !goes;
  }
};
/// Adds what a warp has done to the counts of the run. Thread scope: warp, converged.
template <class Program>
GRAVEL_DEVICE void add_counts(const item_worker<Program>& worker, item_counts* counts) {
  const uint32_t processed = __reduce_add_sync(~0u, worker.processed), moved = __reduce_add_sync(~0u, worker.moved);
  if (threadIdx.x % 32 != 0) return;
  if (processed) fetch_add<scope::device>(&counts->processed, uint64_t{processed});
  if (moved) fetch_add<scope::device>(&counts->moved, uint64_t{moved});
}

/// The kernel that works off items. A cooperative launch; blocks have whole warps.
template <class Program>
__global__ void __launch_bounds__(256)
    process_items(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                  item_counts* counts) {
  if (blockIdx.x == 0 && threadIdx.x < 32) return keep_watch(g, view.channels);
  item_worker<Program> worker{g, view};
  work_off(view.channels, worker);
  add_counts(worker, counts);
}
/// Pushes the items that the host has offered.
template <class Program>
__global__ void push_items(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                           const typename item_of<Program>::type* items, uint64_t n) {
  const gravel_item_list<Program> list(g, view);
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += uint64_t{gridDim.x} * blockDim.x)
    list.push(items[i]);
}

}  // namespace gravel::detail
