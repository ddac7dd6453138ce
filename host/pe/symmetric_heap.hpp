// The symmetric heap of a PE: objects at the same offsets on all PEs, zeroed. Allocation and release are collective. A
// call that fails on one PE is undone on all, so that the heaps stay the same.
//
// An object may need new extents (host/pe/heap_memory.hpp). Then gravel_malloc has two collective steps: behind the
// first all PEs have the memory, and behind the second all PEs that map each other's heaps have mapped it. So a kernel
// that knows the object may write to it at any PE.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/heap.hpp"
#include "host/pe/heap_memory.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class symmetric_heap {
 public:
  /// A collective call of this kind and argument: contributes the words and returns the job's totals.
  using together = std::function<collective_words(collective_kind, uint64_t argument, const collective_words&)>;

  /// What the other PEs of the node do with this heap's extents (host/pe/peers.hpp).
  struct sharing {
    std::function<void(std::span<const new_extent>)> share;  ///< collective; throws gravel::error
    std::function<void(std::span<const extent>)> forget;
  };
  /// `bytes`: of all objects.
  symmetric_heap(backend& device, heap_memory& memory, uint64_t bytes, uint32_t pe, together combine, sharing others)
      : device_(device),
        memory_(memory),
        base_(memory.at()),
        bytes_(bytes),
        pe_(pe),
        combine_(std::move(combine)),
        others_(std::move(others)),
        allocator_(bytes) {}

  /// Throws gravel::error on all PEs, with nothing allocated, if one PE fails.
  void* allocate(uint64_t bytes) {
    const auto offset = allocator_.allocate(bytes);
    std::vector<new_extent> grown;
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
        const uint64_t size = allocator_.piece_at(*offset)->bytes;
        grown = memory_.cover(*offset, size);
        // Zeroes the whole piece before any PE knows the object: so no message can reach it too early.
        zero(*offset, size, grown);
      } catch (const std::exception& e) {
        why = e.what();
      }
    }
    collective_words all = agree(bytes, offset, grown.size(), why);
    if (all.sum[0] == 0 && all.least == all.most && all.sum[2] != 0) {
      why = text_of_error([&] { others_.share(grown); });
      all = agree(bytes, offset, 0, why);
    }
    if (all.sum[0] == 0 && all.least == all.most) return base_ + *offset;

    for (const new_extent& e : grown) take_away(e.place);
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
    if (!object) return;
    // All messages of all PEs are applied (gravel_free), so nothing reaches these extents any more.
    const heap_allocator::piece free = allocator_.release(offset).value();
    const uint64_t end = free.begin + free.bytes;
    for (const extent& e : memory_.inside(free.begin, end == bytes_ ? memory_.limit() : end)) take_away(e);
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
  /// One collective step of an allocation. `why`: why this PE cannot; empty: it can.
  collective_words agree(uint64_t bytes, std::optional<uint64_t> offset, uint64_t n_grown, const std::string& why) {
    collective_words mine{};
    mine.sum[0] = !why.empty();
    mine.sum[1] = why.empty() ? 0 : pe_;
    mine.sum[2] = n_grown;
    mine.least = offset.value_or(~0ull);
    mine.most = offset.value_or(0);
    return combine_(collective_kind::allocate, bytes, mine);
  }
  /// Zeroes an object. What lies in the new extents is zero.
  void zero(uint64_t offset, uint64_t bytes, const std::vector<new_extent>& grown) {
    const uint64_t end = offset + bytes;
    uint64_t at = offset;
    for (const new_extent& e : grown) {
      if (at < e.place.begin) device_.zero(base_ + at, e.place.begin - at);
      at = e.place.begin + e.place.bytes;
    }
    if (at < end) device_.zero(base_ + at, end - at);
  }
  void take_away(const extent& e) {
    others_.forget(std::span(&e, 1));
    memory_.remove(e);
  }

  backend& device_;
  heap_memory& memory_;
  char* base_;
  uint64_t bytes_;
  uint32_t pe_;
  together combine_;
  sharing others_;
  heap_allocator allocator_;
};

}  // namespace gravel::detail
