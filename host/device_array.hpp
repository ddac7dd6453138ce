// An array in this PE's device memory, outside the symmetric heap: for data that only its own kernels and handlers use.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

namespace gravel::detail {

/// gravel_synchronize and gravel_copy, but behind what is in the PE's own stream alone: one wait of the host instead of
/// two.
/// @param to where the bytes go
/// @param from where they lie
/// @param bytes 0 or more
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: a kernel has failed
/// @source CUDA: cudaMemcpy
inline void copy_behind_kernels(void* to, const void* from, uint64_t bytes) {
  current_backend().copy_in_stream(nullptr, to, from, bytes);
  current_backend().synchronize_stream(nullptr);
}

/// An array in this PE's device memory, outside the symmetric heap: for data that only its own kernels and handlers
/// use. Valid from gravel_init to gravel_finalize; it may be destroyed later.
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: there is no job, or no room
/// @source CUDA: cudaMalloc
template <class T>
class device_array {
 public:
  /// A copy of `host`.
  /// @param host what is copied
  explicit device_array(const std::vector<T>& host) {
    if (host.empty()) return;
    const uint64_t bytes = host.size() * sizeof(T);
    data_ = allocate(bytes);
    gravel_copy(data_, host.data(), bytes);
  }
  /// `count` items, not initialized.
  /// @param count of items
  explicit device_array(uint64_t count) {
    if (count) data_ = allocate(count * sizeof(T));
  }
  /// No array: data() is nullptr.
  device_array() = default;
  /// Takes over the array of another.
  /// @param other has none afterwards
  device_array(device_array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  device_array& operator=(device_array&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~device_array() { release(); }
  /// @internal
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;

  /// Address in device memory; nullptr of an empty array.
  const T* data() const { return data_; }
  /// Address in device memory; nullptr of an empty array.
  T* data() { return data_; }
  /// Frees it. No kernel may use it any more.
  void release() {
    if (data_) release_device_memory(data_);
    data_ = nullptr;
  }

 private:
  static T* allocate(uint64_t bytes) {
    const open_object in_job("device_array");  // names the array, should there be no job
    return static_cast<T*>(current_backend().allocate(bytes, "an array of the program"));
  }
  T* data_ = nullptr;
};

}  // namespace gravel::detail
