// Which networking model an application uses: --model.
#pragma once
#include <cstdint>
#include <string>

#include "examples/common/command_line.hpp"

namespace app {

/// The models of section 3 of the Gravel paper, and the variants of its figure 15.
enum class networking { coprocessor, coprocessor_buffered, message_per_lane, coalesced, coalesced_aggregated, gravel };

struct model_options {
  std::string name = "gravel";
  uint64_t queue_bytes = 0;  ///< of the coprocessor models: memory of a queue to one PE; 0: what the model says

  void add_options(command_line& app);
  networking model() const;
  /// Before gravel_init, once options are parsed: sets what the model needs of Gravel's own settings
  /// (docs/applications.md). Those that the environment has stay, but for GRAVEL_AGGREGATION, which is the model.
  void prepare() const;
  /// What the model needs of each PE's symmetric heap, for jobs of up to 16 PEs.
  uint64_t symmetric_bytes() const;
  /// Bytes of a queue to one PE. After gravel_init.
  uint64_t queue_size() const;
};

}  // namespace app
