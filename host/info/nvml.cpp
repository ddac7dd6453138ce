#include "host/info/nvml.hpp"

#include <fmt/format.h>

namespace gravel {

nvml::nvml() {
  if (!library.is_open()) {
    why_not = library.why_not();
    return;
  }
  if (!init || !shut_down || !device_of_bus_id) {
    why_not = "libnvidia-ml.so.1 lacks functions";
  } else if (const int result = init()) {
    why_not = error_string ? error_string(result) : fmt::format("error {}", result);
    init = nullptr;
  }
}

nvml::~nvml() {
  if (init && shut_down) shut_down();
}

std::optional<uint32_t> nvml::count_links(void* device) const {
  constexpr unsigned most_nvlinks = 18;
  if (!nvlink_state || !device) return std::nullopt;
  uint32_t active_links = 0;
  bool any_answer = false;
  for (unsigned link = 0; link < most_nvlinks; ++link) {
    int active = 0;
    if (nvlink_state(device, link, &active) != 0) continue;
    any_answer = true;
    active_links += active == 1;
  }
  // A GPU without NVLink answers "not supported" for every link.
  return any_answer ? std::optional(active_links) : std::optional(0u);
}

const char* nvml::p2p_reason(int status) {
  switch (status) {
    case 0: return "";
    case 1: return "chipset not supported";
    case 2: return "GPU not supported";
    case 3: return "the GPUs are behind different I/O hubs";
    case 4: return "disabled in the driver's configuration";
    case 5: return "not supported";
    default: return "unknown reason";
  }
}

const char* nvml::path_of_level(int level) {
  switch (level) {
    case 0: return "same board";
    case 10: return "same PCIe switch";
    case 20: return "several PCIe switches";
    case 30: return "same PCIe host bridge";
    case 40: return "same NUMA node";
    case 50: return "different NUMA nodes";
    default: return "";
  }
}

}  // namespace gravel
