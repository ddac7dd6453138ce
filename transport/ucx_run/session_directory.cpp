#include "transport/ucx_run/session_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "launcher.pid";
// A directory without a lock file is one that is just being made, or whose maker died in that moment.
constexpr time_t creation_allowance_s = 600;

std::string prefix() { return fmt::format("gravel-{}-", geteuid()); }

bool is_stale(const fs::path& directory) {
  struct stat found {};
  if (lstat(directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid()) return false;
  const owned_descriptor lock(open((directory / lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock) return errno == ENOENT && time(nullptr) - found.st_mtime > creation_allowance_s;
  return flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

std::string session_parent() {
  const char* tmpdir = std::getenv("TMPDIR");
  constexpr size_t longest = 60;
  if (tmpdir && tmpdir[0] == '/' && std::string_view(tmpdir).size() <= longest && access(tmpdir, W_OK | X_OK) == 0)
    return tmpdir;
  return "/tmp";
}

void remove_stale_sessions(const std::string& parent) noexcept {
  try {
    std::error_code code;
    for (fs::directory_iterator entry(parent, code), end; !code && entry != end; entry.increment(code)) {
      std::error_code ignored;
      if (entry->path().filename().string().starts_with(prefix()) && is_stale(entry->path()))
        fs::remove_all(entry->path(), ignored);
    }
  } catch (...) {
    // Leftovers of another job must not prevent this one.
  }
}

session_directory::session_directory(const std::string& parent) {
  remove_stale_sessions(parent);
  std::string pattern = parent + "/" + prefix() + "XXXXXX";
  if (!mkdtemp(pattern.data())) fail_errno("cannot make a directory for the job under " + parent + " (set TMPDIR?)");
  path_ = pattern;
  chmod(path_.c_str(), 0700);  // independent of the umask
  // It is locked before it gets its name: a process that sees the file under its name and can lock it knows that this
  // one has died.
  const std::string hidden = path_ + "/new";
  lock_ = owned_descriptor(open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (lock_) fchmod(lock_.get(), 0600);
  const std::string text = fmt::format("{}\n", getpid());
  if (!lock_ || flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      write(lock_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      rename(hidden.c_str(), (path_ + "/" + lock_name).c_str()) != 0) {
    const int cause = errno;
    remove();
    errno = cause;
    fail_errno("cannot set up the job's directory " + pattern);
  }
}

void session_directory::remove() noexcept {
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    path_.clear();
  }
  lock_.reset();
}

session_directory::~session_directory() { remove(); }

}  // namespace gravel::detail
