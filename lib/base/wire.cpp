#include "lib/base/wire.hpp"

#include <algorithm>
#include <iterator>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

constexpr uint32_t magic = 0x4c565247;  // "GRVL", on little-endian machines

constexpr const char* names[] = {"nothing", GRAVEL_WIRE_KINDS(GRAVEL_TEXT)};

/// FNV-1a, but with 8 bytes at a time. Each step is one-to-one in the sum and in the word, so every single wrong word
/// is detected.
uint64_t add_to_checksum(uint64_t sum, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    sum = (sum ^ word) * 0x100000001b3u;
    sum ^= sum >> 32;
  }
  return sum;
}

uint64_t checksum_of(const wire_header& header, std::span<const std::byte> behind) {
  const uint64_t sum =
      add_to_checksum(0xcbf29ce484222325u, std::as_bytes(std::span(&header, 1)).first(offsetof(wire_header, checksum)));
  return add_to_checksum(sum, behind);
}

}  // namespace

const char* name_of(wire_kind kind) {
  return kind < wire_kind::count ? names[static_cast<size_t>(kind)] : "an unknown message";
}

wire_header read_wire_header(std::span<const std::byte> bytes, std::string_view from) {
  wire_header header;
  if (bytes.size() < sizeof(header)) fail("{}: a message is cut off ({} bytes)", from, bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != magic) fail("{}: received something that is not a message of Gravel", from);
  if (header.version != wire_version)
    fail("{}: speaks version {} of Gravel's messages, this process {}: all processes of a job must run the same Gravel",
         from, header.version, wire_version);
  return header;
}

wire_writer::wire_writer(wire_kind kind) : kind_(kind), bytes_(sizeof(wire_header)) {}

void wire_writer::append(const void* from, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(from);
  bytes_.insert(bytes_.end(), first, first + bytes);
}

std::vector<std::byte> wire_writer::finish() && {
  wire_header header{magic, wire_version, kind_, bytes_.size() - sizeof(wire_header), 0};
  header.checksum = checksum_of(header, std::span(bytes_).subspan(sizeof(header)));
  std::memcpy(bytes_.data(), &header, sizeof(header));
  return std::move(bytes_);
}

wire_reader::wire_reader(wire_kind kind, std::span<const std::byte> bytes, std::string_view from)
    : kind_(kind), from_(from) {
  const wire_header header = read_wire_header(bytes, from);
  if (header.kind != kind) fail("{}: sent '{}'; expected '{}'", from, name_of(header.kind), name_of(kind));
  rest_ = bytes.subspan(sizeof(header));
  if (header.bytes != rest_.size())
    fail("{}: '{}' has {} bytes where {} were announced", from, name_of(kind), rest_.size(), header.bytes);
  if (header.checksum != checksum_of(header, rest_)) fail("{}: '{}' is damaged (checksum)", from, name_of(kind));
}

void wire_check::refuse(const char* field, uint64_t value, uint64_t least, uint64_t most) const {
  fail("{}: '{}' says {} for {}, which can be {} to {}", from_, name_of(kind_), value, field, least, most);
}

void wire_check::refuse(const char* field, const char* what) const {
  fail("{}: '{}': {} {}", from_, name_of(kind_), field, what);
}

void wire_reader::expect(uint64_t n, uint64_t bytes_each) const {
  if (n > rest_.size() / bytes_each)
    fail("{}: '{}' is too short ({} times {} bytes announced, {} left)", from_, name_of(kind_), n, bytes_each,
         rest_.size());
}

const std::byte* wire_reader::take(uint64_t n, uint64_t bytes_each) {
  expect(n, bytes_each);
  const std::byte* const at = rest_.data();
  rest_ = rest_.subspan(n * bytes_each);
  return at;
}

uint64_t wire_reader::size() {
  uint64_t n;
  get(n);
  return n;
}

bool wire_reader::truth() {
  uint8_t value;
  get(value);
  if (value > 1) fail("{}: '{}' has {}; expected 0 or 1", from_, name_of(kind_), value);
  return value != 0;
}

void wire_reader::finish() const {
  if (!rest_.empty()) fail("{}: '{}' is too long by {} bytes", from_, name_of(kind_), rest_.size());
}

}  // namespace gravel::detail
