// The services of a PE (host/pe/service.hpp) as the runtime sees them: memory, agreement with other PEs, counts.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "device/handle.cuh"
#include "host/node/collective_call.hpp"
#include "host/pe/pinned_array.hpp"
#include "host/pe/resident_kernel.hpp"

namespace gravel::detail {

class runtime;

/// Description of a service. All PEs must agree on it.
struct service_description {
  std::string name;
  service_shape shape;
  uint32_t threads;    ///< threads of a service block
  uint32_t handler;    ///< id of gravel_service_delivery; 0: messages come in another way
  const void* kernel;  ///< CUDA: the function
  /// the handler's context, which begins with a service_view that open_service fills in; nullptr: it has only that view
  const void* context = nullptr;
  uint64_t context_bytes = sizeof(service_view);
};

class open_service {
 public:
  /// Allocates memory, the same at all PEs. Collective. Throws gravel::error on all PEs, with nothing allocated, if
  /// they do not agree or one has no room. Throws it before that if the description is not possible.
  explicit open_service(const service_description&);
  /// Ends the kernel unless close() has done so. Then messages under way are lost.
  ~open_service();
  open_service(const open_service&) = delete;
  open_service& operator=(const open_service&) = delete;

  const service_view& view() const { return view_; }
  gravel_t handle() const;
  service_life* life() const { return life_; }
  /// Number that handles carry outside of the service, to detect a closed one (check_open).
  uint32_t opening() const { return opening_; }
  const std::string& name() const { return what_.name; }
  /// Starts the kernel. Returns when it is resident at all PEs and messages may be sent. Collective.
  void start(std::function<void(void* stream, uint64_t number)> run);
  /// Returns when all messages are applied and the kernel has ended. Collective.
  void close();

  struct counts {
    uint64_t applied = 0, tickets = 0;  ///< chunks of all its rings
  };
  /// `applied` is read before `tickets`.
  counts read();
  /// A copy of the words that its service blocks share with senders. Any thread.
  std::vector<service_block> read_blocks();
  /// True if the kernel was requested to end. Any thread.
  bool is_to_end() const { return is_to_end_; }

 private:
  void agree(collective_kind);
  void let_go();
  void forget();

  runtime* job_;
  service_description what_;
  char* memory_ = nullptr;  ///< of the device: rings, then a service_life, then the handler's context
  service_life* life_ = nullptr;
  pinned_array<service_control> control_;
  service_view view_{};
  uint32_t opening_ = 0;
  resident_kernel kernel_{};
  bool runs_ = false;
  std::atomic<bool> is_to_end_{false};
};

}  // namespace gravel::detail
