// What the launcher of a job says of it, by PMIx: how many PEs there are, on which hosts, and where they may put their sockets.
#pragma once
#include <pmix_common.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gravel {

/// Another of the same job, by PMIx's name.
inline pmix_proc_t process_of(pmix_proc_t self, pmix_rank_t pe) {
  self.rank = pe;
  return self;
}

/// Has a launcher that speaks PMIx started this process?
bool has_pmix_launcher();
/// Throws gravel::error if a launcher that does not has started several: each would be a job of one PE.
void refuse_other_launchers();

/// Joins the job; the result names this process. Throws gravel::error if the launcher cannot be reached; ends the process if it does
/// not answer within `limit_s`, since PMIx_Init has no limit of its own.
pmix_proc_t join_launcher(uint64_t limit_s);

/// As the functions of bootstrap.
struct launched_job {
  uint32_t size = 1, local_rank = 0, local_size = 1;
  std::vector<uint32_t> host_of{0};
  std::string session_directory;
};
/// Throws gravel::error if the launcher does not say enough.
launched_job ask_launcher(const pmix_proc_t& self);

}  // namespace gravel
