#include "host/aggregator.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel {
namespace {

uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count());
}

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

/// All that one plane's thread owns. Destruction order: plane, links, worker, registration.
struct aggregator::plane_thread {
  aggregator* owner;
  uint32_t index;
  char* staging = nullptr;
  std::unique_ptr<ucx_memory> staging_memory;
  std::unique_ptr<ucx_worker> worker;
  std::vector<std::unique_ptr<ucx_link>> links;  ///< by node; nullptr for this node
  std::unique_ptr<plane> work;
  std::unique_ptr<collective> collectives;  ///< plane 0
  std::unique_ptr<node_watch> nodes;        ///< plane 0
  bool received = false;  ///< in this round; UCX's own keep-alive traffic is no progress of the job
  std::string binding;                      ///< in words, if it is bound
  std::string heard;                        ///< another node's reason for ending the job
  std::string lost;                         ///< a connection that broke, which may be a consequence of something else
  uint64_t lost_at = 0;
  std::jthread thread;

  std::vector<remote_link*> link_pointers(uint32_t n_nodes) const {
    std::vector<remote_link*> pointers(n_nodes);
    for (size_t i = 0; i < links.size(); ++i) pointers[i] = links[i].get();
    return pointers;
  }
  static void on_am(void* context, std::span<const std::byte> header, std::span<const std::byte> data) {
    static_cast<plane_thread*>(context)->receive(header, data);
  }
  void receive(std::span<const std::byte> raw, std::span<const std::byte> data) {
    plane_header header;
    if (raw.size() != sizeof(header)) fail("a message with a header of {} bytes arrived", raw.size());
    std::memcpy(&header, raw.data(), sizeof(header));
    if (header.word == plane_word::abort) {
      heard.assign(reinterpret_cast<const char*>(data.data()), data.size());
      return;
    }
    if (header.word == plane_word::pulse && nodes) return nodes->receive(header);
    received = true;
    const profile_range range("receive");
    if (work->receive(header, data, now_us())) return;
    if (!collectives || (header.word != plane_word::contribution && header.word != plane_word::result))
      fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.word));
    collectives->receive(header, data);
  }
};

aggregator::aggregator(int listener, uint32_t n_pes, pid_t parent, const settings& s)
    : listener_(listener), n_local_(n_pes), parent_(parent), injected_(s.fault) {
  setup_.values = s;
  setup_.fault = &injected_;
  spill_.limit = s.spill_size;
  setup_.spill = &spill_;
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe");
}

aggregator::~aggregator() {
  stop_ = true;
  planes_.clear();
  for (int end : wake_) close(end);
  remove_listener();
}

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

int aggregator::run() {
  accept_pes();
  placement_ = place_threads(setup_.values.aggregator_bind, bus_ids_,
                             static_cast<uint32_t>(setup_.values.aggregator_threads));
  if (placement_.threads.empty()) log_info("threads are not bound: {}", placement_.reason);
  wire();
  start_planes();
  for (auto& channel : channels_) channel.send(frame_type::ready, std::string());
  return watch_pes();
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
    auto first = channel.receive();
    if (!first) fail_second_hand(fmt::format("process {} connected and ended while the job was starting", pid));
    if (first->type != frame_type::hello || first->descriptor < 0) fail("process {} connected but is no PE", pid);
    hello h = hello::unpack(first->bytes);
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
  channels_[0].send(frame_type::wiring, mine.pack());
  // The answer comes through the first PE when all nodes are here.
  auto answer = channels_[0].receive();
  if (!answer || answer->type != frame_type::peers)
    fail_second_hand(fmt::format("PE {} ended while the job was starting", pes_[0]));
  blob_reader in(answer->bytes);
  for (uint32_t node = 0; node < n_nodes; ++node) {
    std::vector<std::byte> packed;
    in >> packed;
    if (node == setup_.node) continue;
    const wiring theirs = wiring::unpack(packed);
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

/// On the plane's own thread. A binding that is refused costs speed at most.
void aggregator::bind_plane(plane_thread& p) const {
  if (placement_.threads.empty()) return;
  const cpu_list& wanted = placement_.threads[p.index];
  if (const std::string why_not = bind_this_thread(wanted); !why_not.empty())
    return log_info("plane {} is not bound to processors {}: {}", p.index, text_of(wanted), why_not);
  p.binding = fmt::format("plane {} runs on processors {}, {}", p.index, text_of(binding_of_this_thread()), placement_.reason);
  log_info("{}", p.binding);
}

std::string aggregator::describe(const plane_thread& p) const {
  const std::string where = p.binding.empty() ? "" : p.binding + "\n";
  return where + p.work->describe() + (p.collectives ? p.collectives->describe() : std::string());
}

void aggregator::run_plane(plane_thread& p) {
  name_this_thread(fmt::format("gravel plane {}", p.index).c_str());
  bind_plane(p);
  relax wait;
  bool attentive = false;
  profile_wait waiting;
  uint64_t last_progress = now_us(), busy_since = 0;
  const uint64_t patience = setup_.values.watchdog_s * 1'000'000;
  // The other node may have ended because the job is over, or may have sent the reason, or our launcher may know it.
  constexpr uint64_t lost_patience = 500'000;
  try {
    while (!stop_) {
      p.received = false;
      const bool awake = p.worker && p.worker->progress();
      if (!p.heard.empty()) return fail_job(p.heard, true);
      const uint64_t now = now_us();
      if (busy_since) p.work->count_busy(now - std::exchange(busy_since, 0));
      // Plane 0 knows the collectives, too.
      if (pe_stopped_ && p.collectives) return fail_job(stopped_text_ + ":\n" + describe(p));
      if (!p.lost.empty() && !over_ && now - p.lost_at > lost_patience) return fail_job(p.lost);
      bool moved = p.work->step(now) || p.received;
      if (p.collectives) {
        for (auto& segment : segments_) store_relaxed(&segment.control()->aggregator_heartbeat, now);
        moved |= p.collectives->step();
        moved |= ring_bells();
        if (!over_) p.nodes->step(now);
        if (p.collectives->over() && !over_.exchange(true))
          for (auto& any : planes_)
            if (any->worker && any.get() == &p) any->worker->expect_disconnects();
      }
      if (moved || awake) wait.reset();
      if (moved) {
        waiting.end();
        last_progress = busy_since = now;
        continue;
      }
      const bool busy = p.work->busy();
      if (!busy) {
        last_progress = now;
      } else if (patience && now - last_progress > patience) {
        return fail_job(fmt::format("no progress for {} s (GRAVEL_WATCHDOG_S); a PE may be stopped, or its kernels may "
                                    "leave no room for the resolver:\n{}",
                                    setup_.values.watchdog_s, describe(p)));
      }
      if (awake) continue;
      waiting.in_vain(busy ? "wait" : "idle");
      const bool was_attentive = std::exchange(attentive, is_expecting(p));
      if (attentive && !was_attentive) wait.reset();
      if (busy) wait.briefly();
      else if (attentive) wait.attentively();
      else wait();
    }
    // Another plane gave up: how it stands here may say why.
    if (p.work->busy()) log_info("{}", describe(p));
  } catch (const std::exception& e) {
    fail_job(e.what());
  }
}

/// May something come any moment?
bool aggregator::is_expecting(const plane_thread& p) const {
  return (p.collectives && p.collectives->begun()) || std::any_of(segments_.begin(), segments_.end(), [](const pe_segment& segment) {
           return load_relaxed(&segment.control()->attention) != 0;
         });
}

/// A PE whose resolver sleeps does not see what its peers push into its memory: their kernels say so in their segments,
/// and we tell it. What a kernel stores is the time, so any change means new chunks.
bool aggregator::ring_bells() {
  bool rang = false;
  const size_t n = std::min<size_t>(segments_.size(), max_peers);
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to) {
      const uint64_t word = load_acquire(&segments_[from].control()->peer_bells[to]);
      if (word == seen_bells_[from * n + to]) continue;
      seen_bells_[from * n + to] = word;
      store_release(&segments_[to].control()->peer_bell, segments_[to].control()->peer_bell + 1);
      rang = true;
    }
  return rang;
}

void aggregator::fail_job(const std::string& text, bool heard) {
  {
    std::lock_guard lock(failure_lock_);
    if (!failed_) {
      failure_ = text;
      failure_is_heard_ = heard;
    }
    failed_ = true;
  }
  [[maybe_unused]] const auto written = write(wake_[1], "!", 1);
}

void aggregator::tell_everybody(const std::string& text) {
  for (auto& channel : channels_) try {
      channel.send(frame_type::abort, text);
    } catch (const std::exception&) {
      // That PE is gone already.
    }
  stop_ = true;
  for (auto& p : planes_)
    if (p->thread.joinable()) p->thread.join();
  if (!planes_.empty() && planes_[0]->worker) try {
      for (auto& link : planes_[0]->links)
        if (link) link->send({plane_word::abort, setup_.node, 0, 0, 0, 0, 0}, std::as_bytes(std::span(text)));
    } catch (const std::exception& e) {
      log_debug("{}", e.what());
    }
  end_planes();
}

/// Stops the planes' threads and delivers what they said last, an abort above all.
void aggregator::end_planes() {
  stop_ = true;
  for (auto& p : planes_)
    if (p->thread.joinable()) p->thread.join();
  for (auto& p : planes_)
    if (p->worker) try {
        p->worker->expect_disconnects();
        p->worker->close_endpoints(std::chrono::milliseconds(500));
      } catch (const std::exception& e) {
        log_debug("{}", e.what());
      }
}

/// A PE that is stopped sends nothing and answers nothing, and those that wait for it cannot know. Called after each
/// look in vain for words from the PEs; `watched[i].fd` is -1 for those that have left.
void aggregator::look_for_stopped_pes(const std::vector<pollfd>& watched) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool stopped = pe_watches_[i].look(watched[i].fd >= 0, load_relaxed(&segments_[i].control()->pe_heartbeat));
    if (!stopped || pe_stopped_) continue;
    stopped_text_ = fmt::format("PE {} (process {}) has not run for {} s (twice GRAVEL_WATCHDOG_S); is it stopped?", pes_[i],
                                pids_[i], 2 * setup_.values.watchdog_s);
    pe_stopped_ = true;  // a plane describes itself and ends the job
  }
}

int aggregator::watch_pes() {
  // Twice as patient as the planes, whose reason is the better one if messages wait.
  pe_watches_.assign(segments_.size(), stall_watch(2 * heartbeat_looks));
  const int look_ms = setup_.values.watchdog_s ? static_cast<int>(setup_.values.watchdog_s * 1000 / heartbeat_looks) : -1;
  std::vector<pollfd> watched;
  for (const auto& channel : channels_) watched.push_back({channel.descriptor(), POLLIN, 0});
  watched.push_back({wake_[0], POLLIN, 0});
  size_t left = channels_.size();
  while (left != 0) {
    const int n_ready = poll(watched.data(), watched.size(), look_ms);
    if (n_ready == 0) look_for_stopped_pes(watched);
    if (n_ready <= 0) continue;
    if (watched.back().revents) {
      std::string text;
      bool heard;
      {
        std::lock_guard lock(failure_lock_);
        text = failure_;
        heard = failure_is_heard_;
      }
      if (heard) log_info("the job ends: {}", text);
      else log_error("{}", text);
      tell_everybody(text);
      return 1;
    }
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (!watched[i].revents) continue;
      std::optional<frame> word;
      try {
        word = channels_[i].receive();
      } catch (const std::exception& e) {
        log_error("{}", e.what());
      }
      if (word && word->type == frame_type::goodbye) {
        watched[i].fd = -1;
        --left;
        continue;
      }
      // A PE that ends the job has said why on its own stderr.
      const std::string text = word && word->type == frame_type::abort
                                   ? word->text()
                                   : fmt::format("PE {} (process {}) ended without gravel_finalize", pes_[i], pids_[i]);
      tell_everybody(text);
      if (!word || word->type != frame_type::abort) {
        // Its launcher knows how it ended, and ends us: then that is enough.
        let_cause_speak();
        log_error("{}", text);
      }
      return 1;
    }
  }
  // Our PEs are done, so all of the job is (they said goodbye after the last collective).
  over_ = true;
  end_planes();
  return 0;
}

}  // namespace gravel
