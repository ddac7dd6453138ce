#include "host/info/cuda_driver.hpp"

#include <fmt/format.h>

namespace gravel {

cuda_driver::cuda_driver() {
  if (!library.is_open()) {
    why_not = fmt::format("no NVIDIA driver: {}", library.why_not());
    return;
  }
  if (!init || !driver_version || !device_count || !device || !device_name || !device_memory || !device_bus_id || !device_attribute ||
      !can_access_peer || !p2p_attribute) {
    why_not = "libcuda.so.1 is no CUDA driver of version 8 or later";
    return;
  }
  if (const int result = init(0)) why_not = fmt::format("the CUDA driver does not start: {}", text_of(result));
}

std::string cuda_driver::text_of(int result) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name) error_name(result, &name);
  if (error_string) error_string(result, &text);
  return fmt::format("{}: {}", name ? name : fmt::format("error {}", result), text ? text : "unknown");
}

}  // namespace gravel
