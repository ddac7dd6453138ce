#include "transport/ucx_run/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/process_identity.hpp"
#include "transport/ucx_run/child.hpp"
#include "transport/ucx_run/input.hpp"
#include "transport/ucx_run/output.hpp"
#include "transport/ucx_run/pe_processes.hpp"
#include "transport/ucx_run/pmix_server.hpp"
#include "transport/ucx_run/session_directory.hpp"
#include "transport/ucx_run/signals.hpp"
#include "transport/ucx_run/stop_watch.hpp"
#include "transport/ucx_run/verdict.hpp"

namespace gravel::detail {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto term_to_kill = 2s;    ///< from SIGTERM, or from the end of the last PE, to SIGKILL
constexpr auto kill_patience = 10s;  ///< a process that SIGKILL has not ended by then is stuck in the kernel

/// Each PE needs a connection, and two pipes with --tag-output; PMIx needs some more.
void raise_descriptor_limit(uint32_t n_pes) {
  const uint64_t wanted = 3ull * n_pes + 256, least = 3ull * n_pes + 48;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < least)
    fail("only {} files may be open at once (ulimit -n -H), but a job of {} PEs needs {}", limit.rlim_max, n_pes,
         least);
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// PMIx 4.2 has arrays of some hundred KiB on the stacks of its threads and of its callers. Returns the limits as they
/// were before.
rlimit raise_stack_limit() {
  constexpr size_t least = 1 << 20;
  rlimit before{};
  if (getrlimit(RLIMIT_STACK, &before) != 0) fail_errno("getrlimit");
  if (before.rlim_cur < least) {
    const rlimit wanted{least, std::max<rlim_t>(before.rlim_max, least)};
    if (setrlimit(RLIMIT_STACK, &wanted) != 0)
      fail("the stack may have {} KiB (ulimit -s -H), but ucx-run needs {}", before.rlim_max >> 10, least >> 10);
    pthread_attr_t threads;
    pthread_attr_init(&threads);
    pthread_attr_setstacksize(&threads, least);
    pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
  }
  return before;
}

class job {
 public:
  job(const run_options& options, const std::string& program, uint32_t n_pes, const rlimit& inherited_stack)
      : options_(options),
        program_(program),
        inherited_stack_(inherited_stack),
        members_(n_pes),
        server_(n_pes, session_.path()),
        pes_(n_pes) {}

  ~job() {
    // After an exception; otherwise there is nothing left to kill.
    if (!finished_) kill_everything();
  }

  int run() {
    if (options_.timeout_s) timeout_at_ = clock::now() + std::chrono::seconds(options_.timeout_s);
    start_all();
    while (step()) {
    }
    finished_ = true;
    const bool all_written = abandon_output_ || output_.drain();
    return exit_status_.value_or(all_written ? 0 : 1);
  }

 private:
  void say(const std::string& text) const {
    if (options_.quiet) return;
    const std::string line = "ucx-run: " + text + "\n";
    if (write(2, line.data(), line.size()) < 0) return;  // nobody reads it
  }

  std::string name_of(uint32_t pe) const {
    return fmt::format("PE {} (pid {}, {})", pe, pes_[pe].pid, options_.program[0]);
  }

  void start_all() {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0) fail_errno("/dev/null");
    for (uint32_t pe = 0; pe < pes_.size() && !stopping_; ++pe) {
      child_setup setup;
      setup.program = program_;
      setup.arguments = options_.program;
      setup.environment = server_.environment_of(pe);
      setup.working_directory = options_.working_directory;
      setup.input = pe == 0 ? input_.for_first_pe() : nothing;
      setup.signal_mask = signals_.inherited_mask();
      setup.sigpipe = signals_.inherited_sigpipe();
      setup.sigxfsz = signals_.inherited_sigxfsz();
      setup.stack = inherited_stack_;
      if (options_.tag_output) {
        setup.output = output_.add(pe, 1);
        setup.error_output = output_.add(pe, 2);
      }
      try {
        pes_.started(pe, start_child(setup));
      } catch (const start_failure& e) {
        give_up(e.status, pe == 0 ? e.text : fmt::format("PE {}: {}", pe, e.text));
      }
      for (const int fd : {setup.output, setup.error_output})
        if (fd >= 0) close(fd);
    }
    close(nothing);
    input_.first_pe_started();
    if (options_.tag_output) output_.start();
  }

  /// One round: handles what has happened, then waits for the next event. Returns false when the job is over.
  bool step() {
    take_signals_in();
    const bool children_left = reap();
    server_.gate().serve([this](int connection) { return admit(connection); });
    check_memberships();
    check_for_stopped();
    if (server_.crashed() && pes_.alive() > 0)
      verdict_.add({0, 1, "PMIx, which connects the PEs, has crashed: the job cannot go on"}, evidence::none,
                   clock::now());
    if (verdict_.when()) check_for_ending();
    if (!stopping_)
      if (const auto what = verdict_.reached(clock::now(), pes_.alive() == 0)) report(*what);
    if (!children_left) return false;

    const auto now = clock::now();
    if (timeout_at_ && now >= *timeout_at_ && pes_.alive() > 0 && !stopping_)
      give_up(124, fmt::format("the job ran longer than {} s (--timeout): killed", options_.timeout_s));
    if (pes_.alive() == 0 && !kill_at_) kill_at_ = now + term_to_kill;  // for processes that the PEs have left behind
    if (kill_at_ && now >= *kill_at_) {
      if (pes_.alive() == 0 && !exit_status_) name_leftovers();
      pes_.signal_groups(SIGKILL);
      if (now >= *kill_at_ + kill_patience) {
        say("some processes of the job cannot be killed (stuck in the kernel?)");
        if (!exit_status_) exit_status_ = 1;
        return false;
      }
    }
    wait_for_news();
    return true;
  }

  void wait_for_news() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}, {server_.change_fd(), POLLIN, 0}};
    if (server_.gate().descriptor() >= 0) polled.push_back({server_.gate().descriptor(), POLLIN, 0});
    const bool input_watched = input_.add_to_poll(polled);
    auto until = clock::now() + 3600s;
    const auto sooner = [&](clock::time_point when) { until = std::min(until, when); };
    if (!input_watched) sooner(clock::now() + 500ms);
    if (timeout_at_ && pes_.alive() > 0 && !stopping_) sooner(*timeout_at_);
    if (verdict_.when() && !stopping_) sooner(*verdict_.when());
    if (const auto next = stops_.next(); next && !stopping_) sooner(*next);
    // Killing continues: the children of a process that was killed become children of this one only when it is dead.
    if (kill_at_) sooner(std::max(*kill_at_, clock::now() + 20ms));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    server_.acknowledge();
    input_.service();
  }

  void take_signals_in() {
    while (const auto number = signals_.next()) {
      if (number == SIGTSTP) {
        // The terminal stopped ucx-run; it does not know the PEs.
        pes_.signal_groups(SIGSTOP);
        raise(SIGSTOP);
      } else if (number == SIGCONT) {
        pes_.signal_groups(SIGCONT);
      } else if (number == SIGINT && ++interrupts_ == 2) {
        abandon_output_ = true;
        give_up(128 + SIGINT, "interrupted twice: killed");
        kill_at_ = clock::now();
      } else if (number != SIGCHLD) {
        pes_.signal(*number);
      }
    }
  }

  /// Handles the ends of children. Returns false if there are none left.
  bool reap() {
    return pes_.reap([this](uint32_t pe) { ended(pe); });
  }

  /// Records a failure of PE `pe`. `what`: what it has done, for the user; `status`: ucx-run's exit status in that
  /// case.
  void blame(uint32_t pe, int status, const std::string& what, evidence of_it) {
    verdict_.add({pe, status, name_of(pe) + " " + what}, of_it, clock::now());
  }

  void ended(uint32_t pe) {
    const int wait_status = pes_[pe].wait_status;
    const auto aborts = server_.aborts();
    const auto abort = std::find_if(aborts.begin(), aborts.end(), [&](const abort_request& a) { return a.pe == pe; });
    const pe_membership membership = server_.memberships()[pe];
    if (abort != aborts.end()) add_abort(*abort);
    else if (wait_status != 0)
      blame(pe, shell_status(wait_status), describe_wait_status(wait_status), evidence_of(wait_status));
    else if (membership.connected && !membership.finalized)
      blame(pe, 1, "left the job without finalizing (it ended with exit status 0)", evidence::full);
  }

  /// After a PE has failed: checks whether another PE was killed before, or has ended itself with a status of its own,
  /// and is not dead yet.
  void check_for_ending() {
    if (stopping_) return;
    for (uint32_t pe = 0; pe < pes_.size(); ++pe) {
      const auto status = pes_[pe].alive ? status_of_ending(pes_[pe].pid) : std::nullopt;
      if (!status || *status == 0 || (WIFEXITED(*status) && WEXITSTATUS(*status) == 1)) continue;
      blame(pe, shell_status(*status), describe_wait_status(*status),
            is_cause(*status) ? evidence::full : evidence::own_status);
    }
  }

  /// Checks for a PE that is stopped, or whose program is.
  void check_for_stopped() {
    if (stopping_ || !stops_.is_due(clock::now())) return;
    for (uint32_t pe = 0; pe < pes_.size(); ++pe) {
      if (!pes_[pe].alive) continue;
      std::vector<pid_t> pids{pes_[pe].pid};
      const member& joined = members_[pe];
      if (joined.pid && joined.pid != pids[0] && start_of_process(static_cast<uint64_t>(joined.pid)) == joined.start)
        pids.push_back(joined.pid);
      for (const pid_t pid : pids)
        if (stops_.poll(pid))
          blame(pe, 1,
                fmt::format("has been stopped (process {}) for more than {} s, twice GRAVEL_WATCHDOG_S", pid,
                            stops_.limit_s()),
                evidence::none);
    }
  }

  void add_abort(const abort_request& request) {
    const int status = request.status >= 1 && request.status <= 255 ? request.status : 1;
    blame(request.pe, status, fmt::format("aborted the job with status {}", status), evidence::none);
  }

  /// True if the process at the other end of this connection may join: it belongs to this job, and no other process is
  /// its PE, or about to be.
  bool admit(int connection) {
    const auto owner = owner_of_other_end(connection);
    if (!owner) return false;  // it has ended
    const auto holder = owner->user == geteuid() ? pes_.holder_of(owner->inode) : pe_processes::holder{};
    std::string who;
    if (owner->user != geteuid()) who = fmt::format("a process of user {}", owner->user);
    else if (!holder.pid && holder.all_seen) who = "a process that does not belong to the job";
    else if (holder.pe && (is_member(*holder.pe) || is_joining(*holder.pe, holder.pid)))
      who = fmt::format("a second process of PE {} (pid {})", *holder.pe, holder.pid);
    if (who.empty()) {
      if (!holder.pe || pes_[*holder.pe].pid != holder.pid) programs_may_follow_ = true;
      if (holder.pe)
        members_[*holder.pe] = {holder.pid, start_of_process(static_cast<uint64_t>(holder.pid)),
                                server_.memberships()[*holder.pe].joins};
      return true;
    }
    if (!std::exchange(refusal_said_, true)) say(fmt::format("warning: {} wanted to join the job: refused", who));
    return false;
  }
  bool is_member(uint32_t pe) const {
    const pe_membership m = server_.memberships()[pe];
    return m.connected && !m.finalized;
  }
  /// True if a process other than `process` was admitted as PE `pe`, lives, and PMIx has not yet reported it as joined.
  bool is_joining(uint32_t pe, pid_t process) const {
    const member& admitted = members_[pe];
    return admitted.pid && admitted.pid != process && admitted.joins_before == server_.memberships()[pe].joins &&
           start_of_process(static_cast<uint64_t>(admitted.pid)) == admitted.start;
  }

  void check_memberships() {
    if (stopping_) return;
    const auto now = server_.memberships();
    // If the PE is a script, its programs may join one after the other.
    if (!programs_may_follow_ &&
        std::all_of(now.begin(), now.end(), [](const pe_membership& m) { return m.connected; }))
      server_.gate().close();
    for (const auto& request : server_.aborts()) add_abort(request);
    if (pes_.alive() == pes_.size()) return;
    const auto member =
        std::find_if(now.begin(), now.end(), [](const pe_membership& m) { return m.connected && !m.finalized; });
    if (member == now.end()) return;
    for (uint32_t pe = 0; pe < pes_.size(); ++pe)
      if (pes_[pe].pid && !pes_[pe].alive && pes_[pe].wait_status == 0 && !now[pe].connected)
        blame(pe, 1,
              fmt::format("ended with exit status 0 without joining the job, which PE {} has joined",
                          member - now.begin()),
              evidence::none);
  }

  void report(const failure& what) {
    server_.announce_death(what.pe, what.text);
    give_up(what.exit_status, what.text);
  }

  /// The job has failed: reports why (the first time), and asks all processes to end.
  void give_up(int status, const std::string& why) {
    if (!exit_status_) {
      exit_status_ = status;
      say(why);
    }
    if (stopping_) return;
    stopping_ = true;
    kill_at_ = clock::now() + term_to_kill;
    pes_.signal_groups(SIGTERM);
    pes_.signal_groups(SIGCONT);  // a stopped process would not notice
  }

  void name_leftovers() {
    if (leftovers_named_) return;
    leftovers_named_ = true;
    if (const std::string names = pes_.name_leftovers(); !names.empty())
      say("killed what the PEs had left running: " + names);
  }

  void kill_everything() {
    const auto end = clock::now() + kill_patience;
    do {
      pes_.signal_groups(SIGKILL);
      usleep(5000);
    } while (reap() && clock::now() < end);
  }

  const run_options& options_;
  const std::string& program_;
  const rlimit inherited_stack_;
  /// The process that was admitted as a PE: itself, or one that it has started.
  struct member {
    pid_t pid = 0;  ///< 0: none yet
    uint64_t start = 0;
    uint32_t joins_before = 0;  ///< how often processes had joined as this PE when this one was admitted
  };
  std::vector<member> members_;
  stop_watch stops_{watchdog_of_environment()};
  signal_source signals_;  // first: PMIx's thread inherits what it blocks
  session_directory session_;
  pmix_server server_;
  job_input input_;
  tagged_output output_;
  pe_processes pes_;
  int interrupts_ = 0;
  bool stopping_ = false, abandon_output_ = false, leftovers_named_ = false, finished_ = false;
  bool programs_may_follow_ = false, refusal_said_ = false;
  verdict verdict_;
  std::optional<int> exit_status_;
  std::optional<clock::time_point> timeout_at_, kill_at_;
};

}  // namespace

int run_job(const run_options& options, const std::string& program, uint32_t n_pes) {
  // PEs shall not inherit descriptors that were left open here, and PMIx 4.2 cannot use descriptors from 1024 on.
  close_range(3, ~0u, 0);
  raise_descriptor_limit(n_pes);
  const rlimit inherited_stack = raise_stack_limit();
  set_job_variables(options);
  setenv("CUDA_MODULE_LOADING", "EAGER",
         // Gravel needs it, and a program that uses CUDA before gravel_init would fix it otherwise.
         0);
  return job(options, program, n_pes, inherited_stack).run();
}

}  // namespace gravel::detail
