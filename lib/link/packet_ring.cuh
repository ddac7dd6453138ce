// Packet ring: the protocol under links and routers. It moves packets from one PE to another.
//
// Problem. The source must not overwrite a packet that the destination still reads, and the destination must know when
// all parts of a packet have arrived, also if they travel as several messages that overtake each other.
// Solution. A ring of buffers at the destination. Packet n uses buffer n % buffers. Each buffer has a word that names
// the packet in it, and a credit at the source.
//
// Protocol.
//   where               word             written by    what
//   at the destination  word (a buffer)  source        which packet is there, its size (packet_word.hpp)        [L2]
//                       counter          source        bytes that have arrived in parts, ever                   [L3]
//                       metadata, data   source        before [L2] or [L3]
//                       ended            source        number of all packets, + 1; 0: more may follow           [L4]
//                       results          source        array packets that are stored where they belong          [L8]
//                       counted, taken   destination   used by the destination alone
//   at the source       freed (a buffer) destination   number of the packet taken out last, + 1: a credit       [L5]
//                       sent             source        used by the source alone
//
// A packet has arrived with its word if one block stores it into mapped memory, or if it is one message. A packet in
// several parts (several blocks store it, or several messages carry it) is counted: it has arrived when word and
// counter both say so.
//
// Invariants.
// - The source writes into a buffer only when `freed` names the packet before in that buffer. So at most one packet is
//   in a buffer, and everything of packet n + buffers is written after the destination has read all of packet n.
// - All numbers are 64-bit and only grow. The low half of a packet's number is enough in its word, since the word is
//   compared with one packet only.
// - A shutdown uses no buffer, so it waits for nothing. A party that waits for a packet polls `ended`, too.
//
// Model: test/models/link.pml. Source: Groute, section 4.1 (packets, pipelined receivers with several buffers).
#pragma once
#include "device/bulk.cuh"
#include "device/wait.cuh"
#include "device/watched_wait.cuh"
#include "lib/link/packet_word.hpp"

namespace gravel::detail {

/// State of one buffer, at the destination.
struct alignas(64) arrival_line {
  uint64_t word, counter, metadata;  ///< the source writes them
  uint64_t counted;                  ///< the destination writes it: `counter` when the packet before was taken out
  uint64_t spare[4];
};
/// State of one buffer, at the source.
struct alignas(64) credit_line {
  uint64_t freed;  ///< the destination writes it
  uint64_t spare[7];
};
/// State of a ring, at the destination.
struct alignas(64) sink_line {
  uint64_t ended;    ///< the source writes it
  uint64_t results;  ///< the source writes it: results of an allreduce, stored where they belong (ring_allreduce.cuh)
  uint64_t taken;    ///< the destination writes it: packets that kernels have received
  uint64_t results_taken;  ///< the destination writes it
  uint64_t spare[4];
};
/// State of a ring, at the source.
struct alignas(64) source_line {
  uint64_t sent;     ///< packets; a kernel that sends writes it when it ends
  uint64_t results;  ///< results; a kernel that sends writes it when it ends
  uint64_t closed;   ///< not 0: the ring was shut down
  uint64_t spare[5];
};
static_assert(sizeof(arrival_line) == 64 && sizeof(credit_line) == 64 && sizeof(sink_line) == 64 &&
              sizeof(source_line) == 64);

/// A ring. Plain data. It is the same at all PEs, except that addresses lie in the PE's own heap.
struct packet_ring {
  char *arrivals, *credits;  ///< memory at the destination, and at the source: symmetric addresses
  uint32_t packet_bytes;     ///< size of a buffer, a multiple of 16
  uint32_t buffers;
  uint32_t source, destination;  ///< PEs

  GRAVEL_BOTH static uint64_t padded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
  GRAVEL_BOTH static uint64_t credits_bytes(uint32_t buffers) {
    return padded(sizeof(source_line) + buffers * sizeof(credit_line));
  }
  GRAVEL_BOTH static uint64_t data_at(uint32_t buffers) {
    return padded(sizeof(sink_line) + buffers * sizeof(arrival_line));
  }
  GRAVEL_BOTH static uint64_t arrivals_bytes(uint32_t buffers, uint32_t packet_bytes) {
    return data_at(buffers) + uint64_t{buffers} * packet_bytes;
  }
  GRAVEL_BOTH uint32_t buffer(uint64_t number) const { return static_cast<uint32_t>(number % buffers); }
  GRAVEL_BOTH sink_line* sink() const { return reinterpret_cast<sink_line*>(arrivals); }
  GRAVEL_BOTH arrival_line* arrival(uint64_t number) const {
    return reinterpret_cast<arrival_line*>(arrivals + sizeof(sink_line)) + buffer(number);
  }
  GRAVEL_BOTH char* data(uint64_t number) const {
    return arrivals + data_at(buffers) + uint64_t{buffer(number)} * packet_bytes;
  }
  GRAVEL_BOTH source_line* origin() const { return reinterpret_cast<source_line*>(credits); }
  GRAVEL_BOTH credit_line* credit(uint64_t number) const {
    return reinterpret_cast<credit_line*>(credits + sizeof(source_line)) + buffer(number);
  }
};

/// The heap of another PE, which may be mapped here.
struct far_heap {
  static constexpr bool always = false;
  char *mine, *theirs;  ///< theirs: nullptr if it is not mapped: messages carry all
  GRAVEL_BOTH static far_heap of(const gravel_t& g, uint32_t pe) {
    return {g.heap, mapped_heap(g, static_cast<int>(pe))};
  }
  GRAVEL_BOTH bool is_mapped() const { return theirs != nullptr; }
  template <class A>
  GRAVEL_BOTH A* at(A* symmetric) const {
    return reinterpret_cast<A*>(theirs + (reinterpret_cast<const char*>(symmetric) - mine));
  }
};
/// The heap of another PE that is known to be mapped. A kernel that uses only such heaps contains no code for messages.
/// Calls of that code would take half of its registers.
struct stored_heap : far_heap {
  static constexpr bool always = true;
  GRAVEL_BOTH static stored_heap of(const gravel_t& g, uint32_t pe) { return {far_heap::of(g, pe)}; }
  GRAVEL_BOTH bool is_mapped() const { return true; }
};

/// A packet that has arrived. Plain data.
struct received_packet {
  uint64_t number;
  packet_word word;  ///< value 0: no packet, the source has shut down
  GRAVEL_BOTH bool is_end() const { return word.value == 0; }
};

// The source's functions. Thread scope: lane.

/// Returns whether packet `number` may be written now.
GRAVEL_BOTH bool has_credit(const packet_ring& r, uint64_t number) {
  return number < r.buffers || load_acquire(&r.credit(number)->freed) >= number - r.buffers + 1;  // [L5]
}
GRAVEL_DEVICE void await_credit(const gravel_t& g, const packet_ring& r, uint64_t number) {
  for (watched_wait wait; !has_credit(r, number);)
    wait.attentively(g, [&] { return wait_subject{.what = awaited::buffer, .pe = r.destination, .wanted = number}; });
}
/// Stores a word at another PE by a message, and flushes. Functions that send messages are not inlined: they are long,
/// and a caller that stores would need registers for them.
__device__ GRAVEL_NOINLINE inline void put_word(const gravel_t& g, uint64_t* at, uint64_t value, uint32_t pe) {
  gravel_put(g, at, value, static_cast<int>(pe));
  gravel_flush(g);
}
/// Raises a word at another PE by a message, and flushes. A later message may overtake this one, so the larger value
/// stays.
__device__ GRAVEL_NOINLINE inline void raise_word(const gravel_t& g, uint64_t* at, uint64_t value, uint32_t pe) {
  gravel_max(g, at, value, static_cast<int>(pe));
  gravel_flush(g);
}
/// Notifies the destination of a packet, after what was stored before.
template <class There>
GRAVEL_DEVICE void notify_packet(const gravel_t& g, const packet_ring& r, const There& there, uint64_t number,
                                 packet_word word) {
  uint64_t* const at = &r.arrival(number)->word;
  if (there.is_mapped()) return store_release(there.at(at), word.value);  // [L2]
  put_word(g, at, word.value, r.destination);  // [L2] in no order: the packet is counted, or empty
}
/// Notifies the destination that there are `packets` packets in all. They need not have arrived yet.
template <class There>
GRAVEL_DEVICE void notify_end(const gravel_t& g, const packet_ring& r, const There& there, uint64_t packets) {
  uint64_t* const at = &r.sink()->ended;
  r.origin()->closed = 1;
  if (there.is_mapped()) return store_release(there.at(at), packets + 1);  // [L4]
  put_word(g, at, packets + 1, r.destination);                             // [L4]
}

// The source's functions. Thread scope: block.

/// As copy_bytes, but each thread has several words in flight. Thread scope: block.
GRAVEL_DEVICE void copy_packet(const gravel_t& g, char* to, const char* from, uint64_t bytes) {
  constexpr uint32_t at_once = 8;
  uint64_t done = 0;
  if ((reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % sizeof(unit) == 0) {
    const auto* const source = reinterpret_cast<const unit*>(from);
    auto* const target = reinterpret_cast<unit*>(to);
    const uint64_t step = blockDim.x, together = bytes / sizeof(unit) / (at_once * step) * (at_once * step);
    for (uint64_t i = threadIdx.x; i < together; i += at_once * step) {
      unit words[at_once];
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k) words[k] = load_unit(source + i + k * step);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k) store_unit(target + i + k * step, words[k]);
    }
    done = together * sizeof(unit);
  }
  copy_bytes(copy_team::block(g), to + done, from + done, bytes - done);
}

/// The most bytes of a message with a signal.
GRAVEL_BOTH uint64_t signalled_bytes(const gravel_t& g) {
  return uint64_t{most_bulk_units(g, g.block.state ? g.block : g.direct) - 2} * sizeof(unit);
}

/// Sends bytes [begin, end) of a packet's data, and its metadata if there is any, as counted messages to the symmetric
/// address `to`.
__device__ GRAVEL_NOINLINE inline void put_counted(const gravel_t& g, const packet_ring& r, uint64_t number, char* to,
                                                   const char* from, uint64_t begin, uint64_t end, uint64_t metadata) {
  arrival_line* const line = r.arrival(number);
  const uint64_t most = signalled_bytes(g);
  for (uint64_t at = begin; at < end; at += most) {
    const uint64_t now = end - at < most ? end - at : most;
    gravel_put_signal(g, to + at, from + at, now, &line->counter, now, GRAVEL_SIGNAL_ADD,
                      static_cast<int>(r.destination));  // [L3]
  }
  if (metadata)
    gravel_put_signal(g, &line->metadata, &metadata, sizeof(metadata), &line->counter, sizeof(metadata),
                      GRAVEL_SIGNAL_ADD,
                      static_cast<int>(r.destination));  // [L3]
  if (threadIdx.x == 0) gravel_flush(g);
}
/// Sends a whole packet by messages: by one message if it fits.
__device__ GRAVEL_NOINLINE inline void put_packet_by_messages(const gravel_t& g, const packet_ring& r, uint64_t number,
                                                              char* to, const char* from, uint64_t bytes, bool is_last,
                                                              uint64_t metadata) {
  if (bytes && bytes <= signalled_bytes(g) && !metadata) {
    gravel_put_signal(g, to, from, bytes, &r.arrival(number)->word,
                      packet_word::make(number, bytes, is_last, false, false).value, GRAVEL_SIGNAL_SET,
                      static_cast<int>(r.destination));  // [L2]
    if (threadIdx.x == 0) gravel_flush(g);
    return;
  }
  put_counted(g, r, number, to, from, 0, bytes, metadata);
  if (threadIdx.x == 0)
    notify_packet(g, r, far_heap{}, number, packet_word::make(number, bytes, is_last, metadata != 0, true));
}
/// One block, which has waited for the buffer, sends a whole packet. `to`: r.data(number), or another place that is
/// free at the destination.
template <class There>
GRAVEL_DEVICE void put_packet(const gravel_t& g, const packet_ring& r, const There& there, uint64_t number, char* to,
                              const char* from, uint64_t bytes, bool is_last, uint64_t metadata) {
  if (!there.is_mapped()) return put_packet_by_messages(g, r, number, to, from, bytes, is_last, metadata);
  copy_packet(g, there.at(to), from, bytes);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (metadata) there.at(r.arrival(number))->metadata = metadata;
  notify_packet(g, r, there, number, packet_word::make(number, bytes, is_last, metadata != 0, false));
}
/// All blocks of a grid send one packet, each block a part of it. Block 0 also sends metadata and word. Each block has
/// waited for the buffer.
template <class There>
GRAVEL_DEVICE void put_packet_part(const gravel_t& g, const packet_ring& r, const There& there, uint64_t number,
                                   const char* from, uint64_t bytes, bool is_last, uint64_t metadata, uint32_t part,
                                   uint32_t parts) {
  const uint64_t units = (bytes + sizeof(unit) - 1) / sizeof(unit), each = (units + parts - 1) / parts * sizeof(unit);
  const uint64_t begin = part * each < bytes ? part * each : bytes, end = begin + each < bytes ? begin + each : bytes;
  const uint64_t its_metadata = part == 0 ? metadata : 0;
  if (!there.is_mapped()) {
    put_counted(g, r, number, r.data(number), from, begin, end, its_metadata);
  } else {
    copy_packet(g, there.at(r.data(number)) + begin, from + begin, end - begin);
    arrival_line* const line = there.at(r.arrival(number));
    if (its_metadata && threadIdx.x == 0) line->metadata = metadata;
    const uint64_t added = end - begin + (its_metadata ? sizeof(metadata) : 0);
    __syncthreads();
    if (added && threadIdx.x == 0) fetch_add_release<scope::system>(&line->counter, added);  // [L3]
  }
  if (part == 0 && threadIdx.x == 0)
    notify_packet(g, r, there, number, packet_word::make(number, bytes, is_last, metadata != 0, true));
}

// The destination's functions. Thread scope: lane, or a host thread.

/// Returns true if packet `number` has arrived, or if it is known that it will never arrive.
GRAVEL_BOTH bool poll_packet(const gravel_t& g, const packet_ring& r, uint64_t number, received_packet* found) {
  const arrival_line* const line = r.arrival(number);
  const packet_word word{poll_word(g, &line->word)};  // [L2]
  if (word.is_of(number)) {
    if (word.is_counted() && poll_word(g, &line->counter) != poll_word(g, &line->counted) + word.counted_bytes())
      return false;  // [L3]
    *found = {number, word};
    return true;
  }
  const uint64_t ended = poll_word(g, &r.sink()->ended);  // [L4]
  if (!ended || number < ended - 1) return false;
  *found = {number, {}};
  return true;
}
GRAVEL_BOTH received_packet await_packet(const gravel_t& g, const packet_ring& r, uint64_t number) {
  received_packet found;
  for (watched_wait wait; !poll_packet(g, r, number, &found);)
    wait.attentively(g, [&] { return wait_subject{.what = awaited::packet, .pe = r.source, .wanted = number}; });
  return found;
}
GRAVEL_BOTH uint64_t metadata_of(const gravel_t& g, const packet_ring& r, const received_packet& p) {
  return p.word.has_metadata() ? poll_word(g, &r.arrival(p.number)->metadata) : 0;
}
/// Returns the buffer of a packet that all threads have read. Thread scope: lane of a kernel.
template <class There>
GRAVEL_DEVICE void free_packet(const gravel_t& g, const packet_ring& r, const There& back, const received_packet& p) {
  uint64_t* const counted = &r.arrival(p.number)->counted;
  if (p.word.is_counted()) store_relaxed(counted, *counted + p.word.counted_bytes());
  uint64_t* const at = &r.credit(p.number)->freed;
  if (back.is_mapped()) return store_release(back.at(at), p.number + 1);  // [L5]
  raise_word(g, at, p.number + 1, r.source);                              // [L5]
}

}  // namespace gravel::detail
