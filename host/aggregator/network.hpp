// The connections of an aggregator to those of the other nodes: memory registered with UCX, a worker and links for each
// plane, and how the aggregators learn about each other.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "host/aggregator/ucx_link.hpp"
#include "host/aggregator/wirings.hpp"
#include "host/node/clock.hpp"
#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "transport/ucx_context.hpp"

namespace gravel::detail {

/// Connections of one plane. Only one thread uses it at a time.
class plane_network {
 public:
  /// `staging`: memory from which packets are put. They are put from `slots`, too.
  plane_network(ucx_context& context, std::span<char> staging, const std::vector<std::unique_ptr<ucx_memory>>& slots,
                uint32_t n_nodes)
      : staging_(context, staging.data(), staging.size()), local_{&staging_}, worker_(context), links_(n_nodes) {
    for (const auto& memory : slots) local_.push_back(memory.get());
    worker_.on_error([this](const std::string& text) {
      if (!lost_.empty()) return;
      lost_ = text;
      lost_at_ = now_us();
    });
  }
  /// The owner of the plane registers its handler for messages (plane_am) before the first progress().
  ucx_worker& worker() { return worker_; }
  void connect(uint32_t node, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys) {
    links_[node] =
        std::make_unique<ucx_link>(worker_, address, keys, fmt::format("the aggregator of node {}", node), local_);
  }

  /// By node. nullptr for nodes without a connection, and for this node.
  std::vector<remote_link*> links() const {
    std::vector<remote_link*> pointers;
    for (const auto& link : links_) pointers.push_back(link.get());
    return pointers;
  }
  /// Time spent in calls that put.
  uint64_t put_ns() const {
    uint64_t ns = 0;
    for (const auto& link : links_)
      if (link) ns += link->put_ns();
    return ns;
  }
  /// Text about the connection that broke first, and the time of that (now_us()). It may be a consequence of another
  /// failure.
  const std::string& lost() const { return lost_; }
  uint64_t lost_at() const { return lost_at_; }
  /// Completes what was sent last, above all an abort. Errors are logged.
  void close(std::chrono::milliseconds limit) {
    try {
      worker_.expect_disconnects();
      worker_.close_endpoints(limit);
    } catch (const std::exception& e) {
      log_debug("{}", e.what());
    }
  }

 private:
  // In this order: links are destroyed before their worker, and the worker before the registered memory.
  ucx_memory staging_;
  std::vector<const ucx_memory*> local_;
  ucx_worker worker_;
  std::vector<std::unique_ptr<ucx_link>> links_;
  std::string lost_;
  uint64_t lost_at_ = 0;
};

class network {
 public:
  /// `staging`: memory of each plane; `transit`: packets for others that pass through this node, may be empty.
  network(const node_setup& setup, const std::vector<std::span<char>>& staging, std::span<char> transit)
      : setup_(setup),
        context_(static_cast<unsigned>(staging.size()), setup.nodes.n_nodes() - 1, log_name(), setup.one_host) {
    for (const pe_segment* segment : setup.local) {
      const auto memory = segment->landing_memory();
      // Emulated nodes share one machine, so they share the segment's file.
      landing_.push_back(setup.values.nodes > 1 ? std::make_unique<ucx_memory>(context_, segment->descriptor(),
                                                                               memory.data(), memory.size())
                                                : std::make_unique<ucx_memory>(context_, memory.data(), memory.size()));
      if (setup.values.zero_copy_size == 0) continue;
      const queue blocks = segment->queue_of(static_cast<uint32_t>(queue_kind::kernel_block));
      slots_.push_back(
          std::make_unique<ucx_memory>(context_, blocks.slots, blocks.shape.bytes() - sizeof(queue_control)));
    }
    if (!transit.empty()) transit_ = std::make_unique<ucx_memory>(context_, transit.data(), transit.size());
    for (const std::span<char> memory : staging)
      planes_.push_back(std::make_unique<plane_network>(context_, memory, slots_, setup.nodes.n_nodes()));
  }
  plane_network& of_plane(uint32_t index) { return *planes_[index]; }
  /// Addresses and keys of this node, which other nodes need.
  wiring mine() const {
    wiring w;
    for (const auto& memory : landing_) w.keys.push_back(memory->packed_key());
    w.keys.push_back(transit_ ? transit_->packed_key() : std::vector<std::byte>());
    for (const auto& p : planes_) w.worker.push_back(p->worker().address());
    return w;
  }
  /// `all`: by node. Throws gravel::error.
  void connect(const all_wirings& all) {
    const std::vector<wiring> read = read_wirings(all, setup_);
    for (uint32_t node = 0; node < read.size(); ++node)
      if (node != setup_.node)
        for (size_t i = 0; i < planes_.size(); ++i) planes_[i]->connect(node, read[node].worker[i], read[node].keys);
  }

 private:
  const node_setup& setup_;
  ucx_context context_;
  std::vector<std::unique_ptr<ucx_memory>> landing_, slots_;  ///< slots: those of the PEs' block queues
  std::unique_ptr<ucx_memory> transit_;
  std::vector<std::unique_ptr<plane_network>> planes_;
};

}  // namespace gravel::detail
