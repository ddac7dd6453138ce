// The few functions of NVIDIA's management library (libnvidia-ml.so.1) that gravel-info calls, for the state of NVLink
// and for the reason why there is no peer access. Numbers and signatures are those of its stable C interface.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/shared_library.hpp"

namespace gravel::detail {

struct nvml {
  // nvmlGpuP2PCapsIndex_t
  static constexpr int index_read = 0, index_nvlink = 2;

  nvml();
  /// Empty: the library is loaded and initialized, and has all these functions. Otherwise: what is missing.
  std::string why_not;

  shared_library library{"libnvidia-ml.so.1"};
  int (*init)() = library.find("nvmlInit_v2");
  const char* (*error_string)(int) = library.find("nvmlErrorString");
  int (*driver_version)(char*, unsigned) = library.find("nvmlSystemGetDriverVersion");
  int (*device_of_bus_id)(const char*, void**) = library.find("nvmlDeviceGetHandleByPciBusId_v2");
  int (*nvlink_state)(void*, unsigned link, int* active) = library.find("nvmlDeviceGetNvLinkState");
  int (*p2p_status)(void*, void*, int index, int* status) = library.find("nvmlDeviceGetP2PStatus");
  int (*common_ancestor)(void*, void*, int* level) = library.find("nvmlDeviceGetTopologyCommonAncestor");

  /// Number of active links; nullopt: NVML does not report them. `device`: from device_of_bus_id(), may be null.
  std::optional<uint32_t> count_links(void* device) const;
  /// Reason for a value of p2p_status(); "" if it is good.
  static const char* p2p_reason(int status);
  /// Meaning of a value of common_ancestor().
  static const char* path_of_level(int level);
};

}  // namespace gravel::detail
