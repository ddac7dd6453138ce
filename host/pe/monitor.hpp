// The thread of a PE that listens to the aggregator and to the launcher, and looks whether what the PE depends on still moves. It
// ends the process when the job has ended elsewhere.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "host/pe/job_end.hpp"
#include "host/pe/peers.hpp"
#include "host/pe/service_watch.hpp"

namespace gravel {

class monitor {
 public:
  monitor(const membership&, aggregator_link&, job_end&, pe_control& shared);
  /// Ends the thread, if it has not ended yet.
  ~monitor();
  monitor(const monitor&) = delete;
  monitor& operator=(const monitor&) = delete;

  /// All is set up: watches these as well, of which the aggregator knows nothing. `describe`: how the PE stands, for who
  /// looks into a job that does not go on. All are used until stop().
  void watch(peers& rings, service_watch& services, std::function<std::string()> describe);
  /// The launcher reports the end of a PE, or is gone itself. Thread: any.
  void hear_of_launcher(const std::string& text);
  void stop();

 private:
  void run();
  std::optional<frame> wait_for_word();
  std::string describe() const { return watching_ ? describe_() : "the job was still starting"; }

  const membership& job_;
  aggregator_link& link_;
  job_end& end_;
  pe_control& shared_;
  peers* rings_ = nullptr;  ///< these three written before watching_
  service_watch* services_ = nullptr;
  std::function<std::string()> describe_;
  std::atomic<bool> watching_{false};
  std::string launcher_text_;  ///< written before launcher_reports_
  std::atomic<bool> launcher_reports_{false};
  std::thread thread_;
};

}  // namespace gravel
