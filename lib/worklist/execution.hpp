// How worklists are worked off: gravel_execution, for worklists of vertices and of items.
#pragma once

/// How a worklist is worked off. gravel_worklist says what each execution does, and why it exists. Worklists of items
/// (gravel_item_worklist) have `rounds`, `fused` and `asynchronous`.
enum class gravel_execution {
  automatic,  ///< rounds of the whole grid; while the list is narrow, many rounds in one kernel of a few blocks
  rounds,     ///< rounds of the whole grid only
  fused,      ///< as automatic, but only lists that find no room in the few blocks are left to the grid; with several
              ///< PEs one kernel for all rounds (lib/worklist/rounds_of_all.cuh)
  asynchronous,  ///< one kernel without rounds at each PE (lib/worklist/asynchronous.cuh)
};
