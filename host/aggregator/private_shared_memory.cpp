// The memory through which aggregators of one machine talk is made by UCX, which has no setting for who may see it and under
// what name. The aggregator's own functions stand before those of the C library:
//
// - UCX's POSIX segments have names in /dev/shm for the milliseconds in which they are made, and a process killed then would
//   leave one behind. Here they are memfds, which have no name at all: peers open them as /proc/PID/fd/FD anyway.
// - Its System V segments (if UCX_TLS asks for them) would be the user's group's as well; here they are the user's alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

/// Is this one of UCX's segments, and do its peers open it by its process and descriptor?
bool needs_no_name(const char* name) {
  const char* by_descriptor = std::getenv("UCX_POSIX_USE_PROC_LINK");
  return std::strncmp(name, "/ucx_shm_posix_", 15) == 0 && (!by_descriptor || std::strchr("yYtT1oO", *by_descriptor));
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int shm_open(const char* name, int flags, mode_t mode) {
  if ((flags & O_CREAT) && needs_no_name(name)) return memfd_create(name + 1, MFD_CLOEXEC);
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

}  // extern "C"
