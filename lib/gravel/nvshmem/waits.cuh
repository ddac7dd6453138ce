// Waits for words of this PE, and tests of them.
#pragma once
#include <gravel/nvshmem/job.cuh>

namespace gravel::detail::nvshmem {

GRAVEL_BOTH gravel_compare compare_of(int cmp) {
  switch (cmp) {
    case NVSHMEM_CMP_EQ: return GRAVEL_EQ;
    case NVSHMEM_CMP_NE: return GRAVEL_NE;
    case NVSHMEM_CMP_GT: return GRAVEL_GT;
    case NVSHMEM_CMP_LE: return GRAVEL_LE;
    case NVSHMEM_CMP_LT: return GRAVEL_LT;
    default: return GRAVEL_GE;
  }
}

}  // namespace gravel::detail::nvshmem

// Templates: a source compiles the waits that it calls.
#define GRAVEL_NVSHMEM_WAIT template <int = 0>
#define GRAVEL_NVSHMEM_COMPARED gravel::detail::nvshmem::compare_of(cmp)
#define GRAVEL_NVSHMEM_HANDLE gravel::detail::nvshmem::handle()
#define GRAVEL_NVSHMEM_WAITS(NAME, T)                                                           \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH void nvshmem_##NAME##_wait_until(T* ivar, int cmp, T value) { \
    gravel_wait_until(GRAVEL_NVSHMEM_HANDLE, ivar, GRAVEL_NVSHMEM_COMPARED, value);             \
  }                                                                                             \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH int nvshmem_##NAME##_test(T* ivar, int cmp, T value) {        \
    return gravel_test(GRAVEL_NVSHMEM_HANDLE, ivar, GRAVEL_NVSHMEM_COMPARED, value);            \
  }                                                                                             \
  GRAVEL_NVSHMEM_WAITS_OF(NAME, T, , T)                                                         \
  GRAVEL_NVSHMEM_WAITS_OF(NAME, T, _vector, T*)
// Waits and tests of several words. VALUE: one value for all, or an array.
#define GRAVEL_NVSHMEM_WAITS_OF(NAME, T, VECTOR, VALUE)                                                                \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH void nvshmem_##NAME##_wait_until_all##VECTOR(                                        \
      T* ivars, size_t count, const int* status, int cmp, VALUE value) {                                               \
    gravel_wait_until_all##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, status, GRAVEL_NVSHMEM_COMPARED, value);        \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH size_t nvshmem_##NAME##_wait_until_any##VECTOR(                                      \
      T* ivars, size_t count, const int* status, int cmp, VALUE value) {                                               \
    return gravel_wait_until_any##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, status, GRAVEL_NVSHMEM_COMPARED, value); \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH size_t nvshmem_##NAME##_wait_until_some##VECTOR(                                     \
      T* ivars, size_t count, size_t* indices, const int* status, int cmp, VALUE value) {                              \
    return gravel_wait_until_some##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, indices, status,                        \
                                          GRAVEL_NVSHMEM_COMPARED, value);                                             \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH int nvshmem_##NAME##_test_all##VECTOR(T* ivars, size_t count, const int* status,     \
                                                                        int cmp, VALUE value) {                        \
    return gravel_test_all##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, status, GRAVEL_NVSHMEM_COMPARED, value);       \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH size_t nvshmem_##NAME##_test_any##VECTOR(T* ivars, size_t count, const int* status,  \
                                                                           int cmp, VALUE value) {                     \
    return gravel_test_any##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, status, GRAVEL_NVSHMEM_COMPARED, value);       \
  }                                                                                                                    \
  GRAVEL_NVSHMEM_WAIT GRAVEL_BOTH size_t nvshmem_##NAME##_test_some##VECTOR(T* ivars, size_t count, size_t* indices,   \
                                                                            const int* status, int cmp, VALUE value) { \
    return gravel_test_some##VECTOR(GRAVEL_NVSHMEM_HANDLE, ivars, count, indices, status, GRAVEL_NVSHMEM_COMPARED,     \
                                    value);                                                                            \
  }
GRAVEL_NVSHMEM_WAIT_TYPES(GRAVEL_NVSHMEM_WAITS)
#undef GRAVEL_NVSHMEM_WAITS_OF
#undef GRAVEL_NVSHMEM_WAITS
#undef GRAVEL_NVSHMEM_HANDLE
#undef GRAVEL_NVSHMEM_COMPARED
#undef GRAVEL_NVSHMEM_WAIT

/// Returns the value that ended the wait.
GRAVEL_BOTH uint64_t nvshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t value) {
  return gravel_signal_wait_until(gravel::detail::nvshmem::handle(), sig_addr, gravel::detail::nvshmem::compare_of(cmp),
                                  value);
}
GRAVEL_BOTH uint64_t nvshmemx_signal_counted_load(const uint64_t* signal_addr) {
  return gravel_signal_fetch(gravel::detail::nvshmem::handle(), signal_addr);
}
/// Waits until at least `expected` puts have arrived.
GRAVEL_BOTH void nvshmemx_signal_counted_wait_until(const uint64_t* signal_addr, uint64_t expected) {
  gravel_signal_wait_until(gravel::detail::nvshmem::handle(), signal_addr, GRAVEL_GE, expected);
}
