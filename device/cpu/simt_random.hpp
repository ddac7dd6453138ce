// Random numbers for schedules.
#pragma once
#include <cstdint>

namespace gravel::simt::detail {

/// splitmix64: good enough to draw schedules from.
class random_numbers {
 public:
  explicit random_numbers(uint64_t seed = 0) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(((*this)() >> 32) * n >> 32); }

 private:
  uint64_t state_;
};

}  // namespace gravel::simt::detail
