// Keeps the memory of a symmetric heap beyond gravel_finalize.
//
// Problem. NumPy arrays that are views of the heap may live until the process ends. gravel_finalize unmaps the heap, so
// a program that reads such a view afterwards would crash.
// Solution. Before gravel_finalize the pages move to another address (mremap, which copies nothing). Zero pages take
// their place. Afterwards they move back. A heap that other PEs map has a mapping for each extent, and mremap moves one
// mapping at a time. This is for the CPU backend: GPU memory cannot do it.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>

namespace gravel::python {

class kept_heap {
 public:
  /// Moves the pages away. No message may arrive meanwhile or later.
  kept_heap(char* heap, uint64_t bytes) : heap_(heap), bytes_(bytes) {
    void* const aside = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (aside == MAP_FAILED) gravel::detail::fail_errno("gravel.finalize: address space for the views that are left");
    aside_ = static_cast<char*>(aside);
    find_mappings();
    for (const mapping& m : mappings_)
      if (!move(heap_ + m.begin, aside_ + m.begin, m.bytes))
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
    for (const mapping& m : mappings_) move(aside_ + m.begin, heap_ + m.begin, m.bytes);
  }

 private:
  struct mapping {
    uint64_t begin, bytes;  ///< offset in the heap
  };
  static bool move(char* from, char* to, uint64_t bytes) {
    return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
  }
  void find_mappings() {
    const uint64_t first = reinterpret_cast<uintptr_t>(heap_), last = first + bytes_;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 || end <= first || begin >= last) continue;
      const uint64_t from = std::max<uint64_t>(begin, first), to = std::min<uint64_t>(end, last);
      mappings_.push_back({from - first, to - from});
    }
  }

  char* heap_;
  uint64_t bytes_;
  char* aside_;
  std::vector<mapping> mappings_;
};

}  // namespace gravel::python
