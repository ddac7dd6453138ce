// Starts the kernels that gather rows from mapped memory.
#pragma once
#include "lib/table/host_rows.cuh"
#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

/// Starts gather_rows(), or gather_of_host().
template <class Unit, class Held, class Id>
void launch_gather_by(const rows_view& table, const Held& held, void* out, const Id* ids, uint64_t n, uint64_t before,
                      gravel_stream_t stream) {
  const bool of_host = table.where == place::host;
  // The link to memory of the host is full with few loads under way: so other kernels get most of the device.
  const uint64_t most = of_host ? message_row_blocks() : most_row_blocks();
  const uint64_t units = of_host ? uint64_t{32} * loads_of_row(table.row_bytes) : table.row_bytes / sizeof(Unit);
  const uint32_t batch = batch_of(n, units, most * warps_of_rows);
  const uint64_t blocks = ((n + batch - 1) / batch + warps_of_rows - 1) / warps_of_rows;
  gravel_launch_config how{static_cast<unsigned>(std::min(blocks, most)), row_lanes};
  how.stream = stream;
  launch_alone(of_host ? gather_of_host<Unit, Id, Held> : gather_rows<Unit, Id, Held>, how, gravel_handle(), table,
               held, static_cast<Unit*>(out), ids, n, batch, before);
}
/// The same with the widest units to which the rows and the result are aligned.
template <class Held, class Id>
void launch_gather(const rows_view& table, const Held& held, void* out, const Id* ids, uint64_t n, uint64_t before,
                   gravel_stream_t stream) {
  const uint64_t alignment = reinterpret_cast<uint64_t>(out) | table.row_bytes;
  if (alignment % 16 == 0) launch_gather_by<row_unit_16>(table, held, out, ids, n, before, stream);
  else if (alignment % 8 == 0) launch_gather_by<uint64_t>(table, held, out, ids, n, before, stream);
  else launch_gather_by<uint32_t>(table, held, out, ids, n, before, stream);
}

}  // namespace gravel::detail
