#include "transport/ucx_wire.hpp"

#include "lib/base/error.hpp"
#include "transport/ucx_quirks.hpp"

namespace gravel {
namespace {

void check(wire_kind kind, uint32_t release, const std::vector<std::byte>& of_ucx, const std::string& owner) {
  if (release != ucx_release())
    fail("{} of {}: made by UCX {}.{}, but this process runs UCX {}.{}; install one release of UCX on all nodes", name_of(kind), owner,
         release / 1000, release % 1000, ucx_release() / 1000, ucx_release() % 1000);
  if (of_ucx.empty()) fail("{} of {}: it is empty", name_of(kind), owner);
}

}  // namespace

ucx_address read_ucx_address(std::span<const std::byte> bytes, const std::string& owner) {
  auto read = from_wire<ucx_address>(bytes, owner);
  check(read.kind, read.release, read.address, owner);
  return read;
}

ucx_memory_key read_ucx_memory_key(std::span<const std::byte> bytes, const std::string& owner) {
  auto read = from_wire<ucx_memory_key>(bytes, owner);
  check(read.kind, read.release, read.key, owner);
  return read;
}

}  // namespace gravel
