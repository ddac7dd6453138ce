#include "host/node/gpu_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/shared_library.hpp"

namespace gravel::detail {

gpu_fabric fabric_of(const nvml_fabric_info& info) {
  if (info.state != nvml_fabric_info::completed)
    return {"", fmt::format("the GPU is not registered with an NVLink fabric (state {})", info.state)};
  if (info.status != 0)
    return {"", fmt::format("the GPU could not be registered with the NVLink fabric (error {})", info.status)};
  if (std::all_of(std::begin(info.cluster), std::end(info.cluster), [](unsigned char c) { return c == 0; }))
    return {"", "the NVLink fabric does not reach beyond this host"};
  std::string uuid;
  for (const unsigned char c : info.cluster) uuid += fmt::format("{:02x}", c);
  return {fmt::format("{}/{}", uuid, info.clique), ""};
}

gpu_fabric find_gpu_fabric(const std::string& bus_id) {
  shared_library nvml("libnvidia-ml.so.1");
  int (*const init)() = nvml.find("nvmlInit_v2");
  int (*const device_of_bus_id)(const char*, void**) = nvml.find("nvmlDeviceGetHandleByPciBusId_v2");
  int (*const fabric_info)(void*, nvml_fabric_info*) = nvml.find("nvmlDeviceGetGpuFabricInfo");
  if (!nvml.why_not().empty()) return {"", nvml.why_not()};
  void* device = nullptr;
  nvml_fabric_info info{};
  if (init() != 0 || device_of_bus_id(bus_id.c_str(), &device) != 0) return {"", "NVML does not know the GPU"};
  if (const int result = fabric_info(device, &info))
    return {"", fmt::format("NVML does not report an NVLink fabric (error {})", result)};
  return fabric_of(info);
}

}  // namespace gravel::detail
