// The text of the error that something ends with.
#pragma once
#include <functional>
#include <string>

#include "lib/base/error.hpp"

namespace gravel::detail {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace gravel::detail
