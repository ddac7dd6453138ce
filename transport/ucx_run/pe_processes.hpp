// The processes of a job on this host: its PEs, and whatever they leave behind, which become ours as we are their
// subreaper.
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
    int wait_status = 0;  ///< of one that has ended
  };

  /// Makes this process the subreaper of its descendants. Throws gravel::error.
  explicit pe_processes(uint32_t n_pes);
  uint32_t size() const { return static_cast<uint32_t>(pes_.size()); }
  uint32_t alive() const { return alive_; }
  const process& operator[](uint32_t pe) const { return pes_[pe]; }

  void started(uint32_t pe, pid_t);
  /// Takes in the ends of children, and tells those of PEs. False if no children are left.
  bool reap(const std::function<void(uint32_t pe)>& ended);
  /// Who has a socket open.
  struct holder {
    pid_t pid = 0;               ///< 0: none of this process's descendants whose descriptors can be seen
    std::optional<uint32_t> pe;  ///< itself, or whose descendant it is
    bool all_seen = true;        ///< of those that were looked at
  };
  holder holder_of(uint64_t socket_inode) const;

  /// To living PEs alone.
  void signal(int number) const;
  /// To every process that belongs to a living PE's group, and to every orphan. Only processes that we have not yet
  /// reaped, and groups of such, are named, so no number can belong to somebody else by now.
  void signal_groups(int number) const;
  /// "sleep (pid 7), ...": what runs although its PE has ended; empty: nothing.
  std::string name_leftovers() const;

 private:
  bool is_living_pe(pid_t pid) const;
  std::vector<process> pes_;
  uint32_t alive_ = 0;
};

}  // namespace gravel::detail
