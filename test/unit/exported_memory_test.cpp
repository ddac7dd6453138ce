// host/exported_memory.*, and what the CPU backend makes of it: memory that other processes map.
#include "host/pe/exported_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include <gravel/gravel.cuh>
#include "host/pe/backend_cpu.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("another process sees the writes, and writes itself") {
  const sealed_memory mine = make_exported(1 << 20, "the test's memory");
  auto* const word = reinterpret_cast<uint64_t*>(mine.at()) + 1000;
  CHECK(*word == 0);
  *word = 7;
  const std::string described = describe_exported(mine);
  const pid_t child = fork();
  if (child == 0) {
    munmap(mine.at(), 1 << 20);  // only what it attaches
    const sealed_memory theirs = attach_exported(described);
    uint64_t* const there = reinterpret_cast<uint64_t*>(theirs.at()) + 1000;
    const bool seen = *there == 7;
    *there = 8;
    _exit(seen ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(*word == 8);
}

TEST_CASE("other memory is refused") {
  std::string described;
  {
    const sealed_memory gone = make_exported(1 << 20, "the test's memory");
    described = describe_exported(gone);
  }
  CHECK_THROWS_AS(attach_exported(described), error);
  const sealed_memory another = make_exported(1 << 20, "the test's memory");  // most likely by the same descriptor
  CHECK_THROWS_AS(attach_exported(described), error);
  CHECK_THROWS_WITH(attach_exported("short"), "its process: a message is cut off (5 bytes)");
  CHECK_THROWS_WITH(make_exported(uint64_t{1} << 62, "the heap"),
                    contains_text("the heap of 4 EiB (4611686018427387904 bytes) does not fit"));
}

/// Settings are read once in a process: each of these has its own. `check` returns a text, "" if all is well.
std::string with_routes(const char* routes, std::string (*check)()) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("GRAVEL_ROUTES", routes, 1);
    const std::string text = check();
    [[maybe_unused]] const auto written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  char text[512] = "";
  [[maybe_unused]] const auto got = read(ends[0], text, sizeof(text) - 1);
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? text : "the process ended badly";
}

TEST_CASE("the CPU backend exports memory only where GRAVEL_ROUTES asks for the route peer") {
  const auto check = [] {
    cpu_backend<handler_list<>> device;
    device.open(0, 2);
    void* const at = device.allocate_exportable(1 << 16, "the test's memory");
    const bool exports = !device.export_memory(at).empty();
    device.release(at);
    return std::string(exports ? "yes" : "no");
  };
  for (const char* routes : {"auto", "no-peer", "net"}) CHECK(with_routes(routes, check) == "no");
  for (const char* routes : {"peer", "direct"}) CHECK(with_routes(routes, check) == "yes");
}

TEST_CASE("memory that is zeroed is zero in all mappings") {
  CHECK(with_routes("peer", [] {
          cpu_backend<handler_list<>> owner, other;
          owner.open(0, 2);
          other.open(1, 2);
          constexpr uint64_t bytes = 1 << 20;
          char* const at = static_cast<char*>(owner.allocate_exportable(bytes, "the test's memory"));
          std::string why;
          char* const there = static_cast<char*>(other.import_memory(owner.export_memory(at), &why));
          if (!there) return why;
          std::memset(there, 1, bytes);
          owner.zero(at + 100, bytes - 300);
          uint64_t left = 0, different = 0;
          for (uint64_t i = 0; i < bytes; ++i) {
            different += at[i] != there[i];
            left += there[i] != 0;
          }
          if (left != 300 || different != 0) return fmt::format("{} bytes are not zero, {} differ", left, different);
          if (other.import_memory("nonsense", &why)) return std::string("nonsense was mapped");
          other.forget_memory(there);
          owner.release(at);
          return why == "its process: a message is cut off (8 bytes)" ? std::string() : why;
        }) == "");
}
