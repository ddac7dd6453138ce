// Launches of kernels that send no messages. On a GPU such a kernel may use all multiprocessors: the resolver need not
// run beside it.
#pragma once
#include <type_traits>

#include <gravel/gravel.cuh>

namespace gravel::detail {
namespace inner {
template <class... P, class... A>
void launch_for([[maybe_unused]] launch_needs needs, void (*kernel)(P...), const gravel_launch_config& how,
                A... arguments) {
#if GRAVEL_CUDA
  [&](std::remove_const_t<P>... values) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    launch_on_cuda(reinterpret_cast<const void*>(kernel), how, pointers, needs);
  }(arguments...);
#else
  gravel_launch(kernel, how, arguments...);
#endif
}
}  // namespace inner

/// Starts a kernel as gravel_launch does. The kernel must not send messages. On a GPU it may use all multiprocessors,
/// as the resolver need not run beside it. Then messages to this PE wait for its end. So a kernel that waits for other
/// PEs leaves the resolver its multiprocessors.
/// @param kernel what is started
/// @param how grid, block, stream, shared memory and the rest
/// @param arguments of the kernel, copied
/// @scope any host thread
/// @completion returns at once; gravel_synchronize waits for the kernel
/// @errors gravel::error, and nothing is started
/// @source Gravel
template <class... P, class... A>
void launch_alone(void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
  inner::launch_for(launch_needs::none, kernel, how, arguments...);
}
/// Returns how many blocks of a kernel may wait for each other in a cooperative launch by launch_alone(). On a GPU
/// these are the blocks that run at once on the multiprocessors that services leave, and resolvers of other PEs on the
/// GPU.
/// @param kernel what is to be launched
/// @param how block and shared memory
/// @param beside_resolver true: also those that this PE's resolver leaves, for a kernel that waits for other PEs
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: the kernel cannot have such blocks
/// @source CUDA: cooperative groups
template <class... P>
unsigned most_cooperative_blocks([[maybe_unused]] void (*kernel)(P...),
                                 [[maybe_unused]] const gravel_launch_config& how,
                                 [[maybe_unused]] bool beside_resolver) {
#if GRAVEL_CUDA
  return static_cast<unsigned>(
      most_cooperative_blocks_on_cuda(reinterpret_cast<const void*>(kernel), how, beside_resolver));
#else
  return 256;
#endif
}
/// Starts a kernel as launch_alone() does, for a kernel that stores to other GPUs while other kernels compute here.
/// From sm_90 on those kernels do not wait for its stores at their ends and in their fences. Such a kernel is ordered
/// with others by streams and events, and by releases and acquires of system scope, but not by a release of a smaller
/// scope.
template <class... P, class... A>
void launch_apart(void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
  inner::launch_for(launch_needs::apart, kernel, how, arguments...);
}

}  // namespace gravel::detail
