#include "host/pe/pe_memory.hpp"

#include <algorithm>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/join_rendezvous.hpp"

namespace gravel::detail {

std::atomic<uint64_t> packets_applied{0};

pe_memory::pe_memory(backend& device, const pe_segment& segment, const settings& values, uint32_t pe, uint32_t n_pes)
    : device_(device),
      segment_(segment),
      values_(values),
      pe_(pe),
      n_pes_(n_pes),
      heap_(device, values.symmetric_size, bytes_of_teams(n_pes)) {
  device_words_ = static_cast<producer_words*>(device.allocate(sizeof(producer_words), "queue state"));
  device_cells_ = static_cast<reply_cell*>(
      device.allocate(values.reply_cells * sizeof(reply_cell), "reply cells (GRAVEL_REPLY_CELLS)"));
  host_words_ = std::make_unique<producer_words>();
  host_cells_ = std::make_unique<reply_cell[]>(values.reply_cells);
  const uint64_t handlers = device.handlers().size();
  device_contexts_ = static_cast<void**>(device.allocate((handlers + 1) * sizeof(void*), "handlers' contexts"));
  host_contexts_ = std::make_unique<void*[]>(handlers);
  host_error_ = std::make_unique<device_error>();
}

pe_memory::~pe_memory() {
  for (void* memory :
       {static_cast<void*>(device_words_), static_cast<void*>(device_cells_), static_cast<void*>(device_contexts_)})
    if (memory) device_.release(memory);
}

queue pe_memory::queue_for(queue_kind kind, queue_state* states) const {
  queue q = segment_.queue_of(static_cast<uint32_t>(kind));
  q.state = &states[static_cast<uint32_t>(kind)];
  return q;
}

void pe_memory::make_handles(const peers& routes) {
  gravel_t base{};
  base.stamp = handle_stamp::valid;
  base.my_pe = pe_;
  base.n_pes = n_pes_;
  base.heap = heap_.at();
  base.heap_bytes = heap_.limit() + bytes_of_teams(n_pes_);
  base.scratch = reinterpret_cast<block_scratch*>(heap_.at() + heap_.limit());
  base.bulk_units = packet_capacity_units(values_.packet_size);
  base.n_cells = values_.reply_cells;
  for (const auto& handler : device_.handlers()) base.handlers.add(handler.id);
  const bool on_cpu = std::string_view(device_.name()) == "cpu";
  const bool self = values_.routes != "net";

  gravel_t on_device = base;
  on_device.counters = &device_words_->counters;
  on_device.cells = device_cells_;
  on_device.error = &segment_.control()->error;
  on_device.waits = &device_words_->waits;
  const lane_waits waits{values_.watchdog_s * 1'000'000'000, 0, 0, &segment_.control()->long_wait};
  device_.copy(&device_words_->waits, &waits, sizeof(waits));
  on_device.peers = routes.links();
  on_device.peer_pes = routes.pes();
  on_device.n_peers = routes.n_mapped();
  on_device.lines = routes.lines();
  on_device.n_lines = routes.n_sources();
  on_device.peers_directly = values_.routes == "direct";
  on_device.self_in_place = self;
  gravel_t on_host = base;
  on_host.on_host = true;
  on_host.counters = &host_words_->counters;
  on_host.cells = host_cells_.get();
  on_host.error = host_error_.get();
  // Host threads access a GPU's memory only through messages.
  on_host.self_in_place = self && on_cpu;

  const auto handle = [](gravel_t g, sender from, const queue& direct, void* const* contexts = nullptr) {
    g.from = from;
    g.direct = direct;
    g.contexts = contexts;
    return g;
  };
  queue_state *const there = device_words_->queues, *const here = host_words_->queues;
  kernels_ = handle(on_device, sender::kernel, queue_for(queue_kind::kernel_warp, there));
  kernels_.block = queue_for(queue_kind::kernel_block, there);
  host_ = handle(on_host, sender::host, queue_for(queue_kind::host, here));
  device_handlers_ = handle(on_device, sender::handler, queue_for(queue_kind::device_handler, there), device_contexts_);
  host_handlers_ = handle(on_host, sender::handler, queue_for(queue_kind::host_handler, here), host_contexts_.get());
}

void pe_memory::set_context(uint32_t handler, const char* name, sink_kind kind, void* context) {
  const handler_table all = device_.handlers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const handler_info& h) { return h.id == handler; });
  if (found == all.end()) fail("gravel_set_context: handler '{}' is not in the list of gravel_init", name);
  const auto at = found - all.begin();
  if (kind == sink_kind::host) store_release(&host_contexts_[at], context);  // [X1]
  else device_.store_word(reinterpret_cast<uint64_t*>(&device_contexts_[at]), reinterpret_cast<uint64_t>(context));
}

void pe_memory::read_queue_states(queue_state (&states)[n_queue_kinds]) const {
  device_.copy(states, device_words_->queues, sizeof(states));
  for (queue_kind kind : {queue_kind::host, queue_kind::host_handler}) {
    const auto k = static_cast<uint32_t>(kind);
    states[k].tickets = load_acquire(&host_words_->queues[k].tickets);
  }
}

uint64_t pe_memory::host_tickets() const {
  return load_acquire(&host_words_->queues[static_cast<uint32_t>(queue_kind::host)].tickets);
}

void pe_memory::update_host_gets() {
  uint64_t done[2];
  device_.copy(done, device_words_->counters.host_gets_done, sizeof(done));  // [G1]
  for (int parity : {0, 1}) raise_to<scope::system>(&host_gets().done[parity], done[parity]);
}

bool pe_memory::kernel_gets_done() const {
  // Copies these words only: not every backend copies all counters at once with acquire order.
  uint64_t issued[2], done[2];
  const get_window& gets = device_words_->counters.gets;
  device_.copy(done, gets.done, sizeof(done));  // [G1]
  device_.copy(issued, gets.issued, sizeof(issued));
  return done[0] >= issued[0] && done[1] >= issued[1];
}

device_counters pe_memory::read_device_counters() const {
  device_counters counters;  // kernels are changing these words
  device_.read_words(reinterpret_cast<uint64_t*>(&counters),
                     reinterpret_cast<const uint64_t*>(&device_words_->counters), sizeof(counters) / sizeof(uint64_t));
  return counters;
}

}  // namespace gravel::detail
