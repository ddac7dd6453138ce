// Worker addresses and memory keys, as they travel between processes. UCX unpacks them without checking, in formats that differ
// between its releases: so the release goes along, and garbage is refused before UCX sees it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/wire.hpp"
#include "transport/process_watch.hpp"

namespace gravel {

struct ucx_address {
  static constexpr wire_kind kind = wire_kind::worker_address;
  uint32_t release;          ///< of UCX: ucx_release()
  process_identity process;  ///< whose worker it is
  std::vector<std::byte> address;
  static auto fields(auto& m) { return std::tie(m.release, m.process, m.address); }
};

struct ucx_memory_key {
  static constexpr wire_kind kind = wire_kind::memory_key;
  uint32_t release;
  uint64_t address;  ///< in the address space of the process that owns the memory
  uint64_t bytes;
  std::vector<std::byte> key;
  static auto fields(auto& m) { return std::tie(m.release, m.address, m.bytes, m.key); }
};

/// Throws gravel::error that names `owner` ("aggregator of node 3"): cut, damaged, of another kind, or of another release of UCX.
ucx_address read_ucx_address(std::span<const std::byte> bytes, const std::string& owner);
ucx_memory_key read_ucx_memory_key(std::span<const std::byte> bytes, const std::string& owner);

}  // namespace gravel
