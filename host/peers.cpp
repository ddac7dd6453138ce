#include "host/peers.hpp"

#include <algorithm>

#include "host/hello.hpp"
#include "lib/base/log.hpp"

namespace gravel {

uint64_t peers::ring_bytes() const { return uint64_t{chunks_} * peer_ring::chunk_bytes(chunk_units_); }
uint64_t peers::done_at(uint32_t rank) const {
  return n_local_ * ring_bytes() + uint64_t{rank} * chunks_ * sizeof(uint64_t);
}

peers::peers(backend& device, const peers_setup& s, const exchange& all)
    : device_(device),
      chunks_(static_cast<uint32_t>(s.values->peer_chunks)),
      chunk_units_(static_cast<uint32_t>(s.values->peer_chunk_size / sizeof(unit))),
      bells_(s.bells) {
  const std::vector<uint32_t>& local = s.nodes->pes_of(s.nodes->node_of(s.pe));
  const auto rank_of = [&](uint32_t pe) { return static_cast<uint32_t>(std::find(local.begin(), local.end(), pe) - local.begin()); };
  const uint32_t me = rank_of(s.pe), n_pes = s.nodes->n_pes();
  const bool wanted = s.values->routes == "auto" || s.values->routes == "direct";
  std::string heap_export, area_export;
  if (wanted && local.size() > 1 && local.size() <= max_peers) heap_export = device.export_memory(s.heap);
  if (local.size() > max_peers)
    log_info("{} PEs on this node: more than {} do not use the route peer", local.size(), max_peers);
  if (!heap_export.empty()) {
    n_local_ = static_cast<uint32_t>(local.size());
    area_ = static_cast<char*>(device.allocate_exportable(done_at(n_local_), "rings for peers"));
    area_export = device.export_memory(area_);
    const uint64_t links_at = uint64_t{n_local_} * 64, rings_at = links_at + n_pes * sizeof(peer_link),
                   pes_at = rings_at + n_local_ * sizeof(peer_ring);
    own_ = static_cast<char*>(device.allocate(pes_at + n_local_ * sizeof(uint32_t), "tables of peers"));
    pes_ = reinterpret_cast<uint32_t*>(own_ + pes_at);
    links_ = reinterpret_cast<peer_link*>(own_ + links_at);
    sources_ = reinterpret_cast<peer_ring*>(own_ + rings_at);
  }

  blob_writer mine;
  mine << heap_export << area_export << chunks_ << chunk_units_;
  const auto theirs = all(mine.bytes);
  uint32_t reached = 0;  // local ranks
  if (n_local_)
    for (uint32_t pe : local) {
      if (pe == s.pe) continue;
      std::string heap, area, why;
      uint32_t chunks, chunk_units;
      blob_reader in(theirs.at(pe));
      in >> heap >> area >> chunks >> chunk_units;
      if (heap.empty()) continue;
      if (chunks != chunks_ || chunk_units != chunk_units_)
        fail("GRAVEL_PEER_CHUNKS or GRAVEL_PEER_CHUNK_SIZE differ: {} chunks of {} units here, {} of {} at PE {}", chunks_,
             chunk_units_, chunks, chunk_units, pe);
      mapping m{pe, device.import_memory(heap, &why), nullptr};
      if (m.heap) m.area = device.import_memory(area, &why);
      if (m.heap) mappings_.push_back(m);
      if (m.area) reached |= 1u << rank_of(pe);
      else log_info("PE {} is reached on the route net, not peer: {}", pe, why);
    }
  // A ring needs both directions: messages there, `done` words back.
  const auto masks = all(std::as_bytes(std::span(&reached, 1)));
  if (n_local_ == 0) return;

  std::vector<peer_link> links(n_pes, peer_link{});
  std::vector<peer_ring> sources(n_local_, peer_ring{});
  std::vector<uint32_t> pes;  // by bin
  for (const mapping& m : mappings_) {
    const uint32_t pe = m.pe, rank = rank_of(pe);
    uint32_t theirs_reached = 0;
    blob_reader(masks.at(pe)) >> theirs_reached;
    if (!m.area || !(theirs_reached >> me & 1)) continue;
    char* const their_area = static_cast<char*>(m.area);
    peer_link& link = links[pe];
    link.heap = static_cast<char*>(m.heap);
    link.ring = {their_area + me * ring_bytes(), reinterpret_cast<uint64_t*>(area_ + done_at(rank)), chunks_, chunk_units_};
    link.tickets = reinterpret_cast<uint64_t*>(ticket_word(rank));
    link.bell = &s.bells[rank];
    link.bin = n_mapped_++;
    pes.push_back(pe);
    sources[rank] = {area_ + rank * ring_bytes(), reinterpret_cast<uint64_t*>(their_area + done_at(me)), chunks_, chunk_units_};
  }
  device.copy(links_, links.data(), links.size() * sizeof(peer_link));
  device.copy(sources_, sources.data(), sources.size() * sizeof(peer_ring));
  device.copy(pes_, pes.data(), pes.size() * sizeof(uint32_t));
  if (n_mapped_) n_sources_ = n_local_;
}

void peers::forget() {
  for (const mapping& m : mappings_)
    for (void* at : {m.heap, m.area})
      if (at) device_.forget_memory(at);
  mappings_.clear();
}

peers::~peers() {
  forget();
  if (own_) device_.release(own_);
  if (area_) device_.release(area_);
}

peers::counts peers::read() {
  counts c;
  if (n_mapped_ == 0) return c;
  std::vector<uint64_t> done(uint64_t{n_local_} * chunks_), tickets(n_local_ * 8);
  device_.copy(done.data(), area_ + done_at(0), done.size() * sizeof(uint64_t));
  device_.copy(tickets.data(), own_, tickets.size() * sizeof(uint64_t));
  for (uint32_t rank = 0; rank < n_local_; ++rank) {
    c.applied += peer_ring::applied(&done[uint64_t{rank} * chunks_], chunks_);
    c.tickets += tickets[rank * 8];
  }
  return c;
}

bool peers::quiet() {
  const counts now = read();
  if (now.applied == now.tickets) return true;
  for (uint32_t rank = 0; rank < n_local_; ++rank) fetch_add_release<scope::system>(&bells_[rank], uint64_t{1});
  return false;
}

std::string peers::describe() {
  const counts c = read();
  return fmt::format("route peer: {} chunks pushed into the rings of {} PEs, {} applied", c.tickets, n_mapped_, c.applied);
}

}  // namespace gravel
