// The symmetric heap of a PE: objects at the same offsets on all PEs, zeroed. Allocations and releases are collective; what fails
// on one PE is undone on all, so that the heaps stay the same.
#pragma once
#include <cstdint>
#include <functional>

#include "host/node/segment.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/heap.hpp"

namespace gravel {

class symmetric_heap {
 public:
  /// A collective call of this kind and argument: contributes the words, returns the job's.
  using together = std::function<collective_words(collective_kind, uint64_t argument, const collective_words&)>;

  /// `base`: memory of the device that nobody has written since it was allocated.
  symmetric_heap(backend& device, char* base, uint64_t bytes, uint32_t pe, together combine)
      : device_(device), base_(base), bytes_(bytes), pe_(pe), combine_(std::move(combine)), allocator_(bytes) {}

  /// Throws gravel::error on all PEs, with nothing allocated, if it fails on one.
  void* allocate(uint64_t bytes);
  /// Throws gravel::error, before anything is called together, for what is no object.
  void release(void*);

 private:
  uint64_t offset_of(void*) const;
  void zero(uint64_t offset, uint64_t bytes);

  backend& device_;
  char* base_;
  uint64_t bytes_;
  uint32_t pe_;
  together combine_;
  heap_allocator allocator_;
  uint64_t touched_ = 0;  ///< what lies behind was never handed out, and still is as the device gave it: zero
};

}  // namespace gravel
