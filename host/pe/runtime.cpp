#include "host/pe/runtime.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "host/node/stats.hpp"
#include "host/pe/collectives.hpp"
#include "host/pe/describe_error.hpp"
#include "host/pe/memory_domain.hpp"
#include "host/pe/program.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/output.hpp"
#include "lib/base/process_identity.hpp"

namespace gravel::detail {

constexpr uint64_t heap_page = 4096;  // the size of a heap is a multiple of this

/// What a PE says about its heap before the heaps are made.
struct heap_offer {
  uint64_t limit;    ///< bytes that it may have, if GRAVEL_SYMMETRIC_SIZE says nothing
  uint64_t granule;  ///< backend::granule()
  uint64_t fabric;   ///< backend::shares_by_fabric()
};
static heap_offer heap_offer_of(bootstrap& boot, uint32_t pe) {
  const auto bytes = boot.get(pe, "gravel.heap");
  heap_offer theirs{};
  if (bytes.size() == sizeof(theirs)) std::memcpy(&theirs, bytes.data(), sizeof(theirs));
  if (theirs.limit < heap_page || theirs.limit % heap_page)
    fail("PE {} says that its heap can have {} bytes", pe, theirs.limit);
  return theirs;
}

/// What the memory handles of this PE reach, for pes_of_domain().
static std::string reach_of(const backend& device, const settings& values) {
  if (values.domain == "node" || (values.domain == "auto" && values.nodes > 1)) return {};
  if (const std::string domain = device.nvlink_domain(); !domain.empty()) return "NVLink domain " + domain;
  return reach_of_descriptors();
}

runtime::runtime(std::unique_ptr<backend> device, std::unique_ptr<bootstrap> job)
    : device_(std::move(device)), job_(std::move(job)) {
  device_->open(job_.boot->local_rank(), job_.boot->local_size());
  link_.emplace(job_);
  agree_on_program();
  connect();
  end_.emplace(*link_, job_.pe);
  monitor_.emplace(job_, *link_, *end_, *segment_->control());
  set_up_messages();
  start_receiver();
  queues_.emplace(*segment_, *memory_);
  monitor_->watch(*queues_, *memory_, *peers_, services_, [this] { return describe(); });
  receiver_.emplace(
      *device_, [this] { check_errors(); }, [this](const std::string& text) { end_->abort(text, 1); });
  job_.boot->on_abort([this](const std::string& text) { monitor_->report_from_launcher(text); });
  const std::vector<bool> reaches = reached();
  collective_words mine{};
  mine.least = std::count(reaches.begin(), reaches.end(), true) == job_.nodes.n_pes();
  memory_->set_all_mapped(begin_collective(collective_kind::init).combine(mine).least != 0);
}

std::vector<bool> runtime::reached() const {
  const gravel_t& g = memory_->of_kernels();
  std::vector<peer_link> links(g.n_pes);
  if (g.peers) device_->copy(links.data(), g.peers, links.size() * sizeof(peer_link));
  std::vector<bool> all(g.n_pes);
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) all[pe] = pe == g.my_pe || links[pe].heap;
  return all;
}

runtime::~runtime() {
  end_->leave();
  link_->shut_down();
  receiver_.reset();
  monitor_.reset();
  valid_stamp = handle_stamp::after_finalize;
  peers_.reset();
  device_->unpin(segment_->base());
}

/// Compares all PEs in one exchange. Each PE describes itself; the others must match PE 0.
void runtime::agree_on_program() {
  const program_description mine = describe_program(*device_, job_.values);
  bootstrap& boot = *job_.boot;
  boot.put("gravel.program", to_wire(mine));
  const process_identity self = this_process();
  boot.put("gravel.process", std::as_bytes(std::span(&self, 1)));
  if (job_.is_leader()) boot.put("gravel.socket", std::as_bytes(std::span(link_->socket_name())));
  const heap_offer offer{device_->usual_heap_limit() / heap_page * heap_page, device_->granule(),
                         device_->shares_by_fabric()};
  boot.put("gravel.heap", std::as_bytes(std::span(&offer, 1)));
  const std::string reach = reach_of(*device_, job_.values);
  boot.put("gravel.reach", std::as_bytes(std::span(reach)));
  boot.fence();
  const auto at_0 = from_wire<program_description>(boot.get(0, "gravel.program"), "PE 0");
  if (const std::string what = difference(mine, at_0); !what.empty()) fail("{}", what);
  if (job_.values.symmetric_size == 0) job_.values.symmetric_size = least_heap_limit(offer.limit);
  // Limits are rounded up to whole extents, and all heaps must have the same layout.
  const uint64_t granule_at_0 = heap_offer_of(boot, 0).granule;
  for (const uint64_t granule : {offer.granule, granule_at_0})
    if (offer.granule != granule_at_0 && granule && job_.values.symmetric_size % granule)
      fail(
          "the symmetric heap grows at one of PE 0 and PE {}, and has a fixed size at the other: set "
          "GRAVEL_HANDLE_TYPE "
          "to the same value at all PEs, or GRAVEL_SYMMETRIC_SIZE to a multiple of {} bytes",
          job_.pe, granule);
  find_domain();
  if (job_.is_leader()) return;
  const auto name = boot.get(job_.leader(), "gravel.socket");
  link_->set_socket_name({reinterpret_cast<const char*>(name.data()), name.size()});
}

/// Finds the PEs whose memory this PE may map.
void runtime::find_domain() {
  std::vector<std::string> reach;
  for (uint32_t pe = 0; pe < job_.nodes.n_pes(); ++pe) {
    const auto bytes = job_.boot->get(pe, "gravel.reach");
    reach.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    uses_fabric_ |= heap_offer_of(*job_.boot, pe).fabric != 0;
  }
  domain_ = pes_of_domain(job_.nodes, job_.pe, reach);
  if (!job_.is_leader()) return;
  if (const std::string text = describe_domain(job_.nodes, domain_, reach[job_.pe]); !text.empty())
    log_info("{}", text);
}

/// The least of all PEs' limits of the symmetric heap.
uint64_t runtime::least_heap_limit(uint64_t mine) {
  for (uint32_t pe = 0; pe < job_.nodes.n_pes(); ++pe) mine = std::min(mine, heap_offer_of(*job_.boot, pe).limit);
  return mine;
}

/// True if every node runs on the host of this PE. The launcher may know hosts only by their names, so it is not asked.
bool runtime::is_on_one_host() {
  const process_identity self = this_process();
  for (uint32_t node = 0; node < job_.nodes.n_nodes(); ++node) {
    const auto bytes = job_.boot->get(job_.nodes.pes_of(node)[0], "gravel.process");
    process_identity theirs{};
    if (bytes.size() != sizeof(theirs))
      fail("the description of PE {} has {} bytes; expected {}", job_.nodes.pes_of(node)[0], bytes.size(),
           sizeof(theirs));
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    if (!on_one_host(theirs, self)) return false;
  }
  return true;
}

void runtime::connect() {
  const segment_shape shape = make_segment_shape(job_.values, job_.nodes, job_.node);
  segment_.emplace(pe_segment::create(shape, job_.pe));
  collectives_.emplace(*segment_, job_.pe);
  device_->pin(segment_->base(), segment_->bytes());
  hello h;
  h.pe = job_.pe;
  h.node = job_.node;
  h.one_host = is_on_one_host();
  h.shape = shape;
  h.bus_id = device_->bus_id();
  for (uint32_t pe = 0; pe < job_.nodes.n_pes(); ++pe) h.node_of_pe.push_back(job_.nodes.node_of(pe));
  for (const auto& handler : device_->handlers()) h.handlers.emplace_back(handler.id, handler.name);
  link_->connect(h, segment_->descriptor());
}

void runtime::set_up_messages() {
  memory_.emplace(*device_, *segment_, job_.values, job_.pe, job_.nodes.n_pes());
  heap_memory& heap = memory_->heap();
  peers_.emplace(*device_,
                 peers_setup{job_.nodes.n_pes(), job_.pe, domain_, &job_.values, heap.at(),
                             segment_->control()->peer_doorbells, heap.bytes(), &heap.first(), uses_fabric_},
                 [this](std::span<const std::byte> mine) {
                   job_.boot->put("gravel.peer", mine);
                   job_.boot->fence();
                   std::vector<std::vector<std::byte>> theirs(job_.nodes.n_pes());
                   for (uint32_t pe : domain_) theirs[pe] = job_.boot->get(pe, "gravel.peer");
                   return theirs;
                 });
  if (peers_->n_sources()) {
    pe_control& control = *segment_->control();
    std::copy(domain_.begin(), domain_.end(), control.domain);
    store_release(&control.domain_size, uint64_t{domain_.size()});  // [N1]
  }
  memory_->make_handles(*peers_);
  job_.values.symmetric_size = heap.limit();  // whole extents
  if (job_.is_leader()) {                     // it is the same at all PEs of the node
    log_info("symmetric heap: {} {}", heap.grows() ? "grows to at most" : "fixed size of",
             text_of_bytes(job_.values.symmetric_size) + (heap.grows() ? "" : ": " + device_->why_fixed()));
    if (const std::string how = device_->describe_sharing(); !how.empty()) log_info("memory of the GPU is {}", how);
  }
  symmetric_.emplace(
      *device_, heap, job_.values.symmetric_size, job_.pe,
      [this](collective_kind kind, uint64_t argument, const collective_words& mine) {
        return begin_collective(kind, argument).combine(mine);
      },
      symmetric_heap::sharing{[this](std::span<const new_extent> extents) {
                                peers_->share(extents,
                                              [this](std::span<const std::byte> mine) { return exchange(mine); });
                              },
                              [this](const extent& range) { peers_->forget(range); }});
  completion_.emplace(completion::parts{*device_, *segment_, *memory_, *peers_, *collectives_, job_.is_leader(),
                                        [this] { check_errors(); }, services_.open()});
}

/// Sends a blob to all PEs and returns those of all PEs, by collectives.
std::vector<std::vector<std::byte>> runtime::exchange(std::span<const std::byte> mine) {
  const uint64_t n_pes = job_.nodes.n_pes(), size = mine.size();
  std::vector<uint64_t> sizes(n_pes);
  gather(sizes.data(), &size, sizeof(size), collective_kind::share);
  const uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::byte> padded(mine.begin(), mine.end()), all(n_pes * most);
  padded.resize(most);
  gather(all.data(), padded.data(), most, collective_kind::share);
  std::vector<std::vector<std::byte>> theirs(n_pes);
  for (uint64_t pe = 0; pe < n_pes; ++pe) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(pe * most);
    theirs[pe].assign(begin, begin + static_cast<ptrdiff_t>(sizes[pe]));
  }
  return theirs;
}

void runtime::start_receiver() {
  valid_stamp = handle_stamp::valid;  // handlers may run at once
  pe_control& control = *segment_->control();
  device_->start_receiver({memory_->of_device_handlers(),
                           memory_->of_host_handlers(),
                           segment_->landing_of(sink_kind::device),
                           segment_->landing_of(sink_kind::host),
                           peers_->sources(),
                           peers_->n_sources(),
                           peers_->own_source(),
                           peers_->n_sources() ? &control.peer_doorbell : nullptr,
                           &control.attention,
                           {memory_->of_kernels(), peers_->rendezvous(), peers_->lines(), peers_->n_sources()}});
}

void runtime::check_errors() {
  const auto name_of_handler = [this](uint64_t id) -> std::string {
    for (const handler_info& h : device_->handlers())
      if (h.id == id) return h.name;
    return "unknown";
  };
  for (const device_error* found :
       {static_cast<const device_error*>(&segment_->control()->error), &memory_->host_error()}) {
    if (load_acquire(&found->code) == 0) continue;  // [E1]
    abort_job(
        gravel::detail::describe(*found, job_.pe, job_.nodes.n_pes(), job_.values.symmetric_size, name_of_handler), 1);
  }
}

/// State of the queues' producers, which the aggregator cannot see, and of the receiver.
std::string runtime::describe() {
  queue_state states[n_queue_kinds];
  memory_->read_queue_states(states);
  std::string text;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment_->queue_of(kind);
    if (states[kind].tickets == 0) continue;
    text += fmt::format("{}: {} tickets, below {} known to be consumed, {} are; flushed below {} of {} requested\n",
                        name_of(static_cast<queue_kind>(kind)), states[kind].tickets, states[kind].consumed_below,
                        q.read_consumed(), states[kind].flushed_below, states[kind].requested);
  }
  return text + services_.describe() + peers_->describe() + "\n" + device_->describe_receiver();
}

stats_row runtime::read_stats() const {
  stats_row mine;
  if (job_.is_leader())
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
      for (uint32_t i = 0; i < n_stats; ++i) mine.value[i] += load_relaxed(&segment_->control()->stats[p][i]);
  const device_counters counters = memory_->read_device_counters();
  mine[stat::messages_in_place] = counters.in_place() + memory_->host_counters().in_place();
  mine[stat::messages_to_peers] = counters.to_peers();
  return mine;
}

/// Who sent how many messages to whom. Collective, as part of `call`. PE 0 gets the result; a large job has none.
message_matrix runtime::gather_messages(collective_member::call& call, const stats_row& mine) const {
  message_matrix all;
  const uint32_t n = job_.nodes.n_pes();
  if (n > message_matrix::most_pes) return all;
  std::vector<uint64_t> own(n);
  for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
    for (uint32_t to = 0; to < n; ++to) own[to] += load_relaxed(&segment_->messages_taken_by(p)[to]);
  own.push_back(mine[stat::messages_in_place]);
  own.push_back(mine[stat::messages_to_peers]);
  std::vector<std::vector<uint64_t>> rows(n);
  const size_t words = call.room() / n / sizeof(uint64_t);
  for (size_t at = 0; at < own.size(); at += words) {
    const std::span part = std::span(own).subspan(at, std::min(words, own.size() - at));
    const std::span<const std::byte> parts = call.exchange(std::as_bytes(part));
    if (job_.pe != 0) continue;
    for (uint32_t from = 0; from < n; ++from) {
      rows[from].resize(at + part.size());
      std::memcpy(rows[from].data() + at, parts.data() + from * part.size_bytes(), part.size_bytes());
    }
  }
  if (job_.pe != 0) return all;
  for (std::vector<uint64_t>& row : rows) {
    all.in_place.push_back(row[n]);
    all.to_peers.push_back(row[n + 1]);
    row.resize(n);
  }
  all.through_queue = std::move(rows);
  return all;
}

/// Implements GRAVEL_STATS and GRAVEL_STATS_JSON: adds up the job's statistics when it ends. Collective, as part of
/// `call`. PE 0 writes them. Returns why the file could not be written, or an empty text.
std::string runtime::report_stats(collective_member::call& call) {
  const stats_row mine = read_stats();
  stats_row all;
  for (uint32_t i = 0; i < n_stats; i += 4) {
    collective_words words{};
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) words.sum[j] = mine.value[i + j];
    const collective_words sums = call.combine(words);
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) all.value[i + j] = sums.sum[j];
  }
  const message_matrix messages = gather_messages(call, mine);
  if (job_.pe != 0) return {};
  if (job_.values.stats) std::fputs(stats_text(all, job_.nodes.n_pes(), job_.nodes.n_nodes()).c_str(), stderr);
  if (job_.values.stats_json.empty()) return {};
  return text_of_error(
      [&] { write_file(job_.values.stats_json, stats_json(all, messages, job_.nodes.n_pes(), job_.nodes.n_nodes())); });
}

std::string runtime::finalize() {
  if (!services_.open().empty()) fail("gravel_finalize: service '{}' is still open", services_.open().front()->name());
  completion_->quiet();
  auto call = begin_collective(collective_kind::finalize);
  collective_words mine{};
  mine.most = job_.values.stats || !job_.values.stats_json.empty();  // if one PE wants statistics, all take part
  std::string unwritten;  // an error of this PE's call only: all PEs leave as always
  if (call.combine(mine).most) unwritten = report_stats(call);
  // PEs free their memory after the last collective. By then no PE has it mapped any more.
  receiver_->stop();
  check_errors();
  peers_->forget();
  mine.last = 1;
  call.combine(mine);
  end_->leave();  // the aggregator stays until this PE says goodbye
  link_->leave();
  job_.boot->finalize();
  return unwritten;
}

}  // namespace gravel::detail
