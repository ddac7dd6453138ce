// Errors and log lines: what a user reads when something is wrong.
#include "lib/base/error.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "lib/base/closest_name.hpp"
#include "lib/base/log.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {
struct ended {
  int status = 0;
  std::string text;  ///< on stderr
};

/// Runs `f` in a process of its own.
template <class F>
ended in_child(F f) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    f();
    _exit(0);
  }
  close(ends[1]);
  ended e;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) e.text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  REQUIRE(waitpid(child, &e.status, 0) == child);
  return e;
}
}  // namespace

TEST_CASE("fail formats, fail_errno says why") {
  CHECK_THROWS_WITH(fail("{} of {}", 3, "four"), "3 of four");
  CHECK_THROWS_AS(fail("x"), error);
  CHECK_THROWS_WITH(fail("100 % {{of}} it"), "100 % {of} it");
  CHECK_THROWS_WITH(fail("{} {} {}", true, 'c', -1), "true c -1");
  CHECK_THROWS_WITH(fail("{:#x} {:#010x} {}", 255, 255u, ~uint64_t{0}), "0xff 0x000000ff 18446744073709551615");
  const int* const address = reinterpret_cast<const int*>(0x1f0);
  CHECK_THROWS_WITH(fail("{} {}", address, static_cast<const void*>(address)), "0x1f0 0x1f0");
  CHECK_THROWS_WITH(fail("{1} {0} {1}", std::string("a"), std::string_view("b{}")), "b{} a b{}");
  CHECK_THROWS_WITH(fail("{} {:.2f} {}", uint8_t{65}, 0.125, 0.1), "65 0.12 0.1");
  errno = ENOENT;
  CHECK_THROWS_WITH(fail_errno("opening 'f'"), "opening 'f': No such file or directory");
}

TEST_CASE("an uncaught exception is one line and exit status 1, no core") {
  for (int kind = 0; kind < 3; ++kind) {
    const ended e = in_child([&] {
      set_log_name("PE 3");
      install_terminate_handler();
      std::thread([&] {  // nobody catches here
        if (kind == 0) fail("the reason");
        if (kind == 1) throw 5;
        std::terminate();
      })
          .join();
    });
    CHECK(WIFEXITED(e.status));
    CHECK(WEXITSTATUS(e.status) == 1);
    CHECK_THAT(e.text, contains_text("PE 3"));
    const char* const reasons[] = {"the reason", "unknown type", "without an exception"};
    CHECK_THAT(e.text, contains_text(reasons[kind]));
  }
}

TEST_CASE("log lines name the speaker and obey the level") {
  const ended e = in_child([] {
    set_log_name("aggregator of node 1");
    set_log_level("warning");
    log_debug("a {}", 1);
    log_info("b {}", 2);
    log_warning("c {}", 3);
    log_error("d {}", 4);
    set_log_level("debug");
    log_debug("e {}", 5);
  });
  for (const char* said : {"c 3", "d 4", "e 5"}) CHECK_THAT(e.text, contains_text(said));
  for (const char* unsaid : {"a 1", "b 2"}) CHECK(e.text.find(unsaid) == std::string::npos);
  CHECK_THAT(e.text, contains_text("gravel") && contains_text("aggregator of node 1"));
  CHECK(std::count(e.text.begin(), e.text.end(), '\n') == 3);
}

TEST_CASE("a mistyped name finds the one that was meant") {
  const std::vector<std::string> names{"--np",         "--nodes",      "--stats",
                                       "--tag-output", "GRAVEL_SLOTS", "GRAVEL_SLOT_SIZE"};
  for (const char* mistyped : {"--nodse", "--node", "--noddes", "--Nodes"})
    CHECK(closest_name(mistyped, names) == "--nodes");
  CHECK(closest_name("--tag_output", names) == "--tag-output");
  CHECK(closest_name("GRAVEL_SLOT", names) == "GRAVEL_SLOTS");
  CHECK(closest_name("gravel_slotsize", names) == "GRAVEL_SLOT_SIZE");
  CHECK(did_you_mean("--stat", names) == " (did you mean --stats?)");
  for (const char* other : {"", "-", "-z", "--host", "--verbose", "OTHER_SLOTS_OF"})
    CHECK(did_you_mean(other, names).empty());
  CHECK(closest_name("--np", {}).empty());
}
