// Kernels for simt_test.cpp, in the vocabulary of device/simt.hpp alone: nvcc compiles them too.
#pragma once
#include <cstdint>

#include "device/simt.hpp"
#include "lib/base/atomic.hpp"
#include "lib/base/relax.hpp"

namespace kernels {

__device__ __forceinline__ uint32_t lane_of_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ uint32_t block_of_grid() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

struct place {
  uint32_t lane[3], block[3], lanes[3], blocks[3];
};

__global__ void indices(place* out) {
  out[block_of_grid() * blockDim.x * blockDim.y * blockDim.z + lane_of_block()] = {
      {threadIdx.x, threadIdx.y, threadIdx.z},
      {blockIdx.x, blockIdx.y, blockIdx.z},
      {blockDim.x, blockDim.y, blockDim.z},
      {gridDim.x, gridDim.y, gridDim.z}};
}

/// Each lane's value goes once round the block, one step per two barriers, through dynamic shared memory.
__global__ void rotate(uint32_t* out, int steps) {
  uint32_t* const shared = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  uint32_t value = threadIdx.x;
  for (int i = 0; i < steps; ++i) {
    shared[threadIdx.x] = value;
    __syncthreads();
    value = shared[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

/// out: three results per lane and round. In round r lane t votes yes if t % (r + 1) == 0.
__global__ void vote_at_barriers(int* out, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    const int vote = threadIdx.x % static_cast<unsigned>(r + 1) == 0 ? 7 : 0;  // any value but 0 is a yes
    int* const mine = out + (static_cast<unsigned>(r) * blockDim.x + threadIdx.x) * 3;
    mine[0] = __syncthreads_count(vote);
    mine[1] = __syncthreads_and(vote);
    mine[2] = __syncthreads_or(vote);
  }
}

/// Warp w leaves after w rounds; the others continue to use the barrier. out[r] counts the lanes that were there in
/// round r. Whole warps leave: on a GPU a lane that has returned may wait for the rest of its warp, which waits for the
/// barrier.
__global__ void leave_early(uint32_t* out) {
  for (uint32_t r = 0;; ++r) {
    if (r == threadIdx.x / 32) return;
    atomicAdd(&out[r], 1);
    __syncthreads();
  }
}

/// The first `gone` lanes return at once.
__global__ void return_at_once(uint32_t gone, int* out) {
  if (threadIdx.x < gone) return;
  out[threadIdx.x] = __syncthreads_count(1);
}

constexpr int collective_results = 24;

/// The lanes of one warp that `mask` names run every collective; out[lane * collective_results + i] gets the
/// results.
__global__ void collectives(uint32_t mask, uint64_t* out) {
  const uint32_t lane = threadIdx.x % 32;
  if (!(mask >> lane & 1)) return;
  uint64_t* o = out + threadIdx.x * collective_results;
  const uint32_t value = 1000 + lane * 37 % 11;
  const int negative = static_cast<int>(lane % 5) - 2;
  *o++ = __ballot_sync(mask, lane % 3 == 0);
  *o++ = static_cast<uint64_t>(__any_sync(mask, lane == 4) != 0);
  *o++ = static_cast<uint64_t>(__all_sync(mask, lane != 4) != 0);
  const int first = __ffs(static_cast<int>(mask)) - 1;
  *o++ = __shfl_sync(mask, value, first);
  *o++ = __shfl_sync(mask, (uint64_t{value} << 32) + lane, first);
  *o++ = static_cast<uint64_t>(__shfl_sync(mask, 0.5 + lane, first) * 2);
  *o++ = static_cast<uint64_t>(__shfl_sync(mask, 0.5f + static_cast<float>(lane), first) * 2);
  *o++ = __match_any_sync(mask, value);
  *o++ = __match_any_sync(mask, uint64_t{value} << 40);
  int same;
  *o++ = __match_all_sync(mask, value, &same);
  *o++ = static_cast<uint64_t>(same != 0);
  *o++ = __match_all_sync(mask, mask, &same);
  *o++ = static_cast<uint64_t>(same != 0);
  *o++ = __reduce_add_sync(mask, value);
  *o++ = static_cast<uint64_t>(int64_t{__reduce_add_sync(mask, negative)});
  *o++ = __reduce_min_sync(mask, value);
  *o++ = static_cast<uint64_t>(int64_t{__reduce_min_sync(mask, negative)});
  *o++ = __reduce_max_sync(mask, value);
  *o++ = static_cast<uint64_t>(int64_t{__reduce_max_sync(mask, negative)});
  *o++ = __reduce_and_sync(mask, value);
  *o++ = __reduce_or_sync(mask, value);
  *o++ = __reduce_xor_sync(mask, value);
  __syncwarp(mask);
}

constexpr int shuffle_results = 5;

/// Shuffles of the whole warp: the lane whose value arrives, for each kind. `by` may be any number.
__global__ void shuffles(int width, int by, uint32_t* out) {
  const uint32_t lane = threadIdx.x;
  uint32_t* const o = out + lane * shuffle_results;
  o[0] = __shfl_sync(~0u, lane, by, width);
  o[1] = __shfl_up_sync(~0u, lane, static_cast<unsigned>(by), width);
  o[2] = __shfl_down_sync(~0u, lane, static_cast<unsigned>(by), width);
  o[3] = __shfl_xor_sync(~0u, lane, by, width);
  o[4] = __shfl_sync(~0u, lane, static_cast<int>(lane) + by, width);
}

struct bits_of {
  int popc, popcll, ffs, ffsll, clz, clzll;
  uint32_t brev;
};
__global__ void count_bits(const uint64_t* in, bits_of* out) {
  const uint64_t x = __ldg(in + threadIdx.x);
  const auto low = static_cast<uint32_t>(x);
  out[threadIdx.x] = {__popc(low),
                      __popcll(x),
                      __ffs(static_cast<int>(low)),
                      __ffsll(static_cast<long long>(x)),
                      __clz(static_cast<int>(low)),
                      __clzll(static_cast<long long>(x)),
                      __brev(low)};
}

struct atomic_words {
  int i_add, i_sub, i_min, i_max, i_exch;
  unsigned u_add, u_min, u_max, u_and, u_or, u_xor, u_cas;
  unsigned long long ull_add;
  uint64_t u64_add, u64_min, u64_max, u64_or, u64_cas;
  int64_t i64_min;
  float f_add;
  double d_add;
};
/// Every lane of every block updates every word.
__global__ void atomics(atomic_words* w) {
  const uint32_t id = block_of_grid() * blockDim.x + threadIdx.x;
  atomicAdd(&w->i_add, -2);
  atomicSub(&w->i_sub, 3);
  atomicMin(&w->i_min, -static_cast<int>(id));
  atomicMax_system(&w->i_max, static_cast<int>(id));
  atomicExch(&w->i_exch, 77);
  atomicAdd_system(&w->u_add, 1);
  atomicMin(&w->u_min, id + 5);
  atomicMax(&w->u_max, id);
  atomicAnd(&w->u_and, ~(1u << id % 16));
  atomicOr(&w->u_or, 1u << id % 32);
  atomicXor(&w->u_xor, id);
  atomicAdd(&w->ull_add, 1ull << 33);
  atomicAdd(&w->u64_add, uint64_t{1} << 34);
  atomicMin(&w->u64_min, uint64_t{id} + 9);
  atomicMax(&w->u64_max, uint64_t{id} << 32);
  atomicOr_system(&w->u64_or, uint64_t{1} << id % 64);
  atomicMin(&w->i64_min, -int64_t{id} << 32);
  atomicAdd(&w->f_add, 1.0f);
  atomicAdd(&w->d_add, 0.5);
  for (unsigned old = gravel::detail::load_relaxed(&w->u_cas);;) {
    const unsigned seen = atomicCAS(&w->u_cas, old, old + 2);
    if (seen == old) break;
    old = seen;
  }
  for (uint64_t old = gravel::detail::load_relaxed(&w->u64_cas);;) {
    const uint64_t seen = atomicCAS_system(&w->u64_cas, old, old + (uint64_t{1} << 40));
    if (seen == old) break;
    old = seen;
  }
  __threadfence();
}

/// The sum of all values, by shuffles, shared memory and one atomic a block. Blocks of 32 to 1024 lanes.
__global__ void sum(const uint32_t* values, uint32_t count, unsigned long long* total) {
  __shared__ unsigned long long of_warp[32];
  unsigned long long mine = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) mine += values[i];
  for (int by = 16; by > 0; by /= 2) mine += __shfl_down_sync(~0u, mine, static_cast<unsigned>(by));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned w = 1; w < blockDim.x / 32; ++w) mine += of_warp[w];
    atomicAdd(total, mine);
  }
}

/// Lanes that happen to stand together take numbers with one atomic for all. `largest` gets the size of the
/// largest group that was seen.
__global__ void take_numbers(uint32_t* next, uint32_t* numbers, uint32_t* largest, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    if ((threadIdx.x + static_cast<unsigned>(r)) % 3 == 0) continue;
    const unsigned group = __activemask();
    const int leader = __ffs(static_cast<int>(group)) - 1;
    const unsigned below = group & ((1u << threadIdx.x % 32) - 1);
    uint32_t first = 0;
    if (below == 0) first = atomicAdd(next, static_cast<uint32_t>(__popc(group)));
    first = __shfl_sync(group, first, leader);
    atomicAdd(&numbers[first + static_cast<uint32_t>(__popc(below))], 1);
    atomicMax(largest, static_cast<uint32_t>(__popc(group)));
  }
}

/// A lock whose holder does a read-modify-write that is not atomic: right only if the lock is.
__global__ void ticket_lock(uint32_t* tickets, uint32_t* serving, uint32_t* guarded, int rounds) {
  for (int r = 0; r < rounds; ++r) {
    const uint32_t mine = atomicAdd(tickets, 1);
    for (gravel::detail::relax relax; gravel::detail::load_acquire(serving) != mine;) relax();
    gravel::detail::store_relaxed(guarded, gravel::detail::load_relaxed(guarded) + 1);
    gravel::detail::store_release(serving, mine + 1);
  }
}

/// The planted bug: the same without the lock.
__global__ void lose_updates(uint32_t* word, int rounds) {
  for (int r = 0; r < rounds; ++r) gravel::detail::store_relaxed(word, gravel::detail::load_relaxed(word) + 1);
}

/// A bounded ring of slots with a sequence number each: even lanes put their items in, odd lanes take as many
/// out. A slot is free for ticket t when its number is 2 * (t / slots) and full when it is one more.
struct ring {
  static constexpr uint32_t slots = 4;
  uint32_t sequence[slots], value[slots];
  uint32_t put_tickets, take_tickets;
};
__global__ void through_ring(ring* r, uint32_t items, unsigned long long* total) {
  for (uint32_t i = 0; i < items; ++i) {
    if (threadIdx.x % 2 == 0) {
      const uint32_t t = atomicAdd(&r->put_tickets, 1), slot = t % ring::slots, turn = t / ring::slots * 2;
      for (gravel::detail::relax relax; gravel::detail::load_acquire(&r->sequence[slot]) != turn;) relax();
      gravel::detail::store_relaxed(&r->value[slot], threadIdx.x * items + i);
      gravel::detail::store_release(&r->sequence[slot], turn + 1);
    } else {
      const uint32_t t = atomicAdd(&r->take_tickets, 1), slot = t % ring::slots, turn = t / ring::slots * 2;
      for (gravel::detail::relax relax; gravel::detail::load_acquire(&r->sequence[slot]) != turn + 1;) relax();
      atomicAdd(total, static_cast<unsigned long long>(gravel::detail::load_relaxed(&r->value[slot])));
      gravel::detail::store_release(&r->sequence[slot], turn + 2);
    }
  }
}

/// Blocks pass a token round; all must be running at once.
__global__ void pass_token(uint32_t* token, uint32_t rounds) {
  for (uint32_t r = 0; r < rounds; ++r) {
    const uint32_t mine = r * gridDim.x + blockIdx.x;
    for (gravel::detail::relax relax; gravel::detail::load_acquire(token) != mine;) relax();
    __syncthreads();
    if (threadIdx.x == 0) gravel::detail::store_release(token, mine + 1);
  }
}

}  // namespace kernels
