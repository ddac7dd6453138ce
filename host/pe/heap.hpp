// The symmetric heap's allocator: equal sequences of calls give equal offsets on every PE. It only keeps account of
// offsets; the memory belongs to the backend.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace gravel::detail {

class heap_allocator {
 public:
  static constexpr uint64_t alignment = 256;
  explicit heap_allocator(uint64_t bytes) : free_{{0, bytes}} {}

  struct piece {
    uint64_t begin, bytes;
  };
  /// First fit. nullopt: no free piece is large enough. Zero bytes get a piece of their own.
  std::optional<uint64_t> allocate(uint64_t bytes) { return allocate_aligned(bytes, alignment); }
  /// First fit at a multiple of `wanted_alignment`, a power of 2.
  std::optional<uint64_t> allocate_aligned(uint64_t bytes, uint64_t wanted_alignment) {
    return allocate(bytes, [=](const piece& free, uint64_t wanted) {
      const uint64_t begin = (free.begin + wanted_alignment - 1) / wanted_alignment * wanted_alignment,
                     skipped = begin - free.begin;
      return free.bytes >= skipped && free.bytes - skipped >= wanted ? std::optional(begin) : std::nullopt;
    });
  }
  /// First fit at places that the caller chooses. `place_in(free piece, bytes)` returns the offset of a multiple of
  /// `alignment` in the piece; nullopt: none of its places will do.
  template <class Place>
  std::optional<uint64_t> allocate(uint64_t bytes, Place place_in) {
    if (bytes > (1ull << 48)) return std::nullopt;
    const uint64_t wanted = std::max<uint64_t>(1, (bytes + alignment - 1) / alignment) * alignment;
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const piece free{it->first, it->second};
      const std::optional<uint64_t> chosen = place_in(free, wanted);
      if (!chosen) continue;
      const uint64_t offset = *chosen, end = offset + wanted, free_end = free.begin + free.bytes;
      free_.erase(it);
      if (offset > free.begin) free_[free.begin] = offset - free.begin;
      if (free_end > end) free_[end] = free_end - end;
      used_[offset] = wanted;
      return offset;
    }
    return std::nullopt;
  }
  /// Frees the piece at this offset. Returns the free piece that contains it now; nullopt: there is none at the offset.
  std::optional<piece> release(uint64_t offset) {
    const auto released = used_.extract(offset);
    if (released.empty()) return std::nullopt;
    auto here = free_.emplace(offset, released.mapped()).first;
    const auto join = [&](auto before, auto behind) {
      if (before->first + before->second != behind->first) return;
      before->second += behind->second;
      free_.erase(behind);
    };
    if (std::next(here) != free_.end()) join(here, std::next(here));
    if (here != free_.begin() && std::prev(here)->first + std::prev(here)->second == offset) {
      --here;
      join(here, std::next(here));
    }
    return piece{here->first, here->second};
  }
  /// The allocated piece that contains this offset.
  std::optional<piece> piece_at(uint64_t offset) const {
    auto found = used_.upper_bound(offset);
    if (found == used_.begin()) return std::nullopt;
    --found;
    return offset - found->first < found->second ? std::optional(piece{found->first, found->second}) : std::nullopt;
  }
  uint64_t largest_free() const {
    uint64_t largest = 0;
    for (const auto& [offset, size] : free_) largest = std::max(largest, size);
    return largest;
  }
  uint64_t in_use() const {
    uint64_t sum = 0;
    for (const auto& [offset, size] : used_) sum += size;
    return sum;
  }

 private:
  std::map<uint64_t, uint64_t> free_;  ///< offset -> bytes; neighbouring free pieces are always merged
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace gravel::detail
