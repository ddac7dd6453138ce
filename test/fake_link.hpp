// A remote_link without a network. What is sent stays under way until the test delivers it, in an order that the real
// transport may produce too (transport/ucx_endpoint.hpp): short messages keep their order; a put's notice, and a
// message of several fragments, may be overtaken.
#pragma once
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "device/cpu/simt_block.hpp"
#include "host/aggregator/outbound.hpp"
#include "lib/base/error.hpp"

namespace gravel {

/// The tests' numbers: drawn from a seed, the same on every machine.
using random_numbers = simt::detail::random_numbers;

class fake_link final : public remote_link {
 public:
  static constexpr size_t fragment = 8192;

  struct delivery {
    plane_header header;
    std::vector<std::byte> data;
    const void* local = nullptr;  ///< of a put: copied when it arrives, as a network card would
    uint64_t bytes = 0;
    uint32_t region = 0;
    uint64_t offset = 0;
  };

  explicit fake_link(uint32_t packets, bool prefers_messages = false) : packets_(packets), prefers_messages_(prefers_messages) {}
  bool prefers_messages() const override { return prefers_messages_; }

  void put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, const plane_header& notice) override {
    std::lock_guard lock(mutex_);
    check_credit(notice);
    pending_.push_back({notice, {}, local, bytes, region, offset});
  }
  void send(const plane_header& header, std::span<const std::byte> data) override {
    std::lock_guard lock(mutex_);
    if (header.word == plane_word::packet) check_credit(header);
    pending_.push_back({header, {data.begin(), data.end()}});
  }

  bool empty() {
    std::lock_guard lock(mutex_);
    return pending_.empty();
  }
  /// Takes the next thing to arrive: the oldest, or one that may overtake it. False: nothing is under way.
  bool take(random_numbers& draw, delivery& out) {
    std::lock_guard lock(mutex_);
    if (pending_.empty()) return false;
    size_t chosen = draw.below(static_cast<uint32_t>(pending_.size()));
    if (in_order(pending_[chosen]))
      for (chosen = 0; !in_order(pending_[chosen]);) ++chosen;
    out = std::move(pending_[chosen]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return true;
  }
  /// The other end's credits have come back over the opposite link.
  void credit(const plane_header& c) {
    std::lock_guard lock(mutex_);
    freed_[c.sink] = c.a;
  }

 private:
  static bool in_order(const delivery& d) { return !d.local && d.data.size() <= fragment; }
  /// Never more than `packets` packets of a channel beyond what the sender was told is free.
  void check_credit(const plane_header& h) {
    if (h.sequence >= freed_[h.sink] + packets_)
      fail("packet {} for sink {} left without a credit: {} are freed", h.sequence, h.sink, freed_[h.sink]);
  }

  std::mutex mutex_;
  uint32_t packets_;
  bool prefers_messages_;
  std::deque<delivery> pending_;
  std::map<uint32_t, uint64_t> freed_;
};

}  // namespace gravel
