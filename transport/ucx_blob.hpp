// Worker addresses and memory keys travel between processes as byte strings that UCX unpacks without
// checking. So each is framed: magic, kind, UCX version, length, checksum. Garbage is refused before UCX sees
// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gravel {

enum class ucx_blob_kind : uint32_t { worker_address = 1, memory_key = 2 };

/// Frames `payload`.
std::vector<std::byte> pack_ucx_blob(ucx_blob_kind kind, std::span<const std::byte> payload);

/// The payload inside `blob` (no copy). Throws gravel::error, naming `owner` ("aggregator of node 3"), if the
/// blob is cut, damaged, of another kind, or made by another UCX release (whose formats differ).
std::span<const std::byte> unpack_ucx_blob(ucx_blob_kind kind, std::span<const std::byte> blob,
                                           const std::string& owner);

}  // namespace gravel
