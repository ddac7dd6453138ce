#include "transport/process_watch.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

/// A process that sleeps until it is killed.
struct sleeper {
  sleeper() : pid(fork()) {
    REQUIRE(pid >= 0);
    while (pid == 0) pause();
  }
  ~sleeper() { reap(); }
  void reap() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    pid = 0;
  }
  process_identity identity() const {
    process_identity result = this_process();
    result.pid = static_cast<uint64_t>(pid);
    result.start = start_of_process(result.pid);
    return result;
  }
  pid_t pid;
};

void* wait_for_end(process_watch& watch) {
  void* tag;
  while (!(tag = watch.ended())) sched_yield();
  return tag;
}

}  // namespace

TEST_CASE("one host is one boot of one machine, and one container there") {
  const process_identity self = this_process();
  CHECK(on_one_host(self, {self.boot, self.pid_namespace, 1, 0}));
  CHECK_FALSE(on_one_host(self, {self.boot + 1, self.pid_namespace, self.pid, self.start}));
  CHECK_FALSE(on_one_host(self, {self.boot, self.pid_namespace + 1, self.pid, self.start}));
  CHECK_FALSE(on_one_host({0, 1, 2, 3}, {0, 1, 2, 3}));  // unknown
  CHECK_FALSE(on_one_host({1, 0, 2, 3}, {1, 0, 2, 3}));
}

TEST_CASE("the end of a process is reported once, even before it is reaped") {
  sleeper first, second;
  process_watch watch;
  CHECK(watch.ended() == nullptr);
  REQUIRE(watch.add(first.identity(), &first));
  REQUIRE(watch.add(second.identity(), &second));
  CHECK(watch.ended() == nullptr);
  kill(second.pid, SIGKILL);
  CHECK(wait_for_end(watch) == &second);
  CHECK(watch.ended() == nullptr);
  first.reap();
  CHECK(wait_for_end(watch) == &first);
  CHECK(watch.ended() == nullptr);
}

TEST_CASE("a process that ended before it was watched") {
  sleeper process;
  const process_identity identity = process.identity();
  process.reap();
  process_watch watch;
  CHECK(watch.add(identity, &process));
  CHECK(watch.ended() == &process);
  CHECK(watch.ended() == nullptr);
}

TEST_CASE("a number that belongs to another process by now means that the first has ended") {
  CHECK(this_process().start != 0);
  CHECK(start_of_process(0x7ffffff0) == 0);
  sleeper process;
  process_identity earlier = process.identity();
  REQUIRE(earlier.start != 0);
  earlier.start -= 1;
  process_watch watch;
  CHECK(watch.add(earlier, &process));
  CHECK(watch.ended() == &process);
  CHECK(watch.ended() == nullptr);
  // Where nothing is known of the start, the number counts.
  process_identity unknown = process.identity();
  unknown.start = 0;
  CHECK(watch.add(unknown, &process));
  CHECK(watch.ended() == nullptr);
}

TEST_CASE("a process that is no longer watched is not reported") {
  sleeper process, other;
  process_watch watch;
  REQUIRE(watch.add(process.identity(), &process));
  REQUIRE(watch.add(other.identity(), &other));
  watch.remove(&process);
  watch.remove(&watch);  // never was watched
  process.reap();
  other.reap();
  CHECK(wait_for_end(watch) == &other);
  CHECK(watch.ended() == nullptr);
}

TEST_CASE("a process elsewhere, or this one, cannot be watched") {
  sleeper process;
  process_watch watch;
  process_identity other_machine = process.identity(), other_container = process.identity();
  other_machine.boot ^= 1;
  other_container.pid_namespace ^= 1;
  CHECK_FALSE(watch.add(other_machine, &process));
  CHECK_FALSE(watch.add(other_container, &process));
  CHECK_FALSE(watch.add(this_process(), &process));
  CHECK_FALSE(watch.add({0, 0, 1, 0}, &process));
  CHECK(watch.ended() == nullptr);
}
