// GRAVEL_STATS and GRAVEL_STATS_JSON: the job's statistics, added up when it ends.
#pragma once
#include "host/pe/collective_member.hpp"
#include "host/pe/membership.hpp"
#include "host/pe/pe_memory.hpp"

namespace gravel {

/// Collective, as part of `call`. PE 0 writes them.
void report_stats(const membership&, const pe_segment&, const pe_memory&, collective_member::call&);

}  // namespace gravel
