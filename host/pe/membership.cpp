#include "host/pe/membership.hpp"

#include <unistd.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

extern char** environ;

namespace gravel {

membership::membership() : boot(bootstrap::connect()), pe(boot->rank()) {
  own_pe = pe;
  set_log_name(fmt::format("PE {}", pe));
  values = resolved_settings(boot->local_size());
  if (pe == 0)
    for (const auto& name : unknown_settings(environ)) log_warning("{} is not a variable of Gravel; gravel-info -c lists them", name);
  nodes = topology(assign_nodes(boot->host_of(), values.nodes), values.two_hop_nodes);
  node = nodes.node_of(pe);
  const auto& local = nodes.pes_of(node);
  local_rank = static_cast<uint32_t>(std::find(local.begin(), local.end(), pe) - local.begin());
  local_size = static_cast<uint32_t>(local.size());
}

}  // namespace gravel
