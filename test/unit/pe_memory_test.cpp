// host/pe/pe_memory.*: the handles of a PE, and what they point to.
#include "host/pe/pe_memory.hpp"

#include <optional>
#include <set>

#include "host/pe/queue_watch.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/shared_pes.hpp"

using namespace gravel::detail;

namespace {

/// Two handlers, and memory that is counted.
class device_with_handlers final : public backend {
 public:
  const char* name() const override { return "fake"; }
  std::string describe() const override { return "fake"; }
  handler_table handlers() const override {
    static constexpr handler_info rows[] = {{"visit", 7, 16, false}, {"count", 8, 8, true}};
    return {rows, 2, true};
  }
  void open(uint32_t, uint32_t) override {}
  void* allocate(uint64_t bytes, const char* what) override {
    if (what == refused) fail("{} does not fit", what);
    void* const at = base.allocate(bytes, what);
    live.insert(at);
    return at;
  }
  void release(void* at) override { live.erase(at); }
  void zero(void*, uint64_t) override {}
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  void copy(void* to, const void* from, uint64_t bytes) override { base.copy(to, from, bytes); }
  void synchronize() override {}
  void start_receiver(const receiver_setup&) override {}
  bool receive() override { return false; }
  void stop_receiver() override {}
  shared_backend base;
  std::set<void*> live;
  std::string refused;
};

struct pe {
  settings values = with({{"GRAVEL_SYMMETRIC_SIZE", "64K"},
                          {"GRAVEL_AGGREGATOR_THREADS", "2"},
                          {"GRAVEL_WARP_SLOTS", "16"},
                          {"GRAVEL_SLOTS", "8"}});
  topology nodes{{0, 0}, 32};
  device_with_handlers device;
  pe_segment segment = pe_segment::create(make_segment_shape(values, nodes, 0), 1);
  std::optional<pe_memory> memory;
  std::optional<peers> routes;
  pe() {
    memory.emplace(device, segment, values, 1, 2);
    routes.emplace(device,
                   peers_setup{nodes.n_pes(), 1, nodes.pes_of(nodes.node_of(1)), &values, memory->heap().at(),
                               segment.control()->peer_doorbells},
                   [](std::span<const std::byte> mine) {
                     return std::vector(2, std::vector<std::byte>(mine.begin(), mine.end()));
                   });
    memory->make_handles(*routes);
  }
};

}  // namespace

TEST_CASE("each sender has a handle and a queue of its own") {
  pe p;
  const gravel_t *kernels = &p.memory->of_kernels(), *host = &p.memory->of_host(),
                 *on_device = &p.memory->of_device_handlers(), *on_host = &p.memory->of_host_handlers();
  std::set<const void*> controls{kernels->block.control};
  std::set<const void*> states{kernels->block.state};
  for (const gravel_t* g : {kernels, host, on_device, on_host}) {
    CHECK(g->stamp == handle_stamp::valid);
    CHECK(g->my_pe == 1);
    CHECK(g->n_pes == 2);
    CHECK(g->heap == p.memory->heap().at());
    CHECK(reinterpret_cast<char*>(g->scratch) == g->heap + p.values.symmetric_size);
    controls.insert(g->direct.control);
    states.insert(g->direct.state);
  }
  CHECK(controls.size() == n_queue_kinds);
  CHECK(states.size() == n_queue_kinds);
  CHECK(kernels->from == sender::kernel);
  CHECK(host->from == sender::host);
  CHECK(on_device->from == sender::handler);
  CHECK(on_host->from == sender::handler);
  CHECK_FALSE(kernels->on_host);
  CHECK_FALSE(on_device->on_host);
  CHECK(host->on_host);
  CHECK(on_host->on_host);
  CHECK(kernels->counters != host->counters);
  CHECK(kernels->error == &p.segment.control()->error);
  CHECK(host->error == &p.memory->host_error());
  CHECK(kernels->self_in_place);
  CHECK_FALSE(host->self_in_place);  // the device may be a GPU
}

TEST_CASE("tickets of kernels and of host threads are read from where each counts them") {
  pe p;
  p.memory->of_kernels().direct.state->tickets = 3;
  p.memory->of_device_handlers().direct.state->tickets = 4;
  p.memory->of_host().direct.state->tickets = 5;
  p.memory->of_host_handlers().direct.state->tickets = 6;
  queue_state states[n_queue_kinds];
  p.memory->read_queue_states(states);
  const uint64_t expected[] = {3, 0, 5, 4, 6};
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) CHECK(states[kind].tickets == expected[kind]);
  CHECK(p.memory->host_tickets() == 5);
}

TEST_CASE("gets of kernels, and of host threads, are done when they are answered") {
  pe p;
  device_counters& of_kernels = *p.memory->of_kernels().counters;
  CHECK(p.memory->kernel_gets_done());
  for (int parity : {0, 1}) {
    of_kernels.gets.issued[parity] = 2;
    CHECK_FALSE(p.memory->kernel_gets_done());
    of_kernels.gets.done[parity] = 2;
    CHECK(p.memory->kernel_gets_done());
  }
  p.memory->host_gets().claim(2);
  p.memory->host_gets().issued[1] = p.memory->host_gets().issued[0] = 1;
  p.memory->update_host_gets();
  CHECK_FALSE(p.memory->host_gets().all_done());
  of_kernels.host_gets_done[0] = 1;
  p.memory->update_host_gets();
  CHECK_FALSE(p.memory->host_gets().all_done());
  of_kernels.host_gets_done[1] = 1;
  p.memory->update_host_gets();
  CHECK(p.memory->host_gets().all_done());
}

TEST_CASE("a context is found at the position of its handler, on its side") {
  pe p;
  int one = 1, two = 2;
  p.memory->set_context(7, "visit", sink_kind::device, &one);
  p.memory->set_context(8, "count", sink_kind::host, &two);
  CHECK(p.memory->of_device_handlers().contexts[0] == &one);
  CHECK(p.memory->of_host_handlers().contexts[1] == &two);
  CHECK(p.memory->of_device_handlers().contexts[1] == nullptr);
  CHECK(error_of([&] { p.memory->set_context(9, "other", sink_kind::host, nullptr); }) ==
        "gravel_set_context: handler 'other' is not in the list of gravel_init");
}

TEST_CASE("all memory is freed, and memory that does not fit is named") {
  pe p;
  CHECK_FALSE(p.device.live.empty());
  p.routes.reset();
  p.memory.reset();
  CHECK(p.device.live.empty());
  p.device.refused = "reply cells (GRAVEL_REPLY_CELLS)";
  CHECK(error_of([&] { p.memory.emplace(p.device, p.segment, p.values, 1, 2); }) ==
        "reply cells (GRAVEL_REPLY_CELLS) does not fit");
}

TEST_CASE("a slot that is claimed and not published is found, in whatever queue") {
  pe p;
  queue_watch watch(p.segment, *p.memory);
  const auto poll_for_long = [&] {
    for (int i = 1; i < 2 * heartbeat_polls; ++i)
      if (std::string found = watch.poll(5); !found.empty()) return found;
    return std::string();
  };
  for (const gravel_t* g : {&p.memory->of_kernels(), &p.memory->of_host(), &p.memory->of_device_handlers(),
                            &p.memory->of_host_handlers()}) {
    const queue& q = g->direct;
    CHECK(poll_for_long() == "");
    const uint64_t ticket = q.claim();
    CHECK_THAT(poll_for_long(),
               contains_text("the slot of ticket 0 was claimed and has not been published for 3.75 s"));
    q.publish(ticket, q.slot(ticket), 0, 0);
    CHECK(poll_for_long() == "");  // from now on it is the aggregator's
  }
  const queue& q = p.memory->of_kernels().direct;
  // Another plane's slot, behind one that is published, is looked at when its turn has come.
  const uint64_t lost = q.claim();
  CHECK(poll_for_long() == "");
  q.control->plane[0].consumed = 1;
  CHECK_THAT(poll_for_long(), contains_text("warp queue: the slot of ticket " + std::to_string(lost)));
  q.publish(lost, q.slot(lost), 0, 0);
  q.control->plane[1].consumed = 1;
  CHECK(poll_for_long() == "");
  q.control->plane[0].consumed = q.control->plane[1].consumed = 7;
  CHECK_THAT(poll_for_long(), contains_text("14 slots are consumed, but only 2 were claimed"));
}
