// Gravel's device API, for source files with kernels. All of it works on the CPU backend, too. Host threads can call
// the operations that send single messages.
#pragma once
#include <gravel/gravel.hpp>
#include "device/am.cuh"
#include "device/apply.cuh"
#include "device/block_sender.cuh"
#include "device/bulk.cuh"
#include "device/collective.cuh"
#include "device/fetch.cuh"
#include "device/local.cuh"
#include "device/put.cuh"
#include "device/signal.cuh"
#include "device/strided.cuh"
#include "device/team.cuh"
#include "device/wait.cuh"
#include "device/wait_set.cuh"
#include "host/pe/service.hpp"
#include "host/team_join.cuh"
#include "host/teams.cuh"

namespace gravel {
using detail::compare_swap_acquire;
using detail::fetch_add;
using detail::fetch_add_release;
using detail::lane_group;
using detail::load_acquire;
using detail::load_relaxed;
using detail::raise_relaxed;
using detail::relax;
using detail::scope;
using detail::store_relaxed;
using detail::store_release;
}  // namespace gravel

/// Number of the calling PE.
/// @param g handle
/// @return 0 to gravel_n_pes(g) - 1
/// @scope any thread, handlers
/// @completion on return
/// @errors none
/// @source OpenSHMEM 1.5: shmem_my_pe
GRAVEL_BOTH int gravel_my_pe(const gravel_t& g) { return static_cast<int>(g.my_pe); }
/// Number of PEs of the job.
/// @param g handle
/// @return 1 or more
/// @scope any thread, handlers
/// @completion on return
/// @errors none
/// @source OpenSHMEM 1.5: shmem_n_pes
GRAVEL_BOTH int gravel_n_pes(const gravel_t& g) { return static_cast<int>(g.n_pes); }

/// Address at which the caller can load and store the symmetric object of another PE directly.
/// @param g handle
/// @param address symmetric address
/// @param pe owner of the object
/// @return nullptr if the caller cannot access it directly; on CUDA host threads never can
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return
/// @errors none are reported; nullptr for a PE out of range
/// @source OpenSHMEM 1.5: shmem_ptr
template <class T>
GRAVEL_BOTH T* gravel_ptr([[maybe_unused]] const gravel_t& g, [[maybe_unused]] T* address, [[maybe_unused]] int pe) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  return nullptr;
#else
  if (static_cast<uint32_t>(pe) == g.my_pe) return address;
  if (static_cast<uint32_t>(pe) >= g.n_pes) return nullptr;
  char* const heap = gravel::detail::peer_heap(g, pe);
  return heap ? reinterpret_cast<T*>(heap + (reinterpret_cast<char*>(address) - g.heap)) : nullptr;
#endif
}
