// Gathering: puts and atomics of single elements go through a block sender.
//
// Problem. A program sends single elements in a loop. Each warp sends its own at once, in small slots.
// Solution. The line NVSHMEM_GATHER_BLOCK(threads of the block); at the beginning of a kernel, before any branch. If
// the program is compiled with -DNVSHMEM_GATHER, the names of the calls below are objects from there to the end of the
// kernel, which hide the functions: they give their elements to a block sender, which hands them over in large slots.
// Otherwise the line does nothing.
//
// All threads of the block leave the kernel at its end, where the sender hands over the rest. Elements that are still
// in the sender are not sent, so nvshmem_quiet, nvshmem_fence and barriers by a lane or a warp do not compile there;
// nvshmemx_barrier_all_block hands them over first. Functions that the kernel calls send as always.
#pragma once
#ifdef NVSHMEM_GATHER
#include <exception>

#include <gravel/nvshmem/atomics.cuh>
#include <gravel/nvshmem/collectives.cuh>

namespace gravel::detail::nvshmem {

/// Begins and ends the sender of a kernel.
template <class Sender>
class gather_scope {
 public:
  GRAVEL_DEVICE explicit gather_scope(Sender& sender) : sender_(sender) { sender_.begin(handle()); }
  /// On the CPU backend a lane that is unwound since another one failed must not wait.
  GRAVEL_DEVICE ~gather_scope() noexcept(false) {
#if !GRAVEL_CUDA
    if (std::uncaught_exceptions()) return;
#endif
    sender_.end();
  }
  gather_scope(const gather_scope&) = delete;
  gather_scope& operator=(const gather_scope&) = delete;

 private:
  Sender& sender_;
};

template <class T, class Sender>
struct gathered_put {
  Sender& sender;
  GRAVEL_DEVICE void operator()(T* dest, T value, int pe) const {
    sender.put(reinterpret_cast<word<T>*>(dest), __builtin_bit_cast(word<T>, value), pe);
  }
};
template <class T, class Sender>
struct gathered_inc {
  Sender& sender;
  GRAVEL_DEVICE void operator()(T* dest, int pe) const { sender.inc(integer_of(dest), pe); }
};
template <class T, class Sender>
struct gathered_add {
  Sender& sender;
  GRAVEL_DEVICE void operator()(T* dest, T value, int pe) const {
    if constexpr (std::is_floating_point_v<T>) sender.add(dest, value, pe);
    else sender.add(integer_of(dest), value, pe);
  }
};
#define GRAVEL_NVSHMEM_GATHERED(OP)                                                                                 \
  template <class T, class Sender>                                                                                  \
  struct gathered_##OP {                                                                                            \
    Sender& sender;                                                                                                 \
    GRAVEL_DEVICE void operator()(T* dest, T value, int pe) const { sender.bit_##OP(integer_of(dest), value, pe); } \
  };
GRAVEL_NVSHMEM_GATHERED(and)
GRAVEL_NVSHMEM_GATHERED(or)
GRAVEL_NVSHMEM_GATHERED(xor)
#undef GRAVEL_NVSHMEM_GATHERED
template <class Sender>
struct gathered_barrier {
  Sender& sender;
  GRAVEL_DEVICE void operator()() const {
    sender.end();
    gravel_barrier_block(handle());
    sender.begin(handle());
  }
};
/// Stands for calls that would not wait for what is in the sender.
struct no_wait_while_gathering {
  template <class T = void>
  GRAVEL_DEVICE void operator()() const {
    static_assert(!std::is_same_v<T, void>,
                  "this call does not wait for elements in the sender of NVSHMEM_GATHER_BLOCK: use "
                  "nvshmemx_barrier_all_block, or end the kernel");
  }
};

}  // namespace gravel::detail::nvshmem

// clang-format off
#define GRAVEL_NVSHMEM_OBJECT(CALL, KIND, T) \
  [[maybe_unused]] const gravel::detail::nvshmem::KIND<T, decltype(gravel_nvshmem_sender)> CALL{gravel_nvshmem_sender};
#define GRAVEL_NVSHMEM_GATHERED_PUT(NAME, T) GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_p, gathered_put, T)
#define GRAVEL_NVSHMEM_GATHERED_ATOMICS(NAME, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_set, gathered_put, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_inc, gathered_inc, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_add, gathered_add, T)
#define GRAVEL_NVSHMEM_GATHERED_BITS(NAME, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_and, gathered_and, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_or, gathered_or, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_xor, gathered_xor, T)
#define GRAVEL_NVSHMEM_GATHERED_FLOATS(NAME, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmem_##NAME##_atomic_set, gathered_put, T) \
  GRAVEL_NVSHMEM_OBJECT(nvshmemx_##NAME##_atomic_add, gathered_add, T)
#define NVSHMEM_GATHER_BLOCK(THREADS) \
  __shared__ gravel_block_sender<THREADS> gravel_nvshmem_sender; \
  const gravel::detail::nvshmem::gather_scope gravel_nvshmem_gathers(gravel_nvshmem_sender); \
  GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_GATHERED_PUT) \
  GRAVEL_NVSHMEM_ATOMIC_TYPES(GRAVEL_NVSHMEM_GATHERED_ATOMICS) \
  GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(GRAVEL_NVSHMEM_GATHERED_BITS) \
  GRAVEL_NVSHMEM_FLOATS(GRAVEL_NVSHMEM_GATHERED_FLOATS) \
  [[maybe_unused]] const gravel::detail::nvshmem::gathered_barrier<decltype(gravel_nvshmem_sender)> \
      nvshmemx_barrier_all_block{gravel_nvshmem_sender}; \
  [[maybe_unused]] constexpr gravel::detail::nvshmem::no_wait_while_gathering \
      nvshmem_quiet, nvshmem_fence, nvshmem_barrier_all, nvshmemx_barrier_all_warp
// clang-format on
#else
#define NVSHMEM_GATHER_BLOCK(THREADS) static_assert(THREADS > 0)
#endif
