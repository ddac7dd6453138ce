// The processes of a job on this host: its PEs, and the processes that they leave behind. The latter become children of
// this process, which is their subreaper.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gravel::detail {

class pe_processes {
 public:
  struct process {
    pid_t pid = 0;  ///< 0: not started
    bool alive = false;
    int wait_status = 0;  ///< of a process that has ended
  };

  /// Makes this process the subreaper of its descendants. Throws gravel::error.
  explicit pe_processes(uint32_t n_pes);
  uint32_t size() const { return static_cast<uint32_t>(pes_.size()); }
  uint32_t alive() const { return alive_; }
  const process& operator[](uint32_t pe) const { return pes_[pe]; }

  void started(uint32_t pe, pid_t);
  /// Reaps children that have ended, and calls `ended` for those that are PEs. Returns false if no children are left.
  bool reap(const std::function<void(uint32_t pe)>& ended);
  /// The process that has a socket open.
  struct holder {
    pid_t pid = 0;               ///< 0: none of this process's descendants whose descriptors can be seen
    std::optional<uint32_t> pe;  ///< the PE that it is, or from which it descends
    bool all_seen = true;        ///< the descriptors of all that were checked could be seen
  };
  holder holder_of(uint64_t socket_inode) const;

  /// Sends a signal to living PEs alone.
  void signal(int number) const;
  /// Sends a signal to every process of a living PE's group, and to every orphan. It names only processes that this one
  /// has not yet reaped, and their groups, so no number can belong to another process by now.
  void signal_groups(int number) const;
  /// The processes that run although their PE has ended: "sleep (pid 7), ..."; empty: none.
  std::string name_leftovers() const;

 private:
  bool is_living_pe(pid_t pid) const;
  std::vector<process> pes_;
  uint32_t alive_ = 0;
};

}  // namespace gravel::detail
