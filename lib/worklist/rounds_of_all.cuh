// The fused execution of several PEs: all rounds of all PEs in one resident kernel.
//
// Problem. When hosts start the kernels of each round and exchange, a round of few vertices takes longer to start than
// to run.
// Solution. One kernel runs from the first vertex to the last; hosts do nothing in between. A PE expands near vertices
// until it has none (with sums: once).
//
// Protocol. After its expansion each PE takes these steps, and all repeat until no PE has a vertex:
//   this PE                                                        every other PE
//   turns its lists over; reports its near vertices and ghosts     [W5] gravel_barrier  sees the reports of all PEs
//   some PE has something: sends the values of ghosts              [W6] gravel_barrier  all values are in the lists
//   no PE has: reports the least key of its far list               [W7] gravel_barrier  sees the least key of all PEs,
//                                                                                       and moves the limit there
//
// All PEs see the same reports, and so decide alike.
//
// Invariants.
// - Handlers append to the current lists. So no PE sends while another expands, splits or turns over a list; beside the
//   reports, this is what [W5] is for.
// - That of reports (lib/worklist/round_reports.cuh).
//
// Model: test/models/worklist_rounds.pml.
#pragma once
#include "lib/worklist/exchange.cuh"
#include "lib/worklist/inbox.cuh"
#include "lib/worklist/round_reports.cuh"

namespace gravel::detail {

/// The kernel of all rounds. A cooperative launch of blocks of vertex_threads, at all PEs. With a mapped_sender values
/// go through inboxes, otherwise by messages to handlers.
template <class Program, class Sender>
__global__ void __launch_bounds__(256, 4)
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
      if (!is_ordered) break;  // sums: expanding further would pass values on in many small parts
    }
    report_to_all(g, reports, &round_report::some, uint64_t{near} + words.remote_size);
    gravel_barrier(g);  // [W5]
    if (sum_of_reports(g, reports, &round_report::some) != 0) {
      if constexpr (std::is_same_v<Sender, mapped_sender>) {
        post_ghosts(g, w, inboxes, sender);
        inner::join_blocks(g, [&] {
          notify_posted(g, w, inboxes, sender);
          ++words.exchanges;
        });
        gravel_barrier(g);  // [W6]
        take_posted(g, w, inboxes);
        inner::join_blocks(g, [] {});
      } else {
        send_ghosts(g, w, sender);
        inner::join_blocks(g, [&words] {
          words.remote_size = 0;
          ++words.exchanges;
        });
        gravel_barrier(g);  // [W6]
      }
      continue;
    }
    if constexpr (!is_ordered) {
      break;
    } else {
      scan_for_least(w);
      inner::join_blocks(g, [] {});
      report_to_all(g, reports, &round_report::least, words.least);
      gravel_barrier(g);  // [W7]
      const auto least = static_cast<uint32_t>(least_of_reports(g, reports, &round_report::least));
      if (least == ~0u) break;
      const uint32_t after = w.program.limit_after(least), limit = after > least ? after : least + 1;
      split_far_list(w, limit);
      inner::join_blocks(g, [&words, limit] { begin_limit(words, limit); });
    }
  }
  done.add_to(w.words);
}

}  // namespace gravel::detail
