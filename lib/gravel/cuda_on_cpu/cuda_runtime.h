// CUDA's runtime API for the CPU backend: programs in CUDA's style run without a GPU.
//
// gravel-c++ --cuda and --nvshmem put this folder on the include path. The device is the process's own memory, so every
// copy is a memcpy. Streams are those of gravel_launch (host/pe/launcher_cpu.hpp). Calls have CUDA's names, types and
// meaning, and stay usable outside gravel_init .. gravel_finalize. A call that is not here does not compile.
//
// What differs from a GPU
// - There are `devices` devices, one of which a program chooses by cudaSetDevice. All are this process.
// - Up to `blocks_at_once` blocks of any launch run at the same time, and may wait for each other in loops without a
//   body or in NVSHMEM's waits. The blocks of a cooperative launch all do, at most 256.
// - An error is also printed on stderr, with the reason.
#pragma once
#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include <gravel/cuda_on_cpu/vector_functions.h>
#include <gravel/cuda_on_cpu/vector_types.h>
#include <gravel/gravel.cuh>
#include "host/pe/kernel_table.hpp"
#include "lib/base/capacity.hpp"

// The translator (tools/cuda_to_cpp.py) sees which functions are kernels, and removes the word.
#if defined(GRAVEL_CUDA_TRANSLATES)
#undef __global__
#endif
#define __constant__
#define __managed__
#define CUDART_VERSION 13000

// X(name, value, text)
#define GRAVEL_CUDA_ERRORS(X)                                                         \
  X(cudaSuccess, 0, "no error")                                                       \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                     \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                    \
  X(cudaErrorInitializationError, 3, "initialization error")                          \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")               \
  X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                              \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")         \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                    \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                     \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                            \
  X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available")             \
  X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")         \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                   \
  X(cudaErrorNotReady, 600, "device not ready")                                       \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")    \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                        \
  X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
  X(cudaErrorNotSupported, 801, "operation not supported")                            \
  X(cudaErrorUnknown, 999, "unknown error")
#define GRAVEL_CUDA_ERROR(name, value, text) name = value,
enum cudaError { GRAVEL_CUDA_ERRORS(GRAVEL_CUDA_ERROR) };
#undef GRAVEL_CUDA_ERROR
using cudaError_t = cudaError;
#define GRAVEL_CUDA_ERROR(name, value, text) \
  case value: return text;
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) { GRAVEL_CUDA_ERRORS(GRAVEL_CUDA_ERROR) }
  return "unrecognized error code";
}
#undef GRAVEL_CUDA_ERROR
#define GRAVEL_CUDA_ERROR(name, value, text) \
  case value: return #name;
inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) { GRAVEL_CUDA_ERRORS(GRAVEL_CUDA_ERROR) }
  return "unrecognized error code";
}
#undef GRAVEL_CUDA_ERROR

using cudaStream_t = gravel_stream_t;
inline const cudaStream_t cudaStreamLegacy = nullptr, cudaStreamPerThread = nullptr;
enum : unsigned { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };

namespace gravel::cuda_on_cpu {

constexpr int devices = 64;              ///< a PE for each, at most
constexpr uint64_t blocks_at_once = 32;  ///< that is how many blocks NVSHMEM's own benchmarks let wait for each other
constexpr size_t alignment = 256;        ///< of allocated memory, as CUDA has it

GRAVEL_API inline thread_local cudaError_t last_error = cudaSuccess;
GRAVEL_API inline thread_local int chosen_device = 0;

/// Records an error and returns it. `why`: what is wrong, in words; it is printed.
inline cudaError_t failed(cudaError_t error, const std::string& why) {
  detail::warn(why.c_str());
  return last_error = error;
}
inline cudaError_t refuse(const char* caller, const std::string& why) {
  return failed(cudaErrorInvalidValue, std::string(caller) + ": " + why);
}
/// What a kernel has thrown, as an error of CUDA.
inline cudaError_t result_of(const std::exception_ptr& thrown) {
  if (!thrown) return cudaSuccess;
  return failed(cudaErrorLaunchFailure, "a kernel failed: " + detail::text_of_thrown(thrown));
}
/// Runs a call that may throw gravel::error.
template <class F>
cudaError_t checked(cudaError_t otherwise, F call) {
  try {
    return call();
  } catch (const error& e) {
    return failed(otherwise, e.what());
  }
}

inline detail::cpu_streams& streams() { return detail::cpu_streams::of_process(); }

/// Puts a function of the host into a stream.
inline cudaError_t put_on_host(cudaStream_t stream, const char* caller, std::function<void()> call) {
  return checked(cudaErrorInvalidResourceHandle, [&] {
    streams().put(stream, {1, 1, {}, std::move(call), true}, caller);
    return cudaSuccess;
  });
}
inline cudaError_t wait_for(cudaStream_t stream, const char* caller) {
  return checked(cudaErrorInvalidResourceHandle, [&] { return result_of(streams().wait(stream, caller)); });
}

/// Grid, block, bytes of dynamic shared memory and stream of a launch.
struct launch_shape {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
inline launch_shape shape(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

/// Starts a kernel. `lane`: what each lane runs.
inline cudaError_t launch(const launch_shape& how, std::function<void()> lane, bool cooperative = false) {
  return checked(cudaErrorInvalidConfiguration, [&] {
    const auto& values = detail::current_settings();
    const uint64_t blocks = uint64_t{how.grid.x} * how.grid.y * how.grid.z;
    detail::simt::launch_options options;
    options.threads = static_cast<unsigned>(std::max(values.cpu_threads, blocks_at_once));
    options.seed = values.cpu_seed;
    options.stack_bytes = values.cpu_stack_size;
    options.shared_bytes = how.shared_bytes;
    options.cooperative = cooperative || (blocks > 1 && blocks <= blocks_at_once);
    detail::simt::check_launch(how.grid, how.block, options);
    streams().put(how.stream, {how.grid, how.block, options, std::move(lane)}, "a launch");
    return cudaSuccess;
  });
}

/// What the translator makes of kernel<<<...>>>: a call of the result with the kernel's arguments starts it. The
/// arguments are copied, and each lane gets copies of its own.
template <class Kernel>
auto start(Kernel kernel, launch_shape how) {
  return [=](auto&&... arguments) {
    launch(how, [kernel, values = std::tuple<std::decay_t<decltype(arguments)>...>(
                             std::forward<decltype(arguments)>(arguments)...)] { std::apply(kernel, values); });
  };
}

/// What the translator makes of a kernel whose address is taken.
template <class... P>
auto known(void (*kernel)(P...)) {
  detail::remember_kernel(kernel);
  return kernel;
}
template <class T>
T&& known(T&& no_kernel) {
  return std::forward<T>(no_kernel);
}

inline cudaError_t launch_address(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                  cudaStream_t stream, bool cooperative) {
  return checked(cudaErrorInvalidDeviceFunction, [&] {
    return launch({grid, block, shared_bytes, stream}, detail::bind_kernel(kernel, arguments), cooperative);
  });
}

/// An event: the work in front of its last record in a stream.
struct event {
  std::mutex mutex;
  std::condition_variable change;
  uint64_t recorded = 0, reached = 0;
  std::chrono::steady_clock::time_point time;

  void reach(uint64_t record) {
    std::lock_guard lock(mutex);
    reached = std::max(reached, record);
    time = std::chrono::steady_clock::now();
    change.notify_all();
  }
  void wait(uint64_t record) {
    std::unique_lock lock(mutex);
    change.wait(lock, [&] { return reached >= record; });
  }
  uint64_t last() {
    std::lock_guard lock(mutex);
    return recorded;
  }
};
}  // namespace gravel::cuda_on_cpu

// ---- devices

inline cudaError_t cudaGetLastError() { return std::exchange(gravel::cuda_on_cpu::last_error, cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return gravel::cuda_on_cpu::last_error; }

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = gravel::cuda_on_cpu::devices;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= gravel::cuda_on_cpu::devices)
    return gravel::cuda_on_cpu::failed(cudaErrorInvalidDevice, "cudaSetDevice: device " + std::to_string(device) +
                                                                   ": the CPU backend shows devices 0 to 63");
  gravel::cuda_on_cpu::chosen_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = gravel::cuda_on_cpu::chosen_device;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  using namespace gravel::cuda_on_cpu;
  return result_of(streams().wait());
}
inline cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, sharedMemPerBlockOptin, totalConstMem, memPitch;
  int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, l2CacheSize;
  int integrated, canMapHostMemory, concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, asyncEngineCount;
  int unifiedAddressing, managedMemory, concurrentManagedAccess, pageableMemoryAccess, cooperativeLaunch;
  int memoryBusWidth, isMultiGpuBoard, hostNativeAtomicSupported;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "Gravel's CPU backend");
  p.totalGlobalMem = gravel::detail::memory_of_host();
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = 227 << 10;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.totalConstMem = 64 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = 9;
  p.multiProcessorCount = static_cast<int>(gravel::cuda_on_cpu::blocks_at_once);
  p.maxThreadsPerMultiProcessor = 1024;
  p.maxBlocksPerMultiProcessor = 1;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.managedMemory = p.concurrentManagedAccess = 1;
  p.pageableMemoryAccess = p.cooperativeLaunch = p.hostNativeAtomicSupported = p.integrated = 1;
  p.pciDeviceID = device;
  *properties = p;
  return cudaSuccess;
}

// X(name, value, the attribute of a cudaDeviceProp p)
#define GRAVEL_CUDA_ATTRIBUTES(X)                                      \
  X(MaxThreadsPerBlock, 1, p.maxThreadsPerBlock)                       \
  X(MaxBlockDimX, 2, p.maxThreadsDim[0])                               \
  X(MaxGridDimX, 5, p.maxGridSize[0])                                  \
  X(MaxSharedMemoryPerBlock, 8, static_cast<int>(p.sharedMemPerBlock)) \
  X(WarpSize, 10, p.warpSize)                                          \
  X(ClockRate, 13, 1'000'000)                                          \
  X(MultiProcessorCount, 16, p.multiProcessorCount)                    \
  X(CanMapHostMemory, 19, 1)                                           \
  X(ConcurrentKernels, 31, 1)                                          \
  X(PciBusId, 33, p.pciBusID)                                          \
  X(PciDeviceId, 34, p.pciDeviceID)                                    \
  X(MaxThreadsPerMultiProcessor, 39, p.maxThreadsPerMultiProcessor)    \
  X(UnifiedAddressing, 41, 1)                                          \
  X(PciDomainId, 50, p.pciDomainID)                                    \
  X(ComputeCapabilityMajor, 75, p.major)                               \
  X(ComputeCapabilityMinor, 76, p.minor)                               \
  X(ManagedMemory, 83, 1)                                              \
  X(ConcurrentManagedAccess, 89, 1)                                    \
  X(CooperativeLaunch, 95, 1)                                          \
  X(MaxSharedMemoryPerBlockOptin, 97, static_cast<int>(p.sharedMemPerBlockOptin))
#define GRAVEL_CUDA_ATTRIBUTE(name, value, expression) cudaDevAttr##name = value,
enum cudaDeviceAttr { GRAVEL_CUDA_ATTRIBUTES(GRAVEL_CUDA_ATTRIBUTE) };
#undef GRAVEL_CUDA_ATTRIBUTE
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
#define GRAVEL_CUDA_ATTRIBUTE(name, number, expression) \
  case number: *value = expression; return cudaSuccess;
  switch (attribute) { GRAVEL_CUDA_ATTRIBUTES(GRAVEL_CUDA_ATTRIBUTE) }
#undef GRAVEL_CUDA_ATTRIBUTE
  return gravel::cuda_on_cpu::refuse("cudaDeviceGetAttribute", "an attribute that the CPU backend does not have");
}
inline cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:00:%02x.0", static_cast<unsigned>(device));
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = gravel::detail::memory_of_host();
  return cudaSuccess;
}

// ---- memory. It is aligned, and not initialized.

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum : unsigned {
  cudaHostAllocDefault = 0,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2,
  cudaHostAllocWriteCombined = 4,
  cudaHostRegisterDefault = 0,
  cudaHostRegisterPortable = 1,
  cudaHostRegisterMapped = 2,
  cudaMemAttachGlobal = 1
};

template <class T>
cudaError_t cudaMalloc(T** at, size_t bytes) {
  using namespace gravel::cuda_on_cpu;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded >= bytes) *at = static_cast<T*>(std::aligned_alloc(alignment, rounded));
  if (!*at) return failed(cudaErrorMemoryAllocation, "cudaMalloc: no memory for " + std::to_string(bytes) + " bytes");
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMallocManaged(T** at, size_t bytes, unsigned = cudaMemAttachGlobal) {
  return cudaMalloc(at, bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** at, size_t bytes, unsigned = 0) {
  return cudaMalloc(at, bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** at, size_t bytes, unsigned = 0) {
  return cudaMalloc(at, bytes);
}
inline cudaError_t cudaFree(void* at) {
  const cudaError_t done = cudaDeviceSynchronize();
  std::free(at);
  return done;
}
inline cudaError_t cudaFreeHost(void* at) { return cudaFree(at); }
template <class T>
cudaError_t cudaMallocAsync(T** at, size_t bytes, cudaStream_t) {
  return cudaMalloc(at, bytes);
}
inline cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  return gravel::cuda_on_cpu::put_on_host(stream, "cudaFreeAsync", [=] { std::free(at); });
}
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
  *device = static_cast<T*>(host);
  return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t s = nullptr) {
  return gravel::cuda_on_cpu::put_on_host(s, "cudaMemcpyAsync", [=] { std::memmove(to, from, bytes); });
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t put = cudaMemcpyAsync(to, from, bytes, kind);
  return put ? put : gravel::cuda_on_cpu::wait_for(nullptr, "cudaMemcpy");
}
inline cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t s = nullptr) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s);
}
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind, cudaStream_t s = nullptr) {
  return gravel::cuda_on_cpu::put_on_host(s, "cudaMemcpy2DAsync", [=] {
    for (size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char*>(to) + i * to_pitch, static_cast<const char*>(from) + i * from_pitch, width);
  });
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind kind) {
  const cudaError_t put = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind);
  return put ? put : gravel::cuda_on_cpu::wait_for(nullptr, "cudaMemcpy2D");
}
inline cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream = nullptr) {
  return gravel::cuda_on_cpu::put_on_host(stream, "cudaMemsetAsync", [=] { std::memset(at, value, bytes); });
}
inline cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  const cudaError_t put = cudaMemsetAsync(at, value, bytes);
  return put ? put : gravel::cuda_on_cpu::wait_for(nullptr, "cudaMemset");
}
// Symbols: variables with __device__ or __constant__ are variables of the process.
template <class T>
cudaError_t cudaGetSymbolAddress(void** at, T& symbol) {
  *at = const_cast<std::remove_cv_t<T>*>(std::addressof(symbol));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                    cudaStream_t stream = nullptr) {
  void* at;
  cudaGetSymbolAddress(&at, symbol);
  return cudaMemcpyAsync(static_cast<char*>(at) + offset, from, bytes, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  void* at;
  cudaGetSymbolAddress(&at, symbol);
  return cudaMemcpy(static_cast<char*>(at) + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  void* at;
  cudaGetSymbolAddress(&at, symbol);
  return cudaMemcpy(to, static_cast<char*>(at) + offset, bytes, kind);
}

// ---- streams and events

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = gravel::cuda_on_cpu::streams().create((flags & cudaStreamNonBlocking) == 0);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return gravel::cuda_on_cpu::checked(cudaErrorInvalidResourceHandle, [&] {
    gravel::cuda_on_cpu::streams().destroy(stream, "cudaStreamDestroy");
    return cudaSuccess;
  });
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return gravel::cuda_on_cpu::wait_for(stream, "cudaStreamSynchronize");
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return gravel::cuda_on_cpu::checked(cudaErrorInvalidResourceHandle, [&] {
    return gravel::cuda_on_cpu::streams().is_idle(stream, "cudaStreamQuery") ? cudaSuccess : cudaErrorNotReady;
  });
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*call)(void*), void* argument) {
  return gravel::cuda_on_cpu::put_on_host(stream, "cudaLaunchHostFunc", [=] { call(argument); });
}

/// An object of the program's, which work in streams keeps as long as it needs it.
using cudaEvent_t = std::shared_ptr<gravel::cuda_on_cpu::event>*;
enum : unsigned {
  cudaEventDefault = 0,
  cudaEventBlockingSync = 1,
  cudaEventDisableTiming = 2,
  cudaEventRecordDefault = 0,
  cudaEventWaitDefault = 0
};
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new std::shared_ptr(std::make_shared<gravel::cuda_on_cpu::event>());
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  uint64_t record;
  {
    std::lock_guard lock((*event)->mutex);
    record = ++(*event)->recorded;
  }
  return gravel::cuda_on_cpu::put_on_host(stream, "cudaEventRecord", [e = *event, record] { e->reach(record); });
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (*event)->wait((*event)->last());
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock((*event)->mutex);
  return (*event)->reached >= (*event)->recorded ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  const uint64_t record = (*event)->last();
  return gravel::cuda_on_cpu::put_on_host(stream, "cudaStreamWaitEvent", [e = *event, record] { e->wait(record); });
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (cudaEventQuery(begin) || cudaEventQuery(end)) return cudaErrorNotReady;
  if ((*begin)->last() == 0 || (*end)->last() == 0)
    return gravel::cuda_on_cpu::failed(cudaErrorInvalidResourceHandle,
                                       "cudaEventElapsedTime: an event that was not recorded");
  *milliseconds = std::chrono::duration<float, std::milli>((*end)->time - (*begin)->time).count();
  return cudaSuccess;
}

// ---- kernels

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int value) {
  if (value > 227 * 1024) return gravel::cuda_on_cpu::refuse("cudaFuncSetAttribute", "a block has at most 227 KiB");
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) {
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F, size_t = 0, int limit = 0) {
  *grid = static_cast<int>(gravel::cuda_on_cpu::blocks_at_once);
  *block = limit ? limit : 1024;
  return cudaSuccess;
}
template <class F>
cudaError_t cudaLaunchKernel(F kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                             cudaStream_t stream = nullptr) {
  return gravel::cuda_on_cpu::launch_address((const void*)kernel, grid, block, arguments, shared_bytes, stream, false);
}
template <class F>
cudaError_t cudaLaunchCooperativeKernel(F kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr) {
  return gravel::cuda_on_cpu::launch_address((const void*)kernel, grid, block, arguments, shared_bytes, stream, true);
}

// ---- graphs: programs that can also do without them find that there are none

using cudaGraph_t = struct gravel_no_graph*;
using cudaGraphExec_t = struct gravel_no_graph_executable*;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
namespace gravel::cuda_on_cpu {
inline cudaError_t refuse_graphs(const char* caller) {
  return failed(cudaErrorNotSupported, std::string(caller) + ": the CPU backend has no graphs; use streams instead");
}
}  // namespace gravel::cuda_on_cpu
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return gravel::cuda_on_cpu::refuse_graphs("cudaStreamBeginCapture");
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return gravel::cuda_on_cpu::refuse_graphs("cudaStreamEndCapture");
}
template <class... Options>
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, Options...) {
  return gravel::cuda_on_cpu::refuse_graphs("cudaGraphInstantiate");
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return gravel::cuda_on_cpu::refuse_graphs("cudaGraphLaunch");
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return gravel::cuda_on_cpu::refuse_graphs("cudaGraphExecDestroy");
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return gravel::cuda_on_cpu::refuse_graphs("cudaGraphDestroy"); }
