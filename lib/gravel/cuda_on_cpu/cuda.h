// CUDA's driver API for the CPU backend: what programs in the style of the runtime API use of it. A module of GPU code
// cannot be loaded.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <map>

#include <gravel/cuda_on_cpu/cuda_runtime.h>

#define CUDA_VERSION CUDART_VERSION

// X(name, value, text)
#define GRAVEL_CUDA_RESULTS(X)                                         \
  X(CUDA_SUCCESS, 0, "no error")                                       \
  X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                   \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                      \
  X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")             \
  X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")          \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available") \
  X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")               \
  X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")       \
  X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")          \
  X(CUDA_ERROR_UNKNOWN, 999, "unknown error")
#define GRAVEL_CUDA_ERROR(name, value, text) name = value,
enum cudaError_enum { GRAVEL_CUDA_RESULTS(GRAVEL_CUDA_ERROR) };
#undef GRAVEL_CUDA_ERROR
using CUresult = cudaError_enum;
#define GRAVEL_CUDA_ERROR(name, value, words) \
  case value: *text = words; return CUDA_SUCCESS;
inline CUresult cuGetErrorString(CUresult result, const char** text) {
  switch (result) { GRAVEL_CUDA_RESULTS(GRAVEL_CUDA_ERROR) }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
#undef GRAVEL_CUDA_ERROR
#define GRAVEL_CUDA_ERROR(name, value, words) \
  case value: *text = #name; return CUDA_SUCCESS;
inline CUresult cuGetErrorName(CUresult result, const char** text) {
  switch (result) { GRAVEL_CUDA_RESULTS(GRAVEL_CUDA_ERROR) }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
#undef GRAVEL_CUDA_ERROR

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUstream = cudaStream_t;
using CUcontext = struct gravel_no_context*;
using CUmodule = struct gravel_no_module*;
using CUlibrary = struct gravel_no_library*;
using CUfunction = struct gravel_no_function*;

namespace gravel::cuda_on_cpu {
/// Descriptors of memory that is mapped, by its address.
struct mapped_memory {
  std::mutex mutex;
  std::map<unsigned long long, int> descriptors;
  static mapped_memory& instance() {
    static mapped_memory* const all = new mapped_memory;
    return *all;
  }
};
inline CUresult result_of(cudaError_t error) { return static_cast<CUresult>(error); }
inline CUresult refuse_gpu_code(const char* caller) {
  failed(cudaErrorNoKernelImageForDevice,
         std::string(caller) + ": the CPU backend runs the program's own kernels, and no modules of GPU code");
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}
}  // namespace gravel::cuda_on_cpu

inline CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
inline CUresult cuDriverGetVersion(int* version) {
  return gravel::cuda_on_cpu::result_of(cudaDriverGetVersion(version));
}
inline CUresult cuDeviceGetCount(int* count) { return gravel::cuda_on_cpu::result_of(cudaGetDeviceCount(count)); }
inline CUresult cuDeviceGet(CUdevice* device, int number) {
  if (number < 0 || number >= gravel::cuda_on_cpu::devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = number;
  return CUDA_SUCCESS;
}
inline CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = gravel::detail::memory_of_host();
  return CUDA_SUCCESS;
}
inline CUresult cuCtxSynchronize() { return gravel::cuda_on_cpu::result_of(cudaDeviceSynchronize()); }
inline CUresult cuStreamSynchronize(CUstream s) { return gravel::cuda_on_cpu::result_of(cudaStreamSynchronize(s)); }

enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134
};
inline CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED || attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) {
    *value = 0;
    return CUDA_SUCCESS;
  }
  return gravel::cuda_on_cpu::result_of(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}

// ---- modules

inline CUresult cuModuleLoad(CUmodule*, const char*) { return gravel::cuda_on_cpu::refuse_gpu_code("cuModuleLoad"); }
inline CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) {
  return gravel::cuda_on_cpu::refuse_gpu_code("cuModuleGetFunction");
}
inline CUresult cuModuleUnload(CUmodule) { return gravel::cuda_on_cpu::refuse_gpu_code("cuModuleUnload"); }
inline CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               CUstream, void**, void**) {
  return gravel::cuda_on_cpu::refuse_gpu_code("cuLaunchKernel");
}
inline CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                          unsigned, CUstream, void**) {
  return gravel::cuda_on_cpu::refuse_gpu_code("cuLaunchCooperativeKernel");
}

// ---- memory behind reserved addresses: a file in memory, mapped

enum CUmemLocationType {
  CU_MEM_LOCATION_TYPE_INVALID = 0,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST = 2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3
};
enum CUmemAllocationType { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType {
  CU_MEM_HANDLE_TYPE_NONE = 0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
  CU_MEM_HANDLE_TYPE_FABRIC = 8
};
enum CUmemAccess_flags { CU_MEM_ACCESS_FLAGS_PROT_READ = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum CUmemAllocationGranularity_flags {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
};
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
  } allocFlags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};
/// A file descriptor.
using CUmemGenericAllocationHandle = unsigned long long;

inline CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                              CUmemAllocationGranularity_flags) {
  *bytes = 2 << 20;
  return CUDA_SUCCESS;
}
inline CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* what,
                            unsigned long long) {
  if (what->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  const int memory = memfd_create("gravel-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (ftruncate(memory, static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    close(memory);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(memory);
  return CUDA_SUCCESS;
}
inline CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return close(static_cast<int>(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
inline CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* const reserved = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = reinterpret_cast<CUdeviceptr>(reserved);
  return CUDA_SUCCESS;
}
inline CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long) {
  const void* const mapped = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                  static_cast<int>(handle), static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  auto& all = gravel::cuda_on_cpu::mapped_memory::instance();
  std::lock_guard lock(all.mutex);
  all.descriptors[at] = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}
/// `at`: the first address of a mapping.
inline CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* at) {
  auto& all = gravel::cuda_on_cpu::mapped_memory::instance();
  std::lock_guard lock(all.mutex);
  const auto found = all.descriptors.find(reinterpret_cast<CUdeviceptr>(at));
  if (found == all.descriptors.end()) return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUmemGenericAllocationHandle>(fcntl(found->second, F_DUPFD_CLOEXEC, 0));
  return CUDA_SUCCESS;
}
inline CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t) {
  const int flags = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
  return mprotect(reinterpret_cast<void*>(at), bytes, flags) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
inline CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  const void* const mapped = mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  auto& all = gravel::cuda_on_cpu::mapped_memory::instance();
  std::lock_guard lock(all.mutex);
  if (const auto found = all.descriptors.find(at); found != all.descriptors.end()) {
    close(found->second);
    all.descriptors.erase(found);
  }
  return mapped == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
inline CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  return munmap(reinterpret_cast<void*>(at), bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
