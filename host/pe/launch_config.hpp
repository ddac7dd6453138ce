// Options of gravel_launch besides grid and block, the same on both backends.
#pragma once
#include <cstddef>
#include <type_traits>

#include "device/simt.hpp"

#if GRAVEL_CUDA
/// A stream. Kernels in one stream run one after the other; kernels in different streams may run at the same time. On
/// CUDA any stream of the PE's GPU may be used.
using gravel_stream_t = cudaStream_t;
#else
namespace gravel::detail {
class cpu_stream;
}
/// A stream. Kernels in one stream run one after the other; kernels in different streams may run at the same time.
using gravel_stream_t = gravel::detail::cpu_stream*;
#endif

/// How to start a kernel.
struct gravel_launch_config {
  dim3 grid = 1, block = 1;
  size_t shared_bytes = 0;           ///< dynamic shared memory of each block: gravel_dynamic_shared() in the kernel
  gravel_stream_t stream = nullptr;  ///< nullptr: the PE's own stream
  bool cooperative = false;          ///< all blocks run at the same time and may wait for each other
  /// blocks in a cluster, at most 8; only on CUDA from sm_90 on. Zeros: what the kernel says
  dim3 cluster = {0, 0, 0};
};

namespace gravel::detail {

/// What a launch needs: which kernels must be resident while the launched kernel runs.
enum class launch_needs : uint8_t {
  resolver,  ///< the resolver, which must be resident before the kernel starts
  none,      ///< nothing: the kernel starts at once; it sends no messages and waits for none
  little,    ///< nothing; and the kernel is so small that the resolver may stay beside it
  waits,  ///< as `resolver`; but a stream capture takes the kernel, too, and its graph starts it without the resolver
  apart   ///< nothing; and other kernels do not wait for its stores to other GPUs (launch_apart)
};

/// Checks that a kernel that takes P... can be called with A.... Each mistake gives one readable line. `good`: no
/// mistake.
template <class Parameters, class... A>
struct launch_check;
template <class... P, class... A>
struct launch_check<void(P...), A...> {
  static constexpr bool as_many = sizeof...(P) == sizeof...(A);
  static constexpr bool values = (!std::is_reference_v<P> && ...);
  static constexpr bool convertible = [] {
    if constexpr (as_many) return (std::is_convertible_v<A, P> && ...);
    else return true;
  }();
  static constexpr bool good = as_many && convertible && values;
  static_assert(as_many, "gravel_launch: the kernel takes another number of arguments");
  static_assert(convertible, "gravel_launch: an argument cannot be converted to the kernel's parameter");
  static_assert(values, "gravel_launch: a kernel's parameters are values, not references");
};

}  // namespace gravel::detail
