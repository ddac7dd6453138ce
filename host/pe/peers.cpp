#include "host/pe/peers.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "host/pe/peer_description.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/process_identity.hpp"

namespace gravel::detail {

/// Chunks of a ring if the setting says none, with `n` PEs in the domain: so few that the rings of a PE stay in the L2
/// cache, beside the memory that it updates (docs/design.md).
static uint64_t usual_peer_chunks(uint64_t n) {
  return std::bit_ceil(std::max<uint64_t>(2048 / std::max<uint64_t>(n - 1, 1), 64));
}

/// What the rings of a PE take, and the most that they take with these settings in any domain.
static std::string describe_memory(const peer_area& shape, uint64_t set_chunks) {
  peer_area largest{max_peers, static_cast<uint32_t>(set_chunks ? set_chunks : usual_peer_chunks(max_peers)),
                    shape.chunk_units};
  return fmt::format(
      "rings for the route peer: {} for {} PEs, {} chunks of {} each ({} for {} PEs, the most for this route)",
      text_of_bytes(shape.bytes()), shape.n_domain, shape.chunks, text_of_bytes(shape.chunk_units * sizeof(unit)),
      text_of_bytes(largest.bytes()), max_peers);
}

/// Throws gravel::error if the rings of two PEs have different chunks.
static void refuse_other_chunks(const peer_description& mine, const peer_description& other, uint32_t pe) {
  if (other.chunks != mine.chunks || other.chunk_units != mine.chunk_units)
    fail("GRAVEL_PEER_CHUNKS or GRAVEL_PEER_CHUNK_SIZE differ: {} chunks of {} units here, {} of {} at PE {}",
         mine.chunks, mine.chunk_units, other.chunks, other.chunk_units, pe);
}

uint32_t peers::rank_of(uint32_t pe) const {
  return static_cast<uint32_t>(std::lower_bound(domain_.begin(), domain_.end(), pe) - domain_.begin());
}

peers::peers(backend& device, const peers_setup& s, const exchange& all)
    : device_(device),
      domain_(s.domain),
      n_domain_(static_cast<uint32_t>(domain_.size())),
      me_(rank_of(s.pe)),
      doorbells_(s.doorbells),
      uses_fabric_(s.uses_fabric) {
  const uint64_t chunks = s.values->peer_chunks ? s.values->peer_chunks : usual_peer_chunks(n_domain_);
  shape_ = {n_domain_, static_cast<uint32_t>(chunks), static_cast<uint32_t>(s.values->peer_chunk_size / sizeof(unit))};
  const std::string& wanted = s.values->routes;
  const bool few = n_domain_ <= max_peers, insists = wanted == "peer", only_rings = wanted == "rings",
             mapped_wanted = insists || only_rings || wanted == "auto" || wanted == "direct";
  if (!few && insists)
    fail("GRAVEL_ROUTES=peer: {} PEs on this node; more than {} do not use that route", n_domain_, max_peers);
  if (few && n_domain_ > 1 && mapped_wanted && me_ == 0) log_info("{}", describe_memory(shape_, s.values->peer_chunks));
  if (!few && me_ == 0) log_info("{} PEs on this node: more than {} do not use the route peer", n_domain_, max_peers);

  using sharing = peer_description::sharing;
  peer_description mine{};
  mine.chunks = shape_.chunks;
  mine.chunk_units = shape_.chunk_units;
  mine.boot = this_process().boot;
  mine.bus_id = device.bus_id();
  mine.runs_beside_others = device.runs_beside_others();
  mine.stays_resident = s.values->resolver_resident;
  const bool in_extents = device.granule() != 0, others_map = few && mapped_wanted && n_domain_ > 1;
  if (others_map && !in_extents) mine.heap = device.export_memory(s.heap);
  std::vector<new_extent> now;  // the extents that there are: those of the heap, then the area
  if (others_map && in_extents && device.shares_extents()) {
    mine.heap_bytes = heap_bytes_ = s.heap_bytes;
    const uint64_t granule = device.granule();
    area_bytes_ = (shape_.bytes() + granule - 1) / granule * granule;
    area_ = device.reserve(area_bytes_, "rings for peers");
    if (s.extents) now = std::move(*s.extents);
    now.push_back({{0, area_bytes_}, device.commit(area_, area_bytes_, "rings for peers", place::device)});
    if (device.shares_by_fabric()) mine.fabric = fabric_extents::of(now);
    else mine.socket = exchange_.emplace(s.pe, 2 * s.values->connect_timeout_s).name();
  } else if (!mine.heap.empty()) {
    area_ = static_cast<char*>(device.allocate_exportable(shape_.bytes(), "rings for peers"));
    mine.area = device.export_memory(area_);
  }
  const uint64_t own_bytes = few && s.values->routes != "net" ? device.own_ring_bytes() : 0;
  if (const uint64_t own_chunks = own_bytes / peer_ring::bytes(1, shape_.chunk_units))
    own_chunks_ = static_cast<uint32_t>(std::bit_floor(std::clamp<uint64_t>(own_chunks, 4, 1u << 30)));
  const sharing shares_by = mine.shares_by();
  const bool any = own_chunks_ || shares_by != sharing::not_at_all;
  if (any) {
    const uint64_t links_at = n_domain_ * sizeof(ring_line), rings_at = links_at + s.n_pes * sizeof(peer_link),
                   words_at = rings_at + n_domain_ * sizeof(peer_ring),
                   pes_at = words_at + n_domain_ * sizeof(peer_words*);
    tables_ = static_cast<char*>(device.allocate(pes_at + n_domain_ * sizeof(uint32_t), "tables of peers"));
    links_ = reinterpret_cast<peer_link*>(tables_ + links_at);
    sources_ = reinterpret_cast<peer_ring*>(tables_ + rings_at);
    rendezvous_.theirs = reinterpret_cast<peer_words* const*>(tables_ + words_at);
    pes_ = reinterpret_cast<uint32_t*>(tables_ + pes_at);
  }

  const auto described = all(to_wire(mine));
  std::vector<peer_description> theirs;
  for (uint32_t pe : domain_) theirs.push_back(from_wire<peer_description>(described.at(pe), fmt::format("PE {}", pe)));
  std::vector<std::vector<new_extent>> passed;  // by party
  if (!now.empty()) {
    for (uint32_t rank = 0; rank < n_domain_; ++rank) {
      const peer_description& other = theirs[rank];
      if (rank == me_ || other.shares_by() != shares_by) continue;
      const uint32_t pe = domain_[rank];
      parties_.push_back({pe, other.socket});
      if (other.heap_bytes != heap_bytes_)
        fail("GRAVEL_SYMMETRIC_SIZE differs: the heap has {} bytes here, {} at PE {}", heap_bytes_, other.heap_bytes,
             pe);
      refuse_other_chunks(mine, other, pe);
    }
    passed = pass_on(now, [&](uint32_t pe) { return theirs[rank_of(pe)].fabric; });
  }
  reached_peers reached;
  bool all_beside = true;  // kernels of all these PEs may wait for each other
  for (uint32_t rank = 0; rank < n_domain_; ++rank) {
    const peer_description& other = theirs[rank];
    all_beside &= other.stays_resident;
    for (uint32_t second = 0; second < rank; ++second)
      all_beside &=
          !other.is_on_device_of(theirs[second]) || (other.runs_beside_others && theirs[second].runs_beside_others);
    if (rank == me_) continue;
    shares_gpu_ |= other.is_on_device_of(mine) && !(mine.runs_beside_others && other.runs_beside_others);
    const uint32_t pe = domain_[rank];
    const auto not_reached = [&](const std::string& why) {
      if (insists) fail("GRAVEL_ROUTES=peer: PE {} cannot be reached on that route: {}", pe, why);
      log_info("PE {} is reached on the route net, not peer: {}", pe, why);
    };
    if (shares_by == sharing::not_at_all || other.shares_by() == sharing::not_at_all) {
      if (insists) not_reached("memory of one of the two cannot be mapped by others");
      continue;
    }
    if (shares_by != other.shares_by()) {
      not_reached("the two share memory by handles of different kinds (GRAVEL_HANDLE_TYPE)");
      continue;
    }
    // The driver knows links to devices of its own host. Those of other hosts are reached by NVLink.
    const peer_access link = other.boot == mine.boot ? device.access_to(other.bus_id) : peer_access{};
    std::string why = link.why;
    mapping m{pe, nullptr, nullptr, 0, {}};
    // The words of rings have one writer each, so rings need no atomic operations. Single operations in a heap may be
    // atomic.
    const bool with_heap = link.atomics && !only_rings;
    if (!link.stores || (insists && !with_heap)) {
      not_reached(why);
      continue;
    }
    if (!now.empty()) {
      while (parties_[m.party].pe != pe) ++m.party;
      why = map_first(m, with_heap, passed[m.party]);
    } else {
      refuse_other_chunks(mine, other, pe);
      m.area = device.import_memory(other.area, &why);
      if (m.area && with_heap) m.heap = device.import_memory(other.heap, &why);
      if (with_heap && !m.heap && m.area) device.forget_memory(std::exchange(m.area, nullptr));
    }
    if (!m.area) {
      not_reached(why);
      continue;
    }
    if (!with_heap)
      log_info("PE {} is reached through rings alone, without operations in its memory: {}", pe,
               only_rings ? "GRAVEL_ROUTES=rings" : why);
    mappings_.push_back(m);
    reached.ranks.push_back(rank);
  }
  // A ring needs both directions: messages one way, `done` words back.
  const auto listed = all(to_wire(reached));
  std::vector<rank_set> reached_by(n_domain_, rank_set{});
  for (uint32_t rank = 0; rank < n_domain_; ++rank) {
    const uint32_t pe = domain_[rank];
    for (const uint32_t other : from_wire<reached_peers>(listed.at(pe), fmt::format("PE {}", pe)).ranks)
      reached_by[rank].add(other);
  }
  if (!any) return;

  std::vector<peer_link> links(s.n_pes, peer_link{});
  std::vector<peer_ring> sources(n_domain_, peer_ring{});
  std::vector<peer_words*> words(n_domain_);
  std::vector<uint32_t> pes;  // by bin
  bool all_reach_all = n_domain_ == s.n_pes && n_domain_ > 1 && all_beside;
  for (uint32_t rank = 0; rank < n_domain_ && all_reach_all; ++rank)
    for (uint32_t other = 0; other < n_domain_; ++other) all_reach_all &= other == rank || reached_by[rank].has(other);
  for (const mapping& m : mappings_) {
    const uint32_t pe = m.pe, rank = rank_of(pe);
    if (!reached_by[rank].has(me_)) continue;
    char* const their_area = static_cast<char*>(m.area);
    links[pe] = {
        static_cast<char*>(m.heap), shape_.ring(area_, me_, their_area, rank), line_of(rank), pe, rank, n_mapped_++,
        &s.doorbells[rank]};
    pes.push_back(pe);
    sources[rank] = shape_.ring(their_area, rank, area_, me_);
    words[rank] = reinterpret_cast<peer_words*>(their_area + shape_.words_at(me_));
  }
  if (own_chunks_) {
    own_ring_ = static_cast<char*>(device.allocate(peer_ring::bytes(own_chunks_, shape_.chunk_units),
                                                   "the ring of a PE to itself (GRAVEL_OWN_RING_SIZE)"));
    sources[me_] = peer_ring::in(own_ring_, own_chunks_, shape_.chunk_units);
    links[s.pe] = {nullptr, sources[me_], line_of(me_), s.pe, me_, peer_link::no_bin, &s.doorbells[me_]};
  }
  if (all_reach_all) {
    words[me_] = reinterpret_cast<peer_words*>(area_ + shape_.words_at(me_));
    rendezvous_ = {rendezvous_.theirs, reinterpret_cast<peer_words*>(area_ + shape_.words_at(0)), n_domain_};
  }
  device.copy(links_, links.data(), links.size() * sizeof(peer_link));
  device.copy(sources_, sources.data(), sources.size() * sizeof(peer_ring));
  device.copy(const_cast<peer_words**>(rendezvous_.theirs), words.data(), words.size() * sizeof(peer_words*));
  device.copy(pes_, pes.data(), pes.size() * sizeof(uint32_t));
  if (n_mapped_ || own_chunks_) n_sources_ = n_domain_;
}

/// Maps the first extents of another PE, of which the last is its area. Returns why that is impossible.
std::string peers::map_first(mapping& m, bool with_heap, std::span<new_extent> theirs) {
  const std::string why = text_of_error([&] {
    if (with_heap) {
      m.heap = device_.reserve(heap_bytes_, "the heap of another PE");
      map_extents(m, theirs.first(theirs.size() - 1));
    }
    m.area = device_.reserve(area_bytes_, "rings of another PE");
    device_.map_extent(static_cast<char*>(m.area), area_bytes_, std::move(theirs.back().memory));
  });
  if (why.empty()) return why;
  if (m.heap) device_.unreserve(static_cast<char*>(std::exchange(m.heap, nullptr)), heap_bytes_);
  if (m.area) device_.unreserve(static_cast<char*>(std::exchange(m.area, nullptr)), area_bytes_);
  return why;
}

void peers::map_extents(mapping& m, std::span<new_extent> theirs) {
  for (new_extent& e : theirs) {
    device_.map_extent(static_cast<char*>(m.heap) + e.place.begin, e.place.bytes, std::move(e.memory));
    m.extents.emplace(e.place.begin, e.place.bytes);
  }
}

std::vector<std::vector<new_extent>> peers::pass_on(std::span<const new_extent> mine,
                                                    const std::function<fabric_extents(uint32_t pe)>& extents_of) {
  if (exchange_) return exchange_->exchange(parties_, mine);
  std::vector<std::vector<new_extent>> theirs;
  for (const extent_exchange::party& party : parties_) {
    theirs.push_back(extents_of(party.pe).extents());
    check_places(party.pe, theirs.back(), mine);
  }
  return theirs;
}

void peers::share(std::span<const new_extent> extents, const exchange& all) {
  std::vector<std::vector<std::byte>> lists;
  if (uses_fabric_) lists = all(to_wire(exchange_ ? fabric_extents{} : fabric_extents::of(extents)));
  if (parties_.empty()) return;
  auto theirs =
      pass_on(extents, [&](uint32_t pe) { return from_wire<fabric_extents>(lists.at(pe), fmt::format("PE {}", pe)); });
  for (mapping& m : mappings_)
    if (m.heap) map_extents(m, theirs[m.party]);
}

void peers::forget(const extent& range) {
  for (mapping& m : mappings_) {
    auto next = m.extents.lower_bound(range.begin);
    while (next != m.extents.end() && next->first + next->second <= range.begin + range.bytes) {
      device_.decommit(static_cast<char*>(m.heap) + next->first, next->second);
      next = m.extents.erase(next);
    }
  }
}

void peers::forget() {
  for (const mapping& m : mappings_) {
    if (area_bytes_) {  // in extents
      if (m.heap) device_.unreserve(static_cast<char*>(m.heap), heap_bytes_);
      if (m.area) device_.unreserve(static_cast<char*>(m.area), area_bytes_);
      continue;
    }
    for (void* at : {m.heap, m.area})
      if (at) device_.forget_memory(at);
  }
  mappings_.clear();
}

peers::~peers() {
  forget();
  if (area_bytes_ && area_) device_.unreserve(std::exchange(area_, nullptr), area_bytes_);
  for (char* at : {tables_, own_ring_, area_})
    if (at) device_.release(at);
}

std::vector<ring_line> peers::read_lines() {
  std::vector<ring_line> lines(n_domain_);
  device_.read_words(reinterpret_cast<uint64_t*>(lines.data()), reinterpret_cast<const uint64_t*>(tables_),
                     lines.size() * sizeof(ring_line) / sizeof(uint64_t));
  return lines;
}

std::vector<uint64_t> peers::read_done(uint32_t rank) {
  const bool own = rank == me_;
  std::vector<uint64_t> done(own ? own_chunks_ : shape_.chunks);
  const char* const from = own ? reinterpret_cast<char*>(peer_ring::in(own_ring_, own_chunks_, shape_.chunk_units).done)
                               : area_ + shape_.done_at(rank);
  device_.read_words(done.data(), reinterpret_cast<const uint64_t*>(from), done.size());
  return done;
}

peers::counts peers::read() {
  counts all;
  for (const counts& ring : read_each()) {
    all.applied += ring.applied;
    all.tickets += ring.tickets;
  }
  return all;
}

std::vector<peers::counts> peers::read_each() {
  std::vector<counts> rings(n_sources_);
  if (n_sources_ == 0) return rings;
  if (own_chunks_) rings[me_].applied = read_lines()[me_].applied;
  if (n_mapped_) {
    std::vector<uint64_t> done(uint64_t{n_domain_} * shape_.chunks);
    device_.read_words(done.data(), reinterpret_cast<const uint64_t*>(area_ + shape_.done_at(0)), done.size());
    for (uint32_t rank = 0; rank < n_domain_; ++rank)
      if (rank != me_) rings[rank].applied = done_words<>{&done[uint64_t{rank} * shape_.chunks], shape_.chunks}.count();
  }
  const std::vector<ring_line> lines = read_lines();
  for (uint32_t rank = 0; rank < n_domain_; ++rank) rings[rank].tickets = lines[rank].tickets;
  return rings;
}

std::vector<uint64_t> peers::tickets() {
  std::vector<uint64_t> claimed(n_domain_);
  if (n_sources_)
    for (uint32_t rank = 0; const ring_line& line : read_lines()) claimed[rank++] = line.tickets;
  return claimed;
}

bool peers::applied_below(const std::vector<uint64_t>& tickets) {
  bool all = true;
  for (uint32_t rank = 0; rank < n_domain_; ++rank) {
    if (tickets[rank] == 0) continue;
    std::vector<uint64_t> done = read_done(rank);
    if (done_words<>{done.data(), static_cast<uint32_t>(done.size())}.first_missing(0, tickets[rank]) >= tickets[rank])
      continue;
    all = false;
    fetch_add_release<scope::system>(&doorbells_[rank], uint64_t{1});
  }
  return all;
}

std::string peers::describe() {
  const counts c = read();
  return fmt::format("rings in device memory: {} chunks pushed to {} peers{}, {} applied", c.tickets, n_mapped_,
                     own_chunks_ ? fmt::format(" and to the PE itself ({} chunks)", own_chunks_) : "", c.applied);
}

}  // namespace gravel::detail
