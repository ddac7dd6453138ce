// CUDA calls use the device that is current in the calling thread. Gravel's calls use the PE's device, in any thread.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <sstream>
#include <string>
#include "lib/base/error.hpp"

namespace gravel::detail {

/// A text made of the parts, one behind the other.
template <class... T>
std::string joined(const T&... parts) {
  std::ostringstream all;
  (all << ... << parts);
  return all.str();
}

/// True for errors that kernels cause. All later CUDA calls return them, too.
inline bool is_of_kernel(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

inline void cuda_check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // this error is reported here, so no later call shall report it
  const std::string who =
      is_of_kernel(code) ? "a kernel of gravel_launch, a handler, or a kernel of the program's own failed, seen by: "
                         : "";
  const char* hint = "";
  if (code == cudaErrorLaunchFailure)
    hint =
        "; so ends a kernel that uses a gravel_t that neither gravel_handle() nor gravel_host_handle() made: it is "
        "empty";
  if (code == cudaErrorIllegalAddress)
    hint = "; so ends, too, an access to a place of a symmetric heap, here or at another PE, where no object lies";
  fail_text(joined(who, what, ": ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")", hint));
}

/// Finds a function of the driver, which no program is linked with. `version`: of CUDA, for the types of its
/// parameters. False: the driver does not have it.
template <class F>
bool find_in_driver(F* function, const char* name, [[maybe_unused]] int version = 12000) {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  const cudaError_t code = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
#endif
  if (code != cudaSuccess) cudaGetLastError();
  *function = reinterpret_cast<F>(found);
  return code == cudaSuccess && found;
}

/// Functions of the driver for which the CUDA runtime has no equivalent.
struct cuda_driver {
  decltype(&cuCtxGetCurrent) get_current = find<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  decltype(&cuCtxPushCurrent) push = find<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent");
  decltype(&cuCtxPopCurrent) pop = find<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent");
  decltype(&cuCtxGetDevice) get_device = find<decltype(&cuCtxGetDevice)>("cuCtxGetDevice");
  decltype(&cuModuleGetLoadingMode) loading_mode = find<decltype(&cuModuleGetLoadingMode)>("cuModuleGetLoadingMode");

  static const cuda_driver& get() {
    static const cuda_driver all;
    return all;
  }
  /// Throws gravel::error if the driver does not have the function.
  template <class F>
  static F find(const char* name) {
    F found = nullptr;
    if (!find_in_driver(&found, name)) fail_text(joined("the CUDA driver has no ", name, "; it is too old"));
    return found;
  }
  /// `who`: the call or setting that needs `what`.
  static void check(CUresult code, const char* who, const char* what) {
    if (code != CUDA_SUCCESS) fail_text(joined(who, ": ", what, " failed with error ", code, " of the driver"));
  }
};

/// Context of the calling thread's current device.
inline CUcontext current_cuda_context() {
  CUcontext now = nullptr;
  if (cuda_driver::get().get_current(&now) != CUDA_SUCCESS) fail_text("cuCtxGetCurrent failed");
  return now;
}

/// While this object exists, CUDA calls of this thread use the device of `context` (nullptr: nothing changes). It
/// pushes and pops contexts instead of choosing devices: in a thread that has never chosen a device, choosing device 0
/// afterwards would make a context there. Calls of this thread do not disturb a stream capture elsewhere in the program
/// meanwhile.
class device_scope {
 public:
  explicit device_scope(CUcontext context) : context_(context) {
    if (!context_) return;
    cudaThreadExchangeStreamCaptureMode(&mode_);
    if (current_cuda_context() == context_) return;
    pushed_ = cuda_driver::get().push(context_) == CUDA_SUCCESS;
    if (!pushed_) fail_text("cuCtxPushCurrent failed: the PE's GPU cannot be made current");
  }
  ~device_scope() {
    if (!context_) return;
    CUcontext gone;
    if (pushed_) cuda_driver::get().pop(&gone);
    cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

 private:
  CUcontext context_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool pushed_ = false;
};

}  // namespace gravel::detail
