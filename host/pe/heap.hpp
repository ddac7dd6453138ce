// The symmetric heap's allocator: the same calls in the same order give the same offsets on every PE. Pure bookkeeping
// over offsets; the memory itself belongs to the backend.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

namespace gravel {

class heap_allocator {
 public:
  static constexpr uint64_t alignment = 256;
  explicit heap_allocator(uint64_t bytes) : free_{{0, bytes}} {}

  /// First fit. nullopt: no piece is large enough. Zero bytes get a piece of their own.
  std::optional<uint64_t> allocate(uint64_t bytes);
  /// False: nothing was allocated at this offset.
  bool release(uint64_t offset);
  struct piece {
    uint64_t begin, bytes;
  };
  /// The allocated piece in which this offset lies.
  std::optional<piece> piece_at(uint64_t offset) const;
  uint64_t largest_free() const;
  uint64_t in_use() const;

 private:
  std::map<uint64_t, uint64_t> free_;  ///< offset -> bytes; neighbours are always merged
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace gravel
