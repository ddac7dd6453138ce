// The route `peer` as the host sees it. At start-up the PEs of a domain (host/pe/memory_domain.hpp) map each other's
// heaps and rings. Afterwards the host only counts. lib/base/peer_ring.hpp describes the rings. The ring of a PE to
// itself is one of them; a PE without peers has it, too. What is mapped depends on the link to the peer's device
// (backend::access_to):
//
//   atomic operations          its heap and its rings
//   stores, no atomic ones     its rings: each of their words has one writer
//   neither                    nothing: the route net
//
// Each PE has three pieces of device memory for the route:
//
//   area, mapped by its peers:  peer_area. It never grows; the heap may
//   own ring:                   peer_ring::in
//   tables:                     [destination] ring_line; [PE] links; [source] rings; [bin] PEs;
//                               [source] peer_words at that PE
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/extent_exchange.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {

/// Layout of the area that the PEs of a domain map of each other besides their heaps. PEs are numbered by their rank in
/// the domain. Each area contains: [source][chunk] the rings to this PE; then [destination][chunk] `done` words of the
/// rings from this PE; then [source] peer_words.
struct peer_area {
  uint32_t n_domain, chunks, chunk_units;

  uint64_t done_at(uint32_t destination) const {
    return n_domain * ring_bytes() + uint64_t{destination} * chunks * sizeof(uint64_t);
  }
  uint64_t words_at(uint32_t source) const { return (done_at(n_domain) + 63) / 64 * 64 + source * sizeof(peer_words); }
  uint64_t bytes() const { return words_at(n_domain); }
  /// The ring from `source`, whose area is mapped at `from`, to `destination`, whose area is mapped at `to`.
  peer_ring ring(char* from, uint32_t source, char* to, uint32_t destination) const {
    return {to + source * ring_bytes(), reinterpret_cast<uint64_t*>(from + done_at(destination)), chunks, chunk_units};
  }

 private:
  uint64_t ring_bytes() const { return uint64_t{chunks} * peer_ring::chunk_bytes(chunk_units); }
};

struct peers_setup {
  uint32_t n_pes;  ///< of the job
  uint32_t pe;
  std::vector<uint32_t> domain;  ///< the PEs whose memory this PE may map, with itself, ascending
  const settings* values;
  char* heap;                                  ///< of this PE: exportable, or in extents
  uint64_t* doorbells;                         ///< [max_peers], pinned; kernels write them, by rank of the destination
  uint64_t heap_bytes = 0;                     ///< addresses of a heap in extents
  std::vector<new_extent>* extents = nullptr;  ///< those that such a heap has now; their handles are passed on
  bool uses_fabric = false;                    ///< a PE of the job has fabric handles; the same at all PEs
};

class peers {
 public:
  /// Sends a blob to all PEs of the job and returns those of all PEs, by PE. Collective.
  using exchange = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

  /// Collective. PEs without peers take part in the two exchanges, too.
  peers(backend&, const peers_setup&, const exchange&);
  ~peers();
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;

  /// Passes these new extents of this PE's heap on, and maps those of all heaps that are mapped here. Collective of the
  /// domain's PEs, whose new extents cover the same places. If a PE of the job has fabric handles, it is collective of
  /// all PEs, which then make an exchange. Throws gravel::error.
  void share(std::span<const new_extent>, const exchange&);
  /// Unmaps the extents in this range of all heaps that are mapped here.
  void forget(const extent& range);
  /// Unmaps the memory of other PEs. Call it when nothing here uses that memory any more, and before its owners free
  /// it. The counts can still be read.
  void forget();

  /// Links for gravel_t; nullptr if no PE is reached through a ring, not even this one itself.
  const peer_link* links() const { return n_sources_ ? links_ : nullptr; }
  const uint32_t* pes() const { return pes_; }
  uint32_t n_mapped() const { return n_mapped_; }
  /// Returns the address at which the heap of `pe` is mapped for kernels; nullptr if it is not, or is this PE's own.
  char* heap_of(uint32_t pe) const {
    for (const mapping& m : mappings_)
      if (m.pe == pe) return static_cast<char*>(m.heap);
    return nullptr;
  }
  /// Rings for the resolver.
  const peer_ring* sources() const { return sources_; }
  uint32_t n_sources() const { return n_sources_; }
  /// Rings from this PE, by rank of the destination: [n_sources()].
  const ring_line* lines() const { return line_of(0); }
  /// Number of the ring from this PE itself; n_sources() if there is none.
  uint32_t own_source() const { return own_chunks_ ? me_ : n_sources_; }
  /// True if other processes use this PE's GPU, but not at the same time. Then no kernel of this PE may wait for
  /// theirs.
  bool shares_gpu() const { return shares_gpu_; }
  /// Words by which the devices decide barriers and quiescence. `n` is the same at all PEs; 0: the hosts decide.
  const peer_rendezvous& rendezvous() const { return rendezvous_; }

  struct counts {
    uint64_t applied = 0, tickets = 0;  ///< chunks that this PE has sent
  };
  /// Counts of all rings. `applied` is read before `tickets`, so a chunk that is missing in `tickets` is in neither.
  counts read();
  /// Counts of each ring, by rank of its destination.
  std::vector<counts> read_each();
  /// The PE of this rank in the domain.
  uint32_t pe_of(uint32_t rank) const { return domain_[rank]; }
  /// Tickets claimed so far, by rank of the destination.
  std::vector<uint64_t> tickets();
  /// True if all tickets below these are applied. Otherwise wakes the receivers.
  bool applied_below(const std::vector<uint64_t>& tickets);
  std::string describe();

 private:
  struct mapping {
    uint32_t pe;
    void *heap, *area;                     ///< heap: nullptr: the PE is reached through rings alone
    size_t party;                          ///< in parties_, if the memory is in extents
    std::map<uint64_t, uint64_t> extents;  ///< of the heap: begin -> bytes
  };
  uint32_t rank_of(uint32_t pe) const;
  /// Gives the new extents of this PE to its parties, and returns theirs. `extents_of`: those of a party that
  /// has fabric handles.
  std::vector<std::vector<new_extent>> pass_on(std::span<const new_extent>,
                                               const std::function<fabric_extents(uint32_t pe)>& extents_of);
  std::string map_first(mapping&, bool with_heap, std::span<new_extent> theirs);
  void map_extents(mapping&, std::span<new_extent> theirs);
  ring_line* line_of(uint32_t rank) const { return reinterpret_cast<ring_line*>(tables_) + rank; }
  std::vector<ring_line> read_lines();
  /// A copy of the done words of the ring to this rank.
  std::vector<uint64_t> read_done(uint32_t rank);

  backend& device_;
  std::vector<uint32_t> domain_;  ///< PEs, by rank
  peer_area shape_;
  uint32_t own_chunks_ = 0, n_domain_, me_ = 0;
  uint32_t n_mapped_ = 0, n_sources_ = 0;
  bool shares_gpu_ = false;
  uint64_t* doorbells_;
  char *area_ = nullptr, *own_ring_ = nullptr, *tables_ = nullptr;
  peer_link* links_ = nullptr;
  uint32_t* pes_ = nullptr;
  peer_ring* sources_ = nullptr;
  peer_rendezvous rendezvous_{};
  std::vector<mapping> mappings_;
  std::optional<extent_exchange> exchange_;
  bool uses_fabric_ = false;
  std::vector<extent_exchange::party> parties_;  ///< PEs that pass handles of extents to this one, and get its own
  uint64_t heap_bytes_ = 0, area_bytes_ = 0;     ///< addresses
};

}  // namespace gravel::detail
