// The part of the Python module that uses Gravel. Each backend compiles job.cu for itself: g++ for the CPU backend. It
// knows nothing of Python: module.cpp does the rest.
//
// Common to all calls of this file:
// @errors gravel::error is thrown
#pragma once
#include <cstdint>
#include <optional>

#include <gravel/gravel.hpp>

namespace gravel::python {

/// Types of elements. The order is that of `DTYPES` in gravel/_checks.py.
enum class element : uint32_t { i4, u4, i8, u8, f4, f8 };
/// Operations of scatter(). The order is that of `OPERATIONS` in gravel/_operations.py.
enum class operation : uint32_t { add, put, min, max };
/// Reductions of reduce(). The order is that of `REDUCTIONS` in gravel/_collectives.py.
enum class reduction : uint32_t { sum, min, max };

/// Bytes of an element.
constexpr uint64_t bytes_of(element type) {
  return type == element::i8 || type == element::u8 || type == element::f8 ? 8 : 4;
}

/// A distributed array of rows: PE p has the rows [p * block, (p + 1) * block) of it.
struct distributed {
  void* local;  ///< symmetric address of this PE's part
  element type;
  uint64_t n, block;  ///< rows
  uint64_t width;     ///< elements of a row
};
/// A piece of host memory that a call reads: integers, each the number of a row of a distributed array.
struct index_list {
  const void* at;
  element type;  ///< an integer type
  uint64_t count;
};

/// Joins the job of a launcher, or that of the group, and allocates what gather() needs. Collective.
void start(std::optional<gravel_process_group> group);
/// Leaves the job. Collective. `keep_heap`: the memory of the symmetric heap remains readable at its address until the
/// process ends, because a program may still have views of it.
void finish(bool keep_heap);

/// Returns the position of the first number that is negative or not below `n`; `index.count` if there is none.
uint64_t first_outside(const index_list& index, uint64_t n);

/// array[index[i]] = array[index[i]] `what` values[i], for all i, element by element of the rows. Returns when the
/// messages are handed over: `index` and `values` may be changed then. The numbers have been checked.
/// @param values [index.count, width], or [1] if `one_value`, of the array's type
void scatter(operation what, const distributed& array, const index_list& index, const void* values, bool one_value);
/// to[i] = array[index[i]], for all i. Returns when the values are there. The numbers have been checked.
/// @param to [index.count, width], of the array's type
void gather(const distributed& array, const index_list& index, void* to);

/// to[i] = from[i] of all PEs, combined. Collective.
void reduce(reduction how, element type, void* to, const void* from, uint64_t count);

}  // namespace gravel::python
