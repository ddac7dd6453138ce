// Distributed tables (docs/tables.md): gravel::rows and gravel::array, with gravel::pair_updates, the handler for
// elements of 16 bits; gravel::row_cache; gravel::row_exchange; gravel::row_optimizer.
#pragma once
#include "lib/base/place.hpp"
#include "lib/table/array.cuh"
#include "lib/table/optimizer.cuh"
#include "lib/table/row_cache.cuh"
#include "lib/table/row_exchange.cuh"
#include "lib/table/rows.cuh"

namespace gravel {
using detail::array;
using detail::dealt;
using detail::optimizer;
using detail::optimizer_settings;
using detail::place;
using detail::row_cache;
using detail::row_exchange;
using detail::row_format;
using detail::row_optimizer;
using detail::rows;
using detail::rows_view;
}  // namespace gravel
