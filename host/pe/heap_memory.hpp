// The memory of a PE's symmetric heap.
//
// Problem. A program should not have to say how large its heap is. Other allocators of the process need memory, too.
// Solution. The PE reserves addresses for the largest heap that is possible. Memory is put behind them in extents when
// gravel_malloc needs them, and taken away when no object lies in an extent any more. The calls of gravel_malloc and
// gravel_free are the same at all PEs, so all PEs have the same extents. A tail for blocks' scratch memory lies behind
// the objects. It always has memory.
//
// Memory of the program that gravel_register makes symmetric gets extents of its own: a place in which no other extent
// lies, behind which its allocations are mapped a second time.
//
// A device that cannot reserve addresses (backend::granule() is 0) has a heap of fixed size, which is allocated whole.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/extent.hpp"

namespace gravel::detail {

class heap_memory {
 public:
  /// `limit`: bytes for objects; `tail`: bytes behind them. Throws gravel::error that says what does not fit.
  heap_memory(backend& device, uint64_t limit, uint64_t tail)
      : device_(device), granule_(device.granule()), limit_(rounded(limit)), bytes_(rounded(limit_ + tail)) {
    constexpr const char* what = "the symmetric heap (GRAVEL_SYMMETRIC_SIZE)";
    if (!grows()) {
      at_ = static_cast<char*>(device_.allocate_exportable(bytes_, what));
      return;
    }
    at_ = device_.reserve(bytes_, what);
    try {
      first_ = cover(limit_, tail);
    } catch (...) {
      device_.unreserve(at_, bytes_);
      throw;
    }
  }
  ~heap_memory() {
    if (grows()) device_.unreserve(at_, bytes_);
    else device_.release(at_);
  }
  heap_memory(const heap_memory&) = delete;
  heap_memory& operator=(const heap_memory&) = delete;

  bool grows() const { return granule_ != 0; }
  char* at() const { return at_; }
  uint64_t limit() const { return limit_; }  ///< offset of the tail
  uint64_t bytes() const { return bytes_; }
  /// The extent of the tail, which other PEs have not mapped yet.
  std::vector<new_extent>& first() { return first_; }

  /// Commits what [begin, begin + bytes) lacks, zeroed. Throws gravel::error, with nothing committed, if something does
  /// not fit.
  std::vector<new_extent> cover(uint64_t begin, uint64_t bytes, place where = place::device) {
    std::vector<new_extent> made;
    if (!grows()) return made;
    const char* const what =
        where == place::host ? "memory of the host for the symmetric heap" : "memory of the symmetric heap";
    const uint64_t end = rounded(begin + bytes);
    try {
      for (uint64_t at = begin / granule_ * granule_; at < end;) {
        const auto next = extents_.upper_bound(at);
        if (next != extents_.begin() && at < std::prev(next)->first + std::prev(next)->second) {
          at = std::prev(next)->first + std::prev(next)->second;
          continue;
        }
        const uint64_t stop = next == extents_.end() ? end : std::min(end, next->first);
        const extent next_place{at, stop - at};
        made.push_back({next_place, device_.commit(at_ + next_place.begin, next_place.bytes, what, where)});
        extents_.emplace(next_place.begin, next_place.bytes);
        at = stop;
      }
    } catch (...) {
      for (const new_extent& e : made) remove(e.place);
      throw;
    }
    return made;
  }
  /// Finds `bytes` bytes of [begin, end) that begin at a multiple of the granule, and in which no extent lies.
  std::optional<uint64_t> empty_place(uint64_t begin, uint64_t end, uint64_t bytes) const {
    uint64_t at = rounded(begin);
    for (const auto& [from, size] : extents_) {
      if (from + size <= at) continue;
      if (from >= at + bytes) break;
      at = rounded(from + size);
    }
    return at + bytes <= end ? std::optional(at) : std::nullopt;
  }
  /// Bytes of an empty place for so many bytes: places consist of whole granules.
  uint64_t place_bytes(uint64_t bytes) const { return rounded(bytes); }
  /// Puts memory of the program behind an empty place, and zeroed memory behind the rest of its first `bytes` bytes.
  /// Throws gravel::error, with nothing behind the place, if something cannot be mapped or does not fit.
  std::vector<new_extent> fill(uint64_t begin, uint64_t bytes, const shareable_memory& theirs) {
    constexpr const char* what = "memory behind a range of gravel_register that is shorter than those of other PEs";
    std::vector<new_extent> made;
    try {
      const char* from = theirs.begin;
      uint64_t at = begin;
      for (const uint64_t piece : theirs.pieces) {
        made.push_back({{at, piece}, device_.map_again(at_ + at, from, piece)});
        extents_.emplace(at, piece);
        from += piece;
        at += piece;
      }
      if (const uint64_t rest = begin + bytes - at) {
        made.push_back({{at, rest}, device_.commit(at_ + at, rest, what, place::device)});
        extents_.emplace(at, rest);
      }
    } catch (...) {
      for (const new_extent& e : made) remove(e.place);
      throw;
    }
    return made;
  }
  /// The extents that lie in [begin, end) as a whole.
  std::vector<extent> inside(uint64_t begin, uint64_t end) const {
    std::vector<extent> found;
    for (auto e = extents_.lower_bound(begin); e != extents_.end() && e->first + e->second <= end; ++e)
      found.push_back({e->first, e->second});
    return found;
  }
  /// Takes the memory of an extent away.
  void remove(const extent& e) {
    extents_.erase(e.begin);
    device_.decommit(at_ + e.begin, e.bytes);
  }
  /// Bytes that have memory behind them.
  uint64_t committed() const {
    uint64_t sum = grows() ? 0 : bytes_;
    for (const auto& [begin, bytes] : extents_) sum += bytes;
    return sum;
  }

 private:
  uint64_t rounded(uint64_t bytes) const { return granule_ ? (bytes + granule_ - 1) / granule_ * granule_ : bytes; }

  backend& device_;
  uint64_t granule_, limit_, bytes_;
  char* at_ = nullptr;
  std::map<uint64_t, uint64_t> extents_;  ///< begin -> bytes
  std::vector<new_extent> first_;
};

}  // namespace gravel::detail
