#include "lib/base/process_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "lib/base/process_stat.hpp"

namespace gravel::detail {

uint64_t start_of_process(uint64_t pid) {
  const auto fields = stat_of_process(pid);
  return fields.size() < 22 ? 0 : std::stoull(fields[21]);
}

/// The number of a namespace of this process, such as "pid"; 0: unknown.
static uint64_t namespace_of(const char* kind) {
  struct stat space {};
  stat((std::string("/proc/self/ns/") + kind).c_str(), &space);
  return space.st_ino;
}

process_identity this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const auto pid = static_cast<uint64_t>(getpid());
  return {boot.empty() ? 0 : std::hash<std::string>()(boot), namespace_of("pid"), pid, start_of_process(pid)};
}

std::string reach_of_descriptors() {
  const process_identity self = this_process();
  const uint64_t net = namespace_of("net");
  if (!self.boot || !self.pid_namespace || !net) return {};
  return "host " + std::to_string(self.boot) + "/" + std::to_string(self.pid_namespace) + "/" + std::to_string(net);
}

}  // namespace gravel::detail
