// The part of the Python module that uses Gravel. Each backend compiles job.cu for itself: g++ for the CPU backend,
// nvcc for GPUs. It knows nothing of Python: module.cpp does the rest.
//
// Arrays that a call reads or writes lie in memory of the host or of the PE's device. On GPUs the calls read those of
// the device in the order of a stream, and copy those of the host. On the CPU backend all memory is the host's.
//
// Common to all calls of this file:
// @errors gravel::error is thrown
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <gravel/gravel.hpp>

#include "kernel_library.hpp"

namespace gravel::python {

/// Types of elements. The order is that of `DTYPES` in gravel/_checks.py.
enum class element : uint32_t { i4, u4, i8, u8, f4, f8, f2, bf16 };
/// Operations of scatter(). The order is that of `OPERATIONS` in gravel/_operations.py.
enum class operation : uint32_t { add, put, min, max };
/// Reductions of reduce(). The order is that of `REDUCTIONS` in gravel/_collectives.py.
enum class reduction : uint32_t { sum, min, max };

/// Bytes of an element.
constexpr uint64_t bytes_of(element type) {
  if (type == element::f2 || type == element::bf16) return 2;
  return type == element::i8 || type == element::u8 || type == element::f8 ? 8 : 4;
}

/// A distributed array of rows: PE p has the rows [p * block, (p + 1) * block) of it. The bytes of a row are a multiple
/// of 4.
struct distributed {
  void* local;  ///< symmetric address of this PE's part
  element type;
  uint64_t n, block;  ///< rows
  uint64_t width;     ///< elements of a row
  bool on_host;       ///< it lies in memory of the host near each GPU
};
/// An array that a call reads or writes.
struct memory {
  void* at;
  bool on_device;
};
/// Integers, each the number of a row of a distributed array.
struct index_list {
  memory numbers;
  element type;  ///< an integer type
  uint64_t count;
};
/// The stream of a call, as CUDA's handle. The default is the PE's own stream.
struct stream_of_call {
  uint64_t handle = 0;
};

/// Joins the job of a launcher, or that of the group, and allocates what gather() needs. Collective.
/// @param kernels a library with handlers, which are registered beside those of the package; or nullptr
void start(std::optional<gravel_process_group> group, const kernel_library* kernels);
/// Closes all graphs and maps, and leaves the job. Collective. `keep_heap`: the memory of the symmetric heap remains
/// readable at its address until the process ends, because a program may still have views of it.
void finish(bool keep_heap);

/// Returns the position of the first number that is negative or not below `n`; `index.count` if there is none. Waits
/// for the stream if the numbers are on the device.
uint64_t first_outside(const index_list& index, uint64_t n, stream_of_call stream);

/// array[index[i]] = array[index[i]] `what` values[i], for all i, element by element of the rows. Arrays of the host
/// may be changed on return, and those of the device behind the call in the stream. The numbers of the host have been
/// checked. A number of the device that is wrong ends the job.
/// @param values [index.count, width], or [1] in memory of the host if `one_value`, of the array's type; elements of 16
///   bits: aligned to 4 bytes
void scatter(operation what, const distributed& array, const index_list& index, memory values, bool one_value,
             stream_of_call stream);
/// to[i] = array[index[i]], for all i. The values are there on return; in the stream, if index and result are on the
/// device and the array is mapped. Numbers as for scatter().
/// @param to [index.count, width], of the array's type; aligned to 4 bytes
void gather(const distributed& array, const index_list& index, memory to, stream_of_call stream);

/// The arrays of an optimizer, which have the same rows: gravel::row_optimizer.
struct optimizer_arrays {
  const distributed &rows, &gradients;   ///< f4 or f8, of the same width
  const distributed& marks;              ///< i4, one of each row
  const distributed *moments, *squares;  ///< nullptr if the optimizer has none
};
/// What an optimizer uses. `kind`: of gravel::optimizer. `step`: the number of the step, from 1.
struct optimizer_step {
  uint32_t kind;
  double learning_rate, eps, beta1, beta2;
  uint64_t step;
};
/// Makes the step for the rows of this PE that have a mark. All gradients are there. Returns when the rows are changed.
void step_rows(const optimizer_arrays& arrays, const optimizer_step& by);

/// Returns how often each PE occurs among the numbers; and behind them, how many numbers are no PEs. Waits for the
/// stream if the numbers are on the device.
std::vector<uint64_t> count_by_pe(const index_list& to, stream_of_call stream);
/// Sends each row to a PE. Collective, with the same `row_bytes` and `room`. Returns when the rows that come are there.
/// @param rows [to.count][row_bytes]
/// @param to the PE of each row: these numbers have been checked
/// @param row_bytes a multiple of 4, at most 65536
/// @param room rows that the PE that gets the most gets
/// @param result [received][row_bytes], ordered by PE
void exchange_rows(memory rows, const index_list& to, uint64_t row_bytes, uint64_t room, memory result,
                   uint64_t received, stream_of_call stream);

/// Copies between memory of the host and of the device, in any direction.
void copy(void* to, const void* from, uint64_t bytes);
/// Returns the number of the PE's GPU in this process, in any thread; -1 on the CPU backend.
int device();

/// to[i] = from[i] of all PEs, combined. Collective. Elements of 16 bits are not possible.
void reduce(reduction how, element type, void* to, const void* from, uint64_t count);

}  // namespace gravel::python
