// Jobs on other hosts: ucx-run hands them to a PMIx launcher that is installed, with the equivalent options.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "transport/ucx_run/options.hpp"

namespace gravel::detail {

enum class launcher_kind { prterun, open_mpi, srun };
struct launcher {
  launcher_kind kind;
  std::string path;
};

/// Looks through PATH for prterun, Open MPI's mpirun and srun with PMIx, in this order; inside a Slurm job
/// srun comes first. `in_slurm`: whether we are inside one.
std::optional<launcher> find_launcher(bool in_slurm);

/// The command that starts the job. `variables`: names of the environment variables that shall reach the PEs;
/// their values are in the environment of the launcher.
std::vector<std::string> launcher_command(const launcher& with, const run_options& options,
                                          const std::vector<std::string>& variables, bool as_root);

/// Becomes the launcher; with --dry-run prints its command line and returns 0. Throws gravel::error if there
/// is none.
int delegate_job(const run_options& options);

/// As one would type it in a shell.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace gravel::detail
