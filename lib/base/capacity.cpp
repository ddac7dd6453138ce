#include "lib/base/capacity.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t unlimited = ~uint64_t{0};

uint64_t limit_of(__rlimit_resource_t what) {
  rlimit limit{};
  return getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : unlimited;
}
/// The number that is the only content of a file; `unlimited` if there is none, as for "max".
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : unlimited;
}
/// The bytes in a line of /proc/meminfo; 0 if there is no such line.
uint64_t meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word)
    if (word == name + ":" && file >> kib) return kib * 1024;
  return 0;
}

}  // namespace

std::string text_of_bytes(uint64_t bytes) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double scaled = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; scaled >= 1024 && unit + 1 < std::size(units); ++unit) scaled /= 1024;
  return fmt::format("{:.4g} {} ({} bytes)", scaled, units[unit], bytes);
}

uint64_t cgroup_limit(const std::string& name, const std::string& files) {
  // "0::/a/b" is version 2; "7:memory:/a/b" is version 1, whose files have other names.
  std::ifstream groups(files + "/proc/self/cgroup");
  uint64_t least = unlimited;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    std::string at = line.substr(second + 1);
    const bool is_memory = name == "memory.max";
    if (!kind.empty() && kind != (is_memory ? "memory" : "pids")) continue;
    const std::string root = files + "/sys/fs/cgroup" + (kind.empty() ? "" : "/" + kind);
    const std::string file = !kind.empty() && is_memory ? "/memory.limit_in_bytes" : "/" + name;
    // Each group above limits the process as well. In a container the path may be one of the host, where only the last
    // group exists.
    for (;; at.erase(at.rfind('/'))) {
      least = std::min(least, number_in(root + (at == "/" ? "" : at) + file));
      if (at.find('/') == std::string::npos) break;
    }
  }
  return least;
}

uint64_t memory_of_host() {
  const uint64_t physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(physical, cgroup_limit("memory.max"));
}

std::string describe_host_limits() {
  std::string there = fmt::format("this host has {}, of which {} are free", text_of_bytes(meminfo("MemTotal")),
                                  text_of_bytes(meminfo("MemAvailable")));
  if (const uint64_t group = cgroup_limit("memory.max"); group != unlimited)
    there += fmt::format("; the cgroup of this process may use {}", text_of_bytes(group));
  if (const uint64_t space = limit_of(RLIMIT_AS); space != unlimited)
    there += fmt::format("; a process may map {} (ulimit -v)", text_of_bytes(space));
  if (const uint64_t file = limit_of(RLIMIT_FSIZE); file != unlimited)
    there += fmt::format("; a file may have {} (ulimit -f)", text_of_bytes(file));
  return there;
}

std::string text_of_locked_limit() {
  const uint64_t locked = limit_of(RLIMIT_MEMLOCK);
  return locked == unlimited ? "unlimited" : text_of_bytes(locked);
}

void fail_memory(const std::string& what, uint64_t bytes) {
  const char* const why = std::strerror(errno);
  fail("{} of {} does not fit ({}): {}", what, text_of_bytes(bytes), why, describe_host_limits());
}

void fail_thread(const std::string& what, const char* why) {
  const auto count = [](uint64_t limit) {
    return limit == unlimited ? std::string("any number of") : std::to_string(limit);
  };
  fail(
      "{}: a thread cannot be started ({}): this user may have {} processes and threads (ulimit -u), the cgroup {} "
      "(pids.max), this host "
      "{} "
      "(kernel.threads-max)",
      what, why, count(limit_of(RLIMIT_NPROC)), count(cgroup_limit("pids.max")),
      count(number_in("/proc/sys/kernel/threads-max")));
}

}  // namespace gravel::detail
