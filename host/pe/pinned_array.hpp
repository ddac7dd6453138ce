// An array in host memory that kernels and copy engines of this PE's GPU can access. It is pinned, and has pages of its
// own because whole pages are pinned.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "host/pe/backend.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

template <class T>
class pinned_array {
 public:
  pinned_array() = default;
  /// Makes `count` zeroed elements. Throws gravel::error that names `what`. Must be destroyed before `device`.
  pinned_array(backend& device, uint64_t count, const char* what) : device_(&device) {
    constexpr uint64_t page = 4096;
    const uint64_t bytes = (count * sizeof(T) + page - 1) / page * page;
    data_ = static_cast<T*>(std::aligned_alloc(page, bytes));
    if (!data_) fail_text("no memory for " + std::to_string(bytes) + " bytes: " + what);
    std::memset(static_cast<void*>(data_), 0, bytes);
    try {
      device.pin(data_, bytes);
    } catch (...) {
      std::free(data_);
      throw;
    }
  }
  pinned_array(pinned_array&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  pinned_array& operator=(pinned_array&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  pinned_array(const pinned_array&) = delete;
  pinned_array& operator=(const pinned_array&) = delete;
  ~pinned_array() {
    if (!data_) return;
    device_->unpin(data_);
    std::free(data_);
  }

  T* data() const { return data_; }

 private:
  backend* device_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace gravel::detail
