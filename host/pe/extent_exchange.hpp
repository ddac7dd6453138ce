// Passes the descriptors of extents between the PEs of a host. (Fabric handles travel in any message.)
//
// Problem. A process maps memory of another one by a descriptor, which only a Unix socket can carry.
// Solution. Each PE listens under a name that nobody can guess. In an exchange it connects to each other PE, sends the
// descriptors and closes. Then it accepts one connection from each other PE. No PE waits before it has sent, since the
// kernel keeps connections that nobody has accepted yet; so no two PEs wait for each other.
// Invariant: all parties make the same exchanges, in the same order, and their extents cover the same places. (Those of
// registered memory may be divided in another way at each PE.) All of them take part in a collective between two
// exchanges, so no connection of a later exchange can come early. A connection of an earlier exchange that has failed
// is dropped.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "host/node/node_socket.hpp"
#include "host/pe/extent.hpp"

namespace gravel::detail {

class extent_exchange {
 public:
  /// `me`: number of this PE. `patience_s`: the longest time to wait for another PE.
  extent_exchange(uint32_t me, uint64_t patience_s) : me_(me), patience_s_(patience_s) {}

  /// Name of this PE's socket, which the other parties need.
  const std::string& name() const { return listener_.name(); }
  struct party {
    uint32_t pe;
    std::string name;  ///< of its socket
  };
  /// Sends the extents of `mine`, at least one, to all others, and returns theirs: [party][extent]. Collective of the
  /// parties. Throws gravel::error that names the PE if one is gone, silent, or sends what does not belong here.
  std::vector<std::vector<new_extent>> exchange(const std::vector<party>& others, std::span<const new_extent> mine);

 private:
  /// What one other PE has sent; no extents: it belongs to an earlier exchange, which has failed here.
  struct delivery {
    size_t party;
    std::vector<new_extent> extents;
  };
  node_socket accept_one();
  delivery receive_from(node_socket&, const std::vector<party>& others, std::span<const new_extent> mine);

  uint32_t me_;
  uint64_t patience_s_, number_ = 0;
  node_listener listener_;
};

}  // namespace gravel::detail
