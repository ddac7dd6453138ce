// Reports of the PEs to each other, in kernels of all rounds of all PEs. A PE writes its report at each other PE before
// a barrier, and reads the reports of all PEs behind it. Worklists of vertices (lib/worklist/rounds_of_all.cuh) and of
// items (lib/worklist/item_rounds.cuh) use them.
//
// Invariant. A field of a report is written again only after a barrier that each PE enters after it has read the field.
#pragma once
#include <gravel/gravel.cuh>

namespace gravel::detail {

/// The report of one PE, which the PE writes at each other PE. Symmetric.
struct round_report {
  uint64_t some;            ///< number of near vertices, and of ghosts with a new value; number of near items
  uint64_t least;           ///< the least key of the far list
  uint64_t received, sent;  ///< messages with items, if handlers may pass items on
};

/// Combines field `which` of all PEs' reports. Thread scope: lane.
template <class F>
GRAVEL_DEVICE uint64_t of_all_reports(const gravel_t& g, const round_report* reports, uint64_t round_report::*which,
                                      F combine) {
  uint64_t all = poll_word(g, &(reports[0].*which));
  for (uint32_t pe = 1; pe < g.n_pes; ++pe) all = combine(all, poll_word(g, &(reports[pe].*which)));
  return all;
}
/// Adds up field `which` of all PEs' reports. Thread scope: lane.
GRAVEL_DEVICE uint64_t sum_of_reports(const gravel_t& g, const round_report* reports, uint64_t round_report::*which) {
  return of_all_reports(g, reports, which, [](uint64_t a, uint64_t b) { return a + b; });
}
/// Returns the least of field `which` of all PEs' reports. Thread scope: lane.
GRAVEL_DEVICE uint64_t least_of_reports(const gravel_t& g, const round_report* reports, uint64_t round_report::*which) {
  return of_all_reports(g, reports, which, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
}
/// Writes a field of this PE's report at all PEs. Thread scope: all blocks; the first thread writes.
GRAVEL_DEVICE void report_to_all(const gravel_t& g, round_report* reports, uint64_t round_report::*which,
                                 uint64_t value) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (uint32_t pe = 0; pe < g.n_pes; ++pe) gravel_put(g, &(reports[g.my_pe].*which), value, static_cast<int>(pe));
}

}  // namespace gravel::detail
