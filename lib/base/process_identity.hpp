// Which process of which host somebody is.
#pragma once
#include <cstdint>

namespace gravel::detail {

/// Names a process so that another can tell whether it is visible to it, and watch it. Plain data, to be sent.
struct process_identity {
  uint64_t boot;           ///< which boot of which machine (hash of the kernel's boot_id); 0: unknown
  uint64_t pid_namespace;  ///< in which `pid` counts; 0: unknown
  uint64_t pid;
  uint64_t
      start;  ///< when it started, in clock ticks since the boot: a number may be given to a later process; 0: unknown
};

process_identity this_process();
/// When a process of this machine and container started, as in process_identity; 0: it is gone, or /proc does not tell.
uint64_t start_of_process(uint64_t pid);

/// Do both run on one machine, in one container, so that they see each other in /proc? Host names don't tell: two
/// machines, or two containers of one, may have the same. What is unknown is not the same.
constexpr bool on_one_host(const process_identity& a, const process_identity& b) {
  return a.boot && a.pid_namespace && a.boot == b.boot && a.pid_namespace == b.pid_namespace;
}

}  // namespace gravel::detail
