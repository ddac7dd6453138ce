// gravel-aggregator. The first PE of a node starts it; nobody starts it by hand.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <optional>

#include "host/aggregator/aggregator.hpp"
#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/parse_error.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/version.hpp"

namespace {

/// Needs two descriptors for each PE (segment and socket), and some for UCX, a few of them for each other node.
void raise_descriptor_limit(uint64_t pes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * pes + 64)
    gravel::detail::log_warning("only {} files may be open at once (ulimit -n -H), which may be too few",
                                limit.rlim_max);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "gravel-aggregator: combines the messages of a node's PEs into packets and moves them.\n"
      "Started by Gravel itself: one per node, by the node's first PE. See ucx-run.",
      "gravel-aggregator"};
  int listener = -1;
  unsigned pes = 0, local_pes = 0, job_pes = 0;
  int parent = getppid();
  app.set_version_flag("--version", "gravel-aggregator " GRAVEL_VERSION);
  app.add_option("--listen-fd", listener, "inherited descriptor of the listening Unix socket")->required();
  app.add_option("--pes", pes, "number of PEs of this node that will connect")->required();
  app.add_option("--host-pes", local_pes, "number of PEs on this host");
  app.add_option("--job-pes", job_pes, "number of PEs of the job")->required();
  app.add_option("--parent", parent, "process that started this one");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fputs(gravel::detail::text_of(app, e).c_str(), stderr);
    return 2;
  }
  gravel::detail::set_log_name("aggregator");
  // The sockets of its PEs say when to end. A terminal's ^C goes to the launcher and the PEs.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding a limit of file sizes (ulimit -f) shall be an error with a text
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // spawn_aggregator blocks SIGTERM
  try {
    raise_descriptor_limit(pes);
    const gravel::detail::settings values = gravel::detail::resolved_settings(std::max(local_pes, pes));
    std::optional<gravel::detail::owned_descriptor> connecting(std::in_place, listener);
    gravel::detail::local_pes here = gravel::detail::gather_pes(connecting->get(), {pes, job_pes}, parent, values);
    connecting.reset();  // all PEs are connected, so nobody needs it
    return gravel::detail::aggregator(std::move(here), values).run();
  } catch (const std::exception& e) {
    gravel::detail::log_error("{}", e.what());
    return 1;
  }
}
