// The report of a run of gups, as text and as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/rivals/model_options.hpp"

namespace app {

struct gups_options {
  uint32_t table_log2 = 22;
  uint64_t updates = 0;  ///< per PE
  std::string mode = "xor", sender = "block";
  model_options network;
  unsigned grid = 0, block = 0;
  unsigned repeat = 1;
  bool remote_only = false, no_verify = false;
  std::string json, dump, fault;
  uint64_t serial_limit = 1 << 26;

  void add_options(command_line& line);
  void check(const command_line& line);
  uint64_t symmetric_bytes() const;
  void complete();
};

/// One timed repetition. Counts are sums over all PEs; `errors` are wrong words of the table.
struct gups_run {
  double seconds = 0;
  uint64_t remote = 0;  ///< updates to other PEs
  bool serial_checked = false;
  uint64_t serial_errors = 0;
  bool undo_checked = false;
  uint64_t undo_errors = 0;
  bool hash_checked = false, hash_right = false;  ///< the hash of the table is that of all updates
  bool sum_checked = false;
  uint64_t sum = 0;  ///< of the counters, in the increment mode
};

struct gups_report {
  gups_options options;
  std::string backend;
  uint32_t n_pes = 1, n_nodes = 1;
  std::vector<gups_run> runs;

  uint64_t total_updates() const { return options.updates * n_pes; }
  bool right(const gups_run& run) const;
  bool right() const;
  std::string header() const;
  std::string line(const gups_run& run) const;
  std::string rules() const;
  /// Throws gravel::error if the file cannot be written.
  void write_json(const std::string& path) const;
};

}  // namespace app
