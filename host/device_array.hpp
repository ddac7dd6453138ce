// An array in this PE's device memory, outside the symmetric heap, for data that only its own kernels and handlers use.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

namespace gravel::detail {

/// Copies as gravel_copy does, after the kernels in the PE's own stream. Replaces gravel_synchronize and gravel_copy,
/// with one wait of the host instead of two.
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

/// An array in this PE's device memory, outside the symmetric heap, for data that only its own kernels and handlers
/// use. It can be used from gravel_init to gravel_finalize. It may be destroyed later.
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: there is no job, or no room
/// @source CUDA: cudaMalloc
template <class T>
class device_array {
 public:
  /// Makes a copy of a host array.
  /// @param host what is copied
  explicit device_array(const std::vector<T>& host) {
    if (host.empty()) return;
    const uint64_t bytes = host.size() * sizeof(T);
    data_ = allocate(bytes);
    gravel_copy(data_, host.data(), bytes);
  }
  /// Makes an array that is not initialized.
  /// @param count number of elements
  explicit device_array(uint64_t count) {
    if (count) data_ = allocate(count * sizeof(T));
  }
  /// Makes no array: data() is nullptr.
  device_array() = default;
  /// Takes over the array of another object.
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

  /// @return address in device memory; nullptr if the array is empty
  const T* data() const { return data_; }
  /// @return address in device memory; nullptr if the array is empty
  T* data() { return data_; }
  /// Frees the array. No kernel may use it any more.
  void release() {
    if (data_) release_device_memory(data_);
    data_ = nullptr;
  }

 private:
  static T* allocate(uint64_t bytes) {
    const open_object in_job("device_array");  // the error names the array if there is no job
    return static_cast<T*>(current_backend().allocate(bytes, "an array of the program"));
  }
  T* data_ = nullptr;
};

}  // namespace gravel::detail
