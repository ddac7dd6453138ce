// Calls with handles that are none: empty ones, and those that were kept past gravel_finalize.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gravel.cuh"
#include "test/catch.hpp"
#include "test/error_of.hpp"

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
    {"gravel_add", [](const gravel_t& g) { gravel_inc(g, &word, 0); }},
    {"gravel_max", [](const gravel_t& g) { gravel_max(g, &word, 1, 0); }},
    {"gravel_get", [](const gravel_t& g) { gravel_get(g, &word, &other, 0); }},
    {"gravel_fetch_add", [](const gravel_t& g) { gravel_fetch_add(g, &word, 1, 0); }},
    {"gravel_swap", [](const gravel_t& g) { gravel_swap(g, &word, 1, 0); }},
    {"gravel_fetch", [](const gravel_t& g) { gravel_get_value(g, &word, 0); }},
    {"gravel_compare_swap", [](const gravel_t& g) { gravel_compare_swap(g, &word, 0, 1, 0); }},
    {"gravel_am", [](const gravel_t& g) { gravel_am<nothing>(g, 0, 1); }},
    {"gravel_put_bulk", [](const gravel_t& g) { gravel_put_bulk(g, &word, &other, sizeof(word), 0); }},
    {"gravel_put_bulk", [](const gravel_t& g) { gravel_put_bulk_warp(g, &word, &other, sizeof(word), 0); }},
    {"gravel_put_signal", [](const gravel_t& g) { gravel_put_signal(g, &word, &word, 8, &other, 1, GRAVEL_SIGNAL_SET, 0); }},
    {"gravel_get_bulk", [](const gravel_t& g) { gravel_get_bulk(g, &word, &other, sizeof(word), 0); }},
    {"gravel_fetch_add", [](const gravel_t& g) { gravel_local_add(g, &word, 1); }},
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
    const std::string text = gravel::error_of([&] { what(g); });
    CHECK_THAT(text, contains_text(name) && contains_text(why));
  }
  gravel::simt::launch_options one_thread{};
  one_thread.threads = 1;
  const std::string text = gravel::error_of([&] { gravel::simt::launch(1, 32, one_thread, [&] { gather_in_kernel(g, &word); }); });
  CHECK_THAT(text, contains_text("gravel_block_sender") && contains_text(why));
}

}  // namespace

TEST_CASE("a handle that is empty, or of a job that is over, is refused by every call") {
  check_refused({}, "before gravel_init");
  gravel_init<nothing>();
  auto* cell = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const gravel_t kernel = gravel_handle(), host = gravel_host_handle();
  check_refused({}, "neither gravel_handle() nor gravel_host_handle() made: it is empty");
  for (const auto& [name, what] : calls) {
    INFO(name);
    CHECK_THAT(gravel::error_of([&, w = &what] { gravel_launch(call_in_kernel, 1, 4, gravel_t{}, w), gravel_synchronize(); }),
               contains_text(name) && contains_text("it is empty"));
  }
  // The right ones still serve.
  gravel_inc(host, cell, 0);
  gravel_launch(gather_in_kernel, 1, 32, kernel, cell);
  gravel_barrier_all();
  uint64_t count = 0;
  gravel_copy(&count, cell, sizeof(count));
  CHECK(count == 33);
  gravel_finalize();
  check_refused(kernel, "after gravel_finalize");
  check_refused(host, "after gravel_finalize");
  check_refused({}, "it is empty");
}
