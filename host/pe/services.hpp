// The services of a PE (host/pe/service.hpp) as the runtime sees them: memory, agreement with the other PEs, counts.
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

/// What all PEs say alike about a service.
struct service_description {
  std::string name;
  service_shape shape;
  uint32_t threads;               ///< of a service block
  uint32_t handler;               ///< id of gravel_service_delivery; 0: messages come in another way
  const void* kernel;             ///< CUDA: the function
  const void* context = nullptr;  ///< the handler's, of which the first is a service_view, for open_service to fill in;
                                  ///< nullptr: that alone
  uint64_t context_bytes = sizeof(service_view);
};

class open_service {
 public:
  /// Memory, the same at all PEs. Collective. Throws gravel::error on all PEs, with nothing allocated, if they do not
  /// agree or one has no room; and before that if the description cannot be.
  explicit open_service(const service_description&);
  /// Ends the kernel, if close() has not; then what is under way is lost.
  ~open_service();
  open_service(const open_service&) = delete;
  open_service& operator=(const open_service&) = delete;

  const service_view& view() const { return view_; }
  gravel_t handle() const;
  service_life* life() const { return life_; }
  /// What handles say for those who are not inside (check_open).
  uint32_t opening() const { return opening_; }
  const std::string& name() const { return what_.name; }
  /// Starts the kernel, and returns when it is resident at all PEs and messages may be sent. Collective.
  void start(std::function<void(void* stream, uint64_t number)> run);
  /// Returns when all that was sent is applied and the kernel has ended. Collective.
  void close();

  struct counts {
    uint64_t applied = 0, tickets = 0;  ///< chunks of all its rings
  };
  /// `applied` is read before `tickets`.
  counts read();
  /// A copy of what its service blocks share with those who send. Thread: any.
  std::vector<service_block> read_blocks();
  /// Has its kernel been told to end? Thread: any.
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
