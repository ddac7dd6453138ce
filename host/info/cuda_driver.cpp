#include "host/info/cuda_driver.hpp"

#include <fmt/format.h>

namespace gravel {

cuda_driver::cuda_driver() {
  if (!library.is_open()) {
    why_not = fmt::format("no NVIDIA driver: {}", library.why_not());
    return;
  }
  library.find("cuInit", init);
  library.find("cuGetErrorName", error_name);
  library.find("cuGetErrorString", error_string);
  library.find("cuDriverGetVersion", driver_version);
  library.find("cuDeviceGetCount", device_count);
  library.find("cuDeviceGet", device);
  library.find("cuDeviceGetName", device_name);
  library.find("cuDeviceTotalMem_v2", device_memory);
  library.find("cuDeviceGetPCIBusId", device_bus_id);
  library.find("cuDeviceGetAttribute", device_attribute);
  library.find("cuDeviceCanAccessPeer", can_access_peer);
  library.find("cuDeviceGetP2PAttribute", p2p_attribute);
  library.find("cuDevicePrimaryCtxRetain", retain_context);
  library.find("cuDevicePrimaryCtxRelease_v2", release_context);
  library.find("cuCtxSetCurrent", set_context);
  library.find("cuMemAlloc_v2", allocate);
  library.find("cuMemFree_v2", release);
  library.find("cuIpcGetMemHandle", get_ipc_handle);
  library.find("cuIpcOpenMemHandle_v2", open_ipc_handle);
  library.find("cuIpcCloseMemHandle", close_ipc_handle);
  if (!init || !driver_version || !device_count || !device || !device_name || !device_memory ||
      !device_bus_id || !device_attribute || !can_access_peer || !p2p_attribute) {
    why_not = "libcuda.so.1 is no CUDA driver of version 8 or later";
    return;
  }
  if (const int result = init(0))
    why_not = fmt::format("the CUDA driver does not start: {}", text_of(result));
}

std::string cuda_driver::text_of(int result) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name) error_name(result, &name);
  if (error_string) error_string(result, &text);
  return fmt::format("{}: {}", name ? name : fmt::format("error {}", result), text ? text : "unknown");
}

}  // namespace gravel
