#include "host/info/memory_handles.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "host/info/cuda_driver.hpp"

namespace gravel::detail {
namespace {

/// Returns why memory cannot be created or exported with this kind of handle; empty: it can.
std::string try_handle(const cuda_driver& cuda, int type, int supported) {
  int has = 0;
  if (cuda.device_attribute(&has, supported, 0) != 0 || !has) return "GPU 0 has none";
  cuda_allocation how{};
  how.type = cuda_allocation::pinned;
  how.handle_types = type;
  how.location_type = cuda_allocation::on_device;
  uint64_t memory = 0;
  if (const int result = cuda.create_memory(&memory, 32 << 20, &how, 0)) {
    const char* const hint = type == cuda_allocation::fabric && result == cuda_driver::not_permitted
                                 ? "; there is no IMEX channel (/dev/nvidia-caps-imex-channels)"
                                 : "";
    return fmt::format("cuMemCreate: {}{}", cuda.text_of(result), hint);
  }
  union {
    int descriptor;
    unsigned char fabric[64];
  } handle;
  const int result = cuda.export_memory(&handle, memory, type, 0);
  if (result == 0 && type == cuda_allocation::descriptor) close(handle.descriptor);
  cuda.release_memory(memory);
  return result ? fmt::format("cuMemExportToShareableHandle: {}", cuda.text_of(result)) : "";
}

}  // namespace

handle_report try_memory_handles() {
  const cuda_driver cuda;
  if (const std::string why_not = cuda.make_context(); !why_not.empty()) return {why_not, why_not};
  return {try_handle(cuda, cuda_allocation::descriptor, cuda_driver::descriptors),
          try_handle(cuda, cuda_allocation::fabric, cuda_driver::fabric_handles)};
}

}  // namespace gravel::detail
