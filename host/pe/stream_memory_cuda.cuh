// Waits and stores that a CUDA stream does itself, without a kernel: the driver's stream memory operations.
#pragma once

#include "host/pe/device_scope.cuh"

namespace gravel::detail {

/// Functions of the driver, found at run time. The constructor throws gravel::error if the driver or the current device
/// cannot do this for words of 64 bits.
struct stream_memory {
  decltype(&cuStreamWaitValue64) wait = cuda_driver::find<decltype(&cuStreamWaitValue64)>("cuStreamWaitValue64");
  decltype(&cuStreamWriteValue64) write = cuda_driver::find<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");

  stream_memory() {
    const auto attribute_of = cuda_driver::find<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
    CUdevice device = 0;
    int has = 0;
    check(cuda_driver::get().get_device(&device), "cuCtxGetDevice");
    check(attribute_of(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device), "cuDeviceGetAttribute");
    if (!has)
      fail_text(
          "gravel_stream_wait: streams of this GPU, or of its driver, cannot wait for words of 64 bits; wait by a "
          "kernel: "
          "gravel_wait(gravel_event{word, value}, stream) of lib/link/event.cuh");
  }
  static void check(CUresult code, const char* what) {
    cuda_driver::check(code, "gravel_stream_wait, gravel_stream_write", what);
  }
};

}  // namespace gravel::detail
