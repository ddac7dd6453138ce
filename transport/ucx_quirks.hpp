// All code that depends on how UCX does things, rather than on what its interface promises: texts that it prints, and
// functions of the C library that it calls.
//
// test/unit/ucx_test.cpp checks it with the releases of knows_ucx(): Debian's 1.13, and 1.14 to 1.22 from PyPI
// (libucx-cu12, by LD_LIBRARY_PATH). With any other release, and with texts of another form, Gravel uses the path that
// is correct without this knowledge: it may be slower, warn, or leave a name behind when it is killed.
#pragma once
#include <signal.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gravel::detail {

/// major * 1000 + minor of the UCX that this process runs.
uint32_t ucx_release();
constexpr bool knows_ucx(uint32_t release) { return release >= 1013 && release <= 1022; }

/// The text that UCX prints about a context, and about an endpoint.
std::string printed(ucp_context_h);
std::string printed(ucp_ep_h);

/// True if a context uses shared memory. UCP has no query for the transports of a context, but prints them. None: the
/// text has another form.
std::optional<bool> uses_shared_memory(const std::string& printed_context);
/// True if active messages of an endpoint go over TCP. UCP has no query for its transports, either, but prints a line
/// for each lane, with the words "am" and so on for its uses. None: the text has another form.
std::optional<bool> sends_messages_over_tcp(const std::string& printed_endpoint);

/// The result of `parse` on the text, or `otherwise` if this UCX is not known or the text has another form. Logs a
/// warning the first time.
bool seen_in(const std::string& text, std::optional<bool> (*parse)(const std::string&), bool otherwise);

/// While it exists, the next segment that UCX makes in this thread is the beginning of `file`, over which UCX writes
/// zeros. The caller keeps the descriptor.
class segment_offer {
 public:
  explicit segment_offer(int file);
  ~segment_offer();
  segment_offer(const segment_offer&) = delete;
  bool is_taken() const;
};

/// While it exists, UCX can open memory of a process that has died, in this thread: it finds memory that nobody reads
/// instead. Without it UCX (1.13) reads through a null pointer when it cannot attach a key. The code that watches for
/// the death reports it.
class dead_memory_guard {
 public:
  dead_memory_guard();
  ~dead_memory_guard();
  dead_memory_guard(const dead_memory_guard&) = delete;
};

/// While it exists, a SIGTERM is deferred, for this thread and those that it starts meanwhile. When UCX starts it makes
/// a System V segment, to check whether that works, and removes it. A process that is ended in between (all are when
/// another process of the job has died) would leave it behind.
class no_end_meanwhile {
 public:
  no_end_meanwhile();
  ~no_end_meanwhile();
  no_end_meanwhile(const no_end_meanwhile&) = delete;

 private:
  sigset_t before_;
};

// UCX makes the memory through which the processes of one machine communicate. It has no setting for who may see that
// memory and under what name. In programs that link this library, the functions of ucx_quirks.cpp take the place of
// those of the C library:
//   - UCX's POSIX segments have names in /dev/shm for the milliseconds in which they are made, and a process killed
//     then would leave one behind. Here they are memfds, which have no name at all: peers open them as
//     /proc/PID/fd/FD anyway. One may be a file of Gravel (segment_offer): then peers put into it as into memory of
//     their own, and no processor at this end takes part. UCX cannot share memory in this way if it did not make it.
//   - UCX uses `open` to reach a peer's segment. Under a dead_memory_guard it finds memory even if the peer has died.
//   - Its System V segments (if UCX_TLS asks for them) would be accessible to the user's group. Here only the user can
//     access them.

}  // namespace gravel::detail
