// Block sender: gathers the messages of a thread block in shared memory, and hands them over sorted by destination.
//
//   __shared__ gravel_block_sender<256> sender;
//   sender.begin(g);                                  // all threads of the block
//   while (...) if (...) sender.inc(&table[i], pe);   // divergent: any lanes, any number of times
//   sender.end();                                     // all threads of the block
//
// Problem. Messages of a few bytes waste a network. They must be gathered, in code in which lanes diverge. The
// work-groups of the paper (Gravel, SC17, section 5) could act together only where all of their lanes were, so the
// paper needed software predication.
// Solution. No lane waits for lanes that are elsewhere. A group of lanes that finds the buffer full empties it, while
// lanes elsewhere continue.
//
// A message takes one of these routes, in this order of preference:
//   1. it is applied in place: its destination is this PE (or a peer, if gravel_t::peers_directly)
//   2. it goes into the bin of its peer, if the bins hold messages of its kind (peer_bins.cuh)
//   3. it goes into the buffer, which is sorted when it is full: rows for peers go into their rings, others into slots
//      of the queue (message_sort.cuh, hand_over.cuh)
//   4. it is sent directly (send.cuh), if the block has sent messages of too many kinds, or if it is a large active
//      message
//
// Protocol of the buffer.
//   reserve: at = reserved += size            [B2]: waits for the next `emptied` if at + size > capacity
//   write messages and keys; written += size  [B1] release
//   the one group with at <= capacity < at + size: waits until written == at [B1] acquire, sorts, copies into slots,
//     reserved = written = 0, emptied += 1    [B2] release
//     publishes the last slot, while others gather
//
// Invariant. Reservations are disjoint intervals. So between two emptyings exactly one group sees its reservation cross
// `capacity`. This group alone touches the buffer until it has counted up `emptied`.
#pragma once
#include "device/am.cuh"
#include "device/block_add.hpp"
#include "device/caller.cuh"
#include "device/cpu/block_sender_cpu.hpp"
#include "device/hand_over.cuh"
#include "device/message_sort.cuh"
#include "device/peer_bins.cuh"
#include "device/team_check.cuh"

namespace gravel::detail {

// Checks of the size of a sender, on both backends. The size is a template parameter, so that compilers print it.
template <uint32_t BYTES>
struct static_shared_memory {
  GRAVEL_DEVICE static constexpr void check() {
    static_assert(BYTES <= 48 * 1024,
                  "this gravel_block_sender does not fit the 48 KiB of __shared__ memory: use its dynamic() in a "
                  "kernel that is launched "
                  "with its shared_bytes, or smaller CAPACITY or PEERS");
  }
};
template <uint32_t BYTES>
struct dynamic_shared_memory {
  GRAVEL_DEVICE static constexpr void check() {
    static_assert(
        BYTES <= 227 * 1024,
        "this gravel_block_sender does not fit the 227 KiB of shared memory of a block: use smaller CAPACITY or PEERS");
  }
};

/// Ends a block whose dynamic shared memory has fewer than `wanted` bytes, and the job. Thread scope: block, converged.
__device__ GRAVEL_NOINLINE inline void leave_without_memory(const gravel_t& g, uint32_t wanted) {
  const uint32_t found = gravel_dynamic_shared_bytes();
#if GRAVEL_CUDA
  report_error(g, message_fault::bad_shared, op::none, 0, wanted, found);
  asm volatile("exit;");
#else
  (void)g;
  fail_text(text_of_misfit(message_fault::bad_shared, wanted, found));
#endif
}

/// The members of gravel_block_sender, which gathers a block's messages in shared memory. The operations are those of
/// put.cuh and am.cuh.
/// @scope lane, from divergent code, between begin() and end()
/// @completion after end(): gravel_quiet (operations of this PE), gravel_barrier_all (operations of all PEs)
/// @errors as of the operations in put.cuh; a block with another number of threads, or too little shared memory: the
///   job ends with a message
/// @source Gravel (SC17), sections 4 and 5
template <int BLOCK, int CAPACITY, int PEERS>
struct block_sender {
  static_assert(BLOCK >= 1 && BLOCK <= 1024, "BLOCK is the number of threads of the block, 1 to 1024");
  static_assert(CAPACITY >= 32 * int{max_small_units} && CAPACITY <= 4096,
                "CAPACITY is at least 128, so that the largest messages of a warp fit, and at most 4096");
  static_assert(PEERS <= int{max_peers}, "PEERS is at most 128");
  /// Peers that may have bins, and units of the two halves of a bin: for up to 16 peers a half is a chunk, for more an
  /// eighth of it.
  static constexpr bool has_many_peers = PEERS > int{peer_bins::most};
  using bins_of_sender = std::conditional_t<has_many_peers, peer_bins_for<max_peers>, peer_bins>;
  static constexpr int bin_units = has_many_peers ? 64 : 512;
  /// Units of the buffer that are bins, where there are bins: three quarters of it. `more_bins` are added if bins for
  /// PEERS peers need more.
  static constexpr int own_bins = CAPACITY >= 512 ? CAPACITY * 3 / 4 : 0, wanted_bins = bin_units * PEERS;
  static constexpr int more_bins = own_bins && wanted_bins > own_bins ? wanted_bins - own_bins : 0;

  /// Begins to gather. If the block does not have BLOCK threads, the error is reported and the sender drops all
  /// messages.
  /// @param handle the kernel's handle
  /// @scope block, converged
  GRAVEL_DEVICE void begin(const gravel_t& handle) {
    // A dynamic sender may lie beyond the end of the memory: then nothing may be written.
    const uint64_t end = static_cast<uint64_t>(reinterpret_cast<char*>(this + 1) - gravel_dynamic_shared());
    if (end > gravel_dynamic_shared_bytes()) leave_without_memory(handle, static_cast<uint32_t>(end));
    if (!refused(handle)) start(handle);
  }
  /// Hands over what is left. begin() may follow again.
  /// @scope block, converged
  GRAVEL_DEVICE void end() {
    if (g.heap_bytes == 0 || !enter_block(g, team_call::block_sender_end)) return;
    __syncthreads();
    empty_converged(written);
    bins.finish(g, buffer + capacity, &ticket, block_rank(), BLOCK, &to_peers);
    __syncthreads();
    if (block_rank() == 0) {
#if !GRAVEL_CUDA
      own_operations::of_this_thread.finish();
#endif
      reserved = written = 0;
      if (in_place) fetch_add<scope::device>(&g.counters->here().in_place, uint64_t{in_place});
      if (to_peers) fetch_add<scope::device>(&g.counters->here().to_peers, uint64_t{to_peers});
      in_place = to_peers = 0;
      ring_doorbells(g);
    }
    __syncthreads();
  }

  // The operations of put.cuh and am.cuh. Thread scope: lane, divergent.
  /// Puts, as gravel_put.
  /// @param dest symmetric address
  /// @param value what is stored
  /// @param pe destination
  template <class T>
  GRAVEL_DEVICE void put(T* dest, same<T> value, int pe) {
    one_sided<op::put>(as_numbers(dest), as_number<T>(value), pe);
  }
  /// Increments, as gravel_inc.
  /// @param dest symmetric address
  /// @param pe destination
  template <class T>
  GRAVEL_DEVICE void inc(T* dest, int pe) {
    one_sided<op::inc>(dest, T{1}, pe);
  }
#define GRAVEL_UPDATE(name)                                 \
  template <class T>                                        \
  GRAVEL_DEVICE void name(T* dest, same<T> value, int pe) { \
    one_sided<op::name>(dest, value, pe);                   \
  }
  /// Adds, as gravel_add.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(add)
  /// Combines bits, as gravel_and.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(bit_and)
  /// Combines bits, as gravel_or.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(bit_or)
  /// Combines bits, as gravel_xor.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(bit_xor)
  /// Keeps the smaller, as gravel_min.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(min)
  /// Keeps the larger, as gravel_max.
  /// @param dest symmetric address
  /// @param value operand
  /// @param pe destination
  GRAVEL_UPDATE(max)
#undef GRAVEL_UPDATE
  /// Sends an active message, as gravel_am.
  /// @param pe destination
  /// @param arguments of the handler
  template <class Handler, class... A>
  GRAVEL_DEVICE void am(int pe, A... arguments) {
    if constexpr (send_check<Handler, A...>::good) {
      if (g.heap_bytes == 0 || !may_send_am<Handler>(g, pe)) return;  // 0: begin() has refused the block or the caller
      am_message<Handler> message;
      message.fill(arguments...);
      const uint32_t sink = sink_of(static_cast<uint32_t>(pe), handler_traits<Handler>::kind);
      // A large message fills a chunk of a ring by itself, so sorting gains nothing. Into a slot, lanes write it unit
      // beside unit. Over PCIe this is one write per line, not one per unit.
      if constexpr (!am_message<Handler>::is_compact) {
        constexpr uint32_t units_of_warp = 32 * message_units<unit, am_message<Handler>::pieces>;
        if (units_of_warp > capacity || ring_to(g, sink)) return send_am<message.kind>(g, sink, message.data);
      }
      gather<message.kind>(sink, message.data);
    }
  }

  // --- state, in shared memory --------------------------------------------------------------------------------
  gravel_t g;
  uint32_t reserved, written, emptied, in_place, to_peers;
  uint32_t capacity;  ///< units of the buffer that are sorted; the bins follow
  uint64_t ticket;    ///< ticket of the team that hands over
  bins_of_sender bins;
  unit buffer[CAPACITY + more_bins];  ///< [capacity] units to be sorted, then the bins
  message_key keys;
  kind_table kinds;
  /// The key of each message at its first unit; no_message at its other units.
  uint32_t key[CAPACITY];
  message_sort<BLOCK, CAPACITY> sorted;

 protected:
  /// Reports callers that are no kernel or no whole block. A sender whose handle has heap_bytes == 0 drops all
  /// messages.
  GRAVEL_DEVICE bool refused(const gravel_t& handle) {
    if (!forbidden_outside_kernel(handle, other_call::block_sender) &&
        enter_block(handle, team_call::block_sender_begin))
      return false;
    g = handle;
    g.heap_bytes = 0;
    return true;
  }
  GRAVEL_DEVICE void start(const gravel_t& handle) {
    const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
    if (threads != BLOCK) {
      __syncthreads();  // a thread that is still in end() reads g
      if (block_rank() == 0) {
        g = handle;
        g.heap_bytes = 0;
        report_error(g, message_fault::bad_block, op::none, 0, BLOCK, threads);
      }
    } else if (block_rank() == 0) {
      g = handle;
      reserved = written = 0;
      emptied = 0;
      in_place = to_peers = 0;
      keys = message_key::of_pes(g.n_pes);
      kinds.begin();
#if !GRAVEL_CUDA
      own_operations::of_this_thread.begin();
#endif
      bins.begin(g, own_bins + more_bins);
      capacity = CAPACITY + more_bins - bins.units();
      if (capacity > CAPACITY) capacity = CAPACITY;
    }
    if (threads == BLOCK) sorted.begin_count(block_rank(), BLOCK);
    __syncthreads();
  }

 private:
  static constexpr uint32_t no_message = message_sort<BLOCK, CAPACITY>::no_message;

  GRAVEL_DEVICE static uint32_t block_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }

  /// Sends an update or a put. It checks the common routes first, with few instructions (the routes are numbered in the
  /// head of this file):
  ///   1. to this PE: in place
  ///   2. to a peer: into its bin, if the bins accept the kind
  ///   3. on the CPU backend, to another PE: into the buffer, without the protocol for groups
  /// one_sided_by_any_way() handles everything else, errors too.
  template <op O, class T>
  GRAVEL_DEVICE void one_sided(T* dest, T value, int pe) {
    using message = update_message<O, T>;
    const uint64_t offset = static_cast<uint64_t>(reinterpret_cast<const char*>(dest) - g.heap),
                   heap_bytes = g.heap_bytes;
    const auto to = static_cast<uint32_t>(pe);
    const peer_route route = bins.route_to(to);
    if (is_word_of_heap<T>(offset, heap_bytes)) {
      if (route.is_in_place()) {
        apply_here<message::operation>(dest, value);
        if (!joins_bin_votes()) return;
      }
      const uint64_t word = offset / sizeof(T);
      if (route.is_in_place() || (route.is_bin() && bins_accept<message::kind>(word, heap_bytes, sizeof(T))))
        return add_update(route, message(offset, value));
#if !GRAVEL_CUDA
      if (route.is_other() && to < g.n_pes && to != g.my_pe && !g.peers_directly &&
          gather_alone<message>(sink_of(to, sink_kind::device), offset, value))
        return;
#endif
    }
    one_sided_by_any_way<O>(dest, value, pe);
  }
  // The terms by which one_sided() decides, beside the route.
  template <class T>
  GRAVEL_DEVICE static bool is_word_of_heap(uint64_t offset, uint64_t heap_bytes) {
    return offset + (sizeof(T) - 1) < heap_bytes && offset % sizeof(T) == 0;
  }
  /// True if a lane whose message was applied in place calls peer_bins::add() with the other lanes, which votes: so the
  /// whole warp acts together.
  GRAVEL_DEVICE bool joins_bin_votes() const { return bins.in_use != 0 && GRAVEL_CUDA; }
  /// True if the bins hold updates of this kind, in a window that has the word. They take the first kind that is sent,
  /// unless messages are sent to peers one by one.
  template <row_kind KIND>
  GRAVEL_DEVICE bool bins_accept(uint64_t word, uint64_t heap_bytes, uint32_t value_bytes) {
    return bins.have(KIND, word) || (!g.peers_directly && bins.take(KIND, word, !fits_index(heap_bytes, value_bytes)));
  }
#if !GRAVEL_CUDA
  /// One thread runs all lanes of a block. Without a seed it switches lanes only where they wait, so no other lane runs
  /// during this function, and the common message needs no protocol. Returns false if the message is of another kind,
  /// or if there is no room. (A group that empties the buffer has made `reserved` larger than `capacity`.)
  template <class Message, class T>
  bool gather_alone(uint32_t sink, uint64_t offset, T value) {
    constexpr uint32_t UNITS = message_units<uint32_t, Message::words>;
    const uint32_t at = reserved;
    const row_kind first = row_kind::of_bits(kinds.bits[0]);
    if (at + UNITS > capacity || !first.is_in_a_window_as(Message::kind) || simt::inner::explores) return false;
    if (!heap_window::has(first.window(), offset / sizeof(T))) return false;
    Message m(offset, value);
    m.word[0] = heap_window::index_of(first.window(), m.word[0]);
    store_message(words_at(&buffer[at]), m.word);
    for (uint32_t u = 0; u < UNITS; ++u) key[at + u] = u == 0 ? keys.of(0, sink) : no_message;
    sorted.count(lone_lane(), key[at], at);
    reserved = written = at + UNITS;
    return true;
  }
#endif
  /// Route 2, of messages that the bins accept. A lane with another route takes part in the votes.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void add_to_bin(peer_route route, const Piece (&message)[N]) {
    bins.template add<KIND>(g, buffer + capacity, route, message, &to_peers);
  }
  /// Route 2, of an update: its word becomes an index in the window of the bins.
  template <class Message>
  GRAVEL_DEVICE void add_update(peer_route route, Message m) {
    m.word[0] = bins.index_of(m.word[0]);
    add_to_bin<Message::kind>(route, m.word);
  }
  /// Route 1.
  template <op O, class T>
  GRAVEL_DEVICE void apply_here(T* dest, T value) {
#if GRAVEL_CUDA
    apply_mapped(O, dest, value);
    const lane_group group = lane_group::active_to_count();
    if (group.is_leader()) block_add_relaxed(&in_place, group.size());
#else
    own_operations::of_this_thread.add(O, dest, value);
    ++in_place;
#endif
  }
  template <op O, class T>
  __device__ GRAVEL_NOINLINE void one_sided_by_any_way(T* dest, T value, int pe) {
    using message = update_message<O, T>;
    constexpr op o = message::operation;
    uint64_t offset;
    if (!locate_unchecked(g, dest, sizeof(T), sizeof(T), pe, O, &offset)) return;
    if (is_self(g, pe)) return apply_here<o>(dest, value);
    if (g.peers_directly)
      if (char* heap = peer_heap(g, pe)) {
        apply_mapped<scope::system>(o, reinterpret_cast<T*>(heap + offset), value);
        const lane_group group = lane_group::active_to_count();
        if (group.is_leader()) block_add(&to_peers, group.size());
        return;
      }
    const uint32_t sink = sink_of(static_cast<uint32_t>(pe), sink_kind::device);
    gather_update(sink, message(offset, value), offset / sizeof(T), !fits_index(g.heap_bytes, sizeof(T)));
  }
  /// Gathers an update of a word of the heap: route 2, then 3, or 4 if its kind has no number.
  template <class Message>
  GRAVEL_DEVICE void gather_update(uint32_t sink, Message m, uint64_t word, bool is_large) {
    constexpr row_kind kind = Message::kind;
    if (const peer_route route = route_to_sink(sink); route.is_bin() && bins.take(kind, word, is_large))
      return add_update(route, m);
    uint32_t window = 0;
    const uint32_t number = kinds.number_of(kind, word, is_large, &window);
    if (number == kind_table::most) {
      if (is_large) return send_in_windows(g.direct, sink, kind.bits(), m.whole(), word);
      return send_any(sink, kind.bits(), Message(m).word);
    }
    m.word[0] = heap_window::index_of(window, m.word[0]);
    gather_as(number, sink, m.word);
  }

  /// Sends a message of a kind that has no number in `kinds`. Lanes with different kinds may call together. There is
  /// one copy for all kinds.
  __device__ GRAVEL_NOINLINE void send_any(uint32_t sink, uint64_t kind_bits, const void* message) {
    const lane_group all = lane_group::active();
    const lane_group group = all.part(all.match(kind_bits));
    const row_kind kind = row_kind::of_bits(kind_bits);
    const auto* const words = static_cast<const uint32_t*>(message);
    send_together(g.direct, group, sink, kind, [&](unit* payload, const slot_places& places) {
      uint32_t* const to = words_at(payload + places.first_unit) + group.rank_in(places.peers) * kind.words;
      for (uint32_t w = 0; w < kind.words; ++w) to[w] = words[w];
    });
  }

  /// As peer_bins::route_to(). Bins are for messages to devices only.
  GRAVEL_DEVICE peer_route route_to_sink(uint32_t sink) const {
    return kind_of_sink(sink) == sink_kind::device ? bins.route_to(pe_of_sink(sink)) : peer_route::other();
  }
  /// Gathers a message of any kind: route 2, then 4 if its kind has no number, else 3.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void gather(uint32_t sink, const Piece (&message)[N]) {
    constexpr uint32_t UNITS = message_units<Piece, N>;
    if (const peer_route route = route_to_sink(sink); route.is_bin() && bins.take(KIND))
      return add_to_bin<KIND>(route, message);
    const uint32_t number = kinds.number_of(KIND);
    if (number == kind_table::most) {
      if constexpr (UNITS > max_small_units) {
        return send_direct<KIND>(g, sink, message);
      } else {
        Piece copy[N];  // a copy, so that the address of `message` does not leave this function
        for (uint32_t i = 0; i < N; ++i) copy[i] = message[i];
        return send_any(sink, KIND.bits(), copy);
      }
    }
    gather_as(number, sink, message);
  }
  /// Gathers a message of the kind with this number.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void gather_as(uint32_t number, uint32_t sink, const Piece (&message)[N]) {
    constexpr uint32_t UNITS = message_units<Piece, N>;
    const lane_group group = lane_group::active();
    const uint32_t wanted = group.size() * UNITS;
    uint32_t at;
    while ((at = reserve(group, wanted)) + wanted > capacity) {
    }
    const uint32_t mine = at + group.rank() * UNITS;
    store_message(pieces_at<Piece>(&buffer[mine]), message);
    const uint32_t my_key = keys.of(number, sink);
    for (uint32_t u = 0; u < UNITS; ++u) key[mine + u] = u == 0 ? my_key : no_message;
    sorted.count(group, my_key, mine);
    group.sync();
    if (group.is_leader()) block_add_release(&written, wanted);  // [B1]
  }

  /// Tries once to reserve `wanted` units for the group. Returns the first of them. If there is no room, returns a
  /// value for which the reservation does not end within `capacity`; the buffer has been emptied by then.
  GRAVEL_DEVICE uint32_t reserve(const lane_group& group, uint32_t wanted) {
    // One lane reads `emptied` for all. A lane that reads it later could wait for a later emptying than the others.
    uint32_t round = 0, at = 0;
    if (group.is_leader()) {
      round = load_acquire<scope::shared>(&emptied);  // [B2]
      at = block_add(&reserved, wanted);
    }
    at = group.from_leader(at);
    if (at + wanted > capacity) make_room(group, at, group.from_leader(round));
    return at;
  }

  __device__ GRAVEL_NOINLINE void make_room(const lane_group& group, uint32_t at, uint32_t round) {
    if (at <= capacity) {
      for (relax others; load_acquire<scope::shared>(&written) != at; others()) {  // [B1]
      }
#if !GRAVEL_CUDA
      if (group.size() == 1) empty_diverged(lone_lane(), at, keys.bits(kinds.size()));
      else
#endif
        empty_diverged(group, at,
                       group.from_leader(keys.bits(kinds.size())));  // other lanes may add kinds meanwhile
      group.sync();
    } else {
      for (relax empty; load_acquire<scope::shared>(&emptied) == round; empty()) {  // [B2]
      }
    }
  }

  /// Empties the buffer by one group. No other lane touches the buffer meanwhile. Thread scope: the group.
  template <class Group>
  GRAVEL_DEVICE void empty_diverged(const Group& group, uint32_t units, uint32_t key_bits) {
    sorted.sort_counted(group_team<Group>{group}, key, units, key_bits);
    hand_over(
        group.rank(), group.size(), [&] { group.sync(); },
        [&] {
          store_relaxed<scope::shared>(&written, 0u);
          store_release<scope::shared>(&reserved, 0u);
          // Atomic: once `reserved` is 0 another group may fill the buffer and empty it before this is done.
          fetch_add_release<scope::shared>(&emptied, 1u);  // [B2]
        });
  }

  /// Empties the buffer by the whole block. Thread scope: block, converged.
  GRAVEL_DEVICE void empty_converged(uint32_t units) {
    if (units == 0) return;
    const uint32_t rank = block_rank(), key_bits = keys.bits(kinds.size());
#if !GRAVEL_CUDA
    if (!simt::inner::explores) {  // one thread runs all lanes: one lane that does all the work is faster
      if (rank == 0) sorted.sort_counted(group_team<lone_lane>{lone_lane()}, key, units, key_bits);
      __syncthreads();
    } else
#endif
      sorted.sort_counted(block_team<BLOCK>(rank), key, units, key_bits);
    hand_over(
        rank, BLOCK, [] { __syncthreads(); }, [] {});
  }

  template <class Sync, class Copied>
  GRAVEL_DEVICE void hand_over(uint32_t rank, uint32_t size, Sync sync, Copied copied) {
    const sorted_messages messages{buffer, key,   sorted.order, sorted.row_first, sorted.n_rows, sorted.n_messages,
                                   keys,   &kinds};
    if (g.peers) hand_over_to_peers(g, messages, &ticket, rank, size, sync);
    hand_over_to_queue(g, messages, &ticket, rank, size, sync, copied);
  }
};

}  // namespace gravel::detail

/// Gathers a thread block's messages in shared memory, sorts them by destination, and hands over whole slots.
/// @tparam BLOCK threads of the block, which may have one, two or three dimensions
/// @tparam CAPACITY messages of up to 16 bytes that are gathered before they are sorted, 128 to 4096. Each takes 26
///   bytes of shared memory
/// @tparam PEERS number of peers for which there is room in bins (route `peer`), at most 128. A bin for up to 16 peers
///   takes 8 KiB, two chunks; for more it takes 1 KiB. If there are more peers, bins are smaller. Without bins, from 13
///   peers on if PEERS is 1, messages for peers are sorted. A sender for 1 peer lets more blocks run on a GPU
/// @scope lane, from divergent code, between begin() and end()
/// @completion after end(): gravel_quiet (operations of this PE), gravel_barrier_all (operations of all PEs)
/// @errors as of the operations in put.cuh; a block with another number of threads, or too little shared memory: the
///   job ends with a message
/// @source Gravel (SC17), sections 4 and 5
template <int BLOCK, int CAPACITY = 1024, int PEERS = 1>
struct gravel_block_sender : gravel::detail::block_sender<BLOCK, CAPACITY, PEERS> {
  using base = gravel::detail::block_sender<BLOCK, CAPACITY, PEERS>;
  /// Bytes of shared memory: for gravel_launch_config, if the sender is dynamic().
  static constexpr uint32_t shared_bytes = sizeof(base);

  /// Begins to gather.
  /// @param handle the kernel's handle
  /// @scope block, converged
  GRAVEL_DEVICE void begin(const gravel_t& handle) {
    gravel::detail::static_shared_memory<shared_bytes>::check();
    if (!base::refused(handle)) base::start(handle);
  }

  /// A sender in the block's dynamic shared memory. Launch the kernel with `shared_bytes` more bytes than `offset`. If
  /// the block has less memory, begin() reports it and ends the job.
  /// @param offset bytes from the beginning of the dynamic shared memory, a multiple of 16
  GRAVEL_DEVICE static base& dynamic(uint32_t offset = 0) {
    gravel::detail::dynamic_shared_memory<shared_bytes>::check();
    return *reinterpret_cast<base*>(gravel_dynamic_shared() + offset);
  }
};
