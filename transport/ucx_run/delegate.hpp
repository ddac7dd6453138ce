// Jobs on other hosts: ucx-run starts them with a PMIx launcher that is installed, with the equivalent options.
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

/// Searches PATH for prterun, Open MPI's mpirun and srun with PMIx, in this order. `in_slurm`: ucx-run runs inside a
/// Slurm job; then srun comes first.
std::optional<launcher> find_launcher(bool in_slurm);

/// The command that starts the job. `variables`: names of the environment variables that shall reach the PEs. Their
/// values are in the environment of the launcher.
std::vector<std::string> launcher_command(const launcher& with, const run_options& options,
                                          const std::vector<std::string>& variables, bool as_root);

/// Replaces this process by the launcher; with --dry-run prints its command line and returns 0. Throws gravel::error if
/// there is no launcher.
int delegate_job(const run_options& options);

/// The command as one would type it in a shell.
std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace gravel::detail
