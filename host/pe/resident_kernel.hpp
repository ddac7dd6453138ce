// The kernel of a service (host/pe/service.hpp). It is resident whenever messages may be on their way to it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/service_rings.hpp"

namespace gravel::detail {

struct resident_kernel {
  std::string name;  ///< of the service
  unsigned blocks, threads;
  service_life* life;        ///< in device memory
  service_control* control;  ///< in pinned host memory
  const void* function;      ///< CUDA: the kernel
  /// CUDA: starts the kernel in this cudaStream_t. CPU backend: runs one lane. `number` of this launch is written to
  /// control->resident when all blocks have started.
  std::function<void(void* stream, uint64_t number)> run;
};

}  // namespace gravel::detail
