// Teams of PEs on the host. Splits are in host/teams.cuh, and teams of any PEs in host/team_join.cuh, for sources with
// kernels.
//
// Common to all calls of this file:
// @param team what a call of this file, a split, gravel_team_join or gravel_team_world(g) returned
// @scope any host thread
// @completion on return
// @source OpenSHMEM 1.5, teams
#pragma once
#include <cstdint>
#include <vector>

#include "lib/base/block_scratch.hpp"

namespace gravel::detail {

/// The teams of this PE, by id: who is a member. The first ones are those of the job, of the node, and of mapped peers.
/// Host threads of the program use it one at a time.
class team_table {
 public:
  struct entry {
    gravel_team_t team;
    std::vector<uint32_t> pes;  ///< members in the job
  };
  entry of[block_scratch::teams];
  uint32_t last_serial = 0;  ///< the largest that a team of this PE has had
  uint32_t ids = 0;          ///< how many gravel_team_unique_id has returned
};
/// Members of a team. Throws gravel::error that names `call` if this PE is no member, or the team is over.
const std::vector<uint32_t>& members_of(const gravel_team_t& team, const char* call);
/// Bits of the ids that no team of this PE has.
uint32_t free_team_ids();
/// The largest serial number that a team of this PE has had.
uint32_t last_team_serial();
/// Whether kernels of this PE reach the memory of all these PEs.
bool reaches_all_of(const std::vector<uint32_t>& pes);
/// Makes a team of these PEs, of which this PE is one, and clears its memory.
gravel_team_t make_team(uint32_t id, uint32_t serial, const std::vector<uint32_t>& pes, bool directly);
/// Sets gravel_team_t::directly of a team that make_team() has made, and that no kernel has used.
gravel_team_t set_directly(uint32_t id, bool directly);
uint64_t next_team_id();

}  // namespace gravel::detail

/// The team of all PEs of the job.
/// @return the team
/// @errors gravel::error: outside gravel_init .. gravel_finalize
gravel_team_t gravel_team_world();
/// The team of the PEs of this PE's node. The first call of this or of gravel_team_mapped is collective over the job.
/// @return the team
/// @scope the program's host thread
/// @errors gravel::error: outside gravel_init .. gravel_finalize
gravel_team_t gravel_team_node();
/// The team of this PE's mapped peers and itself: PEs whose kernels all reach each other's memory (gravel_ptr). The
/// first call of this or of gravel_team_node is collective over the job.
/// @return the team
/// @scope the program's host thread
/// @errors gravel::error: outside gravel_init .. gravel_finalize
/// @source NVSHMEM: NVSHMEMX_TEAM_SHARED
gravel_team_t gravel_team_mapped();
/// Translates the number of a member of one team into its number in another.
/// @param from a team
/// @param pe 0 to gravel_team_n_pes(from) - 1
/// @param to another team
/// @return the number in `to`; -1 if that PE is no member of it, if `pe` is out of range, or if a team is {}
/// @errors gravel::error: a team was destroyed
int gravel_team_translate_pe(const gravel_team_t& from, int pe, const gravel_team_t& to);
/// Ends a team. Collective over its members, which have returned from its collectives; it does not wait for them. Each
/// PE may have 32 teams at a time, with those of the job, its node and its mapped peers, which nobody ends.
/// @param team {} does nothing
/// @scope the program's host thread
/// @errors gravel::error: the team was destroyed before, or is one that nobody ends
void gravel_team_destroy(const gravel_team_t& team);
