#include "lib/base/settings.hpp"

#include <map>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {
settings with(std::map<std::string, std::string> values) {
  return read_settings([&](const char* name) -> const char* {
    auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}
}  // namespace

TEST_CASE("defaults are the documented ones") {
  const settings s = with({});
  CHECK(s.packet_size == 65536);
  CHECK(s.packets_per_destination == 3);
  CHECK(s.timeout_us == 125);
  CHECK(s.symmetric_size == 0);
  CHECK_FALSE(s.stats);
}

TEST_CASE("sizes") {
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("64K") == 65536);
  CHECK(parse_size("64kb") == 65536);
  CHECK(parse_size("1GiB") == 1ull << 30);
  for (const char* bad : {"", "K", "-1", "1.5G", "12Q", "64KX", "99999999999999999999", "9999999999T"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_size(bad), error);
  }
}

TEST_CASE("a bad value names the variable, the value and the bounds") {
  for (auto [name, value] : {std::pair{"GRAVEL_PACKET_SIZE", "1"},
                             {"GRAVEL_PACKET_SIZE", "65537"},
                             {"GRAVEL_TIMEOUT_US", "soon"},
                             {"GRAVEL_STATS", "maybe"},
                             {"GRAVEL_WARP_SLOTS", "1000"},
                             {"GRAVEL_LOG", "loud"},
                             {"GRAVEL_ROUTES", "air"},
                             {"GRAVEL_AGGREGATION", "bytes"},
                             {"GRAVEL_PARTITION", "half"}}) {
    INFO(name << "=" << value);
    CHECK_THROWS_WITH(with({{name, value}}), contains_text(name) && contains_text(value));
  }
}

TEST_CASE("a variable that no row names is reported") {
  const char* environment[] = {"PATH=/bin",       "GRAVEL_PAKET_SIZE=1", "GRAVEL_STATS=1", "GRAVLE_ROUTES=net",
                               "gravel_log=info", "TRAVELS_LOG=x",       "LOG=x",          "GRAVEL=1",
                               "_LOG=2",          "GRAVEL_CXX=g++",      nullptr};
  CHECK(unknown_settings(const_cast<char**>(environment)) ==
        std::vector<std::string>{"GRAVEL_PAKET_SIZE", "GRAVLE_ROUTES", "gravel_log"});
}

TEST_CASE("a variable that no row names may mean one that is near, or that is about the same") {
  for (auto [name, meant] : {std::pair{"GRAVEL_PAKET_SIZE", " (did you mean GRAVEL_PACKET_SIZE?)"},
                             {"GRAVEL_HEAP_SIZ", " (did you mean GRAVEL_SYMMETRIC_SIZE?)"},
                             {"GRAVEL_HEAP_SIZE", " (did you mean GRAVEL_SYMMETRIC_SIZE?)"},
                             {"GRAVEL_SYMETRIC_SIZE", " (did you mean GRAVEL_SYMMETRIC_SIZE?)"},
                             {"GRAVEL_WATCHDOG", " (did you mean GRAVEL_WATCHDOG_S?)"},
                             {"GRAVLE_ROUTES", " (did you mean GRAVEL_ROUTES?)"},
                             {"gravel_log", " (did you mean GRAVEL_LOG?)"},
                             {"GRAVEL_XYZZY", ""},
                             {"GRAVEL_", ""}}) {
    INFO(name);
    CHECK(describe_unknown_setting(name) ==
          std::string(name) + " is not a variable of Gravel" + meant + "; gravel-info -c lists them");
  }
}
