#include "transport/ucx_quirks.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

template <class F>
std::string text_of(F print) {
  char* text = nullptr;
  size_t bytes = 0;
  std::FILE* stream = open_memstream(&text, &bytes);
  if (!stream) fail_errno("open_memstream");
  print(stream);
  std::fclose(stream);
  const std::string result(text, bytes);
  std::free(text);
  return result;
}

}  // namespace

uint32_t ucx_release() {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  return major * 1000 + minor;
}

std::string printed(ucp_context_h context) {
  return text_of([&](std::FILE* to) { ucp_context_print_info(context, to); });
}
std::string printed(ucp_ep_h endpoint) {
  return text_of([&](std::FILE* to) { ucp_ep_print_info(endpoint, to); });
}

std::optional<bool> uses_shared_memory(const std::string& text) {
  if (text.find("resource ") == std::string::npos || text.find('/') == std::string::npos) return {};
  return text.find("posix/") != std::string::npos || text.find("sysv/") != std::string::npos;
}

std::optional<bool> sends_messages_over_tcp(const std::string& text) {
  std::istringstream lines(text);
  std::optional<bool> over_tcp;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("lane[") == std::string::npos || line.find('/') == std::string::npos ||
        (line + " ").find(" am ") == std::string::npos)
      continue;
    over_tcp = over_tcp.value_or(false) || line.find("tcp/") != std::string::npos;
  }
  return over_tcp;
}

bool seen_in(const std::string& text, std::optional<bool> (*parse)(const std::string&), bool otherwise) {
  const bool known = knows_ucx(ucx_release());
  const std::optional<bool> seen = known ? parse(text) : std::nullopt;
  static std::atomic<bool> said{false};
  if (!seen && !said.exchange(true))
    log_warning("UCX {} {}: Gravel cannot find out which transports it uses, and takes the safe way",
                ucp_get_version_string(),
                known ? "prints what it does in another form than others"
                      : "is none of the releases that Gravel was checked with (1.13 to 1.22)");
  return seen.value_or(otherwise);
}

namespace {
thread_local int offered = -1;
thread_local bool replaces_the_dead = false;
}  // namespace
segment_offer::segment_offer(int file) { offered = file; }
segment_offer::~segment_offer() { offered = -1; }
bool segment_offer::is_taken() const { return offered == -1; }

dead_memory_guard::dead_memory_guard() { replaces_the_dead = true; }
dead_memory_guard::~dead_memory_guard() { replaces_the_dead = false; }

no_end_meanwhile::no_end_meanwhile() {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before_);
}
no_end_meanwhile::~no_end_meanwhile() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace gravel::detail

namespace {

/// True if this is one of UCX's segments, and its peers open it by process and descriptor.
bool needs_no_name(const char* name) {
  const char* by_descriptor = std::getenv("UCX_POSIX_USE_PROC_LINK");
  return std::strncmp(name, "/ucx_shm_posix_", 15) == 0 && (!by_descriptor || std::strchr("yYtT1oO", *by_descriptor)) &&
         gravel::detail::knows_ucx(gravel::detail::ucx_release());
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int shm_open(const char* name, int flags, mode_t mode) {
  if ((flags & O_CREAT) && needs_no_name(name)) {
    const int file = std::exchange(gravel::detail::offered, -1);
    return file != -1 ? fcntl(file, F_DUPFD_CLOEXEC, 0) : memfd_create(name + 1, MFD_CLOEXEC);
  }
  static const auto real = reinterpret_cast<decltype(&shm_open)>(dlsym(RTLD_NEXT, "shm_open"));
  return real(name, flags, mode);
}

[[gnu::visibility("default")]] int shm_unlink(const char* name) {
  if (needs_no_name(name)) return 0;
  static const auto real = reinterpret_cast<decltype(&shm_unlink)>(dlsym(RTLD_NEXT, "shm_unlink"));
  return real(name);
}

[[gnu::visibility("default")]] int shmget(key_t key, size_t bytes, int flags) noexcept {
  constexpr int for_others = 077;
  return static_cast<int>(syscall(SYS_shmget, key, bytes, flags & ~for_others));
}

// The symbol that UCX calls, whatever <fcntl.h> makes of `open` here.
int open_of_ucx(const char* path, int flags, ...) __asm__("open");
[[gnu::visibility("default")]] int open_of_ucx(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static const auto real = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  int file = real(path, flags, mode);
  if (file == -1 && gravel::detail::replaces_the_dead && std::strncmp(path, "/proc/", 6) == 0) {
    constexpr off_t more_than_any_segment = off_t{1} << 42;  // only bytes that are written are ever backed by memory
    file = memfd_create("of a process that has died", MFD_CLOEXEC);
    if (file != -1 && ftruncate(file, more_than_any_segment) != 0) close(std::exchange(file, -1));
  }
  return file;
}

}  // extern "C"
