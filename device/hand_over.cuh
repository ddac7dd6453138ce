// Handing over what a block sender has gathered and sorted: rows for peers go into the rings in their memory, the
// others into slots of this PE's queue.
#pragma once
#include "device/outbox.cuh"
#include "device/send.cuh"

namespace gravel {

/// What messages are sorted by.
GRAVEL_BOTH constexpr uint32_t key_of(uint32_t sink, uint32_t units) { return sink << 2 | (units - 1); }
static_assert(max_small_units <= 4 && sink_of(max_pes, sink_kind::device) <= ~0u >> 2);

/// Messages sorted by key, in shared memory.
struct sorted_messages {
  const unit* buffer;
  const uint32_t* key;        ///< by position in the buffer, at each message's first unit
  const uint16_t* order;      ///< positions of messages, sorted by key
  const uint16_t* row_first;  ///< index into `order` of each row's first message
  uint32_t n_rows, n_messages;

  GRAVEL_DEVICE uint32_t first_of(uint32_t r) const { return row_first[r]; }
  GRAVEL_DEVICE uint32_t end_of(uint32_t r) const { return r + 1 < n_rows ? row_first[r + 1] : n_messages; }
  GRAVEL_DEVICE uint32_t sink_of_row(uint32_t r) const { return key[order[row_first[r]]] >> 2; }
  GRAVEL_DEVICE uint32_t units_of_row(uint32_t r) const { return (key[order[row_first[r]]] & 3) + 1; }

  /// Copies messages first ... first + n, of one row. Thread scope: a team of `size` lanes, of which this is `rank`.
  GRAVEL_DEVICE void copy(unit* to, uint32_t first, uint32_t n, uint32_t units, uint32_t rank, uint32_t size) const {
    // Lanes beside each other store units beside each other: over PCIe and NVLink half a sector costs as much as a whole one.
    const uint32_t log2 = units == 1 ? 0 : units == 2 ? 1 : 2;
    if (units == 1u << log2) {
      for (uint32_t i = rank; i < n << log2; i += size)
        store_unit(to + i, load_unit(&buffer[order[first + (i >> log2)] + (i & (units - 1))]));
    } else {
      for (uint32_t i = rank; i < n * units; i += size) store_unit(to + i, load_unit(&buffer[order[first + i / units] + i % units]));
    }
  }
};

/// Pushes the rows for peers into their rings. Thread scope: the team of `size` lanes that `sync` synchronizes; rank 0
/// claims and publishes. One chunk after the other: a team that held several while it waits for one of them could hold
/// up the team that it waits for (test/models/peer_claims.pml).
template <class Sync>
GRAVEL_DEVICE void hand_over_to_peers(const gravel_t& g, const sorted_messages& m, uint64_t* ticket, uint32_t rank, uint32_t size,
                                      Sync sync) {
  for (uint32_t r = 0; r < m.n_rows; ++r) {
    const peer_link* link = ring_to(g, m.sink_of_row(r));
    if (!link) continue;
    const uint32_t units = m.units_of_row(r), room = link->ring.chunk_units / units, end = m.end_of(r);
    for (uint32_t first = m.first_of(r); first < end; first += room) {
      const uint32_t n = end - first < room ? end - first : room;
      if (rank == 0) *ticket = claim_chunk(*link);
      sync();
      const uint64_t claimed = *ticket;
      m.copy(link->ring.payload(link->ring.chunk(claimed)), first, n, units, rank, size);
      sync();
      if (rank != 0) continue;
      link->ring.publish(claimed, n, units, link->pe);
      count_published(g, link->pe, n);
      if (claimed % 64 == 0) ring_bell(*link);
    }
  }
}

/// Writes the other rows into as many slots as they need (mostly one). Thread scope: as above; rank 0 claims and
/// publishes.
template <class Sync>
GRAVEL_DEVICE void hand_over_to_queue(const gravel_t& g, const sorted_messages& m, uint64_t* ticket, uint32_t rank, uint32_t size,
                                      Sync sync) {
  const queue& q = g.block;
  uint32_t r = 0, first = 0;  // next row, and its next message
  const auto skip_peers = [&] {
    while (r < m.n_rows && ring_to(g, m.sink_of_row(r))) first = m.end_of(r++);
  };
  for (skip_peers(); r < m.n_rows; skip_peers()) {
    if (rank == 0) *ticket = q.claim();
    sync();
    const uint64_t claimed = *ticket;
    slot_header* slot = q.slot(claimed);
    uint32_t filled = 0, slot_rows = 0;
    while (r < m.n_rows && slot_rows < q.shape.max_rows) {
      const uint32_t end = m.end_of(r), units = m.units_of_row(r);
      const uint32_t room = (q.shape.payload_units - filled) / units;
      const uint32_t n = end - first < room ? end - first : room;
      if (n == 0) break;
      m.copy(q.payload(slot) + filled, first, n, units, rank, size);
      if (rank == 0) q.rows(slot)[slot_rows] = {m.sink_of_row(r), static_cast<uint16_t>(n), static_cast<uint16_t>(units)};
      filled += n * units;
      ++slot_rows;
      first += n;
      if (first != end) break;  // the slot is full
      ++r;
      skip_peers();
    }
    sync();
    if (rank == 0) q.publish(claimed, slot, slot_rows, filled);
  }
}

}  // namespace gravel
