// Rounds of several PEs in one resident kernel, from the first vertex to the last: between them the hosts do nothing. A PE expands what is near until it has
// nothing near (of sums: once). Then
//
//   this PE                                                        every other PE
//   its lists are turned over; its report: near and ghosts         [X1] gravel_barrier    sees the reports of all PEs
//   somebody has something: sends what ghosts have                 [X2] gravel_barrier    all of it is in the lists
//   nobody has: its least key in the far list                      [X3] gravel_barrier    sees the least of all, and moves the limit there
//
// From the same reports all PEs draw the same conclusions. Handlers append to the current lists. So nothing may be sent while somebody expands, splits
// or turns over a list: that is what [X1] is for beside the reports. A report is written again behind a barrier that nobody enters before he has read it.
// The model is test/models/worklist_rounds.pml.
#pragma once
#include "lib/worklist/exchange.cuh"
#include "lib/worklist/inbox.cuh"

namespace gravel::detail {

/// What one PE says, at each other; written by it alone. Symmetric.
struct round_report {
  uint64_t some;   ///< vertices that are near, and ghosts that have something new
  uint64_t least;  ///< key of the far list
};

/// Each PE's report of `which`, combined. Thread scope: lane.
template <class F>
GRAVEL_DEVICE uint64_t of_all_reports(const gravel_t& g, round_report* reports, uint64_t round_report::*which,
                                      F combine) {
  uint64_t all = poll_word(g, &(reports[0].*which));
  for (uint32_t pe = 1; pe < g.n_pes; ++pe) all = combine(all, poll_word(g, &(reports[pe].*which)));
  return all;
}
/// Thread scope: all blocks; the first thread tells.
GRAVEL_DEVICE void report_to_all(const gravel_t& g, round_report* reports, uint64_t round_report::*which,
                                 uint64_t value) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (uint32_t pe = 0; pe < g.n_pes; ++pe) gravel_put(g, &(reports[g.my_pe].*which), value, static_cast<int>(pe));
}

/// A cooperative launch of blocks of vertex_threads, at all PEs. With a mapped_sender what is sent goes through
/// inboxes, else by handlers.
template <class Program, class Sender>
__global__ void __launch_bounds__(256)
    run_rounds_of_all(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                      round_report* reports,
                      const __grid_constant__ worklist_inboxes<typename worklist_view<Program>::value> inboxes) {
  __shared__ Sender sender;
  constexpr bool is_ordered = worklist_view<Program>::state::is_ordered;
  worklist_words& words = *w.words;
  work_done done;
  while (true) {
    uint32_t near = words.near_size[words.near_turn];
    while (near != 0) {
      expand_near_list(w, done);
      inner::join_blocks(g, [] {});
      if (words.hub_size != 0) expand_pieces(w);
      inner::join_blocks(g, [&words] { turn_near_over(words); });
      near = words.near_size[words.near_turn];
      if (!is_ordered) break;  // sums that run ahead are passed on in many small parts
    }
    report_to_all(g, reports, &round_report::some, uint64_t{near} + words.remote_size);
    gravel_barrier(g);  // [X1]
    if (of_all_reports(g, reports, &round_report::some, [](uint64_t a, uint64_t b) { return a + b; }) != 0) {
      if constexpr (std::is_same_v<Sender, mapped_sender>) {
        post_ghosts(g, w, inboxes, sender);
        inner::join_blocks(g, [&] { notify_posted(g, w, inboxes, sender), ++words.exchanges; });
        gravel_barrier(g);  // [X2]
        take_posted(g, w, inboxes);
        inner::join_blocks(g, [] {});
      } else {
        send_ghosts(g, w, sender);
        inner::join_blocks(g, [&words] { words.remote_size = 0, ++words.exchanges; });
        gravel_barrier(g);  // [X2]
      }
      continue;
    }
    if constexpr (!is_ordered) {
      break;
    } else {
      scan_for_least(w);
      inner::join_blocks(g, [] {});
      report_to_all(g, reports, &round_report::least, words.least);
      gravel_barrier(g);  // [X3]
      const auto least = static_cast<uint32_t>(
          of_all_reports(g, reports, &round_report::least, [](uint64_t a, uint64_t b) { return a < b ? a : b; }));
      if (least == ~0u) break;
      const uint32_t after = w.program.limit_after(least), limit = after > least ? after : least + 1;
      split_far_list(w, limit);
      inner::join_blocks(g, [&words, limit] { begin_limit(words, limit); });
    }
  }
  done.tell(w.words);
}

}  // namespace gravel::detail
