// A remote_link over UCX: registered memory, endpoints, remote keys. One per plane and other node.
#pragma once
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "transport/ucx_endpoint.hpp"

namespace gravel {

constexpr unsigned plane_am = 1;  ///< active message id of planes' words

class ucx_link final : public remote_link {
 public:
  /// `keys`: of the other node's regions: its PEs' landing memory in order, then its transit memory. `local`: from where may be put; those
  /// that are used most first.
  ucx_link(ucx_worker&, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys, std::string peer,
           std::vector<const ucx_memory*> local);
  void put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, uint32_t* puts) override;
  void put_and_notify(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, const plane_header& notice) override;
  void send(const plane_header&, std::span<const std::byte> data) override;
  void send_packet(const plane_header&, std::span<const std::byte> packet) override;
  bool prefers_messages() const override { return endpoint_.prefers_messages(); }

 private:
  void put(const void* local, uint64_t bytes, uint32_t region, uint64_t offset, done_callback done, void* argument);
  // The endpoint comes last: it is destroyed first, and then calls back for every put that is still under way.
  std::vector<const ucx_memory*> local_;
  std::vector<ucx_remote_memory> regions_;
  ucx_endpoint endpoint_;
};

}  // namespace gravel
