// cuBLAS, where it is found at run time: its product of matrices of float, for comparison. Nothing is linked, and no
// header of cuBLAS is needed.
#pragma once
#include <dlfcn.h>

namespace gravel_bench {

/// The few functions that are needed; their binary interface is that of cuBLAS's second version. Of the device that is
/// current.
class cublas {
 public:
  cublas() {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if (!library) library = dlopen(name, RTLD_NOW);
    if (!library) return;
    const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
    set_stream_ = reinterpret_cast<decltype(set_stream_)>(dlsym(library, "cublasSetStream_v2"));
    multiply_ = reinterpret_cast<decltype(multiply_)>(dlsym(library, "cublasSgemm_v2"));
    if (!create || !set_stream_ || !multiply_ || create(&handle_) != 0) handle_ = nullptr;
  }
  bool is_there() const { return handle_ != nullptr; }
  /// A cudaStream_t for all that follows.
  bool use(void* stream) const { return set_stream_(handle_, stream) == 0; }
  /// c = a * b, of n rows and columns each, row by row. False: it was refused.
  bool multiply(const float* a, const float* b, float* c, int n) const {
    const float one = 1, zero = 0;
    return multiply_(handle_, 0, 0, n, n, n, &one, b, n, a, n, &zero, c, n) == 0;  // cuBLAS goes column by column
  }

 private:
  int (*set_stream_)(void*, void*) = nullptr;
  int (*multiply_)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                   float*, int) = nullptr;
  void* handle_ = nullptr;
};

}  // namespace gravel_bench
