// The main thread of an aggregator, once all runs: it watches the PEs of its node until they have left, or the job cannot go on.
#pragma once
#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "host/aggregator/gathering.hpp"
#include "host/aggregator/job_state.hpp"
#include "host/node/stall_watch.hpp"

namespace gravel {

class pe_watch {
 public:
  /// `tell_nodes`: ends the planes, and tells other nodes why the job ends.
  pe_watch(local_pes&, job_state&, uint64_t watchdog_s, std::function<void(const std::string&)> tell_nodes);
  /// True: all PEs said goodbye, after the job's last collective. False: the job has failed, and everybody knows why.
  bool run();

 private:
  void look_for_stopped_pes();
  bool hear(size_t pe);
  void end_job(const std::string& why);
  void tell_everybody(const std::string& why);

  local_pes& here_;
  job_state& job_;
  uint64_t watchdog_s_;
  std::function<void(const std::string&)> tell_nodes_;
  std::vector<pe_segment*> segments_;
  std::vector<stall_watch> heartbeats_;
  std::vector<pollfd> watched_;  ///< the PEs' channels, -1 for those that have left; then job_state's
};

}  // namespace gravel
