#include "transport/ucx_blob.hpp"

#include <ucp/api/ucp.h>

#include <cstring>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

constexpr uint32_t magic = 0x58435547;  // "GUCX"

struct frame {
  uint32_t magic;
  ucx_blob_kind kind;
  uint32_t ucx_release;  // major * 1000 + minor
  uint32_t bytes;        // of the payload
  uint64_t checksum;     // of the fields above and the payload
};
static_assert(sizeof(frame) == 24);

uint32_t ucx_release() {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  return major * 1000 + minor;
}

// FNV-1a: meant against cut and mixed-up strings, not against an attacker.
uint64_t add_to_checksum(uint64_t sum, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i)
    sum = (sum ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3u;
  return sum;
}

uint64_t checksum(const frame& head, std::span<const std::byte> payload) {
  const uint64_t sum = add_to_checksum(0xcbf29ce484222325u, &head, offsetof(frame, checksum));
  return add_to_checksum(sum, payload.data(), payload.size());
}

const char* name_of(ucx_blob_kind kind) {
  return kind == ucx_blob_kind::worker_address ? "UCX address" : "UCX memory key";
}

}  // namespace

std::vector<std::byte> pack_ucx_blob(ucx_blob_kind kind, std::span<const std::byte> payload) {
  frame head{magic, kind, ucx_release(), static_cast<uint32_t>(payload.size()), 0};
  head.checksum = checksum(head, payload);
  std::vector<std::byte> blob(sizeof head + payload.size());
  std::memcpy(blob.data(), &head, sizeof head);
  if (!payload.empty()) std::memcpy(blob.data() + sizeof head, payload.data(), payload.size());
  return blob;
}

std::span<const std::byte> unpack_ucx_blob(ucx_blob_kind kind, std::span<const std::byte> blob,
                                           const std::string& owner) {
  frame head;
  if (blob.size() < sizeof head) fail("{} of {}: cut off ({} bytes)", name_of(kind), owner, blob.size());
  std::memcpy(&head, blob.data(), sizeof head);
  if (head.magic != magic || head.kind != kind)
    fail("{} of {}: these {} bytes are something else", name_of(kind), owner, blob.size());
  const auto payload = blob.subspan(sizeof head);
  if (head.bytes != payload.size())
    fail("{} of {}: {} bytes where {} were announced", name_of(kind), owner, payload.size(), head.bytes);
  if (head.checksum != checksum(head, payload)) fail("{} of {}: damaged (checksum)", name_of(kind), owner);
  if (head.ucx_release != ucx_release())
    fail(
        "{} of {}: made by UCX {}.{}, but this process runs UCX {}.{}; install one release of UCX on all "
        "nodes",
        name_of(kind), owner, head.ucx_release / 1000, head.ucx_release % 1000, ucx_release() / 1000,
        ucx_release() % 1000);
  return payload;
}

}  // namespace gravel
