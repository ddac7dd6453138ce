// NCCL, where it is found at run time: its allreduce and its exchanges, for comparison. Nothing is linked, and no
// header of NCCL is needed.
#pragma once
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>

namespace gravel_bench {
using namespace gravel::detail;

#if GRAVEL_CUDA
/// A communicator of all PEs. Its functions are those of NCCL 2, whose binary interface is stable.
class nccl_ring {
 public:
  /// `file`: libnccl.so.2, or where it is. Not found, on some PE: is_there() is false on all, why() says it.
  /// Collective.
  explicit nccl_ring(const std::string& file) {
    library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) {
      const char* const text = dlerror();
      why_ = text ? text : "not found";
    }
    if (!gravel_min_all(uint64_t{library_ != nullptr})) return;
    unique_id id{};
    if (gravel_my_pe() == 0) check(find<int (*)(unique_id*)>("ncclGetUniqueId")(&id), "ncclGetUniqueId");
    gravel_broadcast(&id, 1, 0);
    check(find<int (*)(void**, int, unique_id, int)>("ncclCommInitRank")(&comm_, gravel_n_pes(), id, gravel_my_pe()),
          "ncclCommInitRank");
    all_reduce_ = find<all_reduce_type>("ncclAllReduce");
    int version = 0;
    find<int (*)(int*)>("ncclGetVersion")(&version);
    version_ = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
               std::to_string(version % 100);
  }
  ~nccl_ring() {
    if (comm_) find<int (*)(void*)>("ncclCommDestroy")(comm_);
  }
  nccl_ring(const nccl_ring&) = delete;
  nccl_ring& operator=(const nccl_ring&) = delete;

  bool is_there() const { return comm_ != nullptr; }
  const std::string& why() const { return why_; }
  const std::string& version() const { return version_; }
  void sum(float* to, const float* from, uint64_t count, cudaStream_t stream) {
    constexpr int float32 = 7, sum = 0;
    check(all_reduce_(from, to, count, float32, sum, comm_, stream), "ncclAllReduce");
  }
  /// Each PE sends bytes to each. `firsts`: where those to a PE, or from it, begin; the last one is the end of all.
  void all_to_all(const void* from, const std::vector<uint64_t>& from_firsts, void* to,
                  const std::vector<uint64_t>& to_firsts, cudaStream_t stream) {
    constexpr int uint8 = 1;
    const auto send = find<int (*)(const void*, size_t, int, int, void*, cudaStream_t)>("ncclSend");
    const auto receive = find<int (*)(void*, size_t, int, int, void*, cudaStream_t)>("ncclRecv");
    check(find<int (*)()>("ncclGroupStart")(), "ncclGroupStart");
    for (size_t pe = 0; pe + 1 < from_firsts.size(); ++pe) {
      const uint64_t sent = from_firsts[pe + 1] - from_firsts[pe], received = to_firsts[pe + 1] - to_firsts[pe];
      const char* const begin = static_cast<const char*>(from) + from_firsts[pe];
      if (sent) check(send(begin, sent, uint8, static_cast<int>(pe), comm_, stream), "ncclSend");
      char* const into = static_cast<char*>(to) + to_firsts[pe];
      if (received) check(receive(into, received, uint8, static_cast<int>(pe), comm_, stream), "ncclRecv");
    }
    check(find<int (*)()>("ncclGroupEnd")(), "ncclGroupEnd");
  }

 private:
  struct unique_id {
    char bytes[128];
  };
  using all_reduce_type = int (*)(const void*, void*, size_t, int, int, void*, cudaStream_t);
  template <class F>
  F find(const char* name) const {
    void* const found = dlsym(library_, name);
    if (!found) fail_text(std::string("NCCL has no ") + name);
    return reinterpret_cast<F>(found);
  }
  static void check(int code, const char* what) {
    if (code) fail_text(std::string(what) + " failed: " + std::to_string(code));
  }
  void* library_ = nullptr;
  void* comm_ = nullptr;
  all_reduce_type all_reduce_ = nullptr;
  std::string why_, version_;
};
#endif

}  // namespace gravel_bench
