#include "lib/base/stall_watch.hpp"

#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("what moves now and then has not stopped") {
  stall_watch watch(3);
  CHECK_FALSE(watch.poll(true, 1));
  CHECK_FALSE(watch.poll(true, 1));
  CHECK_FALSE(watch.poll(true, 1));
  CHECK_FALSE(watch.poll(true, 2));
  CHECK_FALSE(watch.poll(true, 2));
  CHECK_FALSE(watch.poll(true, 2));
  CHECK(watch.poll(true, 2));
  CHECK(watch.poll(true, 2));
  CHECK_FALSE(watch.poll(true, 3));
}

TEST_CASE("what need not move has not stopped, and then begins anew") {
  stall_watch watch(2);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(watch.poll(false, 7));
  CHECK_FALSE(watch.poll(true, 7));
  CHECK(watch.poll(true, 7));
  CHECK_FALSE(watch.poll(false, 7));
  CHECK_FALSE(watch.poll(true, 7));
}

TEST_CASE("what was never seen moving stops too") {
  stall_watch watch;
  for (int i = 1; i < heartbeat_polls; ++i) CHECK_FALSE(watch.poll(true, 0));
  CHECK(watch.poll(true, 0));
}
