// All that leans on how UCX does things, rather than on what its interface promises: texts that it prints, and
// functions of the C library that it calls. Checked, by test/unit/ucx_test.cpp, with the releases of knows_ucx():
// Debian's 1.13, and 1.14 to 1.22 as PyPI has them (libucx-cu12, by LD_LIBRARY_PATH). With any other, and with texts of
// another form, Gravel takes the way that is right without this knowledge: it may be slower, warn, or leave a name
// behind when it is killed.
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

/// What UCX prints of a context, and of an endpoint.
std::string printed(ucp_context_h);
std::string printed(ucp_ep_h);

/// UCP has no query for the transports of a context, but prints them: does it use shared memory? None: the text has
/// another form.
std::optional<bool> uses_shared_memory(const std::string& printed_context);
/// Nor for those of an endpoint, of which it prints a line per lane, with the words "am" and so on for what it is used
/// for: do active messages go over TCP?
std::optional<bool> sends_messages_over_tcp(const std::string& printed_endpoint);

/// What `look` sees in the text, or `otherwise`, if this UCX is not known or the text has another form. The first time
/// says so.
bool seen_in(const std::string& text, std::optional<bool> (*look)(const std::string&), bool otherwise);

/// While it lives, the next segment that UCX makes in this thread is the beginning of `file`, over which UCX writes
/// zeros. The descriptor stays the caller's.
class segment_offer {
 public:
  explicit segment_offer(int file);
  ~segment_offer();
  segment_offer(const segment_offer&) = delete;
  bool is_taken() const;
};

/// While it lives, memory of a process that has died is replaced by memory that nobody reads, if UCX opens it in this
/// thread. UCX (1.13) reads through a null pointer when a key cannot be attached; so it can, and the death is told by
/// who looks for it.
class dead_memory_guard {
 public:
  dead_memory_guard();
  ~dead_memory_guard();
  dead_memory_guard(const dead_memory_guard&) = delete;
};

/// While it lives, a SIGTERM waits, for this thread and those that it starts meanwhile. When UCX starts it makes a
/// System V segment, to see whether it hears of such, and removes it; who is told to end in between (as all are when
/// another process of the job has died) would leave it behind.
class no_end_meanwhile {
 public:
  no_end_meanwhile();
  ~no_end_meanwhile();
  no_end_meanwhile(const no_end_meanwhile&) = delete;

 private:
  sigset_t before_;
};

// The memory through which the processes of one machine talk is made by UCX, which has no setting for who may see it
// and under what name. In programs that this is linked to, the functions of ucx_quirks.cpp stand before those of the C
// library:
// - UCX's POSIX segments have names in /dev/shm for the milliseconds in which they are made, and a process killed then
// would
//   leave one behind. Here they are memfds, which have no name at all: peers open them as /proc/PID/fd/FD anyway.
//   One may be a file of ours (segment_offer): then peers put into it as into memory of their own, and no processor at
//   this end takes part. UCX cannot share memory so that it did not make.
// - `open` is UCX's way to a peer's segment; under a dead_memory_guard it finds memory even if the peer has died.
// - Its System V segments (if UCX_TLS asks for them) would be the user's group's as well; here they are the user's
// alone.

}  // namespace gravel::detail
