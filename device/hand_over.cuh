// Hands over what a block sender has gathered and sorted. Rows for peers go into the rings in the peers' memory, all
// others into slots of this PE's queue.
#pragma once
#include "device/outbox.cuh"
#include "device/send.cuh"

namespace gravel::detail {

/// The kinds of messages that a block has sent so far, numbered. In shared memory.
struct kind_table {
  static constexpr uint32_t most = 16;
  uint64_t bits[most];  ///< row_kind::bits; 0: none yet. Lanes set the first one that is 0, so those in use come first

  /// Thread scope: one lane.
  GRAVEL_DEVICE void begin() {
    for (uint64_t& b : bits) b = 0;
  }
  /// Returns the number of a kind, and gives it one if it has none; `most`: there are too many kinds. Thread scope:
  /// lane, divergent.
  GRAVEL_DEVICE uint32_t number_of(const row_kind& kind) {
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (uint32_t k = 0; k < most; ++k) {
      uint64_t there = load_relaxed<scope::shared>(&bits[k]);
      if (there == 0 && !compare_swap_acquire<scope::shared>(&bits[k], uint64_t{0}, kind.bits()))
        there = load_relaxed<scope::shared>(&bits[k]);
      if (there == 0 || there == kind.bits()) return k;
    }
    return most;
  }
  /// As number_of(), for an update of a word of the heap: a kind in a window that has the word. `kind` is in window 0.
  /// `is_large`: as of heap_window::around(). Sets `window`, if the kind has a number.
  GRAVEL_DEVICE uint32_t number_of(const row_kind& kind, uint64_t word, bool is_large, uint32_t* window) {
    const row_kind wanted = kind.in_window(heap_window::around(word, is_large));
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (uint32_t k = 0; k < most; ++k) {
      uint64_t there = load_relaxed<scope::shared>(&bits[k]);
      if (there == 0) {
        compare_swap_acquire<scope::shared>(&bits[k], uint64_t{0}, wanted.bits());
        there = load_relaxed<scope::shared>(&bits[k]);
      }
      const row_kind found = row_kind::of_bits(there);
      if (!found.is_in_a_window_as(kind) || !heap_window::has(found.window(), word)) continue;
      *window = found.window();
      return k;
    }
    return most;
  }
  GRAVEL_DEVICE uint32_t size() const {
    uint32_t n = 0;
    while (n < most && load_relaxed<scope::shared>(&bits[n])) ++n;
    return n;
  }
};

/// The key by which messages are sorted: number of the kind, then sink.
struct message_key {
  uint32_t sink_bits;
  GRAVEL_BOTH static message_key of_pes(uint32_t n_pes) {
    uint32_t bits = 1;
    while ((sink_of(n_pes, sink_kind::device) - 1) >> bits) ++bits;
    return {bits};
  }
  GRAVEL_BOTH uint32_t of(uint32_t kind, uint32_t sink) const { return kind << sink_bits | sink; }
  GRAVEL_BOTH uint32_t kind_in(uint32_t key) const { return key >> sink_bits; }
  GRAVEL_BOTH uint32_t sink_in(uint32_t key) const { return key & ((1u << sink_bits) - 1); }
  /// Number of bits of a key if there are `kinds` kinds.
  GRAVEL_BOTH uint32_t bits(uint32_t kinds) const {
    uint32_t more = 0;
    while (kinds > 1u << more) ++more;
    return sink_bits + more;
  }
};

/// Messages sorted by key, in shared memory. Each message begins at a unit of the buffer.
struct sorted_messages {
  const unit* buffer;
  const uint32_t* key;        ///< by position in the buffer, at each message's first unit
  const uint16_t* order;      ///< positions of messages, sorted by key
  const uint16_t* row_first;  ///< index into `order` of each row's first message
  uint32_t n_rows, n_messages;
  message_key keys;
  const kind_table* kinds;

  GRAVEL_DEVICE uint32_t first_of(uint32_t r) const { return row_first[r]; }
  GRAVEL_DEVICE uint32_t end_of(uint32_t r) const { return r + 1 < n_rows ? row_first[r + 1] : n_messages; }
  GRAVEL_DEVICE uint32_t sink_of_row(uint32_t r) const { return keys.sink_in(key[order[row_first[r]]]); }
  GRAVEL_DEVICE row_kind kind_of_row(uint32_t r) const {
    return row_kind::of_bits(kinds->bits[keys.kind_in(key[order[row_first[r]]])]);
  }

  /// Copies `n` messages of one row, from number `first` on, to `to`, where a row may begin. Thread scope: a team of
  /// `size` lanes, of which this is `rank`.
  GRAVEL_DEVICE void copy(unit* to, uint32_t first, uint32_t n, uint32_t words, uint32_t rank, uint32_t size) const {
    if (words % 4 == 0) copy_pieces<4>(to, first, n, words, rank, size);
    else if (words % 2 == 0) copy_pieces<2>(to, first, n, words, rank, size);
    else copy_pieces<1>(to, first, n, words, rank, size);
  }

 private:
  template <uint32_t WORDS>
  GRAVEL_DEVICE void copy_pieces(unit* to, uint32_t first, uint32_t n, uint32_t words, uint32_t rank,
                                 uint32_t size) const {
    const row_units row(first, n, words);
    for (uint32_t i = rank; i < row.units; i += size) store_unit(to + i, unit_of<WORDS>(row, i));
  }

 public:
  /// Some messages of a row, and the numbers by which the messages of a unit are found.
  struct row_units {
    uint32_t first, n, words, units;
    uint32_t inverse;  ///< 2^20 / pieces of a message, to divide by it: exact as long as pieces * each < 2^20
    GRAVEL_DEVICE row_units(uint32_t begin = 0, uint32_t messages = 0, uint32_t of_message = 1)
        : first(begin), n(messages), words(of_message) {
      uint32_t each = words;
      if (words % 4 == 0) each = words / 4;
      else if (words % 2 == 0) each = words / 2;
      inverse = ((1u << 20) + each - 1) / each;
      units = (n * words + row_kind::words_of_unit - 1) / row_kind::words_of_unit;
    }
  };
  /// Returns unit `i` of these messages. WORDS: words of the pieces in which messages are read.
  template <uint32_t WORDS>
  GRAVEL_DEVICE unit unit_of(const row_units& row, uint32_t i) const {
    constexpr uint32_t of_unit = 4 / WORDS;
    const uint32_t each = row.words / WORDS, all = row.n * each;
    uint32_t w[4] = {};
    GRAVEL_UNROLL
    for (uint32_t p = 0; p < of_unit; ++p) {
      const uint32_t piece = i * of_unit + p, message = static_cast<uint32_t>(uint64_t{piece} * row.inverse >> 20);
      if (piece >= all) break;
      const uint32_t* const at = words_at(&buffer[order[row.first + message]]) + (piece - message * each) * WORDS;
      uint32_t read[WORDS];
      load_message(at, read);
      for (uint32_t k = 0; k < WORDS; ++k) w[p * WORDS + k] = read[k];
    }
    return {{w[0] | uint64_t{w[1]} << 32, w[2] | uint64_t{w[3]} << 32}};
  }
  GRAVEL_DEVICE unit unit_of(const row_units& row, uint32_t i) const {
    if (row.words % 4 == 0) return unit_of<4>(row, i);
    if (row.words % 2 == 0) return unit_of<2>(row, i);
    return unit_of<1>(row, i);
  }
  static_assert(4096 * max_small_units * max_compact_words < 1u << 20);
};

/// Pushes the rows for peers into their rings. Rank 0 claims and publishes, one chunk after the other. A team that
/// waited for one chunk while it holds others could block the team for which it waits (test/models/peer_claims.pml).
/// Thread scope: the team of `size` lanes that `sync` synchronizes.
template <class Sync>
GRAVEL_DEVICE void hand_over_to_peers(const gravel_t& g, const sorted_messages& m, uint64_t* ticket, uint32_t rank,
                                      uint32_t size, Sync sync) {
  for (uint32_t r = 0; r < m.n_rows; ++r) {
    const peer_link* link = ring_to(g, m.sink_of_row(r));
    if (!link) continue;
    const row_kind kind = m.kind_of_row(r);
    const uint32_t room = link->ring.chunk_units * row_kind::words_of_unit / kind.words, end = m.end_of(r);
    for (uint32_t first = m.first_of(r); first < end; first += room) {
      const uint32_t n = end - first < room ? end - first : room;
      if (rank == 0) *ticket = claim_chunk(*link);
      sync();
      const uint64_t claimed = *ticket;
      m.copy(link->ring.payload(link->ring.chunk(claimed)), first, n, kind.words, rank, size);
      sync();
      if (rank != 0) continue;
      link->ring.publish(claimed, {kind, sink_of(link->pe, sink_kind::device), n});
      count_published(g.counters, link->pe == g.my_pe, n);
      if (claimed % 64 == 0) ring_doorbell(*link);
    }
  }
}

/// Writes the other rows into as many slots as they need, mostly one. Rank 0 claims and publishes. It calls copied()
/// once, when all messages have been read, those for peers too. This is before it publishes the last slot, since
/// publishing waits until the bytes of the slot have arrived. Thread scope: as of hand_over_to_peers().
template <class Sync, class Copied>
GRAVEL_DEVICE void hand_over_to_queue(const gravel_t& g, const sorted_messages& m, uint64_t* ticket, uint32_t rank,
                                      uint32_t size, Sync sync, Copied copied) {
  const queue& q = g.block;
  uint32_t r = 0, first = 0;  // next row, and the next message of it
  const auto skip_peers = [&] {
    while (r < m.n_rows && ring_to(g, m.sink_of_row(r))) first = m.end_of(r++);
  };
  skip_peers();
  if (r == m.n_rows) {
    sync();
    if (rank == 0) copied();
  }
  while (r < m.n_rows) {
    if (rank == 0) *ticket = q.claim();
    sync();
    const uint64_t claimed = *ticket;
    slot_header* slot = q.slot(claimed);
    // Each lane goes through all rows of the slot, and stores its units on the way. So neighbouring units are stored
    // together, also where one row ends and the next begins.
    sorted_messages::row_units row;
    message_row entry{};                // row number `rank` of the slot
    uint32_t begin = 0, slot_rows = 0;  // unit at which `row` begins; rows so far
    bool is_full = false;
    const auto next_row = [&] {
      if (is_full || r == m.n_rows || slot_rows == q.shape.max_rows) return false;
      begin += row.units;
      const row_kind kind = m.kind_of_row(r);
      const uint32_t end = m.end_of(r), room = (q.shape.payload_units - begin) * row_kind::words_of_unit / kind.words;
      const uint32_t n = end - first < room ? end - first : room;
      is_full = first + n != end;
      row = {first, n, kind.words};
      if (n == 0) return false;
      // Entries of the table lie beside each other, too: the lane whose rank is the number of a row keeps its entry
      // until all rows are known.
      if (slot_rows == rank) entry = {kind, m.sink_of_row(r), n};
      else if (rank == 0 && slot_rows >= size) store_row(&q.rows(slot)[slot_rows], {kind, m.sink_of_row(r), n});
      ++slot_rows;
      first += n;
      if (!is_full) {
        ++r;
        skip_peers();
      }
      return true;
    };
    for (uint32_t i = rank;; i += size) {
      bool is_there = i < begin + row.units;
      while (!is_there && next_row()) is_there = i < begin + row.units;
      if (!is_there) break;
      store_unit(q.payload(slot) + i, m.unit_of(row, i - begin));
    }
    if (rank < slot_rows) store_row(&q.rows(slot)[rank], entry);
    sync();
    if (rank != 0) continue;
    if (r == m.n_rows) copied();
    q.publish(claimed, slot, slot_rows, begin + row.units);
  }
}

}  // namespace gravel::detail
