// A job on this host, from the first PE's start to the last process's end.
#pragma once
#include "transport/ucx_run/options.hpp"

namespace gravel::detail {

/// Runs the job and returns ucx-run's exit status. When it returns, no process that the job started is left, and its
/// session directory is removed. To be called once, by the main thread, before the process has other threads.
/// `program`: its path. Throws gravel::error if the job cannot be started.
int run_job(const run_options& options, const std::string& program, uint32_t n_pes);

}  // namespace gravel::detail
