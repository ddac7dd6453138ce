// gravel::array: elements that are spread over all PEs, as a table whose rows are one element each.
#pragma once
#include "lib/table/rows.cuh"

namespace gravel::detail {

/// An array of elements, dealt to all PEs in blocks or one by one, with the bulk calls of gravel::rows. An id is the
/// index of an element; where gravel::rows speaks of a row, it is an element. Elements are zeroed at first.
/// @tparam T of 4 or 8 bytes: what gravel_put takes. Sums, minima and maxima: what gravel_add takes
/// @scope any host thread; the constructor and the destructor: the program's host thread, collective
/// @completion gather: in the stream. Updates: gravel_quiet or gravel_barrier_all. ids and values of updates: in the
///   stream. All else: on return
/// @errors gravel::error. An element that does not exist ends the job with a message
/// @source UPC++: upcxx::dist_object; UPC: shared arrays and their layout
template <class T>
class array : private rows {
  static_assert(is_value<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "gravel::array takes elements of 4 or 8 bytes that gravel_put takes; use gravel::rows for others");

 public:
  /// Makes an array. Collective: all PEs pass the same.
  /// @param count number of elements, of all PEs together
  /// @param how gravel::dealt::blocks, or gravel::dealt::cyclic: element i is at PE i mod n
  /// @param where gravel::place::device, or gravel::place::host, as for gravel::rows
  explicit array(uint64_t count, dealt how = dealt::blocks, place where = place::device)
      : rows(count, sizeof(T), how, where) {}

  using rows::count;
  using rows::is_mapped;
  using rows::local_count;
  using rows::local_first;
  using rows::local_row;
  using rows::view;
  using rows::where;
  /// @return this PE's elements, in the memory that gravel::rows::local() says: local_count() of them. Element
  ///   local_row(i) is local()[i]
  T* local() const { return static_cast<T*>(rows::local()); }

  /// Reads elements: out[i] is element ids[i]. Nothing may write to these elements meanwhile.
  /// @param out [n], device memory
  /// @param ids [n], device memory, whole numbers of 4 or 8 bytes, below count()
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void gather(T* out, const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::gather(out, ids, n, stream);
  }
  /// Writes elements. Of several values with one id, the element becomes one.
  /// @param ids [n], device memory
  /// @param values [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void scatter(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::scatter(ids, values, n, stream);
  }
  /// Adds to elements.
  /// @param ids [n], device memory
  /// @param values [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void scatter_add(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::scatter_add(ids, values, n, stream);
  }
  /// Replaces elements by the smaller of themselves and the values.
  /// @param ids [n], device memory
  /// @param values [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void scatter_min(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::scatter_min(ids, values, n, stream);
  }
  /// Replaces elements by the larger of themselves and the values.
  /// @param ids [n], device memory
  /// @param values [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void scatter_max(const Id* ids, const T* values, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::scatter_max(ids, values, n, stream);
  }
  /// Counts ids: adds 1 to each element whose id occurs, as often as it occurs.
  /// @param ids [n], device memory
  /// @param n number of ids
  /// @param stream nullptr: the PE's own stream
  template <class Id>
  void histogram(const Id* ids, uint64_t n, gravel_stream_t stream = nullptr) {
    rows::template histogram<T>(ids, n, stream);
  }
};

}  // namespace gravel::detail
