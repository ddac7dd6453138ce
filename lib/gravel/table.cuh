// Distributed tables (docs/tables.md): gravel::rows, gravel::array, and gravel::pair_updates, the handler for elements
// of 16 bits.
#pragma once
#include "lib/table/array.cuh"
#include "lib/table/rows.cuh"

namespace gravel {
using detail::array;
using detail::dealt;
using detail::rows;
using detail::rows_view;
}  // namespace gravel
