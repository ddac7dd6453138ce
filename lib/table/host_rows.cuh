// Reads rows of a table that lies in memory of the host.
//
// Problem. A GPU reads memory of the host by requests of up to 128 bytes, a line, and only so many of them are under
// way on PCIe. Rows begin anywhere in a line. Where two loads of a warp share a line, each requests a part of it: then
// a row takes twice as many requests as it has lines.
// Solution. A warp reads a row by one load: lane i has the i-th 16 bytes from the begin of the line in which the row
// begins. So each line of a row is requested once, by the sectors of 32 bytes that the row has in it. Longer rows take
// several loads. Each lane has several loads under way, of several rows.
#pragma once
#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

constexpr uint32_t line_bytes = 128;
constexpr uint32_t load_bytes = 32 * sizeof(row_unit_16);  // of a warp

/// Loads of a warp for a row that begins anywhere in a line.
GRAVEL_BOTH constexpr uint32_t loads_of_row(uint64_t row_bytes) {
  return static_cast<uint32_t>((row_bytes + line_bytes - sizeof(uint32_t) + load_bytes - 1) / load_bytes);
}

/// What a lane loads at once: 16 bytes, of which some units may lie beside the row.
template <class Unit>
struct alignas(16) lane_part {
  static constexpr uint32_t units = sizeof(row_unit_16) / sizeof(Unit);
  Unit unit[units];

  /// Loads 16 bytes at `from + place`, an address that is a multiple of 16. `row_bytes`: of the row that begins at
  /// `from`. On the CPU backend it does not touch what lies beside the row, which others may be writing.
  GRAVEL_DEVICE void load(const char* from, int32_t place, int32_t row_bytes) {
#if GRAVEL_ON_GPU
    (void)row_bytes;
    *this = *reinterpret_cast<const lane_part*>(from + place);
#else
    for (uint32_t j = 0; j < units; ++j)
      if (has(j, place, row_bytes)) unit[j] = *reinterpret_cast<const Unit*>(from + place_of(j, place));
#endif
  }
  GRAVEL_DEVICE static int32_t place_of(uint32_t j, int32_t place) {
    return place + static_cast<int32_t>(j * sizeof(Unit));
  }
  /// Returns whether unit j lies in the row.
  GRAVEL_DEVICE static bool has(uint32_t j, int32_t place, int32_t row_bytes) {
    return place_of(j, place) >= 0 && place_of(j, place) < row_bytes;
  }
};

/// As gather_rows(), of memory of the host.
template <class Unit, class Id, class Held>
__global__ void __launch_bounds__(row_lanes)
    gather_of_host(const __grid_constant__ gravel_t g, const __grid_constant__ rows_view table,
                   const __grid_constant__ Held held, Unit* out, const Id* ids, uint64_t n, uint32_t batch,
                   uint64_t before) {
  using part = lane_part<Unit>;
  __shared__ mapped_sender others;
  others.begin(g);
  const uint32_t lane = threadIdx.x % 32, loads = loads_of_row(table.row_bytes);
  const auto row_bytes = static_cast<int32_t>(table.row_bytes);
  const uint64_t step = uint64_t{gridDim.x} * warps_of_rows * batch;
  for (uint64_t first = (uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32) * batch; first < n; first += step) {
    const auto rows = static_cast<uint32_t>(n - first < batch ? n - first : batch);
    const char* row = nullptr;
    if (lane < rows) {
      const auto id = static_cast<uint64_t>(ids[first + lane]);
      if (check_row(g, table, id, before + first + lane)) {
        if constexpr (!std::is_same_v<Held, no_row_cache>)
          if (table.owner(id) != static_cast<int>(g.my_pe))
            row = held.template find<char>(first + lane, id, table.row_bytes);
        if (!row) row = table.mapped<char>(others, id);
      }
    }
    const uint32_t all = rows * loads;
    for (uint32_t begin = 0; begin < all; begin += units_under_way) {
      part values[units_under_way] = {};
      int32_t places[units_under_way];  // of the 16 bytes in the row
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < units_under_way; ++k) {
        const uint32_t at = begin + k < all ? begin + k : 0, which = at / loads;
        const auto address = __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), static_cast<int>(which));
        places[k] = static_cast<int32_t>((at - which * loads) * load_bytes + lane * sizeof(row_unit_16)) -
                    static_cast<int32_t>(address % line_bytes);
        const bool lies_in_row = places[k] > -static_cast<int32_t>(sizeof(row_unit_16)) && places[k] < row_bytes;
        if (begin + k < all && address && lies_in_row)
          values[k].load(reinterpret_cast<const char*>(address), places[k], row_bytes);
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < units_under_way; ++k) {
        if (begin + k >= all) continue;
        Unit* const to = out + (first + (begin + k) / loads) * (table.row_bytes / sizeof(Unit));
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < part::units; ++j)
          if (part::has(j, places[k], row_bytes))
            to[part::place_of(j, places[k]) / static_cast<int32_t>(sizeof(Unit))] = values[k].unit[j];
      }
    }
  }
}

}  // namespace gravel::detail
