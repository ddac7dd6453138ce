// The sender of kernels in a job whose PEs all have each other's memory mapped (route peer everywhere). A message is a
// store or an atomic in that memory, which is done when the kernel has ended. No other party takes part: such a kernel
// is launched alone, without the resolver, which would occupy half of the multiprocessors.
#pragma once
#include <vector>

#include <gravel/gravel.cuh>
#include "host/launch_alone.cuh"

namespace gravel::detail {

/// A sender for jobs whose PEs all have each other's memory mapped (gravel::all_are_mapped). A message is a store or an
/// atomic in that memory. Make it in shared memory, as a gravel_block_sender.
/// @scope lane, from divergent code
/// @completion as stores and atomics of CUDA: at the end of the kernel, or behind a fence of system scope
/// @errors nothing is checked: addresses must be symmetric, and PEs must exist
/// @source Gravel
struct mapped_sender {
  char* mine;
  const peer_link* peers;
  uint32_t me;

  /// Begins to send.
  /// @param g the kernel's handle
  /// @scope block, converged
  GRAVEL_DEVICE void begin(const gravel_t& g) {
    if (threadIdx.x == 0) {
      mine = g.heap;
      peers = g.peers;
      me = g.my_pe;
    }
    __syncthreads();
  }
  /// Does nothing. It exists so that a gravel_block_sender can be used instead.
  GRAVEL_DEVICE void end() {}
  /// Address at which this PE reaches an object of another PE.
  /// @param symmetric address in this PE's heap
  /// @param pe owner of the object
  template <class T>
  GRAVEL_DEVICE T* at(T* symmetric, int pe) const {
    if (static_cast<uint32_t>(pe) == me) return symmetric;
    return reinterpret_cast<T*>(peers[pe].heap + (reinterpret_cast<const char*>(symmetric) - mine));
  }
  // Thread scope: lane.
  /// Stores a value.
  /// @param dest symmetric address
  /// @param value what is stored
  /// @param pe destination
  template <class T>
  GRAVEL_DEVICE void put(T* dest, same<T> value, int pe) const {
    put_in_place(at(dest, pe), value);
  }
  /// Loads a value.
  /// @param from symmetric address
  /// @param pe owner of the object
  template <class T>
  GRAVEL_DEVICE T get(T* from, int pe) const {
    return read_in_place(at(from, pe));
  }
  /// Adds to a value atomically.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  template <class T>
  GRAVEL_DEVICE void add(T* dest, same<T> value, int pe) const {
    update<op::add>(dest, value, pe);
  }
  /// Replaces a value by the smaller of itself and the operand, atomically.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  template <class T>
  GRAVEL_DEVICE void min(T* dest, same<T> value, int pe) const {
    update<op::min>(dest, value, pe);
  }

 private:
  template <op O, class T>
  GRAVEL_DEVICE void update(T* dest, T value, int pe) const {
    if (static_cast<uint32_t>(pe) == me) apply_in_place(O, dest, value);
    else apply_in_place<scope::system>(O, at(dest, pe), value);
  }
};

/// Finds out whether all PEs of the job have each other's memory mapped. Call it once, as it communicates.
/// @return the same at all PEs
/// @scope the program's host thread; collective
/// @completion on return
/// @errors none
/// @source Gravel
inline bool all_are_mapped() {
  const auto n = static_cast<size_t>(gravel_n_pes()), me = static_cast<size_t>(gravel_my_pe());
  const gravel_t g = gravel_handle();
  bool all = n == 1 || g.peers != nullptr;
  if (n > 1 && g.peers) {
    std::vector<peer_link> links(n);
    gravel_copy(links.data(), g.peers, n * sizeof(peer_link));
    for (size_t pe = 0; pe < n; ++pe) all &= pe == me || links[pe].heap != nullptr;
  }
  return gravel_min_all(uint64_t{all}) != 0;
}

}  // namespace gravel::detail
