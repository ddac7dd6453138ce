// Keeps the kernels of services resident on a GPU.
//
// Problem. cudaDeviceSynchronize and cudaFree of the program wait for all kernels that run, so a kernel must not run
// forever. But it must be resident while kernels of gravel_launch run, and run again when its doorbell has changed.
//
// Solution. While kernels of gravel_launch run, the launcher acquires a residency lease. Without the lease a kernel
// ends after a quantum, and is started again when its doorbell has changed.
//
// [V4] (lib/base/service_rings.hpp). While kernels of gravel_launch run, this file calls CUDA only to query streams. A
// launch or a copy would wait for a cudaFree of the program, which may wait for kernels that wait for services.
//
// Call all members with the launcher's lock held and the PE's context current.
#pragma once
#include <algorithm>
#include <map>
#include <string>

#include "host/pe/backend.hpp"
#include "host/pe/partition_cuda.cuh"

namespace gravel::detail {

class residency_cuda {
 public:
  /// `wanted`: GRAVEL_PARTITION. `first`: multiprocessors of the first part, the resolver's. Call it once.
  void open(const std::string& wanted, bool under_mps, uint64_t quantum_us, unsigned first) {
    quantum_ns_ = quantum_us * 1000;
    if (wanted == "lease") return;
    const std::string why = under_mps ? "MPS has parts of its own" : partition_.open(first);
    if (!why.empty() && wanted == "green") fail_text(joined("GRAVEL_PARTITION=green: ", why));
  }
  bool has_parts() const { return partition_.is_open(); }
  partition_cuda& parts() { return partition_; }

  /// Number of blocks of all services.
  uint64_t blocks() const {
    uint64_t n = 0;
    for (const auto& [kernel, k] : all_) n += kernel->blocks;
    return n;
  }
  bool is_empty() const { return all_.empty(); }

  /// Number of multiprocessors on which all blocks of this kernel can run at once.
  static unsigned processors_for(const resident_kernel& kernel) {
    int on_one = 0;
    cuda_check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel.function, static_cast<int>(kernel.threads), 0),
        "a service: occupancy");
    return on_one == 0 ? ~0u : (kernel.blocks + static_cast<unsigned>(on_one) - 1) / static_cast<unsigned>(on_one);
  }

  /// Adds a kernel, which does not run yet.
  void add(resident_kernel& kernel, int priority) {
    kept k{.kernel = &kernel};
    if (has_parts()) k.part = partition_.take(processors_for(kernel), priority);
    else cuda_check(cudaStreamCreateWithPriority(&k.part.stream, cudaStreamNonBlocking, priority), "cudaStreamCreate");
    kernel.control->quantum_ns = quantum_ns_;
    notify(k);
    all_[&kernel] = k;
  }
  /// Removes a kernel, which has ended. Pass the result to destroy(), without the lock: destroy() waits for all kernels
  /// that run, and the lease that some of them may need ends only with the lock held.
  partition_cuda::part remove(const resident_kernel& kernel) {
    const auto mine = all_.extract(&kernel);
    if (mine.empty()) return {};
    if (has_parts()) partition_.release(mine.mapped().part);
    return mine.mapped().part;
  }
  void destroy(const partition_cuda::part& left) { partition_.destroy(left); }

  /// From now on this lease is in force; 0: none. Works without CUDA.
  void lease(uint64_t number) {
    lease_ = number;
    for (const auto& [kernel, k] : all_) notify(k);
  }
  /// Starts kernels for which the lease asks, or whose doorbell has changed. True: a kernel runs without the lease, so
  /// call this again soon.
  bool advance() {
    bool soon = false;
    for (auto& [kernel, k] : all_) {
      poll(k);
      const uint64_t doorbell = load_acquire(&kernel->control->doorbell);
      if (!k.runs && !k.leaves && (lease_ || k.starts || doorbell != k.seen_doorbell)) start(k, doorbell);
      soon |= k.runs && !lease_;
    }
    return soon;
  }
  /// True if all kernels are resident, and stay as long as this lease is in force.
  bool all_resident() const {
    return std::all_of(all_.begin(), all_.end(), [this](const auto& one) {
      const kept& k = one.second;
      return k.leaves || (is_resident(k) && load_acquire(&k.kernel->control->lease_seen) == lease_);  // [V4]
    });
  }
  bool any_runs() const {
    return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one.second.runs; });
  }
  bool runs(const resident_kernel& kernel) const {
    const auto found = all_.find(&kernel);
    return found != all_.end() && found->second.runs;
  }
  /// From now on the kernel ends and does not start again.
  void leave(const resident_kernel& kernel) {
    const auto found = all_.find(&kernel);
    if (found == all_.end()) return;
    found->second.leaves = true;
    notify(found->second);
  }

  std::string describe() const {
    std::string text;
    for (const auto& [kernel, k] : all_) {
      const char* state = "asleep";
      if (is_resident(k)) state = "resident";
      else if (k.runs) state = "not resident yet";
      text += joined("; service '", kernel->name, "': ", k.launches, " launches, ", state);
    }
    return text;
  }

 private:
  struct kept {
    const resident_kernel* kernel;
    partition_cuda::part part{};
    uint64_t launches = 0, seen_doorbell = 0;
    bool runs = false;
    bool starts = true;  ///< for the first time
    bool leaves = false;
  };
  void notify(const kept& k) const {
    store_relaxed(&k.kernel->control->lease, k.leaves ? service_control::leave : lease_);
  }
  static bool is_resident(const kept& k) {
    return k.runs && load_acquire(&k.kernel->control->resident) == k.launches;
  }  // [V3]
  static void poll(kept& k) {
    if (!k.runs) return;
    const cudaError_t state = cudaStreamQuery(k.part.stream);
    if (state == cudaErrorNotReady) return;
    cuda_check(state, ("the service '" + k.kernel->name + "'").c_str());
    k.runs = false;
  }
  /// A doorbell that changes from here on asks for another launch: this one may just have polled.
  static void start(kept& k, uint64_t doorbell) {
    k.seen_doorbell = doorbell;
    cuda_check(cudaMemsetAsync(k.kernel->life, 0, sizeof(service_life), k.part.stream), "cudaMemset");
    k.kernel->run(k.part.stream, ++k.launches);
    cuda_check(cudaGetLastError(), ("starting the service '" + k.kernel->name + "'").c_str());
    k.runs = true;
    k.starts = false;
  }

  partition_cuda partition_;
  uint64_t lease_ = 0, quantum_ns_ = 0;
  std::map<const resident_kernel*, kept> all_;
};

}  // namespace gravel::detail
