// The symmetric heap of a PE: objects at the same offsets on all PEs, zeroed. Allocation and release are collective. A
// call that fails on one PE is undone on all, so that the heaps stay the same.
//
// An object may need new extents (host/pe/heap_memory.hpp). Then gravel_malloc has two collective steps: behind the
// first all PEs have the memory, and behind the second all PEs that map each other's heaps have mapped it. So a kernel
// that knows the object may write to it at any PE.
//
// gravel_register gives memory of the program a place in the heap, and then takes the same two steps. A step before
// them finds the largest range of all PEs, and ends the call if the memory of one PE cannot be shared. The place is as
// large at all PEs. Behind shorter ranges lies ordinary memory. So there is no address at which only some PEs have
// memory.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/heap.hpp"
#include "host/pe/heap_memory.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

class symmetric_heap {
 public:
  /// A collective call of this kind and argument: contributes the words and returns the job's totals.
  using together = std::function<collective_words(collective_kind, uint64_t argument, const collective_words&)>;

  /// What the other PEs of the domain do with this heap's extents (host/pe/peers.hpp).
  struct sharing {
    std::function<void(std::span<const new_extent>)> share;  ///< collective; throws gravel::error
    std::function<void(const extent& range)> forget;
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

  /// Heaps begin at multiples of this number of bytes.
  static constexpr uint64_t most_alignment = 4096;
  /// All PEs pass the same. `alignment`: a power of 2, at most most_alignment; memory of the host ignores it. Throws
  /// gravel::error on all PEs, with nothing allocated, if one PE fails.
  void* allocate(uint64_t bytes, place where = place::device, uint64_t alignment = heap_allocator::alignment) {
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > most_alignment)
      fail("gravel_malloc_aligned: an alignment of {}: it is a power of 2, at most {}", alignment, most_alignment);
    const bool on_host = where == place::host;
    std::optional<uint64_t> offset;
    if (!on_host) offset = allocator_.allocate_aligned(bytes, alignment);
    else if (memory_.grows()) offset = allocate_apart(memory_.place_bytes(bytes));
    std::vector<new_extent> grown;
    std::string why;
    if (on_host && !memory_.grows()) {
      why =
          "memory of the host needs a symmetric heap that grows, and it has a fixed size here: " + device_.why_fixed();
    } else if (on_host && !offset) {
      why = no_place(memory_.place_bytes(bytes));
    } else if (!offset) {
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
        grown = memory_.cover(*offset, size, where);
        // Zeroes the whole piece before any PE knows the object: so no message can reach it too early.
        zero(*offset, size, grown);
      } catch (const std::exception& e) {
        why = e.what();
      }
    }
    const collective_words all = settle(collective_kind::allocate, bytes, offset, grown, why);
    if (agreed(all)) {
      if (on_host)
        log_info("{} of the symmetric heap are memory of the host: {}", text_of_bytes(memory_.place_bytes(bytes)),
                 device_.describe_host_memory());
      return base_ + *offset;
    }

    for (const new_extent& e : grown) take_away(e.place);
    if (offset) allocator_.release(*offset);
    if (!why.empty()) fail("gravel_malloc: {}", why);
    if (all.sum[0]) fail("gravel_malloc: {} do not fit at {}", text_of_bytes(bytes), text_of_failed(all));
    fail("gravel_malloc: the symmetric heaps differ: {} bytes would lie at offsets {:#x} to {:#x}, here at {:#x}",
         bytes, all.least, all.most, *offset);
  }
  /// Throws gravel::error for an address that is no object, before the collective begins.
  void release(void* object) {
    const uint64_t offset = offset_of(object);
    combine_(collective_kind::release, offset, {});
    if (object) free_piece(offset);
  }

  /// Gives a range of the program's memory a place in the heap. Returns its symmetric address. `bytes` may differ from
  /// PE to PE; 0: this PE passes no memory. Throws gravel::error on all PEs, with nothing registered, if one PE fails.
  void* register_range(const void* address, uint64_t bytes) {
    shareable_memory theirs;
    std::string why = text_of_error([&] { theirs = find_shareable(static_cast<const char*>(address), bytes); });
    collective_words mine = words_of(why);
    mine.most = theirs.bytes();
    const collective_words sizes = combine_(collective_kind::register_range, 0, mine);
    if (!why.empty()) fail("gravel_register: {}", why);
    if (sizes.sum[0])
      fail("gravel_register: the memory of {} cannot be mapped by other PEs. {}", text_of_failed(sizes), two_ways);
    if (sizes.most == 0) fail("gravel_register: all PEs have passed 0 bytes");

    const uint64_t size = sizes.most, room = memory_.place_bytes(size);
    const auto at = allocate_apart(room);
    std::vector<new_extent> grown;
    std::optional<uint64_t> offset;  // of the symmetric address, if this PE has passed memory
    if (!at) {
      why = no_place(room);
    } else {
      why = text_of_error([&] { grown = memory_.fill(*at, size, theirs); });
      if (bytes) offset = *at + static_cast<uint64_t>(static_cast<const char*>(address) - theirs.begin);
    }
    const collective_words all = settle(collective_kind::register_range, 0, offset, grown, why);
    if (agreed(all)) {
      registered_[*at] = all.most;
      return base_ + all.most;
    }
    if (at) {
      take_away({*at, room});
      allocator_.release(*at);
    }
    if (!why.empty()) fail("gravel_register: {}", why);
    if (all.sum[0]) fail("gravel_register: the memory cannot be mapped at {}", text_of_failed(all));
    fail(
        "gravel_register: a range must lie equally far behind the begin of its allocation at all PEs; it is {} to {} "
        "bytes",
        all.least - *at, all.most - *at);
  }
  /// Throws gravel::error for an address that register_range() has not returned, before the collective begins.
  void unregister_range(void* symmetric) {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(symmetric) - base_);
    const auto found =
        std::find_if(registered_.begin(), registered_.end(), [&](const auto& one) { return one.second == offset; });
    if (found == registered_.end())
      fail("gravel_unregister: {} is no address that gravel_register has returned", symmetric);
    combine_(collective_kind::unregister_range, offset, {});
    free_piece(found->first);
    registered_.erase(found);
  }

 private:
  /// Finds a place in which no extent lies, for memory of another kind. `bytes`: whole extents.
  std::optional<uint64_t> allocate_apart(uint64_t bytes) {
    return allocator_.allocate(bytes, [&](const heap_allocator::piece& free, uint64_t wanted) {
      return memory_.empty_place(free.begin, free.begin + free.bytes, wanted);
    });
  }
  std::string no_place(uint64_t bytes) const {
    return fmt::format(
        "the symmetric heap has no place for {} in a piece; raise GRAVEL_SYMMETRIC_SIZE, now {}, at all PEs: it limits "
        "the addresses of all objects together",
        text_of_bytes(bytes), text_of_bytes(bytes_));
  }
  uint64_t offset_of(void* object) const {
    if (!object) return no_object;
    const char* at = static_cast<const char*>(object);
    if (at < base_ || at >= base_ + bytes_)
      fail("gravel_free: {} is not in the symmetric heap, which lies from {} to {}", object,
           static_cast<const void*>(base_), static_cast<const void*>(base_ + bytes_));
    const auto offset = static_cast<uint64_t>(at - base_);
    const auto piece = allocator_.piece_at(offset);
    if (piece && registered_.contains(piece->begin))
      fail("gravel_free: {} lies in memory of gravel_register: pass its symmetric address to gravel_unregister",
           object);
    if (!piece) fail("gravel_free: {} is free already, or was never returned by gravel_malloc", object);
    else if (piece->begin != offset)
      fail("gravel_free: {} lies {} bytes inside an object: pass the address that gravel_malloc returned, {}", object,
           offset - piece->begin, static_cast<const void*>(base_ + piece->begin));
    return offset;
  }
  /// Finds the allocations that contain a range of the program's memory. Throws gravel::error.
  shareable_memory find_shareable(const char* address, uint64_t bytes) const {
    if (!memory_.grows()) fail("the symmetric heap has a fixed size here: {}", device_.why_fixed());
    if (bytes == 0) return {};
    if (bytes > (1ull << 48)) fail("{} bytes are more than a device has", bytes);
    if (address < base_ + memory_.bytes() && base_ < address + bytes)
      fail("{} lies in the symmetric heap already", static_cast<const void*>(address));
    shareable_memory found = device_.find_shareable(address, bytes);
    if (found.pieces.size() > shareable_memory::max_pieces)
      fail("the range lies in {} allocations; one call takes up to {}: register its parts", found.pieces.size(),
           +shareable_memory::max_pieces);
    return found;
  }
  /// A contribution to a collective step. `why`: why this PE cannot; empty: it can.
  collective_words words_of(const std::string& why) const {
    collective_words mine{};
    mine.sum[0] = !why.empty();
    mine.sum[1] = why.empty() ? 0 : pe_;
    return mine;
  }
  static std::string text_of_failed(const collective_words& all) {
    return all.sum[0] == 1 ? fmt::format("PE {}", all.sum[1]) : fmt::format("{} PEs", all.sum[0]);
  }
  /// One collective step of a call that puts memory behind addresses.
  collective_words agree(collective_kind kind, uint64_t argument, std::optional<uint64_t> offset, uint64_t n_grown,
                         const std::string& why) {
    collective_words mine = words_of(why);
    mine.sum[2] = n_grown;
    mine.least = offset.value_or(~0ull);
    mine.most = offset.value_or(0);
    return combine_(kind, argument, mine);
  }
  /// True if no PE has failed, and all of them have chosen one offset.
  static bool agreed(const collective_words& all) { return all.sum[0] == 0 && all.least == all.most; }
  /// The two collective steps. Puts why this PE cannot map the memory of others into `why`.
  collective_words settle(collective_kind kind, uint64_t argument, std::optional<uint64_t> offset,
                          const std::vector<new_extent>& grown, std::string& why) {
    const collective_words all = agree(kind, argument, offset, grown.size(), why);
    if (!agreed(all) || all.sum[2] == 0) return all;
    why = text_of_error([&] { others_.share(grown); });
    return agree(kind, argument, offset, 0, why);
  }
  /// Frees a piece, and takes away the extents in which nothing lies any more. All messages of all PEs are applied
  /// (gravel_free), so nothing reaches these extents.
  void free_piece(uint64_t offset) {
    const heap_allocator::piece free = allocator_.release(offset).value();
    const uint64_t end = free.begin + free.bytes;
    take_away({free.begin, (end == bytes_ ? memory_.limit() : end) - free.begin});
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
  /// Takes away the extents in this range, here and where they are mapped.
  void take_away(const extent& range) {
    others_.forget(range);
    for (const extent& e : memory_.inside(range.begin, range.begin + range.bytes)) memory_.remove(e);
  }

  backend& device_;
  heap_memory& memory_;
  char* base_;
  uint64_t bytes_;
  uint32_t pe_;
  together combine_;
  sharing others_;
  heap_allocator allocator_;
  std::map<uint64_t, uint64_t> registered_;  ///< places of gravel_register -> offset of the symmetric address
};

}  // namespace gravel::detail
