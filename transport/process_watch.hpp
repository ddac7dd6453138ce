// Detects the end of other processes of this machine.
//
// Problem. Over shared memory UCX's keepalive checks whether the peer's entry in /proc exists: every two seconds at
// best, and a process that was killed keeps its entry until its parent reaps it, which may never happen.
// Solution. A pidfd reports the end at once.
#pragma once
#include <map>

#include "lib/base/descriptor.hpp"
#include "lib/base/process_identity.hpp"

namespace gravel::detail {

/// A set of processes to watch; for one thread.
class process_watch {
 public:
  /// Watches `process`. ended() will return `tag`, which must be unique in this watch. Returns false, and watches
  /// nothing, if the process runs on another machine or in another container, is this process itself, or the kernel has
  /// no pidfds. If the process has ended already, ended() returns it at once, even if its number belongs to another
  /// process by now.
  bool add(const process_identity& process, void* tag);
  void remove(void* tag);

  /// The tag of a watched process that has ended, once for each; null if there is none. Costs a system call for each
  /// process.
  void* ended();

 private:
  std::map<void*, owned_descriptor> watched_;  ///< tag -> pidfd; none: the process had ended before
};

}  // namespace gravel::detail
