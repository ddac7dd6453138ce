// Reductions and broadcasts along the path of a router: gravel_reduce (chain, tree), gravel_allreduce and
// gravel_broadcast (ring). The host calls them and they start a kernel, or all threads of a kernel's grid call them.
//
//   gravel_router ring(gravel_all_devices(), gravel_all_devices(), GRAVEL_RING, gravel_path_options());  // collective
//   gravel_allreduce(ring, to, from, count);  // the sum over all PEs
//
// All calls of this file:
// @param h from gravel_router::path() or direct_path()
// @param router a chain or a tree (reduce), a ring (allreduce, broadcast)
// @param to [count] results: a symmetric address, the same at all PEs; may be `from`
// @param from [count] contributions of this PE, a symmetric address
// @param data [bytes], a symmetric address, the same at all PEs
// @param count number of elements, the same at all PEs
// @param bytes number of bytes, the same at all PEs
// @param how CUDA stream, and event to wait for
// @errors host calls throw gravel::error for invalid arrays; in kernels an error ends the job with a message
// @source Groute, sections 2.1, 4.3 and 5.1.4
#pragma once
#include "lib/link/ring_allreduce.cuh"
#include "lib/link/router.cuh"

/// Options of the host's calls.
struct gravel_path_call {
  gravel_event after{};              ///< the device waits for it before it begins
  gravel_stream_t stream = nullptr;  ///< nullptr: the PE's own stream
};

/// Returns a device endpoint of every PE. The PEs of a node follow each other, so that a path in this order leaves each
/// node once.
/// @return [gravel_n_pes()]
/// @scope any host thread
/// @completion on return
inline std::vector<gravel_endpoint> gravel_all_devices() {
  std::vector<gravel_endpoint> all;
  for (int node = 0; node < gravel_n_nodes(); ++node)
    for (int pe = 0; pe < gravel_n_pes(); ++pe)
      if (gravel_node_of(pe) == node) all.push_back(gravel_device(pe));
  return all;
}
/// Returns options that suit paths: many blocks, each with small packets of its own.
/// @return options that the caller may change
/// @scope any host thread
/// @completion on return
inline gravel_link_options gravel_path_options() {
  return {.packet_bytes = GRAVEL_CUDA ? 65536 : 2048, .buffers = 3, .lanes = GRAVEL_CUDA ? 64 : 2};
}

namespace gravel::detail {

/// Finds this PE's neighbours in the chain or tree, and reduces.
template <gravel_reduction HOW, class T, class Handle>
GRAVEL_DEVICE void reduce_along(const Handle& h, T* to, const T* from, uint64_t count) {
  __syncthreads();  // all threads have written what the block reduces
  const uint32_t last = h.n - 1;
  if (h.n == 1) {
    const element_range part = element_range{0, count}.part(blockIdx.x, gridDim.x, sizeof(unit) / sizeof(T));
    if (to != from) combine_arrays<HOW, T, 1, false>(to + part.begin, nullptr, {from + part.begin}, part.size());
  } else if (h.policy == GRAVEL_CHAIN) {
    reduce_up<HOW>(h, to, from, count, h.position == last ? no_link : h.position, h.position ? h.position - 1 : no_link,
                   no_link);
  } else {
    const uint32_t place = last - h.position, left = 2 * place + 1, right = left + 1;  // counted from the root
    reduce_up<HOW>(h, to, from, count, place ? h.position : no_link, left < h.n ? last - left : no_link,
                   right < h.n ? last - right : no_link);
  }
  __syncthreads();
}

/// Actions of a kernel that the host starts: what it waits for, and what its last block raises.
struct path_end {
  uint64_t* blocks_done;
  gravel_event after, done;
};
GRAVEL_DEVICE void begin_path(const gravel_t& g, const path_end& e) {
  if (threadIdx.x == 0) await_event(g, e.after);
  __syncthreads();
}
GRAVEL_DEVICE void end_path(const path_end& e) {
  __syncthreads();
  if (threadIdx.x != 0 || fetch_add_acq_rel<scope::device>(e.blocks_done, uint64_t{1}) + 1 != gridDim.x) return;
  store_relaxed<scope::device>(e.blocks_done, uint64_t{0});
  raise_event(e.done);
}
template <gravel_reduction HOW, class T, class Handle>
__global__ void __launch_bounds__(512) reduce_on_path(const __grid_constant__ Handle h, T* to, const T* from,
                                                      uint64_t count, const __grid_constant__ path_end e) {
  begin_path(h.g, e);
  if (h.policy == GRAVEL_RING) allreduce_along<HOW>(h, to, from, count);
  else reduce_along<HOW>(h, to, from, count);
  end_path(e);
}
template <class Handle>
__global__ void __launch_bounds__(512) broadcast_on_path(const __grid_constant__ Handle h, char* data, uint64_t bytes,
                                                         uint32_t root, const __grid_constant__ path_end e) {
  begin_path(h.g, e);
  if (h.n > 1) broadcast_along(h, data, bytes, root);
  end_path(e);
}

/// Starts a kernel on a path. `direct`, `any`: the kernel for each type of handle.
template <class Direct, class Any, class... A>
gravel_event start_on_path(gravel_router& router, Direct direct, Any any, uint64_t bytes, const gravel_path_call& how,
                           A... arguments) {
  const gravel_path_handle h = router.path();
  const uint32_t blocks = path_blocks(bytes, h.lanes);
  const gravel_launch_config config{
      .grid = blocks, .block = path_threads, .stream = how.stream, .cooperative = blocks > 1};
  const path_end end{&router.rings().state(router.rings().edges().size())->blocks_done, how.after,
                     router.path_events().take([&] {
                       return "one of its last " + std::to_string(gravel::detail::event_pool::words) +
                              " reductions to end, on the path of a router";
                     })};
  // A kernel that waits only for other PEs' kernels needs no resolver. The event `after` may need one.
  if (!h.directly) gravel_launch(any, config, h, arguments..., end);
  else if (how.after.word) gravel_launch(direct, config, gravel_direct_path_handle{h}, arguments..., end);
  else launch_alone(direct, config, gravel_direct_path_handle{h}, arguments..., end);
  return end.done;
}

/// Throws gravel::error for arrays that cannot be reduced.
template <class T>
void check_arrays(const gravel_router& router, const char* call, const T* to, const T* from, uint64_t count) {
  const gravel_t g = gravel_handle();
  const auto at = static_cast<uint64_t>(reinterpret_cast<const char*>(to) - g.heap);
  const std::string what =
      std::string(call) + " of " + std::to_string(count) + " elements of " + std::to_string(sizeof(T)) + " bytes";
  if (count > g.heap_bytes / sizeof(T))
    fail_text(what + ": there are not as many in a heap of " + std::to_string(g.heap_bytes) + " bytes");
  if ((reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % sizeof(T))
    fail_text(what + ": a misaligned address");
  const bool must_be_symmetric = router.policy() == GRAVEL_RING && router.inputs().size() > 1;
  if (must_be_symmetric && count && !lies_in_heap(at, count * sizeof(T), g.heap_bytes))
    fail_text(what + ": the result is not in the symmetric heap");
  if (to != from && to < from + count && from < to + count)
    fail_text(what + ": source and result overlap, and are not the same");
}
inline void check_policy(const char* call, bool fits, const char* wanted) {
  if (!fits) fail_text(std::string(call) + ": the router's policy is another one; it takes " + wanted);
}

}  // namespace gravel::detail

// In kernels: all threads of all blocks of a one-dimensional grid call them. A grid of several blocks is cooperative.
// All PEs call with the same number of blocks, at most `lanes`. Each block has a part of the arrays for itself and does
// not wait for other blocks of its grid: what it reduces must have been written before, and a rendezvous of the blocks
// comes before a block reads another block's part. Elements have the types of lib/base/element.hpp. The result is the
// same in every run. Sums of floating-point numbers are added in the order of the path, which in a ring begins at
// another PE for each chunk.

/// Combines the arrays of all PEs along a ring; all PEs get the result.
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <gravel_reduction HOW = GRAVEL_SUM, class T, gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_allreduce(const Handle& h, T* to, const T* from, uint64_t count) {
  if (gravel::detail::enter_block(h.g, gravel::detail::team_call::allreduce, to, from, count))
    gravel::detail::allreduce_along<HOW>(h, to, from, count);
}
/// Combines the arrays of all PEs along a chain or a tree. The PE of the output gets the result; of others `to` is not
/// written.
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <gravel_reduction HOW = GRAVEL_SUM, class T, gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_reduce(const Handle& h, T* to, const T* from, uint64_t count) {
  if (gravel::detail::enter_block(h.g, gravel::detail::team_call::reduce, to, from, count))
    gravel::detail::reduce_along<HOW>(h, to, from, count);
}
/// Copies the data of one input to all PEs along a ring.
/// @param root number of the input
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_broadcast(const Handle& h, void* data, uint64_t bytes, uint32_t root) {
  if (gravel::detail::enter_block(h.g, gravel::detail::team_call::broadcast, data, bytes, root) && h.n > 1)
    gravel::detail::broadcast_along(h, static_cast<char*>(data), bytes, root);
}

/// Starts a kernel that combines the arrays of all PEs along a ring.
/// @return happens when the arrays may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
template <gravel_reduction HOW = GRAVEL_SUM, class T>
gravel_event gravel_allreduce_start(gravel_router& router, T* to, const T* from, uint64_t count,
                                    const gravel_path_call& how = {}) {
  gravel::detail::check_policy("gravel_allreduce", router.policy() == GRAVEL_RING, "GRAVEL_RING");
  gravel::detail::check_arrays(router, "gravel_allreduce", to, from, count);
  return gravel::detail::start_on_path(router, gravel::detail::reduce_on_path<HOW, T, gravel_direct_path_handle>,
                                       gravel::detail::reduce_on_path<HOW, T, gravel_path_handle>, count * sizeof(T),
                                       how, to, from, count);
}
/// Starts a kernel that combines the arrays of all PEs along a chain or a tree.
/// @return happens when the arrays may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
template <gravel_reduction HOW = GRAVEL_SUM, class T>
gravel_event gravel_reduce_start(gravel_router& router, T* to, const T* from, uint64_t count,
                                 const gravel_path_call& how = {}) {
  gravel::detail::check_policy("gravel_reduce", router.policy() == GRAVEL_CHAIN || router.policy() == GRAVEL_TREE,
                               "GRAVEL_CHAIN or GRAVEL_TREE");
  gravel::detail::check_arrays(router, "gravel_reduce", to, from, count);
  return gravel::detail::start_on_path(router, gravel::detail::reduce_on_path<HOW, T, gravel_direct_path_handle>,
                                       gravel::detail::reduce_on_path<HOW, T, gravel_path_handle>, count * sizeof(T),
                                       how, to, from, count);
}
/// Starts a kernel that copies the data of one PE to all along a ring.
/// @param root a PE of the ring
/// @return happens when the data may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
inline gravel_event gravel_broadcast_start(gravel_router& router, void* data, uint64_t bytes, int root,
                                           const gravel_path_call& how = {}) {
  gravel::detail::check_policy("gravel_broadcast", router.policy() == GRAVEL_RING, "GRAVEL_RING");
  for (uint32_t i = 0; i < router.inputs().size(); ++i)
    if (router.inputs()[i].pe == root)
      return gravel::detail::start_on_path(router, gravel::detail::broadcast_on_path<gravel_direct_path_handle>,
                                           gravel::detail::broadcast_on_path<gravel_path_handle>, bytes, how,
                                           static_cast<char*>(data), bytes, i);
  gravel::detail::fail_text("gravel_broadcast: PE " + std::to_string(root) + " is not on the ring");
}
/// Combines the arrays of all PEs along a ring.
/// @scope the program's host thread; collective: all PEs of the path
/// @completion on return: the result is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_allreduce(gravel_router& router, T* to, const T* from, uint64_t count, const gravel_path_call& how = {}) {
  gravel_allreduce_start<HOW>(router, to, from, count, how);
  gravel_stream_synchronize(how.stream);
}
/// Combines the arrays of all PEs along a chain or a tree.
/// @scope the program's host thread; collective: all PEs of the path
/// @completion on return: the result is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce(gravel_router& router, T* to, const T* from, uint64_t count, const gravel_path_call& how = {}) {
  gravel_reduce_start<HOW>(router, to, from, count, how);
  gravel_stream_synchronize(how.stream);
}
/// Copies the data of one PE to all along a ring.
/// @param root a PE of the ring
/// @scope the program's host thread; collective: all PEs of the path
/// @completion on return: the data is there
inline void gravel_broadcast(gravel_router& router, void* data, uint64_t bytes, int root,
                             const gravel_path_call& how = {}) {
  gravel_broadcast_start(router, data, bytes, root, how);
  gravel_stream_synchronize(how.stream);
}
