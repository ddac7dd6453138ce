// Worklists of items in rounds. A round takes the items that are in the list when it starts. Items that are pushed,
// here or by another PE, go into the next round. The end is found when a round adds none at any PE.
//
// It is the protocol of worklists of vertices (lib/worklist/rounds_of_all.cuh), with two differences: items are sent
// while others are processed, as the sender keeps nothing of them, and a PE never takes two rounds without the others.
// One kernel takes all rounds (process_all_rounds), or hosts launch a kernel for each step.
//
//   this PE                                                              every other PE
//   reports its near items                            [W6] barrier       sees the reports of all PEs
//   some PE has any: processes its near items, and
//     sends and lists those that are pushed           [W5] barrier       all items are in the lists
//     turns its lists over                            and again
//   no PE has: reports the least rank of its far list [W7] barrier       sees the least rank of all PEs, and moves the
//                                                                        limit there; then again
//
// A barrier does not wait for what handlers send. So if handlers may pass items on, PEs compare behind [W5] how many
// messages all have received, and then how many all have sent, until both are the same number. `received` counts a
// message when what its handler passes on has been counted as sent, so nothing was under way then.
//
// Invariants.
// - Handlers put items into the list that is not current. So no PE sends between [W5] and [W6], when others turn their
//   lists over.
// - Near items of a round do not change from [W6] to [W5], so other PEs may read them (items that move).
// - That of reports (lib/worklist/round_reports.cuh).
//
// Items that move, if the program allows it. If a PE has none and another one more than its share of all, the round is
// divided evenly: PEs with less than their share read the rest from the lists of those with more, by gets. All PEs
// compute from the same reports who reads which items, so moving takes no message and no barrier.
//
// Model: test/models/worklist_rounds.pml, with ITEMS=1.
#pragma once
#include "lib/worklist/items.cuh"
#include "lib/worklist/list_kernels.cuh"
#include "lib/worklist/round_reports.cuh"

namespace gravel::detail {

/// Reports the number of this PE's near items. Thread scope: all blocks; the first thread reports.
template <class Program>
GRAVEL_DEVICE void report_near(const gravel_t& g, const item_view<Program>& view, round_report* reports) {
  const worklist_words& words = *view.lists.words;
  const uint32_t size = load_relaxed<scope::device>(&words.near_size[words.near_turn]), room = view.lists.room;
  report_to_all(g, reports, &round_report::some, size < room ? size : room);
}

/// How a round is divided among PEs.
struct round_division {
  uint64_t share = 0;           ///< no PE processes more; 0: no items move
  uint64_t before = 0;          ///< how many items the PEs before this one lack to their shares
  uint32_t stay = 0, come = 0;  ///< of this PE's items, and of others' items, those that this PE processes

  GRAVEL_DEVICE static uint64_t beyond(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
  /// Divides the round of which all PEs have reported. Thread scope: lane.
  GRAVEL_DEVICE static round_division of(const gravel_t& g, const round_report* reports, bool items_move) {
    round_division d;
    const uint64_t here = poll_word(g, &reports[g.my_pe].some);
    d.stay = static_cast<uint32_t>(here);
    if (!items_move) return d;
    const uint64_t share = (sum_of_reports(g, reports, &round_report::some) + g.n_pes - 1) / g.n_pes;
    uint64_t move = 0, least = share;
    for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
      const uint64_t theirs = poll_word(g, &reports[pe].some);
      move += beyond(theirs, share);
      least = theirs < least ? theirs : least;
      if (pe < g.my_pe) d.before += beyond(share, theirs);
    }
    if (move == 0 || least != 0) return d;
    d.share = share;
    if (here > share) d.stay = static_cast<uint32_t>(share);
    const uint64_t lack = beyond(share, here), left = beyond(move, d.before);
    d.come = static_cast<uint32_t>(lack < left ? lack : left);
    return d;
  }
};
/// Reads the items of other PEs that this PE processes, behind its own ones. Thread scope: all blocks, of whole warps;
/// the blocks must join behind it.
template <class Program>
GRAVEL_DEVICE void fetch_items(const gravel_t& g, const item_view<Program>& view, const round_report* reports,
                               const round_division& d, item_counts* counts) {
  using item = typename item_of<Program>::type;
  if (d.share == 0) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    const uint64_t here = poll_word(g, &reports[g.my_pe].some);
    counts->moved += here - d.stay;
    counts->fetched += d.come;
  }
  if (d.come == 0) return;
  item* const list = view.lists.near[view.lists.words->near_turn];
  const uint64_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32,
                 end = d.before + d.come;
  // Items that move have numbers in the order of PEs. This PE gets those from d.before on.
  uint64_t first = 0;
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
    const uint64_t past = first + round_division::beyond(poll_word(g, &reports[pe].some), d.share);
    const uint64_t from = first > d.before ? first : d.before, to = past < end ? past : end;
    for (uint64_t k = from + 32 * warp; k < to; k += 32 * warps) {
      const uint64_t n = to - k < 32 ? to - k : 32;
      gravel_get_bulk_warp(g, &list[d.stay + (k - d.before)], &list[d.share + (k - first)], n * sizeof(item),
                           static_cast<int>(pe));
    }
    first = past;
  }
  gravel_quiet(g);
}

/// Processes the first `size` items of the current list. Thread scope: all blocks, of whole warps.
template <class Program>
GRAVEL_DEVICE void process_round(const item_view<Program>& view, uint32_t size, item_worker<Program>& worker) {
  using item = typename item_of<Program>::type;
  const item* const list = view.lists.near[view.lists.words->near_turn];
  const uint32_t lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
       of_warp += uint64_t{gridDim.x} * blockDim.x) {
    const bool have = of_warp + lane < size;
    item mine{};
    if (have) mine = list[of_warp + lane];
    worker.work(have, mine, static_cast<uint32_t>(size - of_warp < 32 ? size - of_warp : 32));
    __syncwarp();
  }
}
/// Waits until no item that handlers pass on is under way. Thread scope: all blocks of a cooperative grid.
template <class Program>
GRAVEL_DEVICE void await_passed_on([[maybe_unused]] const gravel_t& g, [[maybe_unused]] const item_view<Program>& view,
                                   [[maybe_unused]] round_report* reports) {
  if constexpr (has_on_receive<Program>) {
    const asynchronous_words& words = *view.channels.words;
    uint64_t received = 0, sent = g.n_pes > 1;
    while (received != sent) {
      report_to_all(g, reports, &round_report::received, load_acquire<scope::device>(&words.received));  // [W2]
      gravel_barrier(g);
      received = sum_of_reports(g, reports, &round_report::received);
      report_to_all(g, reports, &round_report::sent, load_relaxed<scope::device>(&words.sent));
      gravel_barrier(g);
      sent = sum_of_reports(g, reports, &round_report::sent);
    }
  }
}

/// Finds the least rank of the far list. Thread scope: all blocks, of whole warps.
template <class Program>
GRAVEL_DEVICE void find_least_item(const item_view<Program>& view) {
  worklist_words& words = *view.lists.words;
  const uint32_t turn = words.far_turn, room = view.lists.room,
                 size = words.far_size[turn] < room ? words.far_size[turn] : room;
  uint32_t least = no_rank;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    const uint32_t rank = rank_in_rounds(view.program.priority(view.lists.far[turn][i]));
    least = rank < least ? rank : least;
  }
  if (least != no_rank) atomicMin(&words.least, least);
}
/// Splits the far list: items below `limit` become near, the others go into the other far list. begin_limit must
/// follow. Thread scope: all blocks, of whole warps.
template <class Program>
GRAVEL_DEVICE void split_far_items(const item_view<Program>& view, uint32_t limit) {
  using item = typename item_of<Program>::type;
  const worklist_words& words = *view.lists.words;
  const uint32_t turn = words.far_turn, room = view.lists.room, lane = threadIdx.x % 32,
                 size = words.far_size[turn] < room ? words.far_size[turn] : room;
  const lane_group warp = lane_group::of(~0u);
  for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
       of_warp += gridDim.x * blockDim.x) {
    const bool have = of_warp + lane < size;
    item mine{};
    if (have) mine = view.lists.far[turn][of_warp + lane];
    const bool near = have && rank_in_rounds(view.program.priority(mine)) < limit;
    view.append_near(warp, words.near_turn, near, mine);  // there is room: no near list had an item
    view.append_far(warp, 1 - turn, have && !near, mine);
  }
}
/// Returns the limit that follows when no item below the present one waits.
template <class Program>
GRAVEL_DEVICE uint32_t limit_beyond(const item_view<Program>& view, uint32_t least) {
  const uint32_t after = view.program.limit_after(least);
  return after > least ? after : least + 1;
}

/// The kernel of all rounds. A cooperative launch of blocks of whole warps, at all PEs.
template <class Program>
__global__ void __launch_bounds__(256)
    process_all_rounds(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                       item_counts* counts, round_report* reports, bool items_move) {
  item_worker<Program> worker{g, view};
  worklist_words& words = *view.lists.words;
  while (true) {
    report_near(g, view, reports);
    gravel_barrier(g);  // [W6]
    if (sum_of_reports(g, reports, &round_report::some) != 0) {
      const round_division mine = round_division::of(g, reports, items_move);
      if (items_move) {
        fetch_items(g, view, reports, mine, counts);
        inner::join_blocks(g, [] {});
      }
      process_round(view, mine.stay + mine.come, worker);
      gravel_barrier(g);  // [W5]
      await_passed_on(g, view, reports);
      inner::join_blocks(g, [&words] { turn_near_over(words); });
      continue;
    }
    if constexpr (!has_limit<Program>) {
      break;
    } else {
      find_least_item(view);
      inner::join_blocks(g, [] {});
      report_to_all(g, reports, &round_report::least, words.least);
      gravel_barrier(g);  // [W7]
      const auto least = static_cast<uint32_t>(least_of_reports(g, reports, &round_report::least));
      if (least == no_rank) break;
      const uint32_t limit = limit_beyond(view, least);
      split_far_items(view, limit);
      inner::join_blocks(g, [&words, limit] { begin_limit(words, limit); });
    }
  }
  add_counts(worker, counts);
}

// The steps as kernels of their own, for rounds that hosts start.

/// Reports the near items, before the first round. One block.
template <class Program>
__global__ void report_first_round(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                                   round_report* reports) {
  report_near(g, view, reports);
}
template <class Program>
__global__ void fetch_round(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                            item_counts* counts, const round_report* reports) {
  fetch_items(g, view, reports, round_division::of(g, reports, true), counts);
}
template <class Program>
__global__ void __launch_bounds__(256)
    process_one_round(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                      item_counts* counts, const round_report* reports, bool items_move) {
  const round_division mine = round_division::of(g, reports, items_move);
  item_worker<Program> worker{g, view};
  process_round(view, mine.stay + mine.come, worker);
  add_counts(worker, counts);
}
/// Turns the lists over after a round, and reports the next one. One block.
template <class Program>
__global__ void end_round(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                          round_report* reports) {
  if (threadIdx.x == 0) turn_near_over(*view.lists.words);
  __syncthreads();
  report_near(g, view, reports);
}
template <class Program>
__global__ void find_least_far_item(const __grid_constant__ item_view<Program> view) {
  if constexpr (has_limit<Program>) find_least_item(view);
}
/// Reports the least rank of the far list. One block.
template <class Program>
__global__ void report_least(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                             round_report* reports) {
  report_to_all(g, reports, &round_report::least, view.lists.words->least);
}
template <class Program>
__global__ void split_far_list_of_items(const __grid_constant__ item_view<Program> view, uint32_t least) {
  if constexpr (has_limit<Program>) split_far_items(view, limit_beyond(view, least));
}
/// Moves the limit after split_far_list_of_items, and reports the next round. One block.
template <class Program>
__global__ void move_limit(const __grid_constant__ gravel_t g, const __grid_constant__ item_view<Program> view,
                           round_report* reports, uint32_t least) {
  if constexpr (has_limit<Program>) {
    if (threadIdx.x == 0) begin_limit(*view.lists.words, limit_beyond(view, least));
    __syncthreads();
    report_near(g, view, reports);
  }
}

}  // namespace gravel::detail
