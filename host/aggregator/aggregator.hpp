// The aggregator process: one per node. Accepts its PEs, maps their segments, wires itself to the other nodes, runs
// the planes, and ends when its PEs have said goodbye. If anything dies, it ends the job with a message.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/aggregator/collective.hpp"
#include "host/aggregator/fault.hpp"
#include "host/node/hello.hpp"
#include "host/node/node_channel.hpp"
#include "host/aggregator/node_watch.hpp"
#include "host/aggregator/placement.hpp"
#include "host/aggregator/plane.hpp"
#include "host/node/stall_watch.hpp"
#include "host/aggregator/ucx_link.hpp"
#include "transport/ucx_context.hpp"

namespace gravel {

class aggregator {
 public:
  /// `listener`: the socket to which `n_pes` PEs of this node will connect; `parent`: the one that started this.
  aggregator(int listener, uint32_t n_pes, pid_t parent, const settings&);
  ~aggregator();

  /// Returns the exit status: 0 when all PEs said goodbye.
  int run();

 private:
  struct plane_thread;

  void accept_pes();
  void wire();
  void start_planes();
  void bind_plane(plane_thread&) const;
  void run_plane(plane_thread&);
  bool is_expecting(const plane_thread&) const;
  bool ring_bells();
  int watch_pes();
  /// From any thread: the job cannot go on. First text wins. `heard`: from another node, which has printed it.
  void fail_job(const std::string& text, bool heard = false);
  void tell_everybody(const std::string& text);
  void end_planes();
  std::string describe(const plane_thread&) const;
  void look_for_stopped_pes(const std::vector<pollfd>& watched);
  void remove_listener();

  int listener_;
  uint32_t n_local_;
  pid_t parent_;
  injected_fault injected_;
  node_setup setup_;
  spill_budget spill_;
  std::vector<pe_segment> segments_;
  std::vector<node_channel> channels_;  ///< in order of PE
  std::vector<uint32_t> pes_;
  std::vector<int> pids_;
  std::vector<std::string> bus_ids_;  ///< of their GPUs
  placement placement_;
  std::vector<std::pair<uint32_t, std::string>> handlers_;

  std::unique_ptr<ucx_context> ucx_;
  std::vector<std::unique_ptr<ucx_memory>> landing_memory_;
  std::unique_ptr<ucx_memory> transit_memory_;
  char* transit_ = nullptr;
  uint64_t transit_bytes_ = 0;
  std::vector<std::unique_ptr<plane_thread>> planes_;

  std::vector<uint64_t> seen_bells_;   ///< [from][to], by local PE
  std::vector<stall_watch> pe_watches_;  ///< of the local PEs' heartbeats
  std::string stopped_text_;           ///< written before pe_stopped_
  std::atomic<bool> pe_stopped_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false};
  int wake_[2] = {-1, -1};  ///< pipe: planes wake the watching thread
  std::mutex failure_lock_;
  std::string failure_;
  bool failure_is_heard_ = false;
  bool failed_ = false;
};

}  // namespace gravel
