// Limits of the networking models that gather messages: no launch sends more than it has announced, no gathered message
// is lost, and messages that do not fit are refused or reported.
#include "bench/rivals/model_limits.hpp"

#include <map>
#include <random>
#include <vector>

#include "bench/rivals/model_queues.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"

using namespace app;
using namespace gravel::detail;

namespace {

constexpr uint32_t n_pes = 5;
constexpr row_kind adds = update_kind(op::add, value_type::u64), put_words = update_kind(op::put, value_type::u32);

/// Message number `i` of lane `lane`: index and value say where it comes from.
uint32_t index_of(uint32_t lane, uint32_t i) { return lane << 16 | i; }
uint32_t pe_of_message(uint32_t lane, uint32_t i) { return (lane * 7 + i * i) % n_pes; }

/// Runs one block whose lanes add `each` messages, every second one an addition (if `kinds` is 2); visit(lists, list)
/// is called by all lanes. Returns how many found no room.
template <class Visit>
uint32_t run_block(uint32_t each, uint32_t kinds, uint64_t seed, Visit&& visit) {
  uint32_t refused = 0;
  simt::launch(1, lanes_of_block, {.threads = 1, .seed = seed, .shared_bytes = sizeof(block_lists)}, [&] {
    auto& lists = *reinterpret_cast<block_lists*>(gravel_dynamic_shared());
    const message_key keys = message_key::of_pes(n_pes);
    lists.begin();
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t pe = pe_of_message(threadIdx.x, i);
      const uint32_t add[3] = {index_of(threadIdx.x, i), i, threadIdx.x}, put[2] = {index_of(threadIdx.x, i), i};
      if (!(i % kinds == 0 ? lists.add<adds>(keys, pe, add) : lists.add<put_words>(keys, pe, put))) ++refused;
    }
    lists.each_list(keys, [&](const sorted_messages& list) { visit(lists, list); });
  });
  return refused;
}

}  // namespace

TEST_CASE("a block's messages come out in one list for each kind and PE, all of them") {
  for (uint64_t seed : {0, 1, 2}) {
    std::map<uint32_t, uint32_t> found;  // PE of each message
    uint32_t lists = 0;
    const auto check = [&](block_lists&, const sorted_messages& list) {
      if (threadIdx.x != 0) return;
      ++lists;
      REQUIRE(list.n_rows == 1);
      for (uint32_t i = list.first_of(0); i < list.end_of(0); ++i) {
        const uint32_t* const message = words_at(&list.buffer[list.order[i]]);
        CHECK(list.kind_of_row(0) == (message[1] % 2 == 0 ? adds : put_words));
        CHECK(found.emplace(message[0], pe_of_sink(list.sink_of_row(0))).second);
      }
    };
    CHECK(run_block(20, 2, seed, check) == 0);
    CHECK(lists == 2 * n_pes);
    CHECK(found.size() == 20 * lanes_of_block);
    for (const auto& [index, pe] : found) CHECK(pe == pe_of_message(index >> 16, index & 0xffff));
  }
  uint32_t lists = 0;
  CHECK(run_block(0, 1, 0, [&](block_lists&, const sorted_messages&) { ++lists; }) == 0);
  CHECK(lists == 0);
}

TEST_CASE("a block that sends more than fits is reported") {
  uint32_t kept = 0;
  const auto count = [&](block_lists&, const sorted_messages& list) { kept += threadIdx.x == 0 ? list.n_messages : 0; };
  CHECK(run_block(block_lists::capacity / lanes_of_block, 1, 1, count) == 0);
  CHECK(kept == block_lists::capacity);
  CHECK(run_block(block_lists::capacity / lanes_of_block + 1, 1, 1, count) == lanes_of_block);
}

TEST_CASE("a queue holds consecutive lists of one kind, and reports what does not fit") {
  const uint64_t bytes = 2048;
  std::vector<unit> memory(n_pes * bytes / sizeof(unit) + 4);
  char* const begin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const queue_set queues{begin, bytes, n_pes};
  uint32_t misuse = 0;
  const auto add = [&](block_lists& lists, const sorted_messages& list) { queues.add(list, &lists.ticket, &misuse); };
  // 64 messages of 12 bytes a time, to five PEs.
  run_block(2, 1, 0, add);
  run_block(2, 1, 3, add);
  CHECK(misuse == 0);
  uint64_t messages = 0;
  std::map<uint32_t, int> times;
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    const queue_head* const head = queues.of(pe);
    CHECK(head->kind == adds.bits());
    messages += head->messages;
    const auto* const words = reinterpret_cast<const uint32_t*>(head + 1);
    for (uint64_t i = 0; i < head->messages; ++i) {
      CHECK(pe_of_message(words[3 * i] >> 16, words[3 * i] & 0xffff) == pe);
      ++times[words[3 * i]];
    }
  }
  CHECK(messages == 4 * lanes_of_block);
  for (const auto& [index, n] : times) CHECK(n == 2);
  run_block(2, 2, 0, add);
  CHECK(misuse == static_cast<uint32_t>(model_misuse::kinds));
  misuse = 0;
  run_block(block_lists::capacity / lanes_of_block, 1, 0, add);
  CHECK(misuse == static_cast<uint32_t>(model_misuse::many_of_queue));
}

TEST_CASE("launches are as large as shared memory and queues allow") {
  std::mt19937 draw(1);
  for (int i = 0; i < 10000; ++i) {
    network_work work{.items = draw() % 100000 + 1, .blocks = static_cast<unsigned>(draw() % 20 + 1)};
    work.of_item = draw() % most_of_lane + 1;
    work.of_item_to_one = draw() % work.of_item + 1;
    const uint64_t room = work.of_item_to_one + draw() % 5000,
                   items = std::min(work.items, items_for_queue(work, room));
    REQUIRE(items > 0);
    REQUIRE(items * work.of_item_to_one <= room);
    const uint64_t lanes = uint64_t{blocks_that_fit(work, items)} * lanes_of_block;
    REQUIRE(lanes >= work.blocks * lanes_of_block);
    REQUIRE((items + lanes - 1) / lanes * lanes_of_block * work.of_item <= block_lists::capacity);
  }
  const network_work blockwise{
      .items = 1 << 20, .blocks = 100, .of_block = 40, .of_block_to_one = 10, .most_of_lane = 1 << 10};
  CHECK(blocks_for_queue(blockwise, 105) == 10);
  CHECK(items_for_queue(blockwise, 105) == 10 * lanes_of_block << 10);
  CHECK(blocks_that_fit(blockwise, blockwise.items) == 100);
}

TEST_CASE("what cannot fit is refused") {
  const auto refused = [](const network_work& work) { return error_of([&] { blocks_that_fit(work, 1); }); };
  CHECK_THAT(refused({.of_item = most_of_lane + 1}),
             starts_with_text("the networking model sends a block's messages together, 1024 at most, but 32 lanes"));
  CHECK_THAT(
      refused({.of_block = 1025}),
      starts_with_text("the networking model sends a block's messages together, 1024 at most, but a block here"));
  CHECK_THAT(error_of([] { items_for_queue({.of_item_to_one = 9}, 8); }),
             starts_with_text("coprocessor: a queue has room for 8 messages, but one item"));
}
