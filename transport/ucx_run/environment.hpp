// The environment variables of a job's PEs.
#pragma once
#include <string>
#include <vector>

#include "transport/ucx_run/options.hpp"

namespace gravel {

/// The variables ("NAME=value") that the options of ucx-run stand for.
std::vector<std::string> job_variables(const run_options& options);

/// What all PEs are started with: this process's environment, with those.
std::vector<std::string> job_environment(const run_options& options);

}  // namespace gravel
