// Calls with handles that are none: empty ones, those that were kept past gravel_finalize, and those of services,
// service blocks and queues of tasks that are closed.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/service.hpp"
#include "lib/critical/critical_sections.cuh"
#include "lib/remote_task/task_queue.cuh"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"

namespace {

struct nothing {
  static constexpr const char* name = "nothing";
  GRAVEL_HANDLER void operator()(const gravel_t&, int) const {}
};

alignas(64) uint64_t word, other;

using call = std::function<void(const gravel_t&)>;
/// Every call that takes a handle and does something with it, and its name in the error.
const std::vector<std::pair<std::string, call>> calls = {
    {"gravel_put", [](const gravel_t& g) { gravel_put(g, &word, 1, 0); }},
    {"gravel_inc", [](const gravel_t& g) { gravel_inc(g, &word, 0); }},
    {"gravel_max", [](const gravel_t& g) { gravel_max(g, &word, 1, 0); }},
    {"gravel_get", [](const gravel_t& g) { gravel_get(g, &word, &other, 0); }},
    {"gravel_fetch_add", [](const gravel_t& g) { gravel_fetch_add(g, &word, 1, 0); }},
    {"gravel_swap", [](const gravel_t& g) { gravel_swap(g, &word, 1, 0); }},
    {"gravel_get_value", [](const gravel_t& g) { gravel_get_value(g, &word, 0); }},
    {"gravel_compare_swap", [](const gravel_t& g) { gravel_compare_swap(g, &word, 0, 1, 0); }},
    {"gravel_am", [](const gravel_t& g) { gravel_am<nothing>(g, 0, 1); }},
    {"gravel_put_bulk", [](const gravel_t& g) { gravel_put_bulk(g, &word, &other, sizeof(word), 0); }},
    {"gravel_put_bulk_warp", [](const gravel_t& g) { gravel_put_bulk_warp(g, &word, &other, sizeof(word), 0); }},
    {"gravel_put_signal",
     [](const gravel_t& g) { gravel_put_signal(g, &word, &word, 8, &other, 1, GRAVEL_SIGNAL_SET, 0); }},
    {"gravel_get_bulk", [](const gravel_t& g) { gravel_get_bulk(g, &word, &other, sizeof(word), 0); }},
    {"gravel_local_add", [](const gravel_t& g) { gravel_local_add(g, &word, 1); }},
    {"gravel_quiet", [](const gravel_t& g) { gravel_quiet(g); }},
    {"gravel_fence", [](const gravel_t& g) { gravel_fence(g); }},
    {"gravel_wait_until", [](const gravel_t& g) { gravel_wait_until(g, &word, GRAVEL_GE, 0); }},
    {"gravel_flush", [](const gravel_t& g) { gravel_flush(g); }},
};

void call_in_kernel(gravel_t g, const call* what) { (*what)(g); }

void gather_in_kernel(gravel_t g, uint64_t* at) {
  __shared__ gravel_block_sender<32> sender;
  sender.begin(g);
  sender.inc(at, 0);
  sender.end();
}

void check_refused(const gravel_t& g, const std::string& why) {
  for (const auto& [name, what] : calls) {
    INFO(name);
    const std::string text = gravel::detail::error_of([&] { what(g); });
    CHECK_THAT(text, contains_text(name) && contains_text(why));
  }
  gravel::detail::simt::launch_options one_thread{};
  one_thread.threads = 1;
  const std::string text = gravel::detail::error_of(
      [&] { gravel::detail::simt::launch(1, 32, one_thread, [&] { gather_in_kernel(g, &word); }); });
  CHECK_THAT(text, contains_text("gravel_block_sender") && contains_text(why));
}

// --- what is opened and closed
struct adder {
  static constexpr const char* name = "adder";
  static constexpr uint32_t threads = 32;
  using message = uint32_t;
  uint64_t* sum;
  void operator()(const gravel_service_block<adder>& here, const gravel_service_batch<message>& batch) const {
    for (uint32_t i = here.rank(); i < batch.size(); i += here.size())
      gravel::detail::fetch_add<gravel::detail::scope::device>(sum, uint64_t{batch[i]});
  }
};
struct account {
  int64_t balance = 0;
};
struct deposit {
  static constexpr const char* name = "deposit";
  void operator()(account& a, int32_t amount) const { a.balance += amount; }
};
struct withdraw {
  int64_t operator()(account& a, int32_t amount) const { return a.balance -= amount; }
};
using bank = gravel_critical_sections<account, deposit, withdraw>;
struct count_up {
  static constexpr const char* name = "count_up";
  void operator()(const gravel_task_t& t, uint64_t* at, const uint64_t*) const {
    if (t.rank() == 0) gravel::detail::fetch_add<gravel::detail::scope::device>(at, uint64_t{1});
  }
};
using tasks = gravel_task_queue<count_up>;

std::string error_in_kernel(const call& what) {
  return gravel::detail::error_of([&] {
    gravel_launch(call_in_kernel, 1, 32, gravel_handle(), &what);
    gravel_synchronize();
  });
}

void gather_for_service(gravel_service_handle<adder> to) {
  __shared__ gravel_service_sender<adder> sender;
  sender.begin(to);
  sender.send(0, 0, 1);
  sender.end();
}
void gather_for_sections(bank::handle_type to) {
  __shared__ bank::sender sender;
  sender.begin(to);
  sender.call<deposit>(0, 1);
  sender.end();
}

uint64_t word_at(const uint64_t* at) {
  uint64_t value = 0;
  gravel_copy(&value, at, sizeof(value));
  return value;
}

/// Each is closed, refused, opened again, and then the new handle serves while the old one is still refused.
void check_closed_service(uint64_t* cell) {
  gravel_service<adder> first(adder{cell});
  const auto stale = first.handle();
  first.close();
  CHECK_THAT(gravel::detail::error_of([&] { first.handle(); }), contains_text("service 'adder'"));
  gravel_service<adder> second(adder{cell});
  const auto fresh = second.handle();
  const std::string why = "after the close() of service 'adder'";
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { gravel_service_send(stale, 0, 0, 1u); }),
             contains_text("gravel_service_send was called") && contains_text(why));
  CHECK_THAT(gravel::detail::error_of([&] {
               gravel_launch(gather_for_service, 1, 32, stale);
               gravel_synchronize();
             }),
             contains_text("gravel_service_sender was called") && contains_text(why));
  const uint64_t before = word_at(cell);
  gravel_launch(gather_for_service, 1, 32, fresh);
  CHECK(error_in_kernel([&](const gravel_t&) { gravel_service_send(fresh, 0, 0, 1u); }) == "no error");
  second.close();
  CHECK(word_at(cell) == before + 64);
}
void check_closed_sections(uint64_t* cell) {
  bank first({.keys = 10, .blocks = 1});
  const auto stale = first.handle();
  first.close();
  CHECK_THAT(gravel::detail::error_of([&] { first.handle(); }), contains_text("the critical sections of 'deposit'"));
  CHECK_THAT(gravel::detail::error_of([&] { first.read(); }), contains_text("the critical sections of 'deposit'"));
  bank second({.keys = 10, .blocks = 1});
  const auto fresh = second.handle();
  const std::string why = "after the close() of the critical sections of 'deposit'";
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { gravel_critical_call<deposit>(stale, 0u, 1); }),
             contains_text("gravel_critical_call was called") && contains_text(why));
  CHECK_THAT(error_in_kernel([&](const gravel_t&) {
               gravel_critical_ask<withdraw>(stale, reinterpret_cast<int64_t*>(cell), 0u, 1);
             }),
             contains_text("gravel_critical_ask was called") && contains_text(why));
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { stale.record(0); }),
             contains_text("record() was called") && contains_text(why));
  CHECK_THAT(gravel::detail::error_of([&] {
               gravel_launch(gather_for_sections, 1, 32, stale);
               gravel_synchronize();
             }),
             contains_text("gravel_critical_sender was called") && contains_text(why));
  gravel_launch(gather_for_sections, 1, 32, fresh);
  CHECK(error_in_kernel([&](const gravel_t&) { gravel_critical_call<deposit>(fresh, 0u, 1); }) == "no error");
  CHECK(second.read().at(0).balance == 64);
  second.close();
}
void check_closed_tasks(uint64_t* cell) {
  tasks first({.workers = 1, .slots = 2, .payload_bytes = 64});
  const gravel_task_handle stale = first.handle(), stale_host = first.host_handle();
  first.close();
  for (const auto& use :
       std::vector<std::function<void()>>{[&] { first.handle(); }, [&] { first.host_handle(); }, [&] { first.wait(); }})
    CHECK_THAT(gravel::detail::error_of(use), contains_text("after the close() of the task queue"));
  tasks second({.workers = 1, .slots = 2, .payload_bytes = 64});
  const gravel_task_handle fresh = second.handle(), fresh_host = second.host_handle();
  const auto put = [cell](const gravel_task_handle& q) { gravel_task_put<count_up>(q, 0, cell, {}, {}); };
  const auto refused = contains_text("gravel_task_put was called after the close() of the task queue");
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { put(stale); }), refused);
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { gravel_task_put_warp<count_up>(stale, 0, cell, {}, {}); }),
             refused);
  CHECK_THAT(error_in_kernel([&](const gravel_t&) { gravel_make_task<count_up>(stale, 0, cell, {}, {}).put(); }),
             refused);
  CHECK_THAT(gravel::detail::error_of([&] { put(stale_host); }), refused);
  const uint64_t before = word_at(cell);
  put(fresh_host);
  CHECK(error_in_kernel([&](const gravel_t&) { put(fresh); }) == "no error");
  second.wait();
  CHECK(word_at(cell) == before + 2);
  second.close();
}

}  // namespace

TEST_CASE("a handle that is empty, or of a job that is over, is refused by every call") {
  check_refused({}, "before gravel_init");
  gravel_init<nothing, gravel_service_delivery<adder>, bank::delivery, gravel_task_delivery>();
  auto* cell = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const gravel_t kernel = gravel_handle(), host = gravel_host_handle();
  check_refused({}, "neither gravel_handle() nor gravel_host_handle() made: it is empty");
  for (const auto& [name, what] : calls) {
    INFO(name);
    CHECK_THAT(gravel::detail::error_of([&, w = &what] {
                 gravel_launch(call_in_kernel, 1, 4, gravel_t{}, w);
                 gravel_synchronize();
               }),
               contains_text(name) && contains_text("it is empty"));
  }
  // The right ones still serve.
  gravel_inc(host, cell, 0);
  gravel_launch(gather_in_kernel, 1, 32, kernel, cell);
  gravel_barrier_all();
  uint64_t count = 0;
  gravel_copy(&count, cell, sizeof(count));
  CHECK(count == 33);
  check_closed_service(cell);
  check_closed_sections(cell);
  check_closed_tasks(cell);
  gravel_finalize();
  check_refused(kernel, "after gravel_finalize");
  check_refused(host, "after gravel_finalize");
  check_refused({}, "it is empty");
}
