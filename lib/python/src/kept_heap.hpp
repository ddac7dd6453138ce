// Keeps the memory of a symmetric heap beyond gravel_finalize.
//
// Problem. NumPy arrays that are views of the heap may live until the process ends. gravel_finalize unmaps the heap, so
// a program that reads such a view afterwards would crash.
// Solution. Before gravel_finalize the pages move to another address (mremap, which copies nothing), and zero pages
// take their place. Afterwards they move back. This is for the CPU backend: GPU memory cannot do it.
#pragma once
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include <gravel/gravel.cuh>

namespace gravel::python {

class kept_heap {
 public:
  /// Moves the pages away. No message may arrive meanwhile or later.
  kept_heap(char* heap, uint64_t bytes) : heap_(heap), bytes_(bytes) {
    aside_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (aside_ == MAP_FAILED) gravel::detail::fail_errno("gravel.finalize: address space for the views that are left");
    if (mremap(heap_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, aside_) == MAP_FAILED)
      gravel::detail::fail_errno("gravel.finalize: mremap of the symmetric heap");
    mmap(heap_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  kept_heap(const kept_heap&) = delete;
  kept_heap& operator=(const kept_heap&) = delete;
  /// Moves the pages back. If something else lies there by now, does nothing.
  void put_back() {
    void* const at =
        mmap(heap_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != heap_) return;
    mremap(aside_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, heap_);
  }

 private:
  char* heap_;
  uint64_t bytes_;
  void* aside_;
};

}  // namespace gravel::python
