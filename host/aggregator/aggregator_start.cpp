// How an aggregator starts: its PEs come, it maps their segments, finds the other nodes, and starts its threads.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "host/aggregator/aggregator_plane.hpp"
#include "lib/base/log.hpp"

namespace gravel {
namespace {

/// A process of this node is gone: what its launcher or itself says about it comes first.
[[noreturn]] void fail_second_hand(const std::string& text) {
  let_cause_speak();
  fail_text(text);
}

char* map_pages(uint64_t bytes, const char* what) {
  if (bytes == 0) return nullptr;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail_errno(fmt::format("{} bytes for {}", bytes, what));
  return static_cast<char*>(at);
}

}  // namespace

/// Once all PEs are connected nobody needs its name; and the PE that made it may be dead.
void aggregator::remove_listener() {
  if (listener_ < 0) return;
  sockaddr_un address{};
  socklen_t length = sizeof(address);
  if (getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0 && address.sun_path[0] == '/') {
    unlink(address.sun_path);
    *std::strrchr(address.sun_path, '/') = 0;
    rmdir(address.sun_path);
  }
  close(listener_);
  listener_ = -1;
}

void aggregator::accept_pes() {
  struct arrival {
    hello h;
    pe_segment segment;
    node_channel channel;
    int pid;
  };
  std::map<uint32_t, arrival> arrivals;  // by PE
  const uint64_t deadline = now_us() + setup_.values.connect_timeout_s * 1'000'000;
  while (arrivals.size() < n_local_) {
    // Also watch those that are here already: one that dies now would leave everybody waiting.
    std::vector<pollfd> watched{{listener_, POLLIN, 0}};
    std::vector<uint32_t> watched_pe;
    for (const auto& [pe, a] : arrivals) {
      watched.push_back({a.channel.descriptor(), POLLIN, 0});
      watched_pe.push_back(pe);
    }
    const uint64_t now = now_us();
    if (now >= deadline)
      fail("only {} of {} PEs connected within {} s (GRAVEL_CONNECT_TIMEOUT_S)", arrivals.size(), n_local_,
           setup_.values.connect_timeout_s);
    poll(watched.data(), watched.size(), static_cast<int>(std::min<uint64_t>((deadline - now) / 1000 + 1, 200)));
    for (size_t i = 1; i < watched.size(); ++i)
      if (watched[i].revents) fail_second_hand(fmt::format("PE {} ended while the job was starting", watched_pe[i - 1]));
    if (getppid() != parent_)
      fail_second_hand(fmt::format("process {}, which started this aggregator, ended while the job was starting", parent_));
    if (!(watched[0].revents & POLLIN)) continue;
    const int accepted = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) continue;
    node_channel channel(accepted);
    int pid = -1;
    try {
      pid = channel.check_peer();
    } catch (const error& e) {
      log_warning("{}; refused", e.what());
      continue;
    }
    channel.limit_waits(2 * setup_.values.connect_timeout_s);
    channel.limit_sends(2 * setup_.values.connect_timeout_s);
    auto first = channel.receive();
    if (!first) fail_second_hand(fmt::format("process {} connected and ended while the job was starting", pid));
    if (first->kind != wire_kind::hello) fail("process {} connected but is no PE", pid);
    hello h = first->as<hello>(fmt::format("process {}", pid));
    pe_segment segment = pe_segment::attach(first->descriptor, h.shape, h.pe);
    const uint32_t pe = h.pe;
    if (!arrivals.try_emplace(pe, arrival{std::move(h), std::move(segment), std::move(channel), pid}).second)
      fail("PE {} connected twice", pe);
  }
  remove_listener();

  const hello& first = arrivals.begin()->second.h;
  setup_.nodes = topology(first.node_of_pe, setup_.values.two_hop_nodes);
  setup_.node = first.node;
  handlers_ = first.handlers;
  set_log_name(fmt::format("aggregator of node {}", setup_.node));
  setup_.handler_name = [this](uint32_t id) {
    for (const auto& [known, name] : handlers_)
      if (known == id) return name;
    return std::string();
  };
  const segment_shape expected = make_segment_shape(setup_.values, setup_.nodes, setup_.node);
  const std::vector<uint32_t>& due = setup_.nodes.pes_of(setup_.node);
  for (auto& [pe, a] : arrivals) {
    if (a.h.node != setup_.node || std::find(due.begin(), due.end(), pe) == due.end())
      fail("PE {} of node {} connected to the aggregator of node {}", pe, a.h.node, setup_.node);
    if (!(a.h.shape == expected)) fail("PE {} has other GRAVEL_* settings than its aggregator", pe);
    segments_.push_back(std::move(a.segment));
    channels_.push_back(std::move(a.channel));
    pes_.push_back(pe);
    pids_.push_back(a.pid);
    if (!a.h.bus_id.empty()) bus_ids_.push_back(a.h.bus_id);
  }
  if (pes_.size() != due.size()) fail("{} PEs connected to node {}, which has {}", pes_.size(), setup_.node, due.size());
  for (auto& segment : segments_) setup_.local.push_back(&segment);
  const size_t n = std::min<size_t>(segments_.size(), max_peers);
  seen_bells_.assign(n * n, 0);
}

void aggregator::wire() {
  const uint32_t n_nodes = setup_.nodes.n_nodes();
  const uint64_t n_planes = setup_.values.aggregator_threads;
  transit_bytes_ = transit_bytes(setup_);
  transit_ = map_pages(transit_bytes_, "packets of other nodes");
  const uint64_t staging = staging_bytes(setup_);
  for (uint32_t i = 0; i < n_planes; ++i) {
    planes_.push_back(std::make_unique<plane_thread>());
    planes_[i]->owner = this;
    planes_[i]->index = i;
    planes_[i]->staging = map_pages(staging, "packets to other nodes");
    planes_[i]->links.resize(n_nodes);
  }
  if (n_nodes == 1) return;

  ucx_ = std::make_unique<ucx_context>(static_cast<unsigned>(n_planes), n_nodes - 1, log_name());
  wiring mine;
  for (auto& segment : segments_) {
    const auto memory = segment.landing_memory();
    landing_memory_.push_back(std::make_unique<ucx_memory>(*ucx_, memory.data(), memory.size()));
    mine.keys.push_back(landing_memory_.back()->packed_key());
  }
  mine.keys.emplace_back();
  if (transit_bytes_) {
    transit_memory_ = std::make_unique<ucx_memory>(*ucx_, transit_, transit_bytes_);
    mine.keys.back() = transit_memory_->packed_key();
  }
  for (auto& p : planes_) {
    p->staging_memory = std::make_unique<ucx_memory>(*ucx_, p->staging, staging);
    p->worker = std::make_unique<ucx_worker>(*ucx_);
    p->worker->on_am(plane_am, &plane_thread::on_am, p.get());
    p->worker->on_error([&p = *p](const std::string& text) {
      if (!p.lost.empty()) return;
      p.lost = text;
      p.lost_at = now_us();
    });
    mine.worker.push_back(p->worker->address());
  }
  channels_[0].send(mine);
  // The answer comes through the first PE when all nodes are here.
  auto answer = channels_[0].receive();
  if (!answer || answer->kind != wire_kind::all_wirings)
    fail_second_hand(fmt::format("PE {} ended while the job was starting", pes_[0]));
  const auto all = answer->as<all_wirings>(fmt::format("PE {}", pes_[0])).by_node;
  if (all.size() != n_nodes) fail("PE {} sent wirings of {} nodes; there are {}", pes_[0], all.size(), n_nodes);
  for (uint32_t node = 0; node < n_nodes; ++node) {
    if (node == setup_.node) continue;
    const auto theirs = from_wire<wiring>(all[node], fmt::format("the aggregator of node {}", node));
    if (theirs.worker.size() != n_planes || theirs.keys.size() != setup_.nodes.pes_of(node).size() + 1)
      fail("node {} has {} aggregator threads, this node {}: GRAVEL_AGGREGATOR_THREADS must be the same everywhere", node,
           theirs.worker.size(), n_planes);
    for (auto& p : planes_)
      p->links[node] = std::make_unique<ucx_link>(*p->worker, theirs.worker[p->index], theirs.keys,
                                                  fmt::format("the aggregator of node {}", node), *p->staging_memory);
  }
}

void aggregator::start_planes() {
  char* transit = transit_;
  for (auto& p : planes_) {
    p->work = std::make_unique<plane>(setup_, p->index, p->link_pointers(setup_.nodes.n_nodes()), p->staging, transit);
    if (p->index != 0) continue;
    p->collectives = std::make_unique<collective>(setup_, p->link_pointers(setup_.nodes.n_nodes()));
    p->nodes = std::make_unique<node_watch>(setup_, p->link_pointers(setup_.nodes.n_nodes()));
  }
  for (auto& p : planes_) p->thread = std::jthread([this, &p = *p] { run_plane(p); });
}

}  // namespace gravel
