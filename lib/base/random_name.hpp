// Names that nobody can guess.
#pragma once
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/error.hpp"

namespace gravel::detail {

/// 128 random bits from the kernel, as 32 hexadecimal digits. Throws gravel::error.
inline std::string random_name() {
  uint8_t bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) fail_errno("getrandom");
  std::string name;
  for (const uint8_t byte : bytes)
    for (const int digit : {byte >> 4, byte & 15}) name += "0123456789abcdef"[digit];
  return name;
}

}  // namespace gravel::detail
