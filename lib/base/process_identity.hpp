// The identity of a process: on which host it runs, and which process of that host it is.
#pragma once
#include <cstdint>
#include <string>

namespace gravel::detail {

/// Identifies a process, so that another can find out whether it can see and watch it. Plain data, to be sent.
struct process_identity {
  uint64_t boot;           ///< which boot of which machine (hash of the kernel's boot_id); 0: unknown
  uint64_t pid_namespace;  ///< in which `pid` is valid; 0: unknown
  uint64_t pid;
  /// When it started, in clock ticks since the boot: a later process may have the same pid. 0: unknown.
  uint64_t start;
};

process_identity this_process();
/// What file descriptors of this process can reach: other processes with the same text can connect to its sockets
/// without a name in a file system, and see it in /proc. Empty: unknown.
std::string reach_of_descriptors();
/// When a process of this machine and container started, as in process_identity; 0: it has ended, or /proc does not
/// show it.
uint64_t start_of_process(uint64_t pid);

/// True if both run on one machine, in one container, so that they see each other in /proc. Host names are not enough:
/// two machines, or two containers of one, may have equal names. Unknown values count as different.
constexpr bool on_one_host(const process_identity& a, const process_identity& b) {
  return a.boot && a.pid_namespace && a.boot == b.boot && a.pid_namespace == b.pid_namespace;
}

}  // namespace gravel::detail
