#include "host/node/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

settings values() {
  settings s = read_settings([](const char*) { return nullptr; });
  s.packet_size = 4096;
  s.slots = 8;
  s.warp_slots = 16;
  s.aggregator_threads = 3;
  return s;
}
const topology three_nodes({0, 0, 1, 1, 2}, 32);
segment_shape shape() { return make_segment_shape(values(), three_nodes, 0); }

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) != -1; }

}  // namespace

TEST_CASE("the shape follows settings and topology") {
  const segment_shape s = shape();
  CHECK(s.packet_size == 4096);
  CHECK(s.packets == 3);
  CHECK(s.streams == 3 * 3);  // source nodes x planes
  CHECK(s.n_planes == 3);
  CHECK(s.n_pes == 5);
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue_shape q = s.queue_shape_of(kind);
    CHECK((q.slots & (q.slots - 1)) == 0);
    CHECK(q.max_rows % 8 == 0);
    CHECK(q.payload_units % 4 == 0);
    CHECK(q.n_planes == 3);
    CHECK(std::string(name_of(static_cast<queue_kind>(kind))).size() > 3);
  }
  CHECK(s.queue_shape_of(static_cast<uint32_t>(queue_kind::kernel_block)).payload_units ==
        values().slot_size / sizeof(unit) + queue_shape::head_units);
  CHECK(is_handler_queue(static_cast<uint32_t>(queue_kind::host_handler)));
  CHECK_FALSE(is_handler_queue(static_cast<uint32_t>(queue_kind::host)));
}

TEST_CASE("parts of a segment lie inside it, aligned, and do not overlap") {
  const pe_segment segment = pe_segment::create(shape(), 1);
  std::set<std::pair<const char*, const char*>> parts;
  const auto part = [&](const void* at, uint64_t bytes) {
    const char* from = static_cast<const char*>(at);
    CHECK(reinterpret_cast<uintptr_t>(from) % 64 == 0);
    CHECK(from >= segment.base());
    CHECK(from + bytes <= segment.base() + segment.bytes());
    for (const auto& [a, b] : parts) CHECK((from >= b || from + bytes <= a));
    parts.emplace(from, from + bytes);
  };
  part(segment.control(), sizeof(pe_control));
  for (const auto data : {segment.collective_in_data(), segment.collective_out_data()}) {
    CHECK(data.size() == 65536);
    part(data.data(), data.size());
  }
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment.queue_of(kind);
    CHECK(q.state == nullptr);
    part(q.control, sizeof(queue_control));
    part(q.slots, q.shape.slots * q.shape.slot_bytes());
    CHECK(reinterpret_cast<uintptr_t>(q.slots) % 128 == 0);
  }
  const auto memory = segment.landing_memory();
  CHECK(reinterpret_cast<char*>(memory.data()) == segment.base());
  for (sink_kind kind : {sink_kind::device, sink_kind::host}) {
    const landing ring = segment.landing_of(kind);
    CHECK(ring.sink == sink_of(1, kind));
    CHECK(ring.n_sinks == 10);
    CHECK(ring.arrivals == &segment.control()->arrivals[static_cast<int>(kind)].packets);
    part(ring.done, ring.streams * ring.packets * sizeof(uint64_t));
    part(ring.slots, ring.shape().bytes());
    CHECK(ring.slots >= reinterpret_cast<char*>(memory.data()));
    CHECK(ring.slots + ring.shape().bytes() <= reinterpret_cast<char*>(memory.data() + memory.size()));
  }
}

TEST_CASE("both sides see one memory, and it begins as zeros") {
  pe_segment mine = pe_segment::create(shape(), 4);
  CHECK(mine.control()->collective_in.sequence == 0);
  CHECK(mine.landing_of(sink_kind::device).done[0] == 0);
  const pe_segment theirs = pe_segment::attach(owned_descriptor(dup(mine.descriptor())), shape(), 4);
  CHECK(theirs.base() != mine.base());
  CHECK(theirs.bytes() == mine.bytes());
  mine.control()->collective_in.sum[2] = 77;
  CHECK(theirs.control()->collective_in.sum[2] == 77);
  theirs.landing_of(sink_kind::host).packet(0, 1)->magic = 99;
  CHECK(mine.landing_of(sink_kind::host).packet(0, 1)->magic == 99);
}

TEST_CASE("a segment cannot be shrunk under the other side's feet") {
  const pe_segment segment = pe_segment::create(shape(), 0);
  CHECK(ftruncate(segment.descriptor(), 4096) == -1);
  CHECK(errno == EPERM);
}

TEST_CASE("another shape is refused, and the descriptor closed") {
  const pe_segment segment = pe_segment::create(shape(), 0);
  for (int field = 0; field < 5; ++field) {
    segment_shape other = shape();
    switch (field) {
      case 0: other.packet_size *= 2; break;
      case 1: other.packets += 1; break;
      case 2: other.streams += 8; break;
      case 3: other.slots *= 2; break;
      default: other.warp_slots *= 2;
    }
    CHECK_FALSE(other == shape());
    const int copy = dup(segment.descriptor());
    CHECK_THROWS_WITH(pe_segment::attach(owned_descriptor(copy), other, 7),
                      contains_text("PE 7") && contains_text("GRAVEL_"));
    CHECK_FALSE(is_open(copy));
  }
}

TEST_CASE("a file that is no segment is refused") {
  const int file = memfd_create("not-a-segment", MFD_CLOEXEC);
  REQUIRE(ftruncate(file, static_cast<off_t>(pe_segment::bytes_of(shape()))) == 0);
  CHECK_THROWS_WITH(pe_segment::attach(owned_descriptor(file), shape(), 3), contains_text("PE 3"));
  CHECK_FALSE(is_open(file));
  const int sealed = memfd_create("not-a-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(sealed, static_cast<off_t>(pe_segment::bytes_of(shape()))) == 0);
  REQUIRE(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  CHECK_THROWS_WITH(pe_segment::attach(owned_descriptor(sealed), shape(), 3),
                    contains_text("PE 3") && contains_text("version"));
  CHECK_FALSE(is_open(sealed));
  const int pipe_end = [] {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    close(ends[1]);
    return ends[0];
  }();
  CHECK_THROWS_AS(pe_segment::attach(owned_descriptor(pipe_end), shape(), 3), error);
}

TEST_CASE("a segment whose size may still change is refused, and the descriptor closed") {
  const pe_segment segment = pe_segment::create(shape(), 0);
  for (int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW}) {
    const int file = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(ftruncate(file, static_cast<off_t>(segment.bytes())) == 0);
    const auto control_at = reinterpret_cast<char*>(segment.control()) - segment.base();
    REQUIRE(pwrite(file, segment.control(), 4096, control_at) == 4096);
    REQUIRE(fcntl(file, F_ADD_SEALS, seals) == 0);
    CHECK_THROWS_WITH(pe_segment::attach(owned_descriptor(file), shape(), 3),
                      contains_text("PE 3") && contains_text("sealed"));
    CHECK_FALSE(is_open(file));
  }
}

TEST_CASE("a moved segment is unmapped and closed once") {
  int descriptor;
  {
    pe_segment a = pe_segment::create(shape(), 0);
    descriptor = a.descriptor();
    char* base = a.base();
    pe_segment b(std::move(a));
    CHECK(b.base() == base);
    CHECK(b.descriptor() == descriptor);
    CHECK(is_open(descriptor));
  }
  CHECK_FALSE(is_open(descriptor));
}

TEST_CASE("a segment too large for this machine is refused with its size") {
  segment_shape s = shape();
  s.streams = 1u << 31;
  s.packets = 1024;
  s.packet_size = 1 << 20;
  CHECK_THROWS_WITH(pe_segment::create(s, 2), contains_text("PE 2"));
}
