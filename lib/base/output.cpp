#include "lib/base/output.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// While an object exists, a write beyond the limit of `ulimit -f` fails with EFBIG instead of ending the process,
/// whatever the program does with SIGXFSZ. The kernel sends that signal to the thread that writes.
class no_size_signal {
 public:
  no_size_signal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~no_size_signal() {
    const timespec at_once{};
    if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_, before_;
};

std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) ? buffer : path;
}

/// True if the path may name a file that this process writes in another way as well, such as /dev/stdout.
bool names_open_file(const std::string& path) { return path.starts_with("/dev/") || path.starts_with("/proc/"); }

/// Only this process creates and uses this file.
owned_descriptor make_beside(const std::string& target, std::string& name) {
  for (int n = 0;; ++n) {
    name = fmt::format("{}.new-{}-{}", target, getpid(), n);
    owned_descriptor made(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made || errno != EEXIST) return made;
  }
}

constexpr size_t chunk = 1 << 20;

}  // namespace

output_file::output_file(std::string path) : path_(std::move(path)), target_(resolved(path_)) {
  struct stat old {};
  const bool exists = stat(target_.c_str(), &old) == 0;
  if (names_open_file(path_) || (exists && !S_ISREG(old.st_mode))) {
    begin_in_place(O_APPEND);
    return;
  }
  // A file that may not be written is not replaced either.
  if (exists && access(target_.c_str(), W_OK) != 0) fail_here(errno);
  file_ = make_beside(target_, temporary_);
  if (file_) {
    if (exists) fchmod(file_.get(), old.st_mode & 07777);
    return;
  }
  temporary_.clear();
  if (!exists || (errno != EACCES && errno != EPERM)) fail_here(errno);
  begin_in_place(O_TRUNC);
}

output_file::~output_file() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void output_file::begin_in_place(int how) {
  file_ = owned_descriptor(open(path_.c_str(), O_WRONLY | O_CLOEXEC | how));
  if (!file_) fail_here(errno);
}

void output_file::fail_here(int code) const {
  errno = code;
  fail_errno(path_);
}

void output_file::write(std::string_view text) {
  kept_ += text;
  if (kept_.size() >= chunk) write_out(std::exchange(kept_, {}));
}

void output_file::write_out(std::string_view text) {
  const no_size_signal quiet;
  while (!text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) fail_here(errno);
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

void output_file::finish() {
  write_out(std::exchange(kept_, {}));
  if (close(file_.release()) != 0) fail_here(errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_here(errno);
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view text) {
  output_file file(path);
  file.write(text);
  file.finish();
}

bool flush_output(const char* program) {
  int code = std::fflush(stdout) == 0 ? 0 : errno;
  if (code == 0 && !std::ferror(stdout)) return true;
  // An earlier write failed, and nobody checked. Another write fails for the same reason if the reason still exists.
  if (code == 0 && (std::fputc('\n', stdout) == EOF || std::fflush(stdout) != 0)) code = errno;
  std::fprintf(stderr, "%s: standard output: %s\n", program,
               code ? std::strerror(code) : "an earlier write failed, part of the output is lost");
  return false;
}

void check_output_at_exit(const std::string& program) {
  static std::string name;
  name = program;
  signal(SIGXFSZ, SIG_IGN);
  std::atexit([] {
    if (!flush_output(name.c_str())) _exit(1);
  });
}

}  // namespace gravel::detail
