// Collectives of the job: every PE contributes four sums, a minimum, a maximum and some bytes, and gets the job's: of
// the bytes those of all PEs, in order of PE. Barrier, quiescence, checks, statistics, and what programs call are made
// of it.
//
//   PE: collective_in.sequence = k [C1] -> its node's aggregator, plane 0 -> node 0 -> all nodes
//   -> collective_out.sequence = k [C2] -> PE
//
// Invariant: a PE begins k + 1 only after the result of k, so at most one collective is under way.
//
// Each contribution says which call of the program it belongs to. Those of the PEs of a node are compared as they come,
// those of the nodes at node 0; PEs that do not call the same end the job with a message that names both calls.
#pragma once
#include <cstdint>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

class collective {
 public:
  /// A node's, for node 0.
  struct contribution {
    static constexpr wire_kind kind = wire_kind::contribution;
    collective_words words;
    std::vector<uint32_t> sizes;  ///< of the data of each of its PEs; empty: there are none
    std::vector<std::byte> data;
    static auto fields(auto& m) { return std::tie(m.words, m.sizes, m.data); }
    void check(const wire_check&) const;
  };
  /// Node 0's, for all others.
  struct result {
    static constexpr wire_kind kind = wire_kind::result;
    collective_words words;
    std::vector<std::byte> data;
    static auto fields(auto& m) { return std::tie(m.words, m.data); }
    void check(const wire_check&) const;
  };

  /// `links[n]`: to plane 0 of node n.
  collective(const node_setup&, std::vector<remote_link*> links);
  /// Looks at the local PEs. Thread of plane 0. True if anything moved. Throws gravel::error if they call different
  /// collectives.
  bool step();
  /// Has one of the node's PEs begun a collective that is not over?
  bool begun() const;
  void receive(const plane_header&, std::span<const std::byte> data);
  /// The PEs have said that this was the last: the job is over, other nodes may go away.
  bool over() const { return over_; }
  std::string describe() const;

 private:
  void find_mismatches();
  void check_call(const collective_call&);
  collective_words contributed_by(size_t local) const;
  uint32_t pe_of(size_t local) const { return setup_.nodes.pes_of(setup_.node)[local]; }
  void check_fits(uint32_t node, const collective_words&) const;
  void contribute(uint32_t node, const contribution&);
  void deliver(const result&);

  const node_setup& setup_;
  std::vector<remote_link*> links_;
  uint64_t sequence_ = 0;  ///< finished
  bool sent_ = false;      ///< this node has contributed to sequence_ + 1
  bool over_ = false;
  std::vector<collective_call> calls_;              ///< of the local PEs, in one look
  collective_words total_{};                        ///< node 0: of sequence_ + 1 so far
  std::vector<char> in_;                            ///< node 0: which nodes have contributed
  std::vector<std::vector<std::byte>> data_of_pe_;  ///< node 0: of sequence_ + 1; empty while nobody has sent any
};

/// Why `leaver` (an index into `local`) may not leave the job now; empty if all PEs have ended it together.
std::string why_not_leave(const std::vector<pe_segment*>& local, const std::vector<uint32_t>& pes, size_t leaver);

}  // namespace gravel::detail
