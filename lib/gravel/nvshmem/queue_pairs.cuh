// Calls with queue pairs, and regions. Connections are the aggregator's, and messages are always gathered: these calls
// do what those without a queue pair do, and regions have nothing to do.
#pragma once
#include <gravel/nvshmem/order.cuh>
#include <gravel/nvshmem/signals.cuh>

#include <cstdlib>

/// The array of `num_qps` queue pairs is of malloc(), as the program frees it.
inline int nvshmemx_qp_create(int num_qps, nvshmemx_qp_handle_t** out_qp_array) {
  if (num_qps < 0) return 1;
  auto* const all = static_cast<nvshmemx_qp_handle_t*>(std::malloc(sizeof(nvshmemx_qp_handle_t) * (num_qps + 1u)));
  if (!all) return 1;
  for (int i = 0; i < num_qps; ++i) all[i] = NVSHMEMX_QP_DEFAULT;
  *out_qp_array = all;
  return 0;
}

#define GRAVEL_NVSHMEM_QP_BULK(NAME, CALL, T)                                                     \
  GRAVEL_DEVICE void NAME(T* dest, const T* source, size_t count, int pe, nvshmemx_qp_handle_t) { \
    CALL(dest, source, count, pe);                                                                \
  }
#define GRAVEL_NVSHMEM_QP_SIGNAL(NAME, CALL, T)                                                                    \
  GRAVEL_DEVICE void NAME(T* dest, const T* source, size_t count, uint64_t* sig_addr, uint64_t signal, int sig_op, \
                          int pe, nvshmemx_qp_handle_t) {                                                          \
    CALL(dest, source, count, sig_addr, signal, sig_op, pe);                                                       \
  }
#define GRAVEL_NVSHMEM_QP_EACH_SCOPE(KIND, CALL, T)                  \
  KIND(nvshmemx_qp_##CALL, nvshmem_##CALL, T)                        \
  KIND(nvshmemx_qp_##CALL##_nbi, nvshmem_##CALL##_nbi, T)            \
  KIND(nvshmemx_qp_##CALL##_warp, nvshmemx_##CALL##_warp, T)         \
  KIND(nvshmemx_qp_##CALL##_nbi_warp, nvshmemx_##CALL##_nbi_warp, T) \
  KIND(nvshmemx_qp_##CALL##_block, nvshmemx_##CALL##_block, T)       \
  KIND(nvshmemx_qp_##CALL##_nbi_block, nvshmemx_##CALL##_nbi_block, T)
#define GRAVEL_NVSHMEM_QP(NAME, T)                                                                  \
  GRAVEL_DEVICE void nvshmemx_qp_##NAME##_p(T* dest, const T value, int pe, nvshmemx_qp_handle_t) { \
    nvshmem_##NAME##_p(dest, value, pe);                                                            \
  }                                                                                                 \
  GRAVEL_DEVICE T nvshmemx_qp_##NAME##_g(const T* source, int pe, nvshmemx_qp_handle_t) {           \
    return nvshmem_##NAME##_g(source, pe);                                                          \
  }                                                                                                 \
  GRAVEL_NVSHMEM_QP_EACH_SCOPE(GRAVEL_NVSHMEM_QP_BULK, NAME##_put, T)                               \
  GRAVEL_NVSHMEM_QP_EACH_SCOPE(GRAVEL_NVSHMEM_QP_BULK, NAME##_get, T)                               \
  GRAVEL_NVSHMEM_QP_EACH_SCOPE(GRAVEL_NVSHMEM_QP_SIGNAL, NAME##_put_signal, T)
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_QP)
#undef GRAVEL_NVSHMEM_QP
#undef GRAVEL_NVSHMEM_QP_EACH_SCOPE
#undef GRAVEL_NVSHMEM_QP_SIGNAL
#undef GRAVEL_NVSHMEM_QP_BULK
GRAVEL_DEVICE void nvshmemx_qp_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                         nvshmemx_qp_handle_t) {
  nvshmemx_signal_op(sig_addr, signal, sig_op, pe);
}

#define GRAVEL_NVSHMEM_QP_ORDER(NAME, CALL)                                          \
  GRAVEL_DEVICE void nvshmemx_qp_##NAME(int, nvshmemx_qp_handle_t*, int) { CALL(); } \
  GRAVEL_DEVICE void nvshmemx_qp_##NAME##_warp(int, nvshmemx_qp_handle_t*, int) {    \
    CALL();                                                                          \
    gravel::detail::nvshmem::sync(gravel::detail::nvshmem::warp_scope{});            \
  }                                                                                  \
  GRAVEL_DEVICE void nvshmemx_qp_##NAME##_block(int, nvshmemx_qp_handle_t*, int) {   \
    CALL();                                                                          \
    gravel::detail::nvshmem::sync(gravel::detail::nvshmem::block_scope{});           \
  }
GRAVEL_NVSHMEM_QP_ORDER(quiet, nvshmem_quiet)
GRAVEL_NVSHMEM_QP_ORDER(fence, nvshmem_fence)
#undef GRAVEL_NVSHMEM_QP_ORDER

inline int nvshmemx_region_start(nvshmemx_region_handle_t* handle, const nvshmemx_region_attrs_t*) {
  *handle = 0;
  return 0;
}
inline int nvshmemx_region_stop(nvshmemx_region_handle_t) { return 0; }
/// No region changes what calls do: none is ever active.
GRAVEL_BOTH int nvshmemx_region_is_active(uint32_t, int* active) {
  *active = 0;
  return 0;
}
#define GRAVEL_NVSHMEM_REGION(SCOPE)                                                                                  \
  GRAVEL_DEVICE int nvshmemx_region_start_##SCOPE(nvshmemx_region_handle_t* handle, const nvshmemx_region_attrs_t*) { \
    *handle = 0;                                                                                                      \
    return 0;                                                                                                         \
  }                                                                                                                   \
  GRAVEL_DEVICE int nvshmemx_region_stop_##SCOPE(nvshmemx_region_handle_t) { return 0; }
GRAVEL_NVSHMEM_REGION(warp)
GRAVEL_NVSHMEM_REGION(block)
#undef GRAVEL_NVSHMEM_REGION
