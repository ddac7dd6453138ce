// Arguments of calls, as kernels take them: streams, and arrays of the host.
#pragma once
#include <cstdint>
#include <mutex>

#include <gravel/device_array.hpp>
#include <gravel/gravel.hpp>

#include "job.hpp"

namespace gravel::python {

/// Copies, in device memory, of arrays of the host that a call reads or writes. On the CPU backend they are these
/// arrays themselves. One call uses them at a time.
class host_arrays {
 public:
  /// `bytes`: of all arrays, at most.
  explicit host_arrays(uint64_t bytes) : lock_(mutex) {
    if (!GRAVEL_CUDA || bytes + slack <= room_bytes) return;
    room.release();
    room_bytes = 0;
    room = detail::device_array<char>(bytes + slack);
    room_bytes = bytes + slack;
  }
  /// Returns where kernels find the array.
  void* on_device(memory array, uint64_t bytes, bool is_read) {
    if (!GRAVEL_CUDA || array.on_device) return array.at;
    char* const at = room.data() + used_;
    used_ += (bytes + 15) / 16 * 16;
    if (is_read) gravel_copy(at, array.at, bytes);
    return at;
  }
  static void release() {
    room.release();
    room_bytes = 0;
  }

 private:
  static constexpr uint64_t slack = 64;  ///< for alignment
  inline static std::mutex mutex;
  inline static detail::device_array<char> room;
  inline static uint64_t room_bytes = 0;
  std::lock_guard<std::mutex> lock_;
  uint64_t used_ = 0;
};

inline gravel_stream_t stream_from(stream_of_call stream) {
  return reinterpret_cast<gravel_stream_t>(static_cast<uintptr_t>(stream.handle));
}

}  // namespace gravel::python
