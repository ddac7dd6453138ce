// gravel_team_t: a team of PEs. Members have numbers of their own, from 0; device/team.cuh and host/teams.cuh have
// its calls.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

/// A team of PEs, as one of its members sees it. Plain data, passed by value to functions and kernels. An object that
/// is initialized with {} is no team, as is what a split returns at a PE that is not a member.
/// @scope any
/// @completion on return
/// @errors none
/// @source OpenSHMEM 1.5: shmem_team_t
struct gravel_team_t {
  uint32_t id = 0;        ///< place of its memory; teams with no member in common may have the same
  uint32_t n_pes = 0;     ///< members; 0: no team
  uint32_t my_pe = 0;     ///< number of this PE in the team
  uint32_t start = 0;     ///< PE of member 0, in the job
  int32_t stride = 0;     ///< member i is PE start + i * stride of the job; 0: the team's memory has a list of PEs
  uint32_t serial = 0;    ///< tells teams apart that have the same place one after the other
  bool directly = false;  ///< kernels of each member reach the memory of all members

  /// Whether the two are the same team.
  /// @param other another team, or {}
  GRAVEL_BOTH bool operator==(const gravel_team_t& other) const {
    return n_pes == other.n_pes && (n_pes == 0 || (id == other.id && serial == other.serial));
  }
};
