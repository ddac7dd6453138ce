// gravel-info --check: the route that each pair of devices will use, why it is not a faster one, and problems of this
// machine. Pure functions of the findings, so that tests need no hardware.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/info/gpus.hpp"
#include "host/info/machine.hpp"
#include "host/info/memory_handles.hpp"
#include "host/info/software.hpp"

namespace gravel::detail {

/// Input of the checks.
struct findings {
  software_report software{};
  gpu_report gpus;
  machine_report machine;
  mps_state mps{};
  std::string ucx_tls;         ///< UCX_TLS; "" if not set
  std::string settings_error;  ///< what is wrong with GRAVEL_* variables
  std::vector<std::string> unknown_variables;
  handle_report handles;
  std::string ipc_error;                     ///< why CUDA IPC does not work; "": it does, or there is no GPU
  std::string routes = "auto";               ///< GRAVEL_ROUTES
  std::string partition = "lease";           ///< GRAVEL_PARTITION
  std::string aggregator, aggregator_error;  ///< path; or why it was not found
  uint64_t registered = 0;                   ///< bytes that a node registers with UCX for each PE of another node
};

struct route {
  std::string from, to;  ///< "GPU 0", "GPU 0, another PE", "CPU", "CPU, another PE", "another node"
  std::string route;     ///< "self", "peer", "net", or "none"
  std::string why;       ///< why it is this route and not a faster one
};

/// Routes between all pairs of devices of this machine, and to other nodes.
std::vector<route> find_routes(const findings&);

/// Whose memory a PE on this GPU could map, beside that of PEs of this host.
std::string domain_of(const findings&, const gpu&);

/// How resident kernels stay on a GPU: by residency leases alone, or also in green contexts; and why.
std::string residency_of(const findings&);

struct problem {
  bool fatal;        ///< no job can run until it is solved
  std::string text;  ///< what is wrong, and what to do
};
/// Problems, fatal ones first.
std::vector<problem> find_problems(const findings&);
inline bool can_run(const std::vector<problem>& problems) { return problems.empty() || !problems[0].fatal; }

}  // namespace gravel::detail
