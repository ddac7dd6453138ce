// Operations on streams. A null stream is the program's default stream.
#pragma once
#include <gravel/nvshmem/launch.cuh>
#include <gravel/nvshmem/order.cuh>
#include <gravel/nvshmem/signals.cuh>
#include <gravel/nvshmem/waits.cuh>
#include <gravel/on_stream.cuh>

#define GRAVEL_NVSHMEM_STREAM gravel::detail::nvshmem::stream_of(stream)
// Templates: a source compiles the operations that it calls.
#define GRAVEL_NVSHMEM_ON_STREAM template <int = 0>
#define GRAVEL_NVSHMEM_BULK(PUT, GET, T, BYTES)                            \
  GRAVEL_NVSHMEM_MOVE(PUT##_on_stream, gravel_put_on_stream, T, BYTES)     \
  GRAVEL_NVSHMEM_MOVE(PUT##_nbi_on_stream, gravel_put_on_stream, T, BYTES) \
  GRAVEL_NVSHMEM_MOVE(GET##_on_stream, gravel_get_on_stream, T, BYTES)     \
  GRAVEL_NVSHMEM_MOVE(GET##_nbi_on_stream, gravel_get_on_stream, T, BYTES) \
  GRAVEL_NVSHMEM_SIGNAL(PUT##_signal_on_stream, T, BYTES)                  \
  GRAVEL_NVSHMEM_SIGNAL(PUT##_signal_nbi_on_stream, T, BYTES)
#define GRAVEL_NVSHMEM_MOVE(NAME, CALL, T, BYTES)                                               \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME(T* dest, const T* source, size_t count, int pe, \
                                                gravel_stream_t stream) {                       \
    CALL(dest, source, count*(BYTES), pe, GRAVEL_NVSHMEM_STREAM);                               \
  }
#define GRAVEL_NVSHMEM_SIGNAL(NAME, T, BYTES)                                                                  \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME(T* dest, const T* source, size_t count, uint64_t* sig_addr,    \
                                                uint64_t signal, int sig_op, int pe, gravel_stream_t stream) { \
    gravel_put_signal_on_stream(dest, source, count*(BYTES), sig_addr, signal,                                 \
                                gravel::detail::nvshmem::signal_op_of(sig_op), pe, GRAVEL_NVSHMEM_STREAM);     \
  }
#define GRAVEL_NVSHMEM_STRIDED(NAME, CALL, T, ELEMENT)                                                                \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME(T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t count, \
                                                int pe, gravel_stream_t stream) {                                     \
    CALL(reinterpret_cast<ELEMENT*>(dest), reinterpret_cast<const ELEMENT*>(source), static_cast<uint64_t>(dst),      \
         static_cast<uint64_t>(sst), count, pe, GRAVEL_NVSHMEM_STREAM);                                               \
  }
#define GRAVEL_NVSHMEM_TYPED(NAME, T)                                                                              \
  GRAVEL_NVSHMEM_BULK(NAME##_put, NAME##_get, T, sizeof(T))                                                        \
  GRAVEL_NVSHMEM_STRIDED(NAME##_iput_on_stream, gravel_put_strided_on_stream, T, gravel::detail::nvshmem::word<T>) \
  GRAVEL_NVSHMEM_STRIDED(NAME##_iget_on_stream, gravel_get_strided_on_stream, T, gravel::detail::nvshmem::word<T>) \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME##_p_on_stream(T* dest, const T value, int pe,                      \
                                                              gravel_stream_t stream) {                            \
    using gravel::detail::nvshmem::word;                                                                           \
    gravel_put_value_on_stream(reinterpret_cast<word<T>*>(dest), __builtin_bit_cast(word<T>, value), pe,           \
                               GRAVEL_NVSHMEM_STREAM);                                                             \
  }                                                                                                                \
  GRAVEL_NVSHMEM_ON_STREAM T nvshmemx_##NAME##_g_on_stream(const T* source, int pe, gravel_stream_t stream) {      \
    using gravel::detail::nvshmem::word;                                                                           \
    return __builtin_bit_cast(                                                                                     \
        T, gravel_get_value_on_stream(reinterpret_cast<const word<T>*>(source), pe, GRAVEL_NVSHMEM_STREAM));       \
  }
#define GRAVEL_NVSHMEM_SIZED(N, BYTES)                                            \
  GRAVEL_NVSHMEM_BULK(put##N, get##N, void, BYTES)                                \
  GRAVEL_NVSHMEM_STRIDED(iput##N##_on_stream, gravel_put_strided_on_stream, void, \
                         gravel::detail::nvshmem::element<BYTES>)                 \
  GRAVEL_NVSHMEM_STRIDED(iget##N##_on_stream, gravel_get_strided_on_stream, void, \
                         gravel::detail::nvshmem::element<BYTES>)
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_TYPED)
GRAVEL_NVSHMEM_SIZES(GRAVEL_NVSHMEM_SIZED)
GRAVEL_NVSHMEM_BULK(putmem, getmem, void, 1)
#undef GRAVEL_NVSHMEM_SIZED
#undef GRAVEL_NVSHMEM_TYPED
#undef GRAVEL_NVSHMEM_STRIDED
#undef GRAVEL_NVSHMEM_SIGNAL
#undef GRAVEL_NVSHMEM_MOVE
#undef GRAVEL_NVSHMEM_BULK

#define GRAVEL_NVSHMEM_WAITS(NAME, T)                                                                                  \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME##_wait_until_on_stream(T* ivar, int cmp, T value,                      \
                                                                       gravel_stream_t stream) {                       \
    gravel_wait_until_on_stream(ivar, gravel::detail::nvshmem::compare_of(cmp), value, GRAVEL_NVSHMEM_STREAM);         \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME##_wait_until_all_on_stream(T* ivars, size_t count, const int* status,  \
                                                                           int cmp, T value, gravel_stream_t stream) { \
    gravel_wait_until_all_on_stream(ivars, count, status, gravel::detail::nvshmem::compare_of(cmp), value,             \
                                    GRAVEL_NVSHMEM_STREAM);                                                            \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_##NAME##_wait_until_all_vector_on_stream(                                     \
      T* ivars, size_t count, const int* status, int cmp, T* values, gravel_stream_t stream) {                         \
    gravel_wait_until_all_vector_on_stream(ivars, count, status, gravel::detail::nvshmem::compare_of(cmp), values,     \
                                           GRAVEL_NVSHMEM_STREAM);                                                     \
  }
GRAVEL_NVSHMEM_WAIT_TYPES(GRAVEL_NVSHMEM_WAITS)
#undef GRAVEL_NVSHMEM_WAITS
GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t value,
                                                                   gravel_stream_t stream) {
  gravel_wait_until_on_stream(sig_addr, gravel::detail::nvshmem::compare_of(cmp), value, GRAVEL_NVSHMEM_STREAM);
}
GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                                           gravel_stream_t stream) {
  gravel_send_signal_on_stream(sig_addr, signal, gravel::detail::nvshmem::signal_op_of(sig_op), pe,
                               GRAVEL_NVSHMEM_STREAM);
}
GRAVEL_NVSHMEM_ON_STREAM void nvshmemx_quiet_on_stream(gravel_stream_t stream) {
  gravel_quiet_on_stream(GRAVEL_NVSHMEM_STREAM);
}
/// An operation of a stream has read its source when the next one begins: there is nothing to wait for.
inline void nvshmemx_flush_on_stream(gravel_stream_t) {}
#undef GRAVEL_NVSHMEM_ON_STREAM
#undef GRAVEL_NVSHMEM_STREAM
