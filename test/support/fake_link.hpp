// A remote_link without a network. What is sent stays under way until the test delivers it, in an order that the real
// transport may produce too (transport/ucx_endpoint.hpp): short messages keep their order; a put's notice, and a
// message of several fragments, may be overtaken.
#pragma once
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cpu/simt_block.hpp"
#include "host/aggregator/outbound.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

/// The tests' numbers: drawn from a seed, the same on every machine.
using random_numbers = simt::inner::random_numbers;

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
    uint32_t* puts = nullptr;  ///< of a put without a notice: to be counted down
    bool is_notice = true;
  };

  explicit fake_link(uint32_t packets, bool prefers_messages = false)
      : packets_(packets), prefers_messages_(prefers_messages) {}
  bool prefers_messages() const override { return prefers_messages_; }

  /// put() reads from slots before it returns, as where a processor copies.
  bool reads_at_once = false;

  void put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, uint32_t* puts) override {
    std::lock_guard lock(mutex_);
    pending_.push_back({{}, {}, local, bytes, region, offset, puts, false});
    if (!reads_at_once || !puts) return;
    delivery& d = pending_.back();
    d.data.assign(static_cast<const std::byte*>(local), static_cast<const std::byte*>(local) + bytes);
    d.local = d.data.data();
    --*std::exchange(d.puts, nullptr);
  }
  void put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset,
                      const plane_header& notice) override {
    std::lock_guard lock(mutex_);
    check_credit(notice);
    pending_.push_back({notice, {}, local, bytes, region, offset, nullptr, true});
  }
  void send(const plane_header& header, std::span<const std::byte> data) override {
    std::lock_guard lock(mutex_);
    if (header.kind == plane_message::packet) check_credit(header);
    pending_.push_back({header, {data.begin(), data.end()}, nullptr, 0, 0, 0, nullptr, true});
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
    // A notice arrives after all puts before it.
    if (pending_[chosen].local && pending_[chosen].is_notice)
      for (size_t i = 0; i < chosen; ++i)
        if (!pending_[i].is_notice) chosen = i;
    out = std::move(pending_[chosen]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return true;
  }
  /// A put has arrived; done() notifies its sender.
  void arrived(uint32_t* puts) {
    std::lock_guard lock(mutex_);
    if (puts) arrived_.push_back(puts);
  }
  /// The sender's progress(). False: nothing was done.
  bool done() {
    std::lock_guard lock(mutex_);
    for (uint32_t* puts : arrived_) --*puts;
    return !std::exchange(arrived_, {}).empty();
  }
  /// The other end's credits have come back over the opposite link.
  void credit(const plane_header& c) {
    std::lock_guard lock(mutex_);
    freed_[c.sink] = c.a;
  }

 private:
  static bool in_order(const delivery& d) { return !d.local && d.data.size() <= fragment; }
  /// Checks that a stream sends at most `packets` packets beyond the last credit that its sender has received.
  void check_credit(const plane_header& h) {
    if (h.sequence >= freed_[h.sink] + packets_)
      fail("packet {} for sink {} left without a credit: {} are freed", h.sequence, h.sink, freed_[h.sink]);
  }

  std::mutex mutex_;
  uint32_t packets_;
  bool prefers_messages_;
  std::deque<delivery> pending_;
  std::vector<uint32_t*> arrived_;  ///< of puts that are done
  std::map<uint32_t, uint64_t> freed_;
};

}  // namespace gravel::detail
