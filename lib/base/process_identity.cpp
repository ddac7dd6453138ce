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

process_identity this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  const auto pid = static_cast<uint64_t>(getpid());
  return {boot.empty() ? 0 : std::hash<std::string>()(boot), space.st_ino, pid, start_of_process(pid)};
}

}  // namespace gravel::detail
