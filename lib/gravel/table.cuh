// Distributed tables (docs/tables.md): gravel::rows.
#pragma once
#include "lib/table/rows.cuh"

namespace gravel {
using detail::rows;
using detail::rows_view;
}  // namespace gravel
