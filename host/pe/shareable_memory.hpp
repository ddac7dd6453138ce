// Memory of the program that becomes symmetric: what gravel_register needs to know about it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// How memory becomes a destination of messages, for errors.
constexpr const char* two_ways =
    "Memory becomes a destination in two ways: gravel_malloc allocates it (for tensors of PyTorch the pool of "
    "gravel.mem_pool()), or cuMemCreate makes it with POSIX file descriptors and gravel_register registers it";

/// Allocations, one behind the other, which other processes may map. Each of them is mapped whole.
struct shareable_memory {
  const char* begin = nullptr;   ///< of the first one
  std::vector<uint64_t> pieces;  ///< bytes of each
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const uint64_t piece : pieces) sum += piece;
    return sum;
  }
  /// A range of addresses may lie in so many allocations. The descriptors that a user has sent, and that nobody has
  /// received yet, are limited by RLIMIT_NOFILE, often to 1024: with 8 PEs on a node each PE sends 7 times as many.
  static constexpr size_t max_pieces = 16;
};

/// On the CPU backend memory that others can map is a whole memfd, mapped as shared, whose size nobody can change, and
/// whose descriptor is still open. Finds the mappings that contain a range of addresses. Throws gravel::error that says
/// what they lack.
shareable_memory find_shared_mappings(const char* at, uint64_t bytes);
/// A descriptor of the memfd that is mapped there. Throws gravel::error.
owned_descriptor descriptor_of_mapping(const char* begin, uint64_t bytes);

}  // namespace gravel::detail
