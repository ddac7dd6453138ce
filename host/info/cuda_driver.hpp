// The few functions of CUDA's driver (libcuda.so.1) that gravel-info calls. gravel-info needs neither the CUDA toolkit
// nor a driver, to be built or to start. Numbers and signatures are those of the driver's stable C interface.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/shared_library.hpp"

namespace gravel::detail {

struct cuda_ipc_handle {
  unsigned char bytes[64];
};

/// What memory cuMemCreate is to make: CUmemAllocationProp.
struct cuda_allocation {
  static constexpr int pinned = 1, on_device = 1, descriptor = 1, fabric = 8;
  int type, handle_types, location_type, device;
  void* attributes;  ///< of Windows
  unsigned char flags[8];
};
static_assert(sizeof(cuda_allocation) == 32);

struct cuda_driver {
  // CUdevice_attribute and CUdevice_P2PAttribute
  static constexpr int multiprocessors = 16, compute_mode = 20, major = 75, minor = 76, host_native_atomics = 86,
                       host_register = 99, descriptors = 103, fabric_handles = 128;
  static constexpr int p2p_rank = 1, p2p_atomics = 3;
  static constexpr unsigned lazy_peer_access = 1;
  static constexpr int not_permitted = 800;

  cuda_driver();
  /// Empty: the driver is loaded and initialized, and has all these functions. Otherwise: what is missing.
  std::string why_not;
  /// Text of a result other than 0, "CUDA_ERROR_...: ...".
  std::string text_of(int result) const;
  /// Makes a context on GPU 0 that lasts until the process ends. Returns why it cannot; empty: it can.
  std::string make_context() const;

  shared_library library{"libcuda.so.1"};
  int (*init)(unsigned flags) = library.find("cuInit");
  int (*error_name)(int, const char**) = library.find("cuGetErrorName");
  int (*error_string)(int, const char**) = library.find("cuGetErrorString");
  int (*driver_version)(int*) = library.find("cuDriverGetVersion");
  int (*device_count)(int*) = library.find("cuDeviceGetCount");
  int (*device)(int* handle, int ordinal) = library.find("cuDeviceGet");
  int (*device_name)(char*, int bytes, int device) = library.find("cuDeviceGetName");
  int (*device_memory)(size_t*, int device) = library.find("cuDeviceTotalMem_v2");
  int (*device_bus_id)(char*, int bytes, int device) = library.find("cuDeviceGetPCIBusId");
  int (*device_attribute)(int*, int attribute, int device) = library.find("cuDeviceGetAttribute");
  int (*can_access_peer)(int*, int device, int peer) = library.find("cuDeviceCanAccessPeer");
  int (*p2p_attribute)(int*, int attribute, int device, int peer) = library.find("cuDeviceGetP2PAttribute");
  int (*retain_context)(void**, int device) = library.find("cuDevicePrimaryCtxRetain");
  int (*set_context)(void*) = library.find("cuCtxSetCurrent");
  int (*allocate)(uint64_t*, size_t) = library.find("cuMemAlloc_v2");
  int (*get_ipc_handle)(cuda_ipc_handle*, uint64_t) = library.find("cuIpcGetMemHandle");
  int (*open_ipc_handle)(uint64_t*, cuda_ipc_handle, unsigned flags) = library.find("cuIpcOpenMemHandle_v2");
  int (*create_memory)(uint64_t*, size_t, const cuda_allocation*, unsigned long long) = library.find("cuMemCreate");
  int (*release_memory)(uint64_t) = library.find("cuMemRelease");
  int (*export_memory)(void* handle, uint64_t, int type,
                       unsigned long long) = library.find("cuMemExportToShareableHandle");
};

}  // namespace gravel::detail
