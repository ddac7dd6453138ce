// One thread of an aggregator: steps its plane, hears what the same plane of other nodes says, and ends the job when it cannot go
// on. That of plane 0 also has the node's duties.
#pragma once
#include <memory>
#include <string>
#include <thread>

#include "host/aggregator/job_state.hpp"
#include "host/aggregator/network.hpp"
#include "host/aggregator/node_duties.hpp"
#include "host/aggregator/placement.hpp"
#include "host/aggregator/plane.hpp"

namespace gravel {

class plane_thread {
 public:
  /// `network`: nullptr if there is one node. `staging` and `transit` as for plane.
  plane_thread(const node_setup&, uint32_t index, plane_network* network, char* staging, char* transit, const placement&, job_state&);
  /// Begins to run. All planes are made before the first of them starts.
  void start();
  /// Waits for the end of the thread, which job_state::stop asks for.
  void join();
  plane_thread(const plane_thread&) = delete;
  plane_thread& operator=(const plane_thread&) = delete;

 private:
  void run();
  bool round(uint64_t now);
  void bind();
  void receive(std::span<const std::byte> header, std::span<const std::byte> data);
  bool is_expecting() const;
  bool has_failed(uint64_t now);
  std::string describe() const;

  const node_setup& setup_;
  uint32_t index_;
  plane_network* network_;
  const placement& placement_;
  job_state& job_;
  plane plane_;
  std::unique_ptr<node_duties> duties_;  ///< plane 0
  bool received_ = false;                ///< in this round; UCX's own keep-alive traffic is no progress of the job
  std::string binding_;                  ///< in words, if it is bound
  std::string heard_;                    ///< another node's reason for ending the job
  std::jthread thread_;
};

}  // namespace gravel
