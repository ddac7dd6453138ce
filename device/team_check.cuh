// Team check: checks that all threads of a team make a call of the team together (lib/base/team_call.hpp lists these
// calls), with the same arguments. A call that lacks threads, or in which threads differ, ends the job with an error
// message. Without the check it would lose data in silence, or hang.
//
// The CPU backend always checks. It records which lane has made which call, and no lane waits for that
// (device/cpu/team_ledger.hpp). A GPU checks if the program is compiled with -DGRAVEL_CHECK=1. There the threads of the
// team have a rendezvous at the beginning of the call, in a few words of shared memory. A thread that waits longer than
// GRAVEL_CHECK_S seconds reports which threads are missing. Without GRAVEL_CHECK the check adds no instruction on a
// GPU.
#pragma once
#include "device/copy_team.cuh"
#include "device/handle.cuh"
#include "lib/base/team_call.hpp"

#ifndef GRAVEL_CHECK
#define GRAVEL_CHECK 0
#endif
#ifndef GRAVEL_CHECK_S
#define GRAVEL_CHECK_S 10
#endif
#if GRAVEL_ON_GPU && GRAVEL_CHECK
#include "device/team_rendezvous.cuh"
#endif

#if !GRAVEL_CUDA
namespace gravel::detail::simt {
/// The calling lane makes a call of its block, or, if `lanes` is not 0, of those lanes of its warp. If the call is
/// wrong the launch ends with an error, now or when it becomes apparent.
void enter_team(team_call, uint32_t lanes, const uint64_t* arguments, uint32_t count);
}  // namespace gravel::detail::simt
#endif

namespace gravel::detail {

template <class T>
GRAVEL_BOTH uint64_t argument_word(const T& argument) {
  if constexpr (std::is_pointer_v<T>) return reinterpret_cast<uint64_t>(argument);
  else return static_cast<uint64_t>(argument);
}

/// The calling lane makes `call` as one of a block, or, if `lanes` is not 0, as one of those lanes of its warp.
/// `arguments`: integers and pointers, as team_call_facts names them. Returns false, on a GPU only, if the team is not
/// complete, after reporting it (the CPU backend throws). Thread scope: lane.
template <class... A>
GRAVEL_DEVICE bool enter_lanes([[maybe_unused]] const gravel_t& g, [[maybe_unused]] team_call call,
                               [[maybe_unused]] uint32_t lanes, [[maybe_unused]] const A&... arguments) {
#if !GRAVEL_CUDA
  const uint64_t words[sizeof...(A) + 1] = {argument_word(arguments)...};
  simt::enter_team(call, lanes, words, sizeof...(A));
#elif GRAVEL_ON_GPU && GRAVEL_CHECK
  uint64_t mixed = 0;
  ((mixed = mix(mixed + argument_word(arguments))), ...);
  return sync_team(g, call, lanes, mixed);
#endif
  return true;
}
/// As enter_lanes(), for calls that have no handle: a GPU prints the error, and the kernel ends.
template <class... A>
GRAVEL_DEVICE void enter_lanes_or_trap([[maybe_unused]] team_call call, [[maybe_unused]] uint32_t lanes,
                                       [[maybe_unused]] const A&... arguments) {
#if !GRAVEL_CUDA || (GRAVEL_ON_GPU && GRAVEL_CHECK)
  if (!enter_lanes(gravel_t{}, call, lanes, arguments...)) __trap();
#endif
}
/// Enters a call of a whole block, or of all blocks of a grid.
template <class... A>
GRAVEL_DEVICE bool enter_block(const gravel_t& g, team_call call, const A&... arguments) {
  return enter_lanes(g, call, 0, arguments...);
}
/// Enters a call of a copy team. A host thread, or a single lane, is a complete team.
template <class... A>
GRAVEL_BOTH bool enter_team([[maybe_unused]] const gravel_t& g, [[maybe_unused]] team_call call,
                            [[maybe_unused]] const copy_team& team, [[maybe_unused]] const A&... arguments) {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  if (team.size() > 1 || team.lanes() != 0) return enter_lanes(g, call, team.lanes(), arguments...);
#endif
  return true;
}
/// Enters a call of a lane_group, or of a type with its members.
template <class Group, class... A>
GRAVEL_DEVICE bool enter_group(const gravel_t& g, team_call call, const Group& group, const A&... arguments) {
  if constexpr (requires { group.mask(); })
    if (group.size() > 1) return enter_lanes(g, call, group.mask(), arguments...);
  return true;
}

}  // namespace gravel::detail
