// Service sender: gathers a block's messages to the service blocks of its PE in shared memory, and pushes them in
// chunks.
//
//   __shared__ gravel_service_sender<bank> sender;
//   sender.begin(handle);                       // all threads of the block
//   ... sender.send(pe, block, message);        // divergent: any lanes, any number of times
//   sender.end();                               // all threads of the block
//
// Protocol. Each service block has a bin of two halves, as each peer has in device/peer_bins.cuh. [B5] and [B6]
// correspond to [B3] and [B4] there.
//
//   reserve: place = reserved++: a position in an endless sequence; generation = place / HALF; half = generation % 2
//   wait until holds[half] == generation              [B6] acquire
//   write the message; written[half] += 1             [B5]
//   the lane whose addition makes it HALF claims a chunk; the lanes that are here copy; then written[half] = 0,
//   holds[half] = generation + 2                      [B6] release
//
// Progress. The lanes of a group wait for different bins and must not wait for each other: a lane that could write may
// be the one for which another group waits. So the group works in rounds. In each round all lanes whose half is free
// write, full halves leave, and the other lanes try again.
//
// Invariants. Of the lanes that wait for a bin, those with the lowest generation always advance. Tickets are taken for
// full halves only, so no chunk of a ring waits for a slow block.
#pragma once
#include "device/block_add.hpp"
#include "device/service.cuh"
#include "device/team_check.cuh"

/// Gathers a block's messages to the service blocks of its PE in shared memory.
/// @tparam Service the service
/// @tparam BLOCKS number of service blocks for which messages are gathered. If the service has more, messages are sent
///   one by one, as those to other PEs are
/// @tparam HALF messages of half a bin: a power of two of at least 32, and at most `chunk_messages` of the service,
///   else messages are sent one by one
/// @scope block, converged
/// @completion after end(): gravel_wait_quiescent, or gravel_service::close()
/// @errors as of gravel_service_send; threads that are missing: the job ends with a message
/// @source Gravel
template <class Service, uint32_t BLOCKS = 32, uint32_t HALF = 32>
struct gravel_service_sender {
  using message = typename Service::message;
  static_assert(HALF >= 32 && (HALF & (HALF - 1)) == 0 && HALF * sizeof(message) % 16 == 0,
                "HALF is a power of two, at least 32");
  static_assert(BLOCKS * 2 * HALF * sizeof(message) <= 220 * 1024,
                "this gravel_service_sender does not fit the shared memory of a block");

  /// Begins to gather.
  /// @param to from gravel_service::handle()
  /// @param first where the bins' positions begin, in whole halves: for tests of their wrap
  /// @param spare number of service blocks less for which it gathers; the caller uses their memory for other things
  GRAVEL_DEVICE void begin(const gravel_service_handle<Service>& to, uint32_t first = 0, uint32_t spare = 0) {
    gravel::detail::check_open(to.g, to.opening, "gravel_service_sender", "service", Service::name);
    if (!gravel::detail::enter_block(to.g, gravel::detail::team_call::service_sender_begin)) return;
    __syncthreads();
    const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                   size = blockDim.x * blockDim.y * blockDim.z;
    if (rank == 0) {
      to_ = to;
      gathers_ = to.blocks() <= BLOCKS - spare && HALF <= to.view.shape.chunk_messages && !to.in_service;
    }
    for (uint32_t b = rank; b < BLOCKS; b += size) bin_[b] = empty_bin(first / HALF);
    __syncthreads();
  }

  static constexpr uint32_t bytes_of_block = 2 * HALF * sizeof(message);
  /// Returns the memory of the last `spare` service blocks.
  /// @param spare as given to begin()
  GRAVEL_DEVICE gravel::detail::unit* spare_memory(uint32_t spare) { return messages_[BLOCKS - spare][0]; }

  /// Sends a message, as gravel_service_send.
  /// @param pe destination
  /// @param block number of the service block
  /// @param m copied
  /// @scope lane, from divergent code
  GRAVEL_DEVICE void send(int pe, uint32_t block, const message& m) {
    using namespace gravel::detail;
    if (static_cast<uint32_t>(pe) != to_.g.my_pe || !gathers_ || block >= to_.blocks())
      return gravel_service_send(to_, pe, block, m);
    const lane_group here = lane_group::active();
    bin& b = bin_[block];
    const uint32_t place = block_add_relaxed(&b.reserved, 1), generation = place / HALF, which = generation & 1;
    bool waits = true;
    for (relax wait;; wait()) {
      bool full = false;
      if (waits && load_acquire<scope::shared>(&b.holds[which]) == generation) {  // [B6]
        of(block, which)[place % HALF] = m;
        full = block_add(&b.written[which], 1) + 1 == HALF;  // [B5]
        waits = false;
        wait.reset();
      }
      if (here.ballot(full)) push(here, full, block, generation);
      if (!here.ballot(waits)) break;
    }
  }

  /// Hands over what is left. begin() may follow.
  GRAVEL_DEVICE void end() {
    using namespace gravel::detail;
    if (!enter_block(to_.g, team_call::service_sender_end)) return;
    __syncthreads();
    const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z),
                   size = blockDim.x * blockDim.y * blockDim.z;
    for (uint32_t block = rank; gathers_ && block < to_.blocks(); block += size) {
      bin& b = bin_[block];
      const uint32_t n = b.reserved % HALF, generation = b.reserved / HALF;
      if (n == 0) continue;
      const service_near_ring ring = to_.view.near(block);
      const uint64_t ticket = claim_near(to_.view.block(block), ring.chunks);
      copy(ring, ticket, block, generation & 1, 0, 1, n);
      ring.publish(ticket, n);
      b = empty_bin(0);
    }
    __syncthreads();
  }

 private:
  struct bin {
    uint32_t reserved, written[2], holds[2];
  };
  static constexpr uint32_t last_generation = ~0u / HALF;  ///< places are 32 bits wide: 0 comes next
  GRAVEL_DEVICE static bin empty_bin(uint32_t generation) {
    const uint32_t next = (generation + 1) & last_generation;
    return {generation * HALF, {0, 0}, {generation & 1 ? next : generation, generation & 1 ? generation : next}};
  }
  GRAVEL_DEVICE message* of(uint32_t block, uint32_t which) {
    return reinterpret_cast<message*>(messages_[block][which]);
  }
  /// Copies 16 bytes at a time. What the last of them hold beyond `n` messages does no harm.
  GRAVEL_DEVICE void copy(const gravel::detail::service_near_ring& ring, uint64_t ticket, uint32_t block,
                          uint32_t which, uint32_t rank, uint32_t size, uint32_t n) {
    using namespace gravel::detail;
    unit* const to = ring.messages(ticket);
    const unit* const from = messages_[block][which];
    const uint32_t units = (n * uint32_t{sizeof(message)} + uint32_t{sizeof(unit)} - 1) / uint32_t{sizeof(unit)};
    for (uint32_t i = rank; i < units; i += size) store_unit(to + i, load_unit(from + i));
  }
  /// Pushes the halves that lanes of `here` have completed. All lanes copy. Each half leaves as soon as its own chunk
  /// is free: a group that held a chunk while it waits for another service block's chunk could block the group that has
  /// that one. Thread scope: the lanes of `here`.
  __device__ GRAVEL_NOINLINE void push(const gravel::detail::lane_group& here, bool full, uint32_t block,
                                       uint32_t generation) {
    using namespace gravel::detail;
    uint64_t ticket = 0;
    if (full) ticket = fetch_add<scope::device>(&to_.view.block(block).near.tickets, uint64_t{1});
    for (relax wait;; wait()) {
      const bool leaves = full && near_is_free(to_.view.block(block), ticket, to_.view.shape.chunks);
      for (uint32_t rest = here.ballot(leaves); rest; rest &= rest - 1) {
        const uint32_t of = lane_group::lowest(rest), its = here.from_lane(block, of);
        here.sync();  // behind [B5]: what one lane has acquired, all may read
        copy(to_.view.near(its), here.from_lane(ticket, of), its, here.from_lane(generation, of) & 1, here.rank(),
             here.size(), HALF);
      }
      here.sync();
      if (leaves) {
        bin& b = bin_[block];
        store_relaxed<scope::shared>(&b.written[generation & 1], 0u);
        store_release<scope::shared>(&b.holds[generation & 1], (generation + 2) & last_generation);  // [B6]
        to_.view.near(block).publish(ticket, HALF);
        full = false;
      }
      if (!here.ballot(full)) break;
    }
  }

  gravel_service_handle<Service> to_;
  uint32_t gathers_;
  bin bin_[BLOCKS];
  gravel::detail::unit messages_[BLOCKS][2][HALF * sizeof(message) / sizeof(gravel::detail::unit)];
};
