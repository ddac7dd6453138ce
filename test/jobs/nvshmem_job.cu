// NVSHMEM's interface over Gravel: its calls by types, thread scopes and teams, checked against what NVSHMEM's
// documentation says. One source for the CPU backend and for GPUs; run under ucx-run with any number of PEs and nodes.
// With the argument `short` it takes few types, for jobs whose messages take long. With `unique_id` it starts without a
// launcher, makes a second process, and another one that calls nvshmem_global_exit.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "test/support/own_memory.hpp"

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  if (failures < 50) std::fprintf(stderr, "PE %d: wrong: %s\n", nvshmem_my_pe(), what.c_str());
}

/// Starts a kernel as a program of NVSHMEM does, with its arguments by address, and waits for it.
template <class... P>
void launch(void (*kernel)(P...), int blocks, int threads, std::type_identity_t<P>... values) {
  void* arguments[] = {&values..., nullptr};
#if GRAVEL_CUDA
  const int code = nvshmemx_collective_launch(reinterpret_cast<const void*>(kernel), blocks, threads, arguments, 0, 0);
#else
  const int code = nvshmemx_collective_launch(kernel, blocks, threads, arguments, 0, nullptr);
#endif
  expect(code == 0, "nvshmemx_collective_launch");
  gravel_synchronize();
}

void synchronize_default_stream() {
#if GRAVEL_CUDA
  expect(cudaStreamSynchronize(nullptr) == cudaSuccess, "cudaStreamSynchronize");
#else
  gravel_stream_synchronize(nullptr);
#endif
}

/// Zeroed symmetric memory with one T; its copy on the host.
template <class T>
struct symmetric {
  T* at = static_cast<T*>(nvshmem_calloc(1, sizeof(T)));
  ~symmetric() { nvshmem_free(at); }
  symmetric() = default;
  symmetric(const symmetric&) = delete;
  symmetric& operator=(const symmetric&) = delete;
  std::vector<T> read() const {
    std::vector<T> here(1);
    gravel_copy(here.data(), at, sizeof(T));
    return here;
  }
};

// Types for each kind of call: on the CPU backend all, on GPUs one of each size, as nvcc takes seconds for each.
#if GRAVEL_CUDA
#define MOVED_TYPES(X)                        \
  X(half, gravel::detail::nvshmem::half_type) \
  X(int, int)                                 \
  X(long, long)
#define MOVED_SIZES(X) X(8, 1) X(128, 16)
#define ATOMIC_BIT_TYPES(X) X(ulonglong, unsigned long long)
#define ATOMIC_TYPES(X) \
  X(int, int)           \
  X(uint64, uint64_t)
#define WAIT_TYPES(X) \
  X(short, short)     \
  X(uint64, uint64_t)
#define BITWISE_TYPES(X) X(uint32, uint32_t)
#define OTHER_TYPES(X) X(half, gravel::detail::nvshmem::half_type)
#else
#define MOVED_TYPES(X) GRAVEL_NVSHMEM_RMA_TYPES(X)
#define MOVED_SIZES(X) GRAVEL_NVSHMEM_SIZES(X)
#define ATOMIC_BIT_TYPES(X) GRAVEL_NVSHMEM_BITWISE_ATOMIC_TYPES(X)
#define ATOMIC_TYPES(X) GRAVEL_NVSHMEM_ATOMIC_TYPES(X)
#define WAIT_TYPES(X) GRAVEL_NVSHMEM_WAIT_TYPES(X)
#define BITWISE_TYPES(X) GRAVEL_NVSHMEM_BITWISE_REDUCTION_TYPES(X)
#define OTHER_TYPES(X)      \
  GRAVEL_NVSHMEM_16_BITS(X) \
  GRAVEL_NVSHMEM_FLOATS(X)  \
  X(char, char)             \
  X(schar, signed char)     \
  X(short, short)           \
  X(int, int)               \
  X(long, long)             \
  X(longlong, long long)
#endif

constexpr int threads = 64, room = 24, pieces = 5;

// ---- puts and gets: each call moves `pieces` elements from the PE itself to the right, or from the right to it

struct unit128 {
  uint64_t word[2];
};
/// Element i of PE `pe`: any bits.
template <class T>
GRAVEL_BOTH T element_of(int pe, int i) {
  T value{};
  const auto bits = static_cast<unsigned char>(pe * 51 + i * 7 + 3);
  for (size_t b = 0; b < sizeof(T); ++b)
    reinterpret_cast<unsigned char*>(&value)[b] = static_cast<unsigned char>(bits + b * 29);
  if constexpr (std::is_floating_point_v<T>) value = static_cast<T>(bits);
  return value;
}
template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// A small whole number, which is exact in all types.
template <class T>
GRAVEL_BOTH T number(int value) {
#if GRAVEL_CUDA
  if constexpr (std::is_same_v<T, __half>) return __float2half(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16(static_cast<float>(value));
#else
  if constexpr (gravel::detail::is_of_16_bits<T>) return T::from_float(static_cast<float>(value));
#endif
  else return static_cast<T>(value);
}

using gravel::detail::nvshmem::block_scope;
using gravel::detail::nvshmem::lane_scope;
using gravel::detail::nvshmem::warp_scope;
using ull = unsigned long long;

// The calls of one type or size, by the scope that is the first argument.
#define FORWARD(NAME, CALL, SCOPE)                \
  template <class... A>                           \
  GRAVEL_DEVICE static void NAME(SCOPE, A... a) { \
    CALL(a...);                                   \
  }
// By a host thread, on a stream.
struct stream_scope {};
// In front of a function for kernels, with a scope of theirs, and for the host, with stream_scope.
#if GRAVEL_CUDA
#define FOR_ONE_SIDE _Pragma("nv_exec_check_disable")
#else
#define FOR_ONE_SIDE
#endif
#define FORWARD_STREAM(NAME, CALL)                     \
  template <class... A>                                \
  static void NAME(stream_scope, A... a) {             \
    CALL(a..., static_cast<gravel_stream_t>(nullptr)); \
  }
#define FORWARD_SCOPES(NAME, MIDDLE, SUFFIX)                    \
  FORWARD(NAME, nvshmem_##MIDDLE##SUFFIX, lane_scope)           \
  FORWARD(NAME, nvshmemx_##MIDDLE##SUFFIX##_warp, warp_scope)   \
  FORWARD(NAME, nvshmemx_##MIDDLE##SUFFIX##_block, block_scope) \
  FORWARD_STREAM(NAME, nvshmemx_##MIDDLE##SUFFIX##_on_stream)
// With a queue pair as the last argument.
#define FORWARD_QUEUE_PAIRS(NAME, MIDDLE, SUFFIX)                \
  FORWARD(NAME, nvshmemx_qp_##MIDDLE##SUFFIX, lane_scope)        \
  FORWARD(NAME, nvshmemx_qp_##MIDDLE##SUFFIX##_warp, warp_scope) \
  FORWARD(NAME, nvshmemx_qp_##MIDDLE##SUFFIX##_block, block_scope)
#define MOVING_CALLS(PUT, GET)             \
  FORWARD_SCOPES(put, PUT, )               \
  FORWARD_SCOPES(put_nbi, PUT, _nbi)       \
  FORWARD_SCOPES(get, GET, )               \
  FORWARD_SCOPES(get_nbi, GET, _nbi)       \
  FORWARD_SCOPES(put_signal, PUT, _signal) \
  FORWARD_SCOPES(put_signal_nbi, PUT, _signal_nbi)
#define TYPED_CALLS(NAME, T)                                                                                         \
  struct calls_##NAME {                                                                                              \
    using type = T;                                                                                                  \
    static constexpr const char* name = #NAME;                                                                       \
    static constexpr bool is_typed = true, is_strided = true;                                                        \
    static constexpr size_t unit = 1;                                                                                \
    MOVING_CALLS(NAME##_put, NAME##_get)                                                                             \
    FORWARD_SCOPES(iput, NAME##_iput, )                                                                              \
    FORWARD_SCOPES(iget, NAME##_iget, )                                                                              \
    FORWARD_SCOPES(broadcast, NAME##_broadcast, )                                                                    \
    FORWARD_SCOPES(fcollect, NAME##_fcollect, )                                                                      \
    FORWARD_SCOPES(alltoall, NAME##_alltoall, )                                                                      \
    FORWARD_QUEUE_PAIRS(qp_put, NAME##_put, )                                                                        \
    FORWARD_QUEUE_PAIRS(qp_put_nbi, NAME##_put, _nbi)                                                                \
    FORWARD_QUEUE_PAIRS(qp_get, NAME##_get, )                                                                        \
    FORWARD_QUEUE_PAIRS(qp_get_nbi, NAME##_get, _nbi)                                                                \
    FORWARD_QUEUE_PAIRS(qp_put_signal, NAME##_put_signal, )                                                          \
    FORWARD_QUEUE_PAIRS(qp_put_signal_nbi, NAME##_put_signal, _nbi)                                                  \
    GRAVEL_DEVICE static void p(lane_scope, T* dest, T value, int pe) { nvshmem_##NAME##_p(dest, value, pe); }       \
    GRAVEL_DEVICE static T g(lane_scope, const T* source, int pe) { return nvshmem_##NAME##_g(source, pe); }         \
    GRAVEL_DEVICE static void qp_p(T* dest, T value, int pe, nvshmemx_qp_handle_t queue_pair) {                      \
      nvshmemx_qp_##NAME##_p(dest, value, pe, queue_pair);                                                           \
    }                                                                                                                \
    GRAVEL_DEVICE static T qp_g(const T* source, int pe, nvshmemx_qp_handle_t queue_pair) {                          \
      return nvshmemx_qp_##NAME##_g(source, pe, queue_pair);                                                         \
    }                                                                                                                \
    FORWARD_STREAM(p, nvshmemx_##NAME##_p_on_stream)                                                                 \
    static T g(stream_scope, const T* source, int pe) { return nvshmemx_##NAME##_g_on_stream(source, pe, nullptr); } \
  };
MOVED_TYPES(TYPED_CALLS)
#define SIZED(N, T)                                            \
  struct calls_##N {                                           \
    using type = T;                                            \
    static constexpr const char* name = "size " #N;            \
    static constexpr bool is_typed = false, is_strided = true; \
    static constexpr size_t unit = 1;                          \
    MOVING_CALLS(put##N, get##N)                               \
    FORWARD_SCOPES(iput, iput##N, )                            \
    FORWARD_SCOPES(iget, iget##N, )                            \
  };
SIZED(8, uint8_t)
SIZED(16, uint16_t)
SIZED(32, uint32_t)
SIZED(64, uint64_t)
SIZED(128, unit128)
struct calls_mem {
  using type = unit128;
  static constexpr const char* name = "mem";
  static constexpr bool is_typed = false, is_strided = false;
  static constexpr size_t unit = sizeof(unit128);
  MOVING_CALLS(putmem, getmem)
  FORWARD_SCOPES(broadcast, broadcastmem, )
  FORWARD_SCOPES(fcollect, fcollectmem, )
  FORWARD_SCOPES(alltoall, alltoallmem, )
};
#undef SIZED
#undef TYPED_CALLS
#undef MOVING_CALLS
#undef FORWARD_QUEUE_PAIRS
#undef FORWARD_SCOPES
#undef FORWARD_STREAM
#undef FORWARD

constexpr int scopes = 3;
template <class T>
struct moved {
  T source[room];           // of this PE
  T single[3], fetched[2];  // by a lane, with a queue pair, on a stream
  // By scope; the last ones are those of a stream. Strided ones have a distance of 2 at the destination, and of 3 at
  // the source.
  T put[scopes + 1][pieces], put_nbi[scopes + 1][pieces], get[scopes + 1][pieces], get_nbi[scopes + 1][pieces];
  T with_signal[scopes + 1][pieces], with_signal_nbi[scopes + 1][pieces];
  T iput[scopes + 1][2 * pieces], iget[scopes + 1][2 * pieces];
  uint64_t signal[scopes + 1];
  // With queue pairs.
  T qp_put[scopes][pieces], qp_put_nbi[scopes][pieces], qp_get[scopes][pieces], qp_get_nbi[scopes][pieces];
  T qp_with_signal[scopes][pieces], qp_with_signal_nbi[scopes][pieces];
  uint64_t qp_signal[scopes];
};

FOR_ONE_SIDE
template <class C, class Scope>
GRAVEL_BOTH void move(Scope scope, int which, moved<typename C::type>* m) {
  const int right = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  const size_t count = pieces * C::unit;
  C::put(scope, m->put[which], m->source, count, right);
  C::put_nbi(scope, m->put_nbi[which], m->source, count, right);
  C::get(scope, m->get[which], m->source, count, right);
  C::get_nbi(scope, m->get_nbi[which], m->source, count, right);
  C::put_signal(scope, m->with_signal[which], m->source, count, &m->signal[which], 5, NVSHMEM_SIGNAL_ADD, right);
  C::put_signal_nbi(scope, m->with_signal_nbi[which], m->source, count, &m->signal[which], 7, NVSHMEM_SIGNAL_ADD,
                    right);
  if constexpr (C::is_strided) {
    C::iput(scope, m->iput[which], m->source, 2, 3, pieces, right);
    C::iget(scope, m->iget[which], m->source, 2, 3, pieces, right);
  }
}
template <class C, class Scope>
GRAVEL_DEVICE void move_by_queue_pairs(Scope scope, int which, moved<typename C::type>* m) {
  const int right = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  const size_t count = pieces;
  constexpr nvshmemx_qp_handle_t any = NVSHMEMX_QP_ANY;
  C::qp_put(scope, m->qp_put[which], m->source, count, right, any);
  C::qp_put_nbi(scope, m->qp_put_nbi[which], m->source, count, right, any);
  C::qp_get(scope, m->qp_get[which], m->source, count, right, any);
  C::qp_get_nbi(scope, m->qp_get_nbi[which], m->source, count, right, any);
  C::qp_put_signal(scope, m->qp_with_signal[which], m->source, count, &m->qp_signal[which], 5, NVSHMEM_SIGNAL_ADD,
                   right, any);
  C::qp_put_signal_nbi(scope, m->qp_with_signal_nbi[which], m->source, count, &m->qp_signal[which], 7,
                       NVSHMEM_SIGNAL_ADD, right, any);
}
template <class C>
__global__ void moving(moved<typename C::type>* m) {
  using T = typename C::type;
  const int me = nvshmem_my_pe(), right = (me + 1) % nvshmem_n_pes();
  if (threadIdx.x < room) m->source[threadIdx.x] = element_of<T>(me, static_cast<int>(threadIdx.x));
  nvshmemx_barrier_all_block();
  if (threadIdx.x == 0) {
    move<C>(lane_scope{}, 0, m);
    if constexpr (C::is_typed) {
      C::p(lane_scope{}, &m->single[0], element_of<T>(me, 1), right);
      m->fetched[0] = C::g(lane_scope{}, &m->source[2], right);
    }
  }
  if (threadIdx.x < 32) move<C>(warp_scope{}, 1, m);
  __syncthreads();
  move<C>(block_scope{}, 2, m);
  nvshmem_quiet();
}
template <class C>
__global__ void moving_by_queue_pairs(moved<typename C::type>* m) {
  using T = typename C::type;
  const int me = nvshmem_my_pe(), right = (me + 1) % nvshmem_n_pes();
  if (threadIdx.x == 0) {
    move_by_queue_pairs<C>(lane_scope{}, 0, m);
    C::qp_p(&m->single[1], element_of<T>(me, 1), right, NVSHMEMX_QP_DEFAULT);
    m->fetched[1] = C::qp_g(&m->source[2], right, NVSHMEMX_QP_DEFAULT);
  }
  if (threadIdx.x < 32) move_by_queue_pairs<C>(warp_scope{}, 1, m);
  __syncthreads();
  move_by_queue_pairs<C>(block_scope{}, 2, m);
  nvshmem_quiet();
}

/// Whether the calls with queue pairs are tested: on GPUs those of one type.
template <class C>
constexpr bool has_queue_pairs = C::is_typed && (!GRAVEL_CUDA || std::is_same_v<typename C::type, long>);

template <class C>
void check_moving() {
  using T = typename C::type;
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), left = (me + n - 1) % n, right = (me + 1) % n;
  const symmetric<moved<T>> m;
  const auto check = [&](const char* what, bool holds) { expect(holds, std::string(what) + " of " + C::name); };
  launch(moving<C>, 1, threads, m.at);
  nvshmem_barrier_all();
  move<C>(stream_scope{}, scopes, m.at);
  if constexpr (C::is_typed) {
    if constexpr (has_queue_pairs<C>) launch(moving_by_queue_pairs<C>, 1, threads, m.at);
    C::p(stream_scope{}, &m.at->single[2], element_of<T>(me, 3), right);
    check("g_on_stream", same(C::g(stream_scope{}, &m.at->source[3], right), element_of<T>(right, 3)));
  }
  nvshmemx_barrier_all_on_stream(nullptr);
  nvshmem_barrier_all();
  const moved<T> got = m.read()[0];
  if (C::is_typed) {
    check("p", same(got.single[0], element_of<T>(left, 1)));
    check("g", same(got.fetched[0], element_of<T>(right, 2)));
    check("p_on_stream", same(got.single[2], element_of<T>(left, 3)));
  }
  if (has_queue_pairs<C>) {
    check("qp_p", same(got.single[1], element_of<T>(left, 1)));
    check("qp_g", same(got.fetched[1], element_of<T>(right, 2)));
  }
  for (int s = 0; s <= scopes; ++s) {
    for (int i = 0; i < pieces; ++i) {
      const T from_left = element_of<T>(left, i), from_right = element_of<T>(right, i);
      check("put", same(got.put[s][i], from_left));
      check("put_nbi", same(got.put_nbi[s][i], from_left));
      check("put_signal", same(got.with_signal[s][i], from_left));
      check("put_signal_nbi", same(got.with_signal_nbi[s][i], from_left));
      check("get", same(got.get[s][i], from_right));
      check("get_nbi", same(got.get_nbi[s][i], from_right));
      if (has_queue_pairs<C> && s < scopes) {
        check("qp_put", same(got.qp_put[s][i], from_left));
        check("qp_put_nbi", same(got.qp_put_nbi[s][i], from_left));
        check("qp_put_signal", same(got.qp_with_signal[s][i], from_left));
        check("qp_put_signal_nbi", same(got.qp_with_signal_nbi[s][i], from_left));
        check("qp_get", same(got.qp_get[s][i], from_right));
        check("qp_get_nbi", same(got.qp_get_nbi[s][i], from_right));
        check("signals of queue pairs", got.qp_signal[s] == 12);
      }
      if (!C::is_strided) continue;
      check("iput", same(got.iput[s][2 * i], element_of<T>(left, 3 * i)));
      check("iget", same(got.iget[s][2 * i], element_of<T>(right, 3 * i)));
      check("iput's gaps", same(got.iput[s][2 * i + 1], T{}));
    }
    check("signals", got.signal[s] == 12);
  }
}

// ---- atomics: all lanes of all PEs at the last PE

template <class T>
struct counted {
  T incremented, added, fetch_incremented, fetch_added, raised, set, swapped, seen[threads];
  T anded, ored, xored, fetch_anded, fetch_ored, fetch_xored;
};
#define ATOMIC_CALLS(NAME, T)                                                                      \
  __global__ void atomics_##NAME(counted<T>* c, int at) {                                          \
    const int lane = static_cast<int>(threadIdx.x);                                                \
    nvshmem_##NAME##_atomic_inc(&c->incremented, at);                                              \
    nvshmem_##NAME##_atomic_add(&c->added, 3, at);                                                 \
    nvshmem_##NAME##_atomic_fetch_inc(&c->fetch_incremented, at);                                  \
    c->seen[lane] = nvshmem_##NAME##_atomic_fetch_add(&c->fetch_added, 1, at);                     \
    for (T seen = nvshmem_##NAME##_atomic_fetch(&c->raised, at), next;; seen = next) {             \
      next = nvshmem_##NAME##_atomic_compare_swap(&c->raised, seen, static_cast<T>(seen + 1), at); \
      if (next == seen) break;                                                                     \
    }                                                                                              \
    nvshmem_##NAME##_atomic_set(&c->set, 9, at);                                                   \
    nvshmem_##NAME##_atomic_swap(&c->swapped, 11, at);                                             \
    nvshmem_quiet();                                                                               \
  }                                                                                                \
  void check_atomics_##NAME() {                                                                    \
    const int n = nvshmem_n_pes(), at = n - 1;                                                     \
    const symmetric<counted<T>> c;                                                                 \
    launch(atomics_##NAME, 1, threads, c.at, at);                                                  \
    nvshmem_barrier_all();                                                                         \
    check_counts(#NAME, c.read()[0], static_cast<T>(n * threads), at);                             \
  }
template <class T>
void check_counts(const char* name, const counted<T>& c, T all, int at) {
  const auto check = [&](const char* what, bool holds) { expect(holds, std::string(what) + " of " + name); };
  if (nvshmem_my_pe() == at) {
    check("atomic_inc", c.incremented == all);
    check("atomic_add", c.added == static_cast<T>(all * 3));
    check("atomic_fetch_inc", c.fetch_incremented == all);
    check("atomic_fetch_add", c.fetch_added == all);
    check("atomic_compare_swap", c.raised == all);
    check("atomic_set", c.set == T(9));
    check("atomic_swap", c.swapped == T(11));
  }
  for (int lane = 1; lane < threads; ++lane) check("what atomic_fetch_add returns", c.seen[lane] != c.seen[lane - 1]);
}
ATOMIC_TYPES(ATOMIC_CALLS)
#undef ATOMIC_CALLS

#define BITWISE_CALLS(NAME, T)                                                                          \
  __global__ void bits_##NAME(counted<T>* c, int at) {                                                  \
    const T bit = static_cast<T>(1) << threadIdx.x % 30, others = static_cast<T>(~bit);                 \
    nvshmem_##NAME##_atomic_and(&c->anded, others, at);                                                 \
    nvshmem_##NAME##_atomic_or(&c->ored, bit, at);                                                      \
    nvshmem_##NAME##_atomic_xor(&c->xored, bit, at);                                                    \
    nvshmem_##NAME##_atomic_fetch_and(&c->fetch_anded, others, at);                                     \
    nvshmem_##NAME##_atomic_fetch_or(&c->fetch_ored, bit, at);                                          \
    nvshmem_##NAME##_atomic_fetch_xor(&c->fetch_xored, bit, at);                                        \
    nvshmem_quiet();                                                                                    \
  }                                                                                                     \
  void check_bits_##NAME() {                                                                            \
    const int n = nvshmem_n_pes(), at = n - 1;                                                          \
    constexpr T bits = (static_cast<T>(1) << 30) - 1;                                                   \
    const symmetric<counted<T>> c;                                                                      \
    if (nvshmem_my_pe() == at) {                                                                        \
      nvshmem_##NAME##_p(&c.at->anded, static_cast<T>(-1), at);                                         \
      nvshmem_##NAME##_p(&c.at->fetch_anded, static_cast<T>(-1), at);                                   \
    }                                                                                                   \
    nvshmem_barrier_all();                                                                              \
    launch(bits_##NAME, 1, 30, c.at, at);                                                               \
    nvshmem_barrier_all();                                                                              \
    if (nvshmem_my_pe() != at) return;                                                                  \
    const counted<T> got = c.read()[0];                                                                 \
    const T odd = n % 2 ? bits : 0;                                                                     \
    expect(got.anded == static_cast<T>(~bits) && got.fetch_anded == got.anded, "atomic_and of " #NAME); \
    expect(got.ored == bits && got.fetch_ored == bits, "atomic_or of " #NAME);                          \
    expect(got.xored == odd && got.fetch_xored == odd, "atomic_xor of " #NAME);                         \
  }
ATOMIC_BIT_TYPES(BITWISE_CALLS)
#undef BITWISE_CALLS

// Of half there is no swap.
template <class T>
struct float_cells {
  T added, fetched, set, swapped, old;
};
#define FLOAT_CALLS(NAME, T, SWAP)                                                                 \
  __global__ void float_##NAME(float_cells<T>* c, int at) {                                        \
    nvshmemx_##NAME##_atomic_add(&c->added, number<T>(1), at);                                     \
    nvshmemx_##NAME##_atomic_fetch_add(&c->fetched, number<T>(2), at);                             \
    nvshmem_##NAME##_atomic_set(&c->set, number<T>(3), at);                                        \
    SWAP(&c->swapped, number<T>(5), at);                                                           \
    nvshmem_quiet();                                                                               \
    if (nvshmem_my_pe() == at) c->old = nvshmem_##NAME##_atomic_fetch(&c->set, at);                \
  }                                                                                                \
  void check_float_##NAME() {                                                                      \
    const int n = nvshmem_n_pes(), at = n - 1;                                                     \
    const symmetric<float_cells<T>> c;                                                             \
    launch(float_##NAME, 1, threads, c.at, at);                                                    \
    nvshmem_barrier_all();                                                                         \
    if (nvshmem_my_pe() != at) return;                                                             \
    const float_cells<T> got = c.read()[0];                                                        \
    expect(same(got.added, number<T>(n * threads)), "atomic_add of " #NAME);                       \
    expect(same(got.fetched, number<T>(n * threads * 2)), "atomic_fetch_add of " #NAME);           \
    expect(same(got.set, number<T>(3)) && same(got.old, number<T>(3)), "set and fetch of " #NAME); \
    expect(same(got.swapped, number<T>(5)), "atomic_swap of " #NAME);                              \
  }
FLOAT_CALLS(float, float, nvshmem_float_atomic_swap)
FLOAT_CALLS(double, double, nvshmem_double_atomic_swap)
FLOAT_CALLS(half, gravel::detail::nvshmem::half_type, nvshmem_half_p)
#undef FLOAT_CALLS

void check_all_moves(bool all_types) {
#define CHECK(NAME, ...) check_moving<calls_##NAME>();
  CHECK(half)
  CHECK(long)
  CHECK(128)
  if (!all_types) return;
  MOVED_TYPES(CHECK)
  MOVED_SIZES(CHECK)
  CHECK(mem)
#undef CHECK
}
void check_all_atomics(bool all_types) {
#define CHECK(NAME, T) check_atomics_##NAME();
  CHECK(int, int)
  if (!all_types) return;
  ATOMIC_TYPES(CHECK)
#undef CHECK
#define CHECK(NAME, T) check_bits_##NAME();
  ATOMIC_BIT_TYPES(CHECK)
#undef CHECK
#define CHECK(NAME, T) check_float_##NAME();
  GRAVEL_NVSHMEM_FLOATS(CHECK)
  CHECK(half, )
#undef CHECK
}

// ---- set-up, memory, and calls of host threads

void check_registered() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  const own_memory memory({1});
  for (const bool preferred : {false, true}) {
    void* const at =
        preferred ? nvshmemx_buffer_register_symmetric_at_preferred_address(memory.at(), memory.bytes(), memory.at(), 0)
                  : nvshmemx_buffer_register_symmetric(memory.at(), memory.bytes(), 0);
    auto* const word = static_cast<uint64_t*>(at) + preferred;
    nvshmem_uint64_p(word, static_cast<uint64_t>(me) + 5, (me + 1) % n);
    nvshmem_barrier_all();
    expect(nvshmem_uint64_g(word, me) == static_cast<uint64_t>((me + n - 1) % n) + 5, "registered memory");
    nvshmem_barrier_all();
    expect(nvshmemx_buffer_unregister_symmetric(at, memory.bytes()) == 0, "nvshmemx_buffer_unregister_symmetric");
  }
}

struct host_cells {
  int single;
  double several[4];
  uint64_t count, signal;
  __int128 aligned;
};
void check_host() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
  int major = 0, minor = 0, patch = 0, provided = -1;
  nvshmem_info_get_version(&major, &minor);
  expect(major == NVSHMEM_MAJOR_VERSION && minor == NVSHMEM_MINOR_VERSION, "nvshmem_info_get_version");
  nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  expect(major * 10000 + minor * 100 + patch == NVSHMEM_VENDOR_VERSION, "nvshmemx_vendor_get_version_info");
  char name[NVSHMEM_MAX_NAME_LEN];
  nvshmem_info_get_name(name);
  expect(std::strstr(name, "Gravel") != nullptr, "nvshmem_info_get_name");
  nvshmem_query_thread(&provided);
  expect(provided == NVSHMEM_THREAD_SERIALIZED, "nvshmem_query_thread");
  expect(nvshmemx_init_status() == NVSHMEM_STATUS_FULL_MPG, "nvshmemx_init_status");
  expect(std::string(nvshmemx_status_string(NVSHMEMX_ERROR_SYMMETRY)) == "NVSHMEMX_ERROR_SYMMETRY" &&
             std::string(nvshmemx_status_string(-1)) == "NVSHMEMX_ERROR_<unknown>",
         "nvshmemx_status_string");
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  expect(nvshmemx_set_attr_mpi_comm_args(&major, &attributes) == 0 && attributes.mpi_comm == &major,
         "nvshmemx_set_attr_mpi_comm_args");
  nvshmemx_qp_handle_t* queue_pairs = nullptr;
  expect(nvshmemx_qp_create(2, &queue_pairs) == 0 && queue_pairs != nullptr, "nvshmemx_qp_create");
  std::free(queue_pairs);
  expect(nvshmemx_qp_create(-1, &queue_pairs) != 0, "nvshmemx_qp_create of less than none");
  nvshmemx_region_handle_t region = 1;
  expect(nvshmemx_region_start(&region, nullptr) == 0 && nvshmemx_region_stop(region) == 0, "regions");
  expect(nvshmemx_buffer_register(&major, sizeof(major)) == 0 && nvshmemx_buffer_unregister(&major) == 0,
         "nvshmemx_buffer_register");
  nvshmemx_buffer_unregister_all();
  check_registered();

  void* const aligned = nvshmem_align(128, 1000);
  expect(aligned && reinterpret_cast<uintptr_t>(aligned) % 128 == 0, "nvshmem_align");
  expect(nvshmem_align(1 << 20, 1000) == nullptr, "nvshmem_align of more than Gravel has");
  nvshmem_free(aligned);
  expect(nvshmem_malloc(~size_t{0} / 4) == nullptr, "nvshmem_malloc of more than there is");
  nvshmem_free(nullptr);

  const symmetric<host_cells> c;
  expect(nvshmem_ptr(c.at, me) == c.at, "nvshmem_ptr of the PE itself");
  expect(nvshmem_ptr(c.at, n) == nullptr, "nvshmem_ptr of no PE");
  const double here[4] = {me + 0.5, me + 1.5, me + 2.5, me + 3.5};
  nvshmem_int_p(&c.at->single, me, right);
  nvshmem_double_put(c.at->several, here, 4, right);
  nvshmem_uint64_atomic_add(&c.at->count, 3, 0);
  nvshmemx_signal_op(&c.at->signal, 4, NVSHMEM_SIGNAL_SET, right);
  nvshmem_quiet();
  nvshmem_fence();
  nvshmem_barrier_all();
  expect(nvshmem_int_g(&c.at->single, right) == me, "nvshmem_int_g by the host");
  expect(nvshmem_double_g(&c.at->several[2], me) == left + 2.5, "nvshmem_double_put by the host");
  expect(nvshmem_uint64_atomic_fetch(&c.at->count, 0) == 3 * static_cast<uint64_t>(n), "atomic_add by the host");
  expect(nvshmem_signal_fetch(&c.at->signal) == 4, "nvshmemx_signal_op by the host");
  nvshmem_barrier_all();
}

// ---- waits and tests: the PE to the left puts 1 to 4 into four words

template <class T>
struct words_of_left {
  T word[4];
  int wrong;
  T later[3], wanted[3], seen[3];
};
#define WAIT_CALLS(NAME, T)                                                                                            \
  __global__ void waits_##NAME(words_of_left<T>* w) {                                                                  \
    const int right = (nvshmem_my_pe() + 1) % nvshmem_n_pes(), left_out[4] = {0, 1, 0, 0};                             \
    T wanted[4] = {1, 2, 3, 4};                                                                                        \
    size_t found[4];                                                                                                   \
    for (int i = 3; i >= 0; --i) nvshmem_##NAME##_p(&w->word[i], wanted[i], right);                                    \
    nvshmem_##NAME##_wait_until(&w->word[0], NVSHMEM_CMP_EQ, 1);                                                       \
    nvshmem_##NAME##_wait_until_all(w->word, 4, nullptr, NVSHMEM_CMP_NE, 0);                                           \
    nvshmem_##NAME##_wait_until_all_vector(w->word, 4, nullptr, NVSHMEM_CMP_GE, wanted);                               \
    int wrong = 0;                                                                                                     \
    wrong += nvshmem_##NAME##_wait_until_any(w->word, 4, left_out, NVSHMEM_CMP_GT, 1) != 2;                            \
    wrong += nvshmem_##NAME##_wait_until_any(w->word, 0, nullptr, NVSHMEM_CMP_GT, 1) != SIZE_MAX;                      \
    wrong += nvshmem_##NAME##_wait_until_some(w->word, 4, found, left_out, NVSHMEM_CMP_LE, 3) != 2 || found[1] != 2;   \
    wanted[0] = 0;                                                                                                     \
    wrong += nvshmem_##NAME##_wait_until_any_vector(w->word, 4, left_out, NVSHMEM_CMP_EQ, wanted) != 2;                \
    wrong += nvshmem_##NAME##_wait_until_some_vector(w->word, 4, found, left_out, NVSHMEM_CMP_EQ, wanted) != 2;        \
    wrong += nvshmem_##NAME##_test(&w->word[3], NVSHMEM_CMP_LT, 5) == 0;                                               \
    wrong += nvshmem_##NAME##_test(&w->word[3], NVSHMEM_CMP_LT, 4) != 0;                                               \
    wrong += nvshmem_##NAME##_test_all(w->word, 4, nullptr, NVSHMEM_CMP_GT, 1) != 0;                                   \
    wrong += nvshmem_##NAME##_test_all_vector(w->word, 4, nullptr, NVSHMEM_CMP_GE, wanted) == 0;                       \
    wrong += nvshmem_##NAME##_test_any(w->word, 4, nullptr, NVSHMEM_CMP_GT, 4) != SIZE_MAX;                            \
    wrong += nvshmem_##NAME##_test_any_vector(w->word, 4, nullptr, NVSHMEM_CMP_EQ, wanted) != 1;                       \
    wrong += nvshmem_##NAME##_test_some(w->word, 4, found, nullptr, NVSHMEM_CMP_GE, 3) != 2 || found[0] != 2;          \
    wrong += nvshmem_##NAME##_test_some_vector(w->word, 4, found, nullptr, NVSHMEM_CMP_NE, wanted) != 1;               \
    w->wrong = wrong;                                                                                                  \
  }                                                                                                                    \
  void check_waits_##NAME() {                                                                                          \
    const symmetric<words_of_left<T>> w;                                                                               \
    launch(waits_##NAME, 1, 1, w.at);                                                                                  \
    expect(w.read()[0].wrong == 0, "waits and tests of " #NAME);                                                       \
    const int me = nvshmem_my_pe();                                                                                    \
    for (int i = 0; i < 3; ++i) nvshmem_##NAME##_p(&w.at->wanted[i], static_cast<T>(i + 1), me);                       \
    nvshmem_quiet();                                                                                                   \
    nvshmemx_##NAME##_wait_until_on_stream(&w.at->later[0], NVSHMEM_CMP_EQ, 1, nullptr);                               \
    nvshmemx_##NAME##_get_on_stream(&w.at->seen[0], &w.at->later[0], 1, me, nullptr);                                  \
    nvshmemx_##NAME##_wait_until_all_on_stream(w.at->later, 2, nullptr, NVSHMEM_CMP_NE, 0, nullptr);                   \
    nvshmemx_##NAME##_get_on_stream(&w.at->seen[1], &w.at->later[1], 1, me, nullptr);                                  \
    nvshmemx_##NAME##_wait_until_all_vector_on_stream(w.at->later, 3, nullptr, NVSHMEM_CMP_GE, w.at->wanted, nullptr); \
    nvshmemx_##NAME##_get_on_stream(&w.at->seen[2], &w.at->later[2], 1, me, nullptr);                                  \
    for (int i = 0; i < 3; ++i) nvshmem_##NAME##_p(&w.at->later[i], static_cast<T>(i + 1), me);                        \
    nvshmem_quiet();                                                                                                   \
    nvshmemx_quiet_on_stream(nullptr);                                                                                 \
    synchronize_default_stream();                                                                                      \
    const words_of_left<T> got = w.read()[0];                                                                          \
    for (int i = 0; i < 3; ++i) expect(got.seen[i] == static_cast<T>(i + 1), "waits on a stream of " #NAME);           \
    nvshmem_barrier_all();                                                                                             \
  }
WAIT_TYPES(WAIT_CALLS)
#undef WAIT_CALLS

// ---- order, regions, and shared memory for the library: the PE to the left puts 1 to 8, each before the next

struct order_cells {
  uint64_t last, wrong;
};
__global__ void in_order(order_cells* c) {
  const int right = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  nvshmemx_qp_handle_t any[1] = {NVSHMEMX_QP_ANY};
  nvshmemx_region_handle_t region = 1;
  const nvshmemx_region_attrs_t attributes = NVSHMEMX_REGION_ATTRS_INITIALIZER;
  int is_active = 1;
  uint64_t wrong = 0;
  const auto put = [&](uint64_t value) {
    if (threadIdx.x == 0) nvshmemx_qp_signal_op(&c->last, value, NVSHMEM_SIGNAL_SET, right, any[0]);
    __syncthreads();
  };
  const auto check = [&](uint64_t value) {
    if (threadIdx.x == 0) wrong += nvshmem_uint64_g(&c->last, right) != value;
    __syncthreads();
  };
  nvshmemx_give_smem(nullptr, 0);
  wrong += nvshmemx_ask_smem(NVSHMEMX_SMEM_MINIMUM) != 0;
  nvshmemx_sync_all_block();
  wrong += nvshmemx_region_start_block(&region, &attributes) != 0;
  put(1);
  if (threadIdx.x == 0) nvshmemx_qp_quiet(right, any, 1);
  check(1);
  put(2);
  if (threadIdx.x < 32) {
    wrong += nvshmemx_region_start_warp(&region, &attributes) != 0;
    nvshmemx_qp_quiet_warp(right, any, 1);
    wrong += nvshmemx_region_stop_warp(region) != 0;
  }
  check(2);
  put(3);
  nvshmemx_qp_quiet_block(right, any, 1);
  check(3);
  put(4);
  if (threadIdx.x == 0) nvshmemx_qp_fence(right, any, 1);
  put(5);
  if (threadIdx.x < 32) nvshmemx_qp_fence_warp(right, any, 1);
  put(6);
  nvshmemx_qp_fence_block(right, any, 1);
  put(7);
  nvshmemx_flush();
  if (threadIdx.x < 32) nvshmemx_flush_warp();
  nvshmemx_flush_block();
  wrong += nvshmemx_region_stop_block(region) != 0;
  wrong += nvshmemx_region_is_active(NVSHMEMX_REGION_HINT_BATCH_RMA, &is_active) != 0 || is_active != 0;
  wrong += nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, &c->last) != nullptr;
  if (threadIdx.x < 32) {
    nvshmemx_barrier_all_warp();
    nvshmemx_sync_all_warp();
  }
  __syncthreads();
  if (threadIdx.x == 0) wrong += nvshmem_uint64_g(&c->last, nvshmem_my_pe()) != 7;
  nvshmemx_release_smem();
  gravel::detail::fetch_add<gravel::detail::scope::device>(&c->wrong, wrong);
}
void check_order() {
  const symmetric<order_cells> c;
  launch(in_order, 1, threads, c.at);
  expect(c.read()[0].wrong == 0, "order, regions and shared memory");
  nvshmem_barrier_all();
}

struct signal_cells {
  uint64_t signal, counted, seen, loaded;
  int data[8];
};
__global__ void signals(signal_cells* c) {
  const int right = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  if (threadIdx.x == 0) {
    nvshmemx_signal_op(&c->signal, 3, NVSHMEM_SIGNAL_SET, right);
    nvshmem_fence();
    nvshmemx_signal_op(&c->signal, 4, NVSHMEM_SIGNAL_ADD, right);
    c->seen = nvshmem_signal_wait_until(&c->signal, NVSHMEM_CMP_GE, 7);
  }
  __syncthreads();
  if (threadIdx.x < 32) nvshmemx_putmem_signal_counted_nbi_warp(&c->data[0], &c->seen, 8, &c->counted, right);
  __syncthreads();
  nvshmemx_putmem_signal_counted_nbi_block(&c->data[4], &c->seen, 8, &c->counted, right);
  nvshmemx_signal_counted_wait_until(&c->counted, 2);
  __syncthreads();
  if (threadIdx.x == 0) {
    c->loaded = nvshmemx_signal_counted_load(&c->counted) + nvshmem_signal_fetch(&c->signal);
    nvshmemx_signal_counted_reset(&c->counted);
    nvshmem_quiet();
  }
}
void check_signals() {
  const symmetric<signal_cells> c;
  launch(signals, 1, threads, c.at);
  const signal_cells got = c.read()[0];
  expect(got.seen == 7 && got.loaded == 9 && got.counted == 0, "signals");
  expect(got.data[0] == 7 && got.data[4] == 7, "data of counted signals");
  nvshmem_barrier_all();
}

// ---- teams and collectives

constexpr int most_pes = 8;
template <class T>
struct collected {
  T from[most_pes * pieces];  // of this PE
  // By scope; the last ones are those of a stream.
  T broadcast[scopes + 1][pieces], fcollect[scopes + 1][most_pes * pieces], alltoall[scopes + 1][most_pes * pieces];
};
FOR_ONE_SIDE
template <class C, class Scope>
GRAVEL_BOTH void collect(Scope scope, int which, nvshmem_team_t team, collected<typename C::type>* c) {
  const int root = nvshmem_team_n_pes(team) - 1;
  const size_t count = pieces * C::unit;
  C::broadcast(scope, team, c->broadcast[which], c->from, count, root);
  C::fcollect(scope, team, c->fcollect[which], c->from, count);
  C::alltoall(scope, team, c->alltoall[which], c->from, count);
}
template <class C>
__global__ void collecting(nvshmem_team_t team, collected<typename C::type>* c) {
  using T = typename C::type;
  if (threadIdx.x < most_pes * pieces)
    c->from[threadIdx.x] = element_of<T>(nvshmem_my_pe(), static_cast<int>(threadIdx.x));
  __syncthreads();
  if (nvshmem_team_my_pe(team) < 0) return;
  if (threadIdx.x == 0) {
    nvshmem_team_sync(team);
    collect<C>(lane_scope{}, 0, team, c);
    nvshmem_barrier(team);
  }
  if (threadIdx.x < 32) {
    nvshmemx_team_sync_warp(team);
    collect<C>(warp_scope{}, 1, team, c);
    nvshmemx_barrier_warp(team);
  }
  __syncthreads();
  nvshmemx_team_sync_block(team);
  collect<C>(block_scope{}, 2, team, c);
  nvshmemx_barrier_block(team);
}
/// Members of a team as PEs of the job.
std::vector<int> members_of(nvshmem_team_t team) {
  std::vector<int> all;
  for (int i = 0; i < nvshmem_team_n_pes(team); ++i)
    all.push_back(nvshmem_team_translate_pe(team, i, NVSHMEM_TEAM_WORLD));
  return all;
}
template <class C>
void check_collecting(nvshmem_team_t team) {
  using T = typename C::type;
  const symmetric<collected<T>> c;
  launch(collecting<C>, 1, threads, team, c.at);
  const int me = nvshmem_team_my_pe(team);
  if (me >= 0) {
    collect<C>(stream_scope{}, scopes, team, c.at);
    nvshmemx_barrier_on_stream(team, nullptr);
    nvshmemx_team_sync_on_stream(team, nullptr);
    synchronize_default_stream();
  }
  const collected<T> got = c.read()[0];
  const std::vector<int> pes = members_of(team);
  for (int s = 0; s <= scopes && me >= 0; ++s)
    for (int i = 0; i < pieces; ++i) {
      expect(same(got.broadcast[s][i], element_of<T>(pes.back(), i)), std::string("broadcast of ") + C::name);
      for (size_t m = 0; m < pes.size(); ++m) {
        const auto at = static_cast<int>(m) * pieces + i;
        expect(same(got.fcollect[s][at], element_of<T>(pes[m], i)), std::string("fcollect of ") + C::name);
        expect(same(got.alltoall[s][at], element_of<T>(pes[m], me * pieces + i)),
               std::string("alltoall of ") + C::name);
      }
    }
  nvshmem_barrier_all();
}

// Reductions of small whole numbers.
GRAVEL_BOTH int contribution(int pe, int i) { return (pe * 3 + i) % 4 + 1; }
struct operations {
  static constexpr const char* names[] = {"sum", "prod", "min", "max", "and", "or", "xor"};
  static int apply(int which, int a, int b) {
    switch (which) {
      case 0: return a + b;
      case 1: return a * b;
      case 2: return std::min(a, b);
      case 3: return std::max(a, b);
      case 4: return a & b;
      case 5: return a | b;
      default: return a ^ b;
    }
  }
};
template <class T>
struct reduced {
  T from[most_pes * pieces];
  // By scope; the last ones are those of a stream.
  T all[scopes + 1][7][pieces], part[scopes + 1][7][pieces];
};
#define REDUCE_BY(PREFIX, NAME, OP, SUFFIX, SCOPE, WHICH, ...)                                                     \
  PREFIX##_##NAME##_##OP##_reduce##SUFFIX(team, r->all[SCOPE][WHICH], r->from, pieces __VA_OPT__(, ) __VA_ARGS__); \
  PREFIX##_##NAME##_##OP##_reducescatter##SUFFIX(team, r->part[SCOPE][WHICH], r->from,                             \
                                                 pieces __VA_OPT__(, ) __VA_ARGS__);
#define BY_LANE(NAME, OP, WHICH) REDUCE_BY(nvshmem, NAME, OP, , 0, WHICH)
#define BY_WARP(NAME, OP, WHICH) REDUCE_BY(nvshmemx, NAME, OP, _warp, 1, WHICH)
#define BY_BLOCK(NAME, OP, WHICH) REDUCE_BY(nvshmemx, NAME, OP, _block, 2, WHICH)
#define ON_STREAM(NAME, OP, WHICH) REDUCE_BY(nvshmemx, NAME, OP, _on_stream, 3, WHICH, nullptr)
#define REDUCTION_KERNEL(NAME, T, BITS, COUNT)                                                        \
  __global__ void reducing_##NAME(nvshmem_team_t team, reduced<T>* r) {                               \
    if (threadIdx.x < most_pes * pieces)                                                              \
      r->from[threadIdx.x] = number<T>(contribution(nvshmem_my_pe(), static_cast<int>(threadIdx.x))); \
    __syncthreads();                                                                                  \
    if (nvshmem_team_my_pe(team) < 0) return;                                                         \
    if (threadIdx.x == 0) {                                                                           \
      ARITHMETIC(NAME, BY_LANE)                                                                       \
      BITS(NAME, BY_LANE)                                                                             \
    }                                                                                                 \
    if (threadIdx.x < 32) {                                                                           \
      ARITHMETIC(NAME, BY_WARP)                                                                       \
      BITS(NAME, BY_WARP)                                                                             \
    }                                                                                                 \
    __syncthreads();                                                                                  \
    ARITHMETIC(NAME, BY_BLOCK)                                                                        \
    BITS(NAME, BY_BLOCK)                                                                              \
  }                                                                                                   \
  void reduce_on_stream_##NAME(nvshmem_team_t team, reduced<T>* r) {                                  \
    ARITHMETIC(NAME, ON_STREAM)                                                                       \
    BITS(NAME, ON_STREAM)                                                                             \
  }                                                                                                   \
  void check_reducing_##NAME(nvshmem_team_t team) {                                                   \
    const symmetric<reduced<T>> r;                                                                    \
    launch(reducing_##NAME, 1, threads, team, r.at);                                                  \
    if (nvshmem_team_my_pe(team) >= 0) reduce_on_stream_##NAME(team, r.at);                           \
    synchronize_default_stream();                                                                     \
    check_reduced(#NAME, team, r.read()[0], COUNT);                                                   \
    nvshmem_barrier_all();                                                                            \
  }
bool is_tested(int which);
template <class T>
void check_reduced(const char* name, nvshmem_team_t team, const reduced<T>& got, int operations_of_type) {
  const int me = nvshmem_team_my_pe(team);
  const std::vector<int> pes = members_of(team);
  for (int which = 0; which < operations_of_type && me >= 0; ++which)
    for (int i = 0; i < pieces && is_tested(which); ++i) {
      int all = contribution(pes[0], i), part = contribution(pes[0], me * pieces + i);
      for (size_t m = 1; m < pes.size(); ++m) {
        all = operations::apply(which, all, contribution(pes[m], i));
        part = operations::apply(which, part, contribution(pes[m], me * pieces + i));
      }
      const std::string what = std::string(operations::names[which]) + " of " + name;
      for (int scope = 0; scope <= scopes; ++scope) {
        expect(same(got.all[scope][which][i], number<T>(all)), "reduce: " + what);
        expect(same(got.part[scope][which][i], number<T>(part)), "reducescatter: " + what);
      }
    }
}
#define NO_BITS(NAME, DO)
#if GRAVEL_CUDA
#define BITS(NAME, DO) DO(NAME, xor, 6)
#define ARITHMETIC(NAME, DO) DO(NAME, sum, 0)
bool is_tested(int which) { return which % 6 == 0; }
#else
#define BITS(NAME, DO) DO(NAME, and, 4) DO(NAME, or, 5) DO(NAME, xor, 6)
#define ARITHMETIC(NAME, DO) DO(NAME, sum, 0) DO(NAME, prod, 1) DO(NAME, min, 2) DO(NAME, max, 3)
bool is_tested(int) { return true; }
#endif
#define KERNEL(NAME, T) REDUCTION_KERNEL(NAME, T, BITS, 7)
BITWISE_TYPES(KERNEL)
#undef KERNEL
#define KERNEL(NAME, T) REDUCTION_KERNEL(NAME, T, NO_BITS, 4)
OTHER_TYPES(KERNEL)
#undef KERNEL

// Values with their indices. Of equal values that of the last PE has the lowest index.
struct located {
  double2 from[pieces], best[pieces];
};
GRAVEL_BOTH double value_at(int pe, int i) { return (pe + i) % 3 == 0 ? 1.5 : -2; }
__global__ void locating(nvshmem_team_t team, located* l) {
  if (threadIdx.x < pieces) {
    const int me = nvshmem_my_pe(), i = static_cast<int>(threadIdx.x);
    l->from[i].x = value_at(me, i);
    l->from[i].y = most_pes - me;
  }
  __syncthreads();
  if (nvshmem_team_my_pe(team) < 0) return;
  nvshmemx_double2_maxloc_reduce_block(team, l->best, l->from, pieces);
}
void check_locating(nvshmem_team_t team) {
  const symmetric<located> l;
  launch(locating, 1, threads, team, l.at);
  const located got = l.read()[0];
  for (int i = 0; i < pieces && nvshmem_team_my_pe(team) >= 0; ++i) {
    int wanted = -1;
    for (const int pe : members_of(team))
      if (wanted < 0 || value_at(pe, i) >= value_at(wanted, i)) wanted = pe;
    expect(got.best[i].x == value_at(wanted, i) && got.best[i].y == most_pes - wanted,
           "nvshmemx_double2_maxloc_reduce_block");
  }
  nvshmem_barrier_all();
}

/// A team of all PEs but the first, in reverse order, by an id of the last one.
struct shared_id {
  nvshmemx_team_uniqueid_t mine, of_last;
};
nvshmem_team_t team_by_id() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), size = n == 1 ? 1 : n - 1, number = n - 1 - me;
  nvshmemx_team_uniqueid_t id = 0;
  expect(nvshmemx_team_get_uniqueid(&id) == 0, "nvshmemx_team_get_uniqueid");
  const symmetric<shared_id> ids;
  gravel_copy(&ids.at->mine, &id, sizeof(id));
  nvshmem_broadcastmem(NVSHMEM_TEAM_WORLD, &ids.at->of_last, &ids.at->mine, sizeof(id), n - 1);
  nvshmem_team_config_t how = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  how.uniqueid = ids.read()[0].of_last;
  nvshmem_team_t team = 0;
  expect(nvshmemx_team_init(&team, &how, 0, size, 0) != 0 && team == NVSHMEM_TEAM_INVALID, "a team without an id");
  if (number < size) {
    expect(nvshmemx_team_init(&team, &how, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, size, number) == 0, "nvshmemx_team_init");
    expect(nvshmem_team_my_pe(team) == number && nvshmem_team_n_pes(team) == size, "numbers in a team by an id");
  }
  nvshmem_barrier_all();
  return team;
}

void check_teams(bool all_types) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  expect(nvshmem_team_my_pe(NVSHMEM_TEAM_WORLD) == me && nvshmem_team_n_pes(NVSHMEM_TEAM_WORLD) == n, "the world");
  expect(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID) == -1 && nvshmem_team_n_pes(NVSHMEM_TEAM_INVALID) == -1, "no team");
  expect(nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE) == n / gravel_n_nodes(), "the node");
  expect(nvshmem_team_n_pes(NVSHMEMX_TEAM_SAME_MYPE_NODE) == gravel_n_nodes(), "the same numbers of nodes");
  nvshmem_team_t even = 0, row = 0, column = 0, wrong = 0;
  const nvshmem_team_t by_id = team_by_id();
  expect(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, nullptr, 0, &even) == 0, "a split");
  expect((even != NVSHMEM_TEAM_INVALID) == (me % 2 == 0), "members of a split");
  expect(nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, nullptr, 0, &row, nullptr, 0, &column) == 0, "a split in 2 axes");
  expect(nvshmem_team_my_pe(row) == me % 2 && nvshmem_team_my_pe(column) == me / 2, "numbers in rows and columns");
  expect(nvshmem_team_translate_pe(row, 0, NVSHMEM_TEAM_WORLD) == me / 2 * 2, "translation");
  expect(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n + 1, nullptr, 0, &wrong) != 0,
         "a split that is refused");
  expect(wrong == NVSHMEM_TEAM_INVALID, "the team of a split that is refused");
  nvshmem_team_config_t config;
  nvshmem_team_get_config(row, &config);
  expect(config.num_contexts == 0, "nvshmem_team_get_config");
  for (const nvshmem_team_t team : {nvshmem_team_t{NVSHMEMX_TEAM_NODE}, nvshmem_team_t{NVSHMEM_TEAM_SHARED},
                                    nvshmem_team_t{NVSHMEMX_TEAM_SAME_MYPE_NODE}, even, row, column, by_id})
    check_collecting<calls_int>(team);
  check_collecting<calls_long>(NVSHMEM_TEAM_WORLD);
  check_collecting<calls_mem>(NVSHMEM_TEAM_WORLD);
  if (all_types) {
#define CHECK(NAME, T) check_collecting<calls_##NAME>(NVSHMEM_TEAM_WORLD);
    MOVED_TYPES(CHECK)
#undef CHECK
#define CHECK(NAME, T) check_reducing_##NAME(NVSHMEM_TEAM_WORLD);
    BITWISE_TYPES(CHECK)
    OTHER_TYPES(CHECK)
#undef CHECK
  }
  for (const nvshmem_team_t team : {nvshmem_team_t{NVSHMEM_TEAM_WORLD}, even}) check_locating(team);
  check_reducing_uint32(row);
  check_reducing_half(column);
  nvshmem_team_destroy(by_id);
  nvshmem_team_destroy(even);
  nvshmem_team_destroy(row);
  nvshmem_team_destroy(column);
}

// ---- signals on streams, and collectives by the host

struct stream_cells {
  uint64_t signal;
  int from[most_pes * pieces], sum[pieces], part[pieces], all[most_pes * pieces];
};
void check_streams() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), right = (me + 1) % n;
  const symmetric<stream_cells> s;
  stream_cells mine{};
  for (int i = 0; i < n * pieces; ++i) mine.from[i] = contribution(me, i);
  gravel_copy(s.at, &mine, sizeof(mine));
  nvshmem_barrier_all();
  nvshmemx_signal_op_on_stream(&s.at->signal, 2, NVSHMEM_SIGNAL_ADD, right, nullptr);
  nvshmemx_flush_on_stream(nullptr);
  nvshmemx_signal_wait_until_on_stream(&s.at->signal, NVSHMEM_CMP_EQ, 2, nullptr);
  nvshmemx_sync_all_on_stream(nullptr);
  synchronize_default_stream();
  nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, s.at->sum, s.at->from, pieces);
  nvshmem_int_sum_reducescatter(NVSHMEM_TEAM_WORLD, s.at->part, s.at->from, pieces);
  nvshmem_int_fcollect(NVSHMEM_TEAM_WORLD, s.at->all, s.at->from, pieces);
  nvshmem_sync_all();
  nvshmem_team_sync(NVSHMEM_TEAM_WORLD);
  nvshmem_barrier(NVSHMEM_TEAM_WORLD);
  const stream_cells got = s.read()[0];
  expect(got.signal == 2, "signals on a stream");
  for (int i = 0; i < pieces; ++i) {
    int sum = 0, part = 0;
    for (int pe = 0; pe < n; ++pe) {
      sum += contribution(pe, i);
      part += contribution(pe, me * pieces + i);
      expect(got.all[pe * pieces + i] == contribution(pe, i), "fcollect by the host");
    }
    expect(got.sum[i] == sum && got.part[i] == part, "sums by the host");
  }
  nvshmem_barrier_all();
}

// ---- kernels that are started with <<< >>>, in the default stream; g++ does not know the notation

struct shift_cells {
  int from_left[threads];
  ull count, seen;
};
__global__ void shift(shift_cells* cells) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), lane = static_cast<int>(threadIdx.x);
  nvshmem_int_p(&cells->from_left[lane], me * threads + lane, (me + 1) % n);
  nvshmem_ulonglong_atomic_inc(&cells->count, 0);
  nvshmemx_barrier_all_block();
  if (lane == 0) cells->seen = nvshmem_ulonglong_g(&cells->count, 0);
}
void check_plain_kernels() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  int blocks = 0;
#if GRAVEL_CUDA
  nvshmemx_collective_launch_query_gridsize(reinterpret_cast<const void*>(&shift), threads, nullptr, 0, &blocks);
#else
  nvshmemx_collective_launch_query_gridsize(&shift, threads, nullptr, 0, &blocks);
#endif
  expect(blocks > 1, "nvshmemx_collective_launch_query_gridsize");
  const symmetric<shift_cells> cells;
  for (int round = 1; round <= 2; ++round) {
#if GRAVEL_CUDA
    if (round == 1) {
      shift<<<1, threads>>>(cells.at);
    } else {  // a launch with attributes
      shift_cells* at = cells.at;
      void* arguments[] = {&at};
      nvshmemx_collective_launch_attr_t how{};
      how.cuda_config.gridDim = 1;
      how.cuda_config.blockDim = threads;
      expect(nvshmemx_collective_launch_attr(&how, reinterpret_cast<const void*>(&shift), arguments) == 0,
             "nvshmemx_collective_launch_attr");
    }
#else
    gravel_launch(shift, 1, threads, cells.at);
#endif
    nvshmemx_barrier_all_on_stream(nullptr);
#if GRAVEL_CUDA
    expect(cudaStreamSynchronize(nullptr) == cudaSuccess, "a kernel started with <<< >>>");
#else
    gravel_synchronize();
#endif
    const shift_cells got = cells.read()[0];
    const ull all = static_cast<ull>(round) * static_cast<ull>(n) * threads;
    for (int lane = 0; lane < threads; ++lane)
      expect(got.from_left[lane] == (me + n - 1) % n * threads + lane, "puts of a plain kernel");
    expect(got.count == (me == 0 ? all : 0) && got.seen == all, "atomics of a plain kernel");
    nvshmem_barrier_all();
  }
}

}  // namespace

/// A job that ends by nvshmem_global_exit: a child, with the status that it gave.
static int run_to_exit() {
  const pid_t child = fork();
  if (child == 0) {
    nvshmem_init();
    nvshmem_global_exit(7);
    return 1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 7;
}

/// A job of two processes that no launcher has started: this one and its child.
static int run_by_unique_id() {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  int way[2];
  if (pipe(way) != 0) return 1;
  const pid_t child = fork();
  const int rank = child == 0;
  if (rank == 0) {
    const bool is_made = nvshmemx_get_uniqueid(&id) == NVSHMEMX_SUCCESS;
    if (!is_made || ::write(way[1], &id, sizeof(id)) != sizeof(id)) return 1;
  } else if (::read(way[0], &id, sizeof(id)) != sizeof(id)) {
    return 1;
  }
  nvshmemx_set_attr_uniqueid_args(rank, 2, &id, &attributes);
  const bool has_joined = rank == 0 ? nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == NVSHMEMX_SUCCESS
                                    : nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0;
  expect(has_joined, "nvshmemx_init_attr");
  expect(nvshmem_my_pe() == rank && nvshmem_n_pes() == 2, "numbers of PEs by a unique id");
  check_moving<calls_long>();
  if (rank == 0) nvshmem_finalize();
  else nvshmemx_hostlib_finalize();
  int status = 0;
  if (rank == 0) waitpid(child, &status, 0);
  return failures != 0 || status != 0;
}

int main(int argc, char** argv) {
  const bool all_types = argc < 2 || std::string(argv[1]) != "short";
  if (argc == 2 && std::string(argv[1]) == "unique_id") return run_to_exit() | run_by_unique_id();
  int provided = -1;
  if (all_types) nvshmem_init();
  else
    expect(nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided) == 0 && provided == NVSHMEM_THREAD_SERIALIZED,
           "nvshmem_init_thread");
  check_host();
  check_plain_kernels();
  check_all_moves(all_types);
  check_all_atomics(all_types);
  check_order();
  check_signals();
  check_waits_short();
  check_waits_uint64();
  if (all_types) {
#define CHECK(NAME, T) check_waits_##NAME();
    WAIT_TYPES(CHECK)
#undef CHECK
  }
  check_teams(all_types);
  check_streams();
  const int me = nvshmem_my_pe();
  nvshmem_finalize();
  if (failures == 0 && me == 0) std::printf("nvshmem_job: all right\n");
  return failures != 0;
}
