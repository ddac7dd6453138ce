// Chooses processors for an aggregator's threads: near the GPUs of its PEs. Slots and packets cross PCIe anyway; so
// they need not cross the link between processor sockets as well. hwloc knows what is near. The decision is a function
// of what hwloc reported.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/aggregator/cpu_set.hpp"

struct hwloc_topology;

namespace gravel::detail {

/// What the decision needs to know about a machine.
struct machine_places {
  cpu_set allowed;                          ///< where this process may run
  std::vector<cpu_set> numa_nodes;          ///< processors of each NUMA node that has any
  std::vector<std::vector<uint32_t>> near;  ///< by GPU: indices of its NUMA nodes; empty: not known
};

struct placement {
  std::vector<cpu_set> threads;  ///< by thread; empty: no thread is bound
  std::string reason;            ///< in words, whether threads are bound or not
};

/// Distributes the threads over the NUMA nodes of all GPUs in turn. A thread is bound to all processors of a node,
/// never to a single one. No thread is bound if threads would have to share processors although they may use others.
placement place_near_gpus(const machine_places&, uint32_t n_threads);

/// Where hwloc finds these PCI devices. `topology`: loaded, with PCI devices.
machine_places find_places(hwloc_topology* topology, const std::vector<std::string>& bus_ids, cpu_set allowed);

/// Applies GRAVEL_AGGREGATOR_BIND on this machine. Throws gravel::error for a value that is neither auto, none nor a
/// list, and for a list with a processor that does not exist. Uses hwloc only if its answer matters.
placement place_threads(const std::string& setting, const std::vector<std::string>& bus_ids, uint32_t n_threads);

/// Binds this thread. Returns an empty text, or why it failed. The kernel leaves out processors that this process may
/// not use.
std::string bind_this_thread(const cpu_set&);
/// Processors on which this thread may run; empty if they are not known.
cpu_set binding_of_this_thread();

}  // namespace gravel::detail
