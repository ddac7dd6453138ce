// The kernels that send: `count` messages of one operation, by whole blocks (gravel_block_sender), by warps, or by one
// lane of each warp. Rates and the queue are measured with them.
#pragma once
#include "bench/perf/device.cuh"

namespace gravel_bench::perf {
using namespace gravel::detail;

/// A handler of each size. It counts its arrivals in a word of its PE, and miscounts if its arguments are damaged.
GRAVEL_BOTH void count_arrival(const gravel_t& g, uint64_t offset, uint64_t damage) {
  fetch_add<scope::device>(reinterpret_cast<uint64_t*>(g.heap + offset), uint64_t{1} + damage);
}
struct am8 {
  static constexpr const char* name = "perf_am8";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset) const { count_arrival(g, offset, 0); }
};
struct am16 {
  static constexpr const char* name = "perf_am16";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, uint64_t) const { count_arrival(g, offset, 0); }
};
struct am24 {
  static constexpr const char* name = "perf_am24";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, uint64_t a, uint64_t b) const {
    count_arrival(g, offset, a ^ b);
  }
};
struct am48 {
  static constexpr const char* name = "perf_am48";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                 uint64_t e) const {
    count_arrival(g, offset, (a ^ b) | (a ^ c) | (a ^ d) | (a ^ e));
  }
};

/// The largest.
struct words31 {
  uint64_t word[31];
};
struct am256 {
  static constexpr const char* name = "perf_am256";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, words31 all) const {
    uint64_t damage = 0;
    for (uint32_t i = 1; i < 31; ++i) damage |= all.word[0] ^ all.word[i];
    count_arrival(g, offset, damage);
  }
};

/// The head of a row of such messages.
inline row_kind kind_of(operation o) {
  switch (o) {
    case operation::put: return update_kind(op::put, value_type::u64);
    case operation::inc: return update_kind(op::inc, value_type::u64);
    case operation::put32: return update_kind(op::put, value_type::u32);
    case operation::add32: return update_kind(op::add, value_type::u32);
    case operation::min32: return update_kind(op::min, value_type::u32);
    case operation::am8: return am_message<am8>::kind;
    case operation::am16: return am_message<am16>::kind;
    case operation::am24: return am_message<am24>::kind;
    case operation::am48: return am_message<am48>::kind;
    default: return am_message<am256>::kind;
  }
}
inline uint64_t message_bytes(operation o) { return bytes_of(kind_of(o)); }

/// The block sender's interface over direct sends.
struct direct {
  const gravel_t& g;
  template <class T>
  GRAVEL_DEVICE void put(T* dest, T value, int pe) {
    gravel_put(g, dest, value, pe);
  }
  template <class T>
  GRAVEL_DEVICE void add(T* dest, T value, int pe) {
    gravel_add(g, dest, value, pe);
  }
  template <class T>
  GRAVEL_DEVICE void min(T* dest, T value, int pe) {
    gravel_min(g, dest, value, pe);
  }
  GRAVEL_DEVICE void inc(uint64_t* dest, int pe) { gravel_inc(g, dest, pe); }
  template <class Handler, class... A>
  GRAVEL_DEVICE void am(int pe, A... arguments) {
    gravel_am<Handler>(g, pe, arguments...);
  }
};

/// Lane `lane` of `lanes` sends its part of the job.
template <class Sender>
GRAVEL_DEVICE void send_part(Sender& s, const gravel_t& g, const send_job& job, uint64_t lane, uint64_t lanes) {
  const uint64_t words = static_cast<uint64_t>(reinterpret_cast<char*>(job.words) - g.heap);
  switch (job.op) {
    case operation::put:
      for (uint64_t i = lane; i < job.count; i += lanes)
        s.put(&job.words[job.word_of(i)], job.salt + i, static_cast<int>(job.pe_of(i)));
      break;
    case operation::inc:
      for (uint64_t i = lane; i < job.count; i += lanes)
        s.inc(&job.words[job.word_of(i)], static_cast<int>(job.pe_of(i)));
      break;
    case operation::put32:
    case operation::add32:
    case operation::min32:  // the two others are measured by `gups`
      for (uint64_t i = lane; i < job.count; i += lanes)
        s.put(reinterpret_cast<uint32_t*>(&job.words[job.word_of(i)]), static_cast<uint32_t>(job.salt + i),
              static_cast<int>(job.pe_of(i)));
      break;
    case operation::am8:
      for (uint64_t i = lane; i < job.count; i += lanes)
        s.template am<am8>(static_cast<int>(job.pe_of(i)), words + 8 * job.word_of(i));
      break;
    case operation::am16:
      for (uint64_t i = lane; i < job.count; i += lanes)
        s.template am<am16>(static_cast<int>(job.pe_of(i)), words + 8 * job.word_of(i), job.salt + i);
      break;
    case operation::am24:
      for (uint64_t i = lane; i < job.count; i += lanes) {
        const uint64_t v = job.salt + i;
        s.template am<am24>(static_cast<int>(job.pe_of(i)), words + 8 * job.word_of(i), v, v);
      }
      break;
    case operation::am48:
      for (uint64_t i = lane; i < job.count; i += lanes) {
        const uint64_t v = job.salt + i;
        s.template am<am48>(static_cast<int>(job.pe_of(i)), words + 8 * job.word_of(i), v, v, v, v, v);
      }
      break;
    case operation::am256:
      for (uint64_t i = lane; i < job.count; i += lanes) {
        words31 all;
        for (uint64_t& word : all.word) word = job.salt + i;
        s.template am<am256>(static_cast<int>(job.pe_of(i)), words + 8 * job.word_of(i), all);
      }
      break;
  }
}

/// Dynamic shared memory of a block sender that is too large for static shared memory (48 KiB on a GPU), else 0.
template <int BLOCK>
constexpr unsigned dynamic_bytes = GRAVEL_CUDA && sizeof(gravel_block_sender<BLOCK>) > 48 * 1024
                                       ? static_cast<unsigned>(sizeof(gravel_block_sender<BLOCK>))
                                       : 0u;
/// The block's sender, in shared memory of either kind.
template <int BLOCK>
GRAVEL_DEVICE gravel_block_sender<BLOCK>& shared_sender() {
  if constexpr (dynamic_bytes<BLOCK> != 0) {
    return *reinterpret_cast<gravel_block_sender<BLOCK>*>(gravel_dynamic_shared());
  } else {
    __shared__ gravel_block_sender<BLOCK> sender;
    return sender;
  }
}

template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) send_by_block(gravel_t g, send_job job) {
  gravel_block_sender<BLOCK>& sender = shared_sender<BLOCK>();
  sender.begin(g);
  send_part(sender, g, job, uint64_t{blockIdx.x} * BLOCK + threadIdx.x, uint64_t{gridDim.x} * BLOCK);
  sender.end();
}
__global__ void send_by_warp(gravel_t g, send_job job) {
  direct sender{g};
  send_part(sender, g, job, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x);
}
__global__ void send_by_thread(gravel_t g, send_job job) {
  if (threadIdx.x % 32) return;
  direct sender{g};
  const uint64_t warps = (blockDim.x + 31) / 32;
  send_part(sender, g, job, blockIdx.x * warps + threadIdx.x / 32, gridDim.x * warps);
}

/// Calls start(kernel, bytes of dynamic shared memory) with the kernel of this scope and size of block.
template <class Start>
void with_sending_kernel(const std::string& scope, unsigned block, Start&& start) {
  if (scope == "warp") start(send_by_warp, 0u);
  else if (scope == "thread") start(send_by_thread, 0u);
  else if (block == 32) start(send_by_block<32>, dynamic_bytes<32>);
  else if (block == 64) start(send_by_block<64>, dynamic_bytes<64>);
  else if (block == 128) start(send_by_block<128>, dynamic_bytes<128>);
  else if (block == 256) start(send_by_block<256>, dynamic_bytes<256>);
  else if (block == 512) start(send_by_block<512>, dynamic_bytes<512>);
  else if (block == 1024) start(send_by_block<1024>, dynamic_bytes<1024>);
  else fail_text("blocks have 32, 64, 128, 256, 512 or 1024 threads");
}

}  // namespace gravel_bench::perf
