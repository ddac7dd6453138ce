// The part of the CUDA backend that nvcc compiles with the program: kernels that contain its handlers. All else is
// compiled once, in libgravel_cuda (host/pe/backend_cuda.cu).
#pragma once
#include <optional>

#include "device/resolver.cuh"
#include "device/settle.cuh"
#include "host/pe/launch_config.hpp"
#include "lib/base/process_group.hpp"

namespace gravel::detail {

/// Made from the list of a program's handlers. Kernels are given as addresses of host functions, as for
/// cudaLaunchKernel.
struct cuda_program {
  handler_table handlers;
  const void* resolver;   ///< a kernel
  const void* settle[3];  ///< kernels, in the order of `settling`
  message_fault (*apply)(const gravel_t&, sink_kind, const unit* message,
                         uint32_t units);  ///< apply_on_host, of host handlers

  template <class Handlers>
  static cuda_program of() {
    return {Handlers::table(),
            reinterpret_cast<const void*>(&gravel::detail::resolver<Handlers>),
            {reinterpret_cast<const void*>(&gravel::detail::settle<settling::quiet>),
             reinterpret_cast<const void*>(&gravel::detail::settle<settling::barrier>),
             reinterpret_cast<const void*>(&gravel::detail::settle<settling::quiescence>)},
            &apply_on_host<Handlers>};
  }
};

/// The main part of gravel_init.
void start_on_cuda(const cuda_program&, std::optional<gravel_process_group> group);
void launch_on_cuda(const void* kernel, const gravel_launch_config& how, void** arguments,
                    launch_needs needs = launch_needs::resolver);
/// Loads a kernel of a library that came into the process after gravel_init. Otherwise its first launch would load it,
/// and might wait for kernels that run. Waits until the kernels of gravel_launch have ended.
void load_on_cuda(const void* kernel);
/// The most blocks that a cooperative launch may have now.
uint64_t most_cooperative_blocks_on_cuda(const void* kernel, const gravel_launch_config& how, bool beside_resolver);

}  // namespace gravel::detail
