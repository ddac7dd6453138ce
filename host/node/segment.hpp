// The segment of a PE: one memfd that the PE and its node's aggregator map. Both compute its layout in the same way:
//
//   [landing slots][pe_control][collectives: data in, data out][queue 0: control, slots] ... [queue 4][done words]
//   [messages to each PE]
//
// The memory that other nodes write comes first, so that nodes of the same machine can map it alone
// (transport/ucx_memory.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "host/node/collective_call.hpp"
#include "host/node/sealed_memory.hpp"
#include "lib/base/device_error.hpp"
#include "lib/base/landing.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/queue.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/topology.hpp"
#include "lib/base/wait_report.hpp"

namespace gravel::detail {

/// The producers of a queue. Handlers have queues of their own, which the aggregator always empties: what it cannot
/// send goes to its spill memory. So a receiver never waits for itself.
enum class queue_kind : uint32_t { kernel_warp, kernel_block, host, device_handler, host_handler, count };
constexpr uint32_t n_queue_kinds = static_cast<uint32_t>(queue_kind::count);
constexpr bool is_handler_queue(uint32_t kind) { return kind >= static_cast<uint32_t>(queue_kind::device_handler); }
const char* name_of(queue_kind);

/// All numbers that determine the layout. They must be equal at PE and aggregator, or the connection is refused.
struct segment_shape {
  uint64_t packet_size;
  uint32_t packets;  ///< per stream
  uint32_t streams;  ///< inbound streams per sink kind: source nodes * planes
  uint32_t n_planes;
  uint32_t n_pes;
  uint32_t slot_size, slots, warp_slots;
  uint32_t spare = 0;
  bool operator==(const segment_shape&) const = default;
  /// Name of the first field that differs; nullptr if none does.
  const char* difference(const segment_shape& other) const;

  queue_shape queue_shape_of(uint32_t kind) const;
  landing_shape landing() const { return {streams, packets, packet_size}; }
  /// Bytes of the landing slots of one sink kind, in whole pages.
  uint64_t landing_bytes() const;
  /// Bytes in which one plane counts the messages to each PE, in whole pages.
  uint64_t bytes_of_messages() const;
  /// Bytes for the data of one collective: at least 64 from each PE.
  uint64_t collective_bytes() const { return n_pes <= 1024 ? 65536 : 64 * uint64_t{n_pes}; }
};
/// The settings must have aggregator_threads resolved (not 0).
segment_shape make_segment_shape(const settings&, const topology&, uint32_t node);

/// One contribution to a collective, or its result. The PE writes the contribution (in), the aggregator the result
/// (out). One call of the program may take several collectives.
struct alignas(64) collective_words {
  uint64_t sequence;  ///< from 1; release by the writer, acquire by the reader [C1], [C2]
  collective_call call;
  uint64_t bytes;  ///< bytes of the data beside it (pe_segment::collective_in_data, collective_out_data)
  uint64_t sum[4];
  uint64_t least, most;
  uint64_t last;  ///< nonzero: the job ends after this one
  uint64_t spare[3];
};
static_assert(sizeof(collective_words) == 128);

/// Writes the sequence last: a reader that acquires it sees the other words, and all that was written before.
inline void publish(collective_words& shared, const collective_words& words) {
  std::memcpy(&shared.call, &words.call, sizeof(words) - offsetof(collective_words, call));
  store_release(&shared.sequence, words.sequence);
}

/// Plane p of the aggregator writes this, in the segment of the first PE of its node.
struct alignas(64) plane_counts {
  uint64_t taken;  ///< messages taken from the queues of all PEs of the node
  uint64_t acked;  ///< of these, messages known to be applied
  uint64_t spare[6];
};

constexpr uint32_t max_stats = 32;  ///< words of statistics per plane (host/node/stats.hpp)

/// What the PE's monitor writes for gravel-top each time it wakes: counts that only the PE can read. Nobody in the job
/// reads them, and each word is written by itself.
struct alignas(64) pe_report {
  uint64_t written_us;               ///< clock of the host when the others were written; 0: never
  uint64_t in_place, to_peers;       ///< messages that took the routes `self` and `peer`
  uint64_t tickets[n_queue_kinds];   ///< slots claimed so far
  uint64_t ring_sent[max_peers];     ///< chunks in the ring to each peer, by rank
  uint64_t ring_applied[max_peers];  ///< of these, applied
  uint64_t long_wait_us;             ///< clock of the host when `long_wait` was written; 0: never
  uint64_t long_wait_writes;         ///< odd while `long_wait` is being written
  wait_subject long_wait;            ///< the kernels' last report (lib/base/wait_report.hpp)
};

struct pe_control {
  alignas(64) uint64_t magic;
  struct alignas(64) {
    uint64_t packets;
    uint64_t spare[7];
  } arrivals[2];                    ///< per sink kind; aggregator
  collective_words collective_in;   ///< PE
  collective_words collective_out;  ///< aggregator
  /// PE: waiting_word() of a collective in which it waits for PEs of its node without the aggregator; 0: none. The PE
  /// stores it with release order after its earlier work. The aggregator loads it with acquire order, and compares it
  /// with the calls of other PEs that have the same number.
  alignas(64) uint64_t waiting;
  device_error error;                              ///< device
  wait_report long_wait;                           ///< device; `read`: PE
  alignas(64) uint64_t aggregator_heartbeat;       ///< aggregator: changes while it runs
  alignas(64) uint64_t pe_heartbeat;               ///< PE: changes while it runs
  alignas(64) uint64_t attention;                  ///< PE: its kernels run, so messages may come any moment
  alignas(64) uint64_t peer_doorbells[max_peers];  ///< device: when it last rang for this peer, by rank
  alignas(64) uint64_t peer_doorbell;              ///< aggregator: changes when a peer has rung for this PE
  alignas(64) uint32_t domain[max_peers];          ///< PE: the PEs of its domain, by rank
  uint64_t domain_size;                            ///< PE, once, after `domain` [N1]; 0: its kernels ring no doorbell
  plane_counts counts[max_planes];                 ///< aggregator, plane p
  pe_report report;                                ///< PE
  alignas(64) uint64_t stats[max_planes][max_stats];  ///< aggregator, plane p
};

/// Maps a segment and computes where its parts lie. Movable; owns mapping and descriptor.
class pe_segment {
 public:
  static pe_segment create(const segment_shape&, uint32_t pe);
  /// Maps a segment that another process created. Takes the descriptor. Throws gravel::error if its size does not fit
  /// the shape, or may still change.
  static pe_segment attach(owned_descriptor, const segment_shape&, uint32_t pe);
  static uint64_t bytes_of(const segment_shape&);

  char* base() const { return memory_.at(); }
  uint64_t bytes() const { return memory_.bytes(); }
  int descriptor() const { return memory_.descriptor(); }
  const segment_shape& shape() const { return shape_; }
  pe_control* control() const { return control_; }
  /// The queue as a consumer needs it, without the producers' words.
  queue queue_of(uint32_t kind) const;
  landing landing_of(sink_kind kind) const;
  /// How many messages plane `plane` has taken from this PE's queues, by the PE that receives them. Written by that
  /// plane alone.
  std::span<uint64_t> messages_taken_by(uint32_t plane) const;
  /// Data of a contribution to a collective, and of its result. The writer of the words writes them.
  std::span<std::byte> collective_in_data() const;
  std::span<std::byte> collective_out_data() const;
  /// The landing slots of both sink kinds, at the beginning of the memfd. Aggregators of other nodes write only there.
  std::span<std::byte> landing_memory() const;

 private:
  pe_segment(sealed_memory, const segment_shape&, uint32_t pe);
  sealed_memory memory_;
  segment_shape shape_;
  uint32_t pe_;
  pe_control* control_;
};

}  // namespace gravel::detail
