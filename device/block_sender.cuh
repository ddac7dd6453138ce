// gravel_block_sender: gathers a thread block's messages in shared memory across a loop, sorts them by destination,
// and hands over whole slots.
//
//   __shared__ gravel_block_sender<256> sender;
//   sender.begin(g);                        // all threads of the block
//   while (...) if (...) sender.inc(&table[i], pe);   // divergent: any lanes, any number of times
//   sender.end();                           // all threads of the block
//
// The paper (section 5) needed software predication, because its work-groups could act together only where all lanes
// are. Here no lane waits for lanes that are elsewhere: whoever finds the buffer full empties it, with the lanes that
// stand beside it, and the others go on.
//
//   reserve: at = reserved += size            [B2]: waits for the next `emptied` if at + size > capacity
//   write messages and keys; written += size  [B1] release
//   the one group with at <= capacity < at + size: waits until written == at [B1] acquire, sorts, hands over,
//     reserved = written = 0, emptied += 1    [B2] release
//
// Invariant: between two empties exactly one group sees its reservation cross `capacity`, since reservations are
// disjoint intervals; it alone touches the buffer until it says emptied.
#pragma once
#include "device/am.cuh"
#include "device/block_add.hpp"
#include "device/block_sender_cpu.hpp"
#include "device/block_sort.hpp"
#include "device/hand_over.cuh"
#include "device/peer_bins.cuh"

/// BLOCK: threads of the block. CAPACITY: messages of 16 bytes that gather before they are sorted, a multiple of
/// BLOCK, 128 to 4096; it takes 24 bytes of shared memory each, and more for sorting. PEERS: for how many there is room in
/// bins of a chunk each (route peer); with more peers than that bins are smaller. A sender for 1 fills a GPU with more blocks.
template <int BLOCK, int CAPACITY = 1024, int PEERS = 1>
struct gravel_block_sender {
  static_assert(CAPACITY % BLOCK == 0 && CAPACITY <= 4096, "CAPACITY is a multiple of BLOCK, at most 4096");
  static_assert(CAPACITY >= 32 * gravel::max_small_units, "CAPACITY holds at least the largest messages of a warp");
  static constexpr int items = CAPACITY / BLOCK;
  /// Of the buffer, three quarters are for bins where there are any; and more if two times 256 for each peer need more.
  static constexpr int own_bins = CAPACITY >= 512 ? CAPACITY * 3 / 4 : 0;
  static constexpr int more_bins = own_bins && 512 * PEERS > own_bins ? 512 * PEERS - own_bins : 0;

  /// Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const gravel_t& handle) {
    if (gravel::forbidden_outside_kernel(handle, gravel::other_call::block_sender)) {
      g = handle;
      g.heap_bytes = 0;  // no address may be sent to
      return;
    }
    if (block_rank() == 0) {
      g = handle;
      reserved = written = 0;
      emptied = 0;
      in_place = to_peers = 0;
      bins.begin(g, own_bins + more_bins);
      capacity = CAPACITY + more_bins - bins.units();
      if (capacity > CAPACITY) capacity = CAPACITY;
#if !GRAVEL_CUDA
      own = {};
#endif
    }
    __syncthreads();
  }
  /// Hands over what is left. Thread scope: block, converged. begin() may follow again.
  GRAVEL_DEVICE void end() {
    if (g.heap_bytes == 0) return;
    __syncthreads();
    empty_converged(written);
    bins.finish(g, buffer + capacity, &ticket, block_rank(), BLOCK, &to_peers);
    __syncthreads();
    if (block_rank() == 0) {
#if !GRAVEL_CUDA
      own.finish();
#endif
      reserved = written = 0;
      if (in_place) gravel::fetch_add<gravel::scope::device>(&g.counters->here().in_place, uint64_t{in_place});
      if (to_peers) gravel::fetch_add<gravel::scope::device>(&g.counters->here().to_peers, uint64_t{to_peers});
      in_place = to_peers = 0;
      gravel::ring_bells(g);
    }
    __syncthreads();
  }

  // The operations of put.cuh and am.cuh. Thread scope: lane, divergent.
  template <class T>
  GRAVEL_DEVICE void put(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::put, gravel::as_numbers(dest), gravel::as_number<T>(value), pe); }
  template <class T>
  GRAVEL_DEVICE void add(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::add, dest, value, pe); }
  template <class T>
  GRAVEL_DEVICE void inc(T* dest, int pe) { one_sided(gravel::op::add, dest, T{1}, pe); }
  template <class T>
  GRAVEL_DEVICE void bit_and(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::bit_and, dest, value, pe); }
  template <class T>
  GRAVEL_DEVICE void bit_or(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::bit_or, dest, value, pe); }
  template <class T>
  GRAVEL_DEVICE void bit_xor(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::bit_xor, dest, value, pe); }
  template <class T>
  GRAVEL_DEVICE void min(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::min, dest, value, pe); }
  template <class T>
  GRAVEL_DEVICE void max(T* dest, gravel::same<T> value, int pe) { one_sided(gravel::op::max, dest, value, pe); }
  template <class Handler, class... A>
  GRAVEL_DEVICE void am(int pe, A... arguments) {
    using namespace gravel;
    if (g.heap_bytes == 0 || !may_send_am<Handler>(g, pe)) return;  // 0: begin() has been refused
    am_message<Handler> message;
    message.fill(arguments...);
    const uint32_t sink = sink_of(static_cast<uint32_t>(pe), handler_traits<Handler>::kind);
    // Of large ones a warp fills slots by itself: sorting has nothing to add.
    if constexpr (handler_traits<Handler>::units > max_small_units) send_direct(g, sink, message.data);
    else gather(sink, message.data);
  }

  // --- state, in shared memory --------------------------------------------------------------------------------
  gravel_t g;
  uint32_t reserved, written, emptied, in_place, to_peers;
  uint32_t capacity;  ///< units that are gathered before they are sorted
  uint32_t n_runs, n_messages;
  uint64_t ticket;  ///< that of the team which hands over
#if !GRAVEL_CUDA
  gravel::own_operations own;
#endif
  gravel::peer_bins bins;
  gravel::unit buffer[CAPACITY + more_bins];  ///< [capacity] to be sorted, then the bins
  /// Of each message: sink << 2 | units - 1, at its first unit; no_message at its other units.
  uint32_t key[CAPACITY];
  uint16_t order[CAPACITY];      ///< positions of messages, sorted by key
  uint16_t run_first[CAPACITY];  ///< index into `order` of each run's first message
  union {
    typename gravel::block_sort<BLOCK, items>::storage sort;
    struct {
      uint16_t other[CAPACITY];
      uint16_t bins[256];
    } radix;
  } scratch;

 private:
  static constexpr uint32_t no_message = ~0u;

  GRAVEL_DEVICE static uint32_t block_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }

  template <class T>
  GRAVEL_DEVICE void one_sided(gravel::op o, T* dest, T value, int pe) {
    using namespace gravel;
    uint64_t offset;
    if (!locate_unchecked(g, dest, sizeof(T), sizeof(T), pe, o, &offset)) return;
    if (is_self(g, pe)) {
#if GRAVEL_CUDA
      apply_mapped(o, dest, value);
      const lane_group group = lane_group::active_to_count();
      if (group.is_leader()) block_add_relaxed(&in_place, group.size());
#else
      own.add(o, dest, value);
      ++in_place;
#endif
      return;
    }
    if (g.peers_directly)
      if (char* heap = peer_heap(g, pe)) {
        apply_mapped<scope::system>(o, reinterpret_cast<T*>(heap + offset), value);
        const lane_group group = lane_group::active_to_count();
        if (group.is_leader()) block_add(&to_peers, group.size());
        return;
      }
    const unit message[1] = {{{make_word0(o, static_cast<uint8_t>(value_type_of<T>()), offset), to_word(value)}}};
    gather(sink_of(static_cast<uint32_t>(pe), sink_kind::device), message);
  }

  template <uint32_t UNITS>
  GRAVEL_DEVICE void gather(uint32_t sink, const gravel::unit (&message)[UNITS]) {
    using namespace gravel;
    if constexpr (UNITS == 1)
      if (bins.in_use)
        if (const peer_link* link = ring_to(g, sink)) return bins.add(buffer + capacity, *link, message[0], &to_peers);
    const lane_group group = lane_group::active();
    const uint32_t wanted = group.size() * UNITS;
    uint32_t at;
    while ((at = reserve(group, wanted)) + wanted > capacity) {
    }
    const uint32_t mine = at + group.rank() * UNITS;
    for (uint32_t u = 0; u < UNITS; ++u) {
      store_unit(&buffer[mine + u], message[u]);
      key[mine + u] = u == 0 ? sink << 2 | (UNITS - 1) : no_message;
    }
    group.sync();
    if (group.is_leader()) block_add_release(&written, wanted);  // [B1]
  }

  /// One try to reserve `wanted` places for the group. Returns the first, or, if they are not all there, something for
  /// which the reservation does not end within `capacity`; by then the buffer has been emptied.
  GRAVEL_DEVICE uint32_t reserve(const gravel::lane_group& group, uint32_t wanted) {
    using namespace gravel;
    // One lane looks at `emptied`, for all: a lane that looked later might wait for an empty after the one that the
    // others wait for.
    uint32_t round = 0, at = 0;
    if (group.is_leader()) {
      round = load_acquire<scope::block>(&emptied);  // [B2]
      at = block_add(&reserved, wanted);
    }
    at = group.from_leader(at);
    if (at + wanted > capacity) make_room(group, at, group.from_leader(round));
    return at;
  }

  __device__ GRAVEL_NOINLINE void make_room(const gravel::lane_group& group, uint32_t at, uint32_t round) {
    using namespace gravel;
    if (at <= capacity) {
      for (relax others; load_acquire<scope::block>(&written) != at; others()) {  // [B1]
      }
#if !GRAVEL_CUDA
      if (group.size() == 1) empty_diverged(lone_lane(), at);
      else
#endif
        empty_diverged(group, at);
      group.sync();
      if (group.is_leader()) {
        store_relaxed<scope::block>(&written, 0u);
        store_release<scope::block>(&reserved, 0u);
        // Atomically: once `reserved` is 0 another group may fill the buffer, and empty it, before this is done.
        fetch_add_release<scope::block>(&emptied, 1u);  // [B2]
      }
      group.sync();
    } else {
      for (relax empty; load_acquire<scope::block>(&emptied) == round; empty()) {  // [B2]
      }
    }
  }

  GRAVEL_DEVICE uint32_t key_bits() const {
    uint32_t bits = 1;
    while (bits < 32 && (g.n_pes * 8 - 1) >> bits) ++bits;
    return bits;
  }

  /// Sorts the first `units` positions with the lanes of a group: a stable radix sort, 8 bits a pass.
  template <class Group>
  GRAVEL_DEVICE void empty_diverged(const Group& group, uint32_t units) {
    using namespace gravel;
    uint16_t* from = order;
    uint16_t* to = scratch.radix.other;
    const uint32_t width = group.size(), rank = group.rank();
    uint32_t count = 0;
    for (uint32_t base = 0; base < units; base += width) {  // positions where messages begin
      const uint32_t i = base + rank;
      const bool begins = i < units && key[i] != no_message;
      const uint32_t votes = group.ballot(begins);
      if (begins) from[count + group.rank_in(votes)] = static_cast<uint16_t>(i);
      count += lane_group::popcount(votes);
    }
    group.sync();
    uint16_t* bins = scratch.radix.bins;
    for (uint32_t shift = 0; shift < key_bits(); shift += 8) {
      for (uint32_t b = rank; b < 256; b += width) bins[b] = 0;
      group.sync();
      // Lanes of the group with the same digit act through the lowest of them, so plain additions suffice.
      for (uint32_t base = 0; base < count; base += width) {
        const uint32_t i = base + rank;
        const uint32_t digit = i < count ? key[from[i]] >> shift & 255 : 256;
        const uint32_t peers = group.match(digit);
        if (digit != 256 && group.rank_in(peers) == 0) bins[digit] = static_cast<uint16_t>(bins[digit] + lane_group::popcount(peers));
        group.sync();
      }
      if (group.is_leader())
        for (uint32_t b = 0, sum = 0; b < 256; ++b) {
          const uint32_t n = bins[b];
          bins[b] = static_cast<uint16_t>(sum);
          sum += n;
        }
      group.sync();
      for (uint32_t base = 0; base < count; base += width) {
        const uint32_t i = base + rank;
        const uint16_t position = i < count ? from[i] : uint16_t{0};
        const uint32_t digit = i < count ? key[position] >> shift & 255 : 256;
        const uint32_t peers = group.match(digit);
        if (digit != 256) to[bins[digit] + group.rank_in(peers)] = position;
        group.sync();
        if (digit != 256 && group.rank_in(peers) == 0) bins[digit] = static_cast<uint16_t>(bins[digit] + lane_group::popcount(peers));
        group.sync();
      }
      uint16_t* swap = from;
      from = to;
      to = swap;
    }
    if (from != order) {
      for (uint32_t i = rank; i < count; i += width) order[i] = from[i];
      group.sync();
    }
    find_runs(group, count);
    hand_over(rank, width, [&] { group.sync(); });
  }

  /// The same by the whole block, with CUB. Thread scope: block, converged.
  GRAVEL_DEVICE void empty_converged(uint32_t units) {
    using namespace gravel;
    if (units == 0) return;
    const uint32_t rank = block_rank(), bits = key_bits(), none = 1u << bits;
    uint32_t number[items];  // key above, position in the low 12 bits: one number to sort
    for (int i = 0; i < items; ++i) {
      const uint32_t at = rank * items + static_cast<uint32_t>(i);
      number[i] = (at < units && key[at] != no_message ? key[at] : none) << 12 | at;
    }
    if (rank == 0) n_messages = 0;
    __syncthreads();
    block_sort<BLOCK, items>::sort(scratch.sort, number, 12, static_cast<int>(12 + bits + 1));
    uint32_t mine = 0;
    for (int i = 0; i < items; ++i) {
      order[rank * items + static_cast<uint32_t>(i)] = static_cast<uint16_t>(number[i] & 4095);
      mine += number[i] >> 12 != none;
    }
    if (mine) block_add(&n_messages, mine);
    __syncthreads();
    if (rank < 32) find_runs(lane_group::converged_warp(BLOCK), n_messages);
    __syncthreads();
    hand_over(rank, BLOCK, [] { __syncthreads(); });
  }

  /// Finds where each run of equal keys begins in `order`. Thread scope: the group.
  template <class Group>
  GRAVEL_DEVICE void find_runs(const Group& group, uint32_t count) {
    using namespace gravel;
    uint32_t runs = 0;
    for (uint32_t base = 0; base < count; base += group.size()) {
      const uint32_t i = base + group.rank();
      const bool begins = i < count && (i == 0 || key[order[i]] != key[order[i - 1]]);
      const uint32_t votes = group.ballot(begins);
      if (begins) run_first[runs + group.rank_in(votes)] = static_cast<uint16_t>(i);
      runs += lane_group::popcount(votes);
    }
    if (group.is_leader()) {
      n_runs = runs;
      n_messages = count;
    }
    group.sync();
  }

  template <class Sync>
  GRAVEL_DEVICE void hand_over(uint32_t rank, uint32_t size, Sync sync) {
    using namespace gravel;
    const sorted_messages sorted{buffer, key, order, run_first, n_runs, n_messages};
    if (g.peers) hand_over_to_peers(g, sorted, &ticket, rank, size, sync);
    hand_over_to_queue(g, sorted, &ticket, rank, size, sync);
  }
};
