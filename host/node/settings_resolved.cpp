#include "host/node/settings_resolved.hpp"

#include <unistd.h>

#include <algorithm>

#include "lib/base/log.hpp"

namespace gravel {

uint32_t usable_cores() {
  // Online, not allowed, cores: launchers bind PEs to one core each, and all processes of a node must agree.
  return static_cast<uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
}

settings resolved_settings(uint32_t host_pes) {
  settings s = current_settings();
  set_log_level(s.log == "debug"     ? log_level::debug
                : s.log == "info"    ? log_level::info
                : s.log == "warning" ? log_level::warning
                                     : log_level::error);
  if (s.aggregator_threads == 0) s.aggregator_threads = std::clamp(usable_cores() / 8, 1u, 4u);
  if (s.cpu_threads == 0) s.cpu_threads = std::max(1u, usable_cores() / std::max(1u, host_pes));
  return s;
}

}  // namespace gravel
