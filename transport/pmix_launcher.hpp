// The description of a job by its launcher, through PMIx: how many PEs there are, and on which hosts.
#pragma once
#include <pmix_common.h>

#include "transport/bootstrap.hpp"

namespace gravel::detail {

/// The description of the job by its launcher.
struct launched_job {
  std::string name;  ///< the job's name in PMIx
  job_place place;
};

/// PMIx's identifier of a process of the job with this name.
inline pmix_proc_t process_of(const std::string& job, pmix_rank_t pe) {
  pmix_proc_t process;
  PMIX_LOAD_PROCID(&process, job.c_str(), pe);
  return process;
}

/// True if a launcher with PMIx started this process.
bool has_pmix_launcher();
/// Throws gravel::error if a launcher without PMIx started several processes: each would be a job of one PE.
void refuse_other_launchers();

/// Joins the job. Throws gravel::error if the launcher cannot be reached, or does not say enough. Ends the process if
/// the launcher does not answer within `limit_s`, since PMIx_Init has no limit of its own.
launched_job join_launcher(uint64_t limit_s);

}  // namespace gravel::detail
