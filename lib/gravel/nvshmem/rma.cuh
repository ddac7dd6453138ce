// Puts and gets.
#pragma once
#include <type_traits>

#include <gravel/nvshmem/job.cuh>

namespace gravel::detail::nvshmem {

/// Returns true in a kernel for the caller's own PE. Its memory is stored and loaded as it is, and need not be
/// symmetric: programs use one kernel for their serial reference, too.
GRAVEL_BOTH bool is_own(int pe) { return in_kernel() && static_cast<uint32_t>(pe) == handle().my_pe; }

template <class T>
GRAVEL_BOTH void put_one(T* dest, T value, int pe) {
  if (is_own(pe)) {
    *reinterpret_cast<volatile word<T>*>(dest) = __builtin_bit_cast(word<T>, value);
    return;
  }
  gravel_put(handle(), reinterpret_cast<word<T>*>(dest), __builtin_bit_cast(word<T>, value), pe);
}
template <class T>
GRAVEL_BOTH T get_one(const T* source, int pe) {
  if (is_own(pe)) return __builtin_bit_cast(T, *reinterpret_cast<const volatile word<T>*>(source));
  return __builtin_bit_cast(T, gravel_fetch(handle(), reinterpret_cast<const word<T>*>(source), pe));
}

// Bulk calls are not inlined: a program has many, and a copy takes longer than a call.
GRAVEL_BOTH_APART void put_bytes(lane_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_put_bulk_lane(handle(), dest, source, bytes, pe);
}
GRAVEL_DEVICE_APART void put_bytes(warp_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_put_bulk_warp(handle(), dest, source, bytes, pe);
}
GRAVEL_DEVICE_APART void put_bytes(block_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_put_bulk(handle(), dest, source, bytes, pe);
}
GRAVEL_BOTH_APART void begin_get(lane_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_get_bulk_lane(handle(), dest, source, bytes, pe);
}
GRAVEL_DEVICE_APART void begin_get(warp_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_get_bulk_warp(handle(), dest, source, bytes, pe);
}
GRAVEL_DEVICE_APART void begin_get(block_scope, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel_get_bulk(handle(), dest, source, bytes, pe);
}
/// Waits for the gets that a scope has begun. Gets from mapped memory have been copied already.
template <class Scope>
GRAVEL_BOTH void finish_get(Scope scope, int pe) {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  if (static_cast<uint32_t>(pe) < handle().n_pes && mapped_heap(handle(), pe)) return;
#endif
  gravel_quiet(handle());
  sync(scope);
}
template <class Scope>
GRAVEL_BOTH void get_bytes(Scope scope, void* dest, const void* source, uint64_t bytes, int pe) {
  begin_get(scope, dest, source, bytes, pe);
  finish_get(scope, pe);
}

/// Strided puts and gets: elements of BYTES bytes, strides in elements.
#define GRAVEL_NVSHMEM_STRIDED_OF(SCOPE, MODE, SUFFIX)                                                           \
  template <uint64_t BYTES>                                                                                      \
  MODE void put_strided(SCOPE, void* dest, const void* source, ptrdiff_t to_stride, ptrdiff_t from_stride,       \
                        size_t count, int pe) {                                                                  \
    gravel_put_strided##SUFFIX(handle(), static_cast<element<BYTES>*>(dest),                                     \
                               static_cast<const element<BYTES>*>(source), static_cast<uint64_t>(to_stride),     \
                               static_cast<uint64_t>(from_stride), count, pe);                                   \
  }                                                                                                              \
  template <uint64_t BYTES>                                                                                      \
  MODE void get_strided(SCOPE scope, void* dest, const void* source, ptrdiff_t to_stride, ptrdiff_t from_stride, \
                        size_t count, int pe) {                                                                  \
    gravel_get_strided##SUFFIX(handle(), static_cast<element<BYTES>*>(dest),                                     \
                               static_cast<const element<BYTES>*>(source), static_cast<uint64_t>(to_stride),     \
                               static_cast<uint64_t>(from_stride), count, pe);                                   \
    finish_get(scope, pe);                                                                                       \
  }
GRAVEL_NVSHMEM_STRIDED_OF(lane_scope, GRAVEL_BOTH_APART, _lane)
GRAVEL_NVSHMEM_STRIDED_OF(warp_scope, GRAVEL_DEVICE_APART, _warp)
GRAVEL_NVSHMEM_STRIDED_OF(block_scope, GRAVEL_DEVICE_APART, )
#undef GRAVEL_NVSHMEM_STRIDED_OF

}  // namespace gravel::detail::nvshmem

#define GRAVEL_NVSHMEM_SINGLE(NAME, T)                                  \
  GRAVEL_BOTH void nvshmem_##NAME##_p(T* dest, const T value, int pe) { \
    gravel::detail::nvshmem::put_one(dest, value, pe);                  \
  }                                                                     \
  GRAVEL_BOTH T nvshmem_##NAME##_g(const T* source, int pe) { return gravel::detail::nvshmem::get_one(source, pe); }
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_SINGLE)
#undef GRAVEL_NVSHMEM_SINGLE

// The four bulk calls of one scope: PREFIX + put, get; SUFFIX is the scope's. A put has left its source when it
// returns, so those with and without _nbi are the same.
#define GRAVEL_NVSHMEM_BULK(MODE, PREFIX, PUT, GET, SUFFIX, SCOPE, T, BYTES)                               \
  MODE void PREFIX##PUT##SUFFIX(T* dest, const T* source, size_t count, int pe) {                          \
    gravel::detail::nvshmem::put_bytes(gravel::detail::nvshmem::SCOPE{}, dest, source, count*(BYTES), pe); \
  }                                                                                                        \
  MODE void PREFIX##PUT##_nbi##SUFFIX(T* dest, const T* source, size_t count, int pe) {                    \
    gravel::detail::nvshmem::put_bytes(gravel::detail::nvshmem::SCOPE{}, dest, source, count*(BYTES), pe); \
  }                                                                                                        \
  MODE void PREFIX##GET##SUFFIX(T* dest, const T* source, size_t count, int pe) {                          \
    gravel::detail::nvshmem::get_bytes(gravel::detail::nvshmem::SCOPE{}, dest, source, count*(BYTES), pe); \
  }                                                                                                        \
  MODE void PREFIX##GET##_nbi##SUFFIX(T* dest, const T* source, size_t count, int pe) {                    \
    gravel::detail::nvshmem::begin_get(gravel::detail::nvshmem::SCOPE{}, dest, source, count*(BYTES), pe); \
  }
#define GRAVEL_NVSHMEM_STRIDED(MODE, PREFIX, PUT, GET, SUFFIX, SCOPE, T, BYTES)                                       \
  MODE void PREFIX##PUT##SUFFIX(T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {       \
    gravel::detail::nvshmem::put_strided<BYTES>(gravel::detail::nvshmem::SCOPE{}, dest, source, dst, sst, count, pe); \
  }                                                                                                                   \
  MODE void PREFIX##GET##SUFFIX(T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {       \
    gravel::detail::nvshmem::get_strided<BYTES>(gravel::detail::nvshmem::SCOPE{}, dest, source, dst, sst, count, pe); \
  }
#define GRAVEL_NVSHMEM_EACH_SCOPE(KIND, PUT, GET, T, BYTES)             \
  KIND(GRAVEL_BOTH, nvshmem_, PUT, GET, , lane_scope, T, BYTES)         \
  KIND(GRAVEL_DEVICE, nvshmemx_, PUT, GET, _warp, warp_scope, T, BYTES) \
  KIND(GRAVEL_DEVICE, nvshmemx_, PUT, GET, _block, block_scope, T, BYTES)
#define GRAVEL_NVSHMEM_TYPED(NAME, T)                                                  \
  GRAVEL_NVSHMEM_EACH_SCOPE(GRAVEL_NVSHMEM_BULK, NAME##_put, NAME##_get, T, sizeof(T)) \
  GRAVEL_NVSHMEM_EACH_SCOPE(GRAVEL_NVSHMEM_STRIDED, NAME##_iput, NAME##_iget, T, sizeof(T))
#define GRAVEL_NVSHMEM_SIZED(N, BYTES)                                        \
  GRAVEL_NVSHMEM_EACH_SCOPE(GRAVEL_NVSHMEM_BULK, put##N, get##N, void, BYTES) \
  GRAVEL_NVSHMEM_EACH_SCOPE(GRAVEL_NVSHMEM_STRIDED, iput##N, iget##N, void, BYTES)
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_TYPED)
GRAVEL_NVSHMEM_SIZES(GRAVEL_NVSHMEM_SIZED)
GRAVEL_NVSHMEM_EACH_SCOPE(GRAVEL_NVSHMEM_BULK, putmem, getmem, void, 1)
#undef GRAVEL_NVSHMEM_SIZED
#undef GRAVEL_NVSHMEM_TYPED
#undef GRAVEL_NVSHMEM_EACH_SCOPE
#undef GRAVEL_NVSHMEM_STRIDED
#undef GRAVEL_NVSHMEM_BULK
