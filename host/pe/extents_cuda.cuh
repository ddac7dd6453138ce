// Memory of a GPU in extents (host/pe/heap_memory.hpp), by the driver's virtual memory management: addresses are
// reserved once, and physical memory is created, mapped and unmapped behind them. Other processes of this host map the
// memory by POSIX file descriptors, those of its NVLink domain by fabric handles. Fabric handles need an IMEX
// channel: what uses them has never run, and follows the documentation of CUDA's driver.
//
// Memory of the host (place::host) is created in the same way, on the NUMA node near the GPU. The driver pins it. It is
// mapped for the GPU, and by the PE that has created it also for its host threads.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "host/pe/device_scope.cuh"
#include "host/pe/memory_handle.hpp"
#include "host/pe/shareable_memory.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/place.hpp"

namespace gravel::detail {

class extents_cuda {
 public:
  /// Extents are multiples of this: it is a multiple of the granularity of all GPUs, and small objects share an extent.
  static constexpr uint64_t granule = 32 << 20;

  /// Returns why this device has no extents with handles of this kind; empty: it has. Call it with the device current.
  std::string try_handles(int device, handle_kind kind) {
    device_ = device;
    share_by(kind);
    location_.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location_.id = device;
    host_.type = host_numa_type;
    decltype(&cuDeviceGetAttribute) attribute = nullptr;
    const bool found = find_in_driver(&attribute, "cuDeviceGetAttribute") &&
                       find_in_driver(&reserve_, "cuMemAddressReserve") && find_in_driver(&free_, "cuMemAddressFree") &&
                       find_in_driver(&create_, "cuMemCreate") && find_in_driver(&release_, "cuMemRelease") &&
                       find_in_driver(&map_, "cuMemMap") && find_in_driver(&unmap_, "cuMemUnmap") &&
                       find_in_driver(&set_access_, "cuMemSetAccess") &&
                       find_in_driver(&export_, "cuMemExportToShareableHandle") &&
                       find_in_driver(&import_, "cuMemImportFromShareableHandle") &&
                       find_in_driver(&retain_, "cuMemRetainAllocationHandle") &&
                       find_in_driver(&properties_, "cuMemGetAllocationPropertiesFromHandle") &&
                       find_in_driver(&granularity_, "cuMemGetAllocationGranularity") &&
                       find_in_driver(&range_, "cuMemGetAddressRange") && find_in_driver(&text_, "cuGetErrorString");
    if (!found) return "the CUDA driver has no virtual memory management; it is too old";
    int manages = 0, shares = 0;
    attribute(&manages, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    if (!manages) return "this GPU has no virtual memory management";
    attribute(&shares, by_fabric() ? fabric_supported : CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
              device);
    if (!shares) return joined("memory of this GPU has no ", name_of(kind_));
    int node = -1;  // the system has no NUMA nodes: then the whole host is node 0
    attribute(&node, host_numa_id, device);
    host_.id = node < 0 ? 0 : node;
    attribute(&has_host_, host_numa_supported, device);
    return text_of_error([&] {  // a container, or a missing IMEX channel, may forbid what the GPU can do
      char* const at = reserve(granule, "addresses");
      const std::string why = text_of_error([&] {
        commit(at, granule, "memory", place::device);
        decommit(at, granule);
      });
      unreserve(at, granule);
      if (!why.empty()) fail_text(why);
    });
  }

  /// From now on extents have handles of this kind, which try_handles() has found to work.
  void share_by(handle_kind kind) { kind_ = kind; }

  char* reserve(uint64_t bytes, const char* what) const {
    CUdeviceptr at = 0;
    if (const CUresult code = reserve_(&at, bytes, 0, 0, 0); code != CUDA_SUCCESS)
      fail_text(joined(what, ": no addresses for ", text_of_bytes(bytes), ": ", text_of(code)));
    return reinterpret_cast<char*>(at);
  }
  void unreserve(char* at, uint64_t bytes) const { free_(address(at), bytes); }

  /// The memory is not zeroed.
  memory_handle commit(char* at, uint64_t bytes, const char* what, place where) const {
    const bool on_host = where == place::host;
    if (on_host && !has_host_)
      fail_text(joined(what, ": the driver of GPU ", device_,
                       " creates no memory of the host that other processes can map; it needs CUDA 12.2 or newer"));
    CUmemAllocationProp how{};
    how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    how.location = on_host ? host_ : location_;
    how.requestedHandleTypes = type();
    CUmemGenericAllocationHandle memory = 0;
    if (const CUresult code = create_(&memory, bytes, &how, 0); code != CUDA_SUCCESS) {
      if (on_host) fail_host(what, bytes, code);
      if (by_fabric() && code != CUDA_ERROR_OUT_OF_MEMORY)
        fail_text(
            joined("the driver creates no memory with fabric handles: ", text_of(code),
                   code == CUDA_ERROR_NOT_PERMITTED ? " (no IMEX channel in /dev/nvidia-caps-imex-channels)" : ""));
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fail_text(joined(what, ": ", text_of_bytes(bytes), " do not fit: GPU ", device_, " has ", text_of_bytes(free),
                       " free of ", text_of_bytes(total), " (", text_of(code), ")"));
    }
    const owned_handle owner{*this, memory};
    memory_handle exported = export_and_map(at, bytes, memory);
    if (!on_host) return exported;
    const std::string why =
        text_of_error([&] { allow(at, bytes, host_, "access of the host's threads to its memory"); });
    if (why.empty()) return exported;
    decommit(at, bytes);
    fail_text(why);
  }
  /// Where memory of the host lies, for the log.
  std::string describe_host() const {
    size_t page = 0;
    CUmemAllocationProp how{};
    how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    how.location = host_;
    how.requestedHandleTypes = type();
    check(granularity_(&page, &how, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "cuMemGetAllocationGranularity");
    return joined("pinned on NUMA node ", host_.id, ", near GPU ", device_, ", in multiples of ", text_of_bytes(page));
  }
  /// Finds the allocations of cuMemCreate that lie behind a range of addresses. Throws gravel::error if there are none,
  /// or if others cannot map them.
  shareable_memory find_shareable(const char* at, uint64_t bytes) const {
    shareable_memory found;
    const CUdeviceptr end = address(at) + bytes;
    for (CUdeviceptr next = address(at); next < end;) {
      CUdeviceptr begin = 0;
      size_t size = 0;
      const void* const place = reinterpret_cast<const void*>(next);
      if (range_(&begin, &size, next) != CUDA_SUCCESS) fail_text(joined(place, " is no memory of a GPU. ", two_ways));
      CUmemGenericAllocationHandle memory = 0;
      if (retain_(&memory, reinterpret_cast<void*>(begin)) != CUDA_SUCCESS)
        fail_text(
            joined(place, " lies in memory of cudaMalloc, or in another that cuMemCreate has not made. ", two_ways));
      const owned_handle owner{*this, memory};
      CUmemAllocationProp how{};
      check(properties_(&how, memory), "cuMemGetAllocationPropertiesFromHandle");
      if (how.location.type != CU_MEM_LOCATION_TYPE_DEVICE || how.location.id != device_)
        fail_text(joined(place, " is no memory of GPU ", device_, ", which this PE uses"));
      if (!(static_cast<unsigned>(how.requestedHandleTypes) & static_cast<unsigned>(type())))
        fail_text(joined(place, " lies in memory of cuMemCreate that has no ", name_of(kind_), ". ", two_ways));
      if (found.pieces.empty()) found.begin = reinterpret_cast<const char*>(begin);
      found.pieces.push_back(size);
      next = begin + size;
    }
    return found;
  }
  /// Maps an allocation that lies at `from` a second time.
  memory_handle map_again(char* at, const char* from, uint64_t bytes) const {
    CUmemGenericAllocationHandle memory = 0;
    check(retain_(&memory, const_cast<char*>(from)), "cuMemRetainAllocationHandle");
    const owned_handle owner{*this, memory};
    return export_and_map(at, bytes, memory);
  }
  void map_shared(char* at, uint64_t bytes, memory_handle& theirs) const {
    // The driver takes the descriptor itself in place of an address, and the address of a fabric handle.
    void* const handle =
        by_fabric() ? theirs.fabric.data() : reinterpret_cast<void*>(static_cast<uintptr_t>(theirs.descriptor.get()));
    CUmemGenericAllocationHandle memory = 0;
    check(import_(&memory, handle, type()), "importing memory of another PE's GPU");
    const owned_handle owner{*this, memory};
    map_at(at, bytes, memory);
  }
  void decommit(char* at, uint64_t bytes) const { unmap_(address(at), bytes); }

 private:
  /// The mapping keeps the memory; the handle is no longer needed then.
  struct owned_handle {
    const extents_cuda& of;
    CUmemGenericAllocationHandle memory;
    ~owned_handle() { of.release_(memory); }
  };
  /// CUDA's headers have these numbers from 12.3 on.
  static constexpr auto fabric_supported = static_cast<CUdevice_attribute>(128);
  static constexpr auto host_numa_id = static_cast<CUdevice_attribute>(134);
  static constexpr auto host_numa_supported = static_cast<CUdevice_attribute>(141);
  static constexpr auto host_numa_type = static_cast<CUmemLocationType>(3);
  static constexpr auto fabric_type = static_cast<CUmemAllocationHandleType>(8);
  bool by_fabric() const { return kind_ == handle_kind::fabric; }
  CUmemAllocationHandleType type() const {
    return by_fabric() ? fabric_type : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  static CUdeviceptr address(const char* at) { return reinterpret_cast<CUdeviceptr>(at); }
  std::string text_of(CUresult code) const {
    const char* text = nullptr;
    text_(code, &text);
    return text ? text : joined("error ", code, " of the driver");
  }
  void check(CUresult code, const char* what) const {
    if (code != CUDA_SUCCESS) fail_text(joined(what, ": ", text_of(code)));
  }
  /// Says why the driver has created no memory of the host.
  [[noreturn]] void fail_host(const char* what, uint64_t bytes, CUresult code) const {
    std::string hint;
    if (code == CUDA_ERROR_NOT_PERMITTED)
      hint = "; a container may bind memory to NUMA nodes only with the right SYS_NICE (docker run --cap-add SYS_NICE)";
    if (code == CUDA_ERROR_NOT_SUPPORTED && by_fabric())
      hint = "; memory of the host may have no fabric handles here: set GRAVEL_HANDLE_TYPE=descriptor";
    fail_text(joined(what, ": ", text_of_bytes(bytes), " do not fit on NUMA node ", host_.id, " (", text_of(code),
                     "): ", describe_host_limits(), "; the limit of locked memory (ulimit -l) is ",
                     text_of_locked_limit(), hint));
  }
  memory_handle export_and_map(char* at, uint64_t bytes, CUmemGenericAllocationHandle memory) const {
    memory_handle exported;
    if (by_fabric()) {
      exported.fabric.resize(memory_handle::fabric_bytes);
      check(export_(exported.fabric.data(), memory, type(), 0), "exporting memory of the GPU by a fabric handle");
    } else {
      int descriptor = -1;
      check(export_(&descriptor, memory, type(), 0), "exporting memory of the GPU");
      exported.descriptor = owned_descriptor(descriptor);
    }
    map_at(at, bytes, memory);
    return exported;
  }
  void map_at(char* at, uint64_t bytes, CUmemGenericAllocationHandle memory) const {
    check(map_(address(at), bytes, 0, memory, 0), "mapping memory of the GPU");
    const std::string why = text_of_error([&] { allow(at, bytes, location_, "access to memory of the GPU"); });
    if (why.empty()) return;
    unmap_(address(at), bytes);
    fail_text(why);
  }
  /// Lets a GPU, or the host's threads, load from and store to mapped memory.
  void allow(char* at, uint64_t bytes, const CUmemLocation& whom, const char* what) const {
    CUmemAccessDesc access{};
    access.location = whom;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(set_access_(address(at), bytes, &access, 1), what);
  }

  int device_ = 0;
  handle_kind kind_ = handle_kind::descriptor;
  int has_host_ = 0;          ///< the driver creates memory of the host
  CUmemLocation location_{};  ///< the GPU
  CUmemLocation host_{};      ///< the NUMA node near it
  decltype(&cuMemAddressReserve) reserve_ = nullptr;
  decltype(&cuMemAddressFree) free_ = nullptr;
  decltype(&cuMemCreate) create_ = nullptr;
  decltype(&cuMemRelease) release_ = nullptr;
  decltype(&cuMemMap) map_ = nullptr;
  decltype(&cuMemUnmap) unmap_ = nullptr;
  decltype(&cuMemSetAccess) set_access_ = nullptr;
  decltype(&cuMemExportToShareableHandle) export_ = nullptr;
  decltype(&cuMemImportFromShareableHandle) import_ = nullptr;
  decltype(&cuMemRetainAllocationHandle) retain_ = nullptr;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties_ = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity_ = nullptr;
  decltype(&cuMemGetAddressRange) range_ = nullptr;
  decltype(&cuGetErrorString) text_ = nullptr;
};

}  // namespace gravel::detail
