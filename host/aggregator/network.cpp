#include "host/aggregator/network.hpp"

#include "host/aggregator/clock.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel {

plane_network::plane_network(ucx_context& context, std::span<char> staging, const std::vector<std::unique_ptr<ucx_memory>>& slots,
                             uint32_t n_nodes)
    : staging_(context, staging.data(), staging.size()), local_{&staging_}, worker_(context), links_(n_nodes) {
  for (const auto& memory : slots) local_.push_back(memory.get());
  // Before anybody can know the address.
  worker_.on_am(
      plane_am,
      [](void* self, std::span<const std::byte> header, std::span<const std::byte> data) {
        const auto& me = *static_cast<plane_network*>(self);
        me.receive_(me.receiver_context_, header, data);
      },
      this);
  worker_.on_error([this](const std::string& text) {
    if (!lost_.empty()) return;
    lost_ = text;
    lost_at_ = now_us();
  });
}

void plane_network::connect(uint32_t node, std::span<const std::byte> address, const std::vector<std::vector<std::byte>>& keys) {
  links_[node] = std::make_unique<ucx_link>(worker_, address, keys, fmt::format("the aggregator of node {}", node), local_);
}

std::vector<remote_link*> plane_network::links() const {
  std::vector<remote_link*> pointers;
  for (const auto& link : links_) pointers.push_back(link.get());
  return pointers;
}

void plane_network::close(std::chrono::milliseconds limit) {
  try {
    expect_disconnects();
    worker_.close_endpoints(limit);
  } catch (const std::exception& e) {
    log_debug("{}", e.what());
  }
}

network::network(const node_setup& setup, const std::vector<std::span<char>>& staging, std::span<char> transit)
    : setup_(setup), context_(static_cast<unsigned>(staging.size()), setup.nodes.n_nodes() - 1, log_name()) {
  for (const pe_segment* segment : setup.local) {
    const auto memory = segment->landing_memory();
    // Emulated nodes are on one machine.
    landing_.push_back(setup.values.nodes > 1 ? std::make_unique<ucx_memory>(context_, segment->descriptor(), memory.data(), memory.size())
                                              : std::make_unique<ucx_memory>(context_, memory.data(), memory.size()));
    if (setup.values.zero_copy_size == 0) continue;
    const queue blocks = segment->queue_of(static_cast<uint32_t>(queue_kind::kernel_block));
    slots_.push_back(std::make_unique<ucx_memory>(context_, blocks.slots, blocks.shape.bytes() - sizeof(queue_control)));
  }
  if (!transit.empty()) transit_ = std::make_unique<ucx_memory>(context_, transit.data(), transit.size());
  for (const std::span<char> memory : staging)
    planes_.push_back(std::make_unique<plane_network>(context_, memory, slots_, setup.nodes.n_nodes()));
}

wiring network::mine() const {
  wiring w;
  for (const auto& memory : landing_) w.keys.push_back(memory->packed_key());
  w.keys.push_back(transit_ ? transit_->packed_key() : std::vector<std::byte>());
  for (const auto& p : planes_) w.worker.push_back(p->address());
  return w;
}

void network::connect(const all_wirings& all) {
  const topology& nodes = setup_.nodes;
  if (all.by_node.size() != nodes.n_nodes()) fail("wirings of {} nodes came; there are {}", all.by_node.size(), nodes.n_nodes());
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node) {
    if (node == setup_.node) continue;
    const auto theirs = from_wire<wiring>(all.by_node[node], fmt::format("the aggregator of node {}", node));
    if (theirs.worker.size() != planes_.size() || theirs.keys.size() != nodes.pes_of(node).size() + 1)
      fail("node {} has {} aggregator threads, this node {}: GRAVEL_AGGREGATOR_THREADS must be the same everywhere", node,
           theirs.worker.size(), planes_.size());
    for (size_t i = 0; i < planes_.size(); ++i) planes_[i]->connect(node, theirs.worker[i], theirs.keys);
  }
}

}  // namespace gravel
