// Operations on streams: a host thread puts an operation into a stream, where it happens behind all that was put there
// before, and before all that is put there later.
//
// Where kernels reach the memory of the PE, an operation is a copy of the stream, or a small kernel without the
// resolver; a stream capture takes both. Elsewhere it is a kernel of gravel_launch that sends messages, which a stream
// capture refuses. An operation of several PEs at once, such as a quiet, is of the first kind where kernels reach the
// memory of all PEs.
//
// What all calls of this file have in common.
// @param dest where data arrives. Put: symmetric address, at `pe`. Get: memory of this PE that kernels reach
// @param source where data lies. Put: memory that kernels reach: of this device, or pinned memory of the host. Get:
//   symmetric address at `pe`. It may be reused when the operation has ended in the stream
// @param bytes number of bytes, 0 or more
// @param dest_stride distance of neighbouring elements at `dest`, in elements, 1 or more
// @param source_stride distance of neighbouring elements at `source`, in elements, 1 or more
// @param signal symmetric address of a word at `pe`, aligned to 8
// @param how GRAVEL_SIGNAL_SET or GRAVEL_SIGNAL_ADD
// @param compare GRAVEL_EQ, GRAVEL_NE, GRAVEL_GT, GRAVEL_GE, GRAVEL_LT or GRAVEL_LE
// @param words [count] words of this PE's own memory, aligned to their type
// @param count number of elements, or of words, 0 or more
// @param status [count], in memory that kernels reach: words with another status than 0 are left out. nullptr: none is
// @param pe 0 to gravel_n_pes() - 1
// @param stream nullptr: the PE's own stream
// @scope any host thread
// @completion returns at once. In the stream: a get has arrived; a put is complete after gravel_quiet_on_stream
// @errors gravel::error, and nothing is put into the stream: memory outside the heap or that kernels do not reach, a PE
//   out of range, a stream that cannot take the operation
// @source NVSHMEM: nvshmemx_*_on_stream
#pragma once
#include "host/launch_alone.cuh"

namespace gravel::detail {

/// The part of a block in `count` elements that all blocks share.
struct part_of_block {
  uint64_t first, count;
  GRAVEL_DEVICE explicit part_of_block(uint64_t all) {
    const uint64_t each = (all + gridDim.x - 1) / gridDim.x, before = blockIdx.x * each;
    first = before < all ? before : all;
    count = all - first < each ? all - first : each;
  }
};
/// The shape of a launch whose blocks share `count` elements.
inline gravel_launch_config shared_launch(uint64_t count, gravel_stream_t stream) {
  constexpr uint64_t each = 64 << 10, most_blocks = 16;
  const uint64_t blocks = count / each + 1;
  gravel_launch_config how{.grid = 1, .block = count < 32 ? 32u : 256u, .stream = stream};
  how.grid.x = static_cast<uint32_t>(blocks < most_blocks ? blocks : most_blocks);
  return how;
}
inline gravel_launch_config one_lane(gravel_stream_t stream) { return {.grid = 1, .block = 1, .stream = stream}; }

/// Starts a small kernel. `is_mapped`: it neither sends messages nor waits for one.
template <class... P, class... A>
void launch_operation(bool is_mapped, void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
  inner::launch_for(is_mapped ? launch_needs::little : launch_needs::resolver, kernel, how, gravel_handle(),
                    arguments...);
}
/// Starts a kernel that waits.
template <class... P, class... A>
void launch_wait(void (*kernel)(P...), gravel_stream_t stream, A... arguments) {
  inner::launch_for(all_heaps_are_mapped() ? launch_needs::waits : launch_needs::resolver, kernel, one_lane(stream),
                    gravel_handle(), arguments...);
}

template <int = 0>
__global__ void put_in_stream(gravel_t g, char* dest, const char* source, uint64_t bytes, int pe) {
  const part_of_block part(bytes);
  gravel_put_bulk(g, dest + part.first, source + part.first, part.count, pe);
}
template <int = 0>
__global__ void get_in_stream(gravel_t g, char* dest, const char* source, uint64_t bytes, int pe) {
  const part_of_block part(bytes);
  gravel_get_bulk(g, dest + part.first, source + part.first, part.count, pe);
  if (threadIdx.x == 0) gravel_quiet(g);
}
template <int = 0>
__global__ void put_signal_in_stream(gravel_t g, char* dest, const char* source, uint64_t bytes, uint64_t* signal,
                                     uint64_t value, gravel_signal_op how, int pe) {
  gravel_put_signal(g, dest, source, bytes, signal, value, how, pe);
}
template <class T>
__global__ void put_strided_in_stream(gravel_t g, T* dest, const T* source, uint64_t dest_stride,
                                      uint64_t source_stride, uint64_t count, int pe) {
  const part_of_block part(count);
  gravel_put_strided(g, dest + part.first * dest_stride, source + part.first * source_stride, dest_stride,
                     source_stride, part.count, pe);
}
template <class T>
__global__ void get_strided_in_stream(gravel_t g, T* dest, const T* source, uint64_t dest_stride,
                                      uint64_t source_stride, uint64_t count, int pe) {
  const part_of_block part(count);
  gravel_get_strided(g, dest + part.first * dest_stride, source + part.first * source_stride, dest_stride,
                     source_stride, part.count, pe);
  if (threadIdx.x == 0) gravel_quiet(g);
}
template <class T>
__global__ void put_value_in_stream(gravel_t g, T* dest, T value, int pe) {
  gravel_put(g, dest, value, pe);
}
template <int = 0>
__global__ void signal_in_stream(gravel_t g, uint64_t* signal, uint64_t value, gravel_signal_op how, int pe) {
  // Behind what the stream has stored before.
  gravel_put_signal_lane(g, signal, nullptr, 0, signal, value, how, pe);
}
template <class T>
__global__ void wait_until_in_stream(gravel_t g, const T* word, gravel_compare compare, T value) {
  gravel_wait_until(g, word, compare, value);
}
template <class T>
__global__ void wait_until_all_in_stream(gravel_t g, const T* words, size_t count, const int* status,
                                         gravel_compare compare, T value) {
  gravel_wait_until_all(g, words, count, status, compare, value);
}
template <class T>
__global__ void wait_until_all_vector_in_stream(gravel_t g, const T* words, size_t count, const int* status,
                                                gravel_compare compare, const T* values) {
  gravel_wait_until_all_vector(g, words, count, status, compare, values);
}
template <int = 0>
__global__ void quiet_in_stream(gravel_t g) {
  gravel_quiet(g);
}

}  // namespace gravel::detail

/// Copies `bytes` bytes to `pe`.
inline void gravel_put_on_stream(void* dest, const void* source, uint64_t bytes, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  void* const there = reach_in_stream("gravel_put_on_stream", dest, bytes, pe);
  if (bytes == 0) return;
  if (there) return copy_alone_in_stream(stream, there, source, bytes);
  check_reached_by_kernels("gravel_put_on_stream", source);
  launch_operation(false, put_in_stream<>, shared_launch(bytes, stream), static_cast<char*>(dest),
                   static_cast<const char*>(source), bytes, pe);
}
/// Copies `bytes` bytes from `pe`.
inline void gravel_get_on_stream(void* dest, const void* source, uint64_t bytes, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  const void* const there = reach_in_stream("gravel_get_on_stream", source, bytes, pe);
  if (bytes == 0) return;
  if (there) return copy_alone_in_stream(stream, dest, there, bytes);
  check_reached_by_kernels("gravel_get_on_stream", dest);
  launch_operation(false, get_in_stream<>, shared_launch(bytes, stream), static_cast<char*>(dest),
                   static_cast<const char*>(source), bytes, pe);
}
/// Copies `bytes` bytes to `pe`, then sets or raises `*signal` there, as gravel_put_signal.
/// @param value what the signal is set to, or what is added to it
inline void gravel_put_signal_on_stream(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                        uint64_t value, gravel_signal_op how, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  constexpr uint64_t most_of_kernel = 32 << 10;  // more is faster by a copy in front of the signal
  void* const there = reach_in_stream("gravel_put_signal_on_stream", dest, bytes, pe);
  reach_in_stream("gravel_put_signal_on_stream", signal, sizeof(*signal), pe);
  if (bytes) check_reached_by_kernels("gravel_put_signal_on_stream", source);
  if (there && bytes > most_of_kernel) {
    copy_alone_in_stream(stream, there, source, bytes);
    bytes = 0;
  }
  gravel_launch_config config{.grid = 1, .block = bytes < 512 ? 32u : 256u, .stream = stream};
  launch_operation(there != nullptr, put_signal_in_stream<>, config, static_cast<char*>(dest),
                   static_cast<const char*>(source), bytes, signal, value, how, pe);
}
/// Copies `count` elements to `pe`: dest[i * dest_stride] = source[i * source_stride]. T: as of gravel_put_strided.
template <class T>
void gravel_put_strided_on_stream(T* dest, const T* source, uint64_t dest_stride, uint64_t source_stride,
                                  uint64_t count, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  const void* const there =
      reach_in_stream("gravel_put_strided_on_stream", dest, strided_bytes(count, dest_stride, sizeof(T)), pe);
  if (count == 0) return;
  check_reached_by_kernels("gravel_put_strided_on_stream", source);
  launch_operation(there != nullptr, put_strided_in_stream<T>, shared_launch(count, stream), dest, source, dest_stride,
                   source_stride, count, pe);
}
/// Copies `count` elements from `pe`: dest[i * dest_stride] = source[i * source_stride]. T: as of gravel_put_strided.
template <class T>
void gravel_get_strided_on_stream(T* dest, const T* source, uint64_t dest_stride, uint64_t source_stride,
                                  uint64_t count, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  const void* const there =
      reach_in_stream("gravel_get_strided_on_stream", source, strided_bytes(count, source_stride, sizeof(T)), pe);
  if (count == 0) return;
  check_reached_by_kernels("gravel_get_strided_on_stream", dest);
  launch_operation(there != nullptr, get_strided_in_stream<T>, shared_launch(count, stream), dest, source, dest_stride,
                   source_stride, count, pe);
}
/// Puts: `*dest = value` at `pe`. T: as of gravel_put.
/// @param value operand
template <class T>
void gravel_put_value_on_stream(T* dest, gravel::detail::same<T> value, int pe, gravel_stream_t stream) {
  using namespace gravel::detail;
  const void* const there = reach_in_stream("gravel_put_value_on_stream", dest, sizeof(T), pe);
  launch_operation(there != nullptr, put_value_in_stream<T>, one_lane(stream), dest, value, pe);
}
/// Reads `*source` at `pe` when all that was put into the stream before has ended.
/// @return the value
/// @completion on return: the host waits
template <class T>
T gravel_get_value_on_stream(const T* source, int pe, gravel_stream_t stream) {
  gravel::detail::reach_in_stream("gravel_get_value_on_stream", source, sizeof(T), pe);
  gravel_stream_synchronize(stream);
  return gravel_get_value(gravel_host_handle(), source, pe);
}
/// Sets a signal at `pe`, or adds to it. A lane that sees the signal also sees what earlier operations of the stream
/// have stored in memory of `pe` that kernels of this PE reach.
/// @param value what the signal is set to, or what is added to it
inline void gravel_send_signal_on_stream(uint64_t* signal, uint64_t value, gravel_signal_op how, int pe,
                                         gravel_stream_t stream) {
  using namespace gravel::detail;
  const void* const there = reach_in_stream("gravel_send_signal_on_stream", signal, sizeof(*signal), pe);
  launch_operation(there != nullptr, signal_in_stream<>, one_lane(stream), signal, value, how, pe);
}
/// Makes the stream wait until `*word compare value` holds, by a kernel that waits as gravel_wait_until. A graph that
/// has captured it starts it without the resolver: there it may wait for words that other PEs store directly, by
/// operations of one lane or of streams.
/// @param word of this PE's own memory, aligned to its type
/// @param value what the word is compared with
template <class T>
void gravel_wait_until_on_stream(const T* word, gravel_compare compare, gravel::detail::same<T> value,
                                 gravel_stream_t stream) {
  using namespace gravel::detail;
  check_reached_by_kernels("gravel_wait_until_on_stream", word);
  launch_wait(wait_until_in_stream<T>, stream, word, compare, value);
}
/// Makes the stream wait until the condition of each word of a set has held, as gravel_wait_until_all.
/// @param value what each word is compared with
template <class T>
void gravel_wait_until_all_on_stream(const T* words, size_t count, const int* status, gravel_compare compare,
                                     gravel::detail::same<T> value, gravel_stream_t stream) {
  using namespace gravel::detail;
  check_reached_by_kernels("gravel_wait_until_all_on_stream", words);
  launch_wait(wait_until_all_in_stream<T>, stream, words, count, status, compare, value);
}
/// Makes the stream wait until the condition of each word of a set has held, as gravel_wait_until_all_vector.
/// @param values [count], in memory that kernels reach: what each word is compared with
template <class T>
void gravel_wait_until_all_vector_on_stream(const T* words, size_t count, const int* status, gravel_compare compare,
                                            const T* values, gravel_stream_t stream) {
  using namespace gravel::detail;
  check_reached_by_kernels("gravel_wait_until_all_vector_on_stream", words);
  launch_wait(wait_until_all_vector_in_stream<T>, stream, words, count, status, compare, values);
}
/// Makes the stream wait until all that this PE's kernels and streams have sent before is applied, and their gets have
/// arrived, as gravel_quiet in a kernel.
inline void gravel_quiet_on_stream(gravel_stream_t stream) {
  gravel::detail::launch_wait(gravel::detail::quiet_in_stream<>, stream);
}
