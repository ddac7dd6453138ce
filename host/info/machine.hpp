// The resources of this machine for a job: cores, memory, limits, and ways to share memory between processes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gravel::detail {

/// The result of an attempt: it works, or why it does not.
struct trial {
  bool works;
  std::string why_not;
};

struct machine_report {
  std::string hwloc_error;  ///< if not empty, hwloc failed, and its numbers are 0
  uint32_t packages = 0, cores = 0, hardware_threads = 0, numa_nodes = 0;
  uint32_t usable_threads = 0;                  ///< hardware threads this process may run on
  std::vector<std::string> numa;                ///< of each NUMA node: "0: 64 GiB, cores 0-15"
  std::map<std::string, std::string> locality;  ///< by PCI bus id of `bus_ids`: "NUMA node 1", if known
  uint64_t memory = 0;
  std::optional<uint64_t> locked_memory;  ///< RLIMIT_MEMLOCK of this process in bytes; nullopt: unlimited
  bool may_lock_any = false;              ///< CAP_IPC_LOCK: the limit does not apply
  trial memfd{}, cma{};
  std::string ptrace_scope;              ///< yama's, in words
  std::optional<uint64_t> dev_shm_free;  ///< bytes; nullopt: there is no /dev/shm
};

/// `bus_ids`: PCI devices for which to find the NUMA node.
machine_report inspect_machine(const std::vector<std::string>& bus_ids);

}  // namespace gravel::detail
