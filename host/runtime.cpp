#include "host/runtime.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "host/aggregator_process.hpp"
#include "host/hello.hpp"
#include "host/settings_resolved.hpp"
#include "host/stall_watch.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

extern char** environ;

namespace gravel {

runtime::runtime(std::unique_ptr<backend> device) : device_(std::move(device)) {
  boot_ = bootstrap::connect();
  pe_ = boot_->rank();
  own_pe = pe_;
  set_log_name(fmt::format("PE {}", pe_));
  values_ = resolved_settings(boot_->local_size());
  if (pe_ == 0)
    for (const auto& name : unknown_settings(environ))
      log_warning("{} is not a variable of Gravel; gravel-info -c lists them", name);
  nodes_ = topology(assign_nodes(boot_->host_of(), values_.nodes), values_.two_hop_nodes);
  node_ = nodes_.node_of(pe_);
  const auto& local = nodes_.pes_of(node_);
  local_rank_ = static_cast<uint32_t>(std::find(local.begin(), local.end(), pe_) - local.begin());
  local_size_ = static_cast<uint32_t>(local.size());
  is_leader_ = local_rank_ == 0;

  device_->open(boot_->local_rank(), boot_->local_size());
  start_aggregator();
  check_same_program();
  connect();
  monitor_ = std::thread([this] { monitor_loop(); });
  try {
    make_handles();
  } catch (...) {
    leaving_ = true;
    channel_->shut_down();
    monitor_.join();
    throw;
  }
  running_ = true;
  receiver_ = std::thread([this] { receive_loop(); });
  boot_->on_abort([this](const std::string& text) {
    launcher_text_ = text;
    launcher_reports_ = true;
    channel_->shut_down();  // wakes the monitor
  });
  combine({});
}

runtime::~runtime() {
  leaving_ = true;
  stop_ = true;
  if (channel_) channel_->shut_down();
  if (receiver_.joinable()) receiver_.join();
  if (monitor_.joinable()) monitor_.join();
  device_->stop_receiver();
  peers_.reset();
  if (segment_) device_->unpin(segment_->base());
  for (void* memory : {static_cast<void*>(heap_), static_cast<void*>(device_state_), static_cast<void*>(device_cells_)})
    if (memory) device_->release(memory);
}

/// Every PE says what it is, in one exchange; PE 0's word is what the others must match.
void runtime::check_same_program() {
  blob_writer mine;
  mine << std::string(GRAVEL_VERSION) << std::string(device_->name()) << values_.symmetric_size << values_.packet_size
       << values_.packets_per_destination << values_.aggregator_threads << values_.two_hop_nodes << values_.reply_cells
       << values_.nodes;
  const auto handlers = device_->handlers();
  mine << static_cast<uint32_t>(handlers.size());
  for (const auto& h : handlers) mine << h.name << h.bytes << h.on_host;
  boot_->put("gravel.program", mine.bytes);
  if (is_leader_) boot_->put("gravel.socket", std::as_bytes(std::span(socket_path_)));
  boot_->fence();
  const auto theirs = boot_->get(0, "gravel.program");
  if (theirs == mine.bytes) {
    if (is_leader_) return;
    const auto path = boot_->get(nodes_.pes_of(node_)[0], "gravel.socket");
    socket_path_.assign(reinterpret_cast<const char*>(path.data()), path.size());
    return;
  }

  // Say what differs.
  blob_reader a(theirs), b(mine.bytes);
  for (const char* what : {"the version of Gravel", "the backend"}) {
    std::string x, y;
    a >> x, b >> y;
    if (x != y) fail("{} differs: '{}' here, '{}' at PE 0", what, y, x);
  }
  for (const char* what : {"GRAVEL_SYMMETRIC_SIZE", "GRAVEL_PACKET_SIZE", "GRAVEL_PACKETS_PER_DESTINATION",
                           "GRAVEL_AGGREGATOR_THREADS", "GRAVEL_TWO_HOP_NODES", "GRAVEL_REPLY_CELLS", "GRAVEL_NODES"}) {
    uint64_t x, y;
    a >> x, b >> y;
    if (x != y) fail("{} differs: {} here, {} at PE 0", what, y, x);
  }
  uint32_t count_a, count_b;
  a >> count_a, b >> count_b;
  for (uint32_t i = 0; i < std::max(count_a, count_b); ++i) {
    std::string x = "(none)", y = "(none)";
    uint32_t bytes_x = 0, bytes_y = 0;
    bool host_x = false, host_y = false;
    if (i < count_a) a >> x >> bytes_x >> host_x;
    if (i < count_b) b >> y >> bytes_y >> host_y;
    if (x != y) fail("handler {} differs: '{}' here, '{}' at PE 0; all PEs must register the same handlers", i, y, x);
    if (bytes_x != bytes_y || host_x != host_y)
      fail("handler '{}' differs: {} bytes of arguments{} here, {}{} at PE 0", x, bytes_y, host_y ? " on the host" : "",
           bytes_x, host_x ? " on the host" : "");
  }
  fail("this PE and PE 0 run different programs");
}

void runtime::start_aggregator() {
  if (!is_leader_) return;
  const std::string path = find_aggregator(values_.aggregator);
  listener_.emplace(boot_->session_directory());
  aggregator_pid_ = spawn_aggregator(path, listener_->descriptor(), local_size_, boot_->local_size());
  listener_->leave_listening_to_child();
  socket_path_ = listener_->path();
}

void runtime::connect() {
  const segment_shape shape = make_segment_shape(values_, nodes_, node_);
  segment_.emplace(pe_segment::create(shape, pe_));
  device_->pin(segment_->base(), segment_->bytes());
  greet_aggregator(shape);
  exchange_wiring();
  auto answer = channel_->receive();
  if (answer && answer->type == frame_type::abort) fail("{}", answer->text());
  if (!answer || answer->type != frame_type::ready) fail_without_aggregator();
  channel_->limit_waits(0);
  listener_.reset();  // all PEs of the node have connected
}

void runtime::greet_aggregator(const segment_shape& shape) {
  hello h;
  h.pe = pe_;
  h.node = node_;
  h.shape = shape;
  h.bus_id = device_->bus_id();
  for (uint32_t pe = 0; pe < nodes_.n_pes(); ++pe) h.node_of_pe.push_back(nodes_.node_of(pe));
  for (const auto& handler : device_->handlers()) h.handlers.emplace_back(handler.id, handler.name);
  try {
    channel_.emplace(node_channel::connect(socket_path_));
    channel_->limit_waits(2 * values_.connect_timeout_s);
    channel_->check_peer();
    channel_->send(frame_type::hello, h.pack(), segment_->descriptor());
  } catch (const error& e) {
    let_cause_speak();
    if (!is_leader_) let_cause_speak();  // the first PE of the node knows more
    siginfo_t ended{};
    if (is_leader_ && waitid(P_PID, static_cast<id_t>(aggregator_pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid != 0)
      fail_without_aggregator();
    throw;
  }
}

void runtime::exchange_wiring() {
  if (nodes_.n_nodes() > 1) {
    if (is_leader_) {
      auto mine = channel_->receive();
      if (!mine || mine->type != frame_type::wiring) fail_without_aggregator();
      boot_->put("gravel.wiring", mine->bytes);
    }
    boot_->fence();
    if (is_leader_) {
      blob_writer all;
      for (uint32_t node = 0; node < nodes_.n_nodes(); ++node)
        all << boot_->get(nodes_.pes_of(node)[0], "gravel.wiring");
      channel_->send(frame_type::peers, all.bytes);
    }
  }
}

queue runtime::queue_for(queue_kind kind, queue_state* states) const {
  queue q = segment_->queue_of(static_cast<uint32_t>(kind));
  q.state = &states[static_cast<uint32_t>(kind)];
  return q;
}

void runtime::map_peers() {
  peers_.emplace(*device_, peers_setup{&nodes_, pe_, &values_, heap_, segment_->control()->peer_bells},
                 [this](std::span<const std::byte> mine) {
                   boot_->put("gravel.peer", mine);
                   boot_->fence();
                   std::vector<std::vector<std::byte>> theirs(nodes_.n_pes());
                   for (uint32_t pe : nodes_.pes_of(node_)) theirs[pe] = boot_->get(pe, "gravel.peer");
                   return theirs;
                 });
}

void runtime::make_handles() {
  heap_ = static_cast<char*>(device_->allocate_exportable(values_.symmetric_size, "the symmetric heap"));
  map_peers();
  device_state_ = static_cast<producer_state*>(device_->allocate(sizeof(producer_state), "queue state"));
  device_cells_ =
      static_cast<reply_cell*>(device_->allocate(values_.reply_cells * sizeof(reply_cell), "reply cells"));
  host_state_ = std::make_unique<producer_state>();
  host_cells_ = std::make_unique<reply_cell[]>(values_.reply_cells);
  host_error_ = std::make_unique<device_error>();
  allocator_ = heap_allocator(values_.symmetric_size);

  gravel_t base{};
  base.my_pe = pe_;
  base.n_pes = nodes_.n_pes();
  base.heap = heap_;
  base.heap_bytes = values_.symmetric_size;
  base.bulk_units = packet_capacity_units(values_.packet_size);
  base.n_cells = values_.reply_cells;
  const bool on_cpu = std::string_view(device_->name()) == "cpu";
  const bool self = values_.routes != "net";

  gravel_t on_device = base;
  on_device.counters = &device_state_->counters;
  on_device.cells = device_cells_;
  on_device.error = &segment_->control()->error;
  on_device.peers = peers_->links();
  on_device.peer_pes = peers_->pes();
  on_device.n_peers = peers_->n_mapped();
  on_device.peers_directly = values_.routes == "direct";
  on_device.self_in_place = self;
  gravel_t on_host = base;
  on_host.counters = &host_state_->counters;
  on_host.cells = host_cells_.get();
  on_host.error = host_error_.get();
  // Host threads reach a GPU's memory only through messages.
  on_host.self_in_place = self && on_cpu;

  kernel_handle_ = on_device;
  kernel_handle_.from = sender::kernel;
  kernel_handle_.direct = queue_for(queue_kind::kernel_warp, device_state_->queues);
  kernel_handle_.block = queue_for(queue_kind::kernel_block, device_state_->queues);
  host_handle_ = on_host;
  host_handle_.from = sender::host;
  host_handle_.direct = queue_for(queue_kind::host, host_state_->queues);
  device_handler_handle_ = on_device;
  device_handler_handle_.from = sender::handler;
  device_handler_handle_.direct = queue_for(queue_kind::device_handler, device_state_->queues);
  host_handler_handle_ = on_host;
  host_handler_handle_.from = sender::handler;
  host_handler_handle_.direct = queue_for(queue_kind::host_handler, host_state_->queues);

  device_->start_receiver({device_handler_handle_, host_handler_handle_, segment_->landing_of(sink_kind::device),
                           segment_->landing_of(sink_kind::host), peers_->sources(), peers_->n_sources(),
                           peers_->n_sources() ? &segment_->control()->peer_bell : nullptr,
                           &segment_->control()->attention});
}

void runtime::receive_loop() {
  name_this_thread("gravel receiver");
  runs_handlers = true;
  relax wait;
  try {
    while (!stop_.load(std::memory_order_relaxed)) {
      check_device_error();
      if (device_->receive()) wait.reset();
      else wait();
    }
  } catch (const std::exception& e) {
    abort_job(e.what(), 1);
  }
}

void runtime::check_device_error() {
  const device_error* of_device = &segment_->control()->error;
  const device_error* of_host = host_error_.get();
  for (const device_error* found : {of_device, of_host}) {
    const uint64_t code = load_acquire(&found->code);  // [E1]
    if (code == 0) continue;
    const auto fault = static_cast<message_fault>(code - 1);
    const auto what = static_cast<op>(found->operation);
    const std::string text =
        fault == message_fault::bad_pe
            ? fmt::format("{} to PE {}: the job has PEs 0 to {}", name_of(what), static_cast<int32_t>(found->pe),
                          nodes_.n_pes() - 1)
        : fault == message_fault::blocking_handler
            ? fmt::format("{} inside a handler: handlers must not wait",
                          what == op::none ? "gravel_quiet, gravel_fence or gravel_wait_until" : name_of(what))
            : fmt::format("{} to PE {}: {}: offset {:#x}, {} bytes, in a heap of {} bytes", name_of(what), found->pe,
                          name_of(fault), found->offset, found->bytes, values_.symmetric_size);
    abort_job(text, 1);
  }
}

/// The producers' side of the queues, which the aggregator cannot see, and the receiver.
std::string runtime::describe() {
  if (!running_) return "the job was still starting";
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  std::string text;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment_->queue_of(kind);
    if (states[kind].tickets == 0) continue;
    text += fmt::format("{}: {} tickets, below {} known to be consumed, {} are; flushed below {} of {} asked\n",
                        name_of(static_cast<queue_kind>(kind)), states[kind].tickets, states[kind].consumed_below,
                        q.read_consumed(), states[kind].flushed_below, states[kind].asked);
  }
  return text + peers_->describe() + "\n" + device_->describe_receiver();
}

void runtime::monitor_loop() {
  name_this_thread("gravel monitor");
  try {
    auto word = wait_for_word();
    if (leaving_) return;
    ended_elsewhere_ = true;
    if (word && word->type == frame_type::abort) {
      // Whoever found out has printed it. The launcher shall see the end of that process first.
      log_info("the job ends: {}", word->text());
      if (log_enabled(log_level::info)) log_info("{}", describe());
      let_cause_speak();
    } else if (launcher_reports_) {
      let_cause_speak();
      log_error("{}", launcher_text_);
    } else {
      if (!is_leader_) let_cause_speak();
      log_error("{}", describe_lost_aggregator());
    }
  } catch (const std::exception& e) {
    if (leaving_) return;
    ended_elsewhere_ = true;
    if (!is_leader_) let_cause_speak();
    log_error("{}", e.what());
  }
  _exit(1);
}

/// The aggregator's next word. Meanwhile looks whether the aggregator runs at all (one that is stopped cannot tell), shows
/// that this process does, and watches the rings of the route peer, of which the aggregator knows nothing.
std::optional<frame> runtime::wait_for_word() {
  if (values_.watchdog_s == 0) return channel_->receive();
  pe_control& shared = *segment_->control();
  stall_watch aggregator, rings;
  for (;;) {
    pollfd watched{channel_->descriptor(), POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(values_.watchdog_s * 1000 / heartbeat_looks)) != 0) return channel_->receive();
    store_relaxed(&shared.pe_heartbeat, shared.pe_heartbeat + 1);
    if (aggregator.look(true, load_relaxed(&shared.aggregator_heartbeat)))
      fail("the aggregator of node {} has not run for {} s (GRAVEL_WATCHDOG_S); is it stopped?", node_, values_.watchdog_s);
    if (!running_) continue;
    const peers::counts pushed = peers_->read();
    if (rings.look(pushed.applied != pushed.tickets, pushed.applied))
      fail("no progress for {} s (GRAVEL_WATCHDOG_S) on the route peer; a peer may be stopped, or its kernels may leave no "
           "room for its resolver:\n{}", values_.watchdog_s, describe());
  }
}

std::string runtime::describe_lost_aggregator() const {
  if (!is_leader_) return fmt::format("lost the aggregator of node {}", node_);
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 1000 && ended == 0; ++i, usleep(1000)) ended = waitpid(aggregator_pid_, &status, WNOHANG);
  std::string how = "closed its connection";
  if (ended == aggregator_pid_ && WIFSIGNALED(status)) {
    how = fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (ended == aggregator_pid_) {
    how = fmt::format("ended with exit status {}; its message is above", WEXITSTATUS(status));
  }
  return fmt::format("the aggregator of node {} (process {}) {}", node_, aggregator_pid_, how);
}

void runtime::fail_without_aggregator() const {
  let_cause_speak();
  fail("while the job was starting, {}", describe_lost_aggregator());
}

void runtime::abort_job(const std::string& text, int status) {
  static std::atomic<bool> first{true};
  while (!first.exchange(false)) pause();
  // What is wrong with the program is often wrong in every PE: it is enough that PE 0 says so.
  if (pe_ != 0) let_cause_speak();
  while (ended_elsewhere_) pause();  // the monitor ends this process
  log_error("{}", text);
  leaving_ = true;
  try {
    if (channel_) channel_->send(frame_type::abort, fmt::format("PE {}: {}", pe_, text));
  } catch (const std::exception&) {
    // The aggregator is gone: it knows, then.
  }
  _exit(status >= 1 && status <= 255 ? status : 1);
}

collective_words runtime::combine(const collective_words& mine) {
  std::lock_guard lock(collective_lock_);
  collective_words& in = segment_->control()->collective_in;
  const collective_words& out = segment_->control()->collective_out;
  const uint64_t sequence = ++collective_sequence_;
  std::copy(mine.sum, mine.sum + 4, in.sum);
  in.least = mine.least;
  in.most = mine.most;
  in.last = mine.last;
  store_release(&in.sequence, sequence);  // [C1]
  for (relax wait; load_acquire(&out.sequence) != sequence; wait.attentively()) {  // [C2]
  }
  return out;
}

void* runtime::allocate_symmetric(uint64_t bytes) {
  const auto offset = allocator_.allocate(bytes);
  collective_words mine{};
  mine.least = mine.most = bytes;
  mine.sum[0] = !offset;
  const collective_words all = combine(mine);
  if (all.least != all.most)
    fail("gravel_malloc: the PEs ask for different sizes, {} to {} bytes; here {}", all.least, all.most, bytes);
  if (all.sum[0])
    fail("gravel_malloc: {} bytes do not fit: the largest free piece of the symmetric heap has {} of {} bytes; raise "
         "GRAVEL_SYMMETRIC_SIZE",
         bytes, allocator_.largest_free(), values_.symmetric_size);
  void* at = heap_ + *offset;
  const std::unique_ptr<char[]> zeros(new char[1 << 20]());
  for (uint64_t done = 0; done < bytes; done += 1 << 20)
    device_->copy(static_cast<char*>(at) + done, zeros.get(), std::min<uint64_t>(1 << 20, bytes - done));
  combine({});  // nobody may send into it before everybody has cleared it
  return at;
}

void runtime::free_symmetric(void* at) {
  const uint64_t offset = static_cast<uint64_t>(static_cast<char*>(at) - heap_);
  collective_words mine{};
  mine.least = mine.most = offset;
  const collective_words all = combine(mine);
  if (all.least != all.most) fail("gravel_free: the PEs free different objects");
  if (!allocator_.release(offset)) fail("gravel_free: {} was not returned by gravel_malloc, or is free already", at);
}

void runtime::read_queue_states(queue_state (&states)[n_queue_kinds]) {
  device_->copy(states, device_state_->queues, sizeof(states));
  // Host threads' own queues have their state here.
  for (queue_kind kind : {queue_kind::host, queue_kind::host_handler}) {
    const auto k = static_cast<uint32_t>(kind);
    states[k].tickets = load_acquire(&host_state_->queues[k].tickets);
  }
}

void runtime::quiet() {
  const profile_range range("gravel_quiet");
  device_->synchronize();
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  for (queue_kind kind : {queue_kind::kernel_warp, queue_kind::kernel_block, queue_kind::host}) {
    const auto k = static_cast<uint32_t>(kind);
    segment_->queue_of(k).flush(states[k].tickets);
  }
  for (relax wait; !peers_->quiet(); wait()) {
  }
  for (relax wait;; wait()) {
    // These two words alone: the counters as a whole are more than a backend copies with acquire order.
    uint64_t issued, done;
    device_->copy(&done, &device_state_->counters.gets_done, sizeof(done));
    device_->copy(&issued, &device_state_->counters.gets_issued, sizeof(issued));
    if (done >= issued) break;
  }
  wait_for_host_gets();
  check_device_error();  // before the receiver has seen it the program might end well
}

void runtime::wait_for_host_gets() {
  for (relax wait;; wait()) {
    uint64_t done;
    device_->copy(&done, &device_state_->counters.host_gets_done, sizeof(done));
    if (done >= load_acquire(&host_state_->counters.gets_issued)) return;
  }
}

void runtime::barrier_all() {
  const profile_range range("gravel_barrier_all");
  quiet();
  combine({});
}

/// Four counts of this PE, and of its node if it is the node's first. Read in this order: a message that is missing
/// from a later count is still in an earlier one.
struct runtime::sample {
  uint64_t acked = 0, taken = 0, consumed = 0, tickets = 0;
  bool operator==(const sample&) const = default;
};

runtime::sample runtime::take_sample() {
  sample s;
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p) {
      s.acked += load_acquire(&segment_->control()->counts[p].acked);
    }
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment_->queue_of(kind);
    for (uint32_t p = 0; p < q.shape.n_planes; ++p) s.consumed += load_acquire(&q.control->plane[p].consumed);
  }
  const peers::counts pushed = peers_->read();
  s.consumed += pushed.applied;
  // After `consumed`: a slot seen consumed has its messages counted as taken.
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
      s.taken += load_acquire(&segment_->control()->counts[p].taken);
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  s.tickets = pushed.tickets;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    s.tickets += states[kind].tickets;
    // Nothing shall wait for its age now.
    segment_->queue_of(kind).ask_flush(states[kind].tickets);
  }
  return s;
}

void runtime::wait_quiescent() {
  const profile_range range("gravel_wait_quiescent");
  // Two equal samples, the second begun after the first was complete everywhere (Mattern 1987, four counters): if all
  // that was ticketed was consumed and all that was taken is acknowledged, nothing was in flight between them.
  quiet();
  sample before{};
  bool have_before = false;
  for (relax wait;; wait()) {
    const sample mine = take_sample();
    collective_words words{};
    words.sum[0] = mine.acked;
    words.sum[1] = mine.taken;
    words.sum[2] = mine.consumed;
    words.sum[3] = mine.tickets;
    const collective_words all = combine(words);
    const sample now{all.sum[0], all.sum[1], all.sum[2], all.sum[3]};
    if (now.acked == now.taken && now.consumed == now.tickets && have_before && now == before) return;
    before = now;
    have_before = true;
  }
}

void runtime::report_stats() {
  stats_row mine;
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
      for (uint32_t i = 0; i < n_stats; ++i) mine.value[i] += load_relaxed(&segment_->control()->stats[p][i]);
  device_counters counters;
  device_->copy(&counters, &device_state_->counters, sizeof(counters));
  mine[stat::messages_in_place] = counters.in_place() + host_state_->counters.in_place();
  mine[stat::messages_to_peers] = counters.to_peers();
  stats_row all;
  for (uint32_t i = 0; i < n_stats; i += 4) {
    collective_words words{};
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) words.sum[j] = mine.value[i + j];
    const collective_words sums = combine(words);
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) all.value[i + j] = sums.sum[j];
  }
  if (pe_ != 0) return;
  if (values_.stats) std::fputs(stats_text(all, nodes_.n_pes(), nodes_.n_nodes()).c_str(), stderr);
  if (!values_.stats_json.empty()) {
    std::ofstream out(values_.stats_json);
    if (!(out << stats_json(all, nodes_.n_pes(), nodes_.n_nodes())) || !out.flush())
      log_warning("GRAVEL_STATS_JSON: '{}' could not be written", values_.stats_json);
  }
}

void runtime::finalize() {
  barrier_all();
  if (values_.stats || !values_.stats_json.empty()) report_stats();
  collective_words last{};
  last.last = 1;
  combine(last);
  leaving_ = true;  // until our goodbye the aggregator stays
  channel_->send(frame_type::goodbye, std::string());
  if (aggregator_pid_ > 0 && !wait_for_aggregator(aggregator_pid_, 5000))
    log_warning("the aggregator of node {} did not end by itself", node_);
  boot_->finalize();
}

}  // namespace gravel
