// gravel-info --check: which route each pair of devices will use, why not a faster one, and what will hurt.
// Pure functions of what was found, so that they can be tested without the hardware.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/info/gpus.hpp"
#include "host/info/machine.hpp"
#include "host/info/software.hpp"

namespace gravel::detail {

/// What the checks look at.
struct findings {
  software_report software{};
  gpu_report gpus;
  machine_report machine;
  mps_state mps{};
  std::string ucx_tls;         ///< UCX_TLS; "" if not set
  std::string settings_error;  ///< GRAVEL_* variables that cannot be used
  std::vector<std::string> unknown_variables;
  std::string ipc_error;                     ///< why CUDA IPC does not work; "": it does, or there is no GPU
  std::string routes = "auto";               ///< GRAVEL_ROUTES
  std::string partition = "hold";            ///< GRAVEL_PARTITION
  std::string aggregator, aggregator_error;  ///< path; or why it was not found
  uint64_t registered = 0;                   ///< bytes that a node registers with UCX for each PE of another node
};

struct route {
  std::string from, to;  ///< "GPU 0", "GPU 0, another PE", "CPU", "CPU, another PE", "another node"
  std::string route;     ///< "self", "peer", "net", or "none"
  std::string why;       ///< of this route and not a faster one
};

/// The routes of every pair of devices of this machine, and to other nodes.
std::vector<route> find_routes(const findings&);

/// How kernels that stay are kept resident on a GPU: by the hold alone, or in green contexts besides; and why.
std::string residency_of(const findings&);

struct problem {
  bool fatal;        ///< no job can run until it is solved
  std::string text;  ///< what is wrong, and what to do
};
/// The fatal ones first.
std::vector<problem> find_problems(const findings&);
inline bool can_run(const std::vector<problem>& problems) { return problems.empty() || !problems[0].fatal; }

}  // namespace gravel::detail
