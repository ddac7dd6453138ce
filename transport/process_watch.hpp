// Learning of the end of other processes of this machine.
//
// Over shared memory UCX's keepalive asks whether the peer's entry in /proc exists: every two seconds at
// best, and a process that was killed keeps its entry until its parent reaps it, maybe for ever. A pidfd
// tells the end at once.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel {

/// Names a process so that another can tell whether it is visible to it, and watch it. Plain data, to be
/// sent.
struct process_identity {
  uint64_t boot;           ///< which boot of which machine (hash of the kernel's boot_id)
  uint64_t pid_namespace;  ///< in which `pid` counts
  uint64_t pid;
  uint64_t start;  ///< when it started, in clock ticks since the boot: a number may be given to a later process; 0: unknown
};

process_identity this_process();
/// When a process of this machine and container started, as in process_identity; 0: it is gone, or /proc does not tell.
uint64_t start_of_process(uint64_t pid);

/// A set of processes to watch; for one thread.
class process_watch {
 public:
  /// Watches `process`; `tag`, unique in this watch, is what ended() will return. Returns false, and watches
  /// nothing, if it runs on another machine or in another container, is this process itself, or the kernel
  /// knows no pidfd. A process that has ended already is watched: ended() returns it at once, also if its
  /// number belongs to another process by now.
  bool add(const process_identity& process, void* tag);
  void remove(void* tag);

  /// The tag of a watched process that has ended, once each; null if there is none. One system call, or none
  /// if nothing is watched.
  void* ended();

 private:
  owned_descriptor poll_;                    ///< epoll
  std::map<void*, owned_descriptor> files_;  ///< tag -> pidfd
  std::vector<void*> gone_;                  ///< had ended before they could be watched
};

}  // namespace gravel
