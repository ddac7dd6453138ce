// What the launcher of a job says of it, by PMIx: how many PEs there are, on which hosts, and where they may put their
// sockets.
#pragma once
#include <pmix_common.h>

#include "transport/bootstrap.hpp"

namespace gravel::detail {

/// A process of the job with this name, by PMIx's name.
inline pmix_proc_t process_of(const std::string& job, pmix_rank_t pe) {
  pmix_proc_t process;
  PMIX_LOAD_PROCID(&process, job.c_str(), pe);
  return process;
}

/// Has a launcher that speaks PMIx started this process?
bool has_pmix_launcher();
/// Throws gravel::error if a launcher that does not has started several: each would be a job of one PE.
void refuse_other_launchers();

/// Joins the job. Throws gravel::error if the launcher cannot be reached, or does not say enough; ends the process if
/// it does not answer within `limit_s`, since PMIx_Init has no limit of its own.
launched_job join_launcher(uint64_t limit_s);

}  // namespace gravel::detail
