// Starts one PE, and describes how it ended.
#pragma once
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace gravel::detail {

/// A program that cannot be started, with the exit status that shells use: 127 not found, 126 not executable.
struct start_failure {
  int status = 0;
  std::string text;
};

/// Finds `name` as a shell would: through PATH if it has no slash, else as a path (relative to
/// `working_directory` if that is not empty). Returns its path; throws start_failure.
std::string find_program(const std::string& name, const std::string& working_directory);

/// The array that exec takes: pointers into `texts`.
std::vector<char*> c_array(const std::vector<std::string>& texts);

struct child_setup {
  std::string program;                 ///< path
  std::vector<std::string> arguments;  ///< with the name of the program first
  std::vector<std::string> environment;
  std::string working_directory;                   ///< "": the current one
  int input = -1, output = -1, error_output = -1;  ///< become descriptors 0, 1, 2; -1: those of this process
  sigset_t signal_mask{};                          ///< restored in the child
  sighandler_t sigpipe = SIG_DFL;                  ///< disposition of SIGPIPE restored in the child
  sighandler_t sigxfsz = SIG_DFL;                  ///< disposition of SIGXFSZ restored in the child
  rlimit stack{};                                  ///< limits of the stack (ulimit -s) restored in the child
};

/// Starts the program as leader of a process group of its own that dies with the calling thread (PR_SET_PDEATHSIG).
/// Descriptors other than 0 to 2 are closed in it. Returns once it has been executed; throws start_failure.
pid_t start_child(const child_setup& setup);

/// Returns "killed by signal 9 (Killed)" or "ended with exit status 3", for example.
std::string describe_wait_status(int wait_status);
/// The exit status as in a shell: 128 + signal number for a signal.
int shell_status(int wait_status);

/// The status with which a process is ending, as waitpid will return it, while it has not ended yet: the driver of a
/// GPU may need seconds to clean up after a process that was killed. None: it is not ending, or the system does not
/// show it.
std::optional<int> status_of_ending(pid_t pid);

}  // namespace gravel::detail
