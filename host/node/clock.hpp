// The time, the same for all processes of a host.
#pragma once
#include <chrono>
#include <cstdint>

namespace gravel::detail {

inline uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}
inline uint64_t now_us() { return now_ns() / 1000; }

}  // namespace gravel::detail
