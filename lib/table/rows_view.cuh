// What kernels see of a table of rows: a plain value, which is passed by value.
#pragma once
#include <gravel/gravel.cuh>
#include "host/mapped_sender.cuh"
#include "lib/base/place.hpp"
#include "lib/table/row_dealing.hpp"

namespace gravel::detail {

/// A table of rows, for kernels. gravel::rows::view() returns it; it is valid as long as the table.
/// @scope lane, from divergent code
/// @completion as loads and stores of CUDA, unless a call says otherwise
/// @errors nothing is checked, unless a call says otherwise
/// @source OpenSHMEM 1.5: shmem_ptr
struct rows_view {
  row_dealing dealing;
  uint64_t row_bytes;
  char* own;  ///< this PE's rows, symmetric
  place where = place::device;

  /// Returns whether the table has a row.
  /// @param row any number
  GRAVEL_BOTH bool has(uint64_t row) const { return row < dealing.rows(); }
  /// Returns the number of the row at a place of a PE.
  /// @param pe the owner
  /// @param place index among the rows of that PE
  GRAVEL_BOTH uint64_t row(int pe, uint64_t place) const { return dealing.row(static_cast<uint32_t>(pe), place); }
  /// Returns the PE that owns a row.
  /// @param row below the number of rows
  GRAVEL_BOTH int owner(uint64_t row) const { return static_cast<int>(dealing.owner(row)); }
  /// Returns the symmetric address of a row: the destination of gravel_add and other operations to owner(row).
  /// @param row below the number of rows
  template <class T>
  GRAVEL_BOTH T* symmetric(uint64_t row) const {
    return reinterpret_cast<T*>(own + dealing.place(row) * row_bytes);
  }
  /// Returns the address at which this PE reaches a row, also of another PE. The table must be mapped (is_mapped()).
  /// @param others begun in this block
  /// @param row below the number of rows
  template <class T>
  GRAVEL_DEVICE T* mapped(const mapped_sender& others, uint64_t row) const {
    return others.at(symmetric<T>(row), owner(row));
  }
};

}  // namespace gravel::detail
