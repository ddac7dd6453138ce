// The watchdog's reports of waits. A wait for another party that lasts for GRAVEL_WATCHDOG_S is reported; the wait goes
// on. This file defines a report and how it reaches the PE's monitor. The model is test/models/wait_report.pml.
//
// A PE's kernels have one report, a ring of one slot (ring.hpp) in memory that the monitor sees:
//
//   lane that has waited for long, at intervals                      monitor (host/pe/wait_reports.hpp)
//   the report before has been read?          [P2]                   published == read + 1?        [P1]
//   ticket = claimed++, unless another lane was first                prints it
//   writes it; published = ticket + 1         [P1]                   read = ticket + 1             [P2]
#pragma once
#include <cstdint>

#include "lib/base/ring.hpp"
#include "lib/base/turn.hpp"
#if !GRAVEL_CUDA
#include <string>
#endif

namespace gravel::detail {

/// What a wait is for: the rest of the sentence "a kernel has waited 60 s for". The names in braces are members of
/// wait_subject.
#define GRAVEL_AWAITED(X)                                                                                            \
  X(word, "{place} to be {compare} {wanted} (gravel_wait_until or gravel_wait); it is {found}")                      \
  X(event, "an event: {place} is to be {compare} {wanted}, and is {found}")                                          \
  X(packet, "packet {wanted} of the link from PE {pe}: it has not come, and the link is not shut down")              \
  X(buffer,                                                                                                          \
    "a free buffer for packet {wanted} of the link to PE {pe}: what was sent before has not been released there. A " \
    "host thread that sends and receives must receive before it waits for what it sends: use two threads, or poll "  \
    "gravel_pending_segment::is_ready()")                                                                            \
  X(outputs,                                                                                                         \
    "a free buffer at one of the {wanted} outputs of a router: nothing of what was sent there has been released. A " \
    "host thread that sends and receives must receive before it waits for what it sends: use two threads, or poll "  \
    "gravel_pending_segment::is_ready()")                                                                            \
  X(path, "results along the path of a router, from PE {pe}: that PE has not come to the same call")                 \
  X(collective, "PE {pe} to call a collective of kernels (gravel_barrier_block and the like), too")                  \
  X(members, "the other members of a team to call gravel_team_join, too")                                            \
  X(grid, "the other blocks of its grid to call a collective of kernels, too")                                       \
  X(reduction, "PE {pe} to come to the same reduction, call {wanted} of this slice")                                 \
  X(rendezvous, "PE {pe} to come to round {wanted}; it is in round {found}")                                         \
  X(task_slot, "a free slot for a task at PE {pe}: all slots there are taken by tasks that have not ended")          \
  X(worklist, "PE {pe} to work off its vertices of an asynchronous worklist: none is left here")                     \
  X(channel_room,                                                                                                    \
    "room for an element in a channel of {wanted}: no consumer frees any, and the channel is not closed")            \
  X(channel_element,                                                                                                 \
    "an element of a channel: none is put into it, and it has not ended. It ends when it is closed and consumers "   \
    "have freed all that they took")                                                                                 \
  X(tasks, "PE {pe} to finish its own tasks of a shared task graph: none of this PE's own is left")
enum class awaited : uint8_t { GRAVEL_AWAITED(GRAVEL_NAME) count };

enum class comparison : uint8_t { eq, ne, gt, ge, lt, le, count };

/// What a lane waits for: plain data. A member that the text does not name has no meaning.
struct wait_subject {
  awaited what;
  comparison compare = comparison::ge;
  uint8_t type = 3;        ///< value_type of wanted and found; 3: u64
  uint32_t pe = 0;         ///< the PE for which the lane waits
  uint64_t offset = none;  ///< of a word in the own symmetric heap; `none`: it lies elsewhere
  uint64_t wanted = 0, found = 0;
  static constexpr uint64_t none = ~uint64_t{0};
};

/// The lane that waits.
struct lane_place {
  uint32_t block[3], thread[3];
};

/// The report, in host memory that kernels reach.
struct wait_report {
  alignas(64) uint64_t published;  ///< written by lanes
  uint64_t waited_ns;
  wait_subject subject;
  lane_place place;
  alignas(64) uint64_t read;  ///< written by the monitor: reports that it has taken
};

/// The words that a PE's lanes share, in device memory.
struct alignas(64) lane_waits {
  uint64_t patience_ns;  ///< a wait that has lasted so long is reported; 0: none is
  uint64_t next_turn;    ///< the time from which on a lane may poll the report again
  uint64_t claimed;      ///< reports so far
  wait_report* report;
};

/// Reports the wait of a lane if it has lasted long enough. `since`: the result of the lane's last call during this
/// wait; 0: this is its first call.
/// @return the value for `since` of the next call
/// @scope lane
GRAVEL_BOTH uint32_t note_lane_wait(lane_waits& waits, uint64_t now_ns, uint32_t since, const wait_subject& subject,
                                    const lane_place& place) {
  constexpr uint32_t shift = 20;  // about milliseconds, as 32 bits
  const auto now = static_cast<uint32_t>(now_ns >> shift);
  if (since == 0) return now ? now : 1;
  const uint64_t waited = uint64_t{now - since} << shift, patience = waits.patience_ns;
  if (patience == 0 || waited < patience) return since;
  in_turn(&waits.next_turn, patience / 64, [&] {
    wait_report& report = *waits.report;
    const uint64_t ticket = load_relaxed<scope::device>(&waits.claimed);
    if (!slot_is_free(ticket, load_acquire(&report.read), 1)) return false;  // [P2]
    if (!compare_swap_acquire<scope::device>(&waits.claimed, ticket, ticket + 1)) return false;
    report.waited_ns = waited;
    report.subject = subject;
    report.place = place;
    ring<>::publish(&report.published, ticket);  // [P1]
    return true;
  });
  return since;
}

/// The times at which a wait is reported: after the patience, then whenever it has lasted twice as long.
class report_times {
 public:
  bool is_due(uint64_t waited_ns, uint64_t patience_ns) {
    if (waited_ns < (next_ns_ ? next_ns_ : patience_ns)) return false;
    next_ns_ = 2 * waited_ns;
    return true;
  }

 private:
  uint64_t next_ns_ = 0;
};

#if !GRAVEL_CUDA
std::string text_of(const wait_subject&);
#endif

}  // namespace gravel::detail
