// Route `peer` as the host sees it: at start-up the PEs of a node map each other's heaps and rings; afterwards the
// host only counts. (The rings themselves: lib/base/peer_ring.hpp.)
//
// Each PE has two pieces of device memory for it:
//   area, mapped by its peers:  [source][chunk] the rings into this PE, then [destination][chunk] `done` words
//   own:                        [destination] tickets, one line each; [PE] links; [source] rings; [bin] PEs
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "host/backend.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/topology.hpp"

namespace gravel {

struct peers_setup {
  const topology* nodes;
  uint32_t pe;
  const settings* values;
  char* heap;          ///< of this PE, exportable
  uint64_t* bells;     ///< [max_peers], pinned: written by kernels, by local rank of the destination
};

class peers {
 public:
  /// Sends a blob to all PEs of the job and returns theirs, by PE. Collective.
  using exchange = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

  /// Collective: also PEs that have no peers take part in the two exchanges.
  peers(backend&, const peers_setup&, const exchange&);
  ~peers();
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;

  /// Unmaps the other PEs' memory. To be called when nobody here uses it any more, and before any of its owners frees it; the
  /// counts can still be read.
  void forget();

  /// For gravel_t; nullptr if no PE of this node is reached on the route `peer`.
  const peer_link* links() const { return n_mapped_ ? links_ : nullptr; }
  const uint32_t* pes() const { return pes_; }
  uint32_t n_mapped() const { return n_mapped_; }
  /// For the resolver.
  const peer_ring* sources() const { return sources_; }
  uint32_t n_sources() const { return n_sources_; }

  struct counts {
    uint64_t applied = 0, tickets = 0;  ///< chunks that this PE sent
  };
  /// `applied` is read before `tickets`: what is missing from the second is in neither.
  counts read();
  /// True if all that was pushed so far is applied. If not, wakes the receivers.
  bool quiet();
  std::string describe();

 private:
  struct mapping {
    uint32_t pe;
    void *heap, *area;
  };
  uint64_t ring_bytes() const;
  uint64_t done_at(uint32_t rank) const;
  char* ticket_word(uint32_t rank) const { return own_ + uint64_t{rank} * 64; }

  backend& device_;
  uint32_t chunks_, chunk_units_, n_local_ = 0;
  uint32_t n_mapped_ = 0, n_sources_ = 0;
  uint64_t* bells_;
  char* area_ = nullptr;
  char* own_ = nullptr;
  peer_link* links_ = nullptr;
  uint32_t* pes_ = nullptr;
  peer_ring* sources_ = nullptr;
  std::vector<mapping> mappings_;
};

}  // namespace gravel
