#include "host/pe/symmetric_heap.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/node/sealed_memory.hpp"
#include "host/pe/backend_cpu.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

using cpu = cpu_backend<handler_list<>>;

/// One PE's heap, beside others that contribute what the test says.
struct one_heap {
  static constexpr uint64_t bytes = 16 << 20;
  one_heap(uint32_t local_size = 1) { device.open(0, local_size); }
  cpu device;
  heap_memory memory{device, bytes, 1};
  char* base = memory.at();
  std::vector<extent> shared, forgotten;
  collective_words others{};
  uint64_t largest = 0;  ///< of all PEs' ranges, for the next collective
  std::vector<std::pair<collective_kind, uint64_t>> calls;
  symmetric_heap heap{device,
                      memory,
                      bytes,
                      3,
                      [this](collective_kind kind, uint64_t argument, const collective_words& mine) {
                        calls.emplace_back(kind, argument);
                        collective_words all = mine;
                        for (int i = 0; i < 2; ++i) all.sum[i] += others.sum[i];
                        if (others.most) all.most = others.most;
                        if (largest) all.most = std::exchange(largest, 0);
                        return all;
                      },
                      {[this](std::span<const new_extent> extents) {
                         for (const new_extent& e : extents) shared.push_back(e.place);
                         if (unshared) fail("{}", unshared);
                       },
                       [this](const extent& range) { forgotten.push_back(range); }}};
  const char* unshared = nullptr;  ///< why nothing can be shared

  uint64_t resident() const {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> state(bytes / page);
    REQUIRE(mincore(base, bytes, state.data()) == 0);
    uint64_t pages = 0;
    for (unsigned char s : state) pages += s & 1;
    return pages * page;
  }
};

}  // namespace

TEST_CASE("an object is zero, also where another was before, and costs no memory until it is touched") {
  one_heap h;
  char* first = static_cast<char*>(h.heap.allocate(4 << 20));
  CHECK(first == h.base);
  CHECK(h.resident() == 0);
  char* small = static_cast<char*>(h.heap.allocate(1000));
  CHECK(h.resident() == 0);
  std::memset(first, 1, 4 << 20);
  std::memset(small, 2, 1024);
  h.heap.release(first);
  // It begins and ends in the middle of pages that others use.
  CHECK(h.heap.allocate(256) == first);
  std::memset(first, 3, 256);
  char* again = static_cast<char*>(h.heap.allocate((4 << 20) - 256));
  CHECK(again == first + 256);
  CHECK(std::string_view(again, (4 << 20) - 256).find_first_not_of('\0') == std::string_view::npos);
  CHECK(std::string_view(first, 256).find_first_not_of('\3') == std::string_view::npos);
  CHECK(std::string_view(small, 1000).find_first_not_of('\2') == std::string_view::npos);
  // Partly used before, partly never.
  h.heap.release(small);
  char* over = static_cast<char*>(h.heap.allocate(8 << 20));
  CHECK(over == small);
  CHECK(std::string_view(over, 8 << 20).find_first_not_of('\0') == std::string_view::npos);
}

TEST_CASE("an allocation that fails at another PE is undone here") {
  one_heap h;
  h.others.sum[0] = 1;
  h.others.sum[1] = 5;
  CHECK_THROWS_WITH(h.heap.allocate(100), "gravel_malloc: 100 bytes do not fit at PE 5");
  h.others.sum[0] = 2;
  CHECK_THROWS_WITH(h.heap.allocate(100), "gravel_malloc: 100 bytes do not fit at 2 PEs");
  h.others = {};
  CHECK_THROWS_WITH(h.heap.allocate(17 << 20),
                    contains_text("the largest free piece of the symmetric heap has 16 MiB (16777216 bytes)"));
  h.others.most = 0x1000;
  CHECK_THROWS_WITH(
      h.heap.allocate(100),
      contains_text("the symmetric heaps differ: 100 bytes would lie at offsets 0x0 to 0x1000, here at 0x0"));
  h.others = {};
  CHECK(h.heap.allocate(16 << 20) == h.base);  // nothing was lost
  CHECK(h.calls.size() == 6);                  // the last one has two steps, since it needs extents
}

TEST_CASE("more in use than the host has for each of its PEs is refused") {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
                 pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  one_heap h(static_cast<uint32_t>(pages * page / (4 << 20)));  // 4 MiB for each
  void* first = h.heap.allocate(3 << 20);
  CHECK_THROWS_WITH(h.heap.allocate(2 << 20),
                    contains_text("2 MiB (2097152 bytes) do not fit: 5 MiB (5242880 bytes) would be in use"));
  h.heap.release(first);
  CHECK(h.heap.allocate(2 << 20) == first);
}

TEST_CASE("an address that is no object is not released, and the error says why") {
  one_heap h;
  char* object = static_cast<char*>(h.heap.allocate(512));
  int here = 0;
  h.calls.clear();
  CHECK_THROWS_WITH(h.heap.release(&here), contains_text("is not in the symmetric heap"));
  CHECK_THROWS_WITH(h.heap.release(h.base + one_heap::bytes), contains_text("is not in the symmetric heap"));
  CHECK_THROWS_WITH(h.heap.release(object + 8), contains_text("lies 8 bytes inside an object"));
  CHECK_THROWS_WITH(h.heap.release(object + 512), contains_text("was never returned by gravel_malloc"));
  CHECK(h.calls.empty());
  h.heap.release(nullptr);
  h.heap.release(object);
  CHECK(h.calls ==
        std::vector{std::pair{collective_kind::release, no_object}, {collective_kind::release, uint64_t{0}}});
  CHECK_THROWS_WITH(h.heap.release(object), contains_text("is free already"));
}

TEST_CASE("memory of the program gets a place in the heap, and leaves it again") {
  one_heap h;
  const sealed_memory memory("test", "the test's memory", 3 << 20);
  void* const object = h.heap.allocate(1000);  // its extent is [0, 2) MiB
  h.calls.clear();
  h.shared.clear();
  char* const at = static_cast<char*>(h.heap.register_range(memory.at() + 100, 5000));
  CHECK(at == h.base + (2 << 20) + 100);
  CHECK(h.calls == std::vector(3, std::pair{collective_kind::register_range, uint64_t{0}}));
  CHECK(h.shared == std::vector{extent{2 << 20, 3 << 20}});
  at[7] = 1;
  CHECK(memory.at()[107] == 1);
  // Two places for one memory.
  char* const second = static_cast<char*>(h.heap.register_range(memory.at(), 3 << 20));
  CHECK(second == h.base + (6 << 20));
  CHECK(second[107] == 1);
  // Objects lie between them, and behind.
  CHECK(h.heap.allocate(2 << 20) == h.base + (10 << 20));
  CHECK(h.heap.allocate((2 << 20) - 1024) == h.base + 1024);

  CHECK_THROWS_WITH(h.heap.release(at), contains_text("pass its symmetric address to gravel_unregister"));
  CHECK_THROWS_WITH(h.heap.unregister_range(at + 1), contains_text("no address that gravel_register has returned"));
  CHECK_THROWS_WITH(h.heap.unregister_range(object), contains_text("no address that gravel_register has returned"));
  CHECK_THROWS_WITH(h.heap.unregister_range(nullptr), contains_text("no address that gravel_register has returned"));
  h.calls.clear();
  h.forgotten.clear();
  h.heap.unregister_range(at);
  CHECK(h.calls == std::vector{std::pair{collective_kind::unregister_range, uint64_t{(2 << 20) + 100}}});
  CHECK(h.forgotten == std::vector{extent{2 << 20, 4 << 20}});
  CHECK(at[7] == 0);
  CHECK(memory.at()[107] == 1);
  CHECK_THROWS_WITH(h.heap.unregister_range(at), contains_text("no address that gravel_register has returned"));
  CHECK(h.heap.register_range(memory.at() + 200, 1) == h.base + (2 << 20) + 200);
}

TEST_CASE("ordinary memory lies behind a range that is shorter than that of another PE") {
  one_heap h;
  const sealed_memory memory("test", "the test's memory", 1 << 20);
  h.largest = 3 << 20;
  char* const at = static_cast<char*>(h.heap.register_range(memory.at(), 1000));
  CHECK(h.shared == std::vector{extent{0, 1 << 20}, extent{1 << 20, 2 << 20}});
  at[0] = 1;
  at[(3 << 20) - 1] = 2;
  CHECK(memory.at()[0] == 1);
  h.heap.unregister_range(at);
  CHECK(h.memory.committed() == 2 << 20);  // the tail
  CHECK(h.heap.allocate(16 << 20) == h.base);
}

TEST_CASE("a range must lie equally far behind the begin of its allocation at all PEs") {
  one_heap h;
  const sealed_memory memory("test", "the test's memory", 1 << 20);
  h.largest = 1 << 20;
  h.others.most = 5000;  // the offset of the other one
  CHECK_THROWS_WITH(h.heap.register_range(memory.at() + 4096, 1000), contains_text("it is 4096 to 5000 bytes"));
  CHECK(h.memory.committed() == 2 << 20);
}

namespace {
class fixed_device : public cpu {
 public:
  uint64_t granule() const override { return 0; }
  std::string why_fixed() const override { return "of the test"; }
};
}  // namespace

TEST_CASE("a heap of a fixed size takes no memory of the program, and says why") {
  fixed_device device;
  heap_memory memory(device, 1 << 20, 1);
  const auto alone = [](collective_kind, uint64_t, const collective_words& mine) { return mine; };
  symmetric_heap heap(device, memory, 1 << 20, 0, alone, {});
  const sealed_memory other("test", "the test's memory", 1 << 20);
  CHECK_THROWS_WITH(heap.register_range(other.at(), 4),
                    "gravel_register: the symmetric heap has a fixed size here: of the test");
  CHECK_THROWS_WITH(heap.allocate(4, place::host),
                    contains_text("needs a symmetric heap that grows, and it has a fixed size here: of the test"));
}

namespace {
/// Notes which extents are memory of the host.
class noting_device : public cpu {
 public:
  memory_handle commit(char* at, uint64_t bytes, const char* what, place where) override {
    places.emplace_back(bytes, where);
    return cpu::commit(at, bytes, what, where);
  }
  std::vector<std::pair<uint64_t, place>> places;
};
}  // namespace

TEST_CASE("memory of the host has extents of its own") {
  noting_device device;
  heap_memory memory(device, 16 << 20, 1);
  const auto alone = [](collective_kind, uint64_t, const collective_words& mine) { return mine; };
  symmetric_heap heap(device, memory, 16 << 20, 0, alone, {[](std::span<const new_extent>) {}, [](const extent&) {}});
  device.places.clear();
  char* const small = static_cast<char*>(heap.allocate(100));
  char* const on_host = static_cast<char*>(heap.allocate(100, place::host));
  CHECK(small == memory.at());
  CHECK(on_host == memory.at() + (2 << 20));  // not in the extent of the small object, which has room
  CHECK(heap.allocate(100) == memory.at() + 256);
  using noted = std::vector<std::pair<uint64_t, place>>;
  CHECK(device.places == noted{{2 << 20, place::device}, {2 << 20, place::host}});
  CHECK_THROWS_WITH(heap.allocate(13 << 20, place::host), contains_text("has no place for 14 MiB"));
  heap.release(on_host);
  CHECK(heap.allocate(3 << 20) == memory.at() + 512);  // its memory is gone, and is of the device again
  CHECK(device.places.back() == std::pair<uint64_t, place>{2 << 20, place::device});
}

TEST_CASE("memory of the program that one PE refuses is registered nowhere") {
  one_heap h;
  const sealed_memory memory("test", "the test's memory", 3 << 20);
  const auto registered = [&](const void* at, uint64_t bytes) { return h.heap.register_range(at, bytes); };
  int local = 0;
  CHECK_THROWS_WITH(registered(&local, 4), contains_text("gravel_register: ") && contains_text("in two ways"));
  CHECK_THROWS_WITH(registered(h.base + one_heap::bytes - 1, 4), contains_text("lies in the symmetric heap already"));
  CHECK_THROWS_WITH(registered(h.base - 1, 4), contains_text("lies in the symmetric heap already"));
  CHECK_THROWS_WITH(registered(nullptr, 0), contains_text("all PEs have passed 0 bytes"));
  CHECK_THROWS_WITH(registered(memory.at(), ~0ull), contains_text("more than a device has"));
  CHECK(h.calls.size() == 5);
  h.others.sum[0] = 1;
  h.others.sum[1] = 5;
  CHECK_THROWS_WITH(
      registered(memory.at(), 4),
      contains_text("the memory of PE 5 cannot be mapped by other PEs. Memory becomes a destination in "));
  h.others.sum[0] = 2;
  CHECK_THROWS_WITH(registered(memory.at(), 4), contains_text("the memory of 2 PEs cannot be mapped by other PEs"));
  CHECK(h.shared.empty());
  h.others = {};
  h.unshared = "no descriptors are left";
  CHECK_THROWS_WITH(registered(memory.at(), 4), "gravel_register: no descriptors are left");
  h.unshared = nullptr;
  CHECK(h.forgotten == std::vector{extent{0, 4 << 20}});
  h.heap.allocate(13 << 20);
  CHECK_THROWS_WITH(registered(memory.at(), 4), contains_text("has no place for 4 MiB (4194304 bytes) in a piece"));
  CHECK_THROWS_WITH(h.heap.allocate(4 << 20), contains_text("do not fit"));
  h.heap.release(h.base);
  CHECK(registered(memory.at(), 4) == h.base);
  CHECK(h.memory.committed() == (3 << 20) + (2 << 20));  // and the tail
}
