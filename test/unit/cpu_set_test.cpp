#include "host/aggregator/cpu_set.hpp"

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("lists of processors are read and written") {
  for (const char* text : {"0", "0-3,8", "1,3,5", "0-1,127-128", "65535"}) CHECK(cpu_set::parse(text).text() == text);
  CHECK(cpu_set::parse("8,2-3,0-2,5-5").text() == "0-3,5,8");
  CHECK(cpu_set().text().empty());
}

TEST_CASE("sets are values") {
  const cpu_set a = cpu_set::parse("0-3,8"), b = cpu_set::parse("3-5");
  CHECK((a & b).text() == "3");
  CHECK((a | b).text() == "0-5,8");
  CHECK((a - b).text() == "0-2,8");
  CHECK((a - a).empty());
  CHECK(a.count() == 5);
  CHECK(a.first() == 0);
  CHECK(a.last() == 8);
  CHECK(cpu_set().last() == -1);
  cpu_set copy = a;
  copy = b;
  CHECK(copy == b);
  CHECK(a.text() == "0-3,8");
}

TEST_CASE("a text that is no list is refused, and named") {
  for (const char* bad : {"", "x", "-1", "1-", "-", ",", "1,", ",1", "1--2", "1-2-3", "0 1", " 1", "1;2", "3-1",
                          "0,3-1", "999999", "0-4294967295", "99999999999", "0x3"}) {
    INFO(bad);
    CHECK_THROWS_WITH(cpu_set::parse(bad), contains_text("'" + std::string(bad) + "' is not a list of processors"));
  }
}
