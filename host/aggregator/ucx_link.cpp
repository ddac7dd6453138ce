#include "host/aggregator/ucx_link.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel {

ucx_link::ucx_link(ucx_worker& worker, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys,
                   std::string peer, std::vector<const ucx_memory*> local)
    : local_(std::move(local)), endpoint_(worker, address, std::move(peer)) {
  for (const auto& key : keys) regions_.push_back(key.empty() ? ucx_remote_memory() : ucx_remote_memory(endpoint_, key));
}

void ucx_link::put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, done_callback done, void* argument) {
  const auto memory = std::find_if(local_.begin(), local_.end(), [&](const ucx_memory* m) { return m->contains(local, bytes); });
  if (memory == local_.end()) fail("a put of {} bytes at {}, which are not registered", bytes, local);
  endpoint_.put(local, bytes, **memory, regions_.at(region).address() + offset, regions_[region], done, argument);
}

void ucx_link::put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, uint32_t* puts) {
  // Of a connection that broke or goes away nothing is counted: who counts may be gone, too.
  const auto count_down = [](void* argument, ucs_status_t status) {
    if (status == UCS_OK) --*static_cast<uint32_t*>(argument);
  };
  put(local, bytes, region, offset, puts ? count_down : done_callback(nullptr), puts);
}

void ucx_link::put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, const plane_header& notice) {
  struct pending_notice {  // the callback's
    ucx_link& link;
    plane_header notice;
  };
  put(
      local, bytes, region, offset,
      [](void* argument, ucs_status_t status) {
        const std::unique_ptr<pending_notice> done(static_cast<pending_notice*>(argument));
        // The worker's error handler reports a failed endpoint; here only the notice must not go out.
        if (status == UCS_OK) done->link.send(done->notice, {});
      },
      new pending_notice{*this, notice});
}

void ucx_link::send(const plane_header& header, std::span<const std::byte> data) {
  if (endpoint_.failed()) return;
  endpoint_.send_am(plane_am, {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, data, nullptr, nullptr);
}

void ucx_link::send_packet(const plane_header& header, std::span<const std::byte> packet) {
  if (endpoint_.failed()) return;
  constexpr size_t small = 1024;  // copying costs less than a callback
  endpoint_.send_am(plane_am, {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, packet,
                    packet.size() > small ? [](void*, ucs_status_t) {} : done_callback(nullptr), nullptr);
}

}  // namespace gravel
