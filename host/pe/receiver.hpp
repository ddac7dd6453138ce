// Applies packets on the host: all of them on the CPU backend, host handlers' on any.
#pragma once
#include <string>
#include <vector>

#include "device/apply.cuh"
#include "device/bulk.cuh"
#include "host/pe/backend.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel {

/// Applies the packets of one landing ring in the order of each channel. Thread scope: one thread.
class host_receiver {
 public:
  host_receiver(const landing& ring, sink_kind kind, const gravel_t& handle)
      : ring_(ring), kind_(kind), handle_(handle), next_(ring.channels) {}

  /// One round over the channels, at most one packet each. True if any arrived.
  template <class Handlers>
  bool receive() {
    return receive([](const gravel_t& g, sink_kind kind, const unit* message, uint32_t units) {
      return apply_on_host<Handlers>(g, kind, message, units);
    });
  }
  /// The same, where only a pointer to that function is known.
  template <class Apply>
  bool receive(Apply apply_message) {
    const uint64_t arrived = load_acquire(ring_.arrivals);  // [L1]
    if (arrived == taken_) return false;
    bool moved = false;
    profile_range range;
    for (uint32_t channel = 0; channel < ring_.channels && taken_ != arrived; ++channel) {
      const uint64_t sequence = next_[channel];
      if (!ring_.arrived(channel, sequence)) continue;
      range.begin("apply packets");
      const packet_header* packet = ring_.packet(channel, sequence);
      const packet_fault fault = check_packet(packet, ring_.packet_size, ring_.expectation(sequence));
      if (fault != packet_fault::fine) fail_text(std::string("a corrupt packet arrived: ") + name_of(fault));
      apply(packet, apply_message);
      packets_applied.fetch_add(1, std::memory_order_release);
      ring_.mark_done(channel, sequence);
      ++next_[channel];
      ++taken_;
      moved = true;
    }
    return moved;
  }

 private:
  template <class Apply>
  void apply(const packet_header* packet, Apply apply_message) {
    const unit* at = payload_of(packet);
    for (uint32_t i = 0; i < packet->n_rows; ++i) {
      const message_row row = rows_of(packet)[i];
      const uint32_t units = row.kind.units();
      if (!row.kind.is_wide()) {
        apply_compact(*packet, row, words_at(at), apply_message);
      } else if (is_bulk_message(row.kind, words_at(at))) {
        if (row.messages != 1) reject(*packet, at, message_fault::bad_size);
        apply_bulk(*packet, at, units);
      } else {
        for (uint32_t m = 0; m < row.messages; ++m) {
          if (units == 1 && m + ahead < row.messages) prefetch(offset_of(at[m + ahead].word[0]));
          apply_one(*packet, at + m * units, units, apply_message);
        }
      }
      at += row.units();
    }
  }

  /// Random addresses: lines are fetched some messages ahead.
  static constexpr uint32_t ahead = 16;
  void prefetch(uint64_t offset) const {
    if (offset < handle_.heap_bytes) __builtin_prefetch(handle_.heap + offset, 1);
  }

  template <class Apply>
  void apply_compact(const packet_header& packet, const message_row& row, const uint32_t* at, Apply apply_message) {
    const row_kind kind = row.kind;
    if (kind.operation == op::am) {
      for (uint32_t m = 0; m < row.messages; ++m) {
        unit whole[max_small_units];
        const uint32_t units = widen(kind, at + m * kind.words, whole);
        if (units > max_small_units) __builtin_unreachable();  // check_packet has refused such kinds
        apply_one(packet, whole, units, apply_message);
      }
      return;
    }
    if (kind_ != sink_kind::device) reject(packet, kind, 0, message_fault::bad_op);
    const auto type = static_cast<value_type>(kind.type);
    const uint64_t bytes = bytes_of(type), words_there = handle_.heap_bytes / bytes;
    const op o = kind.operation == op::inc ? op::add : kind.operation;
    if (kind == update_kind(op::inc, value_type::u64)) {
      auto* const heap = reinterpret_cast<uint64_t*>(handle_.heap);
      for (uint32_t m = 0; m < row.messages; ++m) {
        if (m + ahead < row.messages) prefetch(at[m + ahead] * bytes);
        if (at[m] >= words_there) reject(packet, kind, at[m] * bytes, message_fault::outside_heap);
        add_in_place(heap + at[m], uint64_t{1});
      }
      return;
    }
    for (uint32_t m = 0; m < row.messages; ++m) {
      const uint32_t* const message = at + m * kind.words;
      if (m + ahead < row.messages) prefetch(message[ahead * kind.words] * bytes);
      if (message[0] >= words_there) reject(packet, kind, message[0] * bytes, message_fault::outside_heap);
      const uint64_t value = kind.words == 1 ? one_of(type) : kind.words == 2 ? message[1] : message[1] | uint64_t{message[2]} << 32;
      apply_update(o, type, handle_.heap + message[0] * bytes, value);
    }
  }

  template <class Apply>
  void apply_one(const packet_header& packet, const unit* message, uint32_t units, Apply apply_message) {
    const message_fault fault = apply_message(handle_, kind_, message, units);
    if (fault != message_fault::fine) reject(packet, message, fault);
  }

  void apply_bulk(const packet_header& packet, const unit* message, uint32_t units) {
    message_fault fault = check_message(message, units, handle_.heap_bytes, handle_.n_pes, handle_.n_cells);
    if (fault == message_fault::fine && kind_ != sink_kind::device) fault = message_fault::bad_op;
    if (fault != message_fault::fine) reject(packet, message, fault);
    if (op_of(message->word[0]) != op::get_bulk) return finish_bulk(handle_, copy_team::alone(), message);
    const unit head[2] = {message[0], message[1]};
    fault = answer_get_bulk(handle_, copy_team::alone(), head, 0, 1);
    if (fault != message_fault::fine) reject(packet, message, fault);
  }

  [[noreturn]] void reject(const packet_header& packet, const row_kind& kind, uint64_t offset, message_fault fault) const {
    const unit wide{{make_word0(kind.operation, kind.type, offset), 0}};
    reject(packet, &wide, fault);
  }
  [[noreturn]] void reject(const packet_header& packet, const unit* message, message_fault fault) const {
    const uint64_t w0 = message->word[0];
    if (fault == message_fault::bad_handler)
      fail_text("an active message arrived from node " + std::to_string(packet.source_node) + " whose handler (id " +
                std::to_string(handler_of(w0)) + ") was not given to gravel_init here, or takes other arguments");
    fail_text("a corrupt message arrived from node " + std::to_string(packet.source_node) + ": " + gravel::name_of(op_of(w0)) + " with " +
              gravel::name_of(fault) + " (offset " + std::to_string(offset_of(w0)) + ")");
  }

  landing ring_;
  sink_kind kind_;
  gravel_t handle_;
  std::vector<uint64_t> next_;  ///< by channel: sequence of the packet to apply next
  uint64_t taken_ = 0;
};

}  // namespace gravel
