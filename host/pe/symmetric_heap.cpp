#include "host/pe/symmetric_heap.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace gravel {

void symmetric_heap::zero(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  if (offset < touched_) device_.zero(base_ + offset, std::min(end, touched_) - offset);
  touched_ = std::max(touched_, end);
}

void* symmetric_heap::allocate(uint64_t bytes) {
  const auto offset = allocator_.allocate(bytes);
  std::string why;
  if (!offset) {
    why = fmt::format("{} bytes do not fit: the largest free piece of the symmetric heap has {} of {} bytes; raise GRAVEL_SYMMETRIC_SIZE",
                      bytes, allocator_.largest_free(), bytes_);
  } else if (allocator_.in_use() > device_.usable_bytes()) {
    why = fmt::format("{} bytes do not fit: {} would be in use, and this host has {} bytes for each of its PEs", bytes, allocator_.in_use(),
                      device_.usable_bytes());
  } else {
    try {
      // The whole piece, before anybody knows of the object: nobody can send into it too early.
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
  if (all.sum[0] == 1) fail("gravel_malloc: {} bytes do not fit at PE {}", bytes, all.sum[1]);
  if (all.sum[0]) fail("gravel_malloc: {} bytes do not fit at {} PEs", bytes, all.sum[0]);
  fail("gravel_malloc: the symmetric heaps differ: {} bytes would lie at offsets {:#x} to {:#x}, here at {:#x}", bytes, all.least, all.most,
       *offset);
}

uint64_t symmetric_heap::offset_of(void* object) const {
  if (!object) return no_object;
  const char* at = static_cast<const char*>(object);
  if (at < base_ || at >= base_ + bytes_)
    fail("gravel_free: {} is not in the symmetric heap, which lies from {} to {}", object, static_cast<const void*>(base_),
         static_cast<const void*>(base_ + bytes_));
  const auto offset = static_cast<uint64_t>(at - base_);
  if (const auto piece = allocator_.piece_at(offset); !piece)
    fail("gravel_free: {} is free already, or was never returned by gravel_malloc", object);
  else if (piece->begin != offset)
    fail("gravel_free: {} lies {} bytes inside an object: pass the address that gravel_malloc returned, {}", object, offset - piece->begin,
         static_cast<const void*>(base_ + piece->begin));
  return offset;
}

void symmetric_heap::release(void* object) {
  const uint64_t offset = offset_of(object);
  combine_(collective_kind::release, offset, {});
  if (object) allocator_.release(offset);
}

}  // namespace gravel
