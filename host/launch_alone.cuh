// Starting a kernel that sends no messages: on a GPU the resolver then need not stay beside it, and leaves it all
// multiprocessors.
#pragma once
#include <type_traits>

#include <gravel/gravel.cuh>

namespace gravel::detail {
namespace inner {
template <class... P, class... A>
void launch_without_resolver([[maybe_unused]] bool apart, void (*kernel)(P...), const gravel_launch_config& how,
                             A... arguments) {
#if GRAVEL_CUDA
  [&](std::remove_const_t<P>... values) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    launch_on_cuda(reinterpret_cast<const void*>(kernel), how, pointers, apart ? company::apart : company::none);
  }(arguments...);
#else
  gravel_launch(kernel, how, arguments...);
#endif
}
}  // namespace inner

/// Starts a kernel as gravel_launch. It may send no messages: on a GPU the resolver then need not stay beside it, and
/// leaves it all multiprocessors.
/// @param kernel what is started
/// @param how grid, block, stream, shared memory and the rest
/// @param arguments of the kernel, copied
/// @scope any host thread
/// @completion returns at once; gravel_synchronize waits for the kernel
/// @errors gravel::error, and nothing is started
/// @source Gravel
template <class... P, class... A>
void launch_alone(void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
  inner::launch_without_resolver(false, kernel, how, arguments...);
}
/// The same, for a kernel that stores to other GPUs while others compute here: from sm_90 on those do not wait at their
/// ends, and in their fences, for its stores. It is ordered with them by streams and events, and by what both release
/// and acquire at the scope of the system, but by no release of a smaller scope.
template <class... P, class... A>
void launch_apart(void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
  inner::launch_without_resolver(true, kernel, how, arguments...);
}

}  // namespace gravel::detail
