// Collectives of the job. Every PE contributes four sums, a minimum, a maximum and some bytes. Every PE gets the
// totals, and the bytes of all PEs in order of PE. Barriers, quiescence, checks, statistics and the program's
// collectives use it.
//
//   PE: collective_in.sequence = k [C1] -> its node's aggregator, plane 0 -> node 0 -> all nodes
//   -> collective_out.sequence = k [C2] -> PE
//
// Invariant: a PE begins k + 1 only after the result of k, so at most one collective is under way.
//
// Each contribution names the call of the program to which it belongs. The aggregator compares the calls of its PEs as
// they come; node 0 compares those of the nodes. If PEs do not call the same collective, the job ends with a message
// that names both calls. Where all PEs of the job map each other's memory, they wait in some calls without the
// aggregators (pe_control::waiting). Other nodes report such calls to node 0, which compares them with the others.
#pragma once
#include <cstdint>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

class collective {
 public:
  /// Contribution of a node, sent to node 0.
  struct contribution {
    static constexpr wire_kind kind = wire_kind::contribution;
    collective_words words;
    std::vector<uint32_t> sizes;  ///< bytes of each PE of the node; empty: no PE contributed any
    std::vector<std::byte> data;
    static auto fields(auto& m) { return std::tie(m.words, m.sizes, m.data); }
    void check(const wire_check&) const;
  };
  /// Result, sent by node 0 to all others.
  struct result {
    static constexpr wire_kind kind = wire_kind::result;
    collective_words words;
    std::vector<std::byte> data;
    static auto fields(auto& m) { return std::tie(m.words, m.data); }
    void check(const wire_check&) const;
  };

  /// `links[n]`: to plane 0 of node n.
  collective(const node_setup&, std::vector<remote_link*> links);
  /// Reads what the local PEs have contributed. Thread of plane 0. True if anything moved. Throws gravel::error if the
  /// PEs call different collectives.
  bool step();
  /// True if a PE of the node has begun a collective that is not over.
  bool begun() const;
  void receive(const plane_header&, std::span<const std::byte> data);
  /// A call in which a PE of another node waits without its aggregator. Node 0.
  void receive_waiting(const plane_header&);
  /// The PEs have marked the last collective as the end of the job: the job is over, and other nodes may leave.
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
  uint64_t sequence_ = 0;  ///< number of the last collective that is done
  bool sent_ = false;      ///< this node has contributed to sequence_ + 1
  bool over_ = false;
  std::vector<collective_call> calls_;              ///< calls of PEs, collected by one call of find_mismatches()
  uint64_t reported_ = 0;                           ///< the last waiting_word() that this node has reported
  std::vector<collective_call> waiting_elsewhere_;  ///< node 0: the last call that each other node has reported
  collective_words total_{};                        ///< node 0: totals of sequence_ + 1 so far
  std::vector<char> in_;                            ///< node 0: which nodes have contributed
  std::vector<std::vector<std::byte>> data_of_pe_;  ///< node 0: of sequence_ + 1; empty while no PE has contributed any
};

/// Why `leaver` (an index into `local`) may not leave the job now; empty if all PEs have ended the job together.
std::string why_not_leave(const std::vector<pe_segment*>& local, const std::vector<uint32_t>& pes, size_t leaver);

}  // namespace gravel::detail
