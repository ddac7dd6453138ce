#include "lib/base/topology.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/message.hpp"

namespace gravel::detail {

topology::topology(std::vector<uint32_t> node_of_pe, uint64_t two_hop_nodes) : node_of_pe_(std::move(node_of_pe)) {
  if (node_of_pe_.empty()) fail("a job needs at least one PE");
  if (node_of_pe_.size() > max_pes)
    fail("{} PEs are more than the {} that Gravel can number", node_of_pe_.size(), max_pes);
  const uint32_t last_node = *std::max_element(node_of_pe_.begin(), node_of_pe_.end());
  if (last_node >= node_of_pe_.size()) fail("node numbers are not dense");  // each node has a PE
  pes_of_node_.resize(last_node + 1);
  for (uint32_t pe = 0; pe < node_of_pe_.size(); ++pe) pes_of_node_[node_of_pe_[pe]].push_back(pe);
  for (const auto& pes : pes_of_node_)
    if (pes.empty()) fail("node numbers are not dense");
  if (n_nodes() >= two_hop_nodes) columns_ = static_cast<uint32_t>(std::ceil(std::sqrt(double(n_nodes()))));
}

uint32_t topology::next_hop(uint32_t from, uint32_t to) const {
  if (!two_hop() || from % columns_ == to % columns_) return to;
  const uint32_t middle = from / columns_ * columns_ + to % columns_;
  if (middle < n_nodes()) return middle;
  // The last row may be short. Then the message goes up to another row, in the right column already. Each node of the
  // last row has (nearly) a row of its own for this, so that no node gets all of them as sources.
  return from % columns_ % (n_nodes() / columns_) * columns_ + to % columns_;
}

namespace {
template <class Predicate>
std::vector<uint32_t> nodes_where(uint32_t n_nodes, Predicate holds) {
  std::vector<uint32_t> found;
  for (uint32_t other = 0; other < n_nodes; ++other)
    if (holds(other)) found.push_back(other);
  return found;
}
}  // namespace

std::vector<uint32_t> topology::sources_of(uint32_t node) const {
  return nodes_where(n_nodes(), [&](uint32_t other) { return next_hop(other, node) == node; });
}

std::vector<uint32_t> topology::targets_of(uint32_t node) const {
  return nodes_where(n_nodes(), [&](uint32_t other) { return next_hop(node, other) == other; });
}

std::vector<uint32_t> topology::transits_of(uint32_t node) const {
  std::vector<char> is_hop(n_nodes());
  for (uint32_t to = 0; to < n_nodes(); ++to)
    if (const uint32_t hop = next_hop(node, to); hop != to) is_hop[hop] = 1;
  return nodes_where(n_nodes(), [&](uint32_t other) { return is_hop[other] != 0; });
}

std::vector<uint32_t> topology::transit_sources_of(uint32_t node) const {
  return nodes_where(n_nodes(), [&](uint32_t other) {
    for (uint32_t to = 0; to < n_nodes(); ++to)
      if (to != node && next_hop(other, to) == node) return true;
    return false;
  });
}

std::vector<uint32_t> assign_nodes(const std::vector<uint32_t>& host_of_pe, uint64_t emulated) {
  std::map<uint32_t, uint64_t> pes_on_host;
  for (uint32_t host : host_of_pe) ++pes_on_host[host];
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> number;
  std::map<uint32_t, uint64_t> seen;
  std::vector<uint32_t> node_of_pe;
  for (uint32_t host : host_of_pe) {
    if (emulated > pes_on_host[host])
      fail("GRAVEL_NODES={}: a node needs at least one PE, but a host of this job has only {}", emulated,
           pes_on_host[host]);
    const uint64_t part = seen[host]++ * emulated / pes_on_host[host];
    node_of_pe.push_back(number.try_emplace({host, part}, static_cast<uint32_t>(number.size())).first->second);
  }
  return node_of_pe;
}

}  // namespace gravel::detail
