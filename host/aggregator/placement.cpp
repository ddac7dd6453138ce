#include "host/aggregator/placement.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// Topology of this machine; empty if hwloc cannot read it. Besides processors and memory it has PCI devices only: for
/// other devices hwloc might start CUDA.
using topology_handle = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;
topology_handle load_topology(bool with_pci) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  topology_handle topology(raw, hwloc_topology_destroy);
  if (with_pci) hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

cpu_set parse(const std::string& setting) {
  try {
    return cpu_set::parse(setting);
  } catch (const error& e) {
    fail("GRAVEL_AGGREGATOR_BIND: neither auto nor none, and {}", e.what());
  }
}

placement place_on_list(const cpu_set& cpus, uint32_t n_threads) {
  if (const topology_handle topology = load_topology(false)) {
    // The complete set also has processors that a container may not use; the kernel refuses those.
    const cpu_set there(hwloc_topology_get_complete_cpuset(topology.get()));
    if (const cpu_set missing = cpus - there; !missing.empty())
      fail("GRAVEL_AGGREGATOR_BIND: there is no processor {} here; there are {}", missing.text(), there.text());
  }
  return {std::vector(n_threads, cpus), "as GRAVEL_AGGREGATOR_BIND says"};
}

}  // namespace

placement place_near_gpus(const machine_places& machine, uint32_t n_threads) {
  std::set<uint32_t> wanted;
  for (const auto& nodes : machine.near) {
    if (nodes.empty()) return {{}, "hwloc does not know a GPU of this node's PEs"};
    if (nodes.size() == machine.numa_nodes.size())
      return {{}, "no part of the machine is nearer to the GPUs than another"};
    wanted.insert(nodes.begin(), nodes.end());
  }
  if (wanted.empty()) return {{}, "no PE has a GPU"};
  std::vector<cpu_set> places;
  cpu_set all;
  for (const uint32_t node : wanted) {
    cpu_set usable = machine.numa_nodes[node] & machine.allowed;
    if (usable.empty()) continue;
    all = all | usable;
    places.push_back(std::move(usable));
  }
  if (places.empty()) return {{}, "the processors near the GPUs may not be used"};
  // A thread that polls needs a processor of its own.
  for (size_t i = 0; i < places.size(); ++i)
    if (const size_t threads_there = (n_threads + places.size() - 1 - i) / places.size();
        places[i].count() < threads_there) {
      places = {all};
      break;
    }
  if (places.size() == 1 && all == machine.allowed) return {{}, "all usable processors are near the GPUs"};
  if (all.count() < n_threads)
    return {{}, fmt::format("only processors {} are near the GPUs, for {} threads", all.text(), n_threads)};
  placement result{{}, "near the GPUs"};
  for (uint32_t t = 0; t < n_threads; ++t) result.threads.push_back(places[t % places.size()]);
  return result;
}

machine_places find_places(hwloc_topology_t topology, const std::vector<std::string>& bus_ids, cpu_set allowed) {
  machine_places found;
  found.allowed = std::move(allowed);
  // Several NUMA nodes may have one set of processors (such as a GPU's memory and the host's), and some have none. Each
  // set becomes one place.
  std::vector<std::pair<uint32_t, uint32_t>> place_of_node;  // hwloc's number of the node, index
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));) {
    cpu_set cpus(node->cpuset);
    if (cpus.empty()) continue;
    auto& places = found.numa_nodes;
    const auto same = std::find(places.begin(), places.end(), cpus);
    place_of_node.emplace_back(node->os_index, static_cast<uint32_t>(same - places.begin()));
    if (same == places.end()) places.push_back(std::move(cpus));
  }
  for (const auto& id : bus_ids) {
    auto& near = found.near.emplace_back();
    const hwloc_obj_t gpu = hwloc_get_pcidev_by_busidstring(topology, id.c_str());
    const hwloc_obj_t around = gpu ? hwloc_get_non_io_ancestor_obj(topology, gpu) : nullptr;
    if (!around || !around->nodeset) continue;
    for (const auto& [node, place] : place_of_node)
      if (hwloc_bitmap_isset(around->nodeset, node) && std::find(near.begin(), near.end(), place) == near.end())
        near.push_back(place);
  }
  return found;
}

placement place_threads(const std::string& setting, const std::vector<std::string>& bus_ids, uint32_t n_threads) {
  if (setting == "none") return {{}, "as GRAVEL_AGGREGATOR_BIND says"};
  if (setting != "auto") return place_on_list(parse(setting), n_threads);
  if (bus_ids.empty()) return place_near_gpus({}, n_threads);
  const topology_handle topology = load_topology(true);
  if (!topology) return {{}, "hwloc cannot read the topology"};
  return place_near_gpus(find_places(topology.get(), bus_ids, binding_of_this_thread()), n_threads);
}

std::string bind_this_thread(const cpu_set& cpus) {
  std::vector<unsigned long> masks(static_cast<size_t>(std::max(hwloc_bitmap_nr_ulongs(cpus.get()), 1)));
  hwloc_bitmap_to_ulongs(cpus.get(), static_cast<unsigned>(masks.size()), masks.data());
  const auto* const set = reinterpret_cast<const cpu_set_t*>(masks.data());
  return sched_setaffinity(0, masks.size() * sizeof(masks[0]), set) == 0 ? "" : std::strerror(errno);
}

cpu_set binding_of_this_thread() {
  cpu_set cpus;
  // The kernel may support more processors than a set of fixed size has room for. It then returns EINVAL.
  for (size_t n = 16; n <= 1 << 14; n *= 2) {
    std::vector<unsigned long> masks(n);
    if (sched_getaffinity(0, n * sizeof(masks[0]), reinterpret_cast<cpu_set_t*>(masks.data())) == 0)
      hwloc_bitmap_from_ulongs(cpus.get(), static_cast<unsigned>(n), masks.data());
    else if (errno == EINVAL) continue;
    break;
  }
  return cpus;
}

}  // namespace gravel::detail
