#include "test/support/fake_job.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "test/support/rows.hpp"

namespace gravel::detail {
namespace {

thread_local fake_job* the_job = nullptr;
thread_local relax_function relax_of_lanes = nullptr;

uint32_t relax_outside(uint32_t) {
  the_job->serve();
  return 0;
}
uint32_t relax_inside(uint32_t rounds) {
  // Not each time: many lanes wait at once, mostly for each other.
  if (the_job->draw().below(4) == 0) the_job->serve();
  relax_of_lanes(rounds);
  return 0;
}

/// The job's actors are no lanes: while they run, nothing switches lanes and no lane groups form.
class as_host {
 public:
  as_host() {
    relax_hook = relax_outside;
    interleave_hook = nullptr;
    simt::inner::explores = simt::inner::running_lanes = false;
  }
  ~as_host() {
    relax_hook = relax_;
    interleave_hook = interleave_;
    simt::inner::explores = explores_;
    simt::inner::running_lanes = running_lanes_;
  }
  as_host(const as_host&) = delete;

 private:
  relax_function relax_ = relax_hook;
  interleave_function interleave_ = interleave_hook;
  bool explores_ = simt::inner::explores, running_lanes_ = simt::inner::running_lanes;
};

}  // namespace

/// These stand in for host/pe/gravel.cpp's, which ask the runtime.
uint16_t valid_stamp = handle_stamp::valid;
void refuse_handle(const gravel_t&, const char* call) { fail("{} with a bad handle", call); }
void refuse_handle(const gravel_t& g, op o) { refuse_handle(g, name_of(o)); }
void refuse_handle(const gravel_t& g, other_call call) { refuse_handle(g, name_of(call)); }
void note_host_wait(host_wait&, const std::function<std::string()>&) {}
void note_host_wait(host_wait&, const wait_subject&) {}
void update_host_gets(const gravel_t& g) { fake_job::current().pe(g.my_pe).memory->update_host_gets(); }

settings settings_with(const std::map<std::string, std::string>& values) {
  return read_settings([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

fake_job& fake_job::current() {
  if (!the_job) fail("no fake_job on this thread");
  return *the_job;
}

fake_job::fake_job(const fake_shape& shape, handler_table handlers, receive_function receive, apply_function apply)
    : shape_(shape), handlers_(handlers), receive_(receive), apply_(apply), draw_(shape.seed) {
  std::map<std::string, std::string> values{{"GRAVEL_PACKET_SIZE", "4K"},
                                            {"GRAVEL_PACKETS_PER_DESTINATION", "2"},
                                            {"GRAVEL_EAGER_SIZE", "2K"},
                                            {"GRAVEL_SLOT_SIZE", "4K"},
                                            {"GRAVEL_SLOTS", "4"},
                                            {"GRAVEL_WARP_SLOTS", "4"},
                                            {"GRAVEL_REPLY_CELLS", "64"},
                                            {"GRAVEL_SYMMETRIC_SIZE", "64K"},
                                            {"GRAVEL_ROUTES", shape.self_in_place ? "no-peer" : "net"},
                                            {"GRAVEL_PEER_CHUNKS", "4"},
                                            {"GRAVEL_PEER_CHUNK_SIZE", "4K"},
                                            {"GRAVEL_AGGREGATOR_THREADS", "1"}};
  if (shape.peers) values["GRAVEL_ROUTES"] = "peer";
  for (const auto& [name, value] : shape.settings) values[name] = value;
  values_ = settings_with(values);
  n_planes_ = static_cast<uint32_t>(values_.aggregator_threads);
  std::vector<uint32_t> node_of_pe;
  for (uint32_t pe = 0; pe < shape.nodes * shape.pes_per_node; ++pe) node_of_pe.push_back(pe / shape.pes_per_node);
  topology_ = topology(node_of_pe, values_.two_hop_nodes);
  for (uint32_t pe = 0; pe < topology_.n_pes(); ++pe) make_pe(pe);
  std::vector<shared_pe*> all;
  for (auto& p : pes_) all.push_back(&p->shared);
  connect(topology_, {values_}, all);
  for (auto& p : pes_) make_handles(*p);
  for (uint32_t node = 0; node < shape.nodes; ++node) make_node(node);
  n_actors_ = shape.nodes * n_planes_ + 2 * n_pes() + shape.nodes + shape.nodes * shape.nodes * n_planes_;
  if (the_job) fail("two fake_jobs on one thread");
  the_job = this;
  relax_hook = relax_outside;
}

fake_job::~fake_job() {
  the_job = nullptr;
  relax_hook = nullptr;
}

void fake_job::make_pe(uint32_t pe) {
  pes_.push_back(std::make_unique<fake_pe>());
  fake_pe& p = *pes_.back();
  p.pe = pe;
  p.node = topology_.node_of(pe);
  p.segment = std::make_unique<pe_segment>(pe_segment::create(make_segment_shape(values_, topology_, p.node), pe));
  p.collectives = std::make_unique<collective_member>(*p.segment, pe);
  p.shared.device.kind = "cpu";
  p.shared.device.listed = handlers_;
  p.memory = std::make_unique<pe_memory>(p.shared.device, *p.segment, values_, pe, topology_.n_pes());
  p.shared.heap = reinterpret_cast<uint64_t*>(p.memory->heap().at());
}

void fake_job::make_handles(fake_pe& p) {
  if (!p.shared.error.empty()) fail_text(p.shared.error);
  p.memory->make_handles(*p.shared.routes);
  p.kernel = p.memory->of_kernels();
  p.host_thread = p.memory->of_host();
  p.device_handler = p.memory->of_device_handlers();
  p.host_handler = p.memory->of_host_handlers();
  p.receiver[0] =
      std::make_unique<host_receiver>(p.segment->landing_of(sink_kind::device), sink_kind::device, p.device_handler);
  p.receiver[1] =
      std::make_unique<host_receiver>(p.segment->landing_of(sink_kind::host), sink_kind::host, p.host_handler);
  p.drawn.resize(p.shared.routes->n_sources());
  p.places.resize(p.ring_lanes * p.drawn.size());
}

/// One chunk, if there is one for this lane.
bool fake_job::serve_ring(fake_pe& p, uint32_t lane, uint32_t source) {
  const peer_ring& ring = p.shared.routes->sources()[source];
  ring_place& at = p.places[lane * p.drawn.size() + source];
  if (!ring.slots) return false;
  at.begin(&p.drawn[source]);
  if (!ring.arrived(at.ticket)) return false;
  at.draw_next(&p.drawn[source]);
  chunk_header* chunk = ring.chunk(at.ticket);
  if (!peer_ring::may_hold(chunk->row, ring.chunk_units)) fail("a corrupt chunk arrived at PE {}", p.pe);
  each_message(chunk->row, peer_ring::payload(chunk), [&](const unit* message, uint32_t units) {
    if (const message_fault fault = apply_(p.device_handler, message, units); fault != message_fault::fine)
      fail("a corrupt message arrived at PE {}: {}", p.pe, name_of(fault));
  });
  ring.mark_done(at.ticket);
  at.advance();
  return true;
}

/// As aggregator::accept_pes, wire and start_planes.
void fake_job::make_node(uint32_t node) {
  nodes_.push_back(std::make_unique<fake_node>());
  fake_node& n = *nodes_.back();
  n.setup.nodes = topology_;
  n.setup.node = node;
  n.setup.values = values_;
  n.setup.spill = &n.spill;
  n.spill.limit = values_.spill_size;
  n.setup.handler_name = [this](uint32_t id) {
    const auto found =
        std::find_if(handlers_.begin(), handlers_.end(), [&](const handler_info& h) { return h.id == id; });
    return found == handlers_.end() ? std::string() : std::string(found->name);
  };
  for (uint32_t pe : topology_.pes_of(node)) n.setup.local.push_back(pes_[pe]->segment.get());
  n.transit.resize(n.setup.transit_bytes() / sizeof(unit));
  for (uint32_t i = 0; i < n_planes_; ++i) {
    n.staging.emplace_back(n.setup.staging_bytes() / sizeof(unit));
    auto& links = n.links.emplace_back();
    std::vector<remote_link*> pointers;
    for (uint32_t to = 0; to < topology_.n_nodes(); ++to) {
      links.push_back(to == node ? nullptr
                                 : std::make_unique<fake_link>(static_cast<uint32_t>(values_.packets_per_destination)));
      pointers.push_back(links.back().get());
    }
    n.planes.push_back(std::make_unique<plane>(n.setup, i, pointers, reinterpret_cast<char*>(n.staging[i].data()),
                                               reinterpret_cast<char*>(n.transit.data())));
    if (i == 0) n.collectives = std::make_unique<collective>(n.setup, pointers);
  }
}

uint64_t fake_job::stat_of(stat s) const {
  uint64_t sum = 0;
  for (const auto& n : nodes_)
    for (uint32_t p = 0; p < n_planes_; ++p)
      sum += load_relaxed(&n->setup.local[0]->control()->stats[p][static_cast<uint32_t>(s)]);
  return sum;
}

bool fake_job::step_plane(uint32_t node, uint32_t index) { return step_plane(node, index, now); }

bool fake_job::step_plane(uint32_t node, uint32_t index, uint64_t when) {
  bool moved = false;
  for (auto& link : nodes_[node]->links[index])
    if (link) moved |= link->done();
  return nodes_[node]->planes[index]->step(when) || moved;
}

bool fake_job::step_receiver(uint32_t pe, sink_kind kind) {
  const auto k = static_cast<uint32_t>(kind);
  fake_pe& p = *pes_[pe];
  if (p.receiving[k] || handlers_paused) return false;
  p.receiving[k] = true;
  bool moved;
  try {
    moved = receive_(*p.receiver[k]);
    if (kind == sink_kind::device)
      for (size_t i = 0; i < p.places.size(); ++i)
        moved |= serve_ring(p, draw_.below(p.ring_lanes), draw_.below(p.drawn.size()));
  } catch (...) {
    p.receiving[k] = false;
    throw;
  }
  p.receiving[k] = false;
  return moved;
}

bool fake_job::step_collective(uint32_t node) { return nodes_[node]->collectives->step(); }

bool fake_job::deliver(uint32_t from, uint32_t to, uint32_t index, random_numbers& draw, uint64_t when) {
  fake_link* link = nodes_[from]->links[index][to].get();
  fake_link::delivery d;
  if (!link || !link->take(draw, d)) return false;
  if (tamper) tamper(d);
  fake_node& n = *nodes_[to];
  if (d.local) {
    std::span<std::byte> memory = d.region < n.setup.local.size() ? n.setup.local[d.region]->landing_memory()
                                                                  : std::as_writable_bytes(std::span(n.transit));
    if (d.offset > memory.size() || d.bytes > memory.size() - d.offset)
      fail("a put outside region {} of node {}: offset {}, {} bytes of {}", d.region, to, d.offset, d.bytes,
           memory.size());
    std::memcpy(memory.data() + d.offset, d.local, d.bytes);
    link->arrived(d.puts);
    if (!d.is_notice) return true;
  }
  if (d.header.kind == plane_message::credit) n.links[index][from]->credit(d.header);
  if (d.header.kind == plane_message::waiting) n.collectives->receive_waiting(d.header);
  else if (!n.planes[index]->receive(d.header, d.data, when)) n.collectives->receive(d.header, d.data);
  return true;
}

bool fake_job::step_actor(uint32_t actor) {
  const uint32_t nodes = shape_.nodes, links = nodes * nodes * n_planes_;
  if (actor < links) return deliver(actor / n_planes_ / nodes, actor / n_planes_ % nodes, actor % n_planes_);
  actor -= links;
  if (actor < nodes * n_planes_) return step_plane(actor / n_planes_, actor % n_planes_);
  actor -= nodes * n_planes_;
  if (actor < 2 * n_pes()) return step_receiver(actor / 2, static_cast<sink_kind>(actor % 2));
  return step_collective(actor - 2 * n_pes());
}

bool fake_job::step() {
  const as_host here;
  if (clock_step) now += draw_.below(clock_step);
  if (draw_.below(4)) {
    bool moved = false;
    for (int i = 0; i < 3; ++i) moved |= step_actor(draw_.below(n_actors_));
    return moved;
  }
  bool moved = false;
  const uint32_t first = draw_.below(n_actors_);
  for (uint32_t i = 0; i < n_actors_; ++i) moved |= step_actor((first + i) % n_actors_);
  return moved;
}

void fake_job::check_idle(uint64_t idle) const {
  // Every cause for which a packet may wait has passed many times over by then; lanes may still be busy among
  // themselves.
  if (idle > 300'000) fail("nothing moves any more:\n{}", describe());
}

void fake_job::serve() {
  idle_ = step() ? 0 : idle_ + 1;
  check_idle(idle_);
}

void fake_job::settle() {
  const as_host here;
  for (uint32_t idle = 0; idle < 5;) {
    now += values_.timeout_us + 1;
    bool moved = false;
    for (uint32_t a = 0; a < n_actors_; ++a) moved |= step_actor(a);
    idle = moved ? 0 : idle + 1;
  }
}

void fake_job::enter_lane() {
  if (relax_hook == relax_inside) return;
  relax_of_lanes = relax_hook;
  relax_hook = relax_inside;
}

void fake_job::quiet(uint32_t pe) {
  fake_pe& p = *pes_[pe];
  for (const gravel_t* g : {&p.kernel, &p.host_thread}) {
    g->direct.flush_all();
    if (g->block.state) g->block.flush_all();
    flush_peers(*g, lane_group::active());
  }
  step_until([&] {
    p.memory->update_host_gets();
    return p.memory->kernel_gets_done() && p.memory->host_gets().all_done();
  });
}

void fake_job::quiet_all() {
  for (uint32_t pe = 0; pe < n_pes(); ++pe) quiet(pe);
}

std::vector<collective_words> fake_job::combine(const std::vector<collective_words>& mine, collective_kind kind) {
  ++collective_calls_;
  for (uint32_t i = 0; i < n_pes(); ++i) {
    pes_[i]->collectives->contribute({collective_calls_, kind, i, {}}, mine[i]);
    if (draw_.below(2)) step();
  }
  std::vector<collective_words> got(n_pes());
  for (uint32_t i = 0; i < n_pes(); ++i) {
    step_until([&] { return pes_[i]->collectives->has_result(); });
    got[i] = pes_[i]->collectives->result();
  }
  return got;
}

void fake_job::exchange(const std::vector<std::vector<std::byte>>& mine) {
  ++collective_calls_;
  for (uint32_t i = 0; i < n_pes(); ++i) {
    pes_[i]->collectives->contribute({collective_calls_, collective_kind::gather, i, {}}, {}, mine[i]);
    if (draw_.below(2)) step();
  }
  for (uint32_t i = 0; i < n_pes(); ++i) step_until([&] { return pes_[i]->collectives->has_result(); });
}

device_error fake_job::error_of(uint32_t pe) const {
  const device_error& of_device = pes_[pe]->segment->control()->error;
  return of_device.code ? of_device : pes_[pe]->memory->host_error();
}

std::string fake_job::describe() const {
  std::string text;
  for (const auto& n : nodes_) {
    for (const auto& p : n->planes) text += p->describe();
    text += n->collectives->describe();
  }
  return text;
}

}  // namespace gravel::detail
