// The symmetric heap of a PE: objects at the same offsets on all PEs, zeroed. Allocation and release are collective. A
// call that fails on one PE is undone on all, so that the heaps stay the same.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <functional>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/heap.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class symmetric_heap {
 public:
  /// A collective call of this kind and argument: contributes the words and returns the job's totals.
  using together = std::function<collective_words(collective_kind, uint64_t argument, const collective_words&)>;

  /// `base`: device memory that was not written since it was allocated.
  symmetric_heap(backend& device, char* base, uint64_t bytes, uint32_t pe, together combine)
      : device_(device), base_(base), bytes_(bytes), pe_(pe), combine_(std::move(combine)), allocator_(bytes) {}

  /// Throws gravel::error on all PEs, with nothing allocated, if one PE fails.
  void* allocate(uint64_t bytes) {
    const auto offset = allocator_.allocate(bytes);
    std::string why;
    if (!offset) {
      why = fmt::format(
          "{} do not fit: the largest free piece of the symmetric heap has {}, the heap {}; raise "
          "GRAVEL_SYMMETRIC_SIZE",
          text_of_bytes(bytes), text_of_bytes(allocator_.largest_free()), text_of_bytes(bytes_));
    } else if (allocator_.in_use() > device_.usable_bytes()) {
      why = fmt::format(
          "{} do not fit: {} would be in use, and this host, or the cgroup of this process, has {} for each of its PEs",
          text_of_bytes(bytes), text_of_bytes(allocator_.in_use()), text_of_bytes(device_.usable_bytes()));
    } else {
      try {
        // Zeroes the whole piece before any PE knows the object: so no message can reach it too early.
        zero(*offset, allocator_.piece_at(*offset)->bytes);
      } catch (const std::exception& e) {
        why = e.what();
      }
    }
    collective_words mine{};
    mine.sum[0] = !why.empty();
    mine.sum[1] = why.empty() ? 0 : pe_;
    mine.least = offset.value_or(~0ull);
    mine.most = offset.value_or(0);
    const collective_words all = combine_(collective_kind::allocate, bytes, mine);
    if (all.sum[0] == 0 && all.least == all.most) return base_ + *offset;

    if (offset) allocator_.release(*offset);
    if (!why.empty()) fail("gravel_malloc: {}", why);
    if (all.sum[0] == 1) fail("gravel_malloc: {} do not fit at PE {}", text_of_bytes(bytes), all.sum[1]);
    if (all.sum[0]) fail("gravel_malloc: {} do not fit at {} PEs", text_of_bytes(bytes), all.sum[0]);
    fail("gravel_malloc: the symmetric heaps differ: {} bytes would lie at offsets {:#x} to {:#x}, here at {:#x}",
         bytes, all.least, all.most, *offset);
  }
  /// Throws gravel::error for an address that is no object, before the collective begins.
  void release(void* object) {
    const uint64_t offset = offset_of(object);
    combine_(collective_kind::release, offset, {});
    if (object) allocator_.release(offset);
  }

 private:
  uint64_t offset_of(void* object) const {
    if (!object) return no_object;
    const char* at = static_cast<const char*>(object);
    if (at < base_ || at >= base_ + bytes_)
      fail("gravel_free: {} is not in the symmetric heap, which lies from {} to {}", object,
           static_cast<const void*>(base_), static_cast<const void*>(base_ + bytes_));
    const auto offset = static_cast<uint64_t>(at - base_);
    if (const auto piece = allocator_.piece_at(offset); !piece)
      fail("gravel_free: {} is free already, or was never returned by gravel_malloc", object);
    else if (piece->begin != offset)
      fail("gravel_free: {} lies {} bytes inside an object: pass the address that gravel_malloc returned, {}", object,
           offset - piece->begin, static_cast<const void*>(base_ + piece->begin));
    return offset;
  }
  void zero(uint64_t offset, uint64_t bytes) {
    const uint64_t end = offset + bytes;
    if (offset < touched_) device_.zero(base_ + offset, std::min(end, touched_) - offset);
    touched_ = std::max(touched_, end);
  }

  backend& device_;
  char* base_;
  uint64_t bytes_;
  uint32_t pe_;
  together combine_;
  heap_allocator allocator_;
  uint64_t touched_ = 0;  ///< memory from here on was never handed out, so it is still zero
};

}  // namespace gravel::detail
