// Gravel's host API. Errors are thrown as gravel::error. If nobody catches one, the PE ends with a message, and the job
// with it.
//
// Common to all calls of this file, unless a call says otherwise:
// @scope the program's host thread of the PE
// @completion on return
// @errors gravel::error is thrown
// @source OpenSHMEM 1.5
#pragma once
#include <sys/types.h>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "host/pe/collectives.hpp"
#include "host/pe/launch_config.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/teams.hpp"
#include "lib/base/error.hpp"
#include "lib/base/place.hpp"
#include "lib/base/process_group.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/version.hpp"
#if GRAVEL_CUDA
#include "host/pe/cuda_program.cuh"
#else
#include "host/pe/backend_cpu.hpp"
#endif

namespace gravel::detail {
void* allocate_symmetric(uint64_t bytes, place where = place::device, uint64_t alignment = 256);
void* register_range(const void* address, uint64_t bytes);
void set_context(uint32_t handler, const char* name, sink_kind, void* context);
void* create_stream();
void destroy_stream(void*);
void synchronize_stream(void*);
void wait_in_stream(void* stream, const uint64_t* word, uint64_t value);
void write_in_stream(void* stream, uint64_t* word, uint64_t value);
/// Checks that the `bytes` bytes from a symmetric address on lie in the heap of `pe`. Returns the address at which
/// kernels of this PE reach them; nullptr: by messages. Throws gravel::error that names the call.
void* reach_in_stream(const char* call, const void* symmetric, uint64_t bytes, int pe);
/// Returns whether kernels of this PE reach the heaps of all PEs.
bool all_heaps_are_mapped();
/// Throws gravel::error that names the call, unless kernels can read or write there.
void check_reached_by_kernels(const char* call, const void* memory);
void copy_alone_in_stream(void* stream, void* to, const void* from, uint64_t bytes);
/// gravel_init. Without a group a launcher knows the job's PEs.
template <class... Handlers>
void join([[maybe_unused]] std::optional<gravel_process_group> group) {
  if constexpr ((handler_check<Handlers>::good && ...)) {
    install_terminate_handler();
#if GRAVEL_CUDA
    check_program({GRAVEL_VERSION, nullptr});
    start_on_cuda(cuda_program::of<handler_list<Handlers...>>(), std::move(group));
#else
    check_program({GRAVEL_VERSION, &threadIdx});
    start(std::make_unique<cpu_backend<handler_list<Handlers...>>>(), std::move(group));
#endif
  }
}
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

namespace gravel {
using detail::error;
}  // namespace gravel

/// Joins the job and registers the handlers that active messages may run at this PE. Collective: all PEs name the same
/// handlers. A program that was started without a launcher is a job of one PE.
/// @tparam Handlers the types that gravel_am may run at this PE
/// @errors gravel::error: impossible settings, a missing device or too little memory, PEs that differ, headers of
///   another version
/// @source OpenSHMEM 1.5: shmem_init
template <class... Handlers>
void gravel_init() {
  gravel::detail::join<Handlers...>(std::nullopt);
}
/// Joins the job of a process group: for processes that no PMIx launcher has started, or that are one of several jobs
/// of a launcher. Otherwise as gravel_init(). While the job starts, only the group's allgather can notice that a PE is
/// missing. Afterwards the death of a PE ends the job as always.
/// @tparam Handlers the types that gravel_am may run at this PE
/// @param group this PE's number, the number of PEs, and how they exchange bytes
/// @errors gravel::error: as gravel_init(); impossible numbers, PEs that do not agree on them, and what the allgather
///   throws
/// @source NVSHMEM: nvshmemx_init_attr
template <class... Handlers>
void gravel_init(gravel_process_group group) {
  gravel::detail::join<Handlers...>(std::move(group));
}
/// Makes a unique id, with which processes that no launcher has started become one job. The process that calls this is
/// PE 0 of the job. It listens until its gravel_init returns, and passes the id to the other processes by its own means.
/// The id contains a secret: who knows it can join the job.
/// @param address of this host, as the others reach it: a name or a number. By default only processes of this host do
/// @param port the TCP port where PE 0 waits for the others; 0: any free one
/// @return plain data, 128 bytes; id.text is a text
/// @scope any host thread; before gravel_init
/// @errors gravel::error: this host has no such address, or the port is in use
/// @source NVSHMEM: nvshmemx_get_uniqueid
gravel_unique_id_t gravel_unique_id(const char* address = "127.0.0.1", uint16_t port = 0);
/// Joins the job of a unique id. Otherwise as gravel_init(). Collective.
/// @tparam Handlers the types that gravel_am may run at this PE
/// @param id what gravel_unique_id returned at PE 0
/// @param pe number of this PE, 0 to n_pes - 1; 0 is the process that has made the id
/// @param n_pes number of PEs
/// @errors gravel::error: as gravel_init(); PE 0 cannot be reached; PEs that have not come within
///   GRAVEL_CONNECT_TIMEOUT_S seconds, or that do not agree on the numbers
/// @source NVSHMEM: nvshmemx_set_attr_uniqueid_args
template <class... Handlers>
void gravel_init(const gravel_unique_id_t& id, int pe, int n_pes) {
  const gravel_process_group group = gravel::detail::group_of(id, pe, n_pes);
  // The connections end when the job has started.
  gravel::detail::join<Handlers...>(gravel_process_group{pe, n_pes, std::ref(group.allgather)});
}
/// Leaves the job. Collective. Frees all symmetric memory, and prints statistics if GRAVEL_STATS asks for them.
/// @errors gravel::error: objects are still open (then nothing is done); on PE 0, when all PEs have left: the file of
///   GRAVEL_STATS_JSON cannot be written (an older file is unchanged)
/// @source OpenSHMEM 1.5: shmem_finalize
void gravel_finalize();
/// Sets the context of `Handler`, which has `using context = T;`, at this PE. Not collective. A message that is being
/// applied at this time gets the old pointer or the new one. A message that arrives before the first call ends the job.
/// To prevent that, call this before gravel_barrier_all, and send only after that barrier.
/// @param context device memory (symmetric or not) for a handler on the device, host memory for a handler on the host
/// @scope any host thread
/// @source Gravel
template <class Handler>
void gravel_set_context(typename Handler::context* context) {
  if constexpr (gravel::detail::handler_check<Handler>::good)
    gravel::detail::set_context(gravel::detail::handler_id<Handler>::value, Handler::name,
                                gravel::detail::handler_traits<Handler>::kind,
                                const_cast<void*>(static_cast<const volatile void*>(context)));
}
/// Ends the whole job.
/// @param text printed as the reason
/// @param status exit status of this PE
/// @scope any host thread
/// @completion does not return
/// @errors none
/// @source OpenSHMEM 1.5: shmem_global_exit
[[noreturn]] void gravel_abort(const char* text, int status = 1);

/// Number of this PE.
/// @return 0 to gravel_n_pes() - 1
/// @scope any host thread
/// @source OpenSHMEM 1.5: shmem_my_pe
int gravel_my_pe();
/// Number of PEs of the job.
/// @return 1 or more
/// @scope any host thread
/// @source OpenSHMEM 1.5: shmem_n_pes
int gravel_n_pes();
/// Returns the node of a PE. The PEs of a node share memory. On emulated nodes (ucx-run --nodes) they behave as if the
/// PEs of other nodes did not.
/// @param pe 0 to gravel_n_pes() - 1
/// @return 0 to gravel_n_nodes() - 1
/// @scope any host thread
/// @source Gravel
int gravel_node_of(int pe);
/// Number of nodes of the job.
/// @return 1 or more
/// @scope any host thread
/// @source Gravel
int gravel_n_nodes();
/// Kind of the device.
/// @return "cpu" or "cuda"
/// @scope any host thread
/// @source Gravel
const char* gravel_backend();
/// Version of the library.
/// @return three numbers, such as "0.1.0"
/// @scope any host thread; also before gravel_init
/// @errors none
/// @source Gravel
const char* gravel_version();

/// Returns the handle for kernels. Pass it by value.
/// @return handle, valid until gravel_finalize
/// @scope any host thread
/// @source Gravel
gravel_t gravel_handle();
/// Returns the handle for host threads that send, as in gravel_put(gravel_host_handle(), ...).
/// @return handle, valid until gravel_finalize
/// @scope any host thread
/// @source Gravel
gravel_t gravel_host_handle();

/// Allocates symmetric memory, zeroed. Collective: every PE asks for the same number of bytes and gets the same offset.
/// On CUDA it is device memory.
/// @param bytes 0 or more, the same at all PEs
/// @return symmetric address, aligned to 256 bytes
/// @errors gravel::error on all PEs, with nothing allocated, if one PE has too little memory, or too little is left of
///   GRAVEL_SYMMETRIC_SIZE
/// @source OpenSHMEM 1.5: shmem_malloc, shmem_calloc
template <class T = void>
T* gravel_malloc(uint64_t bytes) {
  return static_cast<T*>(gravel::detail::allocate_symmetric(bytes));
}
/// Allocates symmetric memory, as gravel_malloc, that begins at a multiple of `alignment`. Collective.
/// @param bytes 0 or more, the same at all PEs
/// @param alignment a power of 2, at most 4096, the same at all PEs
/// @return symmetric address; gravel_free frees it
/// @errors gravel::error as gravel_malloc; another alignment
/// @source OpenSHMEM 1.5: shmem_align
template <class T = void>
T* gravel_malloc_aligned(uint64_t bytes, uint64_t alignment) {
  return static_cast<T*>(gravel::detail::allocate_symmetric(bytes, gravel::detail::place::device, alignment));
}
/// Frees symmetric memory. Collective: all PEs free the same object, or all pass nullptr, which does nothing.
/// @param symmetric what gravel_malloc returned, or nullptr
/// @completion on return: all messages of all PEs are applied, as after gravel_barrier_all. So no message reaches the
///   object that is allocated there next
/// @errors gravel::error for an address that gravel_malloc did not return
/// @source OpenSHMEM 1.5: shmem_free
void gravel_free(void* symmetric);
/// Makes memory of the program symmetric: a range of memory that was made shareable gets a second address, in the
/// symmetric heap, by which messages of all PEs reach it. Collective: all PEs make the same calls in the same order.
/// `bytes` may differ from PE to PE.
///
/// On CUDA the memory is of cuMemCreate, with POSIX file descriptors, and lies on the PE's GPU. On the CPU backend it
/// is a memfd, mapped whole and as shared, whose size is sealed and whose descriptor is open. The allocations that
/// contain the range, up to 16, are mapped whole. They begin equally far before the range at all PEs. Where the
/// allocations of one PE are shorter than those of another one, memory that nobody else uses lies behind them.
///
/// CUDA does not order accesses by the two addresses with each other while a kernel runs: a kernel uses one of them.
/// @param address the first byte, at this PE
/// @param bytes of this PE's range; 0: it has none, and `address` is not used
/// @return symmetric address of the range, valid until gravel_unregister or gravel_finalize
/// @completion on return: all PEs may send to it
/// @errors gravel::error on all PEs, with nothing registered, if the memory of one PE cannot be shared (memory of
///   cudaMalloc, for example) or mapped, or too little is left of GRAVEL_SYMMETRIC_SIZE; if the heap has a fixed size
/// @source NVSHMEM: nvshmemx_buffer_register_symmetric
template <class T>
T* gravel_register(T* address, uint64_t bytes) {
  return static_cast<T*>(gravel::detail::register_range(address, bytes));
}
/// Ends what gravel_register began: the symmetric address is free, and the memory remains the program's. Collective.
/// @param symmetric what gravel_register returned
/// @completion on return: all messages of all PEs are applied, as after gravel_barrier_all
/// @errors gravel::error for an address that gravel_register did not return
/// @source NVSHMEM: nvshmemx_buffer_unregister_symmetric
void gravel_unregister(void* symmetric);

/// Allocates symmetric memory for a pool of another library, such as a torch.cuda.MemPool of CUDAPluggableAllocator.
/// Then the pool's tensors are destinations. Collective, as gravel_malloc is: all PEs make the same allocations in the
/// pool, in the same order.
/// @param bytes 0 or more, the same at all PEs
/// @param device number of the PE's GPU; -1 on the CPU backend
/// @param stream not used: the memory can be used at once in any stream
/// @return symmetric address; nullptr, with a warning that says why, if the memory does not suffice at one PE
/// @errors gravel::error: another device; a call outside gravel_init .. gravel_finalize
/// @source PyTorch: torch.cuda.memory.CUDAPluggableAllocator
extern "C" void* gravel_pool_malloc(ssize_t bytes, int device, void* stream);
/// Frees what gravel_pool_malloc returned. Collective, as gravel_free is. After gravel_finalize it does nothing, as the
/// memory is gone.
/// @param symmetric what gravel_pool_malloc returned, or nullptr, which does nothing
/// @param bytes not used
/// @param device not used
/// @param stream the cudaStream_t whose work uses the memory; the call waits for it
/// @errors gravel::error for an address that gravel_pool_malloc did not return
/// @source PyTorch: torch.cuda.memory.CUDAPluggableAllocator
extern "C" void gravel_pool_free(void* symmetric, ssize_t bytes, int device, void* stream);
/// Copies between host memory and this PE's device memory, in any direction.
/// @param to destination
/// @param from source
/// @param bytes 0 or more
/// @scope any host thread
/// @source CUDA: cudaMemcpy
void gravel_copy(void* to, const void* from, uint64_t bytes);

/// Waits for the PE's kernels of gravel_launch, and until all messages of these kernels and of the PE's host threads
/// are applied, and all their gets have arrived.
/// @errors gravel::error: a kernel has failed. A mistake in an operation or a handler ends the job with a message
/// @source OpenSHMEM 1.5: shmem_quiet
void gravel_quiet();
/// gravel_quiet at every PE, and a rendezvous of all. Collective.
/// @errors gravel::error: a kernel has failed. The job ends with a message if PEs call another collective, or after a
///   mistake in an operation or a handler
/// @source OpenSHMEM 1.5: shmem_barrier_all
void gravel_barrier_all();
/// Waits until nothing is in flight in the job: all messages are applied, also those that handlers have sent, and those
/// that these have caused, and so on. Collective. No kernel that sends may run.
/// @errors as for gravel_barrier_all
/// @source Mattern 1987, four counters
void gravel_wait_quiescent();
/// Sum over all PEs. Collective. host/pe/collectives.hpp has other types, arrays, and other collectives.
/// @param value contribution of this PE
/// @return the same at all PEs
/// @source OpenSHMEM 1.5: shmem_sum_reduce
uint64_t gravel_sum_all(uint64_t value);
/// Minimum over all PEs. Collective.
/// @param value contribution of this PE
/// @return the same at all PEs
/// @source OpenSHMEM 1.5: shmem_min_reduce
uint64_t gravel_min_all(uint64_t value);
/// Maximum over all PEs. Collective.
/// @param value contribution of this PE
/// @return the same at all PEs
/// @source OpenSHMEM 1.5: shmem_max_reduce
uint64_t gravel_max_all(uint64_t value);

/// Starts a kernel and returns. On CUDA the resolver kernel is resident as long as the kernel runs.
/// @param kernel the kernel
/// @param how grid, block, stream, shared memory and other options
/// @param arguments of the kernel, copied
/// @scope any host thread
/// @completion returns at once; gravel_synchronize waits for the kernel, gravel_quiet also for its messages
/// @errors gravel::error, and nothing is started, if the launch is not possible. On the CPU backend an exception of a
///   lane is thrown by the PE's next call that waits for kernels
/// @source CUDA: cudaLaunchKernelEx
template <class Config, class... P, class... A>
requires std::same_as<Config, gravel_launch_config>
void gravel_launch(void (*kernel)(P...), const Config& how, A... arguments) {
  const gravel::detail::profile_range range("gravel_launch");
  if constexpr (gravel::detail::launch_check<void(P...), A...>::good)
    gravel::detail::launch_kernel<P...>(kernel, how, static_cast<P>(arguments)...);
}
/// Starts a kernel in the PE's own stream.
/// @param kernel the kernel
/// @param grid blocks
/// @param block threads of a block
/// @param arguments of the kernel, copied
/// @scope any host thread
/// @completion returns at once; gravel_synchronize waits for the kernel, gravel_quiet also for its messages
/// @source CUDA: cudaLaunchKernel
template <class... P, class... A>
void gravel_launch(void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  gravel_launch(kernel, gravel_launch_config{grid, block}, arguments...);
}
/// Makes a stream for gravel_launch_config.
/// @return stream; gravel_stream_destroy destroys it
/// @scope any host thread
/// @source CUDA: cudaStreamCreate
inline gravel_stream_t gravel_stream_create() { return static_cast<gravel_stream_t>(gravel::detail::create_stream()); }
/// Destroys a stream when its kernels have ended. gravel_finalize destroys streams that are left.
/// @param stream from gravel_stream_create
/// @scope any host thread
/// @completion on return: its kernels have ended
/// @source CUDA: cudaStreamDestroy
inline void gravel_stream_destroy(gravel_stream_t stream) { gravel::detail::destroy_stream(stream); }
/// Waits for the kernels of one stream.
/// @param stream nullptr: the PE's own stream
/// @scope any host thread
/// @source CUDA: cudaStreamSynchronize
inline void gravel_stream_synchronize(gravel_stream_t stream) { gravel::detail::synchronize_stream(stream); }
/// Makes the stream wait: what is put into it from now on begins when `*word >= value`, and sees all that was written
/// before the word reached that value. The stream waits by itself (CUDA: cuStreamWaitValue64), without a kernel. While
/// it waits, resolver and services stay resident.
/// @param stream nullptr: the PE's own stream
/// @param word of the PE's own symmetric heap
/// @param value the value that the word must reach
/// @scope any host thread
/// @completion returns at once
/// @errors gravel::error, and nothing is put into the stream, if the device cannot do this
/// @source NVSHMEM: nvshmemx_signal_wait_until_on_stream
inline void gravel_stream_wait(gravel_stream_t stream, const uint64_t* word, uint64_t value) {
  gravel::detail::wait_in_stream(stream, word, value);
}
/// Makes the stream write: after all that is in it now, the word becomes `value`. A reader that sees the value sees all
/// earlier writes of the stream.
/// @param stream nullptr: the PE's own stream
/// @param word of the PE's own symmetric heap
/// @param value the value to write
/// @scope any host thread
/// @completion returns at once
/// @errors gravel::error, and nothing is put into the stream, if the device cannot do this
/// @source CUDA: cuStreamWriteValue64
inline void gravel_stream_write(gravel_stream_t stream, uint64_t* word, uint64_t value) {
  gravel::detail::write_in_stream(stream, word, value);
}
/// Waits for the kernels of gravel_launch in all streams. Does not wait for messages.
/// @scope any host thread
/// @errors gravel::error: a kernel has failed
/// @source CUDA: cudaDeviceSynchronize
void gravel_synchronize();
