// The aggregator process: one per node. It gathers its PEs, connects to the other nodes, runs the planes, and ends when its PEs
// have said goodbye, or when the job cannot go on: then everybody hears why.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host/aggregator/fault.hpp"
#include "host/aggregator/gathering.hpp"
#include "host/aggregator/job_state.hpp"
#include "host/aggregator/network.hpp"
#include "host/aggregator/placement.hpp"
#include "host/aggregator/plane_thread.hpp"

namespace gravel {

class aggregator {
 public:
  /// `here`: the PEs of its node.
  aggregator(local_pes here, const settings&);
  ~aggregator();

  /// Throws gravel::error if it cannot begin. Returns the exit status: 0 when all PEs said goodbye.
  int run();

 private:
  void connect_nodes();
  void start_planes();
  /// From now on nothing moves; says last words to other nodes, if there are any.
  void end_planes(const std::string& last_words);

  local_pes here_;
  injected_fault injected_;
  spill_budget spill_;
  node_setup setup_;
  placement placement_;
  job_state job_;
  // In this order: UCX, then what is registered with it, and the planes last, end in reverse.
  std::span<char> transit_;
  std::vector<std::span<char>> staging_;  ///< by plane
  std::optional<network> network_;        ///< none if there is one node
  std::vector<std::unique_ptr<plane_thread>> planes_;
};

}  // namespace gravel
