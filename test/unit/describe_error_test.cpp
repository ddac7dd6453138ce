// host/pe/describe_error.hpp: what is said about a mistake names the call that the program made, also where several
// calls report the same operation.
#include "host/pe/describe_error.hpp"

#include <functional>
#include <string>
#include <vector>

#include "lib/remote_task/accumulate.cuh"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"

using namespace gravel::detail;

namespace {

struct nothing {
  static constexpr const char* name = "nothing";
  GRAVEL_HANDLER void operator()(const gravel_t&) const {}
};

struct call {
  std::string name;
  std::function<void(const gravel_t&, uint64_t* word, int pe)> make;
};
const std::vector<call> word_calls = {
    {"gravel_put", [](const gravel_t& g, uint64_t* word, int pe) { gravel_put(g, word, 1, pe); }},
    {"gravel_add", [](const gravel_t& g, uint64_t* word, int pe) { gravel_add(g, word, 1, pe); }},
    {"gravel_inc", [](const gravel_t& g, uint64_t* word, int pe) { gravel_inc(g, word, pe); }},
    {"gravel_accumulate",
     [](const gravel_t& g, uint64_t* word, int pe) {
       const uint64_t one[1] = {1};
       gravel_accumulate(g, word, one, 1, nullptr, pe);
     }},
    {"gravel_accumulate",
     [](const gravel_t& g, uint64_t* word, int pe) {
       const uint64_t one[1] = {1};
       gravel_accumulate(g, reinterpret_cast<uint64_t*>(g.heap), one, 1, word, pe);
     }},
};
/// The members of gravel_block_sender<1, ...>, each in a sender of its own.
template <class F>
call member(const char* name, F f) {
  return {name, [f](const gravel_t& g, uint64_t* word, int pe) {
            __shared__ gravel_block_sender<1, 128> sender;
            sender.begin(g);
            f(sender, word, pe);
            sender.end();
          }};
}
const std::vector<call> sender_calls = {
    member("gravel_block_sender::put", [](auto& sender, uint64_t* word, int pe) { sender.put(word, 1, pe); }),
    member("gravel_block_sender::inc", [](auto& sender, uint64_t* word, int pe) { sender.inc(word, pe); }),
    member("gravel_block_sender::add", [](auto& sender, uint64_t* word, int pe) { sender.add(word, 1, pe); }),
    member("gravel_block_sender::bit_and", [](auto& sender, uint64_t* word, int pe) { sender.bit_and(word, 1, pe); }),
    member("gravel_block_sender::bit_or", [](auto& sender, uint64_t* word, int pe) { sender.bit_or(word, 1, pe); }),
    member("gravel_block_sender::bit_xor", [](auto& sender, uint64_t* word, int pe) { sender.bit_xor(word, 1, pe); }),
    member("gravel_block_sender::min", [](auto& sender, uint64_t* word, int pe) { sender.min(word, 1, pe); }),
    member("gravel_block_sender::max", [](auto& sender, uint64_t* word, int pe) { sender.max(word, 1, pe); }),
};
const std::vector<call> sender_messages = {
    member("gravel_block_sender::am", [](auto& sender, uint64_t*, int pe) { sender.template am<nothing>(pe); }),
};
const std::vector<call> bulk_calls = {
    {"gravel_put_bulk", [](const gravel_t& g, uint64_t* word, int pe) { gravel_put_bulk(g, word, g.heap, 8, pe); }},
    {"gravel_put_bulk_warp",
     [](const gravel_t& g, uint64_t* word, int pe) { gravel_put_bulk_warp(g, word, g.heap, 8, pe, 1); }},
    {"gravel_put_bulk_lane",
     [](const gravel_t& g, uint64_t* word, int pe) { gravel_put_bulk_lane(g, word, g.heap, 8, pe); }},
    {"gravel_get_bulk", [](const gravel_t& g, uint64_t* word, int pe) { gravel_get_bulk(g, g.heap, word, 8, pe); }},
    {"gravel_get_bulk_warp",
     [](const gravel_t& g, uint64_t* word, int pe) { gravel_get_bulk_warp(g, g.heap, word, 8, pe, 1); }},
    {"gravel_get_bulk_lane",
     [](const gravel_t& g, uint64_t* word, int pe) { gravel_get_bulk_lane(g, g.heap, word, 8, pe); }},
    {"gravel_put_signal", [](const gravel_t& g, uint64_t* word,
                             int pe) { gravel_put_signal(g, g.heap, g.heap, 8, word, 1, GRAVEL_SIGNAL_SET, pe); }},
    {"gravel_put_signal_warp",
     [](const gravel_t& g, uint64_t* word, int pe) {
       gravel_put_signal_warp(g, g.heap, g.heap, 8, word, 1, GRAVEL_SIGNAL_SET, pe, 1);
     }},
    {"gravel_put_signal_lane",
     [](const gravel_t& g, uint64_t* word, int pe) {
       gravel_put_signal_lane(g, g.heap, g.heap, 8, word, 1, GRAVEL_SIGNAL_SET, pe);
     }},
};
const std::vector<call> waiting_calls = {
    {"gravel_fetch", [](const gravel_t& g, uint64_t* word, int pe) { gravel_fetch(g, word, pe); }},
    {"gravel_get_value", [](const gravel_t& g, uint64_t* word, int pe) { gravel_get_value(g, word, pe); }},
    {"gravel_fetch_add", [](const gravel_t& g, uint64_t* word, int pe) { gravel_fetch_add(g, word, 1, pe); }},
    {"gravel_fetch_max", [](const gravel_t& g, uint64_t* word, int pe) { gravel_fetch_max(g, word, 1, pe); }},
    {"gravel_swap", [](const gravel_t& g, uint64_t* word, int pe) { gravel_swap(g, word, 1, pe); }},
    {"gravel_compare_swap", [](const gravel_t& g, uint64_t* word, int pe) { gravel_compare_swap(g, word, 0, 1, pe); }},
};
const std::vector<call> local_calls = {
    {"gravel_local_add", [](const gravel_t& g, uint64_t* word, int) { gravel_local_add(g, word, 1); }},
    {"gravel_local_max", [](const gravel_t& g, uint64_t* word, int) { gravel_local_max(g, word, 1); }},
    {"gravel_local_xor", [](const gravel_t& g, uint64_t* word, int) { gravel_local_xor(g, word, 1); }},
    {"gravel_local_swap", [](const gravel_t& g, uint64_t* word, int) { gravel_local_swap(g, word, 1); }},
    {"gravel_local_compare_swap",
     [](const gravel_t& g, uint64_t* word, int) { gravel_local_compare_swap(g, word, 0, 1); }},
};

/// What PE 0 says about a call with a word `offset` bytes behind the begin of its heap.
std::string said(const call& c, int64_t offset, int pe, sender from = sender::kernel) {
  const auto job = fake_job::with<nothing>({});
  gravel_t g = job->pe(0).kernel;
  g.from = from;
  job->launch(1, 1, 0, [&] { c.make(g, reinterpret_cast<uint64_t*>(g.heap + offset), pe); });
  const device_error found = job->error_of(0);
  if (found.code == 0) return "no mistake";
  return describe(found, 0, job->n_pes(), g.heap_bytes, [](uint64_t) { return std::string("nothing"); });
}

void check_named(const std::vector<call>& calls, int64_t offset, int pe, const std::string& why,
                 sender from = sender::kernel) {
  for (const call& c : calls) {
    const std::string text = said(c, offset, pe, from);
    INFO(c.name << ": " << text);
    // "gravel_put_bulk" is a part of "gravel_put_bulk_warp".
    CHECK((" " + text).find(" " + c.name + (text.find(c.name + ",") == std::string::npos ? " " : ",")) !=
          std::string::npos);
    CHECK_THAT(text, contains_text(why));
  }
}

}  // namespace

TEST_CASE("a mistake names the call of the program, or all calls that may have made it") {
  for (const auto* calls : {&word_calls, &sender_calls, &bulk_calls, &waiting_calls}) {
    check_named(*calls, -64, 1, "PE 1: an address outside the symmetric heap");
    check_named(*calls, 64, 2, "PE 2: the job has PEs 0 to 1");
  }
  check_named(sender_messages, 64, 2, "PE 2: the job has PEs 0 to 1");
  check_named(word_calls, 4, 1, "PE 1: a misaligned address");
  check_named(sender_calls, 4, 1, "PE 1: a misaligned address");
  check_named(waiting_calls, 4, 1, "PE 1: a misaligned address");
  check_named(local_calls, -64, 0, "PE 0: an address outside the symmetric heap");
  for (const auto* calls : {&word_calls, &sender_calls, &bulk_calls, &waiting_calls})
    check_named(*calls, -64, 1, "bytes. Memory becomes a destination in two ways: gravel_malloc");
  check_named(waiting_calls, 64, 1, "inside a handler: handlers must not wait", sender::handler);
  check_named(bulk_calls, 64, 1, "inside a handler: it is for whole blocks or warps of a kernel", sender::handler);
  CHECK(said(word_calls[3], 64, 1, sender::handler) ==
        "gravel_accumulate inside a handler: it is for whole blocks or warps of a kernel");
}

TEST_CASE("no call is named that cannot have made the mistake") {
  CHECK_THAT(said(waiting_calls[2], 64, 2), starts_with_text("gravel_fetch_add to PE 2: "));
  CHECK_THAT(said(waiting_calls[2], 64, 0, sender::handler), starts_with_text("gravel_fetch_add inside a handler: "));
  CHECK_THAT(said(waiting_calls[2], -64, 0), starts_with_text("gravel_fetch_add or gravel_local_add to PE 0: "));
  CHECK_THAT(said(waiting_calls[1], -64, 1), starts_with_text("gravel_fetch or gravel_get_value from PE 1: "));
  CHECK_THAT(said({"", [](const gravel_t& g, uint64_t*, int pe) { gravel_am<nothing>(g, pe); }}, 64, 2),
             starts_with_text("gravel_am or gravel_block_sender::am to PE 2: "));
  CHECK_THAT(said(word_calls[1], 64, 2),
             starts_with_text("gravel_add, gravel_block_sender::add or gravel_accumulate to PE 2: "));
  CHECK_THAT(said(word_calls[2], 64, 2), starts_with_text("gravel_inc or gravel_block_sender::inc to PE 2: "));
}
