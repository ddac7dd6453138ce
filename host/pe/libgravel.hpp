// The functions of libgravel that backends and the templates of the host API call.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/process_group.hpp"

namespace gravel::detail {

class backend;

/// Facts about a program, for gravel_init.
struct program_view {
  const char* version;  ///< of the headers with which it was compiled
  /// address of the calling thread's threadIdx in the program; nullptr: CUDA, where libgravel has none
  const void* thread_index;
};
/// Throws gravel::error unless headers and libgravel have the same interface version, and share their variables.
void check_program(const program_view& program);
/// Joins the job: the main part of gravel_init.
void start(std::unique_ptr<backend> device, std::optional<gravel_process_group> group);
/// Returns the group of the processes that have a unique id. Its connections last as long as copies of its allgather.
gravel_process_group group_of(const gravel_unique_id_t& id, int pe, int n_pes);
backend& current_backend();
/// Frees what `current_backend().allocate` returned. Does nothing if the job is over, as its memory is gone.
void release_device_memory(void*);

/// Records that an object of the program is open: gravel_finalize refuses to run before it is destroyed. Such objects
/// have this as a member, in front of those that use the job.
class open_object {
 public:
  /// `what`: name of the object, such as "gravel_reducer". Throws gravel::error outside gravel_init .. gravel_finalize.
  explicit open_object(std::string what);
  ~open_object();
  open_object(const open_object&) = delete;
  open_object& operator=(const open_object&) = delete;
};
/// Prints a warning on stderr, if GRAVEL_LOG allows.
void warn(const char* text);

/// A counter of the network path.
struct named_counter {
  const char* name;  ///< as in the file of GRAVEL_STATS_JSON
  uint64_t value;
};
/// Reads the counters of this PE since gravel_init; at the first PE of a node also those of the node's aggregator. The
/// sums over all PEs are the job's statistics. Not collective. Any host thread.
std::vector<named_counter> read_counters();

}  // namespace gravel::detail
