// ucx-run: starts a Gravel job, on this host by itself, on other hosts through a PMIx launcher that is installed.
#include <hwloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"
#include "lib/base/output.hpp"
#include "transport/ucx_run/child.hpp"
#include "transport/ucx_run/delegate.hpp"
#include "transport/ucx_run/job.hpp"
#include "transport/ucx_run/options.hpp"

namespace {

/// The cores on which this process may run, as mpirun counts its slots; hardware threads of a core count once.
uint32_t count_cores() {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return 1;
  const int cores = hwloc_topology_load(topology) == 0 ? hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) : 1;
  hwloc_topology_destroy(topology);
  return cores > 0 ? static_cast<uint32_t>(cores) : 1;
}

int run(const gravel::detail::run_options& options) {
  const bool here = gravel::detail::all_local(options.hosts);
  // Before anything is started: the most common mistake gets a short message.
  const std::string program = here ? gravel::detail::find_program(options.program[0], options.working_directory) : "";
  uint32_t n_pes;
  if (options.n_pes) n_pes = *options.n_pes;
  else n_pes = options.hosts.empty() ? count_cores() : gravel::detail::total_slots(options.hosts);
  if (options.nodes > n_pes) {
    std::fprintf(stderr,
                 "ucx-run: --nodes %u: a node needs at least one PE, but there %s only %u; use -n %u or more, or "
                 "--nodes %u or fewer\n",
                 options.nodes, n_pes == 1 ? "is" : "are", n_pes, options.nodes, n_pes);
    return 2;
  }
  for (const auto& [name, value] : options.exports)
    if (!value && !std::getenv(name.c_str()))
      std::fprintf(stderr, "ucx-run: warning: -x %s: this variable is not set\n", name.c_str());
  if (!here) return gravel::detail::delegate_job(options);
  if (options.dry_run) {
    std::printf("# %u PE%s on this host, without another launcher, each with\n", n_pes, n_pes == 1 ? "" : "s");
    for (const auto& [name, value] : gravel::detail::job_variables(options))
      std::printf("%s ", gravel::detail::shell_quoted({name + "=" + value}).c_str());
    std::printf("%s\n", gravel::detail::shell_quoted(options.program).c_str());
    return 0;
  }
  return gravel::detail::run_job(options, program, n_pes);
}

}  // namespace

int main(int argc, char** argv) {
  gravel::detail::open_standard_descriptors();
  const auto parsed = gravel::detail::parse_options({argv + 1, argv + argc});
  if (!parsed.run) {
    std::fputs(parsed.text.c_str(), parsed.status == 0 ? stdout : stderr);
    return gravel::detail::flush_output("ucx-run") ? parsed.status : 1;
  }
  int status = 1;
  try {
    status = run(*parsed.run);
  } catch (const gravel::detail::start_failure& e) {
    std::fprintf(stderr, "ucx-run: %s\n", e.text.c_str());
    status = e.status;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ucx-run: %s\n", e.what());
  }
  if (!gravel::detail::flush_output("ucx-run") && status == 0) status = 1;
  _exit(status);  // run_job leaves PMIx's thread running
}
