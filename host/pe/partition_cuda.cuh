// Parts of a GPU's multiprocessors for resident kernels: green contexts of the driver, made of groups of 8, split once.
// A kernel in such a part runs only on its multiprocessors. Other kernels still use them where they fit. So a part does
// not replace the residency lease; but it prevents a few resident blocks from being spread over multiprocessors that
// kernels with much shared memory need.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "host/pe/device_scope.cuh"

namespace gravel::detail {

class partition_cuda {
 public:
  static constexpr unsigned group = 8;  ///< multiprocessors: the smallest part
#if CUDART_VERSION >= 12050
  struct part {
    cudaStream_t stream = nullptr;
    CUgreenCtx context = nullptr;
    size_t first = 0, n = 0;  ///< groups
  };

  /// Call it once, with the device current. Returns why there are no green contexts, or no room for one of so many
  /// multiprocessors and for another; empty: there are.
  std::string open(unsigned first) {
    if (cuda_driver::get().get_device(&device_) != CUDA_SUCCESS) return "the driver does not know the device";
    if (!find(&get_resource_, "cuDeviceGetDevResource") || !find(&split_, "cuDevSmResourceSplitByCount") ||
        !find(&describe_, "cuDevResourceGenerateDesc") || !find(&create_, "cuGreenCtxCreate") ||
        !find(&destroy_, "cuGreenCtxDestroy") || !find(&make_stream_, "cuGreenCtxStreamCreate"))
      return "the driver has no green contexts (they came with CUDA 12.4)";
    CUdevResource all{};
    unsigned n = 0;
    if (get_resource_(device_, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS)
      return "the driver does not say what multiprocessors there are";
    if (split_(nullptr, &n, &all, nullptr, 0, group) != CUDA_SUCCESS || n == 0)
      return "the driver cannot split this GPU";
    groups_.resize(n);
    if (split_(groups_.data(), &n, &all, nullptr, 0, group) != CUDA_SUCCESS) {
      groups_.clear();
      return "the driver cannot split this GPU";
    }
    if (n <= (first + group - 1) / group) {
      groups_.clear();
      return joined("this GPU has ", n, " parts of ", group, " multiprocessors, too few for the resolver's ", first);
    }
    groups_.resize(n);
    taken_.assign(n, false);
    return {};
  }
  bool is_open() const { return !groups_.empty(); }

  /// A stream on at least `processors` multiprocessors of its own. Throws gravel::error if fewer are left.
  part take(unsigned processors, int priority) {
    const size_t n = (processors + group - 1) / group;
    part p;
    for (p.first = 0; p.first + n <= groups_.size(); ++p.first) {
      size_t free = 0;
      while (free < n && !taken_[p.first + free]) ++free;
      if (free == n) break;
    }
    if (p.first + n > groups_.size())
      fail_text(joined("GRAVEL_PARTITION: ", processors, " multiprocessors of its own; the GPU's ",
                       groups_.size() * group, " are taken by other parts"));
    p.n = n;
    CUdevResourceDesc description;
    check(describe_(&description, &groups_[p.first], static_cast<unsigned>(n)), "cuDevResourceGenerateDesc");
    check(create_(&p.context, description, device_, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    CUstream stream = nullptr;
    check(make_stream_(&stream, p.context, CU_STREAM_NON_BLOCKING, priority), "cuGreenCtxStreamCreate");
    p.stream = stream;
    for (size_t i = 0; i < n; ++i) taken_[p.first + i] = true;
    return p;
  }
  /// Makes the multiprocessors of the part available again. destroy() may follow at any time.
  void release(const part& p) {
    for (size_t i = 0; i < p.n; ++i) taken_[p.first + i] = false;
  }
  /// Waits for all kernels of the process on this GPU. Any thread. The part may be only a stream.
  void destroy(const part& p) const {
    if (p.stream) cudaStreamDestroy(p.stream);
    if (p.context) destroy_(p.context);
  }

 private:
  template <class F>
  static bool find(F* function, const char* name) {
    return find_in_driver(function, name, CUDART_VERSION);
  }
  static void check(CUresult code, const char* what) { cuda_driver::check(code, "GRAVEL_PARTITION", what); }

  CUdevice device_ = 0;
  decltype(&cuDeviceGetDevResource) get_resource_ = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split_ = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe_ = nullptr;
  decltype(&cuGreenCtxCreate) create_ = nullptr;
  decltype(&cuGreenCtxDestroy) destroy_ = nullptr;
  decltype(&cuGreenCtxStreamCreate) make_stream_ = nullptr;
  std::vector<CUdevResource> groups_;
  std::vector<bool> taken_;
#else
  struct part {
    cudaStream_t stream = nullptr;
  };
  std::string open(unsigned) { return "compiled with a CUDA toolkit before 12.5"; }
  bool is_open() const { return false; }
  part take(unsigned, int) { return {}; }
  void release(const part&) {}
  void destroy(const part& p) const {
    if (p.stream) cudaStreamDestroy(p.stream);
  }
#endif
};

}  // namespace gravel::detail
