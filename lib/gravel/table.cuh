// Distributed tables (docs/tables.md): gravel::rows, and gravel::pair_updates, the handler for elements of 16 bits.
#pragma once
#include "lib/table/rows.cuh"

namespace gravel {
using detail::rows;
using detail::rows_view;
}  // namespace gravel
