// Memory of a program that its other PEs can map, for gravel_register.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#if GRAVEL_CUDA
#include "host/pe/extents_cuda.cuh"
#else
#include <sys/mman.h>

#include "host/node/sealed_memory.hpp"
#endif
#include "lib/base/error.hpp"

constexpr uint64_t unit_bytes = GRAVEL_CUDA ? 2 << 20 : 64 << 10;  // of an allocation: multiples of this

/// Allocations of the program that others can map, one behind the other.
class own_memory {
 public:
  explicit own_memory(const std::vector<uint64_t>& pieces) {
    for (const uint64_t piece : pieces) bytes_ += piece * unit_bytes;
    if (bytes_ == 0) return;
#if GRAVEL_CUDA
    int device = 0;
    cudaGetDevice(&device);
    const std::string why = gpu_.try_handles(device, gravel::detail::handle_kind::descriptor);
    if (!why.empty()) gravel::detail::fail_text("this GPU has no memory that can be shared: " + why);
    at_ = gpu_.reserve(bytes_, "addresses of the test");
    char* next = at_;
    for (const uint64_t piece : pieces) {
      gpu_.commit(next, piece * unit_bytes, "memory of the test", gravel::detail::place::device);
      pieces_.emplace_back(next, piece * unit_bytes);
      next += piece * unit_bytes;
    }
    cudaMemset(at_, 0, bytes_);
    cudaDeviceSynchronize();
#else
    // What lies behind it is not shared.
    at_ = static_cast<char*>(mmap(nullptr, bytes_ + unit_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char* next = at_;
    for (const uint64_t piece : pieces) {
      files_.push_back(gravel::detail::make_sealed("test", "memory of the test", piece * unit_bytes));
      mmap(next, piece * unit_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, files_.back().get(), 0);
      next += piece * unit_bytes;
    }
#endif
  }
  ~own_memory() {
    if (bytes_ == 0) return;
#if GRAVEL_CUDA
    for (const auto& [begin, bytes] : pieces_) gpu_.decommit(begin, bytes);
    gpu_.unreserve(at_, bytes_);
#else
    munmap(at_, bytes_ + unit_bytes);
#endif
  }
  own_memory(const own_memory&) = delete;
  own_memory& operator=(const own_memory&) = delete;

  char* at() const { return at_; }
  uint64_t bytes() const { return bytes_; }
#if !GRAVEL_CUDA
  void close_descriptors() { files_.clear(); }
#endif

 private:
  char* at_ = nullptr;
  uint64_t bytes_ = 0;
#if GRAVEL_CUDA
  gravel::detail::extents_cuda gpu_;
  std::vector<std::pair<char*, uint64_t>> pieces_;
#else
  std::vector<gravel::detail::owned_descriptor> files_;
#endif
};
