// mix and pick: random numbers that are a function of their place, for inputs that all PEs make alike.
#pragma once
#include "lib/base/mix.hpp"

namespace app {
using gravel::detail::mix;
using gravel::detail::pick;
}  // namespace app
