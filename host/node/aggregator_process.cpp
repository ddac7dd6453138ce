#include "host/node/aggregator_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "lib/base/error.hpp"

extern char** environ;

namespace gravel::detail {
namespace fs = std::filesystem;

std::string find_aggregator(const std::string& setting) {
  const auto usable = [](const fs::path& p) {
    return !p.empty() && access(p.c_str(), X_OK) == 0 && !fs::is_directory(p);
  };
  if (!setting.empty()) {
    if (!usable(setting)) fail("GRAVEL_AGGREGATOR: '{}' is not an executable file", setting);
    return setting;
  }
  std::vector<fs::path> candidates;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&find_aggregator), &info) && info.dli_fname) {
    std::error_code ignored;
    const fs::path library = fs::canonical(info.dli_fname, ignored).parent_path();
    candidates.push_back(library / "gravel-aggregator");
    // $prefix/lib/libgravel.so or $prefix/lib/x86_64-linux-gnu/libgravel.so, and $prefix/bin
    candidates.push_back(library.parent_path() / "bin" / "gravel-aggregator");
    candidates.push_back(library.parent_path().parent_path() / "bin" / "gravel-aggregator");
  }
  std::error_code ignored;
  candidates.push_back(fs::read_symlink("/proc/self/exe", ignored).parent_path() / "gravel-aggregator");
  if (const char* path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty()) candidates.push_back(fs::path(folder) / "gravel-aggregator");
  }
  std::string searched;
  for (const auto& candidate : candidates) {
    if (usable(candidate)) return candidate;
    searched += "\n  " + candidate.string();
  }
  fail("gravel-aggregator was not found; set GRAVEL_AGGREGATOR to its path. Looked for:{}", searched);
}

pid_t spawn_aggregator(const std::string& path, int listener, uint32_t pes, uint32_t host_pes, uint32_t job_pes) {
  const std::string fd = "--listen-fd=3", n = "--pes=" + std::to_string(pes),
                    h = "--host-pes=" + std::to_string(host_pes), j = "--job-pes=" + std::to_string(job_pes),
                    p = "--parent=" + std::to_string(getpid());
  char* arguments[] = {const_cast<char*>("gravel-aggregator"),
                       const_cast<char*>(fd.c_str()),
                       const_cast<char*>(n.c_str()),
                       const_cast<char*>(h.c_str()),
                       const_cast<char*>(j.c_str()),
                       const_cast<char*>(p.c_str()),
                       nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  // Also clears close-on-exec, even if the descriptor is 3 already.
  posix_spawn_file_actions_adddup2(&actions, listener, 3);
  // The aggregator must not keep files or sockets of the program open.
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  // The aggregator must not inherit which signals the program, or its parent, blocks or ignores: it must end on
  // SIGTERM, as soon as UCX's libraries are loaded (no_end_meanwhile).
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t at_first, all;
  sigemptyset(&at_first);
  sigaddset(&at_first, SIGTERM);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &at_first);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) fail("starting '{}': {}", path, std::strerror(code));
  return pid;
}

bool wait_for_aggregator(pid_t pid, int limit_ms) {
  int status = 0;
  for (int waited = 0; waited <= limit_ms + 1000; ++waited) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended < 0 && errno == ECHILD)
      return true;  // the program ignores SIGCHLD or waits for any child, so its status is not known
    if (waited == limit_ms) kill(pid, SIGKILL);
    usleep(1000);
  }
  return false;
}

}  // namespace gravel::detail
