// The two memories in which a PE can have objects of its symmetric heap.
#pragma once
#include <cstdint>

namespace gravel::detail {

/// Where an object of the symmetric heap lies. On the CPU backend both are memory of the host.
enum class place : uint8_t {
  device,  ///< memory of the PE's GPU
  host     ///< memory of the host near the GPU, which never leaves it (pinned); all GPUs of the node may map it
};

}  // namespace gravel::detail
