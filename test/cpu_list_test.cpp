#include "lib/base/cpu_list.hpp"

#include "lib/base/error.hpp"
#include "test/catch.hpp"

using namespace gravel;

TEST_CASE("lists of processors are read and written") {
  CHECK(parse_cpu_list("0") == cpu_list{0});
  CHECK(parse_cpu_list("0-3,8") == cpu_list{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("8,2-3,0-2,5-5") == cpu_list{0, 1, 2, 3, 5, 8});
  for (const char* text : {"0", "0-3,8", "1,3,5", "0-1,127-128"}) CHECK(text_of(parse_cpu_list(text)) == text);
  CHECK(text_of({}).empty());
}

TEST_CASE("what is no list is refused, with its text") {
  for (const char* bad : {"", "x", "-1", "1-", "-", ",", "1,", ",1", "1--2", "1-2-3", "0 1", " 1", "1;2", "3-1", "65536",
                          "0-4294967295", "99999999999"}) {
    INFO(bad);
    CHECK_THROWS_WITH(parse_cpu_list(bad), contains_text("'" + std::string(bad) + "'"));
  }
}
