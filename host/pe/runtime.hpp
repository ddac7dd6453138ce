// A PE's part in a job, between gravel_init and gravel_finalize: builds it from its objects, and takes it apart. The
// functions of lib/gravel/gravel.hpp are thin wrappers around the one runtime of the process.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/node/stats.hpp"
#include "host/pe/aggregator_link.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/collective_member.hpp"
#include "host/pe/completion.hpp"
#include "host/pe/job_end.hpp"
#include "host/pe/membership.hpp"
#include "host/pe/monitor.hpp"
#include "host/pe/pe_memory.hpp"
#include "host/pe/peers.hpp"
#include "host/pe/queue_watch.hpp"
#include "host/pe/receiver_thread.hpp"
#include "host/pe/service_watch.hpp"
#include "host/pe/symmetric_heap.hpp"
#include "host/pe/teams.hpp"

namespace gravel::detail {

class runtime {
 public:
  /// Sets up this PE's part in the job. Collective. Throws gravel::error.
  runtime(std::unique_ptr<backend>, std::unique_ptr<bootstrap>);
  ~runtime();

  const topology& nodes() const { return job_.nodes; }
  uint32_t pe() const { return job_.pe; }
  const settings& values() const { return job_.values; }
  backend& device() { return *device_; }
  pe_memory& memory() { return *memory_; }
  symmetric_heap& heap() { return *symmetric_; }
  completion& done() { return *completion_; }
  /// Returns the address at which kernels reach the heap of `pe` without messages; nullptr if they do not.
  char* mapped_heap(uint32_t pe) const {
    const gravel_t& g = memory_->of_kernels();
    if (pe == g.my_pe) return g.self_in_place ? g.heap : nullptr;
    return g.peers ? peers_->heap_of(pe) : nullptr;
  }
  service_watch& services() { return services_; }
  team_table& teams() { return teams_; }
  const team_table& teams() const { return teams_; }
  /// By PE: whether kernels of this PE reach its memory.
  std::vector<bool> reached() const;
  /// Begins a collective call of this PE. Any thread.
  collective_member::call begin_collective(collective_kind kind, uint64_t argument = 0, uint64_t another = 0) {
    return collectives_->begin(kind, argument, another);
  }

  /// Reads the statistics of this PE; at the first PE of a node also those of the aggregator. Any host thread.
  stats_row read_stats() const;
  /// Leaves the job. Collective. Returns why the file of GRAVEL_STATS_JSON could not be written, or an empty text.
  std::string finalize();
  /// Called in a process that was forked from this PE, which is no PE: closes what belongs to the PE. Signal-safe.
  void forget_in_child() { link_->forget_in_child(); }
  /// Prints the text, notifies the other PEs, and ends this process. Any thread.
  [[noreturn]] void abort_job(const std::string& text, int status) { end_->abort(text, status); }

 private:
  void agree_on_program();
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine);
  void find_domain();
  uint64_t least_heap_limit(uint64_t mine);
  bool is_on_one_host();
  std::string report_stats(collective_member::call&);
  message_matrix gather_messages(collective_member::call&, const stats_row& mine) const;
  void connect();
  void set_up_messages();
  void start_receiver();
  void check_errors();
  std::string describe();

  std::unique_ptr<backend> device_;
  membership job_;
  std::vector<uint32_t> domain_;  ///< PEs whose memory this PE may map, with itself
  bool uses_fabric_ = false;      ///< a PE of the job has fabric handles
  std::optional<aggregator_link> link_;
  std::optional<pe_segment> segment_;
  std::optional<collective_member> collectives_;
  std::optional<job_end> end_;
  std::optional<monitor> monitor_;
  std::optional<pe_memory> memory_;
  std::optional<peers> peers_;
  std::optional<symmetric_heap> symmetric_;
  std::optional<queue_watch> queues_;
  service_watch services_{job_.pe};
  team_table teams_;
  std::optional<completion> completion_;
  std::optional<receiver_thread> receiver_;
};

/// The runtime of this process. Throws gravel::error that names `caller` outside gravel_init .. gravel_finalize.
runtime& current_runtime(const char* caller);
/// As current_runtime(), for a call that waits. Throws gravel::error in a handler, which would wait for itself.
runtime& waiting_runtime(const char* caller);

}  // namespace gravel::detail
