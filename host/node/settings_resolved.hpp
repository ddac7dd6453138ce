// Settings whose default depends on the machine.
#pragma once
#include "lib/base/settings.hpp"

namespace gravel {

/// This process's settings with every 0 that means "choose" replaced. `host_pes`: PEs on this host.
settings resolved_settings(uint32_t host_pes);
/// Processors this process may use.
uint32_t usable_cores();

}  // namespace gravel
