// NVSHMEM's constants, its structures, and its lists of types, from which the other headers make one call for each
// type.
#pragma once
#include <gravel/gravel.cuh>

#include <climits>
#include <cstddef>
#include <cstdint>

#include "lib/base/half.hpp"
#if GRAVEL_CUDA
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <gravel/cuda_on_cpu/vector_types.h>
#endif

#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 8
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_VENDOR_VERSION 30800
#define NVSHMEM_VENDOR_STRING "NVSHMEM v3.8.0 over Gravel " GRAVEL_VERSION
#define NVSHMEM_MAX_NAME_LEN 256

typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
typedef uint64_t nvshmemx_team_uniqueid_t;
typedef int nvshmemx_qp_handle_t;
typedef uint64_t nvshmemx_region_handle_t;

enum {
  NVSHMEM_TEAM_INVALID = -1,
  NVSHMEM_TEAM_WORLD = 0,
  NVSHMEM_TEAM_SHARED = 1,
  NVSHMEMX_TEAM_NODE = 2,
  NVSHMEMX_TEAM_SAME_MYPE_NODE = 3
};
typedef enum {
  NVSHMEM_CMP_EQ = 0,
  NVSHMEM_CMP_NE,
  NVSHMEM_CMP_GT,
  NVSHMEM_CMP_LE,
  NVSHMEM_CMP_LT,
  NVSHMEM_CMP_GE,
  NVSHMEM_CMP_SENTINEL = INT_MAX
} nvshmemx_cmp_type_t;
typedef enum { NVSHMEM_SIGNAL_SET = 9, NVSHMEM_SIGNAL_ADD = 10 } nvshmemx_signal_op_t;
typedef enum {
  NVSHMEM_THREAD_SINGLE = 0,
  NVSHMEM_THREAD_FUNNELED,
  NVSHMEM_THREAD_SERIALIZED,
  NVSHMEM_THREAD_MULTIPLE,
  NVSHMEM_THREAD_TYPE_SENTINEL = INT_MAX
} nvshmemx_thread_support_t;
typedef enum {
  NVSHMEM_STATUS_NOT_INITIALIZED = 0,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED,
  NVSHMEM_STATUS_IS_INITIALIZED,
  NVSHMEM_STATUS_LIMITED_MPG,
  NVSHMEM_STATUS_FULL_MPG,
  NVSHMEM_STATUS_INVALID = INT_MAX
} nvshmemx_init_status_t;
typedef enum {
  NVSHMEMX_QP_HOST = 0,
  NVSHMEMX_QP_DEFAULT = 1,
  NVSHMEMX_QP_ANY = INT_MAX,
  NVSHMEMX_QP_ALL = INT_MAX
} nvshmemx_qp_handle_index_t;
typedef enum { NVSHMEM_PE_INVALID = -1, NVSHMEMX_PE_ANY = 1 << 15, NVSHMEMX_PE_ALL = 1 << 15 } nvshmem_pe_index_t;
/// What calls return. Gravel's say on stderr what is wrong, and return NVSHMEMX_ERROR_INVALID_VALUE.
typedef enum nvshmemx_status {
  NVSHMEMX_SUCCESS = 0,
  NVSHMEMX_ERROR_INVALID_VALUE,
  NVSHMEMX_ERROR_OUT_OF_MEMORY,
  NVSHMEMX_ERROR_NOT_SUPPORTED,
  NVSHMEMX_ERROR_SYMMETRY,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
  NVSHMEMX_ERROR_INTERNAL,
  NVSHMEMX_ERROR_SENTINEL = INT_MAX
} nvshmemx_status;
/// The name of a status, for host threads.
inline const char* nvshmemx_status_string(int status) {
  switch (status) {
    case NVSHMEMX_SUCCESS: return "NVSHMEMX_SUCCESS";
    case NVSHMEMX_ERROR_INVALID_VALUE: return "NVSHMEMX_ERROR_INVALID_VALUE";
    case NVSHMEMX_ERROR_OUT_OF_MEMORY: return "NVSHMEMX_ERROR_OUT_OF_MEMORY";
    case NVSHMEMX_ERROR_NOT_SUPPORTED: return "NVSHMEMX_ERROR_NOT_SUPPORTED";
    case NVSHMEMX_ERROR_SYMMETRY: return "NVSHMEMX_ERROR_SYMMETRY";
    case NVSHMEMX_ERROR_GPU_NOT_SELECTED: return "NVSHMEMX_ERROR_GPU_NOT_SELECTED";
    case NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED: return "NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED";
    case NVSHMEMX_ERROR_INTERNAL: return "NVSHMEMX_ERROR_INTERNAL";
    default: return "NVSHMEMX_ERROR_<unknown>";
  }
}
/// Flags of nvshmemx_init_attr.
enum {
  NVSHMEMX_INIT_THREAD_PES = 1,
  NVSHMEMX_INIT_WITH_MPI_COMM = 1 << 1,
  NVSHMEMX_INIT_WITH_SHMEM = 1 << 2,
  NVSHMEMX_INIT_WITH_UNIQUEID = 1 << 3
};

/// An id by which the processes of a job find each other. PE 0 makes it, and the program carries it to the others.
typedef struct {
  int version;
  char internal[sizeof(gravel_unique_id_t)];
} nvshmemx_uniqueid_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_t* id;
  int myrank;
  int nranks;
} nvshmemx_uniqueid_args_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
  int cuda_device_id;
  char content[92];
} nvshmemx_init_args_t;
typedef struct {
  int version;
  void* mpi_comm;
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;
#define NVSHMEMX_UNIQUEID_INITIALIZER \
  {                                   \
    1, {}                             \
  }
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER \
  { 1, nullptr, -1, -1 }
#define NVSHMEMX_INIT_ARGS_INITIALIZER            \
  {                                               \
    2, NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1, {} \
  }
#define NVSHMEMX_INIT_ATTR_INITIALIZER \
  { 2, nullptr, NVSHMEMX_INIT_ARGS_INITIALIZER }

typedef struct {
  int version;
  int num_contexts;
  nvshmemx_team_uniqueid_t uniqueid;
  char padding[48];
} nvshmem_team_config_t;
#define NVSHMEM_TEAM_CONFIG_INITIALIZER \
  {                                     \
    2, -1, ~0ull, {}                    \
  }
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS 1
#define NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID 2

typedef enum { NVSHMEMX_REGION_HINT_NONE = 0, NVSHMEMX_REGION_HINT_BATCH_RMA = 1 } nvshmemx_region_hint_t;
typedef struct nvshmemx_region_attrs {
  uint32_t hints;
  char reserved[60];
} nvshmemx_region_attrs_t;
#define NVSHMEMX_REGION_ATTRS_INITIALIZER \
  {                                       \
    NVSHMEMX_REGION_HINT_NONE, {}         \
  }

namespace gravel::detail::nvshmem {
#if GRAVEL_CUDA
using half_type = __half;
using bfloat16_type = __nv_bfloat16;
#else
using half_type = gravel_half;
using bfloat16_type = gravel_bfloat16;
#endif
}  // namespace gravel::detail::nvshmem

// Lists of types: X(NAME, T, ...) for each. The lists of signed and of unsigned integers are parts of the others.
#define GRAVEL_NVSHMEM_16_BITS(X, ...)                                   \
  X(half, gravel::detail::nvshmem::half_type __VA_OPT__(, ) __VA_ARGS__) \
  X(bfloat16, gravel::detail::nvshmem::bfloat16_type __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_FLOATS(X, ...)        \
  X(float, float __VA_OPT__(, ) __VA_ARGS__) \
  X(double, double __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_SMALL_INTEGERS(X, ...)        \
  X(char, char __VA_OPT__(, ) __VA_ARGS__)           \
  X(schar, signed char __VA_OPT__(, ) __VA_ARGS__)   \
  X(uchar, unsigned char __VA_OPT__(, ) __VA_ARGS__) \
  X(int8, int8_t __VA_OPT__(, ) __VA_ARGS__)         \
  X(uint8, uint8_t __VA_OPT__(, ) __VA_ARGS__)       \
  X(int16, int16_t __VA_OPT__(, ) __VA_ARGS__)       \
  X(uint16, uint16_t __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_SHORTS(X, ...)        \
  X(short, short __VA_OPT__(, ) __VA_ARGS__) \
  X(ushort, unsigned short __VA_OPT__(, ) __VA_ARGS__)
// Integers of 4 and 8 bytes that NVSHMEM's bitwise atomics take, and those that only the others take.
#define GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(X, ...)           \
  X(uint, unsigned int __VA_OPT__(, ) __VA_ARGS__)            \
  X(ulong, unsigned long __VA_OPT__(, ) __VA_ARGS__)          \
  X(ulonglong, unsigned long long __VA_OPT__(, ) __VA_ARGS__) \
  X(int32, int32_t __VA_OPT__(, ) __VA_ARGS__)                \
  X(uint32, uint32_t __VA_OPT__(, ) __VA_ARGS__)              \
  X(int64, int64_t __VA_OPT__(, ) __VA_ARGS__)                \
  X(uint64, uint64_t __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_OTHER_INTEGERS(X, ...)       \
  X(int, int __VA_OPT__(, ) __VA_ARGS__)            \
  X(long, long __VA_OPT__(, ) __VA_ARGS__)          \
  X(longlong, long long __VA_OPT__(, ) __VA_ARGS__) \
  X(size, size_t __VA_OPT__(, ) __VA_ARGS__)        \
  X(ptrdiff, ptrdiff_t __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_ATOMIC_TYPES(X, ...)                         \
  GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(X __VA_OPT__(, ) __VA_ARGS__) \
  GRAVEL_NVSHMEM_OTHER_INTEGERS(X __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_WAIT_TYPES(X, ...)             \
  GRAVEL_NVSHMEM_SHORTS(X __VA_OPT__(, ) __VA_ARGS__) \
  GRAVEL_NVSHMEM_ATOMIC_TYPES(X __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_RMA_TYPES(X, ...)                      \
  GRAVEL_NVSHMEM_16_BITS(X __VA_OPT__(, ) __VA_ARGS__)        \
  GRAVEL_NVSHMEM_FLOATS(X __VA_OPT__(, ) __VA_ARGS__)         \
  GRAVEL_NVSHMEM_SMALL_INTEGERS(X __VA_OPT__(, ) __VA_ARGS__) \
  GRAVEL_NVSHMEM_SHORTS(X __VA_OPT__(, ) __VA_ARGS__)         \
  GRAVEL_NVSHMEM_ATOMIC_TYPES(X __VA_OPT__(, ) __VA_ARGS__)
// Sizes of elements in bits: X(N, bytes, ...).
#define GRAVEL_NVSHMEM_SIZES(X, ...)  \
  X(8, 1 __VA_OPT__(, ) __VA_ARGS__)  \
  X(16, 2 __VA_OPT__(, ) __VA_ARGS__) \
  X(32, 4 __VA_OPT__(, ) __VA_ARGS__) \
  X(64, 8 __VA_OPT__(, ) __VA_ARGS__) \
  X(128, 16 __VA_OPT__(, ) __VA_ARGS__)
// Types of reductions: those of bitwise ones, and all.
#define GRAVEL_NVSHMEM_BITWISE_REDUCTION_TYPES(X, ...) \
  X(uchar, unsigned char __VA_OPT__(, ) __VA_ARGS__)   \
  X(ushort, unsigned short __VA_OPT__(, ) __VA_ARGS__) \
  X(int8, int8_t __VA_OPT__(, ) __VA_ARGS__)           \
  X(uint8, uint8_t __VA_OPT__(, ) __VA_ARGS__)         \
  X(int16, int16_t __VA_OPT__(, ) __VA_ARGS__)         \
  X(uint16, uint16_t __VA_OPT__(, ) __VA_ARGS__)       \
  X(size, size_t __VA_OPT__(, ) __VA_ARGS__)           \
  GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(X __VA_OPT__(, ) __VA_ARGS__)
#define GRAVEL_NVSHMEM_REDUCTION_TYPES(X, ...)                         \
  GRAVEL_NVSHMEM_BITWISE_REDUCTION_TYPES(X __VA_OPT__(, ) __VA_ARGS__) \
  GRAVEL_NVSHMEM_16_BITS(X __VA_OPT__(, ) __VA_ARGS__)                 \
  GRAVEL_NVSHMEM_FLOATS(X __VA_OPT__(, ) __VA_ARGS__)                  \
  X(char, char __VA_OPT__(, ) __VA_ARGS__)                             \
  X(schar, signed char __VA_OPT__(, ) __VA_ARGS__)                     \
  X(short, short __VA_OPT__(, ) __VA_ARGS__)                           \
  X(int, int __VA_OPT__(, ) __VA_ARGS__)                               \
  X(long, long __VA_OPT__(, ) __VA_ARGS__)                             \
  X(longlong, long long __VA_OPT__(, ) __VA_ARGS__)

namespace gravel::detail::nvshmem {

/// An element of a size: elements of all types of one size move alike.
struct unit_of_16 {
  uint64_t half[2];
};
template <uint64_t BYTES>
struct element_of;
template <>
struct element_of<1> {
  using type = uint8_t;
};
template <>
struct element_of<2> {
  using type = uint16_t;
};
template <>
struct element_of<4> {
  using type = uint32_t;
};
template <>
struct element_of<8> {
  using type = uint64_t;
};
template <>
struct element_of<16> {
  using type = unit_of_16;
};
template <uint64_t BYTES>
using element = typename element_of<BYTES>::type;
template <class T>
using word = element<sizeof(T)>;

}  // namespace gravel::detail::nvshmem
