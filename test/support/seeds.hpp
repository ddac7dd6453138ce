// How much a test does under a sanitizer, which checks each access and takes ten to a hundred times as long.
#pragma once
#include <cstdint>

/// How many of `all` schedules (or rounds) this build tries. A sanitizer finds a wrong access in nearly any schedule;
/// the normal build tries the rare schedules.
constexpr uint64_t of_seeds(uint64_t all) {
#if defined(__SANITIZE_THREAD__)
  return (all + 9) / 10;
#elif defined(__SANITIZE_ADDRESS__)
  return (all + 3) / 4;
#else
  return all;
#endif
}
