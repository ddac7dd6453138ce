#include "transport/ucx_run/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "lib/base/error.hpp"
#include "lib/base/process_stat.hpp"

namespace gravel::detail {
namespace {

/// What the child reports to its parent if it could not become the program.
struct child_error {
  int step, code;
};
enum { in_set_up = 1, in_chdir, in_exec };

/// The child's work between fork and exec. The process has threads, so it calls only functions that are safe in signal
/// handlers.
[[noreturn]] void become_program(const child_setup& setup, char* const* arguments, char* const* environment,
                                 pid_t parent, int report) {
  const auto give_up = [&](int step) {
    const child_error error{step, errno};
    if (write(report, &error, sizeof error) < 0) _exit(125);
    _exit(125);
  };
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(in_set_up);
  if (getppid() != parent) _exit(125);  // the parent died before the line above
  if (setpgid(0, 0) != 0) give_up(in_set_up);
  const int wanted[] = {setup.input, setup.output, setup.error_output};
  for (int fd = 0; fd < 3; ++fd)
    if (wanted[fd] >= 0 && dup2(wanted[fd], fd) < 0) give_up(in_set_up);
  if (!setup.working_directory.empty() && chdir(setup.working_directory.c_str()) != 0) give_up(in_chdir);
  // Kernels before 5.11 lack the flag. Then descriptors that PMIx left open on exec stay open, which is harmless.
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  signal(SIGPIPE, setup.sigpipe);
  signal(SIGXFSZ, setup.sigxfsz);
  setrlimit(RLIMIT_STACK, &setup.stack);
  sigprocmask(SIG_SETMASK, &setup.signal_mask, nullptr);
  execve(setup.program.c_str(), arguments, environment);
  give_up(in_exec);
  _exit(125);
}

[[noreturn]] void not_executable(const std::string& path, const std::string& why) {
  throw start_failure{126, fmt::format("{}: cannot be executed: {}", path, why)};
}

/// Returns false if the file does not exist; throws start_failure if it exists but cannot be executed.
bool check_executable(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    not_executable(path, std::strerror(errno));
  }
  if (S_ISDIR(found.st_mode)) not_executable(path, "it is a directory");
  if (access(path.c_str(), X_OK) != 0) not_executable(path, std::strerror(errno));
  return true;
}

}  // namespace

std::vector<char*> c_array(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::string find_program(const std::string& name, const std::string& working_directory) {
  if (name.find('/') != std::string::npos) {
    const bool relative = name[0] != '/' && !working_directory.empty();
    if (!check_executable(relative ? working_directory + "/" + name : name))
      throw start_failure{
          127, fmt::format("{}: program not found{}", name, relative ? " in " + working_directory : std::string())};
    return name;  // the child looks it up after its chdir
  }
  const char* path = std::getenv("PATH");
  std::istringstream directories(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    struct stat found {};
    if (stat(candidate.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(candidate.c_str(), X_OK) == 0) {
      // Programs like busybox depend on the name by which they are called, which a resolved link would change.
      if (candidate[0] == '/') return candidate;
      std::error_code code;
      const std::string absolute = std::filesystem::canonical(candidate, code);
      return code ? candidate : absolute;
    }
  }
  const std::string advice = access(name.c_str(), X_OK) == 0 ? " (did you mean ./" + name + "?)" : "";
  throw start_failure{127, fmt::format("{}: program not found in PATH{}", name, advice)};
}

pid_t start_child(const child_setup& setup) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw start_failure{1, fmt::format("pipe: {}", std::strerror(errno))};
  const auto arguments = c_array(setup.arguments);
  const auto environment = c_array(setup.environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    close(report[0]);
    become_program(setup, arguments.data(), environment.data(), parent, report[1]);
  }
  const int cause = errno;
  close(report[1]);
  if (pid < 0) {
    close(report[0]);
    throw start_failure{1, fmt::format("cannot start a process: {} (see `ulimit -u`)", std::strerror(cause))};
  }
  setpgid(pid, pid);  // the child does it, too; one of the two is first
  child_error error{};
  ssize_t got = 0;
  do got = read(report[0], &error, sizeof error);
  while (got < 0 && errno == EINTR);
  close(report[0]);
  if (got != sizeof error) return pid;  // executed: the pipe was closed without an error
  waitpid(pid, nullptr, 0);
  const std::string why = std::strerror(error.code);
  if (error.step == in_chdir) throw start_failure{1, fmt::format("--wdir {}: {}", setup.working_directory, why)};
  if (error.step == in_set_up) throw start_failure{1, fmt::format("cannot set up a process: {}", why)};
  std::string advice;
  if (error.code == ENOEXEC) advice = " (a script needs a first line like #!/bin/sh)";
  if (error.code == ENOENT) advice = " (the interpreter in its first line, or its dynamic loader, is missing)";
  throw start_failure{126, fmt::format("{}: cannot be executed: {}{}", setup.program, why, advice)};
}

std::string describe_wait_status(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("killed by signal {} ({}){}", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)),
                       WCOREDUMP(wait_status) ? ", core dumped" : "");
  return fmt::format("ended with exit status {}", WEXITSTATUS(wait_status));
}

int shell_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::optional<int> status_of_ending(pid_t pid) {
  constexpr uint64_t exiting = 4;  // PF_EXITING of the kernel, in the flags
  const auto fields = stat_of_process(static_cast<uint64_t>(pid));
  if (fields.size() < 52 || !(std::stoull(fields[8]) & exiting)) return {};
  return std::stoi(fields[51]);
}

}  // namespace gravel::detail
