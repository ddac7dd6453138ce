#include "host/info/nvml.hpp"

namespace gravel::detail {

nvml::nvml() {
  why_not = library.why_not();
  if (!why_not.empty()) return;
  if (const int result = init()) why_not = error_string(result);
}

std::optional<uint32_t> nvml::count_links(void* device) const {
  constexpr unsigned most_nvlinks = 18;
  if (!device) return std::nullopt;
  uint32_t active_links = 0;
  // A GPU without NVLink answers "not supported" for every link.
  for (unsigned link = 0; link < most_nvlinks; ++link)
    if (int active = 0; nvlink_state(device, link, &active) == 0) active_links += active == 1;
  return active_links;
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

}  // namespace gravel::detail
