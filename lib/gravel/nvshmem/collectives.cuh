// Barriers and collectives: by a lane, a warp or a block of each member, by the host, and on streams.
#pragma once
#include <gravel/collective.cuh>
#include <gravel/nvshmem/teams.cuh>

namespace gravel::detail::nvshmem {

/// The type that stands for T in reductions: the integer of its size and sign, or the floating-point number.
template <class T>
GRAVEL_BOTH constexpr auto summand_for() {
  if constexpr (std::is_same_v<plain<T>, gravel_half> || std::is_same_v<plain<T>, gravel_bfloat16>) return plain<T>{};
  else if constexpr (std::is_floating_point_v<T>) return T{};
  else if constexpr (std::is_signed_v<T>) return std::make_signed_t<word<T>>{};
  else return word<T>{};
}
template <class T>
GRAVEL_BOTH auto summands(T* at) {
  using number = decltype(summand_for<std::remove_const_t<T>>());
  if constexpr (std::is_const_v<T>) return reinterpret_cast<const number*>(at);
  else return reinterpret_cast<number*>(at);
}
GRAVEL_BOTH char* bytes_at(void* at) { return static_cast<char*>(at); }
GRAVEL_BOTH const char* bytes_at(const void* at) { return static_cast<const char*>(at); }

}  // namespace gravel::detail::nvshmem

// All are templates: a source compiles the collectives that it calls.
// A call by its name in NVSHMEM and in Gravel. PARAMETERS: behind the team; ...: the arguments for Gravel.
#if GRAVEL_ON_GPU
#define GRAVEL_NVSHMEM_OF_LANE(ON_HOST, IN_KERNEL) IN_KERNEL
#elif GRAVEL_CUDA
#define GRAVEL_NVSHMEM_OF_LANE(ON_HOST, IN_KERNEL) ON_HOST
#else
#define GRAVEL_NVSHMEM_OF_LANE(ON_HOST, IN_KERNEL)     \
  if (gravel::detail::nvshmem::in_kernel()) IN_KERNEL; \
  else ON_HOST
#endif
#define GRAVEL_NVSHMEM_TEAM gravel::detail::nvshmem::team_of(team)
#define GRAVEL_NVSHMEM_HERE gravel::detail::nvshmem::handle(), GRAVEL_NVSHMEM_TEAM
#define GRAVEL_NVSHMEM_PARAMETERS(...) nvshmem_team_t team __VA_OPT__(, ) __VA_ARGS__
// nvcc compiles the kernels that a function launches only if its passes for GPUs, too, see the launch, or the address
// of a function that launches them, as the one for streams does.
#define GRAVEL_NVSHMEM_COLLECTIVE(NAME, CALL, HOW, PARAMETERS, ...)                                                   \
  template <int = 0>                                                                                                  \
  int nvshmemx_##NAME##_on_stream(GRAVEL_NVSHMEM_PARAMETERS PARAMETERS, gravel_stream_t stream) {                     \
    CALL##_on_stream HOW(GRAVEL_NVSHMEM_TEAM __VA_OPT__(, ) __VA_ARGS__, gravel::detail::nvshmem::stream_of(stream)); \
    return 0;                                                                                                         \
  }                                                                                                                   \
  template <int = 0>                                                                                                  \
  GRAVEL_BOTH int nvshmem_##NAME(GRAVEL_NVSHMEM_PARAMETERS PARAMETERS) {                                              \
    [[maybe_unused]] constexpr auto with_kernels = &nvshmemx_##NAME##_on_stream<>;                                    \
    GRAVEL_NVSHMEM_OF_LANE(CALL HOW(GRAVEL_NVSHMEM_TEAM __VA_OPT__(, ) __VA_ARGS__),                                  \
                           CALL##_lane HOW(GRAVEL_NVSHMEM_HERE __VA_OPT__(, ) __VA_ARGS__));                          \
    return 0;                                                                                                         \
  }                                                                                                                   \
  template <int = 0>                                                                                                  \
  GRAVEL_DEVICE int nvshmemx_##NAME##_warp(GRAVEL_NVSHMEM_PARAMETERS PARAMETERS) {                                    \
    CALL##_warp HOW(GRAVEL_NVSHMEM_HERE __VA_OPT__(, ) __VA_ARGS__);                                                  \
    return 0;                                                                                                         \
  }                                                                                                                   \
  template <int = 0>                                                                                                  \
  GRAVEL_DEVICE int nvshmemx_##NAME##_block(GRAVEL_NVSHMEM_PARAMETERS PARAMETERS) {                                   \
    CALL##_block HOW(GRAVEL_NVSHMEM_HERE __VA_OPT__(, ) __VA_ARGS__);                                                 \
    return 0;                                                                                                         \
  }

GRAVEL_NVSHMEM_COLLECTIVE(barrier, gravel_barrier, , ())
GRAVEL_NVSHMEM_COLLECTIVE(team_sync, gravel_sync, , ())
#define nvshmem_sync nvshmem_team_sync

#define GRAVEL_NVSHMEM_ARRAYS(T) T *dest, const T *source, size_t count
#define GRAVEL_NVSHMEM_ARRAYS_AND_ROOT(T) GRAVEL_NVSHMEM_ARRAYS(T), int root
#define GRAVEL_NVSHMEM_BYTES(AT) gravel::detail::nvshmem::bytes_at(AT)
#define GRAVEL_NVSHMEM_MOVING(BROADCAST, FCOLLECT, ALLTOALL, T, BYTES)                                            \
  GRAVEL_NVSHMEM_COLLECTIVE(BROADCAST, gravel_broadcast, , (GRAVEL_NVSHMEM_ARRAYS_AND_ROOT(T)),                   \
                            GRAVEL_NVSHMEM_BYTES(dest), GRAVEL_NVSHMEM_BYTES(source), count*(BYTES), root)        \
  GRAVEL_NVSHMEM_COLLECTIVE(FCOLLECT, gravel_allgather, , (GRAVEL_NVSHMEM_ARRAYS(T)), GRAVEL_NVSHMEM_BYTES(dest), \
                            GRAVEL_NVSHMEM_BYTES(source), count*(BYTES))                                          \
  GRAVEL_NVSHMEM_COLLECTIVE(ALLTOALL, gravel_alltoall, , (GRAVEL_NVSHMEM_ARRAYS(T)), GRAVEL_NVSHMEM_BYTES(dest),  \
                            GRAVEL_NVSHMEM_BYTES(source), count*(BYTES))
#define GRAVEL_NVSHMEM_TYPED(NAME, T) \
  GRAVEL_NVSHMEM_MOVING(NAME##_broadcast, NAME##_fcollect, NAME##_alltoall, T, sizeof(T))
GRAVEL_NVSHMEM_RMA_TYPES(GRAVEL_NVSHMEM_TYPED)
GRAVEL_NVSHMEM_MOVING(broadcastmem, fcollectmem, alltoallmem, void, 1)
#undef GRAVEL_NVSHMEM_TYPED
#undef GRAVEL_NVSHMEM_MOVING
#undef GRAVEL_NVSHMEM_BYTES
#undef GRAVEL_NVSHMEM_ARRAYS_AND_ROOT

#define GRAVEL_NVSHMEM_SUMMANDS(AT) gravel::detail::nvshmem::summands(AT)
#define GRAVEL_NVSHMEM_REDUCING(NAME, T, OP, HOW)                                                                  \
  GRAVEL_NVSHMEM_COLLECTIVE(NAME##_##OP##_reduce, gravel_reduce_all, <HOW>, (GRAVEL_NVSHMEM_ARRAYS(T)),            \
                            GRAVEL_NVSHMEM_SUMMANDS(dest), GRAVEL_NVSHMEM_SUMMANDS(source), count)                 \
  GRAVEL_NVSHMEM_COLLECTIVE(NAME##_##OP##_reducescatter, gravel_reduce_scatter, <HOW>, (GRAVEL_NVSHMEM_ARRAYS(T)), \
                            GRAVEL_NVSHMEM_SUMMANDS(dest), GRAVEL_NVSHMEM_SUMMANDS(source), count)
#define GRAVEL_NVSHMEM_BITWISE(NAME, T)             \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, and, GRAVEL_AND) \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, or, GRAVEL_OR)   \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, xor, GRAVEL_XOR)
#define GRAVEL_NVSHMEM_ARITHMETIC(NAME, T)          \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, min, GRAVEL_MIN) \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, max, GRAVEL_MAX) \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, sum, GRAVEL_SUM) \
  GRAVEL_NVSHMEM_REDUCING(NAME, T, prod, GRAVEL_PROD)
GRAVEL_NVSHMEM_BITWISE_REDUCTION_TYPES(GRAVEL_NVSHMEM_BITWISE)
GRAVEL_NVSHMEM_REDUCTION_TYPES(GRAVEL_NVSHMEM_ARITHMETIC)
#undef GRAVEL_NVSHMEM_ARITHMETIC
#undef GRAVEL_NVSHMEM_BITWISE
#undef GRAVEL_NVSHMEM_REDUCING
#undef GRAVEL_NVSHMEM_SUMMANDS
#undef GRAVEL_NVSHMEM_ARRAYS
#undef GRAVEL_NVSHMEM_COLLECTIVE

/// x is a value and y its index: the largest value of each place, with its index. Of equal values the one with the
/// lower index wins. `count` may be more than 1.
template <int = 0>
GRAVEL_DEVICE int nvshmemx_double2_maxloc_reduce_block(nvshmem_team_t team, double2* dest, const double2* source,
                                                       size_t count) {
  using pair = gravel_located<double, double>;
  static_assert(sizeof(pair) == sizeof(double2));
  gravel_reduce_all_block<GRAVEL_MAX>(GRAVEL_NVSHMEM_HERE, reinterpret_cast<pair*>(dest),
                                      reinterpret_cast<const pair*>(source), count);
  return 0;
}
#undef GRAVEL_NVSHMEM_PARAMETERS
#undef GRAVEL_NVSHMEM_HERE
#undef GRAVEL_NVSHMEM_TEAM

GRAVEL_BOTH void nvshmem_barrier_all() {
  GRAVEL_NVSHMEM_OF_LANE(gravel_barrier_all(), gravel_barrier_lane(gravel::detail::nvshmem::handle()));
}
GRAVEL_BOTH void nvshmem_sync_all() {
  GRAVEL_NVSHMEM_OF_LANE(gravel_sync(gravel_team_world()), gravel_sync_lane(gravel::detail::nvshmem::handle()));
}
#undef GRAVEL_NVSHMEM_OF_LANE
GRAVEL_DEVICE void nvshmemx_barrier_all_warp() { gravel_barrier_warp(gravel::detail::nvshmem::handle()); }
GRAVEL_DEVICE void nvshmemx_barrier_all_block() { gravel_barrier_block(gravel::detail::nvshmem::handle()); }
GRAVEL_DEVICE void nvshmemx_sync_all_warp() { gravel_sync_warp(gravel::detail::nvshmem::handle()); }
GRAVEL_DEVICE void nvshmemx_sync_all_block() { gravel_sync_block(gravel::detail::nvshmem::handle()); }
inline void nvshmemx_barrier_all_on_stream(gravel_stream_t stream) {
  gravel_barrier_on_stream(gravel_team_world(), gravel::detail::nvshmem::stream_of(stream));
}
inline void nvshmemx_sync_all_on_stream(gravel_stream_t stream) {
  gravel_sync_on_stream(gravel_team_world(), gravel::detail::nvshmem::stream_of(stream));
}
