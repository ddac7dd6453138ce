// Learning of the end of other processes of this machine.
//
// Over shared memory UCX's keepalive asks whether the peer's entry in /proc exists: every two seconds at
// best, and a process that was killed keeps its entry until its parent reaps it, maybe for ever. A pidfd
// tells the end at once.
#pragma once
#include <map>

#include "lib/base/descriptor.hpp"
#include "lib/base/process_identity.hpp"

namespace gravel::detail {

/// A set of processes to watch; for one thread.
class process_watch {
 public:
  /// Watches `process`; `tag`, unique in this watch, is what ended() will return. Returns false, and watches
  /// nothing, if it runs on another machine or in another container, is this process itself, or the kernel
  /// knows no pidfd. A process that has ended already is watched: ended() returns it at once, also if its
  /// number belongs to another process by now.
  bool add(const process_identity& process, void* tag);
  void remove(void* tag);

  /// The tag of a watched process that has ended, once each; null if there is none. A system call for each.
  void* ended();

 private:
  std::map<void*, owned_descriptor> watched_;  ///< tag -> pidfd; none: had ended before it could be watched
};

}  // namespace gravel::detail
