#include "host/info/machine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "host/node/sealed_memory.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

void inspect_topology(machine_report& m, const std::vector<std::string>& bus_ids) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    m.hwloc_error = "hwloc cannot start";
    return;
  }
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) {
    m.hwloc_error = fmt::format("hwloc cannot read the topology: {}", std::strerror(errno));
    return;
  }
  const auto count = [&](hwloc_obj_type_t type) {
    return static_cast<uint32_t>(std::max(0, hwloc_get_nbobjs_by_type(raw, type)));
  };
  m.packages = count(HWLOC_OBJ_PACKAGE);
  m.cores = count(HWLOC_OBJ_CORE);
  m.hardware_threads = count(HWLOC_OBJ_PU);
  m.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node));) {
    char cpus[256] = "";
    hwloc_bitmap_list_snprintf(cpus, sizeof(cpus), node->cpuset);
    m.numa.push_back(fmt::format("{}: {:.1f} GiB, hardware threads {}", node->os_index,
                                 static_cast<double>(node->attr->numanode.local_memory) / (1 << 30), cpus));
  }
  for (const auto& id : bus_ids) {
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(raw, id.c_str());
    hwloc_obj_t near = device ? hwloc_get_non_io_ancestor_obj(raw, device) : nullptr;
    if (!near || !near->nodeset) continue;
    char nodes[64] = "";
    hwloc_bitmap_list_snprintf(nodes, sizeof(nodes), near->nodeset);
    m.locality[id] = fmt::format("NUMA node {}", nodes);
  }
}

trial try_memfd() {
  const std::string why_not = text_of_error([] {
    const sealed_memory memory("gravel-info", "shared memory", 1 << 16);
    *const_cast<volatile char*>(memory.at()) = 1;
  });
  return {why_not.empty(), why_not};
}

/// Two child processes stand for two PEs: one reads the other's memory. (A parent that reads its child's memory proves
/// less: some kernels allow only that.)
trial try_cma() {
  static volatile char read_me = 42;
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return {false, fmt::format("pipe: {}", std::strerror(errno))};
  const pid_t target = fork();
  if (target == 0) {
    // Ends when the parent closes its end, or has ended.
    close(ready[1]);
    char c;
    _exit(read(ready[0], &c, 1) == 0 ? 0 : 1);
  }
  const pid_t reader = target < 0 ? -1 : fork();
  if (reader == 0) {
    close(ready[1]);  // otherwise the target would outlive the parent
    char seen = 0;
    iovec here{&seen, 1}, there{const_cast<char*>(&read_me), 1};
    const ssize_t n = process_vm_readv(target, &here, 1, &there, 1, 0);
    if (n == 1 && seen == 42) _exit(0);
    _exit(n < 0 && errno < 255 ? errno : 255);
  }
  const int fork_error = errno;
  int status = 0;
  if (reader > 0) waitpid(reader, &status, 0);
  close(ready[1]);
  close(ready[0]);
  if (target > 0) waitpid(target, nullptr, 0);
  if (reader < 0) return {false, fmt::format("fork: {}", std::strerror(fork_error))};
  if (!WIFEXITED(status)) return {false, "process_vm_readv: the process that tried it died"};
  if (WEXITSTATUS(status) == 0) return {true, ""};
  return {false, fmt::format("process_vm_readv between two processes of a user: {}",
                             WEXITSTATUS(status) == 255 ? "unknown error" : std::strerror(WEXITSTATUS(status)))};
}

std::string yama() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope)) return "not in this kernel";
  switch (scope) {
    case 0: return "0 (processes of one user may read each other)";
    case 1: return "1 (a process may read its descendants only)";
    case 2: return "2 (administrators only)";
    default: return fmt::format("{} (nobody may read another process)", scope);
  }
}

bool has_cap_ipc_lock() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("CapEff:", 0) == 0) return std::stoull(line.substr(7), nullptr, 16) >> 14 & 1;  // CAP_IPC_LOCK
  return false;
}

}  // namespace

machine_report inspect_machine(const std::vector<std::string>& bus_ids) {
  machine_report m;
  inspect_topology(m, bus_ids);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  m.usable_threads = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                         ? static_cast<uint32_t>(CPU_COUNT(&allowed))
                         : static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  m.memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) m.locked_memory = limit.rlim_cur;
  m.may_lock_any = has_cap_ipc_lock();
  m.memfd = try_memfd();
  m.cma = try_cma();
  m.ptrace_scope = yama();
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) m.dev_shm_free = uint64_t{shm.f_bavail} * shm.f_frsize;
  return m;
}

}  // namespace gravel::detail
