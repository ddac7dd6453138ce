// The memory to which the handles of a PE point: its heap, the producers' words of its queues, reply cells, contexts,
// errors. And the four handles: of kernels, of host threads, of handlers on the device and on the host.
#pragma once
#include <memory>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/heap_memory.hpp"
#include "host/pe/peers.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {

class pe_memory {
 public:
  /// Allocates all the memory. Throws gravel::error that says what does not fit.
  pe_memory(backend&, const pe_segment&, const settings&, uint32_t pe, uint32_t n_pes);
  ~pe_memory();
  pe_memory(const pe_memory&) = delete;
  pe_memory& operator=(const pe_memory&) = delete;

  heap_memory& heap() { return heap_; }
  /// Call it once, when the routes to all PEs are known.
  void make_handles(const peers&);
  /// Sets gravel_t::all_mapped in the handles of kernels. Call it once, when all PEs know.
  void set_all_mapped(bool all) { kernels_.all_mapped = all; }
  const gravel_t& of_kernels() const { return kernels_; }
  const gravel_t& of_host() const { return host_; }
  const gravel_t& of_device_handlers() const { return device_handlers_; }
  const gravel_t& of_host_handlers() const { return host_handlers_; }

  /// Implements gravel_set_context. Any thread.
  void set_context(uint32_t handler, const char* name, sink_kind, void* context);
  /// Copies the producers' words of all queues.
  void read_queue_states(queue_state (&states)[n_queue_kinds]) const;
  /// Number of tickets that host threads have claimed.
  uint64_t host_tickets() const;
  get_window& host_gets() { return host_words_->counters.gets; }
  /// Takes over the counts of answers to host threads.
  void update_host_gets();
  /// True if all gets of kernels that have ended are answered.
  bool kernel_gets_done() const;
  device_counters read_device_counters() const;
  const device_counters& host_counters() const { return host_words_->counters; }
  /// The first error of host threads and of handlers on the host. (That of kernels is pe_control::error.)
  const device_error& host_error() const { return *host_error_; }

 private:
  /// The producers' words of kernels and handlers (device memory), and of host threads (host memory).
  struct producer_words {
    queue_state queues[n_queue_kinds];
    device_counters counters;
    lane_waits waits;  ///< of kernels
  };
  queue queue_for(queue_kind, queue_state*) const;

  backend& device_;
  const pe_segment& segment_;
  const settings& values_;
  uint32_t pe_, n_pes_;
  heap_memory heap_;
  producer_words* device_words_ = nullptr;
  std::unique_ptr<producer_words> host_words_;
  reply_cell* device_cells_ = nullptr;
  std::unique_ptr<reply_cell[]> host_cells_;
  void** device_contexts_ = nullptr;  ///< by the handler's position in gravel_init's list
  std::unique_ptr<void*[]> host_contexts_;
  std::unique_ptr<device_error> host_error_;
  gravel_t kernels_{}, host_{}, device_handlers_{}, host_handlers_{};
};

}  // namespace gravel::detail
