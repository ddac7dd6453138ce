// Launches.
#pragma once
#include <algorithm>
#include <string>
#include <utility>

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

/// Runs what a call of NVSHMEM does that returns a status, and says what is wrong as a warning.
template <class F>
int status_of(F&& call) {
  try {
    call();
    return NVSHMEMX_SUCCESS;
  } catch (const error& e) {
    warn(e.what());
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
}

/// The most blocks that run at once. Without a GPU each block has a thread.
inline int most_blocks([[maybe_unused]] const void* kernel, [[maybe_unused]] const gravel_launch_config& how) {
#if GRAVEL_CUDA
  constexpr uint64_t most = 1 << 20;
  return static_cast<int>(std::min(most, most_cooperative_blocks_on_cuda(kernel, how, true)));
#else
  return 128;
#endif
}
/// A grid of 0 blocks stands for as many blocks as run at once.
inline void choose_grid(const void* kernel, gravel_launch_config& how) {
  if (how.grid.x == 0 && how.grid.y == 0 && how.grid.z == 0) {
    how.grid = 1;
    how.grid.x = static_cast<unsigned>(most_blocks(kernel, how));
  }
}

}  // namespace gravel::detail::nvshmem

#if GRAVEL_CUDA
/// All blocks of the kernel run at once, and the resolver runs beside it.
inline int nvshmemx_collective_launch(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                      cudaStream_t stream) {
  return gravel::detail::nvshmem::status_of([&] {
    gravel_launch_config how = gravel::detail::nvshmem::cooperative(grid, block, shared, stream);
    gravel::detail::nvshmem::choose_grid(kernel, how);
    gravel::detail::launch_on_cuda(kernel, how, args);
  });
}
inline int nvshmemx_collective_launch_query_gridsize(const void* kernel, dim3 block, void**, size_t shared,
                                                     int* gridsize) {
  return gravel::detail::nvshmem::status_of([&] {
    const gravel_launch_config how = gravel::detail::nvshmem::cooperative(1, block, shared, nullptr);
    *gridsize = gravel::detail::nvshmem::most_blocks(kernel, how);
  });
}

typedef struct nvshmemx_collective_launch_attr {
  cudaLaunchConfig_t cuda_config;
} nvshmemx_collective_launch_attr_t;
/// Of the attributes it takes cudaLaunchAttributeCooperative and cudaLaunchAttributeClusterDimension.
inline int nvshmemx_collective_launch_attr(const nvshmemx_collective_launch_attr_t* attr, const void* kernel,
                                           void** args) {
  return gravel::detail::nvshmem::status_of([&] {
    const cudaLaunchConfig_t& asked = attr->cuda_config;
    gravel_launch_config how =
        gravel::detail::nvshmem::cooperative(asked.gridDim, asked.blockDim, asked.dynamicSmemBytes, asked.stream);
    for (unsigned i = 0; i < asked.numAttrs; ++i) {
      const cudaLaunchAttribute& one = asked.attrs[i];
      if (one.id == cudaLaunchAttributeCooperative) how.cooperative = one.val.cooperative != 0;
      else if (one.id == cudaLaunchAttributeClusterDimension) {
        how.cluster = dim3(one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z);
        how.cooperative = false;
      } else {
        gravel::detail::fail_text("nvshmemx_collective_launch_attr: attribute " + std::to_string(one.id) +
                                  "; it takes cooperative launches and clusters alone");
      }
    }
    gravel::detail::nvshmem::choose_grid(kernel, how);
    gravel::detail::launch_on_cuda(kernel, how, args);
  });
}
#else
/// The address of a kernel that the translator of CUDA programs has seen (gravel-c++).
inline int nvshmemx_collective_launch(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                      gravel_stream_t stream) {
  return gravel::detail::nvshmem::status_of([&] {
    gravel_launch_config how = gravel::detail::nvshmem::cooperative(grid, block, shared, stream);
    gravel::detail::nvshmem::choose_grid(kernel, how);
    gravel::detail::launch_on_cpu(how, gravel::detail::bind_kernel(kernel, args));
  });
}
/// A kernel as it is, without a cast to const void*.
template <class... P>
int nvshmemx_collective_launch(void (*kernel)(P...), dim3 grid, dim3 block, void** args, size_t shared,
                               gravel_stream_t stream) {
  return gravel::detail::nvshmem::status_of([&] {
    gravel_launch_config how = gravel::detail::nvshmem::cooperative(grid, block, shared, stream);
    gravel::detail::nvshmem::choose_grid(nullptr, how);
    gravel::detail::nvshmem::launch_with(kernel, how, args, std::index_sequence_for<P...>{});
  });
}
template <class Kernel>
int nvshmemx_collective_launch_query_gridsize(Kernel*, dim3, void**, size_t, int* gridsize) {
  *gridsize = gravel::detail::nvshmem::most_blocks(nullptr, {});
  return 0;
}
#endif
