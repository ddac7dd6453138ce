// UCX makes its System V segments, through which aggregators of one machine talk, readable and writable for the user's
// group, and has no setting for that. The aggregator's own shmget stands before that of the C library and gives them to
// the user alone.
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" [[gnu::visibility("default")]] int shmget(key_t key, size_t bytes, int flags) noexcept {
  constexpr int for_others = 077;
  return static_cast<int>(syscall(SYS_shmget, key, bytes, flags & ~for_others));
}
