// The options of gravel-perf. Defaults that differ between the backends are filled in by parse_options.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gravel_bench::perf {

struct options {
  std::string benchmark;  ///< the subcommand
  std::string command;    ///< as typed, without folders
  std::string json;
  unsigned repeat = 3;
  unsigned grid = 0;  ///< 0: as many blocks as fill the device

  // Rates and latencies.
  uint64_t messages = 0;  ///< of each PE; a power of two
  unsigned iterations = 0;
  std::vector<std::string> scopes{"block", "warp", "thread"};
  std::string to = "next";
  std::vector<uint64_t> sizes;  ///< of put_bw and put_latency, in bytes
  uint64_t bytes = 0;           ///< moved by a row of put_bw, at most

  // gups, packet_size, divergence.
  uint32_t table_log2 = 0;
  uint64_t updates = 0;
  uint64_t offset_mib = 0;  ///< of the heap before the table
  std::string targets = "both";
  unsigned active = 5, most = 64;  ///< divergence: percent of the work-items that send; messages of such a one, at most

  // queue, destinations.
  std::vector<unsigned> blocks{32, 64, 128, 256, 512, 1024};
  std::vector<unsigned> message_bytes{4, 8, 16};
  std::vector<std::string> operations{"inc"};  ///< of gups
  std::vector<unsigned> threads;
  std::vector<unsigned> destinations;
  uint64_t slot_size = 16384;
  unsigned slots = 0;
  std::string consume;
};

/// Names of all benchmarks, in the order in which `all` runs them.
const std::vector<std::string>& benchmark_names();

/// The options with which `all`, or the subcommand itself, runs this benchmark: what was not given is filled in.
options settle(options, const std::string& benchmark, bool gpu);

/// To be called before gravel_init. --help and mistakes end the process. Also sees to a symmetric heap that is large
/// enough, and to GRAVEL_ROUTES. `gpu`: which defaults.
options parse_options(int argc, char** argv, bool gpu);

}  // namespace gravel_bench::perf
