// Memory in extents: heap_memory, the exchange of descriptors, and what the CPU backend makes of them.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <thread>

#include <gravel/gravel.cuh>
#include "host/pe/backend_cpu.hpp"
#include "host/pe/extent_exchange.hpp"
#include "host/pe/heap_memory.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

using cpu = cpu_backend<handler_list<>>;
constexpr uint64_t mib = 1 << 20;

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

}  // namespace

TEST_CASE("extents cover what an object needs, and only what has none yet") {
  cpu device;
  heap_memory heap(device, 64 * mib, 1000);
  CHECK(heap.grows());
  CHECK(heap.bytes() == 66 * mib);
  REQUIRE(heap.first().size() == 1);
  CHECK(heap.first()[0].place == extent{64 * mib, 2 * mib});
  const auto places = [](const std::vector<new_extent>& made) {
    std::vector<extent> all;
    for (const new_extent& e : made) all.push_back(e.place);
    return all;
  };
  CHECK(places(heap.cover(0, 1)) == std::vector{extent{0, 2 * mib}});
  CHECK(places(heap.cover(256, 2 * mib - 256)).empty());
  CHECK(places(heap.cover(7 * mib, 2 * mib)) == std::vector{extent{6 * mib, 4 * mib}});
  // From inside of one extent to the inside of another, and past it.
  CHECK(places(heap.cover(mib, 10 * mib)) == std::vector{extent{2 * mib, 4 * mib}, extent{10 * mib, 2 * mib}});
  CHECK(heap.committed() == 14 * mib);
  CHECK(heap.inside(1, 64 * mib) ==
        std::vector{extent{2 * mib, 4 * mib}, extent{6 * mib, 4 * mib}, extent{10 * mib, 2 * mib}});
  CHECK(heap.inside(0, 9 * mib) == std::vector{extent{0, 2 * mib}, extent{2 * mib, 4 * mib}});
  CHECK(heap.inside(3 * mib, 5 * mib).empty());
  heap.remove({6 * mib, 4 * mib});
  CHECK(places(heap.cover(0, 12 * mib)) == std::vector{extent{6 * mib, 4 * mib}});
}

namespace {
/// A device that has only so much memory.
class small_device : public cpu {
 public:
  memory_handle commit(char* at, uint64_t bytes, const char* what, place where) override {
    if (bytes > left) fail("{}: {} bytes are left", what, left);
    left -= bytes;
    return cpu::commit(at, bytes, what, where);
  }
  void decommit(char* at, uint64_t bytes) override {
    left += bytes;
    cpu::decommit(at, bytes);
  }
  uint64_t left = 12 * mib;
};
}  // namespace

TEST_CASE("what does not fit leaves nothing behind") {
  small_device device;
  heap_memory heap(device, 64 * mib, 1);  // 2 MiB for the tail
  heap.cover(4 * mib, 2 * mib);
  CHECK_THROWS_WITH(heap.cover(0, 16 * mib), contains_text("memory of the symmetric heap: 4194304 bytes are left"));
  CHECK(heap.committed() == 4 * mib);
  CHECK(device.left == 8 * mib);
  heap.cover(0, 10 * mib);
  CHECK(device.left == 0);
}

TEST_CASE("the CPU backend shares extents only where GRAVEL_ROUTES asks for the route peer") {
  const auto check = [] {
    cpu device;
    device.open(0, 2);
    char* const at = device.reserve(4 * mib, "the test's memory");
    const bool passes = bool(device.commit(at, 2 * mib, "the test's memory", place::device));
    device.unreserve(at, 4 * mib);
    if (passes != device.shares_extents()) return std::string("differs");
    return std::string(passes ? "yes" : "no");
  };
  for (const char* routes : {"auto", "no-peer", "net"}) CHECK(with_routes(routes, check) == "no");
  for (const char* routes : {"peer", "rings", "direct"}) CHECK(with_routes(routes, check) == "yes");
}

TEST_CASE("memory that is zeroed is zero in all mappings, and memory that is taken away is zero when it comes again") {
  CHECK(with_routes("peer", [] {
          cpu owner, other;
          owner.open(0, 2);
          other.open(1, 2);
          constexpr uint64_t bytes = 2 * mib;
          char* const at = owner.reserve(3 * bytes, "the test's memory") + bytes;
          char* const there = other.reserve(3 * bytes, "the test's memory") + bytes;
          other.map_extent(there, bytes, owner.commit(at, bytes, "the test's memory", place::device));
          std::memset(there, 1, bytes);
          owner.zero(at + 100, bytes - 300);
          uint64_t left = 0, different = 0;
          for (uint64_t i = 0; i < bytes; ++i) {
            different += at[i] != there[i];
            left += there[i] != 0;
          }
          if (left != 300 || different != 0) return fmt::format("{} bytes are not zero, {} differ", left, different);
          owner.decommit(at, bytes);
          if (at[0] != 0 || there[0] != 1) return std::string("one side's memory is gone with that of the other");
          at[0] = 5;  // no extent: the write is lost
          other.decommit(there, bytes);
          other.map_extent(there, bytes, owner.commit(at, bytes, "the test's memory", place::device));
          for (uint64_t i = 0; i < bytes; ++i) left += at[i] != 0 || there[i] != 0;
          return left == 300 ? std::string() : std::string("new memory is not zero");
        }) == "");
}

TEST_CASE("only sealed memory of the right size is mapped") {
  CHECK(with_routes("peer", [] {
          cpu device;
          device.open(0, 2);
          char* const at = device.reserve(4 * mib, "the test's memory");
          std::string all;
          for (int descriptor : {memfd_create("test", MFD_CLOEXEC), dup(0), -1,
                                 make_sealed("test", "the test's memory", mib).release()}) {
            if (descriptor > 2 && descriptor < 5) [[maybe_unused]]
              const int cut = ftruncate(descriptor, 2 * mib);
            const std::string why =
                text_of_error([&] { device.map_extent(at, 2 * mib, owned_descriptor(descriptor)); });
            if (why.empty()) all += fmt::format("descriptor {} was mapped; ", descriptor);
          }
          at[0] = 1;  // the addresses can still be used
          return all;
        }) == "");
}

namespace {
/// Memory of a program: memfds, one behind the other, that are mapped where the last argument says, or anywhere.
struct mapped_files {
  explicit mapped_files(const std::vector<uint64_t>& sizes) {
    uint64_t bytes = 4096;  // what lies behind them is not shared
    for (const uint64_t size : sizes) bytes += size;
    all_bytes = bytes;
    at = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char* next = at;
    for (const uint64_t size : sizes) {
      files.push_back(make_sealed("test", "the test's memory", size));
      mmap(next, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, files.back().get(), 0);
      next += size;
    }
  }
  ~mapped_files() { munmap(at, all_bytes); }
  char* at;
  uint64_t all_bytes;
  std::vector<owned_descriptor> files;
};
std::string why_not_shareable(const char* at, uint64_t bytes) {
  return text_of_error([&] { find_shared_mappings(at, bytes); });
}
}  // namespace

TEST_CASE("memory of the program is shared if it is whole mapped memfds of a size that nobody can change") {
  const mapped_files memory({8192, 4096, 16384});
  char* const at = memory.at;
  const auto pieces = [](const char* from, uint64_t bytes) { return find_shared_mappings(from, bytes).pieces; };
  CHECK(pieces(at, 1) == std::vector<uint64_t>{8192});
  CHECK(pieces(at + 100, 8192) == std::vector<uint64_t>{8192, 4096});
  CHECK(pieces(at + 8191, 4098) == std::vector<uint64_t>{8192, 4096, 16384});
  CHECK(find_shared_mappings(at + 9000, 10000).begin == at + 8192);
  CHECK(find_shared_mappings(at + 9000, 10000).bytes() == 20480);
  // The kernel shows a mapping in parts where they differ.
  REQUIRE(madvise(at + 12288 + 4096, 4096, MADV_DONTFORK) == 0);
  CHECK(pieces(at + 12288, 16384) == std::vector<uint64_t>{16384});
  CHECK(descriptor_of_mapping(at + 8192, 4096));
  CHECK_THROWS_WITH(descriptor_of_mapping(at + 8192, 8192), contains_text("has changed"));

  CHECK_THAT(why_not_shareable(at, 8192 + 4096 + 16384 + 1), contains_text("lies in no shared mapping of a file"));
  int local = 0;
  std::vector<char> heap(100);
  for (const void* wrong : {static_cast<const void*>(&local), static_cast<const void*>(heap.data()),
                            static_cast<const void*>(nullptr), reinterpret_cast<const void*>(~0xfffull)})
    CHECK_THAT(why_not_shareable(static_cast<const char*>(wrong), 1), contains_text("in two ways: gravel_malloc"));
}

TEST_CASE("memory of the program that others cannot map is refused, and the error says why") {
  mapped_files closed({4096});
  closed.files.clear();
  CHECK_THAT(why_not_shareable(closed.at, 1), contains_text("the descriptor of the memfd"));
  const owned_descriptor file = make_sealed("test", "the test's memory", 8192);
  const auto mapped = [&](const owned_descriptor& from, off_t offset) {
    return static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, from.get(), offset));
  };
  CHECK_THAT(why_not_shareable(mapped(file, 0), 1), contains_text("has 8192 bytes where 4096 were expected"));
  CHECK_THAT(why_not_shareable(mapped(file, 4096), 1), contains_text("a part of a memfd is mapped"));
  const owned_descriptor changing(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(ftruncate(changing.get(), 4096) == 0);
  CHECK_THAT(why_not_shareable(mapped(changing, 0), 1), contains_text("is not sealed against a change of its size"));
}

TEST_CASE("memory of the program fills a place in which no extent lies, and ordinary memory the rest") {
  for (const char* routes : {"auto", "peer"})
    CHECK(with_routes(routes, [] {
            cpu device;
            device.open(0, 2);
            heap_memory heap(device, 64 * mib, 1);
            heap.cover(0, 1);
            heap.cover(5 * mib, 1);  // [4, 6) MiB
            const auto place = [&](uint64_t begin, uint64_t end, uint64_t bytes) {
              return heap.empty_place(begin, end, bytes).value_or(1) / mib;
            };
            const bool found = place(0, 64 * mib, 2 * mib) == 2 && place(1, 64 * mib, 4 * mib) == 6 &&
                               place(3 * mib, 64 * mib, 2 * mib) == 6 && place(8 * mib, 10 * mib, 2 * mib) == 8 &&
                               !heap.empty_place(8 * mib + 1, 11 * mib, 2 * mib) &&
                               !heap.empty_place(0, 9 * mib, 4 * mib) && heap.place_bytes(2 * mib + 1) == 4 * mib;
            if (!found) return std::string("an empty place was not found, or one that is not empty");

            const mapped_files memory({8192, 4096});
            std::memset(memory.at, 7, 12288);
            const auto made = heap.fill(6 * mib, 20480, find_shared_mappings(memory.at, 12288));
            std::string text;
            for (const new_extent& e : made) text += fmt::format("{} ", e.place.bytes);
            char* const at = heap.at() + 6 * mib;
            at[0] = 1;
            at[12287] = 2;
            memory.at[4096] = 3;
            for (const char value : {memory.at[0], memory.at[12287], at[4096], at[1], at[12288]})
              text += fmt::format("{} ", +value);
            heap.remove(made[0].place);
            text += fmt::format("{} {}", +at[0], +memory.at[0]);
            return text == "8192 4096 8192 1 2 3 7 0 0 1" ? std::string() : text;
          }) == "");
}

TEST_CASE("memory of the program that does not fit leaves its place empty") {
  small_device device;
  heap_memory heap(device, 64 * mib, 1);
  const mapped_files memory({2 * mib});
  const shareable_memory found = find_shared_mappings(memory.at, 1);
  CHECK_THROWS_WITH(heap.fill(0, 40 * mib, found), contains_text("10485760 bytes are left"));
  CHECK(heap.committed() == 2 * mib);
  CHECK(heap.empty_place(0, 64 * mib, 64 * mib) == 0);
}

namespace {
/// Makes an exchange of `n` parties in as many threads. Returns the contents that each has got.
std::vector<std::string> pass_on(uint32_t n, int rounds,
                                 const std::function<void(uint32_t, std::vector<new_extent>&)>& change) {
  std::vector<std::unique_ptr<extent_exchange>> all;
  for (uint32_t pe = 0; pe < n; ++pe) all.push_back(std::make_unique<extent_exchange>(pe, 2));
  std::vector<std::string> got(n);
  std::barrier all_here(n);  // stands for the collective between two exchanges
  std::vector<std::thread> threads;
  for (uint32_t pe = 0; pe < n; ++pe)
    threads.emplace_back([&, pe] {
      std::vector<extent_exchange::party> others;
      for (uint32_t other = 0; other < n; ++other)
        if (other != pe) others.push_back({other, all[other]->name()});
      for (int round = 0; round < rounds; ++round) {
        all_here.arrive_and_wait();
        std::vector<new_extent> mine;
        for (uint64_t i = 0; i < 2; ++i) {
          owned_descriptor memory = make_sealed("test", "the test's memory", 4096);
          const auto written = pwrite(memory.get(), &pe, sizeof(pe), 0);
          if (written != sizeof(pe)) got[pe] += "unwritten";
          mine.push_back({{i * 2 * mib, 2 * mib}, std::move(memory)});
        }
        change(pe, mine);
        got[pe] += text_of_error([&] {
          for (const auto& theirs : all[pe]->exchange(others, mine))
            for (const new_extent& one : theirs) {
              uint32_t from = 99;
              if (pread(one.memory.descriptor.get(), &from, sizeof(from), 0) != sizeof(from)) fail("error: unreadable");
              got[pe] += fmt::format("{} ", from);
            }
          got[pe] += "; ";
        });
      }
    });
  for (std::thread& t : threads) t.join();
  return got;
}
}  // namespace

TEST_CASE("all parties get the descriptors of all others, again and again") {
  const auto got = pass_on(3, 3, [](uint32_t, std::vector<new_extent>&) {});
  CHECK(got[0] == "1 1 2 2 ; 1 1 2 2 ; 1 1 2 2 ; ");
  CHECK(got[1] == "0 0 2 2 ; 0 0 2 2 ; 0 0 2 2 ; ");
  CHECK(got[2] == "0 0 1 1 ; 0 0 1 1 ; 0 0 1 1 ; ");
}

TEST_CASE("the extents of parties may be divided in different ways, if they cover the same places") {
  const auto got = pass_on(3, 2, [](uint32_t pe, std::vector<new_extent>& mine) {
    if (pe != 1) return;
    mine.erase(mine.begin());
    mine[0].place = {0, 4 * mib};
  });
  CHECK(got[0] == "1 2 2 ; 1 2 2 ; ");
  CHECK(got[1] == "0 0 2 2 ; 0 0 2 2 ; ");
}

TEST_CASE("fabric handles travel in a message of their own") {
  std::vector<new_extent> mine(2);
  for (uint64_t i = 0; i < 2; ++i) {
    mine[i].place = {i * 2 * mib, 2 * mib};
    mine[i].memory.fabric = fmt::format("of {}", i) + std::string(memory_handle::fabric_bytes - 4, '\0');
  }
  const auto came = from_wire<fabric_extents>(to_wire(fabric_extents::of(mine)), "PE 3").extents();
  REQUIRE(came.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(came[i].place == mine[i].place);
    CHECK(came[i].memory.fabric == mine[i].memory.fabric);
  }
  check_places(3, came, mine);
  mine[1].place.begin += mib;
  CHECK_THROWS_WITH(check_places(3, came, mine), contains_text("PE 3 passed on 4194304 bytes at offset 0x0, here"));
  fabric_extents cut = fabric_extents::of(came);
  cut.all[1].handle.pop_back();
  CHECK_THROWS_WITH(from_wire<fabric_extents>(to_wire(cut), "PE 3"), contains_text("63 for the length of handle"));
}

TEST_CASE("a fabric handle of the CPU backend maps the memory as long as the extent is there") {
  CHECK(with_routes("peer", [] {
          setenv("GRAVEL_HANDLE_TYPE", "fabric", 1);
          cpu owner, other;
          owner.open(0, 2);
          other.open(1, 2);
          if (!owner.shares_by_fabric()) return std::string("no fabric handles");
          char* const at = owner.reserve(4 * mib, "the test's memory");
          char* const there = other.reserve(4 * mib, "the test's memory");
          const memory_handle handle = owner.commit(at, 2 * mib, "the test's memory", place::device);
          if (handle.descriptor || handle.fabric.size() != memory_handle::fabric_bytes) return std::string("no handle");
          const auto copy = [&] {
            memory_handle one;
            one.fabric = handle.fabric;
            return one;
          };
          other.map_extent(there, 2 * mib, copy());
          there[5] = 9;
          if (at[5] != 9) return std::string("the memory differs");
          owner.decommit(at, 2 * mib);
          return text_of_error([&] { other.map_extent(there + 2 * mib, 2 * mib, copy()); });
        }).starts_with("the memory of another PE: /proc/"));
}

namespace {
/// Chooses among handles of which those with a text are refused with it.
handle_choice choose(const std::string& wanted, const std::string& no_descriptors, const std::string& no_fabric,
                     bool beyond_host = false) {
  return choose_handles(wanted, beyond_host,
                        [&](handle_kind kind) { return kind == handle_kind::fabric ? no_fabric : no_descriptors; });
}
}  // namespace

TEST_CASE("the kind of handles: what is wanted, else what the driver permits") {
  const std::string forbidden = "operation not permitted", old = "too old";
  CHECK(choose("auto", "", "").kind == handle_kind::descriptor);
  CHECK(choose("auto", "", forbidden).kind == handle_kind::descriptor);
  CHECK(describe(choose("auto", "", forbidden)) == "shared by POSIX file descriptors");
  CHECK(choose("auto", old, "").kind == handle_kind::fabric);
  CHECK_FALSE(choose("auto", old, forbidden).kind);
  CHECK(describe(choose("auto", old, forbidden)) ==
        "shared by cudaIpc: POSIX file descriptors: too old; fabric handles: operation not permitted");
  CHECK(choose("descriptor", "", forbidden).kind == handle_kind::descriptor);
  CHECK(choose("fabric", old, "").kind == handle_kind::fabric);
  CHECK_FALSE(choose("ipc", "", "").kind);
  CHECK_THROWS_WITH(choose("fabric", "", forbidden),
                    contains_text("GRAVEL_HANDLE_TYPE=fabric: operation not permitted"));
  CHECK_THROWS_WITH(choose("descriptor", old, ""), contains_text("GRAVEL_HANDLE_TYPE=descriptor: too old"));
  // Fabric handles come first where they reach other hosts.
  CHECK(choose("auto", "", "", true).kind == handle_kind::fabric);
  CHECK(choose("descriptor", "", "", true).kind == handle_kind::descriptor);
  CHECK(choose("auto", "", forbidden, true).kind == handle_kind::descriptor);
  CHECK(describe(choose("auto", "", forbidden, true)) ==
        "shared by POSIX file descriptors; fabric handles: operation not permitted");
  CHECK_FALSE(choose("auto", old, forbidden, true).kind);
  // Otherwise nothing is tried that may fail, where descriptors work.
  choose_handles("auto", false, [](handle_kind kind) {
    CHECK(kind == handle_kind::descriptor);
    return std::string();
  });
}

TEST_CASE("an exchange of other extents, or of fewer, is an error that names the PE") {
  const auto differs = pass_on(2, 1, [](uint32_t pe, std::vector<new_extent>& mine) {
    if (pe == 1) mine[1].place.begin += 2 * mib;
  });
  CHECK_THAT(differs[0], contains_text("PE 1 passed on 2097152 bytes at offset 0x0, here 4194304 bytes"));
  const auto fewer = pass_on(2, 1, [](uint32_t pe, std::vector<new_extent>& mine) {
    if (pe == 1) mine.pop_back();
  });
  CHECK_THAT(fewer[0], contains_text("PE 1 passed on 2097152 bytes at offset 0x0"));
  CHECK_THAT(fewer[1], contains_text("PE 0 passed on 4194304 bytes at offset 0x0"));
}

TEST_CASE("what is left of an exchange that has failed does not disturb the next one") {
  extent_exchange here(0, 1), there(1, 1);
  const auto exchange = [](extent_exchange& one, uint32_t pe, const std::string& name) {
    std::vector<new_extent> mine;
    mine.push_back({{0, 4096}, make_sealed("test", "the test's memory", 4096)});
    return text_of_error([&] { one.exchange({{pe, name}}, mine); });
  };
  CHECK_THAT(exchange(here, 1, "gravel-node-absent"), contains_text("passing memory on to PE 1"));
  CHECK_THAT(exchange(there, 0, here.name()), contains_text("within 1 s"));  // `here` does not receive what it has sent
  std::string theirs;
  std::thread other([&] { theirs = exchange(there, 0, here.name()); });
  const std::string mine = exchange(here, 1, there.name());
  other.join();
  CHECK(mine == "");
  CHECK(theirs == "");
}

TEST_CASE("a PE that passes nothing on is an error after a while") {
  extent_exchange here(0, 1), silent(1, 1);
  std::vector<new_extent> mine;
  mine.push_back({{0, 4096}, make_sealed("test", "the test's memory", 4096)});
  CHECK_THROWS_WITH(here.exchange({{1, silent.name()}}, mine),
                    contains_text("another PE of the host has not passed on its memory within 1 s"));
  CHECK_THROWS_WITH(here.exchange({{1, "gravel-node-absent"}}, mine),
                    contains_text("passing memory on to PE 1: connecting to the node's socket"));
}
