// Launches.
#pragma once
#include <gravel/nvshmem/job.cuh>
#if !GRAVEL_CUDA
#include "host/pe/kernel_table.hpp"
#endif

namespace gravel::detail::nvshmem {

/// The stream that a program calls `stream`: its default stream is CUDA's, not the PE's own.
inline gravel_stream_t stream_of(gravel_stream_t stream) {
#if GRAVEL_CUDA
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  if (!stream) return cudaStreamPerThread;
#else
  if (!stream) return cudaStreamLegacy;
#endif
#endif
  return stream;
}
inline gravel_launch_config cooperative(dim3 grid, dim3 block, size_t shared, gravel_stream_t stream) {
  gravel_launch_config how;
  how.grid = grid;
  how.block = block;
  how.shared_bytes = shared;
  how.stream = stream_of(stream);
  how.cooperative = true;
  return how;
}

#if !GRAVEL_CUDA
template <class... P, size_t... I>
void launch_with(void (*kernel)(P...), const gravel_launch_config& how, void** args, std::index_sequence<I...>) {
  gravel_launch(kernel, how, *static_cast<std::remove_const_t<P>*>(args[I])...);
}
#endif

}  // namespace gravel::detail::nvshmem

#if GRAVEL_CUDA
/// All blocks of the kernel run at once, and the resolver runs beside it.
inline int nvshmemx_collective_launch(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                      cudaStream_t stream) {
  gravel::detail::launch_on_cuda(kernel, gravel::detail::nvshmem::cooperative(grid, block, shared, stream), args);
  return 0;
}
#else
/// The address of a kernel that the translator of CUDA programs has seen (gravel-c++).
inline int nvshmemx_collective_launch(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                      gravel_stream_t stream) {
  gravel::detail::launch_on_cpu(gravel::detail::nvshmem::cooperative(grid, block, shared, stream),
                                gravel::detail::bind_kernel(kernel, args));
  return 0;
}
/// A kernel as it is, without a cast to const void*.
template <class... P>
int nvshmemx_collective_launch(void (*kernel)(P...), dim3 grid, dim3 block, void** args, size_t shared,
                               gravel_stream_t stream) {
  gravel::detail::nvshmem::launch_with(kernel, gravel::detail::nvshmem::cooperative(grid, block, shared, stream), args,
                                       std::index_sequence_for<P...>{});
  return 0;
}
#endif
