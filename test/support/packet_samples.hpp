// Valid packets, mutations of them, and pages that catch every access past their end: for packet_test and packet_fuzz.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/packet.hpp"
#include "test/support/rows.hpp"

namespace gravel::detail {

/// Appends as many of the messages as fit, and copies them. Returns how many.
inline uint32_t append_to(packet_writer& writer, uint32_t sink, const row_kind& kind, const uint32_t* from,
                          uint32_t messages) {
  const packet_writer::place to = writer.reserve(sink, kind, from, messages);
  if (to.messages) std::memcpy(to.at, from, to.messages * bytes_of(kind));
  return to.messages;
}

/// xorshift64*: the same numbers everywhere.
class random_bits {
 public:
  explicit random_bits(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(((*this)() >> 32) * n >> 32); }

 private:
  uint64_t state_;
};

/// Pages in front of one that may not be touched.
class guarded_pages {
 public:
  explicit guarded_pages(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    bytes_ = (bytes + page_ - 1) / page_ * page_;
    void* at = mmap(nullptr, bytes_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(static_cast<char*>(at) + bytes_, page_, PROT_NONE) != 0) std::abort();
    base_ = static_cast<char*>(at);
  }
  ~guarded_pages() { munmap(base_, bytes_ + page_); }
  guarded_pages(const guarded_pages&) = delete;
  size_t bytes() const { return bytes_; }
  /// Copies to the very end, as near as a header's alignment allows: what must not be read begins after it.
  const packet_header* at_end(const void* data, size_t n) {
    const size_t aligned = (n + alignof(packet_header) - 1) / alignof(packet_header) * alignof(packet_header);
    char* at = base_ + bytes_ - std::min(aligned, bytes_);
    std::memset(at, 0xee, aligned);
    if (n) std::memcpy(at, data, n);
    return reinterpret_cast<const packet_header*>(at);
  }
  /// Copies to the very end.
  std::span<const std::byte> bytes_at_end(std::span<const std::byte> data) {
    char* at = base_ + bytes_ - data.size();
    if (!data.empty()) std::memcpy(at, data.data(), data.size());
    return {reinterpret_cast<const std::byte*>(at), data.size()};
  }

 private:
  size_t page_, bytes_;
  char* base_;
};

/// A kind that some product code might send, large messages aside.
inline row_kind sample_kind(random_bits& draw) {
  switch (draw.below(4)) {
    case 0: return wide_kind(1 + draw.below(max_small_units));
    case 1: return am_kind(static_cast<uint32_t>(draw()), draw.below(compact_am_bytes + 1));
    default:
      for (;;) {
        const op o = update_ops[draw.below(std::size(update_ops))];
        const value_type type = value_types[draw.below(std::size(value_types))];
        if (takes_type(o, type))
          return update_kind(o, type).in_window(draw.below(2) ? draw.below(heap_window::last + 1) : 0);
      }
  }
}

/// Reads a valid packet as a receiver does: visits every word of every message by the table, and widens compact
/// messages. Ends the program if that would leave the packet.
inline packet_fault check_and_walk(const packet_header* p, uint64_t available, const packet_expectation& expect) {
  const packet_fault fault = check_packet(p, available, expect);
  if (fault != packet_fault::fine) return fault;
  const unit* at = payload_of(p);
  const char* end = reinterpret_cast<const char*>(p) + available;
  static volatile uint64_t sum;
  for (uint32_t s = 0; s < p->n_rows; ++s) {
    const message_row row = rows_of(p)[s];
    if (row.sink >= expect.n_sinks) std::abort();
    if (reinterpret_cast<const char*>(at) > end ||
        row.units() > static_cast<uint64_t>(reinterpret_cast<const unit*>(end) - at))
      std::abort();
    each_message(row, at, [](const unit* message, uint32_t units) {
      if (units == 0) std::abort();
      for (uint32_t u = 0; u < units; ++u) sum = sum + message[u].word[0] + message[u].word[1];
    });
    at += row.units();
  }
  return fault;
}

/// A valid packet for `sink` with random rows, as bytes.
inline std::vector<uint8_t> sample_packet(random_bits& draw, uint64_t packet_size, uint64_t sequence, uint32_t sink,
                                          uint32_t n_sinks) {
  alignas(64) static thread_local char memory[64 * 1024];
  packet_writer writer;
  writer.open(memory, packet_size);
  std::vector<unit> messages(256);
  for (unit& u : messages) u = {{draw(), draw()}};
  const bool transit = sink == transit_sink;
  for (uint32_t i = draw.below(transit ? max_packet_rows + 10 : 20); i > 0; --i) {
    const uint32_t to = transit ? draw.below(n_sinks) : sink;
    const uint32_t* const from = words_at(messages.data());
    if (draw.below(8) == 0) {  // as a bulk message, which never shares a row
      const uint64_t first = std::exchange(messages[0].word[0], static_cast<uint64_t>(op::put_bulk));
      append_to(writer, to, wide_kind(5 + draw.below(100)), from, 1);
      messages[0].word[0] = first;
    } else if (draw.below(8) == 0)
      append_to(writer, to, wide_kind(5 + draw.below(max_am_units - 4)), from, 1 + draw.below(6));
    else append_to(writer, to, sample_kind(draw), from, 1 + draw.below(transit ? 3 : 40));
  }
  const packet_header* p = writer.close(sequence, sink, 1, 0, draw.below(2));
  const auto* from = reinterpret_cast<const uint8_t*>(p);
  return {from, from + p->bytes};
}

/// One to four changes, mostly in header and table, where they do most harm; or a cut.
inline void mutate(std::vector<uint8_t>& bytes, random_bits& draw) {
  for (uint32_t i = 1 + draw.below(4); i > 0; --i) {
    if (bytes.empty()) return;
    const auto size = static_cast<uint32_t>(bytes.size());
    const uint32_t most[] = {64, std::min(size, 256u), size};
    const uint32_t at = draw.below(std::min(size, most[draw.below(3)]));
    switch (draw.below(7)) {
      case 0: bytes[at] = static_cast<uint8_t>(draw()); break;
      case 1: bytes[at] ^= static_cast<uint8_t>(1u << draw.below(8)); break;
      case 2: bytes[at] = draw.below(2) ? 0xff : 0; break;
      case 3: bytes[at] = static_cast<uint8_t>(bytes[at] + (draw.below(2) ? 1 : -1)); break;
      case 4: {  // a whole number of the header or table
        const uint32_t values[] = {0, 1, 2, 5, 59, 60, 61, 0xffff, 0x10000, 0x7fffffff, 0x80000000u, 0xffffffffu};
        const uint32_t value = values[draw.below(12)];
        if ((at & ~3u) + 4 <= size) std::memcpy(&bytes[at & ~3u], &value, 4);
        break;
      }
      case 5: {  // a row's kind by another one, which mostly is sound but for one byte
        const uint32_t row = sizeof(packet_header) + draw.below(8) * sizeof(message_row);
        uint64_t kind = sample_kind(draw).bits();
        if (draw.below(2)) kind ^= (draw() & 0xff) << 8 * draw.below(8);
        if (row + sizeof kind <= size) std::memcpy(&bytes[row], &kind, sizeof kind);
        break;
      }
      default: bytes.resize(draw.below(size + 1));
    }
  }
}

}  // namespace gravel::detail
