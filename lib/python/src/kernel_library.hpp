// What a library of gr.Kernels contains for the Python module: its kernels, its handlers, and what starts them.
// The library defines `gravel_kernels` (kernels.cuh); the module finds it by its name.
#pragma once
#include <cstdint>
#include <optional>

#include <gravel/gravel.hpp>

namespace gravel::python {

/// Kinds of values. The order is that of `KINDS` in gravel/_kernels.py.
enum class value_kind : uint32_t { handle, pointer, signed_integer, unsigned_integer, real, boolean, bytes };
/// The type of a kernel's parameter, or of what a pointer points to. `bytes` is 0 if it has no size (void).
struct value_type {
  value_kind kind;
  uint32_t bytes;
};
struct kernel_parameter {
  value_type type;
  value_type pointee;  ///< of a pointer
  bool is_const;       ///< of a pointer: the kernel only reads there
};
/// Grid, block and stream of a launch. The stream is CUDA's handle, 0: the PE's own.
struct launch_shape {
  uint32_t grid[3], block[3];
  uint64_t shared_bytes, stream;
  bool is_cooperative;
};
struct kernel_entry {
  const char* name;
  const kernel_parameter* parameters;
  uint32_t n;
  /// Starts the kernel. `values`: those of all parameters but handles, each in a multiple of 8 bytes. On the CPU
  /// backend it returns when the kernel has ended.
  void (*launch)(const launch_shape&, const char* values);
};
struct handler_entry {
  const char* name;
  bool has_context, is_on_host;
  kernel_parameter context;
  void (*set_context)(void*);
};
struct kernel_library {
  const char* version;  ///< of Gravel's headers
  const kernel_entry* kernels;
  uint32_t n_kernels;
  const handler_entry* handlers;
  uint32_t n_handlers;
  /// Does what the first launch of a kernel might have to wait for. Call it in a job, while no kernel waits for another
  /// one.
  void (*load)();
  void (*join)(std::optional<gravel_process_group>);  ///< joins a job with the handlers; nullptr if there are none
};

}  // namespace gravel::python
