// The rings of a service: how its messages wait for its service blocks, in the memory of the own PE's device. A service block is a block of the kernel that
// stays resident while the service is open (device/service_kernel.cuh); each has two rings of chunks of messages of one type:
//
//   near   of chunks, filled by kernels of the own PE, who gather and who wait while it is full: a ring as in lib/base/ring.hpp, [P1] [P2], whose `done`
//          is a count, and whose `published` also tells how many messages the chunk leases: a service block that sees it has to ask nothing else
//   far    of single messages, filled by the handler that takes messages of other PEs, and of service blocks, who never waits: it takes places only if
//          some are free. Lanes of a warp mostly have messages for different service blocks: so they are not gathered, and each has its own word
//
//   handler: n lanes with a message for one service block         service block: the block's first warp
//   room -= n; what there was not: room += it, and the     the longest run of messages from its next ticket on that
//     messages are kept as what handlers send  [V1] acquire  have arrived  [P1] acquire
//   tickets = far_tickets..., one for each                 the whole block works on them
//   each lane: writes its message                          room += messages  [V1] release
//   published = ticket + 1       [P1] release              near_done, far_done += chunks, messages  [P2] release
//
// Invariants: a service block frees places in the order of their tickets and counts them in `room` afterwards, so who has taken some of `room` finds
// the places of its tickets free, whatever the order in which others do. (The tickets' addition is acquire and release: it hands on what those
// with lower tickets have acquired from `room`.) What a service block sends has its tickets before `done` counts what it was sent for. `room` is taken
// only by who has seen some: else thousands of handlers that try again would keep it below 0 while there is room.
//
// Sleeping [V2]. The kernel ends when its host says so. Then a service block and the handler decide who calls the host, each by writing a word
// of its own and reading the other's, with a full fence in between:
//
//   service block that leaves: state = asleep; fence; look: has something arrived? then call      handler: published; fence; state == asleep? then call
//
// so at least one sees the other. `called` keeps all but the first from calling.
#pragma once
#include "lib/base/peer_ring.hpp"
#include "lib/base/turn.hpp"

namespace gravel::detail {

// The end [V4], on a GPU (test/models/lease.pml). Service block 0 decides, as the resolver's block 0 does, so that the kernel
// ends even while threads of the host wait for all kernels, in cudaFree for example. What the host wants it writes to
// its own memory: `lease` is a new number for each lease, and a kernel that has answered it in `lease_seen` stays until
// the word changes. The host starts kernels that send only then; one that ended before it is started again.

/// Of one service block; in device memory, zeroed but for `room`. Lasts from one kernel to the next.
struct service_block {
  ring_line near;                    ///< its tickets; kernels'
  alignas(64) uint64_t far_tickets;  ///< handlers'
  uint64_t room;               ///< places of the far ring that are free and not claimed; may be below 0 for a moment
  alignas(64) uint64_t state;  ///< written by the service block, and by who calls
  alignas(64) uint64_t
      near_done;  ///< chunks and messages that it has worked on: the tickets that it waits for. The service block's
  uint64_t far_done;
  static constexpr uint64_t asleep = 0, awake = 1, called = 2;

  /// Of both rings: chunks of one and messages of the other. On the device.
  GRAVEL_BOTH uint64_t tickets() const {
    return load_relaxed<scope::device>(&near.tickets) + load_relaxed<scope::device>(&far_tickets);
  }
  GRAVEL_BOTH uint64_t applied() const {
    return load_acquire<scope::device>(&near_done) + load_acquire<scope::device>(&far_done);
  }
};
static_assert(sizeof(service_block) == 256);

/// Of one kernel, in device memory. The host clears it before each launch.
struct service_life {
  uint64_t resident;  ///< blocks that have started
  uint64_t stop;      ///< not 0: leave. GPU: written by service block 0; CPU backend: by the host
};

/// Host memory that kernels reach.
struct alignas(64) service_control {
  uint64_t doorbell;              ///< any change: there is something for a service that may sleep
  alignas(64) uint64_t resident;  ///< number of the launch whose blocks have all started [V3]
  uint64_t lease_seen;            ///< the last lease that service block 0 has seen [V4]
  alignas(64) uint64_t
      lease;  ///< GPU: the host's, read by service block 0. 0: end after your quantum; else stay [V4]; `leave`: end now
  uint64_t quantum_ns;  ///< the same
  static constexpr uint64_t leave = ~0ull;
};

/// A near ring: plain data. A chunk is [word, on a line of its own][messages].
struct service_near_ring {
  char* slots;
  uint32_t chunks;       ///< power of two
  uint32_t chunk_units;  ///< room for messages

  GRAVEL_BOTH static uint64_t chunk_bytes(uint32_t units) { return 64 + uint64_t{units} * sizeof(unit); }
  GRAVEL_BOTH uint64_t* word(uint64_t ticket) const {
    return reinterpret_cast<uint64_t*>(slots + (ticket & (chunks - 1)) * chunk_bytes(chunk_units));
  }
  GRAVEL_BOTH unit* messages(uint64_t ticket) const { return reinterpret_cast<unit*>(word(ticket)) + 4; }

  /// The word: the lowest 48 bits of ticket + 1, and above them the number of messages, 1 to 65535. What lay there
  /// before has a ticket that is lower by the number of chunks, so 48 bits tell it apart also where they come to 0
  /// again.
  GRAVEL_BOTH static constexpr uint64_t word_of(uint64_t ticket, uint32_t messages) {
    return uint64_t{messages} << 48 | (ticket + 1) << 16 >> 16;
  }
  /// Messages of `ticket`; 0: the word is another's.
  GRAVEL_BOTH static constexpr uint32_t messages_in(uint64_t word, uint64_t ticket) {
    return (word ^ (ticket + 1)) << 16 == 0 ? static_cast<uint32_t>(word >> 48) : 0;
  }
  /// Source: hands over what the claimer's group wrote; the group must have synchronized.
  GRAVEL_BOTH void publish(uint64_t ticket, uint32_t messages) const {
    store_release<scope::device>(word(ticket), word_of(ticket, messages));  // [P1]
  }
  /// Service block: messages of that chunk, which may be read then; 0: it has not arrived.
  GRAVEL_BOTH uint32_t arrived(uint64_t ticket) const {
    return messages_in(load_acquire<scope::device>(word(ticket)), ticket);  // [P1]
  }
};

/// How many, and how large.
struct service_shape {
  uint32_t blocks, chunks, chunk_messages, message_bytes;
  static constexpr uint32_t most_blocks = 256, most_chunks = 1u << 20, least_chunk_messages = 32,
                            most_chunk_messages = 1024;

  GRAVEL_BOTH uint32_t chunk_units() const {
    return (chunk_messages * message_bytes + uint32_t{sizeof(unit)} - 1) / uint32_t{sizeof(unit)};
  }
  GRAVEL_BOTH uint64_t near_bytes() const {
    return chunks * ((service_near_ring::chunk_bytes(chunk_units()) + 63) / 64 * 64);
  }
  /// Places of a far ring: a power of two, and a multiple of 32.
  GRAVEL_BOTH uint32_t far_messages() const {
    uint32_t ones = chunk_messages;  // all below the highest
    for (uint32_t by = 1; by < 16; by *= 2) ones |= ones >> by;
    return chunks * (ones - ones / 2);
  }
  GRAVEL_BOTH uint64_t far_bytes() const {
    return (far_messages() * uint64_t{sizeof(uint64_t) + message_bytes} + 63) / 64 * 64;
  }
  /// Both rings of a service block.
  GRAVEL_BOTH uint64_t block_bytes() const { return near_bytes() + far_bytes(); }
  /// All device memory of a service at one PE.
  GRAVEL_BOTH uint64_t bytes() const { return blocks * (sizeof(service_block) + block_bytes()); }
  bool operator==(const service_shape&) const = default;
};

/// A far ring: plain data.
struct service_far_ring {
  uint64_t* published;  ///< [places] ticket + 1 of what lies there
  char* messages;
  uint32_t places;
  GRAVEL_BOTH uint32_t place(uint64_t ticket) const { return static_cast<uint32_t>(ticket) & (places - 1); }
  GRAVEL_BOTH uint64_t* word(uint64_t ticket) const { return published + place(ticket); }
  template <class M>
  GRAVEL_BOTH M* at(uint64_t ticket) const {
    return reinterpret_cast<M*>(messages) + place(ticket);
  }
};

/// A service as kernels, handlers and its service blocks see it: plain data.
struct service_view {
  char* memory;  ///< shape.bytes(): [service block] service_block; [service block] near ring, far ring
  service_control* control;
  service_shape shape;

  GRAVEL_BOTH service_block& block(uint32_t s) const { return reinterpret_cast<service_block*>(memory)[s]; }
  GRAVEL_BOTH service_near_ring near(uint32_t s) const { return {rings(s), shape.chunks, padded_units()}; }
  GRAVEL_BOTH service_far_ring far(uint32_t s) const {
    char* const at = rings(s) + shape.near_bytes();
    const uint32_t places = shape.far_messages();
    return {reinterpret_cast<uint64_t*>(at), at + places * sizeof(uint64_t), places};
  }

 private:
  /// Chunks begin on lines of their own.
  GRAVEL_BOTH uint32_t padded_units() const { return (shape.chunk_units() + 3) / 4 * 4; }
  GRAVEL_BOTH char* rings(uint32_t s) const {
    return memory + shape.blocks * sizeof(service_block) + s * shape.block_bytes();
  }
};

/// Kernels: may the holder of `ticket` write into the near ring?
GRAVEL_BOTH bool near_is_free(const service_block& s, uint64_t ticket, uint32_t chunks) {
  return slot_is_free(ticket, ring<scope::device>::read_done(&s.near_done), chunks);  // [P2]
}

/// Kernels: a ticket of the near ring whose chunk is free. Thread scope: lane. publish() must follow.
GRAVEL_BOTH uint64_t claim_near(service_block& s, uint32_t chunks) {
  const uint64_t ticket = fetch_add<scope::device>(&s.near.tickets, uint64_t{1});
  for (relax wait; !near_is_free(s, ticket, chunks); wait()) {
  }
  return ticket;
}

/// Takes up to `n` places of a far ring, as many as are free at once: the tickets [first, first + n) of the answer. All
/// of them must be published. Thread scope: lane.
struct far_claim {
  uint64_t first;
  uint32_t n;
};
GRAVEL_BOTH far_claim claim_far(service_block& s, uint32_t n) {
  if (static_cast<int64_t>(load_relaxed<scope::device>(&s.room)) <= 0) return {0, 0};
  const auto room = static_cast<int64_t>(fetch_add_acq_rel<scope::device>(&s.room, ~uint64_t{n} + 1));  // [V1]
  const uint32_t got = room <= 0 ? 0 : room < n ? static_cast<uint32_t>(room) : n;
  if (got < n) fetch_add<scope::device>(&s.room, uint64_t{n} - got);
  return {got ? fetch_add_acq_rel<scope::device>(&s.far_tickets, uint64_t{got}) : 0, got};
}

/// Calls the host if this service block sleeps and nobody else has called; what the caller published is seen by it or by the
/// next kernel [V2]. Thread scope: lane.
GRAVEL_BOTH void wake_block(const service_view& view, service_block& s) {
  full_fence();
  if (load_relaxed<scope::device>(&s.state) != service_block::asleep ||
      !compare_swap_acquire<scope::device>(&s.state, service_block::asleep, service_block::called))
    return;
#if GRAVEL_ON_GPU
  store_release(&view.control->doorbell, globaltimer_ns());  // nothing is added to host memory from a GPU
#else
  fetch_add_release<scope::system>(&view.control->doorbell, uint64_t{1});
#endif
}

}  // namespace gravel::detail
