// Every GRAVEL_* environment variable, in one table: name, default, unit, meaning, bounds. `gravel-info -c` prints the
// table. Nothing else in Gravel reads the environment.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gravel::detail {

/// Size of the symmetric heap if GRAVEL_SYMMETRIC_SIZE says nothing and the heap cannot grow.
constexpr uint64_t usual_fixed_heap = 1 << 30;

/// The values of all GRAVEL_* variables of this process. Sizes are in bytes.
struct settings {
  uint64_t symmetric_size;
  std::string handle_type;
  std::string domain;
  uint64_t packet_size;
  uint64_t packets_per_destination;
  uint64_t timeout_us;
  uint64_t idle_us;
  std::string aggregation;
  uint64_t aggregator_threads;
  std::string aggregator_bind;
  uint64_t two_hop_nodes;
  uint64_t eager_size;
  uint64_t zero_copy_size;
  uint64_t spill_size;
  uint64_t slot_size;
  uint64_t slots;
  uint64_t warp_slots;
  uint64_t reply_cells;
  uint64_t peer_chunks;
  uint64_t peer_chunk_size;
  uint64_t own_ring_size;
  uint64_t nodes;
  uint64_t cpu_threads;
  uint64_t cpu_seed;
  uint64_t cpu_stack_size;
  uint64_t resolver_blocks;
  uint64_t resolver_ring_blocks;
  uint64_t resolver_quantum_us;
  bool resolver_resident;
  std::string partition;
  uint64_t watchdog_s;
  uint64_t connect_timeout_s;
  bool stats;
  std::string stats_json;
  std::string aggregator;
  std::string log;
  std::string routes;
  std::string fault;
};

enum class setting_kind { number, size, flag, text };

/// One row of the table.
struct setting_row {
  const char* name;  ///< "GRAVEL_PACKET_SIZE"
  setting_kind kind;
  const char* default_value;  ///< as a user would write it
  const char* unit;           ///< "bytes", "us", "threads", ... or ""
  uint64_t least, most;       ///< bounds of numbers and sizes
  const char* meaning;
  template <class T>
  using field = T settings::*;
  field<uint64_t> number;
  field<bool> flag;
  field<std::string> text;
  const char* choices;  ///< of a text: "one, another"; "": any
};

const std::vector<setting_row>& setting_table();

/// Reads all variables through `lookup` (which returns nullptr for an unset one), and checks relations between
/// variables. Throws gravel::error that names the variable, its value, and what would be accepted.
settings read_settings(const std::function<const char*(const char*)>& lookup);

/// The settings of this process's environment, read once.
const settings& current_settings();

/// The current settings, in which every 0 that means "choose" is replaced by a value that depends on the machine. Also
/// sets the level of the log. `host_pes`: PEs on this host.
settings resolved_settings(uint32_t host_pes);

/// Converts "64K", "1GiB" or "4096" to bytes. Throws gravel::error on anything else, on overflow and on a sign.
uint64_t parse_size(const std::string& text);

/// The GRAVEL_* variables in the environment that no row names (typing errors), for a warning at init. Among them are
/// names that differ from a variable's only before the first '_', or in upper and lower case.
std::vector<std::string> unknown_settings(char** environment);

/// A sentence about one unknown variable, with the variable that it may mean.
std::string describe_unknown_setting(const std::string& name);

}  // namespace gravel::detail
