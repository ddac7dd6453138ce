// The sender of kernels in a job whose PEs all have each other's memory mapped (route peer everywhere): a message is a
// store or an atomic there, done when the kernel has ended. Nobody else takes part: such a kernel is started alone,
// without the resolver, which would keep half of the multiprocessors for itself.
#pragma once
#include <vector>

#include <gravel/gravel.cuh>
#include "host/launch_alone.cuh"

namespace gravel::detail {

/// For symmetric addresses, and PEs that there are: nothing is checked.
struct mapped_sender {
  char* mine;
  const peer_link* peers;
  uint32_t me;

  /// Of one in shared memory, as that of gravel_block_sender. Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const gravel_t& g) {
    if (threadIdx.x == 0) mine = g.heap, peers = g.peers, me = g.my_pe;
    __syncthreads();
  }
  GRAVEL_DEVICE void end() {}
  template <class T>
  GRAVEL_DEVICE T* at(T* symmetric, int pe) const {
    if (static_cast<uint32_t>(pe) == me) return symmetric;
    return reinterpret_cast<T*>(peers[pe].heap + (reinterpret_cast<const char*>(symmetric) - mine));
  }
  // Thread scope: lane.
  template <class T>
  GRAVEL_DEVICE void put(T* dest, same<T> value, int pe) const {
    put_in_place(at(dest, pe), value);
  }
  template <class T>
  GRAVEL_DEVICE T get(T* from, int pe) const {
    return read_in_place(at(from, pe));
  }
  template <class T>
  GRAVEL_DEVICE void add(T* dest, same<T> value, int pe) const {
    update<op::add>(dest, value, pe);
  }
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

/// Whether all PEs of the job have each other's memory mapped. Collective; to be asked once.
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
