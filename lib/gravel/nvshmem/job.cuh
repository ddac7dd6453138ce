// Where the calls of NVSHMEM, which have no handle, find Gravel's.
//
// Problem. Kernels call NVSHMEM without a handle. A variable that all parts of a program share needs relocatable device
// code.
// Solution. Each translation unit has a constant of its own, `gravel_nvshmem_state`. A static object of each unit
// registers a function that writes the unit's constant, at the start of the process or when its library is loaded.
// nvshmem_init calls all of them, and a unit that registers later is written at once. A module of the driver's API is
// found by the constant's name: nvshmemx_cumodule_init.
// On the CPU backend kernels see the variables of the process, so there is one state for all.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include <gravel/nvshmem/types.cuh>

namespace gravel::detail::nvshmem {

/// What kernels need.
struct device_state {
  gravel_t kernels;
  uint32_t place_of_same_rank;  ///< of the team NVSHMEMX_TEAM_SAME_MYPE_NODE (teams.cuh)
};

/// What the process knows about its job. It is one object for all libraries of the process.
struct GRAVEL_API process_state {
  using write = void (*)(const device_state&);
  std::mutex lock;
  std::vector<write> units;  ///< of all translation units that are loaded
  bool is_open = false;      ///< between nvshmem_init and nvshmem_finalize
  static constexpr uint32_t most_teams = block_scratch::teams;
  gravel_team_t teams[most_teams];  ///< of this PE, by place; used by the program's host thread
  device_state state{};
  gravel_t host{};  ///< handle of host threads

  /// Sets the state everywhere.
  void set(const device_state& kernels, const gravel_t& of_host, bool open) {
    const std::lock_guard hold(lock);
    state = kernels;
    host = of_host;
    is_open = open;
    for (const write unit : units) unit(state);
  }
  void add(write unit) {
    const std::lock_guard hold(lock);
    units.push_back(unit);
    if (is_open) unit(state);
  }
  void remove(write unit) {
    const std::lock_guard hold(lock);
    std::erase(units, unit);
  }
};
GRAVEL_API inline process_state& process() {
  static auto* const one = new process_state;  // never destroyed: units may be unloaded after all objects
  return *one;
}

/// A translation unit, as long as it is loaded.
struct unit_registration {
  process_state::write unit;
  explicit unit_registration(process_state::write function) : unit(function) { process().add(unit); }
  ~unit_registration() { process().remove(unit); }
  unit_registration(const unit_registration&) = delete;
  unit_registration& operator=(const unit_registration&) = delete;
};

}  // namespace gravel::detail::nvshmem

#if GRAVEL_CUDA
__constant__ static gravel::detail::nvshmem::device_state gravel_nvshmem_state;
namespace gravel::detail::nvshmem {
static void write_constant(const device_state& state) {
  const cudaError_t code = cudaMemcpyToSymbol(gravel_nvshmem_state, &state, sizeof(state));
  if (code != cudaSuccess)
    fail_text(std::string("nvshmem_init: writing the state of a translation unit: ") + cudaGetErrorString(code));
}
static const unit_registration this_unit(&write_constant);
}  // namespace gravel::detail::nvshmem
#endif

namespace gravel::detail::nvshmem {

/// Returns true in a kernel.
GRAVEL_BOTH bool in_kernel() {
#if GRAVEL_CUDA
  return GRAVEL_ON_GPU;
#else
  return simt::in_kernel();
#endif
}
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
GRAVEL_DEVICE const device_state& state_of_kernels() {
#if GRAVEL_CUDA
  return gravel_nvshmem_state;
#else
  return process().state;
#endif
}
#endif
/// The handle of the caller: a lane of a kernel, or a host thread. Before nvshmem_init it is empty, which the calls of
/// Gravel report.
GRAVEL_BOTH const gravel_t& handle() {
#if GRAVEL_ON_GPU
  return state_of_kernels().kernels;
#elif GRAVEL_CUDA
  return process().host;
#else
  return in_kernel() ? process().state.kernels : process().host;
#endif
}

// Thread scopes of calls.
struct lane_scope {};
struct warp_scope {};
struct block_scope {};

/// Waits for the threads of a scope.
GRAVEL_BOTH void sync(lane_scope) {}
GRAVEL_DEVICE void sync(warp_scope) { copy_team::warp(handle(), ~0u).sync(); }
GRAVEL_DEVICE void sync(block_scope) { copy_team::block(handle()).sync(); }

}  // namespace gravel::detail::nvshmem
