// Random numbers for schedules.
#pragma once
#include <utility>

#include "lib/base/mix.hpp"

namespace gravel::detail::simt::inner {

/// splitmix64, which is good enough for schedules.
class random_numbers {
 public:
  explicit random_numbers(uint64_t seed = 0) : state_(seed) {}
  uint64_t operator()() { return mix(std::exchange(state_, state_ + 0x9e3779b97f4a7c15u)); }
  uint32_t below(uint32_t n) { return pick((*this)(), n); }

 private:
  uint64_t state_;
};

}  // namespace gravel::detail::simt::inner
