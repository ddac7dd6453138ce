// Applies packets on the host: all packets on the CPU backend, those for host handlers on any backend.
#pragma once
#include <string>
#include <vector>

#include "device/apply.cuh"
#include "device/bulk.cuh"
#include "host/pe/backend.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel::detail {

/// Applies the packets of one landing ring in the order of each stream. Thread scope: one thread.
class host_receiver {
 public:
  host_receiver(const landing& ring, sink_kind kind, const gravel_t& handle)
      : ring_(ring), kind_(kind), handle_(handle), next_(ring.streams) {}

  /// One round over the streams: applies at most one packet of each. True if any has arrived.
  template <class Handlers>
  bool receive() {
    return receive([](const gravel_t& g, sink_kind kind, const unit* message, uint32_t units) {
      return apply_on_host<Handlers>(g, kind, message, units);
    });
  }
  /// One round, with a function that applies a message.
  template <class Apply>
  bool receive(Apply apply_message) {
    const uint64_t arrived = load_acquire(ring_.arrivals);  // [L1]
    if (arrived == taken_) return false;
    bool moved = false;
    profile_range range;
    for (uint32_t stream = 0; stream < ring_.streams && taken_ != arrived; ++stream) {
      const uint64_t sequence = next_[stream];
      if (!ring_.arrived(stream, sequence)) continue;
      range.begin("apply packets");
      const packet_header* packet = ring_.packet(stream, sequence);
      const packet_fault fault = read_packet(packet, ring_.packet_size, ring_.expectation(sequence), table_);
      if (fault != packet_fault::fine) fail_text(std::string("a corrupt packet arrived: ") + name_of(fault));
      apply(payload_of(packet), apply_message);
      packets_applied.fetch_add(1, std::memory_order_release);
      ring_.mark_done(stream, sequence);
      ++next_[stream];
      ++taken_;
      moved = true;
    }
    return moved;
  }

 private:
  /// Applies the packet whose header and table were read. Each message is copied, checked, and then applied from the
  /// copy: other processes may still write to the packet.
  template <class Apply>
  void apply(const unit* at, Apply apply_message) {
    for (uint32_t i = 0; i < table_.header.n_rows; ++i) {
      const message_row row = table_.rows[i];
      const uint32_t units = row.kind.units();
      if (!row.kind.is_wide()) {
        apply_compact(row, words_at(at), apply_message);
      } else if (units > max_am_units) {
        apply_bulk(at, units);  // alone in its row, as check_packet ensures
      } else {
        for (uint32_t m = 0; m < row.messages; ++m) {
          if (units == 1 && m + ahead < row.messages) prefetch(offset_of(at[m + ahead].word[0]));
          unit message[max_am_units];
          copy_once(message, at + m * units, units * sizeof(unit));
          if (units <= max_small_units || !is_bulk(op_of(message->word[0]))) apply_one(message, units, apply_message);
          else if (row.messages == 1) apply_bulk(at, units);
          else reject(message, message_fault::bad_size);
        }
      }
      at += row.units();
    }
  }

  /// Addresses are random, so their cache lines are fetched some messages ahead.
  static constexpr uint32_t ahead = 16;
  void prefetch(uint64_t offset) const {
    if (offset < handle_.heap_bytes) __builtin_prefetch(handle_.heap + offset, 1);
  }

  template <class Apply>
  void apply_compact(const message_row& row, const uint32_t* at, Apply apply_message) {
    const row_kind kind = row.kind;
    if (kind.operation == op::am) {
      for (uint32_t m = 0; m < row.messages; ++m) {
        unit whole[max_small_units];
        const uint32_t units = widen(kind, at + m * kind.words, whole);
        if (units > max_small_units) __builtin_unreachable();  // check_packet refuses such kinds
        apply_one(whole, units, apply_message);
      }
      return;
    }
    if (kind_ != sink_kind::device) reject(kind, 0, message_fault::bad_op);
    const auto type = static_cast<value_type>(kind.type);
    const uint64_t bytes = bytes_of(type), words_there = handle_.heap_bytes / bytes,
                   first = heap_window::begin(kind.window());
    const op o = kind.operation == op::inc ? op::add : kind.operation;
    const auto each = [&](auto&& update) {
      for (uint32_t m = 0; m < row.messages; ++m, at += kind.words) {
        if (m + ahead < row.messages) prefetch((first + at[ahead * kind.words]) * bytes);
        const uint64_t word = first + copy_once(*at);
        if (word >= words_there) reject(kind, word * bytes, message_fault::outside_heap);
        update(handle_.heap + word * bytes);
      }
    };
    if (kind.is_in_a_window_as(update_kind(op::inc, value_type::u64)))
      return each([](char* word) { add_in_place(reinterpret_cast<uint64_t*>(word), uint64_t{1}); });
    each([&](char* word) {
      uint64_t value = kind.words == 1 ? one_of(type) : at[1];
      if (kind.words > 2) value |= uint64_t{at[2]} << 32;
      apply_update(o, type, word, value);
    });
  }

  template <class Apply>
  void apply_one(const unit* message, uint32_t units, Apply apply_message) {
    const message_fault fault = apply_message(handle_, kind_, message, units);
    if (fault != message_fault::fine) reject(message, fault);
  }

  /// For a bulk message, and any other that is too large to copy: its first two units describe it, the rest is data.
  void apply_bulk(const unit* message, uint32_t units) {
    unit head[2];
    copy_once(head, message, sizeof(head));
    message_fault fault = check_message(head, units, handle_.heap_bytes, handle_.n_pes, handle_.n_cells);
    if (fault == message_fault::fine && (kind_ != sink_kind::device || !is_bulk(op_of(head->word[0]))))
      fault = message_fault::bad_op;
    if (fault == message_fault::fine) {
      const op o = op_of(head->word[0]);
      if (o == op::get_bulk) fault = answer_get_bulk(handle_, copy_team::alone(), head, 0, 1);
      else if (o == op::get_pieces) fault = answer_get_pieces(handle_, copy_team::alone(), head, message, 0, 1);
      else finish_bulk(handle_, copy_team::alone(), head, message);
    }
    if (fault != message_fault::fine) reject(head, fault);
  }

  [[noreturn]] void reject(const row_kind& kind, uint64_t offset, message_fault fault) const {
    const unit wide{{make_word0(kind.operation, kind.type, offset), 0}};
    reject(&wide, fault);
  }
  [[noreturn]] void reject(const unit* message, message_fault fault) const {
    const uint32_t node = table_.header.source_node;
    const uint64_t w0 = message->word[0];
    if (fault == message_fault::bad_handler)
      fail_text("an active message arrived from node " + std::to_string(node) + " whose handler (id " +
                std::to_string(handler_of(w0)) + ") is not in the list of gravel_init here, or takes other arguments");
    fail_text("a corrupt message arrived from node " + std::to_string(node) + ": " +
              gravel::detail::name_of(op_of(w0)) + " with " + gravel::detail::name_of(fault) + " (offset " +
              std::to_string(offset_of(w0)) + ")");
  }

  landing ring_;
  sink_kind kind_;
  gravel_t handle_;
  std::vector<uint64_t> next_;  ///< by stream: sequence of the packet to apply next
  uint64_t taken_ = 0;
  packet_table table_;  ///< of the current packet
};

}  // namespace gravel::detail
