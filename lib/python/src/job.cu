// The calls of job.hpp: kernels that read an index array, and what starts them.
#include "job.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <gravel/gravel.cuh>

#include "kept_heap.hpp"

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

GRAVEL_DEVICE uint64_t number_at(const index_list& index, uint64_t i) {
  switch (index.type) {
    case element::i4: return static_cast<uint64_t>(static_cast<const int32_t*>(index.at)[i]);
    case element::u4: return static_cast<const uint32_t*>(index.at)[i];
    default: return static_cast<const uint64_t*>(index.at)[i];
  }
}

/// Finds elements: element i of a call is element i % width of the row index[i / width].
template <class T>
struct rows {
  T* local;
  uint64_t block, width;
  index_list index;

  struct place {
    T* at;  ///< symmetric
    uint64_t pe;
  };
  GRAVEL_DEVICE place operator[](uint64_t i) const {
    const uint64_t entry = width == 1 ? i : i / width;
    const uint64_t number = number_at(index, entry), pe = number / block;
    return {local + (number - pe * block) * width + (i - entry * width), pe};
  }
};
template <class T>
rows<T> rows_of(const distributed& array, const index_list& index) {
  return {static_cast<T*>(array.local), array.block, array.width, index};
}

template <operation WHAT, class T>
__global__ void scatter_elements(gravel_t g, rows<T> to, uint64_t count, const T* values, uint64_t value_step) {
  __shared__ gravel_block_sender<threads> sender;
  sender.begin(g);
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; i += mine.step) {
    const auto [at, pe] = to[i];
    const T value = values[i * value_step];
    if constexpr (WHAT == operation::add) sender.add(at, value, static_cast<int>(pe));
    else if constexpr (WHAT == operation::put) sender.put(at, value, static_cast<int>(pe));
    else if constexpr (WHAT == operation::min) sender.min(at, value, static_cast<int>(pe));
    else sender.max(at, value, static_cast<int>(pe));
  }
  sender.end();
}

// gather() sends a request for each element, in large packets, and the owner's handler replies with the value. (Each
// gravel_get would be a slot of its own on the CPU backend, where a lane is a warp.) Replies arrive in the staging
// memory: the first word counts them, the values follow.
constexpr uint64_t values_at = 32;  ///< words in front of the values

template <class T>
struct gather_reply {
  static constexpr const char* name = sizeof(T) == 4 ? "python_gather_reply_4" : "python_gather_reply_8";
  using context = uint64_t;  // the staging memory
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t* words, T value, uint32_t position) const {
    gravel::store_relaxed(reinterpret_cast<T*>(words + values_at) + position, value);
    gravel::fetch_add_release(words, uint64_t{1});  // gather_words() waits for the count
  }
};
template <class T>
struct gather_request {
  static constexpr const char* name = sizeof(T) == 4 ? "python_gather_request_4" : "python_gather_request_8";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, uint32_t position, uint32_t from) const {
    const T value = gravel::load_relaxed(reinterpret_cast<const T*>(g.heap + offset));
    gravel_am<gather_reply<T>>(g, static_cast<int>(from), value, position);
  }
};

/// Requests the elements [first, first + count) of a call.
template <class T>
__global__ void request_elements(gravel_t g, uint64_t* staging, rows<T> from, uint64_t first, uint64_t count) {
  __shared__ gravel_block_sender<threads> sender;
  sender.begin(g);
  const lane_share mine(count);
  uint64_t own = 0;
  for (uint64_t i = mine.first; i < mine.last; i += mine.step) {
    const auto [at, pe] = from[first + i];
    if (pe == g.my_pe) {
      gravel::store_relaxed(reinterpret_cast<T*>(staging + values_at) + i, gravel::load_relaxed(at));
      ++own;
    } else {
      const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(at) - g.heap);
      sender.template am<gather_request<T>>(static_cast<int>(pe), offset, static_cast<uint32_t>(i), g.my_pe);
    }
  }
  if (own) gravel::fetch_add_release(staging, own);
  sender.end();
}

template <operation WHAT, class T>
void launch_scatter(const distributed& array, const index_list& index, const void* values, bool one_value) {
  const uint64_t count = index.count * array.width;
  gravel_launch(scatter_elements<WHAT, T>, blocks_for(count), threads, gravel_handle(), rows_of<T>(array, index), count,
                static_cast<const T*>(values), uint64_t{one_value ? 0u : 1u});
}

/// Additions of signed and unsigned integers are the same.
template <operation WHAT>
void launch_scatter_of(const distributed& array, const index_list& index, const void* values, bool one_value) {
  constexpr bool ignores_sign = WHAT == operation::add;
  switch (array.type) {
    case element::i4:
      if constexpr (!ignores_sign) return launch_scatter<WHAT, int32_t>(array, index, values, one_value);
      [[fallthrough]];
    case element::u4: return launch_scatter<WHAT, uint32_t>(array, index, values, one_value);
    case element::i8:
      if constexpr (!ignores_sign) return launch_scatter<WHAT, int64_t>(array, index, values, one_value);
      [[fallthrough]];
    case element::u8: return launch_scatter<WHAT, uint64_t>(array, index, values, one_value);
    case element::f4: return launch_scatter<WHAT, float>(array, index, values, one_value);
    case element::f8: return launch_scatter<WHAT, double>(array, index, values, one_value);
  }
}

/// Symmetric memory in which the values of gather() arrive. Each PE uses its own, under the lock.
struct staging_memory {
  std::mutex lock;
  uint64_t* at = nullptr;
  uint64_t values = 0;  ///< words behind the count
};
staging_memory staging;

template <class T>
void gather_words(const distributed& array, const index_list& index, void* to) {
  const std::lock_guard lock(staging.lock);
  const uint64_t most = staging.values * sizeof(uint64_t) / sizeof(T), all = index.count * array.width;
  uint64_t* const arrived = staging.at;
  for (uint64_t done = 0; done < all; done += most) {
    const uint64_t count = std::min(most, all - done);
    const uint64_t none = 0;
    gravel_copy(arrived, &none, sizeof(none));
    gravel_launch(request_elements<T>, blocks_for(count), threads, gravel_handle(), arrived, rows_of<T>(array, index),
                  done, count);
    gravel_stream_synchronize(nullptr);
    gravel_wait_until(gravel_host_handle(), arrived, GRAVEL_GE, count);
    gravel_copy(static_cast<T*>(to) + done, arrived + values_at, count * sizeof(T));
  }
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

}  // namespace

namespace {
template <class... Handlers>
void join(std::optional<gravel_process_group> group) {
  if (group) gravel_init<Handlers...>(std::move(*group));
  else gravel_init<Handlers...>();
}
}  // namespace

void start(std::optional<gravel_process_group> group) {
  join<gather_request<uint32_t>, gather_request<uint64_t>, gather_reply<uint32_t>, gather_reply<uint64_t>>(
      std::move(group));
  // Enough words that packets are full, but a small part of the heap.
  staging.values = std::clamp<uint64_t>(gravel_handle().heap_bytes / 16 / sizeof(uint64_t), 64, 1 << 16);
  staging.at = gravel_malloc<uint64_t>((values_at + staging.values) * sizeof(uint64_t));
  gravel_set_context<gather_reply<uint32_t>>(staging.at);
  gravel_set_context<gather_reply<uint64_t>>(staging.at);
  gravel_barrier_all();  // all PEs have set it
}

void finish(bool keep_heap) {
  const gravel_t g = gravel_handle();
  if (!keep_heap) return gravel_finalize();
  gravel_barrier_all();  // after it no message arrives
  kept_heap kept(g.heap, g.heap_bytes);
  gravel_finalize();
  kept.put_back();
}

uint64_t first_outside(const index_list& index, uint64_t n) {
  switch (index.type) {
    case element::i4: return first_outside_of(static_cast<const int32_t*>(index.at), index.count, n);
    case element::u4: return first_outside_of(static_cast<const uint32_t*>(index.at), index.count, n);
    case element::i8: return first_outside_of(static_cast<const int64_t*>(index.at), index.count, n);
    default: return first_outside_of(static_cast<const uint64_t*>(index.at), index.count, n);
  }
}

void scatter(operation what, const distributed& array, const index_list& index, const void* values, bool one_value) {
  if (index.count == 0) return;
  switch (what) {
    case operation::add: launch_scatter_of<operation::add>(array, index, values, one_value); break;
    case operation::min: launch_scatter_of<operation::min>(array, index, values, one_value); break;
    case operation::max: launch_scatter_of<operation::max>(array, index, values, one_value); break;
    case operation::put:  // copies bits
      if (bytes_of(array.type) == 4) launch_scatter<operation::put, uint32_t>(array, index, values, one_value);
      else launch_scatter<operation::put, uint64_t>(array, index, values, one_value);
      break;
  }
  gravel_stream_synchronize(nullptr);
}

void gather(const distributed& array, const index_list& index, void* to) {
  if (index.count == 0) return;
  if (bytes_of(array.type) == 4) gather_words<uint32_t>(array, index, to);
  else gather_words<uint64_t>(array, index, to);
}

void reduce(reduction how, element type, void* to, const void* from, uint64_t count) {
  switch (type) {
    case element::i4: return reduce_of<int32_t>(how, to, from, count);
    case element::u4: return reduce_of<uint32_t>(how, to, from, count);
    case element::i8: return reduce_of<int64_t>(how, to, from, count);
    case element::u8: return reduce_of<uint64_t>(how, to, from, count);
    case element::f4: return reduce_of<float>(how, to, from, count);
    case element::f8: return reduce_of<double>(how, to, from, count);
  }
}

}  // namespace gravel::python
