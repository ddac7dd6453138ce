#include "host/aggregator/node_watch.hpp"

#include "lib/base/error.hpp"

namespace gravel {

node_watch::node_watch(const node_setup& setup, std::vector<remote_link*> links) : node_(setup.node), watchdog_s_(setup.values.watchdog_s) {
  const uint32_t n = setup.nodes.n_nodes();
  before_ = (node_ + n - 1) % n;
  after_ = (node_ + 1) % n;
  to_ = watchdog_s_ ? links[after_] : nullptr;
}

void node_watch::step(uint64_t now_us) {
  if (!to_ || now_us < next_us_) return;
  next_us_ = now_us + watchdog_s_ * 1'000'000 / heartbeat_looks;
  to_->send({plane_word::pulse, node_, 0, 0, 0, 0, 0}, {});
  if (watch_.look(true, received_))
    fail("nothing has come from node {} for {} s (twice GRAVEL_WATCHDOG_S): its host may have vanished, or the network to it", before_,
         2 * watchdog_s_);
}

void node_watch::receive(const plane_header& header) {
  if (header.source_node != before_) fail("node {} sent a pulse, where those of node {} were to come", header.source_node, before_);
  ++received_;
}

}  // namespace gravel
