// A PE's membership in a job: everything between gravel_init and gravel_finalize. The functions of host/gravel.hpp
// are thin wrappers around the one runtime of the process.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "host/pe/backend.hpp"
#include "host/pe/collective_member.hpp"
#include "host/node/node_channel.hpp"
#include "host/pe/peers.hpp"
#include "host/node/segment.hpp"
#include "host/node/stats.hpp"
#include "host/pe/symmetric_heap.hpp"
#include "lib/base/topology.hpp"
#include "transport/bootstrap.hpp"

namespace gravel {

class runtime {
 public:
  explicit runtime(std::unique_ptr<backend>);
  ~runtime();

  const topology& nodes() const { return nodes_; }
  uint32_t pe() const { return pe_; }
  const settings& values() const { return values_; }
  backend& device() { return *device_; }
  gravel_t kernel_handle() const { return kernel_handle_; }
  gravel_t host_handle() const { return host_handle_; }

  symmetric_heap& heap() { return *symmetric_; }
  /// A collective call of this PE. Thread: any.
  collective_member::call begin_collective(collective_kind kind, uint64_t argument = 0, uint64_t another = 0) {
    return collectives_->begin(kind, argument, another);
  }

  /// gravel_set_context. Any thread.
  void set_context(uint32_t handler, const char* name, sink_kind, void* context);

  void quiet();
  void barrier_all();
  void wait_quiescent();
  void update_host_gets();
  void finalize();
  /// In a process that was forked from this PE, which is no PE: lets go of what belongs to the PE. Signal-safe.
  void forget_in_child();
  /// Prints the text, tells the others, ends this process. Any thread.
  [[noreturn]] void abort_job(const std::string& text, int status);

  /// Set while gravel_init still runs, too: which PE this is.
  static inline std::atomic<uint32_t> own_pe{0};
  /// True on the thread that runs handlers on the host.
  static inline thread_local bool runs_handlers = false;

 private:
  struct sample;
  void check_same_program();
  void start_aggregator();
  void connect();
  void greet_aggregator(const segment_shape&);
  void make_handles();
  void map_peers();
  void exchange_wiring();
  void receive_loop();
  void monitor_loop();
  std::optional<frame> wait_for_word();
  std::string describe_lost_aggregator() const;
  [[noreturn]] void fail_without_aggregator() const;
  void check_device_error();
  std::string name_of_handler(uint64_t id) const;
  std::string describe();
  sample take_sample();
  void settle_host();
  void settle_kernels();
  /// Waits for `ready`, giving the monitor's errors precedence.
  template <class F>
  void wait_until(F ready);
  queue queue_for(queue_kind kind, queue_state*) const;
  void read_queue_states(queue_state (&)[n_queue_kinds]);
  void report_stats(collective_member::call&);
  void stop_receiving();

  settings values_;
  std::unique_ptr<backend> device_;
  std::unique_ptr<bootstrap> boot_;
  topology nodes_;
  uint32_t pe_ = 0, node_ = 0, local_rank_ = 0, local_size_ = 1;
  bool is_leader_ = false;  ///< first PE of its node
  pid_t aggregator_pid_ = -1;
  std::string socket_path_;
  std::optional<node_listener> listener_;  ///< of the leader, until its node has connected
  std::optional<pe_segment> segment_;
  std::optional<node_channel> channel_;
  std::optional<collective_member> collectives_;
  std::optional<symmetric_heap> symmetric_;

  /// Producers' words of kernels and handlers (device memory), and of host threads (host memory).
  struct producer_state {
    queue_state queues[n_queue_kinds];
    device_counters counters;
  };
  producer_state* device_state_ = nullptr;
  std::unique_ptr<producer_state> host_state_;
  reply_cell* device_cells_ = nullptr;
  std::unique_ptr<reply_cell[]> host_cells_;
  void** device_contexts_ = nullptr;  ///< by position of the handler in gravel_init's list
  std::unique_ptr<void*[]> host_contexts_;
  std::unique_ptr<device_error> host_error_;
  char* heap_ = nullptr;
  std::optional<peers> peers_;
  gravel_t kernel_handle_{}, host_handle_{}, device_handler_handle_{}, host_handler_handle_{};

  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};  ///< all is set up
  std::atomic<bool> leaving_{false};
  std::atomic<bool> ended_elsewhere_{false};  ///< somebody else ends the job, and has said why
  std::atomic<bool> launcher_reports_{false};  ///< the launcher reports the end of a PE, or is gone itself
  std::string launcher_text_;  ///< written before launcher_reports_
  std::thread receiver_, monitor_;
};

/// The runtime of this process; throws gravel::error naming `caller` outside gravel_init .. gravel_finalize.
runtime& current_runtime(const char* caller);
/// For what waits; throws in a handler, which would wait for itself.
runtime& waiting_runtime(const char* caller);

}  // namespace gravel
