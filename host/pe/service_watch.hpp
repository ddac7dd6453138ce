// The services that this PE has open, and whether they move: no aggregator sees their rings.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "host/node/stall_watch.hpp"
#include "host/pe/services.hpp"

namespace gravel {

class service_watch {
 public:
  explicit service_watch(uint32_t pe) : pe_(pe) {}

  /// Thread of these three: the program's.
  const std::vector<open_service*>& open() const { return open_; }
  void add(open_service&);
  /// When it returns nobody looks at the service any more.
  void remove(open_service&);

  /// One of the looks of a stall_watch, in `limit_s` seconds. Returns what has stopped, in words; nothing if all moves. Thread: any one.
  std::string look(uint64_t limit_s);
  /// How the servers stand, a line for each. Thread: any.
  std::string describe();

 private:
  struct watched {
    std::vector<stall_watch> servers;
    stall_watch end;
  };
  uint32_t pe_;
  std::mutex lock_;  ///< of all that follows where it is changed, or used by another thread
  std::vector<open_service*> open_;
  std::map<const open_service*, watched> watches_;
};

}  // namespace gravel
