#include "host/node/stats.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {
/// A job of which every number is different.
stats_row some_job() {
  stats_row row;
  row[gravel::detail::stat::messages_taken] = 900;
  row[gravel::detail::stat::messages_to_self] = 100;
  row[gravel::detail::stat::messages_in_place] = 300;
  row[gravel::detail::stat::messages_off_node] = 500;
  row[gravel::detail::stat::packets] = 40;
  row[gravel::detail::stat::packet_bytes] = 40 * 2500;
  row[gravel::detail::stat::packets_full] = 10;
  row[gravel::detail::stat::packets_age] = 20;
  row[gravel::detail::stat::packets_flush] = 6;
  row[gravel::detail::stat::packets_idle] = 4;
  row[gravel::detail::stat::packets_local] = 16;
  row[gravel::detail::stat::packets_put] = 22;
  row[gravel::detail::stat::packets_eager] = 2;
  row[gravel::detail::stat::messages_forwarded] = 77;
  row[gravel::detail::stat::messages_spilled] = 5;
  row[gravel::detail::stat::slots_taken] = 33;
  row[gravel::detail::stat::stalls] = 3;
  row[gravel::detail::stat::busy_us] = 4'000'000;
  row[gravel::detail::stat::put_us] = 1'500'000;
  row[gravel::detail::stat::no_credit_us] = 250'000;
  row[gravel::detail::stat::no_slot_us] = 750'000;
  return row;
}
}  // namespace

TEST_CASE("Table 5: remote access frequency is accesses to other PEs over all accesses") {
  CHECK(remote_frequency(some_job()) == 800.0 / 1200.0);
  stats_row alone;
  alone[gravel::detail::stat::messages_in_place] = 5;
  CHECK(remote_frequency(alone) == 0);
  CHECK(remote_frequency(stats_row()) == 0);
  stats_row all_remote;
  all_remote[gravel::detail::stat::messages_taken] = 7;
  CHECK(remote_frequency(all_remote) == 1);
}

TEST_CASE("Table 5: average packet size") {
  CHECK(average_packet_bytes(some_job()) == 2500);
  CHECK(average_packet_bytes(stats_row()) == 0);
}

TEST_CASE("the text shows both numbers and every cause") {
  const std::string text = stats_text(some_job(), 4, 2);
  for (const char* part :
       {"4 PEs on 2 nodes", "66.7 %", "2500 bytes", "full 25.0 %", "age 50.0 %", "flush 15.0 %", "idle 10.0 %",
        "local ring 40.0 %", "put 55.0 %", "inside the notice 5.0 %", "77 / 5 messages", "3 waits", "worked 4.00 s",
        "1.50 s of it in puts", "0.25 s for room", "0.75 s for slots"})
    CHECK_THAT(text, contains_text(part));
}

TEST_CASE("the text of a job without messages has no nonsense in it") {
  const std::string text = stats_text(stats_row(), 1, 1);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

TEST_CASE("the JSON has every counter under its name") {
  const stats_row row = some_job();
  const auto json = nlohmann::json::parse(stats_json(row, {}, 4, 2));
  CHECK(json.at("n_pes") == 4);
  CHECK(json.at("n_nodes") == 2);
  CHECK(json.at("remote_access_frequency").get<double>() == remote_frequency(row));
  CHECK(json.at("average_packet_bytes").get<double>() == 2500);
  std::set<std::string> names;
  for (uint32_t i = 0; i < n_stats; ++i) {
    const std::string name = name_of(static_cast<stat>(i));
    CHECK(names.insert(name).second);
    CHECK(json.at(name) == row.value[i]);
  }
  CHECK(nlohmann::json::parse(stats_json(stats_row(), {}, 1, 1)).at("packets") == 0);
}

TEST_CASE("the JSON says who sent how much to whom, if that is known") {
  const message_matrix known{{{1, 2}, {3, 4}}, {5, 6}, {7, 8}};
  const auto json = nlohmann::json::parse(stats_json(some_job(), known, 2, 1)).at("messages_by_pe");
  CHECK(json.at("through_queue") == nlohmann::json{{1, 2}, {3, 4}});
  CHECK(json.at("in_place") == nlohmann::json{5, 6});
  CHECK(json.at("to_peers") == nlohmann::json{7, 8});
  CHECK_FALSE(nlohmann::json::parse(stats_json(some_job(), {}, 2, 1)).contains("messages_by_pe"));
}
