// Teams of PEs in kernels: which PEs are members. host/teams.cuh makes teams.
//
// What all calls of this file have in common:
// @param g handle that the kernel was given
// @param team a team of which this PE is a member
// @scope lane, from divergent code
// @completion on return
// @source OpenSHMEM 1.5, teams
#pragma once
#include "device/handle.cuh"
#include "device/wait.cuh"
#include "lib/base/block_scratch.hpp"

namespace gravel::detail {

GRAVEL_BOTH block_scratch* scratch_of(const gravel_t& g, const gravel_team_t& team) {
  return block_scratch::of(g.scratch, team.id, g.n_pes);
}
/// Returns the PE of a member, in the job.
GRAVEL_BOTH uint32_t pe_of_member(const gravel_t& g, const gravel_team_t& team, uint32_t member) {
  if (team.stride) return team.start + member * static_cast<uint32_t>(team.stride);
  return poll_word(g, &scratch_of(g, team)->members(g.n_pes)[member]);
}
/// Returns the member whose place in a progression this is, or a number that no member has.
GRAVEL_BOTH uint32_t member_in_progression(const gravel_team_t& team, uint32_t pe) {
  const auto apart = static_cast<int64_t>(pe) - team.start;
  if (apart % team.stride || apart / team.stride < 0) return ~0u;
  return static_cast<uint32_t>(apart / team.stride);
}

}  // namespace gravel::detail

/// The team of all PEs of the job.
/// @return the team; it needs no gravel_team_destroy
/// @errors none
GRAVEL_BOTH gravel_team_t gravel_team_world(const gravel_t& g) {
  return {.n_pes = g.n_pes, .my_pe = g.my_pe, .stride = 1, .directly = g.all_mapped};
}
/// Returns the team in this place: for programs that keep numbers of teams.
/// @param id gravel_team_t::id
/// @return the team, or {} if there is none in this place
/// @errors none
GRAVEL_DEVICE gravel_team_t gravel_team_of(const gravel_t& g, uint32_t id) {
  if (id == 0) return gravel_team_world(g);
  if (id >= gravel::detail::block_scratch::teams) return {};
  return gravel::detail::block_scratch::of(g.scratch, id, g.n_pes)->team;
}
/// Number of this PE in a team.
/// @return 0 to gravel_team_n_pes(team) - 1; -1 if `team` is {}
/// @errors none
GRAVEL_BOTH int gravel_team_my_pe(const gravel_team_t& team) { return team.n_pes ? static_cast<int>(team.my_pe) : -1; }
/// Number of members.
/// @return 1 or more; -1 if `team` is {}
/// @errors none
GRAVEL_BOTH int gravel_team_n_pes(const gravel_team_t& team) { return team.n_pes ? static_cast<int>(team.n_pes) : -1; }
/// Translates the number of a member of one team into its number in another.
/// @param from a team, with `pe` as one of its members
/// @param pe 0 to gravel_team_n_pes(from) - 1
/// @param to another team
/// @return the number in `to`; -1 if that PE is no member of it, if `pe` is out of range, or if a team is {}
/// @errors none
GRAVEL_DEVICE int gravel_team_translate_pe(const gravel_t& g, const gravel_team_t& from, int pe,
                                           const gravel_team_t& to) {
  using namespace gravel::detail;
  if (static_cast<uint32_t>(pe) >= from.n_pes || to.n_pes == 0) return -1;
  const uint32_t of_job = pe_of_member(g, from, static_cast<uint32_t>(pe));
  if (to.stride) {
    const uint32_t member = member_in_progression(to, of_job);
    return member < to.n_pes ? static_cast<int>(member) : -1;
  }
  for (uint32_t member = 0; member < to.n_pes; ++member)
    if (pe_of_member(g, to, member) == of_job) return static_cast<int>(member);
  return -1;
}
