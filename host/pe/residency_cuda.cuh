// Keeps kernels of services resident on a GPU: always while kernels of gravel_launch run, and when something has come for one that slept. Without
// the hold such a kernel lives for a quantum only, so that cudaDeviceSynchronize and cudaFree, which wait for all that runs, return.
//
// The host alone decides the end, so no lane looks at the host. A launch of gravel_launch that finds one told to end waits for that end and
// for the next one's start. All members: with the launcher's lock held and the PE's context current.
#pragma once
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/partition_cuda.cuh"

namespace gravel {

class residency_cuda {
 public:
  /// `wanted`: GRAVEL_PARTITION. To be called once.
  void open(int device, const std::string& wanted, bool under_mps, uint64_t quantum_us) {
    quantum_ = std::chrono::microseconds(quantum_us);
    if (wanted == "hold") return;
    const std::string why = under_mps ? "MPS has parts of its own" : partition_.open(device);
    if (!why.empty() && wanted == "green") fail_text("GRAVEL_PARTITION=green: " + why);
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
    if (has_parts()) {
      k->part = partition_.take(processors_for(kernel), priority);
      k->stream = k->part.stream;
    } else {
      cuda_check(cudaStreamCreateWithPriority(&k->stream, cudaStreamNonBlocking, priority), "cudaStreamCreate");
    }
    all_.push_back(std::move(k));
  }
  /// It has ended.
  void remove(const resident_kernel& kernel) {
    const auto found = find(kernel);
    if (found == all_.end()) return;
    if (has_parts()) partition_.give_back((*found)->part);
    else cudaStreamDestroy((*found)->stream);
    all_.erase(found);
  }

  /// Starts what is wanted or has been called, tells what has had its time to end. `wanted`: the hold is in force. `store`: writes a word of the
  /// device's memory. True: one runs without the hold, and is to be looked after again soon.
  template <class Store>
  bool tend(bool wanted, Store store) {
    bool soon = false;
    for (const auto& k : all_) {
      look(*k);
      const uint64_t bell = load_acquire(&k->kernel->mail->bell);
      if (!k->runs && !k->leaves && (wanted || k->starts || bell != k->seen_bell)) start(*k, bell);
      const bool had_its_time = k->leaves || (!wanted && std::chrono::steady_clock::now() - k->started > quantum_);
      if (had_its_time && is_resident(*k)) {
        store(&k->kernel->life->stop, 1);
        k->stops = true;
      }
      soon |= k->runs && !wanted;
    }
    return soon;
  }
  bool all_resident() const {
    return std::all_of(all_.begin(), all_.end(), [](const auto& k) { return k->leaves || is_resident(*k); });
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
    if (const auto found = find(kernel); found != all_.end()) (*found)->leaves = true;
  }

  std::string describe() const {
    std::string text;
    for (const auto& k : all_)
      text += "; service '" + k->kernel->name + "': " + std::to_string(k->launches) + " launches, " +
              (is_resident(*k) ? "resident"
               : k->stops      ? "told to end"
               : k->runs       ? "not resident yet"
                               : "asleep");
    return text;
  }

 private:
  struct kept {
    resident_kernel* kernel = nullptr;
    cudaStream_t stream = nullptr;
    partition_cuda::part part;
    uint64_t launches = 0, seen_bell = 0;
    std::chrono::steady_clock::time_point started;
    bool runs = false, stops = false;  ///< it has been told to end
    bool starts = true;                ///< for the first time
    bool leaves = false;
  };
  /// [V3]. Only then it can be told to end: what the stream does before the kernel, clearing that word, is over.
  static bool is_resident(const kept& k) { return k.runs && !k.stops && load_acquire(&k.kernel->mail->resident) == k.launches; }
  std::vector<std::unique_ptr<kept>>::const_iterator find(const resident_kernel& kernel) const {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& k) { return k->kernel == &kernel; });
  }
  static void look(kept& k) {
    if (!k.runs) return;
    const cudaError_t state = cudaStreamQuery(k.stream);
    if (state == cudaErrorNotReady) return;
    cuda_check(state, ("the service '" + k.kernel->name + "'").c_str());
    k.runs = k.stops = false;
  }
  /// Whoever rings from here on wants another launch: this one may just have looked.
  static void start(kept& k, uint64_t bell) {
    k.seen_bell = bell;
    cuda_check(cudaMemsetAsync(k.kernel->life, 0, sizeof(service_life), k.stream), "cudaMemset");
    k.kernel->run(k.stream, ++k.launches);
    cuda_check(cudaGetLastError(), ("starting the service '" + k.kernel->name + "'").c_str());
    k.started = std::chrono::steady_clock::now();
    k.runs = true;
    k.starts = false;
  }

  partition_cuda partition_;
  std::chrono::nanoseconds quantum_{};
  std::vector<std::unique_ptr<kept>> all_;
};

}  // namespace gravel
