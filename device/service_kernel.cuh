// The kernel of a service. Each of its blocks is a service block with two rings (lib/base/service_rings.hpp).
//
// The first warp of a block polls both rings for the longest sequences of chunks and messages that have arrived. The
// whole block works on all of them at once. Then the first warp frees them together. The other warps wait at a barrier
// meanwhile and read nothing.
#pragma once
#include "device/service.cuh"

namespace gravel::detail {

/// The messages that a service block works on. In shared memory.
struct service_chunks {
  static constexpr uint32_t most = 32, piece = 32;
  const char* at[most];       ///< messages of each chunk of the near ring
  uint32_t before[most + 1];  ///< number of messages in the chunks before it
  uint32_t n;                 ///< number of chunks
  uint32_t shift;             ///< all chunks but the last have 1 << shift messages; 32: they have not
  /// The far ring: its `n_far` messages from place `far_first` on follow those of the chunks.
  service_far_ring far;
  uint32_t far_first, n_far;
  bool ends;  ///< there are no messages, and the kernel is to end
};

}  // namespace gravel::detail

/// The messages that a service block gets at once: those of up to 32 chunks from kernels of this PE, then those of
/// other PEs. At least one. Valid until the block returns.
/// @scope lane, from divergent code
/// @completion on return
/// @errors none are checked
/// @source Gravel
template <class M>
class gravel_service_batch {
 public:
  /// Made by the service's kernel.
  /// @param chunks where the messages lie
  GRAVEL_DEVICE explicit gravel_service_batch(const gravel::detail::service_chunks& chunks) : chunks_(chunks) {}
  /// Number of messages.
  GRAVEL_DEVICE uint32_t size() const { return near() + chunks_.n_far; }
  GRAVEL_DEVICE const M& operator[](uint32_t i) const {
    if (i >= near()) return *far(i - near());
    uint32_t first = 0;  // the chunk lies in [first, first + n)
    if (chunks_.shift < 32) return near_chunk(i >> chunks_.shift)[i & ((1u << chunks_.shift) - 1)];
    for (uint32_t n = chunks_.n; n > 1;) {
      const uint32_t half = n / 2;
      if (chunks_.before[first + half] <= i) {
        first += half;
        n -= half;
      } else n = half;
    }
    return near_chunk(first)[i - chunks_.before[first]];
  }
  /// Number of parts, for a block that gives each part to a warp. A part is a chunk, or up to 32 messages of other PEs.
  GRAVEL_DEVICE uint32_t chunks() const {
    return chunks_.n + (chunks_.n_far ? (skipped() + chunks_.n_far + piece - 1) / piece : 0);
  }
  /// The messages of part `c`.
  /// @param c below chunks()
  GRAVEL_DEVICE const M* chunk(uint32_t c) const { return c < chunks_.n ? near_chunk(c) : far(begin_of(c)); }
  /// Number of messages in part `c`.
  /// @param c below chunks()
  GRAVEL_DEVICE uint32_t messages_of(uint32_t c) const {
    if (c < chunks_.n) return chunks_.before[c + 1] - chunks_.before[c];
    const uint32_t end = (c + 1 - chunks_.n) * piece - skipped();
    return (end < chunks_.n_far ? end : chunks_.n_far) - begin_of(c);
  }

 private:
  static constexpr uint32_t piece = gravel::detail::service_chunks::piece;
  GRAVEL_DEVICE uint32_t near() const { return chunks_.before[chunks_.n]; }
  GRAVEL_DEVICE const M* near_chunk(uint32_t c) const { return reinterpret_cast<const M*>(chunks_.at[c]); }
  GRAVEL_DEVICE const M* far(uint32_t i) const { return chunks_.far.template at<M>(chunks_.far_first + i); }
  /// Parts end where places of the ring are multiples of 32. So none of them crosses the end of the ring.
  GRAVEL_DEVICE uint32_t skipped() const { return chunks_.far_first % piece; }
  GRAVEL_DEVICE uint32_t begin_of(uint32_t c) const { return c == chunks_.n ? 0 : (c - chunks_.n) * piece - skipped(); }
  const gravel::detail::service_chunks& chunks_;
};

/// Where the code of a service runs: it is called by all threads of the block, converged. It may use __syncthreads()
/// and shared memory. It may send to any service, with `handle`, and use all operations of `g`. It must wait neither
/// for another service block nor for what only kernels of the program can do.
/// @scope block
/// @completion on return
/// @errors none
/// @source Gravel
template <class Service>
struct gravel_service_block {
  const gravel_t& g;
  const gravel_service_handle<Service>& handle;
  /// Number of this service block at its PE.
  GRAVEL_DEVICE uint32_t number() const { return blockIdx.x; }
  /// Service blocks of this PE.
  GRAVEL_DEVICE uint32_t blocks() const { return gridDim.x; }
  /// Number of the calling thread in its block.
  GRAVEL_DEVICE uint32_t rank() const { return threadIdx.x; }
  /// Threads of the block.
  GRAVEL_DEVICE static constexpr uint32_t size() { return gravel::detail::service_threads<Service>(); }
};

namespace gravel::detail {

/// Reads the rings of a service block. Its tickets lie in registers of the first warp. Thread scope of all members:
/// that warp, converged.
struct service_reader {
  static constexpr uint32_t most_far = 512;  ///< most messages of the far ring that are taken at once
  service_near_ring near;
  service_far_ring far;
  uint64_t near_next, far_next;
  uint32_t n_near = 0, n_far = 0;
  uint32_t messages = 0;  ///< messages of the lane's chunk; 0: it has not arrived

  GRAVEL_DEVICE service_reader(const service_view& view, uint32_t block)
      : near(view.near(block)),
        far(view.far(block)),
        near_next(view.block(block).near_done),
        far_next(view.block(block).far_done) {}

  /// Polls for chunks, and for up to 32 messages, that have arrived in sequence. Returns true if there are any.
  GRAVEL_DEVICE bool poll(uint32_t lane) {
    // The second load does not wait for the first.
    const uint64_t far_published = load_acquire_later<scope::device>(far.word(far_next + lane));
    messages = near.arrived(near_next + lane);  // [P1]
    n_near = in_a_row(__ballot_sync(~0u, messages != 0));
    n_far = in_a_row(__ballot_sync(~0u, far_published == far_next + lane + 1));
    if (n_far != 0) acquire_now<scope::device>();  // [P1]
    return n_near + n_far != 0;
  }
  /// If 32 messages have arrived, polls for more.
  GRAVEL_DEVICE void poll_longer(uint32_t lane) {
    constexpr uint32_t at_once = 5;
    while (n_far % 32 == 0 && n_far != 0 && n_far + at_once * 32 <= most_far && n_far + at_once * 32 <= far.places) {
      bool there[at_once];
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < at_once; ++i) {
        const uint64_t ticket = far_next + n_far + i * 32 + lane;
        there[i] = load_acquire_later<scope::device>(far.word(ticket)) == ticket + 1;
      }
      bool all = true;
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < at_once; ++i) {
        const uint32_t more = all ? in_a_row(__ballot_sync(~0u, there[i])) : 0;
        n_far += more;
        all = more == 32;
      }
      acquire_now<scope::device>();  // [P1]
      if (!all) break;
    }
  }
#if !GRAVEL_CUDA
  /// CPU backend: waits until there is something to poll, or the kernel is to end. Polls by all lanes take dozens of
  /// fiber switches. While one lane waits, the thread may sleep.
  void wait_alone(const service_life* life, uint32_t lane) const {
    if (lane == 0)
      for (relax wait; load_relaxed(&life->stop) == 0 && !near.arrived(near_next) &&
                       !ring<scope::device>::arrived(far.word(far_next), far_next);
           wait.attentively()) {
      }
    __syncwarp();
  }
#endif
  /// Fills `to` with what poll() has found.
  GRAVEL_DEVICE void take(service_chunks& to, const gravel_t& g, const service_shape& shape, uint32_t lane) {
    poll_longer(lane);
    __syncwarp();  // what one lane has acquired, all may read
    if (lane >= n_near) messages = 0;
    if (messages > shape.chunk_messages) {
      report_error(g, message_fault::bad_size, op::am, g.my_pe, messages, 0);
      messages = 0;
    }
    uint32_t inclusive = messages;
    for (uint32_t step = 1; step < n_near; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, inclusive, step);
      if (lane >= step) inclusive += other;
    }
    if (lane < n_near) {
      to.before[lane + 1] = inclusive;
      to.at[lane] = reinterpret_cast<const char*>(near.messages(near_next + lane));
    }
    // If the ring was full, all of its chunks are.
    const uint32_t shift = static_cast<uint32_t>(__ffs(static_cast<int>(__shfl_sync(~0u, messages, 0)))) - 1;
    const bool alike =
        shift < 32 && (lane >= n_near || messages == 1u << shift || (lane == n_near - 1 && messages < 1u << shift));
    const bool all_alike = __all_sync(~0u, alike);
    if (lane == 0) {
      to.before[0] = 0;
      to.n = n_near;
      to.shift = all_alike ? shift : 32;
      to.far = far;
      to.far_first = far.place(far_next);
      to.n_far = n_far;
      to.ends = false;
    }
  }
  /// Frees what the block has worked on. It pairs with the acquire [P2] or [V1] of whichever lane writes there next.
  GRAVEL_DEVICE void free(service_block& block, uint32_t lane) {
    near_next += n_near;
    far_next += n_far;
    if (lane == 0) {
      if (n_far) fetch_add_release<scope::device>(&block.room, uint64_t{n_far});  // [V1]
      if (n_near) ring<scope::device>::mark_done(&block.near_done, near_next);    // [P2]
      if (n_far) ring<scope::device>::mark_done(&block.far_done, far_next);
    }
    __syncwarp();
  }
  GRAVEL_DEVICE static uint32_t in_a_row(uint32_t arrived) {
    return arrived == ~0u ? 32 : static_cast<uint32_t>(__ffs(static_cast<int>(~arrived)) - 1);
  }
  /// The service block leaves. What arrives from here on starts another kernel. [V2]
  GRAVEL_DEVICE void leave(const service_view& view, service_block& block, uint32_t lane) {
    if (lane == 0) store_relaxed<scope::device>(&block.state, service_block::asleep);
    __syncwarp();
    full_fence();
    const bool some = poll(lane);
    if (some && lane == 0) wake_block(view, block);
  }
};

/// Decides when the kernel ends [V4].
class service_end {
 public:
  /// Thread scope: lane 0 of each service block.
  GRAVEL_DEVICE bool has_come(service_control* control, service_life* life) {
    poll_host(control, life);
    return word(life) != 0;
  }
  /// Not 0: the kernel is to end. Thread scope: lane.
  GRAVEL_DEVICE static uint64_t word(const service_life* life) { return load_relaxed<scope::device>(&life->stop); }
  /// Service block 0 polls host memory in each 64th call, since this takes longer than a poll of both rings, and
  /// notifies the other blocks. Thread scope: lane 0 of each service block.
  GRAVEL_DEVICE void poll_host([[maybe_unused]] service_control* control, [[maybe_unused]] service_life* life) {
#if GRAVEL_CUDA
    if (blockIdx.x == 0 && calls_++ % 64 == 0) {
      if (end_ns_ == 0) end_ns_ = globaltimer_ns() + load_relaxed(&control->quantum_ns);
      const uint64_t lease = load_relaxed(&control->lease);
      if (lease == service_control::leave || (lease == 0 && globaltimer_ns() > end_ns_))
        store_relaxed<scope::device>(&life->stop, uint64_t{1});
      else if (lease != seen_) store_release(&control->lease_seen, seen_ = lease);
    }
#endif
  }

 private:
  [[maybe_unused]] uint64_t end_ns_ = 0, seen_ = 0;
  [[maybe_unused]] uint32_t calls_ = 0;
};

/// Grid: one block for each service block. `number`: the number of this launch, which the last block that starts writes
/// for the host [V3].
template <class Service>
__global__ void __launch_bounds__(service_threads<Service>())
    serve(const __grid_constant__ gravel_service_handle<Service> handle, const __grid_constant__ Service service,
          service_life* life, uint64_t number) {
  __shared__ service_chunks chunks;
  const uint32_t lane = threadIdx.x % 32, me = blockIdx.x;
  const bool reads = threadIdx.x < 32;
  service_block& mine = handle.view.block(me);
  service_reader reader(handle.view, me);
  service_end end;
  if (threadIdx.x == 0) {
    store_relaxed<scope::device>(&mine.state, service_block::awake);
    if (fetch_add_acq_rel<scope::device>(&life->resident, uint64_t{1}) + 1 == gridDim.x)
      store_release(&handle.view.control->resident, number);  // [V3]
  }
  if constexpr (requires { service.begin(gravel_service_block<Service>{handle.g, handle}); }) {
    service.begin(gravel_service_block<Service>{handle.g, handle});
    __syncthreads();
  }
  for (;;) {
    if (reads) {
      bool some = false, stop = false;
      for (relax wait; !some && !stop; wait.attentively()) {
#if !GRAVEL_CUDA
        reader.wait_alone(life, lane);
#endif
        const bool stops =
            lane == 0 && end.has_come(handle.view.control, life);  // used after the poll, so that the loads overlap
        some = reader.poll(lane);
        stop = __any_sync(~0u, stops);
        if (some || stop) break;
      }
      if (some && !stop) reader.take(chunks, handle.g, handle.view.shape, lane);
      else if (lane == 0) chunks.ends = true;
    }
    __syncthreads();
    if (chunks.ends) break;
    service(gravel_service_block<Service>{handle.g, handle}, gravel_service_batch<typename Service::message>(chunks));
    __syncthreads();
    if (reads) reader.free(mine, lane);
  }
  if (reads) reader.leave(handle.view, mine, lane);
}

}  // namespace gravel::detail
