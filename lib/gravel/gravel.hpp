// Gravel's host API. All calls are for one thread of a PE unless said otherwise. Errors are thrown as gravel::error;
// one that nobody catches ends the PE, and with it the job, with a message.
#pragma once
#include <concepts>
#include <cstdint>

#include "host/pe/collectives.hpp"
#include "host/pe/launch_config.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/version.hpp"
#if GRAVEL_CUDA
#include "host/pe/cuda_program.cuh"
#else
#include "host/pe/backend_cpu.hpp"
#endif

namespace gravel::detail {
void* allocate_symmetric(uint64_t bytes);
void set_context(uint32_t handler, const char* name, sink_kind, void* context);
void* create_stream();
void destroy_stream(void*);
void synchronize_stream(void*);
void wait_in_stream(void* stream, const uint64_t* word, uint64_t value);
void write_in_stream(void* stream, uint64_t* word, uint64_t value);
#if GRAVEL_CUDA
template <class... P>
void launch_kernel(void (*kernel)(P...), const gravel_launch_config& how, P... values) {
  void* arguments[] = {&values..., nullptr};
  launch_on_cuda(reinterpret_cast<const void*>(kernel), how, arguments);
}
#else
void launch_on_cpu(const gravel_launch_config& how, std::function<void()> lane);
template <class... P>
void launch_kernel(void (*kernel)(P...), const gravel_launch_config& how, P... values) {
  launch_on_cpu(how, [=] { kernel(values...); });
}
#endif
}  // namespace gravel::detail

/// Joins the job and registers the handlers that active messages may run here. Collective: all PEs name the same
/// handlers. A program started without a launcher is a job of one PE. Throws if the program was compiled with the
/// headers of another version.
template <class... Handlers>
void gravel_init() {
  if constexpr ((gravel::detail::handler_check<Handlers>::good && ...)) {
#if GRAVEL_CUDA
    gravel::detail::check_program({GRAVEL_VERSION, nullptr});
    gravel::detail::start_on_cuda(gravel::detail::cuda_program::of<gravel::detail::handler_list<Handlers...>>());
#else
    gravel::detail::check_program({GRAVEL_VERSION, &threadIdx});
    gravel::detail::start(std::make_unique<gravel::detail::cpu_backend<gravel::detail::handler_list<Handlers...>>>());
#endif
  }
}
/// Leaves the job. Collective. All symmetric memory is freed; statistics are printed if GRAVEL_STATS asks for them.
/// Throws gravel::error on PE 0, when all have left, if the file of GRAVEL_STATS_JSON cannot be written: the old one is
/// as it was.
void gravel_finalize();
/// `Handler`, which has `using context = T;`, is given this pointer at this PE from now on. Device handlers read memory
/// of the device there (symmetric or not), host handlers memory of the host. Not collective, any thread: messages that
/// are being applied meanwhile get the old pointer or the new one. A message for which there is none yet ends the job;
/// so that none arrives before, call it before gravel_barrier_all, and let nobody send before that.
template <class Handler>
void gravel_set_context(typename Handler::context* context) {
  if constexpr (gravel::detail::handler_check<Handler>::good)
    gravel::detail::set_context(gravel::detail::handler_id<Handler>::value, Handler::name,
                                gravel::detail::handler_traits<Handler>::kind,
                                const_cast<void*>(static_cast<const volatile void*>(context)));
}
/// Ends the whole job with this message and exit status. Any thread.
[[noreturn]] void gravel_abort(const char* text, int status = 1);

int gravel_my_pe();
int gravel_n_pes();
/// The node of a PE: the PEs that share memory (or, with emulated nodes, that shall behave so), and their number.
int gravel_node_of(int pe);
int gravel_n_nodes();
/// "cpu" or "cuda", and what the device is.
const char* gravel_backend();
const char* gravel_version();

/// Handle for kernels; pass it by value. And for host threads: gravel_put(gravel_host_handle(), ...) sends from the
/// host.
gravel_t gravel_handle();
gravel_t gravel_host_handle();

/// Symmetric memory, zeroed: collective, every PE asks for the same number of bytes and gets the same offset.
/// Device memory on CUDA. Aligned to 256 bytes. Throws on all PEs, with nothing allocated, if GRAVEL_SYMMETRIC_SIZE or
/// what the host has is exceeded on one.
template <class T = void>
T* gravel_malloc(uint64_t bytes) {
  return static_cast<T*>(gravel::detail::allocate_symmetric(bytes));
}
/// Collective: all PEs free the same object, or all pass nullptr, which does nothing. Returns when everything that PEs
/// have sent is complete, as after gravel_barrier_all; so nothing reaches the object that is next in its place. Throws
/// for what gravel_malloc did not return.
void gravel_free(void* symmetric);
/// Copies between host memory and this PE's device memory, in any direction; returns when done.
void gravel_copy(void* to, const void* from, uint64_t bytes);

/// Everything this PE's finished kernels and its host threads have sent is applied, gets included.
void gravel_quiet();
/// gravel_quiet, and waits until all PEs are here. Collective.
void gravel_barrier_all();
/// Returns when nothing is in flight anywhere: all messages are applied, also those that handlers sent, and theirs, for
/// any number of generations. Collective; no kernel that sends may run.
void gravel_wait_quiescent();
/// Sum, minimum, maximum over all PEs of a value each contributes. Collective. Other types, vectors, and other
/// collectives: host/pe/collectives.hpp.
uint64_t gravel_sum_all(uint64_t value);
uint64_t gravel_min_all(uint64_t value);
uint64_t gravel_max_all(uint64_t value);

/// Starts `kernel` as `how` says, and returns: the kernel runs in its stream, and on CUDA the resolver kernel is sure
/// to run beside it. Throws, and starts nothing, if that cannot be. Any host thread. What a lane throws on the CPU
/// backend is thrown by the next call of the PE that waits for kernels.
template <class Config, class... P, class... A>
requires std::same_as<Config, gravel_launch_config>
void gravel_launch(void (*kernel)(P...), const Config& how, A... arguments) {
  const gravel::detail::profile_range range("gravel_launch");
  if constexpr (gravel::detail::launch_check<void(P...), A...>::good)
    gravel::detail::launch_kernel<P...>(kernel, how, static_cast<P>(arguments)...);
}
/// The same with `grid` blocks of `block` threads in the PE's own stream.
template <class... P, class... A>
void gravel_launch(void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  gravel_launch(kernel, gravel_launch_config{grid, block}, arguments...);
}
/// A stream for gravel_launch_config. Any host thread, like all that is said about streams here.
inline gravel_stream_t gravel_stream_create() { return static_cast<gravel_stream_t>(gravel::detail::create_stream()); }
/// Waits for its kernels. gravel_finalize destroys those that are left.
inline void gravel_stream_destroy(gravel_stream_t stream) { gravel::detail::destroy_stream(stream); }
/// Waits for the kernels of one stream; nullptr: of the PE's own.
inline void gravel_stream_synchronize(gravel_stream_t stream) { gravel::detail::synchronize_stream(stream); }
/// What is put into the stream (nullptr: the PE's own) from now on begins when the word of the own symmetric heap is at
/// least `value`, and sees what was written before it became so. Returns at once. The stream waits by itself (CUDA:
/// cuStreamWaitValue64), without a kernel. While it waits, resolver and services stay resident. Throws, and puts
/// nothing into the stream, where the device cannot. As nvshmemx_signal_wait_until_on_stream with NVSHMEM_CMP_GE.
inline void gravel_stream_wait(gravel_stream_t stream, const uint64_t* word, uint64_t value) {
  gravel::detail::wait_in_stream(stream, word, value);
}
/// Behind what is in the stream the word becomes `value`: who sees that sees what was done before. Returns at once;
/// throws as the above.
inline void gravel_stream_write(gravel_stream_t stream, uint64_t* word, uint64_t value) {
  gravel::detail::write_in_stream(stream, word, value);
}
/// Waits for the kernels of gravel_launch, in whatever streams.
void gravel_synchronize();
