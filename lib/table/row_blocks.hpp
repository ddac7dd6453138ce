// Division of a table's rows among PEs: PE p owns the p-th block of rows. All blocks have the same size; the last ones
// may be shorter or empty.
#pragma once
#include <cstdint>

#include "lib/table/divisor.hpp"

namespace gravel::detail {

class row_blocks {
 public:
  /// Divides rows among PEs.
  /// @param rows number of rows
  /// @param pes number of PEs, at least 1
  row_blocks(uint64_t rows, uint32_t pes) : rows_(rows), block_(share_of(rows, pes)) {}

  GRAVEL_BOTH uint64_t rows() const { return rows_; }
  /// Returns the rows for which each PE has room.
  GRAVEL_BOTH uint64_t room() const { return block_.value(); }
  /// Returns the owner of a row.
  /// @param row below rows()
  GRAVEL_BOTH uint32_t owner(uint64_t row) const { return static_cast<uint32_t>(block_.quotient(row)); }
  /// Returns the number of a PE's first row; rows() if it has none.
  GRAVEL_BOTH uint64_t first(uint32_t pe) const {
    const uint64_t row = room() * pe;
    return row < rows_ ? row : rows_;
  }
  /// Returns the number of rows that a PE has.
  GRAVEL_BOTH uint64_t count(uint32_t pe) const { return first(pe + 1) - first(pe); }

 private:
  static uint64_t share_of(uint64_t rows, uint32_t pes) {
    const uint64_t share = rows / pes + (rows % pes != 0);
    return share < 2 ? 2 : share;  // what divisor takes
  }
  uint64_t rows_;
  divisor block_;
};

}  // namespace gravel::detail
