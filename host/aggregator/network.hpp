// An aggregator's ways to those of the other nodes: what it registers with UCX, a worker and links for each plane, and how they
// come to know each other.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "host/aggregator/ucx_link.hpp"
#include "host/node/hello.hpp"
#include "transport/ucx_context.hpp"

namespace gravel {

/// One plane's. Thread scope: one thread at a time.
class plane_network {
 public:
  using receiver = ucx_worker::am_handler;
  /// `staging`: from where packets are put, besides from `slots`.
  plane_network(ucx_context&, std::span<char> staging, const std::vector<std::unique_ptr<ucx_memory>>& slots, uint32_t n_nodes);
  /// Called within progress() for each message of another node's plane. To be set before the first progress().
  void on_message(receiver receive, void* context) { receive_ = receive, receiver_context_ = context; }
  std::vector<std::byte> address() const { return worker_.address(); }
  void connect(uint32_t node, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys);

  /// By node; nullptr for those that are not connected, the own one among them.
  std::vector<remote_link*> links() const;
  bool progress() { return worker_.progress(); }
  /// The connection that broke first, in words, which may be a consequence of something else; and since when (now_us()).
  const std::string& lost() const { return lost_; }
  uint64_t lost_at() const { return lost_at_; }
  void expect_disconnects() { worker_.expect_disconnects(); }
  /// Delivers what was sent last, an abort above all. Errors are logged.
  void close(std::chrono::milliseconds limit);

 private:
  // In this order, so that links end before their worker, and it before what is registered.
  ucx_memory staging_;
  std::vector<const ucx_memory*> local_;
  ucx_worker worker_;
  std::vector<std::unique_ptr<ucx_link>> links_;
  receiver receive_ = nullptr;
  void* receiver_context_ = nullptr;
  std::string lost_;
  uint64_t lost_at_ = 0;
};

class network {
 public:
  /// `staging`: of each plane, in as many pieces; `transit`: packets for others that pass through this node, may be empty.
  network(const node_setup&, const std::vector<std::span<char>>& staging, std::span<char> transit);
  plane_network& of_plane(uint32_t index) { return *planes_[index]; }
  /// What other nodes must know.
  wiring mine() const;
  /// `all`: by node. Throws gravel::error.
  void connect(const all_wirings& all);

 private:
  const node_setup& setup_;
  ucx_context context_;
  std::vector<std::unique_ptr<ucx_memory>> landing_, slots_;  ///< slots: of the PEs' block queues
  std::unique_ptr<ucx_memory> transit_;
  std::vector<std::unique_ptr<plane_network>> planes_;
};

}  // namespace gravel
