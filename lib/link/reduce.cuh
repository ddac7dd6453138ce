// Reductions and broadcasts along the path of a router: gravel_reduce (chain, tree), gravel_allreduce and
// gravel_broadcast (ring). The host calls them and they start a kernel, or all threads of a kernel's grid call them.
//
//   gravel_router ring(gravel_all_devices(), gravel_all_devices(), GRAVEL_RING, gravel_path_options());  // collective
//   gravel_allreduce(ring, to, from, count);  // the sum over all PEs
//
// Elements are numbers (lib/base/element.hpp), combined by an operation, HOW. Or they have any trivially copyable type,
// and the program's function object combines them:
//
//   struct keep_nearer {
//     GRAVEL_DEVICE void operator()(neighbour& into, const neighbour& from) const {
//       if (from.distance < into.distance) into = from;
//     }
//   };
//   gravel_allreduce(ring, nearest, nearest, count, keep_nearer{});
//
// A chain calls merge(merge(a0, a1), a2) and so on, in the order of its inputs. Trees and rings combine in other
// orders, so their merges are associative and commutative. For each element there is one call less than there are PEs.
// The merge may keep pointers to memory of its PE, and change that memory by atomics: threads of several blocks call it
// at the same time.
//
// All calls of this file:
// @param h from gravel_router::path() or direct_path()
// @param router a chain or a tree (reduce), a ring (allreduce, broadcast)
// @param to [count] results: a symmetric address, the same at all PEs; may be `from`
// @param from [count] contributions of this PE, a symmetric address
// @param data [bytes], a symmetric address, the same at all PEs
// @param count number of elements, the same at all PEs
// @param merge combines two elements on the device: `void operator()(T& into, const T& from) const`, trivially
//   copyable. T is trivially copyable and default constructible, aligned to 16 bytes at most, and fits in a packet of
//   the router
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
template <class T, class Merge, class Handle>
GRAVEL_DEVICE void reduce_along(const Handle& h, const Merge& merge, T* to, const T* from, uint64_t count) {
  __syncthreads();  // all threads have written what the block reduces
  const uint32_t last = h.n - 1;
  if (h.n == 1) {
    const element_range part = element_range{0, count}.part(blockIdx.x, gridDim.x, element_grain<T>);
    if (to != from) combine_arrays<T, 1, false>(merge, to + part.begin, nullptr, {from + part.begin}, part.size());
  } else if (h.policy == GRAVEL_CHAIN) {
    reduce_up(h, merge, to, from, count, h.position == last ? no_link : h.position,
              h.position ? h.position - 1 : no_link, no_link);
  } else {
    const uint32_t place = last - h.position, left = 2 * place + 1, right = left + 1;  // counted from the root
    reduce_up(h, merge, to, from, count, place ? h.position : no_link, left < h.n ? last - left : no_link,
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
template <class T, class Merge, class Handle>
__global__ void __launch_bounds__(512)
    reduce_on_path(const __grid_constant__ Handle h, const __grid_constant__ Merge merge, T* to, const T* from,
                   uint64_t count, const __grid_constant__ path_end e) {
  begin_path(h.g, e);
  if (h.policy == GRAVEL_RING) allreduce_along(h, merge, to, from, count);
  else reduce_along(h, merge, to, from, count);
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
  if ((reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % alignof(T))
    fail_text(what + ": a misaligned address");
  const uint32_t packet = router.rings().shape().packet_bytes;
  if (router.inputs().size() > 1 && sizeof(T) > packet)
    fail_text(what + ": the router's packets have " + std::to_string(packet) +
              " bytes: open it with packet_bytes of an element or more");
  const bool must_be_symmetric = router.policy() == GRAVEL_RING && router.inputs().size() > 1;
  if (must_be_symmetric && count && !lies_in_heap(at, count * sizeof(T), g.heap_bytes))
    fail_text(what + ": the result is not in the symmetric heap");
  if (to != from && to < from + count && from < to + count)
    fail_text(what + ": source and result overlap, and are not the same");
}
inline void check_policy(const char* call, bool fits, const char* wanted) {
  if (!fits) fail_text(std::string(call) + ": the router's policy is another one; it takes " + wanted);
}

/// Starts the kernel of a reduction.
template <class T, class Merge>
gravel_event start_reduction(gravel_router& router, const char* call, const Merge& merge, T* to, const T* from,
                             uint64_t count, const gravel_path_call& how) {
  check_arrays(router, call, to, from, count);
  return start_on_path(router, reduce_on_path<T, Merge, gravel_direct_path_handle>,
                       reduce_on_path<T, Merge, gravel_path_handle>, count * sizeof(T), how, merge, to, from, count);
}
template <class T, class Merge>
gravel_event start_allreduce(gravel_router& router, const Merge& merge, T* to, const T* from, uint64_t count,
                             const gravel_path_call& how) {
  check_policy("gravel_allreduce", router.policy() == GRAVEL_RING, "GRAVEL_RING");
  return start_reduction(router, "gravel_allreduce", merge, to, from, count, how);
}
template <class T, class Merge>
gravel_event start_reduce(gravel_router& router, const Merge& merge, T* to, const T* from, uint64_t count,
                          const gravel_path_call& how) {
  check_policy("gravel_reduce", router.policy() == GRAVEL_CHAIN || router.policy() == GRAVEL_TREE,
               "GRAVEL_CHAIN or GRAVEL_TREE");
  return start_reduction(router, "gravel_reduce", merge, to, from, count, how);
}

/// What the program passes as a merge. It is checked when the program is compiled (check_merge).
template <class Merge>
concept merge_argument = !std::is_convertible_v<const Merge&, gravel_path_call>;

/// Returns whether an element fits in a packet of the path. Otherwise reports an error. Thread scope: block.
template <class T, class Handle>
GRAVEL_DEVICE bool fits_packet(const Handle& h) {
  if (h.n == 1 || sizeof(T) <= h.rings[0].packet_bytes) return true;
  if (threadIdx.x == 0)
    report_error(h.g, message_fault::link_element, op::none, h.rings[0].destination, sizeof(T),
                 h.rings[0].packet_bytes);
  return false;
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
    gravel::detail::allreduce_along(h, gravel::detail::number_merge<HOW>{}, to, from, count);
}
/// Combines the arrays of all PEs along a chain or a tree. The PE of the output gets the result; of others `to` is not
/// written.
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <gravel_reduction HOW = GRAVEL_SUM, class T, gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_reduce(const Handle& h, T* to, const T* from, uint64_t count) {
  if (gravel::detail::enter_block(h.g, gravel::detail::team_call::reduce, to, from, count))
    gravel::detail::reduce_along(h, gravel::detail::number_merge<HOW>{}, to, from, count);
}
/// Combines the arrays of all PEs along a ring by the program's merge; all PEs get the result.
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <class T, class Merge, gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_allreduce(const Handle& h, T* to, const T* from, uint64_t count, const Merge& merge) {
  if constexpr (gravel::detail::check_merge<T, Merge>()) {
    if (gravel::detail::enter_block(h.g, gravel::detail::team_call::allreduce, to, from, count) &&
        gravel::detail::fits_packet<T>(h))
      gravel::detail::allreduce_along(h, gravel::detail::program_merge<Merge>{merge}, to, from, count);
  }
}
/// Combines the arrays of all PEs along a chain or a tree by the program's merge. The PE of the output gets the result;
/// of others `to` is not written.
/// @scope grid: all threads; blocks of kernels of gravel_launch, as many at all PEs
/// @completion on return: the part of the calling block is there
template <class T, class Merge, gravel::detail::path_like Handle>
GRAVEL_DEVICE void gravel_reduce(const Handle& h, T* to, const T* from, uint64_t count, const Merge& merge) {
  if constexpr (gravel::detail::check_merge<T, Merge>()) {
    if (gravel::detail::enter_block(h.g, gravel::detail::team_call::reduce, to, from, count) &&
        gravel::detail::fits_packet<T>(h))
      gravel::detail::reduce_along(h, gravel::detail::program_merge<Merge>{merge}, to, from, count);
  }
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
  return gravel::detail::start_allreduce(router, gravel::detail::number_merge<HOW>{}, to, from, count, how);
}
/// Starts a kernel that combines the arrays of all PEs along a ring by the program's merge.
/// @return happens when the arrays may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
template <class T, gravel::detail::merge_argument Merge>
gravel_event gravel_allreduce_start(gravel_router& router, T* to, const T* from, uint64_t count, const Merge& merge,
                                    const gravel_path_call& how = {}) {
  if constexpr (!gravel::detail::check_merge<T, Merge>()) return {};
  else
    return gravel::detail::start_allreduce(router, gravel::detail::program_merge<Merge>{merge}, to, from, count, how);
}
/// Starts a kernel that combines the arrays of all PEs along a chain or a tree.
/// @return happens when the arrays may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
template <gravel_reduction HOW = GRAVEL_SUM, class T>
gravel_event gravel_reduce_start(gravel_router& router, T* to, const T* from, uint64_t count,
                                 const gravel_path_call& how = {}) {
  return gravel::detail::start_reduce(router, gravel::detail::number_merge<HOW>{}, to, from, count, how);
}
/// Starts a kernel that combines the arrays of all PEs along a chain or a tree by the program's merge.
/// @return happens when the arrays may be used
/// @scope the program's host thread; collective: all PEs of the path
/// @completion returns at once
template <class T, gravel::detail::merge_argument Merge>
gravel_event gravel_reduce_start(gravel_router& router, T* to, const T* from, uint64_t count, const Merge& merge,
                                 const gravel_path_call& how = {}) {
  if constexpr (!gravel::detail::check_merge<T, Merge>()) return {};
  else return gravel::detail::start_reduce(router, gravel::detail::program_merge<Merge>{merge}, to, from, count, how);
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
/// Combines the arrays of all PEs along a ring by the program's merge.
/// @scope the program's host thread; collective: all PEs of the path
/// @completion on return: the result is there
template <class T, gravel::detail::merge_argument Merge>
void gravel_allreduce(gravel_router& router, T* to, const T* from, uint64_t count, const Merge& merge,
                      const gravel_path_call& how = {}) {
  gravel_allreduce_start(router, to, from, count, merge, how);
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
/// Combines the arrays of all PEs along a chain or a tree by the program's merge.
/// @scope the program's host thread; collective: all PEs of the path
/// @completion on return: the result is there
template <class T, gravel::detail::merge_argument Merge>
void gravel_reduce(gravel_router& router, T* to, const T* from, uint64_t count, const Merge& merge,
                   const gravel_path_call& how = {}) {
  gravel_reduce_start(router, to, from, count, merge, how);
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
