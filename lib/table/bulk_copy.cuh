// Copies between device memory and a block's shared memory, in which no lane waits for its own loads.
//
// Problem. A block that copies by loads and stores needs a register for each word that is under way, and most of its
// instructions are of the copy.
//
// Solution. From sm_90 on one lane gives the copy to the multiprocessor's copy unit, and waits for it. Elsewhere the
// lanes copy.
//
// Protocol, from sm_90 on:
//
//   step here               in the code                                          order
//   load                    the copy unit, then it completes the phase of arrived_    of the barrier
//   use what was loaded     all lanes, behind the wait for the phase
//   store                   all lanes have written: fence of the copy unit's proxy, barrier of the block, the copy unit
//   end                     one lane waits until the copy unit has stored all
#pragma once
#include "device/simt.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Copies of one block. It lies in shared memory. Addresses and bytes are multiples of 16.
class bulk_copy {
 public:
  /// Loads into shared memory, once. Thread scope: block, converged; all lanes may use the data then.
  GRAVEL_DEVICE void load(void* to, const void* from, uint32_t bytes) {
#if GRAVEL_ON_GPU && __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&arrived_)) : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&arrived_)), "r"(bytes)
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(to)),
          "l"(from), "r"(bytes), "r"(shared(&arrived_))
          : "memory");
    }
    __syncthreads();
    uint32_t is_there = 0;
    while (is_there == 0)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                   : "=r"(is_there)
                   : "r"(shared(&arrived_))
                   : "memory");
#else
    copy_by_lanes(to, from, bytes);
    __syncthreads();
#endif
  }
  /// Stores from shared memory what the block's lanes have written. Thread scope: block, converged.
  GRAVEL_DEVICE void store(void* to, const void* from, uint32_t bytes) const {
#if GRAVEL_ON_GPU && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared(from)),
                   "r"(bytes)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
#else
    __syncthreads();
    copy_by_lanes(to, from, bytes);
#endif
  }

 private:
  struct alignas(16) unit {
    uint32_t word[4];
  };
  static GRAVEL_DEVICE void copy_by_lanes(void* to, const void* from, uint32_t bytes) {
    for (uint32_t i = threadIdx.x; i < bytes / sizeof(unit); i += blockDim.x)
      static_cast<unit*>(to)[i] = static_cast<const unit*>(from)[i];
  }
#if GRAVEL_ON_GPU
  static GRAVEL_DEVICE uint32_t shared(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }
#endif
  [[maybe_unused]] uint64_t arrived_;  ///< the copy unit's barrier
};

}  // namespace gravel::detail
