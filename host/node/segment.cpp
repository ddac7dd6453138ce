#include "host/node/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

constexpr uint64_t segment_magic = 0x31746e656d676573;  // "segment1"
constexpr uint64_t page = 4096;
/// Nobody may change its size under the other process's mapping.
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/// Offsets of the parts of a segment.
struct segment_layout {
  uint64_t landing_at, control_at;
  std::array<uint64_t, 2> collective_at;  ///< in, out
  std::array<uint64_t, n_queue_kinds> queue_at;
  std::array<uint64_t, 2> done_at;
  uint64_t bytes;

  explicit segment_layout(const segment_shape& s) {
    landing_at = 0;
    control_at = 2 * s.landing_bytes();
    uint64_t at = control_at + round_up(sizeof(pe_control), page);
    for (auto& where : collective_at) where = std::exchange(at, round_up(at + s.collective_bytes(), page));
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      queue_at[kind] = at;
      at = round_up(at + s.queue_shape_of(kind).bytes(), page);
    }
    for (auto& where : done_at) where = std::exchange(at, round_up(at + s.landing().n_slots() * sizeof(uint64_t), page));
    bytes = at;
  }
};

}  // namespace

const char* name_of(queue_kind kind) {
  static constexpr const char* names[] = {"warp queue", "block queue", "host queue", "device handlers' queue", "host handlers' queue"};
  return names[static_cast<uint32_t>(kind)];
}

queue_shape segment_shape::queue_shape_of(uint32_t kind) const {
  if (kind == static_cast<uint32_t>(queue_kind::kernel_block)) return queue_shape::of_blocks(slots, slot_size, n_pes, n_planes);
  return queue_shape::of_warps(warp_slots, n_planes);
}

uint64_t segment_shape::landing_bytes() const { return round_up(landing().bytes(), page); }

segment_shape make_segment_shape(const settings& s, const topology& t, uint32_t node) {
  segment_shape shape{};
  shape.packet_size = s.packet_size;
  shape.packets = static_cast<uint32_t>(s.packets_per_destination);
  shape.n_planes = static_cast<uint32_t>(s.aggregator_threads);
  shape.channels = static_cast<uint32_t>(t.sources_of(node).size() * s.aggregator_threads);
  shape.n_pes = t.n_pes();
  shape.slot_size = static_cast<uint32_t>(s.slot_size);
  shape.slots = static_cast<uint32_t>(s.slots);
  shape.warp_slots = static_cast<uint32_t>(s.warp_slots);
  return shape;
}

uint64_t pe_segment::bytes_of(const segment_shape& shape) { return segment_layout(shape).bytes; }

pe_segment pe_segment::create(const segment_shape& shape, uint32_t pe) {
  const int descriptor = memfd_create("gravel-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) fail_errno("memfd_create for the segment of PE " + std::to_string(pe));
  const uint64_t bytes = bytes_of(shape);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    fail_errno(fmt::format("a segment of {} bytes for PE {}", bytes, pe));
  }
  if (fcntl(descriptor, F_ADD_SEALS, size_seals) != 0) {
    close(descriptor);
    fail_errno(fmt::format("sealing the segment of PE {}", pe));
  }
  pe_segment made(descriptor, shape, pe);
  made.control()->magic = segment_magic;
  return made;
}

pe_segment pe_segment::attach(int descriptor, const segment_shape& shape, uint32_t pe) {
  struct stat status {};
  const uint64_t expected = bytes_of(shape);
  if (fstat(descriptor, &status) != 0 || static_cast<uint64_t>(status.st_size) != expected) {
    close(descriptor);
    fail("the segment of PE {} has {} bytes where {} were expected: do all processes have the same GRAVEL_* settings?", pe, status.st_size,
         expected);
  }
  if (const int seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & size_seals) != size_seals) {
    close(descriptor);
    fail("the segment of PE {} is not sealed against a change of its size: it was not made by Gravel", pe);
  }
  pe_segment made(descriptor, shape, pe);
  if (made.control()->magic != segment_magic) fail("the segment of PE {} is not one of this version of Gravel", pe);
  return made;
}

pe_segment::pe_segment(int descriptor, const segment_shape& shape, uint32_t pe)
    : descriptor_(descriptor), shape_(shape), pe_(pe), bytes_(bytes_of(shape)) {
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) {
    close(descriptor);
    fail_errno(fmt::format("mapping {} bytes for the segment of PE {}", bytes_, pe));
  }
  base_ = static_cast<char*>(at);
  control_ = reinterpret_cast<pe_control*>(base_ + segment_layout(shape_).control_at);
}

pe_segment::pe_segment(pe_segment&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      shape_(other.shape_),
      pe_(other.pe_),
      bytes_(other.bytes_),
      base_(std::exchange(other.base_, nullptr)),
      control_(other.control_) {}

pe_segment::~pe_segment() {
  if (base_) munmap(base_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

queue pe_segment::queue_of(uint32_t kind) const {
  return queue::in(base_ + segment_layout(shape_).queue_at[kind], nullptr, shape_.queue_shape_of(kind));
}

landing pe_segment::landing_of(sink_kind kind) const {
  const segment_layout layout(shape_);
  const auto k = static_cast<uint32_t>(kind);
  return {base_ + layout.landing_at + k * shape_.landing_bytes(),
          reinterpret_cast<uint64_t*>(base_ + layout.done_at[k]),
          &control()->arrivals[k].packets,
          shape_.channels,
          shape_.packets,
          shape_.packet_size,
          sink_of(pe_, kind),
          shape_.n_pes * 2};
}

std::span<std::byte> pe_segment::collective_in_data() const {
  return {reinterpret_cast<std::byte*>(base_ + segment_layout(shape_).collective_at[0]), shape_.collective_bytes()};
}
std::span<std::byte> pe_segment::collective_out_data() const {
  return {reinterpret_cast<std::byte*>(base_ + segment_layout(shape_).collective_at[1]), shape_.collective_bytes()};
}

std::span<std::byte> pe_segment::landing_memory() const {
  const segment_layout layout(shape_);
  return {reinterpret_cast<std::byte*>(base_ + layout.landing_at), 2 * shape_.landing_bytes()};
}

}  // namespace gravel
