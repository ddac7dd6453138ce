// Finds and starts gravel-aggregator.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace gravel::detail {

/// Path of the executable. Searched in this order: GRAVEL_AGGREGATOR; the folder of libgravel; ../bin from there; the
/// folder of the program; PATH. Throws gravel::error that lists the places searched.
std::string find_aggregator(const std::string& setting);

/// `pes`, `host_pes`, `job_pes`: number of PEs of the node, the host and the job. Starts the aggregator with the
/// listening socket, standard output and error, and no other descriptor of this process. No signal is blocked or
/// ignored there. Returns its process id.
pid_t spawn_aggregator(const std::string& path, int listener, uint32_t pes, uint32_t host_pes, uint32_t job_pes);

/// Waits up to `limit_ms` for the aggregator to end, then kills it. True: it ended by itself with status 0, or its
/// status is not known because the program has collected it.
bool wait_for_aggregator(pid_t, int limit_ms);

}  // namespace gravel::detail
