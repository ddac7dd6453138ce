// A PE's place in its job: who it is, who the others are, and the settings it was started with.
#pragma once
#include <atomic>
#include <memory>

#include "lib/base/settings.hpp"
#include "lib/base/topology.hpp"
#include "transport/bootstrap.hpp"

namespace gravel {

struct membership {
  /// Joins the job. Throws gravel::error.
  membership();

  std::unique_ptr<bootstrap> boot;
  uint32_t pe;
  settings values;
  topology nodes;
  uint32_t node, local_rank, local_size;  ///< its node, and its number among the PEs there
  bool is_leader() const { return local_rank == 0; }
  uint32_t leader() const { return nodes.pes_of(node)[0]; }

  /// Set before the job is joined, too, where the launcher says it: which PE this is.
  static inline std::atomic<uint32_t> own_pe{0};
};

}  // namespace gravel
