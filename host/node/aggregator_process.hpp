// Finding and starting gravel-aggregator.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace gravel::detail {

/// Path of the executable: GRAVEL_AGGREGATOR; beside libgravel; ../bin from there; beside the program; PATH. Throws
/// gravel::error that lists where it looked.
std::string find_aggregator(const std::string& setting);

/// `pes`, `host_pes`, `job_pes`: of the node, the host and the job. Starts it with the listening socket, standard
/// output and error, and no other descriptor of this process; with no signal blocked or ignored. Returns its process
/// id.
pid_t spawn_aggregator(const std::string& path, int listener, uint32_t pes, uint32_t host_pes, uint32_t job_pes);

/// Waits up to `limit_ms` for it to end, then kills it. True: it ended by itself with status 0, or with one that the
/// program has not left for us.
bool wait_for_aggregator(pid_t, int limit_ms);

}  // namespace gravel::detail
