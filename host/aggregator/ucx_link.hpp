// A remote_link over UCX: registered memory, endpoints, remote keys. One per plane and other node.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "host/node/clock.hpp"
#include "lib/base/error.hpp"
#include "transport/ucx_endpoint.hpp"

namespace gravel::detail {

constexpr unsigned plane_am = 1;  ///< id of the UCX active message between planes

class ucx_link final : public remote_link {
 public:
  /// `keys`: of the other node's regions: its PEs' landing memory in order, then its transit memory. `local`: memory
  /// from which puts may read; put the most used first.
  ucx_link(ucx_worker& worker, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys,
           std::string peer, std::vector<const ucx_memory*> local)
      : local_(std::move(local)), endpoint_(worker, address, std::move(peer)) {
    for (const auto& key : keys)
      regions_.push_back(key.empty() ? ucx_remote_memory() : ucx_remote_memory(endpoint_, key));
  }
  void put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, uint32_t* puts) override {
    // If the connection broke or is being closed, nothing is counted: the counter may be gone, too.
    const auto count_down = [](void* argument, ucs_status_t status) {
      if (status == UCS_OK) --*static_cast<uint32_t*>(argument);
    };
    if (!puts) put(local, bytes, region, offset, put_end::there, nullptr, nullptr);
    else if (put(local, bytes, region, offset, put_end::read, count_down, puts)) --*puts;
  }
  void put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset,
                      const plane_header& notice) override {
    struct pending_notice {  // owned by the callback
      ucx_link& link;
      plane_header notice;
    };
    put(
        local, bytes, region, offset, put_end::there,
        [](void* argument, ucs_status_t status) {
          const std::unique_ptr<pending_notice> done(static_cast<pending_notice*>(argument));
          // The worker's error handler reports a failed endpoint. Here the notice must not be sent, that is all.
          if (status == UCS_OK) done->link.send(done->notice, {});
        },
        new pending_notice{*this, notice});
  }
  void send(const plane_header& header, std::span<const std::byte> data) override {
    if (endpoint_.failed()) return;
    endpoint_.send_am(plane_am, {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, data, nullptr, nullptr);
  }
  void send_packet(const plane_header& header, std::span<const std::byte> packet) override {
    if (endpoint_.failed()) return;
    constexpr size_t small = 1024;  // copying costs less than a callback
    endpoint_.send_am(plane_am, {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, packet,
                      packet.size() > small ? [](void*, ucs_status_t) {} : done_callback(nullptr), nullptr);
  }
  bool prefers_messages() const override { return endpoint_.prefers_messages(); }
  /// Time spent in calls that put. It is estimated from every timed_puts-th call.
  uint64_t put_ns() const { return put_ns_; }

 private:
  bool put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, put_end end, done_callback done,
           void* argument) {
    const auto memory =
        std::find_if(local_.begin(), local_.end(), [&](const ucx_memory* m) { return m->contains(local, bytes); });
    if (memory == local_.end()) fail("a put of {} bytes at {}, which are not registered", bytes, local);
    const uint64_t begin = n_puts_++ % timed_puts ? 0 : now_ns();
    const bool ended = endpoint_.put(local, bytes, **memory, regions_.at(region).address() + offset, regions_[region],
                                     done, argument, end);
    if (begin) put_ns_ += (now_ns() - begin) * timed_puts;
    return ended;
  }
  // The endpoint comes last: it is destroyed first, and its destructor calls back for every put that is under way.
  std::vector<const ucx_memory*> local_;
  static constexpr uint64_t timed_puts = 16;
  uint64_t n_puts_ = 0, put_ns_ = 0;
  std::vector<ucx_remote_memory> regions_;
  ucx_endpoint endpoint_;
};

}  // namespace gravel::detail
