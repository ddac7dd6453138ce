// Collectives of the job: every PE contributes four sums, a minimum and a maximum, and gets the job's. Barrier,
// quiescence, checks and statistics are made of it.
//
//   PE: collective_in.sequence = k [C1] -> its node's aggregator, plane 0 -> node 0 -> all nodes
//   -> collective_out.sequence = k [C2] -> PE
//
// Invariant: a PE begins k + 1 only after the result of k, so at most one collective is under way.
#pragma once
#include <cstdint>
#include <vector>

#include "host/plane.hpp"

namespace gravel {

class collective {
 public:
  /// `links[n]`: to plane 0 of node n.
  collective(const node_setup&, std::vector<remote_link*> links);
  /// Looks at the local PEs. Thread of plane 0. True if anything moved.
  bool step();
  /// Has one of the node's PEs begun a collective that is not over?
  bool begun() const;
  void receive(const plane_header&, std::span<const std::byte> data);
  /// The PEs have said that this was the last: the job is over, other nodes may go away.
  bool over() const { return over_; }
  std::string describe() const;

 private:
  void contribute(uint32_t node, const collective_words&);
  void deliver(const collective_words&);

  const node_setup& setup_;
  std::vector<remote_link*> links_;
  uint64_t sequence_ = 0;  ///< finished
  bool sent_ = false;      ///< this node has contributed to sequence_ + 1
  bool over_ = false;
  collective_words total_{};  ///< node 0: of sequence_ + 1 so far
  std::vector<char> in_;      ///< node 0: which nodes have contributed
};

}  // namespace gravel
