// The sender of kernels in a job of one PE: there is nobody to send to, and what a kernel does for its own PE it does
// in place. So no routing is compiled into such a kernel, nor shared memory for messages.
#pragma once
#include <gravel/gravel.cuh>
#include "examples/common/together.hpp"

namespace app {
using gravel::detail::same;

/// None of its messages is ever sent: kernels send to other PEs alone.
struct no_sender {
  GRAVEL_DEVICE void begin(const gravel_t&) {}
  GRAVEL_DEVICE void end() {}
  template <class T>
  GRAVEL_DEVICE void put(T*, same<T>, int) {}
  template <class T>
  GRAVEL_DEVICE void min(T*, same<T>, int) {}
};

}  // namespace app
