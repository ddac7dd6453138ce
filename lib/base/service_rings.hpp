// The rings of a service: how its messages wait for its servers, in the memory of the own PE's device. A server is a block of the kernel that
// stays resident while the service is open (device/service_kernel.cuh); each has two rings of chunks of messages of one type:
//
//   near   filled by kernels of the own PE, who wait while it is full: a ring as in lib/base/ring.hpp, [P1] [P2], whose `done` is a count
//   far    filled by the handler that takes messages of other PEs, and of servers, who never waits: it takes a chunk only if one is free
//
//   handler: a group of lanes                              server: the block's first warp
//   room -= 1; was there none: room += 1, and the          the longest run of chunks from its next ticket on that
//     message is kept as what handlers send  [V1] acquire    have arrived  [P1] acquire
//   ticket = far_tickets++                               the whole block works on them
//   write messages                                         far: room += chunks  [V1] release
//   published = ticket + 1       [P1] release              near_done, far_done += chunks  [P2] release
//
// Invariants: a server frees chunks in the order of their tickets and counts them in `room` afterwards, so who has taken one of `room` finds
// the chunk of its ticket free, whatever the order in which others do. (The ticket's addition is acquire and release: it hands on what those
// with lower tickets have acquired from `room`.) What a server sends has its tickets before `done` counts the chunks it was sent for.
//
// Sleeping [V2]. The kernel ends when its host says so. Then a server and the handler decide who calls the host, each by writing a word
// of its own and reading the other's, with a full fence in between:
//
//   server that leaves: state = asleep; fence; look: has something arrived? then call      handler: published; fence; state == asleep? then call
//
// so at least one sees the other. `called` keeps all but the first from calling.
#pragma once
#include "lib/base/peer_ring.hpp"
#include "lib/base/turn.hpp"

namespace gravel {

// The end [V4], on a GPU (test/models/hold.pml). Server 0 decides, as the resolver's block 0 does, so that the kernel ends even while threads of the host wait for all kernels,
// in cudaFree for example. What the host wants it writes to its own memory: `hold` is a new number for each hold, and a kernel that has answered
// it in `hold_seen` stays until the word changes. The host starts kernels that send only then; one that ended before it is started again.

/// Of one server; in device memory, zeroed but for `room`. Lasts from one kernel to the next.
struct service_server {
  ring_line near;                    ///< its tickets; kernels'
  alignas(64) uint64_t far_tickets;  ///< handlers'
  uint64_t room;                     ///< chunks of the far ring that are free and not claimed; may be below 0 for a moment
  alignas(64) uint64_t state;        ///< written by the server, and by who calls
  alignas(64) uint64_t near_done;    ///< chunks of each ring that it has worked on: the ticket that it waits for. The server's
  uint64_t far_done;
  static constexpr uint64_t asleep = 0, awake = 1, called = 2;

  /// Of both rings. On the device.
  GRAVEL_BOTH uint64_t tickets() const { return load_relaxed<scope::device>(&near.tickets) + load_relaxed<scope::device>(&far_tickets); }
  GRAVEL_BOTH uint64_t applied() const { return load_acquire<scope::device>(&near_done) + load_acquire<scope::device>(&far_done); }
};
static_assert(sizeof(service_server) == 256);

/// Of one kernel, in device memory. The host clears it before each launch.
struct service_life {
  uint64_t resident;  ///< blocks that have started
  uint64_t stop;      ///< not 0: leave. GPU: written by server 0; CPU backend: by the host
};

/// Host memory that kernels reach.
struct alignas(64) service_mail {
  uint64_t bell;                  ///< any change: there is something for a service that may sleep
  alignas(64) uint64_t resident;  ///< number of the launch whose blocks have all started [V3]
  uint64_t hold_seen;             ///< the last hold that server 0 has seen [V4]
  alignas(64) uint64_t hold;      ///< GPU: the host's, read by server 0. 0: end after your quantum; else stay [V4]; `leave`: end now
  uint64_t quantum_ns;            ///< the same
  static constexpr uint64_t leave = ~0ull;
};

/// How many, and how large.
struct service_shape {
  uint32_t servers, chunks, chunk_messages, message_bytes;
  static constexpr uint32_t most_servers = 256, most_chunks = 1u << 20, least_chunk_messages = 32, most_chunk_messages = 1024;

  GRAVEL_BOTH uint32_t chunk_units() const {
    return (chunk_messages * message_bytes + uint32_t{sizeof(unit)} - 1) / uint32_t{sizeof(unit)};
  }
  GRAVEL_BOTH uint64_t slots_bytes() const { return chunks * ((device_ring::chunk_bytes(chunk_units()) + 63) / 64 * 64); }
  /// Both rings of a server.
  GRAVEL_BOTH uint64_t server_bytes() const { return 2 * slots_bytes(); }
  /// All device memory of a service at one PE.
  GRAVEL_BOTH uint64_t bytes() const { return servers * (sizeof(service_server) + server_bytes()); }
  bool operator==(const service_shape&) const = default;
};

/// A service as kernels, handlers and its servers see it: plain data.
struct service_view {
  char* memory;  ///< shape.bytes(): [server] service_server; [server] near slots, far slots
  service_mail* mail;
  service_shape shape;

  GRAVEL_BOTH service_server& server(uint32_t s) const { return reinterpret_cast<service_server*>(memory)[s]; }
  GRAVEL_BOTH device_ring near(uint32_t s) const { return {slots(s), nullptr, shape.chunks, padded_units()}; }
  GRAVEL_BOTH device_ring far(uint32_t s) const { return {slots(s) + shape.slots_bytes(), nullptr, shape.chunks, padded_units()}; }

 private:
  /// Chunks begin on lines of their own.
  GRAVEL_BOTH uint32_t padded_units() const { return (shape.chunk_units() + 3) / 4 * 4; }
  GRAVEL_BOTH char* slots(uint32_t s) const { return memory + shape.servers * sizeof(service_server) + s * shape.server_bytes(); }
};

/// Kernels: may the holder of `ticket` write into the near ring?
GRAVEL_BOTH bool near_is_free(const service_server& s, uint64_t ticket, uint32_t chunks) {
  return slot_is_free(ticket, ring<scope::device>::read_done(&s.near_done), chunks);  // [P2]
}

/// Takes a chunk of a far ring if one is free. `none`: there is no room. After a ticket, publish() must follow. Thread scope: lane.
constexpr uint64_t no_service_ticket = ~0ull;
GRAVEL_BOTH uint64_t claim_far(service_server& s) {
  if (static_cast<int64_t>(fetch_add_acq_rel<scope::device>(&s.room, ~uint64_t{0})) > 0)  // [V1]
    return fetch_add_acq_rel<scope::device>(&s.far_tickets, uint64_t{1});
  fetch_add<scope::device>(&s.room, uint64_t{1});
  return no_service_ticket;
}

/// Calls the host if this server sleeps and nobody else has called; what the caller published is seen by it or by the next kernel [V2].
/// Thread scope: lane.
GRAVEL_BOTH void wake_server(const service_view& view, service_server& s) {
  full_fence();
  if (load_relaxed<scope::device>(&s.state) != service_server::asleep ||
      !compare_swap_acquire<scope::device>(&s.state, service_server::asleep, service_server::called))
    return;
#if GRAVEL_ON_GPU
  store_release(&view.mail->bell, globaltimer_ns());  // nothing is added to host memory from a GPU
#else
  fetch_add_release<scope::system>(&view.mail->bell, uint64_t{1});
#endif
}

}  // namespace gravel
