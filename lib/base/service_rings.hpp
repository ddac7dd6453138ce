// The rings of a service: how messages wait for its service blocks, in the memory of the own PE's device.
//
// A service block is a block of the kernel that stays resident while the service is open (device/service_kernel.cuh).
// Each service block has two rings, both for messages of one type:
//
//   near   A ring of chunks. Kernels of the own PE fill it. They gather messages, and they wait while the ring is full.
//          It follows lib/base/ring.hpp, [P1] [P2], with a count as `done`. Its `published` also holds the number of
//          messages in the chunk, so a service block that sees it needs to read nothing else.
//   far    A ring of single messages. The handler that takes messages of other PEs and of service blocks fills it.
//          The handler never waits: it takes places only if some are free. Lanes of a warp mostly have messages for
//          different service blocks, so the handler does not gather them, and each message has a word of its own.
//
//   handler: n lanes with a message for one service block     service block: the block's first warp
//   room -= n; if there is less: room += what is missing,     the longest run of messages from its next ticket on
//     and those messages go to the outbox   [V1] acquire        that have arrived              [P1] acquire
//   tickets = far_tickets..., one for each                    the whole block works on them
//   each lane: writes its message                             room += messages                 [V1] release
//   published = ticket + 1                  [P1] release      near_done, far_done += chunks, messages  [P2] release
//
// Invariants. A service block frees places in the order of their tickets and counts them in `room` afterwards. So a
// lane that has taken some of `room` finds the places of its tickets free, whatever the order in which other lanes run.
// (The addition to the tickets is acquire and release: it passes on what lanes with lower tickets have acquired from
// `room`.) If a service block sends messages because of others, they have their tickets before `done` counts those
// others. A lane takes from `room` only if it has seen that some is left. Otherwise thousands of handlers that try
// again would keep `room` below 0 although there is room.
//
// Sleeping [V2]. The kernel ends when its host requests it. Then a service block and the handler decide which of them
// wakes the host. Each writes a word of its own and reads the other's, with a full fence in between:
//
//   service block that leaves: state = asleep; fence; poll: has something arrived? then wake the host
//   handler:                   published; fence; state == asleep? then wake the host
//
// So at least one sees the other. `called` keeps all but the first from waking the host.
#pragma once
#include "lib/base/peer_ring.hpp"
#include "lib/base/turn.hpp"

namespace gravel::detail {

// The end [V4], on a GPU (test/models/lease.pml). Service block 0 decides it, as the resolver's block 0 does, so that
// the kernel ends even while threads of the host wait for all kernels, in cudaFree for example. The host writes its
// requests to its own memory: `lease` is a new number for each lease, and a kernel that has acknowledged it in
// `lease_seen` stays until the word changes. The host starts kernels that send only after the acknowledgement. If the
// service's kernel ended before, the host starts it again.

/// The words of one service block, in device memory, zeroed except `room`. They outlast the kernel.
struct service_block {
  ring_line near;                    ///< used by kernels of the own PE; `tickets` of the near ring
  alignas(64) uint64_t far_tickets;  ///< tickets of the far ring; used by handlers
  /// Places of the far ring that are free and not claimed. May be below 0 for a moment.
  uint64_t room;
  /// Written by the service block, and by a lane that wakes the host.
  alignas(64) uint64_t state;
  /// The chunks (near) and messages (far) that are done; so these are the tickets for which the service block waits. It
  /// alone writes both words.
  alignas(64) uint64_t near_done;
  uint64_t far_done;
  static constexpr uint64_t asleep = 0, awake = 1, called = 2;

  /// Of both rings together: chunks of one and messages of the other. To be called on the device.
  GRAVEL_BOTH uint64_t tickets() const {
    return load_relaxed<scope::device>(&near.tickets) + load_relaxed<scope::device>(&far_tickets);
  }
  GRAVEL_BOTH uint64_t applied() const {
    return load_acquire<scope::device>(&near_done) + load_acquire<scope::device>(&far_done);
  }
};
static_assert(sizeof(service_block) == 256);

/// The words of one kernel, in device memory. The host clears them before each launch.
struct service_life {
  uint64_t resident;  ///< blocks that have started
  /// Not 0: leave. On a GPU service block 0 writes it, on the CPU backend the host.
  uint64_t stop;
};

/// The control block of a service, in host memory that kernels reach.
struct alignas(64) service_control {
  uint64_t doorbell;              ///< any change: there is work for a service that may sleep
  alignas(64) uint64_t resident;  ///< number of the launch whose blocks have all started [V3]
  uint64_t lease_seen;            ///< the last lease that service block 0 has seen [V4]
  /// On a GPU the host writes it, and service block 0 reads it [V4]. 0: end after the quantum; `leave`: end now; else
  /// stay.
  alignas(64) uint64_t lease;
  uint64_t quantum_ns;  ///< written and read like `lease`
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

  /// The word of a chunk: the lowest 48 bits of ticket + 1, and above them the number of messages, 1 to 65535. The
  /// previous word there has a ticket that is lower by the number of chunks, so 48 bits distinguish the two, also when
  /// they wrap to 0.
  GRAVEL_BOTH static constexpr uint64_t word_of(uint64_t ticket, uint32_t messages) {
    return uint64_t{messages} << 48 | (ticket + 1) << 16 >> 16;
  }
  /// The number of messages of `ticket`; 0: the word belongs to another ticket.
  GRAVEL_BOTH static constexpr uint32_t messages_in(uint64_t word, uint64_t ticket) {
    return (word ^ (ticket + 1)) << 16 == 0 ? static_cast<uint32_t>(word >> 48) : 0;
  }
  /// Source: publishes what the group of the claiming lane wrote. The group must have synchronized before.
  GRAVEL_BOTH void publish(uint64_t ticket, uint32_t messages) const {
    store_release<scope::device>(word(ticket), word_of(ticket, messages));  // [P1]
  }
  /// Service block: the number of messages in that chunk, which may be read then; 0: it has not arrived.
  GRAVEL_BOTH uint32_t arrived(uint64_t ticket) const {
    return messages_in(load_acquire<scope::device>(word(ticket)), ticket);  // [P1]
  }
};

/// The numbers and sizes of a service's blocks, chunks and messages.
struct service_shape {
  uint32_t blocks, chunks, chunk_messages, message_bytes;
  static constexpr uint32_t most_blocks = 256, most_chunks = 1u << 20, least_chunk_messages = 32,
                            most_chunk_messages = 1024;

  /// The shape of a service that receives no messages: it only keeps its blocks resident. Its rings have the least
  /// size.
  static constexpr service_shape without_messages(uint32_t blocks) {
    return {blocks, 1, least_chunk_messages, sizeof(uint32_t)};
  }

  GRAVEL_BOTH uint32_t chunk_units() const {
    return (chunk_messages * message_bytes + uint32_t{sizeof(unit)} - 1) / uint32_t{sizeof(unit)};
  }
  GRAVEL_BOTH uint64_t near_bytes() const {
    return chunks * ((service_near_ring::chunk_bytes(chunk_units()) + 63) / 64 * 64);
  }
  /// The places of a far ring: a power of two, and a multiple of 32.
  GRAVEL_BOTH uint32_t far_messages() const {
    uint32_t ones = chunk_messages;  // becomes ones from the highest bit on down
    for (uint32_t by = 1; by < 16; by *= 2) ones |= ones >> by;
    return chunks * (ones - ones / 2);
  }
  GRAVEL_BOTH uint64_t far_bytes() const {
    return (far_messages() * uint64_t{sizeof(uint64_t) + message_bytes} + 63) / 64 * 64;
  }
  /// The bytes of both rings of a service block.
  GRAVEL_BOTH uint64_t block_bytes() const { return near_bytes() + far_bytes(); }
  /// The bytes of all device memory of a service at one PE.
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

/// Kernels: true if the holder of `ticket` may write into the near ring.
GRAVEL_BOTH bool near_is_free(const service_block& s, uint64_t ticket, uint32_t chunks) {
  return slot_is_free(ticket, ring<scope::device>::read_done(&s.near_done), chunks);  // [P2]
}

/// Kernels: takes a ticket of the near ring and waits until its chunk is free. The caller must call publish()
/// afterwards. Thread scope: lane.
GRAVEL_BOTH uint64_t claim_near(service_block& s, uint32_t chunks) {
  const uint64_t ticket = fetch_add<scope::device>(&s.near.tickets, uint64_t{1});
  for (relax wait; !near_is_free(s, ticket, chunks); wait()) {
  }
  return ticket;
}

/// Takes up to `n` places of a far ring, as many as are free now: the tickets [first, first + n) of the result. The
/// caller must publish all of them. Thread scope: lane.
struct far_claim {
  uint64_t first;
  uint32_t n;
};
GRAVEL_BOTH far_claim claim_far(service_block& s, uint32_t n) {
  if (static_cast<int64_t>(load_relaxed<scope::device>(&s.room)) <= 0) return {0, 0};
  const auto room = static_cast<int64_t>(fetch_add_acq_rel<scope::device>(&s.room, ~uint64_t{n} + 1));  // [V1]
  uint32_t got = n;
  if (room <= 0) got = 0;
  else if (room < n) got = static_cast<uint32_t>(room);
  if (got < n) fetch_add<scope::device>(&s.room, uint64_t{n} - got);
  return {got ? fetch_add_acq_rel<scope::device>(&s.far_tickets, uint64_t{got}) : 0, got};
}

/// Wakes the host if this service block sleeps and no other lane has woken the host. The service block, or that of the
/// next kernel, then sees what the caller published [V2]. Thread scope: lane.
GRAVEL_BOTH void wake_block(const service_view& view, service_block& s) {
  full_fence();
  if (load_relaxed<scope::device>(&s.state) != service_block::asleep ||
      !compare_swap_acquire<scope::device>(&s.state, service_block::asleep, service_block::called))
    return;
#if GRAVEL_ON_GPU
  store_release(&view.control->doorbell,
                globaltimer_ns());  // a GPU only stores into host memory
#else
  fetch_add_release<scope::system>(&view.control->doorbell, uint64_t{1});
#endif
}

}  // namespace gravel::detail
