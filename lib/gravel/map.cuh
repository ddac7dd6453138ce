// Distributed hash maps (docs/maps.md): gravel::map.
#pragma once
#include "lib/table/map.cuh"

namespace gravel {
using detail::map;
using detail::map_options;
using detail::map_view;
}  // namespace gravel
