// Atomics. Gravel has them by the size of a type: the types of NVSHMEM that are other names of one are the same here.
#pragma once
#include <gravel/nvshmem/rma.cuh>

namespace gravel::detail::nvshmem {

/// The integer of T's size and sign: it is one type for all of NVSHMEM's names.
template <class T>
GRAVEL_BOTH auto integer_of(T* at) {
  using unsigned_word = word<std::remove_const_t<T>>;
  using number = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<unsigned_word>, unsigned_word>;
  if constexpr (std::is_const_v<T>) return reinterpret_cast<const number*>(at);
  else return reinterpret_cast<number*>(at);
}

}  // namespace gravel::detail::nvshmem

#define GRAVEL_NVSHMEM_ATOMICS(NAME, T)                                                                             \
  GRAVEL_BOTH void nvshmem_##NAME##_atomic_inc(T* dest, int pe) {                                                   \
    gravel_inc(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), pe);                   \
  }                                                                                                                 \
  GRAVEL_BOTH void nvshmem_##NAME##_atomic_add(T* dest, T value, int pe) {                                          \
    gravel_add(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), value, pe);            \
  }                                                                                                                 \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_fetch_inc(T* dest, int pe) {                                                \
    return static_cast<T>(                                                                                          \
        gravel_fetch_add(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), 1, pe));     \
  }                                                                                                                 \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_fetch_add(T* dest, T value, int pe) {                                       \
    return static_cast<T>(                                                                                          \
        gravel_fetch_add(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), value, pe)); \
  }                                                                                                                 \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_compare_swap(T* dest, T cond, T value, int pe) {                            \
    return static_cast<T>(gravel_compare_swap(gravel::detail::nvshmem::handle(),                                    \
                                              gravel::detail::nvshmem::integer_of(dest), cond, value, pe));         \
  }
GRAVEL_NVSHMEM_ATOMIC_TYPES(GRAVEL_NVSHMEM_ATOMICS)
#undef GRAVEL_NVSHMEM_ATOMICS

#define GRAVEL_NVSHMEM_BITWISE(NAME, T, OP)                                                                          \
  GRAVEL_BOTH void nvshmem_##NAME##_atomic_##OP(T* dest, T value, int pe) {                                          \
    gravel_##OP(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), value, pe);            \
  }                                                                                                                  \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_fetch_##OP(T* dest, T value, int pe) {                                       \
    return static_cast<T>(                                                                                           \
        gravel_fetch_##OP(gravel::detail::nvshmem::handle(), gravel::detail::nvshmem::integer_of(dest), value, pe)); \
  }
GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(GRAVEL_NVSHMEM_BITWISE, and)
GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(GRAVEL_NVSHMEM_BITWISE, or)
GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(GRAVEL_NVSHMEM_BITWISE, xor)
#undef GRAVEL_NVSHMEM_BITWISE

#define GRAVEL_NVSHMEM_SET_AND_FETCH(NAME, T)                              \
  GRAVEL_BOTH void nvshmem_##NAME##_atomic_set(T* dest, T value, int pe) { \
    gravel::detail::nvshmem::put_one(dest, value, pe);                     \
  }                                                                        \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_fetch(const T* source, int pe) {   \
    return gravel::detail::nvshmem::get_one(source, pe);                   \
  }
GRAVEL_NVSHMEM_ATOMIC_TYPES(GRAVEL_NVSHMEM_SET_AND_FETCH)
GRAVEL_NVSHMEM_FLOATS(GRAVEL_NVSHMEM_SET_AND_FETCH)
GRAVEL_NVSHMEM_SET_AND_FETCH(half, gravel::detail::nvshmem::half_type)
#undef GRAVEL_NVSHMEM_SET_AND_FETCH

#define GRAVEL_NVSHMEM_SWAP(NAME, T)                                                                              \
  GRAVEL_BOTH T nvshmem_##NAME##_atomic_swap(T* dest, T value, int pe) {                                          \
    using gravel::detail::nvshmem::word;                                                                          \
    return __builtin_bit_cast(T, gravel_swap(gravel::detail::nvshmem::handle(), reinterpret_cast<word<T>*>(dest), \
                                             __builtin_bit_cast(word<T>, value), pe));                            \
  }
GRAVEL_NVSHMEM_ATOMIC_TYPES(GRAVEL_NVSHMEM_SWAP)
GRAVEL_NVSHMEM_FLOATS(GRAVEL_NVSHMEM_SWAP)
#undef GRAVEL_NVSHMEM_SWAP

#define GRAVEL_NVSHMEM_FLOAT_ADDS(NAME, T)                                       \
  GRAVEL_BOTH void nvshmemx_##NAME##_atomic_add(T* dest, T value, int pe) {      \
    gravel_add(gravel::detail::nvshmem::handle(), dest, value, pe);              \
  }                                                                              \
  GRAVEL_BOTH T nvshmemx_##NAME##_atomic_fetch_add(T* dest, T value, int pe) {   \
    return gravel_fetch_add(gravel::detail::nvshmem::handle(), dest, value, pe); \
  }
GRAVEL_NVSHMEM_FLOATS(GRAVEL_NVSHMEM_FLOAT_ADDS)
GRAVEL_NVSHMEM_FLOAT_ADDS(half, gravel::detail::nvshmem::half_type)
#undef GRAVEL_NVSHMEM_FLOAT_ADDS
