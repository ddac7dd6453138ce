// lib/base/capacity.hpp: what messages say of memory and threads that are not there.
#include "lib/base/capacity.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/scratch.hpp"

using namespace gravel::detail;

TEST_CASE("bytes are printed in the unit that fits") {
  CHECK(text_of_bytes(7) == "7 bytes");
  CHECK(text_of_bytes(1024) == "1 KiB (1024 bytes)");
  CHECK(text_of_bytes(3ull << 29) == "1.5 GiB (1610612736 bytes)");
  CHECK(text_of_bytes(1ull << 46) == "64 TiB (70368744177664 bytes)");
}

TEST_CASE("the least limit of all cgroups above a process counts, of either version") {
  const scratch files;
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::filesystem::path at = files.directory + name;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  };
  CHECK(cgroup_limit("memory.max", files.directory) == ~uint64_t{0});
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  CHECK(cgroup_limit("memory.max", files.directory) == ~uint64_t{0});
  write("/sys/fs/cgroup/a/memory.max", "4096\n");
  write("/sys/fs/cgroup/a/b/pids.max", "77\n");
  CHECK(cgroup_limit("memory.max", files.directory) == 4096);
  CHECK(cgroup_limit("pids.max", files.directory) == 77);
  write("/proc/self/cgroup", "7:memory:/c\n5:pids:/\n0::/\n");
  write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/pids/pids.max", "5\n");
  CHECK(cgroup_limit("memory.max", files.directory) == 1000);
  CHECK(cgroup_limit("pids.max", files.directory) == 5);
}

TEST_CASE("what does not fit is named, with its size, the reason, and what there is") {
  errno = ENOMEM;
  CHECK_THAT(error_of([] { fail_memory("the symmetric heap (GRAVEL_SYMMETRIC_SIZE)", 1ull << 40); }),
             contains_text("the symmetric heap (GRAVEL_SYMMETRIC_SIZE) of 1 TiB (1099511627776 bytes) does not fit "
                           "(Cannot allocate memory): this "
                           "host has ") &&
                 contains_text(" are free"));
  CHECK_THAT(error_of([] { fail_thread("the receiver of a PE", "no more"); }),
             contains_text("the receiver of a PE: a thread cannot be started (no more): this user may have ") &&
                 contains_text("(ulimit -u)"));
  struct no_thread {
    explicit no_thread(void (*)()) { throw std::system_error(EAGAIN, std::generic_category()); }
  };
  CHECK_THAT(error_of([] {
               start_thread<no_thread>(
                   "a stream", +[] {});
             }),
             contains_text("a stream: a thread cannot be started (Resource"));
}
