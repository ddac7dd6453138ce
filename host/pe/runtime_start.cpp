// How a PE comes up: it meets the others, starts its node's aggregator, wires its memory, makes the handles. And how it goes.
#include "host/pe/runtime.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "host/node/aggregator_process.hpp"
#include "host/node/hello.hpp"
#include "host/node/settings_resolved.hpp"
#include "host/pe/program.hpp"
#include "lib/base/block_scratch.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

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
  begin_collective(collective_kind::init).combine();
}

runtime::~runtime() {
  leaving_ = true;
  if (channel_) channel_->shut_down();
  stop_receiving();
  if (monitor_.joinable()) monitor_.join();
  valid_stamp = handle_stamp::after_finalize;
  peers_.reset();
  if (segment_) device_->unpin(segment_->base());
  for (void* memory : {static_cast<void*>(heap_), static_cast<void*>(device_state_), static_cast<void*>(device_cells_),
                       static_cast<void*>(device_contexts_)})
    if (memory) device_->release(memory);
}

/// Every PE says what it is, in one exchange; PE 0's word is what the others must match.
void runtime::check_same_program() {
  const program_description mine = describe_program(*device_, values_);
  boot_->put("gravel.program", to_wire(mine));
  if (is_leader_) boot_->put("gravel.socket", std::as_bytes(std::span(socket_path_)));
  boot_->fence();
  const auto at_0 = from_wire<program_description>(boot_->get(0, "gravel.program"), "PE 0");
  if (const std::string what = difference(mine, at_0); !what.empty()) fail("{}", what);
  if (is_leader_) return;
  const auto path = boot_->get(nodes_.pes_of(node_)[0], "gravel.socket");
  socket_path_.assign(reinterpret_cast<const char*>(path.data()), path.size());
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
  collectives_.emplace(*segment_, pe_);
  device_->pin(segment_->base(), segment_->bytes());
  greet_aggregator(shape);
  exchange_wiring();
  auto answer = channel_->receive();
  if (answer && answer->kind == wire_kind::abort) fail("{}", answer->as<abort_word>("the aggregator").why);
  if (!answer || answer->kind != wire_kind::ready) fail_without_aggregator();
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
    channel_->limit_sends(2 * values_.connect_timeout_s);
    channel_->check_peer();
    channel_->send(h, segment_->descriptor());
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
      if (!mine || mine->kind != wire_kind::wiring) fail_without_aggregator();
      boot_->put("gravel.wiring", mine->bytes);
    }
    boot_->fence();
    if (is_leader_) {
      all_wirings all;
      for (uint32_t node = 0; node < nodes_.n_nodes(); ++node)
        all.by_node.push_back(boot_->get(nodes_.pes_of(node)[0], "gravel.wiring"));
      channel_->send(all);
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
  const uint64_t heap_bytes = values_.symmetric_size + block_scratch::bytes(nodes_.n_pes());
  heap_ = static_cast<char*>(device_->allocate_exportable(heap_bytes, "the symmetric heap"));
  map_peers();
  device_state_ = static_cast<producer_state*>(device_->allocate(sizeof(producer_state), "queue state"));
  device_cells_ =
      static_cast<reply_cell*>(device_->allocate(values_.reply_cells * sizeof(reply_cell), "reply cells"));
  host_state_ = std::make_unique<producer_state>();
  host_cells_ = std::make_unique<reply_cell[]>(values_.reply_cells);
  const uint64_t handlers = device_->handlers().size();
  device_contexts_ = static_cast<void**>(device_->allocate((handlers + 1) * sizeof(void*), "handlers' contexts"));
  host_contexts_ = std::make_unique<void*[]>(handlers);
  host_error_ = std::make_unique<device_error>();
  symmetric_.emplace(*device_, heap_, values_.symmetric_size, pe_,
                     [this](collective_kind kind, uint64_t argument, const collective_words& mine) {
                       return begin_collective(kind, argument).combine(mine);
                     });

  gravel_t base{};
  base.stamp = handle_stamp::valid;
  base.my_pe = pe_;
  base.n_pes = nodes_.n_pes();
  base.heap = heap_;
  base.heap_bytes = heap_bytes;
  base.scratch = reinterpret_cast<block_scratch*>(heap_ + values_.symmetric_size);
  base.bulk_units = packet_capacity_units(values_.packet_size);
  base.n_cells = values_.reply_cells;
  for (const auto& handler : device_->handlers()) base.handlers.add(handler.id);
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
  on_host.on_host = true;
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
  device_handler_handle_.contexts = device_contexts_;
  device_handler_handle_.direct = queue_for(queue_kind::device_handler, device_state_->queues);
  host_handler_handle_ = on_host;
  host_handler_handle_.from = sender::handler;
  host_handler_handle_.contexts = host_contexts_.get();
  host_handler_handle_.direct = queue_for(queue_kind::host_handler, host_state_->queues);

  valid_stamp = handle_stamp::valid;  // handlers may run at once
  device_->start_receiver({device_handler_handle_, host_handler_handle_, segment_->landing_of(sink_kind::device),
                           segment_->landing_of(sink_kind::host), peers_->sources(), peers_->n_sources(),
                           peers_->own_source(), peers_->n_sources() ? &segment_->control()->peer_bell : nullptr,
                           &segment_->control()->attention});
}

}  // namespace gravel
