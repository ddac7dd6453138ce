#include "host/pe/heap.hpp"

#include <algorithm>

namespace gravel {

std::optional<uint64_t> heap_allocator::allocate(uint64_t bytes) {
  if (bytes > (1ull << 48)) return std::nullopt;
  const uint64_t wanted = std::max<uint64_t>(1, (bytes + alignment - 1) / alignment) * alignment;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < wanted) continue;
    free_.erase(it);
    if (size > wanted) free_[offset + wanted] = size - wanted;
    used_[offset] = wanted;
    return offset;
  }
  return std::nullopt;
}

bool heap_allocator::release(uint64_t offset) {
  const auto found = used_.find(offset);
  if (found == used_.end()) return false;
  uint64_t size = found->second;
  used_.erase(found);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return true;
    }
  }
  free_[offset] = size;
  return true;
}

std::optional<heap_allocator::piece> heap_allocator::piece_at(uint64_t offset) const {
  auto found = used_.upper_bound(offset);
  if (found == used_.begin()) return std::nullopt;
  --found;
  return offset - found->first < found->second ? std::optional(piece{found->first, found->second}) : std::nullopt;
}

uint64_t heap_allocator::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

uint64_t heap_allocator::in_use() const {
  uint64_t sum = 0;
  for (const auto& [offset, size] : used_) sum += size;
  return sum;
}

}  // namespace gravel
