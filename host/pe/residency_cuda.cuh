// Keeps kernels of services resident on a GPU: always while kernels of gravel_launch run, and when something has come for one that slept. Without
// the hold such a kernel lives for a quantum only, so that cudaDeviceSynchronize and cudaFree, which wait for all that runs, return.
//
// [V4] (lib/base/service_rings.hpp). While kernels of gravel_launch run, nothing here calls CUDA but to ask streams: a launch or a copy would wait
// for a cudaFree of the program, which may wait for kernels that wait for services. All members: with the launcher's lock held and the PE's
// context current.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/partition_cuda.cuh"

namespace gravel {

class residency_cuda {
 public:
  /// `wanted`: GRAVEL_PARTITION. To be called once.
  void open(const std::string& wanted, bool under_mps, uint64_t quantum_us) {
    quantum_ns_ = quantum_us * 1000;
    if (wanted == "hold") return;
    const std::string why = under_mps ? "MPS has parts of its own" : partition_.open();
    if (!why.empty() && wanted == "green") fail_text(joined("GRAVEL_PARTITION=green: ", why));
  }
  bool has_parts() const { return partition_.is_open(); }
  partition_cuda& parts() { return partition_; }

  /// Of all services.
  uint64_t blocks() const {
    uint64_t n = 0;
    for (const auto& k : all_) n += k->kernel->blocks;
    return n;
  }
  bool is_empty() const { return all_.empty(); }

  /// Multiprocessors on which the blocks of this kernel find room at once.
  static unsigned processors_for(const resident_kernel& kernel) {
    int on_one = 0;
    cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel.function, static_cast<int>(kernel.threads), 0),
               "a service: occupancy");
    return on_one == 0 ? ~0u : (kernel.blocks + static_cast<unsigned>(on_one) - 1) / static_cast<unsigned>(on_one);
  }

  /// It does not run yet.
  void add(resident_kernel& kernel, int priority) {
    auto k = std::make_unique<kept>();
    k->kernel = &kernel;
    if (has_parts()) k->part = partition_.take(processors_for(kernel), priority);
    else cuda_check(cudaStreamCreateWithPriority(&k->part.stream, cudaStreamNonBlocking, priority), "cudaStreamCreate");
    kernel.mail->quantum_ns = quantum_ns_;
    tell(*k);
    all_.push_back(std::move(k));
  }
  /// It has ended. What comes back goes to destroy(), without the lock: that waits for all kernels that run, and the hold under which they may be
  /// ends only with the lock.
  partition_cuda::part remove(const resident_kernel& kernel) {
    const auto found = find(kernel);
    if (found == all_.end()) return {};
    const partition_cuda::part left = (*found)->part;
    if (has_parts()) partition_.give_back(left);
    all_.erase(found);
    return left;
  }
  void destroy(const partition_cuda::part& left) { partition_.destroy(left); }

  /// From now on this hold is in force, 0: none. Takes effect without CUDA.
  void hold(uint64_t number) {
    hold_ = number;
    for (const auto& k : all_) tell(*k);
  }
  /// Starts what the hold wants or has been called. True: one runs without the hold, and is to be looked after again soon.
  bool tend() {
    bool soon = false;
    for (const auto& k : all_) {
      look(*k);
      const uint64_t bell = load_acquire(&k->kernel->mail->bell);
      if (!k->runs && !k->leaves && (hold_ || k->starts || bell != k->seen_bell)) start(*k, bell);
      soon |= k->runs && !hold_;
    }
    return soon;
  }
  /// And stay, as long as this hold is in force.
  bool all_resident() const {
    return std::all_of(all_.begin(), all_.end(), [this](const auto& k) {
      return k->leaves || (is_resident(*k) && load_acquire(&k->kernel->mail->hold_seen) == hold_);  // [V4]
    });
  }
  bool any_runs() const {
    return std::any_of(all_.begin(), all_.end(), [](const auto& k) { return k->runs; });
  }
  bool runs(const resident_kernel& kernel) const {
    const auto found = find(kernel);
    return found != all_.end() && (*found)->runs;
  }
  /// From now on it ends and does not start again.
  void leave(const resident_kernel& kernel) {
    const auto found = find(kernel);
    if (found == all_.end()) return;
    (*found)->leaves = true;
    tell(**found);
  }

  std::string describe() const {
    std::string text;
    for (const auto& k : all_)
      text += joined("; service '", k->kernel->name, "': ", k->launches, " launches, ",
                     is_resident(*k) ? "resident"
                     : k->runs       ? "not resident yet"
                                     : "asleep");
    return text;
  }

 private:
  struct kept {
    resident_kernel* kernel = nullptr;
    partition_cuda::part part;
    uint64_t launches = 0, seen_bell = 0;
    bool runs = false;
    bool starts = true;  ///< for the first time
    bool leaves = false;
  };
  void tell(const kept& k) const { store_relaxed(&k.kernel->mail->hold, k.leaves ? service_mail::leave : hold_); }
  static bool is_resident(const kept& k) { return k.runs && load_acquire(&k.kernel->mail->resident) == k.launches; }  // [V3]
  std::vector<std::unique_ptr<kept>>::const_iterator find(const resident_kernel& kernel) const {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& k) { return k->kernel == &kernel; });
  }
  static void look(kept& k) {
    if (!k.runs) return;
    const cudaError_t state = cudaStreamQuery(k.part.stream);
    if (state == cudaErrorNotReady) return;
    cuda_check(state, ("the service '" + k.kernel->name + "'").c_str());
    k.runs = false;
  }
  /// Whoever rings from here on wants another launch: this one may just have looked.
  static void start(kept& k, uint64_t bell) {
    k.seen_bell = bell;
    cuda_check(cudaMemsetAsync(k.kernel->life, 0, sizeof(service_life), k.part.stream), "cudaMemset");
    k.kernel->run(k.part.stream, ++k.launches);
    cuda_check(cudaGetLastError(), ("starting the service '" + k.kernel->name + "'").c_str());
    k.runs = true;
    k.starts = false;
  }

  partition_cuda partition_;
  uint64_t hold_ = 0, quantum_ns_ = 0;
  std::vector<std::unique_ptr<kept>> all_;
};

}  // namespace gravel
