// Starting a kernel that sends no messages: on a GPU the resolver then need not stay beside it, and leaves it all multiprocessors.
#pragma once
#include <type_traits>

#include "host/gravel.cuh"

namespace gravel {

/// As gravel_launch. Any host thread.
template <class... P, class... A>
void launch_alone(void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
#if GRAVEL_CUDA
  [&](std::remove_const_t<P>... values) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    launch_on_cuda(reinterpret_cast<const void*>(kernel), how, pointers, true);
  }(arguments...);
#else
  gravel_launch(kernel, how, arguments...);
#endif
}

}  // namespace gravel
