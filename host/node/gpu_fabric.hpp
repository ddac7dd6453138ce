// The NVLink domain of a GPU: the GPUs, also of other hosts, whose memory fabric handles can map. NVIDIA's management
// library names it. It is opened at run time, and may be absent.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// What the library writes: nvmlGpuFabricInfo_t of its stable C interface.
struct nvml_fabric_info {
  static constexpr unsigned char completed = 3;
  unsigned char cluster[16];  ///< UUID; zeros: the fabric does not reach beyond this host
  int status;                 ///< of the registration with the fabric; 0: no error
  unsigned clique;            ///< GPUs of one cluster and one clique reach each other's memory
  unsigned char state;        ///< `completed`: the GPU is registered
};
static_assert(sizeof(nvml_fabric_info) == 28);

struct gpu_fabric {
  std::string domain;  ///< "UUID/clique", the same for all GPUs of the domain; empty: this host alone
  std::string why;     ///< why it is this host alone
};

gpu_fabric fabric_of(const nvml_fabric_info&);
/// The domain of the GPU with this PCI bus id.
GRAVEL_API gpu_fabric find_gpu_fabric(const std::string& bus_id);

}  // namespace gravel::detail
