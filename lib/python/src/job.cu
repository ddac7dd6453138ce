// The calls of job.hpp: kernels that read an index array, and what starts them.
#include "job.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/table.cuh>

#include "arguments.hpp"
#include "graph.hpp"
#include "handlers.cuh"
#include "map.hpp"

#if !GRAVEL_CUDA
#include "kept_heap.hpp"
#endif

namespace gravel::python {
namespace {

/// Threads of a block. On the CPU backend one thread runs all lanes of a block, so few lanes cost less.
constexpr unsigned threads = GRAVEL_CUDA ? 128 : 32;
/// Elements of an index array for each block, and the most blocks of a grid.
constexpr uint64_t elements_of_block = 8192, most_blocks = GRAVEL_CUDA ? 2048 : 64;

unsigned blocks_for(uint64_t count) {
  return static_cast<unsigned>(std::clamp<uint64_t>(count / elements_of_block, 1, most_blocks));
}

/// The elements that a lane takes of `count`. On GPUs neighbouring lanes take neighbouring elements. On the CPU backend
/// a lane runs until it waits, so each lane takes a range.
struct lane_share {
  uint64_t first, last, step;
  GRAVEL_DEVICE explicit lane_share(uint64_t count) {
    const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
#if GRAVEL_CUDA
    first = lane;
    last = count;
    step = lanes;
#else
    const uint64_t each = (count + lanes - 1) / lanes;
    first = std::min(count, lane * each);
    last = std::min(count, first + each);
    step = 1;
#endif
  }
};

GRAVEL_DEVICE uint64_t number_at(const void* numbers, element type, uint64_t i) {
  switch (type) {
    case element::i4: return static_cast<uint64_t>(int64_t{static_cast<const int32_t*>(numbers)[i]});
    case element::u4: return static_cast<const uint32_t*>(numbers)[i];
    default: return static_cast<const uint64_t*>(numbers)[i];
  }
}

/// Finds elements: element i of a call is element i % width of the row numbers[i / width].
struct places {
  detail::rows_view array;
  detail::divisor width;  ///< its value is 2 if a row is one element
  bool is_single;
  const void* numbers;
  element type;

  struct place {
    bool is_there;
    uint64_t number, element;
  };
  GRAVEL_DEVICE place operator[](uint64_t i) const {
    const uint64_t entry = is_single ? i : width.quotient(i);
    const uint64_t number = number_at(numbers, type, entry);
    return {array.has(number), number, is_single ? 0 : i - entry * width.value()};
  }
  /// Reports the number of this element, which ends the job.
  GRAVEL_DEVICE void report(const gravel_t& g, uint64_t i) const {
    const uint64_t entry = is_single ? i : width.quotient(i);
    detail::check_row(g, array, number_at(numbers, type, entry), entry);
  }
};
/// Blocks of one row are the same as rows dealt one by one, as there are no more rows than PEs then.
detail::row_dealing dealing_of(const distributed& array) {
  if (array.block > 1) return {array.n, array.block};
  return {array.n, static_cast<uint32_t>(gravel_n_pes()), detail::dealt::cyclic};
}
detail::rows_view view_of(const distributed& array) {
  return {dealing_of(array), array.width * bytes_of(array.type), static_cast<char*>(array.local),
          array.on_host ? detail::place::host : detail::place::device};
}
places places_of(const distributed& array, const void* numbers, element type) {
  return {view_of(array), detail::divisor(std::max<uint64_t>(array.width, 2)), array.width == 1, numbers, type};
}

/// An array as words of 4 bytes. Elements of 16 bits are in pairs, so that gathers and puts need no code for them.
distributed words_of(const distributed& array) {
  if (bytes_of(array.type) != 2) return array;
  return {array.local, element::u4, array.n, array.block, array.width / 2, array.on_host};
}

/// Values of a call: one for each element, or one for all. Those of 16 bits are in pairs.
template <class T>
struct operands {
  const T* each;
  T all;
  GRAVEL_DEVICE T operator[](uint64_t i) const { return each ? each[i] : all; }
};

/// The name of an operation in lib/table.
GRAVEL_BOTH constexpr detail::row_update row_update_of(operation what) {
  switch (what) {
    case operation::put: return detail::row_update::put;
    case operation::add: return detail::row_update::add;
    case operation::min: return detail::row_update::min;
    default: return detail::row_update::max;
  }
}

template <operation WHAT, class T, class Sender>
__global__ void scatter_elements(gravel_t g, places to, uint64_t count, operands<detail::update_unit<T>> values) {
  using unit = detail::update_unit<T>;
  __shared__ Sender sender;
  sender.begin(g);
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; i += mine.step) {
    const auto [is_there, number, element] = to[i];
    if (!is_there) {
      to.report(g, i);
      continue;
    }
    unit* const at = to.array.symmetric<unit>(number) + element;
    const int pe = to.array.owner(number);
    const unit value = values[i];
    if constexpr (WHAT == operation::put) sender.put(at, value, pe);
    else if constexpr (detail::is_of_16_bits<T>)
      detail::update_pair<detail::reduction_of(row_update_of(WHAT)), T>(sender, g, at, value, pe);
    else if constexpr (WHAT == operation::add) sender.add(at, value, pe);
    else if constexpr (WHAT == operation::min) sender.min(at, value, pe);
    else sender.max(at, value, pe);
  }
  sender.end();
}

constexpr uint64_t outside_at = 16;  ///< the word of the staging memory in which kernels note the first wrong number

/// Requests the elements [first, first + count) of a call.
template <class T>
__global__ void request_elements(gravel_t g, uint64_t* staging, places from, uint64_t first, uint64_t count) {
  __shared__ gravel_block_sender<threads> sender;
  sender.begin(g);
  const lane_share mine(count);
  uint64_t own = 0;
  for (uint64_t i = mine.first; i < mine.last; i += mine.step) {
    const auto [is_there, number, element] = from[first + i];
    if (!is_there) {
      from.report(g, first + i);
      ++own;
      continue;
    }
    T* const at = from.array.symmetric<T>(number) + element;
    const int pe = from.array.owner(number);
    if (pe == static_cast<int>(g.my_pe)) {
      gravel::store_relaxed(reinterpret_cast<T*>(staging + values_at) + i, gravel::load_relaxed(at));
      ++own;
    } else {
      const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(at) - g.heap);
      sender.template am<gather_request<T>>(pe, offset, static_cast<uint32_t>(i), g.my_pe);
    }
  }
  if (own) gravel::fetch_add_release(staging, own);
  sender.end();
}

/// One call, with its arrays where kernels can read them.
struct kernel_call {
  distributed array;
  element type;  ///< of the numbers
  uint64_t count;
  const void* numbers;
  const void* values;  ///< nullptr: `one_value` for all
  const void* one_value;
  gravel_stream_t stream;

  uint64_t elements() const { return count * array.width; }
  places of() const { return places_of(array, numbers, type); }
  gravel_launch_config shape(uint64_t elements_of_launch) const {
    gravel_launch_config how{blocks_for(elements_of_launch), threads};
    how.stream = stream;
    return how;
  }
};

/// Symmetric memory in which the values of gather() arrive. Each PE uses its own, under the lock.
struct staging_memory {
  std::mutex lock;
  uint64_t* at = nullptr;
  uint64_t values = 0;     ///< words behind the count
  bool is_mapped = false;  ///< all PEs have each other's memory mapped
};
staging_memory staging;

template <operation WHAT, class T>
void launch_scatter(const kernel_call& call) {
  using unit = detail::update_unit<T>;
  operands<unit> values{static_cast<const unit*>(call.values), unit{}};
  if (call.one_value)  // all elements of the unit
    for (uint64_t at = 0; at < sizeof(unit); at += sizeof(T))
      std::memcpy(reinterpret_cast<char*>(&values.all) + at, call.one_value, sizeof(T));
  const gravel_launch_config shape = call.shape(call.elements());
  gravel_t handle = gravel_handle();
  if constexpr (detail::may_be_direct<row_update_of(WHAT), T>)
    if (staging.is_mapped && !call.array.on_host && call.array.width * sizeof(unit) >= detail::direct_row_bytes)
      return detail::launch_alone(scatter_elements<WHAT, T, detail::mapped_sender>, shape, handle, call.of(),
                                  call.elements(), values);
  // Atomic operations on memory of the host are atomic for one GPU only: so all of them are the owner's.
  if (call.array.on_host) handle.peers_directly = false;
  gravel_launch(scatter_elements<WHAT, T, gravel_block_sender<threads>>, shape, handle, call.of(), call.elements(),
                values);
}

/// `type`: of the elements; the call's array has those of 16 bits in pairs. Additions of signed and unsigned integers
/// are the same.
template <operation WHAT>
void launch_scatter_of(const kernel_call& call, element type) {
  constexpr bool ignores_sign = WHAT == operation::add;
  switch (type) {
    case element::i4:
      if constexpr (!ignores_sign) return launch_scatter<WHAT, int32_t>(call);
      [[fallthrough]];
    case element::u4: return launch_scatter<WHAT, uint32_t>(call);
    case element::i8:
      if constexpr (!ignores_sign) return launch_scatter<WHAT, int64_t>(call);
      [[fallthrough]];
    case element::u8: return launch_scatter<WHAT, uint64_t>(call);
    case element::f4: return launch_scatter<WHAT, float>(call);
    case element::f8: return launch_scatter<WHAT, double>(call);
    case element::f2: return launch_scatter<WHAT, gravel_half>(call);
    case element::bf16: return launch_scatter<WHAT, gravel_bfloat16>(call);
  }
}

/// Requests the elements of a call, part by part. The numbers are there: this reads them in the PE's own stream.
template <class T>
void request(const kernel_call& call, void* to) {
  const std::lock_guard lock(staging.lock);
  const uint64_t most = staging.values * sizeof(uint64_t) / sizeof(T), all = call.elements();
  uint64_t* const arrived = staging.at;
  for (uint64_t done = 0; done < all; done += most) {
    const uint64_t count = std::min(most, all - done);
    const uint64_t none = 0;
    gravel_copy(arrived, &none, sizeof(none));
    gravel_launch(request_elements<T>, blocks_for(count), threads, gravel_handle(), arrived, call.of(), done, count);
    gravel_stream_synchronize(nullptr);
    gravel_wait_until(gravel_host_handle(), arrived, GRAVEL_GE, count);
    gravel_copy(static_cast<T*>(to) + done, arrived + values_at, count * sizeof(T));
  }
}

template <class Id>
void launch_gather(const kernel_call& call, void* to) {
  detail::launch_gather(view_of(call.array), detail::no_row_cache{}, to, static_cast<const Id*>(call.numbers),
                        call.count, 0, call.stream);
}

/// gather() in memory that kernels can read and write. Returns whether the values are there already.
bool gather_now(const kernel_call& call, void* to) {
  const uint64_t row_bytes = call.array.width * bytes_of(call.array.type);
  if (staging.is_mapped && row_bytes <= detail::most_row_bytes) {
    switch (call.type) {
      case element::i4: launch_gather<int32_t>(call, to); break;
      case element::u4: launch_gather<uint32_t>(call, to); break;
      default: launch_gather<uint64_t>(call, to);
    }
    return false;
  }
  if (call.stream) gravel_stream_synchronize(call.stream);
  if (bytes_of(call.array.type) == 4) request<uint32_t>(call, to);
  else request<uint64_t>(call, to);
  return true;
}

template <class T>
uint64_t first_outside_of(const T* at, uint64_t count, uint64_t n) {
  // A negative number becomes a very large one. The first pass has no branch, so that compilers use vectors.
  uint64_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<uint64_t>(at[i]));
  if (count == 0 || largest < n) return count;
  uint64_t i = 0;
  while (static_cast<uint64_t>(at[i]) < n) ++i;
  return i;
}

template <class T>
void reduce_of(reduction how, void* to, const void* from, uint64_t count) {
  T* const result = static_cast<T*>(to);
  const T* const mine = static_cast<const T*>(from);
  switch (how) {
    case reduction::sum: return gravel_sum_all(result, mine, count);
    case reduction::min: return gravel_min_all(result, mine, count);
    case reduction::max: return gravel_max_all(result, mine, count);
  }
}

int device_of_pe = -1;

}  // namespace

void start(std::optional<gravel_process_group> group, const kernel_library* kernels) {
  const auto join_job = kernels ? kernels->join : &join<>;
  join_job(std::move(group));
  device_of_pe = detail::current_backend().device_number();
  // Enough words that packets are full, but a small part of the heap.
  staging.values = std::clamp<uint64_t>(gravel_handle().heap_bytes / 16 / sizeof(uint64_t), 64, 1 << 16);
  staging.at = gravel_malloc<uint64_t>((values_at + staging.values) * sizeof(uint64_t));
  gravel_set_context<gather_reply<uint32_t>>(staging.at);
  gravel_set_context<gather_reply<uint64_t>>(staging.at);
  staging.is_mapped = detail::all_are_mapped();
  gravel_barrier_all();  // all PEs have set it
}

#if GRAVEL_CUDA
void finish(bool) {
  close_graphs();
  close_maps();
  gravel_barrier_all();  // no kernel uses the arrays any more
  host_arrays::release();
  gravel_finalize();
}
#else
void finish(bool keep_heap) {
  close_graphs();
  close_maps();
  const gravel_t g = gravel_handle();
  if (!keep_heap) return gravel_finalize();
  gravel_barrier_all();  // after it no message arrives
  kept_heap kept(g.heap, g.heap_bytes);
  gravel_finalize();
  kept.put_back();
}
#endif
int device() { return device_of_pe; }

namespace {
uint64_t first_outside_on_host(const index_list& index, uint64_t n) {
  const void* const at = index.numbers.at;
  switch (index.type) {
    case element::i4: return first_outside_of(static_cast<const int32_t*>(at), index.count, n);
    case element::u4: return first_outside_of(static_cast<const uint32_t*>(at), index.count, n);
    case element::i8: return first_outside_of(static_cast<const int64_t*>(at), index.count, n);
    default: return first_outside_of(static_cast<const uint64_t*>(at), index.count, n);
  }
}
/// Notes the position of the first number that is not below n, if one is.
__global__ void find_outside(gravel_t g, const void* numbers, element type, uint64_t count, uint64_t n,
                             uint64_t* first) {
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; i += mine.step)
    if (number_at(numbers, type, i) >= n) gravel_local_min(g, first, i);
}
uint64_t bytes_of_numbers(const index_list& index) { return index.count * bytes_of(index.type); }
}  // namespace

uint64_t first_outside(const index_list& index, uint64_t n, stream_of_call stream) {
  if (!index.numbers.on_device) return first_outside_on_host(index, n);
  if (index.count == 0) return 0;
  const std::lock_guard lock(staging.lock);
  uint64_t first = index.count;
  gravel_copy(staging.at + outside_at, &first, sizeof(first));
  gravel_launch_config how{blocks_for(index.count), threads};
  how.stream = stream_from(stream);
  detail::launch_alone(find_outside, how, gravel_handle(), index.numbers.at, index.type, index.count, n,
                       staging.at + outside_at);
  gravel_stream_synchronize(how.stream);
  gravel_copy(&first, staging.at + outside_at, sizeof(first));
  return first;
}

void scatter(operation what, const distributed& array, const index_list& index, memory values, bool one_value,
             stream_of_call stream) {
  if (index.count == 0) return;
  const uint64_t values_bytes = one_value ? 0 : index.count * array.width * bytes_of(array.type);
  const bool copies = !index.numbers.on_device || (!one_value && !values.on_device);
  std::optional<host_arrays> copied;
  if (copies) copied.emplace(bytes_of_numbers(index) + values_bytes);
  const auto there = [&](memory at, uint64_t bytes) { return copied ? copied->on_device(at, bytes, true) : at.at; };
  const kernel_call call{words_of(array),
                         index.type,
                         index.count,
                         there(index.numbers, bytes_of_numbers(index)),
                         one_value ? nullptr : there(values, values_bytes),
                         one_value ? values.at : nullptr,
                         stream_from(stream)};
  switch (what) {
    case operation::add: launch_scatter_of<operation::add>(call, array.type); break;
    case operation::min: launch_scatter_of<operation::min>(call, array.type); break;
    case operation::max: launch_scatter_of<operation::max>(call, array.type); break;
    case operation::put:  // copies bits
      if (bytes_of(array.type) == 8) launch_scatter<operation::put, uint64_t>(call);
      else if (bytes_of(array.type) == 4) launch_scatter<operation::put, uint32_t>(call);
      else launch_scatter<operation::put, gravel_half>(call);
      break;
  }
  if (copies) gravel_stream_synchronize(call.stream);
}

void gather(const distributed& array, const index_list& index, memory to, stream_of_call stream) {
  if (index.count == 0) return;
  const uint64_t bytes = index.count * array.width * bytes_of(array.type);
  const bool copies = !index.numbers.on_device || !to.on_device;
  std::optional<host_arrays> copied;
  if (copies) copied.emplace(bytes_of_numbers(index) + bytes);
  const void* const numbers =
      copied ? copied->on_device(index.numbers, bytes_of_numbers(index), true) : index.numbers.at;
  void* const result = copied ? copied->on_device(to, bytes, false) : to.at;
  const kernel_call call{words_of(array), index.type, index.count, numbers, nullptr, nullptr, stream_from(stream)};
  const bool is_done = gather_now(call, result);
  if (!copies) return;
  if (!is_done) gravel_stream_synchronize(call.stream);
  if (result != to.at) gravel_copy(to.at, result, bytes);
}

namespace {
template <class T>
void step_rows_of(const optimizer_arrays& arrays, const optimizer_step& by) {
  const auto at = [](const distributed* array) { return array ? static_cast<T*>(array->local) : nullptr; };
  const uint64_t count = dealing_of(arrays.rows).count(static_cast<uint32_t>(gravel_my_pe()));
  const detail::step_memory<T> memory{
      at(&arrays.rows),   at(&arrays.gradients), static_cast<uint32_t*>(arrays.marks.local),
      at(arrays.moments), at(arrays.squares),    count,
      arrays.rows.width};
  const detail::optimizer_settings settings{by.learning_rate, by.eps, by.beta1, by.beta2};
  detail::start_step(static_cast<detail::optimizer>(by.kind), memory, detail::step_numbers<T>(settings, by.step),
                     nullptr);
  gravel_stream_synchronize(nullptr);
}
}  // namespace

void step_rows(const optimizer_arrays& arrays, const optimizer_step& by) {
  if (arrays.rows.type == element::f4) step_rows_of<float>(arrays, by);
  else step_rows_of<double>(arrays, by);
}

void copy(void* to, const void* from, uint64_t bytes) { gravel_copy(to, from, bytes); }

void reduce(reduction how, element type, void* to, const void* from, uint64_t count) {
  switch (type) {
    case element::i4: return reduce_of<int32_t>(how, to, from, count);
    case element::u4: return reduce_of<uint32_t>(how, to, from, count);
    case element::i8: return reduce_of<int64_t>(how, to, from, count);
    case element::u8: return reduce_of<uint64_t>(how, to, from, count);
    case element::f4: return reduce_of<float>(how, to, from, count);
    case element::f8: return reduce_of<double>(how, to, from, count);
    case element::f2:
    case element::bf16: detail::fail_text("gravel: reductions of elements of 16 bits are not possible");
  }
}

}  // namespace gravel::python
