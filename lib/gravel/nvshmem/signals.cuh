// Puts with a signal, and signals.
#pragma once
#include <gravel/nvshmem/rma.cuh>

namespace gravel::detail::nvshmem {

GRAVEL_BOTH gravel_signal_op signal_op_of(int op) {
  return op == NVSHMEM_SIGNAL_ADD ? GRAVEL_SIGNAL_ADD : GRAVEL_SIGNAL_SET;
}
GRAVEL_BOTH_APART void put_signal(lane_scope, void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                  uint64_t value, int op, int pe) {
  gravel_put_signal_lane(handle(), dest, source, bytes, signal, value, signal_op_of(op), pe);
}
GRAVEL_DEVICE_APART void put_signal(warp_scope, void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                    uint64_t value, int op, int pe) {
  gravel_put_signal_warp(handle(), dest, source, bytes, signal, value, signal_op_of(op), pe);
}
GRAVEL_DEVICE_APART void put_signal(block_scope, void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                    uint64_t value, int op, int pe) {
  gravel_put_signal(handle(), dest, source, bytes, signal, value, signal_op_of(op), pe);
}

}  // namespace gravel::detail::nvshmem

#define GRAVEL_NVSHMEM_PUT_SIGNAL(MODE, NAME, SCOPE, T, BYTES)                                                      \
  MODE void NAME(T* dest, const T* source, size_t count, uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) { \
    gravel::detail::nvshmem::put_signal(gravel::detail::nvshmem::SCOPE{}, dest, source, count*(BYTES), sig_addr,    \
                                        signal, sig_op, pe);                                                        \
  }
#define GRAVEL_NVSHMEM_EACH_SCOPE(PUT, T, BYTES)                                                   \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_BOTH, nvshmem_##PUT##_signal, lane_scope, T, BYTES)             \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_BOTH, nvshmem_##PUT##_signal_nbi, lane_scope, T, BYTES)         \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_DEVICE, nvshmemx_##PUT##_signal_warp, warp_scope, T, BYTES)     \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_DEVICE, nvshmemx_##PUT##_signal_nbi_warp, warp_scope, T, BYTES) \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_DEVICE, nvshmemx_##PUT##_signal_block, block_scope, T, BYTES)   \
  GRAVEL_NVSHMEM_PUT_SIGNAL(GRAVEL_DEVICE, nvshmemx_##PUT##_signal_nbi_block, block_scope, T, BYTES)
#define GRAVEL_NVSHMEM_TYPED(NAME, T) GRAVEL_NVSHMEM_EACH_SCOPE(NAME##_put, T, sizeof(T))
#define GRAVEL_NVSHMEM_SIZED(N, BYTES) GRAVEL_NVSHMEM_EACH_SCOPE(put##N, void, BYTES)
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_TYPED)
GRAVEL_NVSHMEM_SIZES(GRAVEL_NVSHMEM_SIZED)
GRAVEL_NVSHMEM_EACH_SCOPE(putmem, void, 1)
#undef GRAVEL_NVSHMEM_SIZED
#undef GRAVEL_NVSHMEM_TYPED
#undef GRAVEL_NVSHMEM_EACH_SCOPE
#undef GRAVEL_NVSHMEM_PUT_SIGNAL

GRAVEL_BOTH void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {
  gravel_send_signal(gravel::detail::nvshmem::handle(), sig_addr, signal, gravel::detail::nvshmem::signal_op_of(sig_op),
                     pe);
}
GRAVEL_BOTH uint64_t nvshmem_signal_fetch(uint64_t* sig_addr) {
  return gravel_signal_fetch(gravel::detail::nvshmem::handle(), sig_addr);
}

// Counted signals: each put adds 1.
GRAVEL_BOTH void nvshmemx_signal_counted_reset(uint64_t* signal_addr) {
  gravel_signal_reset(gravel::detail::nvshmem::handle(), signal_addr);
}
#define GRAVEL_NVSHMEM_COUNTED(SCOPE)                                                                        \
  GRAVEL_DEVICE int nvshmemx_putmem_signal_counted_nbi_##SCOPE(void* dest, const void* source, size_t bytes, \
                                                               uint64_t* signal_addr, int pe) {              \
    nvshmemx_putmem_signal_nbi_##SCOPE(dest, source, bytes, signal_addr, 1, NVSHMEM_SIGNAL_ADD, pe);         \
    return 0;                                                                                                \
  }
GRAVEL_NVSHMEM_COUNTED(warp)
GRAVEL_NVSHMEM_COUNTED(block)
#undef GRAVEL_NVSHMEM_COUNTED
