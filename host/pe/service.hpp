// gravel_service: a resident kernel whose blocks own what messages change (docs/services.md; device side:
// device/service.cuh).
#pragma once
#include <exception>
#include <memory>

#include "device/service_kernel.cuh"
#include "device/service_sender.cuh"
#include "host/pe/services.hpp"

/// Options of a service, the same at all PEs.
struct gravel_service_options {
  uint32_t blocks = 8;           ///< resident blocks of each PE, 1 to 256
  uint32_t chunks = 64;          ///< chunks of each of a service block's two rings; a power of two
  uint32_t chunk_messages = 64;  ///< messages in a chunk, 32 to 1024
};

/// A service. It is open from its constructor to close() or its destructor. The program passes
/// gravel_service_delivery<Service> to gravel_init as a handler.
/// @scope the program's host thread; collective: all PEs open and close the same services in the same order, while no
///   kernel runs
/// @completion on return
/// @errors gravel::error, on all PEs
/// @source Gravel
template <class Service>
class gravel_service {
 public:
  /// Opens the service.
  /// @param service copied to the kernel; it may point to memory of this PE's device
  /// @param how the same at all PEs
  /// @completion on return: the service is resident at all PEs
  /// @errors gravel::error, on all PEs, if the options are impossible or differ, or if there is no room
  explicit gravel_service(const Service& service, const gravel_service_options& how = {})
      : core_(std::make_unique<gravel::detail::open_service>(describe(how, context_with(service)))),
        exceptions_(std::uncaught_exceptions()) {
    gravel_service_handle<Service> inside = handle();
    inside.in_service = true;
    inside.opening = 0;
    core_->start([inside, service, life = core_->life()](void* stream, uint64_t number) {
#if GRAVEL_CUDA
      gravel::detail::serve<Service>
          <<<inside.blocks(), gravel::detail::service_threads<Service>(), 0, static_cast<cudaStream_t>(stream)>>>(
              inside, service, life, number);
#else
      (void)stream;
      gravel::detail::serve<Service>(inside, service, life, number);
#endif
    });
  }
  /// Calls close(), except during an exception: then the other PEs may never come, and messages under way are lost.
  ~gravel_service() noexcept(false) {
    if (core_ && std::uncaught_exceptions() == exceptions_) close();
  }
  /// Moves an open service.
  gravel_service(gravel_service&&) = default;

  /// The handle for kernels of gravel_launch, valid until close().
  /// @scope any host thread
  /// @errors gravel::error if the service is closed
  gravel_service_handle<Service> handle() const {
    if (!core_) gravel::detail::refuse_closed("handle()", "service", Service::name);
    return {core_->handle(), core_->view(), false, core_->opening()};
  }

  /// Ends the service. No kernel that sends may run.
  /// @completion on return: all messages to the service, also those of service blocks, are applied, and it has ended
  void close() {
    if (!core_) return;
    core_->close();
    core_.reset();
  }

 private:
  static_assert(gravel::detail::service_check<Service>::good);
  using context = gravel::detail::service_context<Service>;
  static constexpr bool takes_arrivals = gravel::detail::polls_arrivals<Service>;
  static context context_with(const Service& service) { return {{}, service}; }
  /// Describes the service. `mine` must exist until open_service is constructed, which copies it.
  static gravel::detail::service_description describe(const gravel_service_options& how, const context& mine) {
    return {Service::name,
            {how.blocks, how.chunks, how.chunk_messages, uint32_t{sizeof(typename Service::message)}},
            gravel::detail::service_threads<Service>(),
            gravel::detail::handler_id<gravel_service_delivery<Service>>::value,
            reinterpret_cast<const void*>(&gravel::detail::serve<Service>),
            takes_arrivals ? &mine : nullptr,
            takes_arrivals ? sizeof(mine) : sizeof(gravel::detail::service_view)};
  }
  std::unique_ptr<gravel::detail::open_service> core_;
  int exceptions_ = 0;
};
