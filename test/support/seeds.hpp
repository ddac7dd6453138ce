// How much a test does where a sanitizer looks at each access, which takes ten to a hundred times as long.
#pragma once
#include <cstdint>

/// Of `all` schedules (or rounds) those to be tried by this build. A sanitizer finds what is wrong with an access in
/// nearly any schedule; the rare schedules are the normal build's.
constexpr uint64_t of_seeds(uint64_t all) {
#if defined(__SANITIZE_THREAD__)
  return (all + 9) / 10;
#elif defined(__SANITIZE_ADDRESS__)
  return (all + 3) / 4;
#else
  return all;
#endif
}
