// A PE for the tests of the bootstrap and of ucx-run: joins the job and does what its first argument says.
#include <fcntl.h>
#include <pmix.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "transport/bootstrap.hpp"

using namespace gravel::detail;

namespace {

std::vector<std::byte> pattern(uint32_t pe, uint32_t round, size_t size) {
  std::vector<std::byte> result(size);
  uint32_t word = pe * 2654435761u + round * 40503u + 1;
  for (auto& byte : result) {
    word = word * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(word >> 24);
  }
  return result;
}

void require(bool condition, const char* what) {
  if (!condition) fail("check failed: {}", what);
}

/// One line, in one write: the lines of several PEs share a pipe.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...) + "\n";
  if (write(1, line.data(), line.size()) < 0) _exit(99);
}

/// Makes the launcher end the job, as programs of other libraries do.
[[noreturn]] void abort_job(int status, const char* text) {
  if (status < 1 || status > 255) status = 1;
  log_error("{}", text);
  PMIx_Abort(status, text, nullptr, 0);
  _exit(status);
}

void exchange(bootstrap& job, size_t size) {
  const uint32_t rank = job.rank(), n = job.size();
  require(rank < n && job.host_of().size() == n, "rank, size and host_of agree");
  for (uint32_t pe = 0; pe < n; ++pe) require(job.host_of()[pe] == 0, "all PEs are on host 0");
  require(job.local_rank() == rank && job.local_size() == n, "local rank and size on a single host");
  for (uint32_t round = 0; round < 3; ++round) {
    job.put("overwritten", pattern(rank, 77, 10));
    job.put("overwritten", pattern(rank, round, size));
    job.put("empty", {});
    job.put(fmt::format("of round {}", round), pattern(rank, round + 100, 33));
    job.fence();
    for (uint32_t step = 0; step < n; ++step) {
      const uint32_t pe = (rank + step) % n;
      require(job.get(pe, "overwritten") == pattern(pe, round, size), "the last value put arrives");
      require(job.get(pe, "empty").empty(), "an empty value is a value");
      for (uint32_t old = 0; old <= round; ++old)
        require(job.get(pe, fmt::format("of round {}", old)) == pattern(pe, old + 100, 33), "old values stay");
    }
    job.fence();
  }
  job.put("staged", pattern(rank, 0, 1));
  const auto message_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string last = std::to_string(n - 1);
  const std::string missing = message_of([&] { job.get(n - 1, "staged"); });
  require(missing.find("PE " + last) != std::string::npos && missing.find("'staged'") != std::string::npos,
          "a value not yet fenced is missing, with PE and key in the message");
  require(message_of([&] { job.get(n, "empty"); }).find("there is no PE " + std::to_string(n)) != std::string::npos,
          "a PE out of range is an error");
  require(message_of([&] { join_job(); }).find("already") != std::string::npos, "one bootstrap at a time");
  job.fence();
  require(job.get(n - 1, "staged") == pattern(n - 1, 0, 1), "it is there after the fence");
  job.finalize();
  job.finalize();
  print("PE {} of {} is content", rank, n);
}

volatile sig_atomic_t received = 0;
void receive(int number) { received = number; }

/// A process that the PE does not wait for, in a session of its own: no process group holds it.
void leave_orphan() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (;;) pause();
}

/// The process is killed, or ends with `status` if that is not 0. A tracer keeps it from being reaped: nobody else can
/// wait for a process while the process that traces it does not.
[[noreturn]] void die_slowly(int status) {
  int ends[2];
  require(pipe(ends) == 0, "a pipe");
  const pid_t self = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (fork() == 0) {
    const char traces = ptrace(PTRACE_SEIZE, self, nullptr, nullptr) == 0 ? 'y' : 'n';
    if (write(ends[1], &traces, 1) != 1) _exit(99);
    for (;;) pause();  // until ucx-run ends it
  }
  char traced = 'n';
  require(read(ends[0], &traced, 1) == 1 && traced == 'y', "this process may be traced");
  if (status != 0) _exit(status);
  kill(self, SIGKILL);
  for (;;) pause();
}
bool is_zombie(uint32_t pid) {
  std::string text;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
  return text.find(") Z ") != std::string::npos;
}

[[noreturn]] void stay() {
  for (;;) pause();
}

int run(const std::string& what, uint32_t who, int value) {
  if (what == "absent" && std::getenv("PMIX_RANK") && std::atoi(std::getenv("PMIX_RANK")) == static_cast<int>(who))
    return 0;
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int number : {SIGUSR1, SIGUSR2, SIGHUP, SIGTERM}) sigaddset(&awaited, number);
  if (what == "await-signal") sigprocmask(SIG_BLOCK, &awaited, nullptr);  // before PMIx starts its thread
  const auto job = join_job();
  set_log_name(fmt::format("PE {}", job->rank()));
  const bool mine = job->rank() == who;
  if (what == "exchange") {
    exchange(*job, static_cast<size_t>(value));
  } else if (what == "exit") {
    job->fence();
    if (mine) {
      job->finalize();
      return value;
    }
    stay();
  } else if (what == "exit-in-fence") {
    if (mine) _exit(value);
    job->fence();
  } else if (what == "absent") {
    job->fence();
  } else if (what == "signal") {
    job->fence();
    if (mine) raise(value);
    stay();
  } else if (what == "die-slowly" || what == "exit-slowly") {
    // Another PE ends because of it, and is dead sooner.
    const uint32_t pid = static_cast<uint32_t>(getpid());
    job->put("pid", std::as_bytes(std::span(&pid, 1)));
    job->fence();
    if (mine) die_slowly(what == "die-slowly" ? 0 : 3);
    uint32_t theirs = 0;
    std::memcpy(&theirs, job->get(who, "pid").data(), sizeof theirs);
    while (!is_zombie(theirs)) usleep(1000);
    if (job->rank() == (who + 1) % job->size()) _exit(value);
    stay();
  } else if (what == "abort") {
    job->fence();
    if (mine) abort_job(value, "the probe gives up");
    stay();
  } else if (what == "abort-in-fence") {
    if (mine) abort_job(value, "the probe gives up");
    job->fence();
  } else if (what == "late") {
    if (mine) stay();
    job->fence();
  } else if (what == "stubborn") {
    // Does not die of SIGTERM, and prints what the launcher reports.
    signal(SIGTERM, SIG_IGN);
    job->on_abort([&](std::string text) { print("PE {} heard: {}", job->rank(), text); });
    leave_orphan();
    job->fence();
    if (mine) raise(SIGKILL);
    stay();
  } else if (what == "orphan") {
    leave_orphan();
    job->fence();
  } else if (what == "await-signal") {
    job->fence();
    print("PE {} waits", job->rank());
    for (int number = 0; number != SIGTERM;) {
      sigwait(&awaited, &number);
      print("PE {} got signal {}", job->rank(), number);
    }
  } else if (what == "deaf") {
    signal(SIGINT, receive);
    signal(SIGTERM, SIG_IGN);
    job->fence();
    print("PE {} waits", job->rank());
    while (!received) usleep(10'000);
    print("PE {} got signal {}", job->rank(), static_cast<int>(received));
    stay();
  } else if (what == "wait") {
    job->fence();
    print("PE {} waits", job->rank());
    stay();
  } else if (what == "stop-before-end" || what == "stop-after-end") {
    job->fence();
    if (what == "stop-after-end") job->finalize();
    if (mine) raise(SIGSTOP);
  } else if (what == "stop-at-exit") {
    job->fence();
    if (mine) std::atexit([] { raise(SIGSTOP); });
  } else if (what == "echo") {
    std::string line;
    while (std::getline(std::cin, line)) print("PE {} read {}", job->rank(), line);
    print("PE {} at end of input", job->rank());
    job->fence();
  } else if (what == "lines") {
    // Both streams, lines in pieces, a last line without an end.
    for (int i = 0; i < value; ++i) {
      fprintf(stdout, "line %d", i);
      fflush(stdout);
      fprintf(stdout, " of PE %u\n", job->rank());
      fprintf(stderr, "complaint %d of PE %u\n", i, job->rank());
    }
    fprintf(stdout, "unended");
    fflush(stdout);
  } else if (what == "environment") {
    for (const char* name : {"GRAVEL_NODES", "GRAVEL_STATS", "GRAVEL_STATS_JSON", "PROBE_VARIABLE"})
      print("{}={}", name, std::getenv(name) ? std::getenv(name) : "(unset)");
    char directory[4096];
    print("in {}", getcwd(directory, sizeof directory) ? directory : "?");
  } else {
    fail("unknown task '{}'", what);
  }
  job->finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  install_terminate_handler();
  if (argc < 2) fail("usage: {} TASK [PE] [VALUE]", argv[0]);
  try {
    return run(argv[1], argc > 2 ? static_cast<uint32_t>(std::atol(argv[2])) : 0, argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const error& e) {
    log_error("{}", e.what());
    _exit(1);
  }
}
