// Dealing of a table's rows to PEs, in blocks or one by one. Either way the number of a row is divided once: by the
// rows of a block, where the quotient is the owner and the remainder the place there, or by the number of PEs, where
// the quotient is the place and the remainder the owner.
#pragma once
#include <cstdint>

#include "lib/table/divisor.hpp"

namespace gravel::detail {

/// How the rows of a table are dealt to PEs.
enum class dealt : uint8_t {
  blocks,  ///< PE p has the p-th block of rows. Blocks have the same size; the last ones may be shorter or empty
  cyclic   ///< row r is at PE r mod n, for n PEs
};

class row_dealing {
 public:
  /// Deals rows to PEs.
  /// @param rows number of rows
  /// @param pes number of PEs, at least 1
  /// @param how in blocks or one by one
  row_dealing(uint64_t rows, uint32_t pes, dealt how)
      : rows_(rows), is_cyclic_(how == dealt::cyclic && pes > 1), by_(is_cyclic_ ? pes : block_of(rows, pes)) {}
  /// Deals rows in blocks of a given size.
  /// @param rows number of rows
  /// @param block rows of each PE but the last ones, at least 2
  row_dealing(uint64_t rows, uint64_t block) : rows_(rows), is_cyclic_(false), by_(block) {}

  GRAVEL_BOTH uint64_t rows() const { return rows_; }
  /// Returns how rows are dealt. One PE has all rows in one block.
  dealt how() const { return is_cyclic_ ? dealt::cyclic : dealt::blocks; }
  /// Returns the rows for which each PE has room.
  uint64_t room() const { return is_cyclic_ ? share_of(rows_, by_.value()) : by_.value(); }
  /// Returns the owner of a row.
  /// @param row below rows()
  GRAVEL_BOTH uint32_t owner(uint64_t row) const {
    const uint64_t quotient = by_.quotient(row);
    return static_cast<uint32_t>(is_cyclic_ ? row - quotient * by_.value() : quotient);
  }
  /// Returns the place of a row among those of its owner: below count(owner(row)).
  /// @param row below rows()
  GRAVEL_BOTH uint64_t place(uint64_t row) const {
    const uint64_t quotient = by_.quotient(row);
    return is_cyclic_ ? quotient : row - quotient * by_.value();
  }
  /// Returns the number of the row at a place of a PE.
  /// @param place below count(pe)
  GRAVEL_BOTH uint64_t row(uint32_t pe, uint64_t place) const {
    return is_cyclic_ ? place * by_.value() + pe : by_.value() * pe + place;
  }
  /// Returns the number of a PE's first row; rows() if it has none.
  GRAVEL_BOTH uint64_t first(uint32_t pe) const { return row(pe, 0) < rows_ ? row(pe, 0) : rows_; }
  /// Returns the number of rows that a PE has.
  GRAVEL_BOTH uint64_t count(uint32_t pe) const {
    if (is_cyclic_) return rows_ / by_.value() + (pe < rows_ % by_.value());
    return first(pe + 1) - first(pe);
  }

 private:
  static uint64_t share_of(uint64_t rows, uint64_t pes) { return rows / pes + (rows % pes != 0); }
  static uint64_t block_of(uint64_t rows, uint64_t pes) {
    const uint64_t share = share_of(rows, pes);
    return share < 2 ? 2 : share;  // what divisor takes
  }
  uint64_t rows_;
  bool is_cyclic_;
  divisor by_;
};

}  // namespace gravel::detail
