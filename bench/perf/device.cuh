// Shared by the parts of gravel-perf on both backends: memory, kernels outside of the job's traffic, poison and clock.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/perf/job.cuh"
#include "examples/common/together.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;
using namespace app;

/// Device memory, zeroed.
template <class T>
class device_array {
 public:
  explicit device_array(uint64_t count, const char* what = "memory of gravel-perf")
      : data_(static_cast<T*>(current_backend().allocate(count * sizeof(T), what))) {}
  ~device_array() { current_backend().release(data_); }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  T* data() const { return data_; }
  T read(uint64_t at = 0) const {
    T value;
    gravel_copy(&value, data_ + at, sizeof(T));
    return value;
  }
  void write(T value, uint64_t at = 0) const { gravel_copy(data_ + at, &value, sizeof(T)); }

 private:
  T* data_;
};

/// Host memory that kernels reach too: pinned as a PE's segment is.
class pinned_memory {
 public:
  explicit pinned_memory(uint64_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
    data_ = static_cast<char*>(std::aligned_alloc(4096, bytes_));
    if (!data_) fail_text("no memory for " + std::to_string(bytes) + " bytes");
    std::memset(data_, static_cast<int>(poison & 255), bytes_);
    current_backend().pin(data_, bytes_);
  }
  ~pinned_memory() {
    current_backend().unpin(data_);
    std::free(data_);
  }
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;
  char* data() const { return data_; }
  uint64_t size() const { return bytes_; }

 private:
  char* data_;
  uint64_t bytes_;
};

/// Starts a kernel that sends nothing to other PEs: on a GPU no resolver runs beside it. gravel_synchronize() waits for
/// it.
template <class... P, class... A>
void launch_with_shared(void (*kernel)(P...), unsigned grid, unsigned block, unsigned shared_bytes, A... arguments) {
#if GRAVEL_CUDA
  gravel_launch_config how;
  how.grid = grid;
  how.block = block;
  how.shared_bytes = shared_bytes;
  [&](P... values) {
    void* pointers[] = {&values..., nullptr};
    launch_on_cuda(reinterpret_cast<const void*>(kernel), how, pointers, launch_needs::none);
  }(static_cast<P>(arguments)...);
#else
  (void)shared_bytes;
  gravel_launch(kernel, grid, block, arguments...);
#endif
}
template <class... P, class... A>
void launch_plain(void (*kernel)(P...), unsigned grid, unsigned block, A... arguments) {
  launch_with_shared(kernel, grid, block, 0, arguments...);
}

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// The time of the slowest PE. Collective.
inline double slowest(double seconds) {
  return static_cast<double>(gravel_max_all(static_cast<uint64_t>(seconds * 1e9))) / 1e9;
}
/// The mean over all PEs of a rate, to three digits after a million. Collective.
inline double mean_of_pes(double rate) {
  return static_cast<double>(gravel_sum_all(static_cast<uint64_t>(rate * 1e3))) / 1e3 / gravel_n_pes();
}
inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Seconds that the timed repetitions of a row took.
struct timed_runs {
  double median = 0, least = 0, most = 0;
  static timed_runs of(const std::vector<double>& seconds) {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return {perf::median(seconds), *least, *most};
  }
};

/// Sum of the values of `count` words in device memory, modulo 2^64.
inline uint64_t sum_of(const uint64_t* words, uint64_t count) {
  device_array<uint64_t> sum(1);
  launch_plain(sum_words, blocks_to_fill_device(), lanes_of_block, words, count, sum.data());
  gravel_synchronize();
  return sum.read();
}
inline void fill_with(uint64_t* words, uint64_t count, uint64_t value) {
  launch_plain(fill_words, blocks_to_fill_device(), lanes_of_block, words, count, value);
  gravel_synchronize();
}

}  // namespace gravel_bench::perf
