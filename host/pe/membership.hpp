// A PE's place in its job: its number, the other PEs, and the settings with which it was started.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/topology.hpp"
#include "transport/bootstrap.hpp"

namespace gravel::detail {

struct membership {
  /// Throws gravel::error.
  explicit membership(std::unique_ptr<bootstrap> joined) : boot(std::move(joined)), pe(boot->rank()) {
    own_pe = pe;
    set_log_name(fmt::format("PE {}", pe));
    values = resolved_settings(boot->local_size());
    if (pe == 0)
      for (const auto& name : unknown_settings(environ)) log_warning("{}", describe_unknown_setting(name));
    nodes = topology(assign_nodes(boot->host_of(), values.nodes), values.two_hop_nodes);
    node = nodes.node_of(pe);
    const auto& local = nodes.pes_of(node);
    local_rank = static_cast<uint32_t>(std::find(local.begin(), local.end(), pe) - local.begin());
    local_size = static_cast<uint32_t>(local.size());
  }

  std::unique_ptr<bootstrap> boot;
  uint32_t pe;
  settings values;
  topology nodes;
  uint32_t node, local_rank, local_size;  ///< of this node; this PE's number there; number of PEs there
  bool is_leader() const { return local_rank == 0; }
  uint32_t leader() const { return nodes.pes_of(node)[0]; }

  /// Number of this PE. Set even before the job is joined, if the launcher says it.
  static inline std::atomic<uint32_t> own_pe{0};
};

}  // namespace gravel::detail
