// Where an aggregator's threads run: near the GPUs of its PEs, so that slots and packets, which cross PCIe anyway, do
// not cross the link between sockets, too. hwloc knows what is near; the decision itself is a function of what it said.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/aggregator/cpu_set.hpp"

struct hwloc_topology;

namespace gravel::detail {

/// A machine, as far as it matters here.
struct machine_places {
  cpu_set allowed;                          ///< where this process may run
  std::vector<cpu_set> numa_nodes;          ///< processors of each NUMA node that has any
  std::vector<std::vector<uint32_t>> near;  ///< by GPU: its NUMA nodes, as indices; empty: not known
};

struct placement {
  std::vector<cpu_set> threads;  ///< by thread; empty: none is bound
  std::string reason;            ///< for both, in words
};

/// Threads take turns over the NUMA nodes of all GPUs. A thread is bound to a node's processors, never to one of them,
/// and nobody is bound where threads would share processors that are not the only ones they may use.
placement place_near_gpus(const machine_places&, uint32_t n_threads);

/// What hwloc says of these PCI devices. `topology`: loaded, with PCI devices.
machine_places find_places(hwloc_topology* topology, const std::vector<std::string>& bus_ids, cpu_set allowed);

/// GRAVEL_AGGREGATOR_BIND, on this machine. Throws gravel::error for what is neither auto, none nor a list, and for a
/// list that names a processor which is not there. hwloc is asked only if the answer may matter.
placement place_threads(const std::string& setting, const std::vector<std::string>& bus_ids, uint32_t n_threads);

/// Empty: done; else why not. The kernel leaves out processors that this process may not use.
std::string bind_this_thread(const cpu_set&);
/// Where this thread may run; empty if that cannot be told.
cpu_set binding_of_this_thread();

}  // namespace gravel::detail
