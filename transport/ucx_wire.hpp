// Worker addresses and memory keys, as they travel between processes. UCX unpacks them without a check, in formats that
// differ between its releases. So they travel with the release, and garbage is refused before UCX sees it. Only UCX
// could check what UCX packed: that must come from a process of the job (docs/failure.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/wire.hpp"
#include "transport/process_watch.hpp"
#include "transport/ucx_quirks.hpp"

namespace gravel::detail {

struct ucx_address {
  static constexpr wire_kind kind = wire_kind::worker_address;
  uint32_t release;          ///< of UCX: ucx_release()
  process_identity process;  ///< the process of the worker
  std::vector<std::byte> packed;
  static auto fields(auto& m) { return std::tie(m.release, m.process, m.packed); }
  void check(const wire_check& c) const {
    c.range("the number of its process", process.pid, 1, INT32_MAX);
    c.range("its length", packed.size(), 1, 1 << 20);
  }
};

struct ucx_memory_key {
  static constexpr wire_kind kind = wire_kind::memory_key;
  uint32_t release;
  uint64_t address;  ///< in the address space of the process that owns the memory
  uint64_t bytes;
  std::vector<std::byte> packed;
  static auto fields(auto& m) { return std::tie(m.release, m.address, m.bytes, m.packed); }
  void check(const wire_check& c) const {
    c.range("bytes", bytes, 1, ~address);
    c.range("its length", packed.size(), 1, 1 << 20);
  }
};

/// Throws gravel::error that names `owner` ("aggregator of node 3") if the bytes are cut, damaged, of another kind, or
/// of another release of UCX.
template <class T>
T read_of_ucx(std::span<const std::byte> bytes, const std::string& owner) {
  T read = from_wire<T>(bytes, owner);
  if (read.release != ucx_release())
    fail("{} of {}: made by UCX {}.{}, but this process runs UCX {}.{}; install one release of UCX on all nodes",
         name_of(T::kind), owner, read.release / 1000, read.release % 1000, ucx_release() / 1000, ucx_release() % 1000);
  return read;
}

}  // namespace gravel::detail
