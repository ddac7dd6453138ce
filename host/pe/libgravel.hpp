// What backends, and the templates of the host API, call of the runtime in libgravel.
#pragma once
#include <memory>
#include <string>

namespace gravel::detail {

class backend;

/// What a program brings to gravel_init.
struct program_view {
  const char* version;       ///< of the headers that it was compiled with
  const void* thread_index;  ///< where it sees threadIdx of the calling thread; nullptr: CUDA, where libgravel has none
};
/// Throws gravel::error unless headers and libgravel are of versions with the same interface, and both have the same
/// variables.
void check_program(const program_view& program);
/// Joins the job; the rest of gravel_init.
void start(std::unique_ptr<backend> device);
backend& current_backend();
/// Gives back what `current_backend().allocate` returned; nothing, if the job is over and its memory gone.
void release_device_memory(void*);

/// That an object of the program is open, for gravel_finalize, which refuses to run before it has ended. A member of
/// such objects, before those that use the job.
class open_object {
 public:
  /// `what`: the object, as "gravel_reducer". Throws gravel::error outside gravel_init .. gravel_finalize.
  explicit open_object(std::string what);
  ~open_object();
  open_object(const open_object&) = delete;
  open_object& operator=(const open_object&) = delete;
};
/// Says it on stderr, if GRAVEL_LOG allows.
void warn(const char* text);

}  // namespace gravel::detail
