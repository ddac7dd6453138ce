#include "host/node/segment.hpp"

#include <fmt/format.h>
#include <array>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t segment_magic = 0x31746e656d676573;  // "segment1"
constexpr uint64_t page = 4096;
uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/// Offsets of the parts of a segment.
struct segment_layout {
  uint64_t landing_at, control_at;
  std::array<uint64_t, 2> collective_at;  ///< in, out
  std::array<uint64_t, n_queue_kinds> queue_at;
  std::array<uint64_t, 2> done_at;
  uint64_t messages_at;
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
    for (auto& where : done_at)
      where = std::exchange(at, round_up(at + s.landing().n_slots() * sizeof(uint64_t), page));
    messages_at = at;
    bytes = at + s.n_planes * s.bytes_of_messages();
  }
};

}  // namespace

const char* name_of(queue_kind kind) {
  static constexpr const char* names[] = {"warp queue", "block queue", "host queue", "device handlers' queue",
                                          "host handlers' queue"};
  return names[static_cast<uint32_t>(kind)];
}

queue_shape segment_shape::queue_shape_of(uint32_t kind) const {
  if (kind == static_cast<uint32_t>(queue_kind::kernel_block))
    return queue_shape::of_blocks(slots, slot_size, n_pes, n_planes);
  return queue_shape::of_warps(warp_slots, n_planes);
}

const char* segment_shape::difference(const segment_shape& other) const {
  if (packet_size != other.packet_size) return "packet_size";
  if (packets != other.packets) return "packets";
  if (streams != other.streams) return "streams";
  if (n_planes != other.n_planes) return "n_planes";
  if (n_pes != other.n_pes) return "n_pes";
  if (slot_size != other.slot_size) return "slot_size";
  if (slots != other.slots) return "slots";
  if (warp_slots != other.warp_slots) return "warp_slots";
  return *this == other ? nullptr : "spare";
}

uint64_t segment_shape::bytes_of_messages() const { return round_up(n_pes * sizeof(uint64_t), page); }
uint64_t segment_shape::landing_bytes() const { return round_up(landing().bytes(), page); }

segment_shape make_segment_shape(const settings& s, const topology& t, uint32_t node) {
  segment_shape shape{};
  shape.packet_size = s.packet_size;
  shape.packets = static_cast<uint32_t>(s.packets_per_destination);
  shape.n_planes = static_cast<uint32_t>(s.aggregator_threads);
  shape.streams = static_cast<uint32_t>(t.sources_of(node).size() * s.aggregator_threads);
  shape.n_pes = t.n_pes();
  shape.slot_size = static_cast<uint32_t>(s.slot_size);
  shape.slots = static_cast<uint32_t>(s.slots);
  shape.warp_slots = static_cast<uint32_t>(s.warp_slots);
  return shape;
}

uint64_t pe_segment::bytes_of(const segment_shape& shape) { return segment_layout(shape).bytes; }

static std::string name_of_segment(uint32_t pe) { return fmt::format("the segment of PE {}", pe); }
static constexpr const char* size_settings =
    " (GRAVEL_WARP_SLOTS, GRAVEL_SLOTS, GRAVEL_SLOT_SIZE, GRAVEL_PACKETS_PER_DESTINATION, GRAVEL_PACKET_SIZE)";

pe_segment pe_segment::create(const segment_shape& shape, uint32_t pe) {
  pe_segment made(sealed_memory("gravel-segment", name_of_segment(pe) + size_settings, bytes_of(shape)), shape, pe);
  made.control()->magic = segment_magic;
  return made;
}

pe_segment pe_segment::attach(owned_descriptor file, const segment_shape& shape, uint32_t pe) {
  pe_segment made(sealed_memory(std::move(file), name_of_segment(pe), bytes_of(shape)), shape, pe);
  if (made.control()->magic != segment_magic) fail("{} is not one of this version of Gravel", name_of_segment(pe));
  return made;
}

pe_segment::pe_segment(sealed_memory memory, const segment_shape& shape, uint32_t pe)
    : memory_(std::move(memory)),
      shape_(shape),
      pe_(pe),
      control_(reinterpret_cast<pe_control*>(base() + segment_layout(shape_).control_at)) {}

queue pe_segment::queue_of(uint32_t kind) const {
  return queue::in(base() + segment_layout(shape_).queue_at[kind], nullptr, shape_.queue_shape_of(kind));
}

landing pe_segment::landing_of(sink_kind kind) const {
  const segment_layout layout(shape_);
  const auto k = static_cast<uint32_t>(kind);
  return {base() + layout.landing_at + k * shape_.landing_bytes(),
          reinterpret_cast<uint64_t*>(base() + layout.done_at[k]),
          &control()->arrivals[k].packets,
          shape_.streams,
          shape_.packets,
          shape_.packet_size,
          sink_of(pe_, kind),
          shape_.n_pes * 2};
}

std::span<uint64_t> pe_segment::messages_taken_by(uint32_t plane) const {
  char* const at = base() + segment_layout(shape_).messages_at + plane * shape_.bytes_of_messages();
  return {reinterpret_cast<uint64_t*>(at), shape_.n_pes};
}

std::span<std::byte> pe_segment::collective_in_data() const {
  return {reinterpret_cast<std::byte*>(base() + segment_layout(shape_).collective_at[0]), shape_.collective_bytes()};
}
std::span<std::byte> pe_segment::collective_out_data() const {
  return {reinterpret_cast<std::byte*>(base() + segment_layout(shape_).collective_at[1]), shape_.collective_bytes()};
}

std::span<std::byte> pe_segment::landing_memory() const {
  const segment_layout layout(shape_);
  return {reinterpret_cast<std::byte*>(base() + layout.landing_at), 2 * shape_.landing_bytes()};
}

}  // namespace gravel::detail
