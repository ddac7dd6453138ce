// Whether a GPU's memory can be shared by handles: POSIX file descriptors, fabric handles.
#pragma once
#include <string>

namespace gravel::detail {

struct handle_report {
  std::string descriptor_error, fabric_error;  ///< why not; empty: they work
};
/// Creates memory on GPU 0 with either kind of handle, and exports it.
handle_report try_memory_handles();

}  // namespace gravel::detail
