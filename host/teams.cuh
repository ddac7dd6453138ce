// Splits of teams: collective over the members of the parent team. Hosts agree by messages in the parent's memory.
//
// Common to all calls of this file:
// @param parent a team of which this PE is a member
// @scope the program's host thread of each member of the parent; all make the same call. No collective of the parent
//   runs meanwhile
// @completion on return: kernels may use the new team
// @errors gravel::error at all members: the members' calls differ, or all 32 teams of a PE are in use. At a member: no
//   member of the parent, the parent was destroyed, impossible numbers
// @source OpenSHMEM 1.5: shmem_team_split_strided, shmem_team_split_2d
#pragma once
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include <gravel/gravel.hpp>
#include "device/collective.cuh"
#include "host/pe/teams.hpp"

namespace gravel::detail {

/// What a member says about a split.
struct split_words {
  uint64_t dimensions, start, stride, size;  ///< of the call
  uint64_t free_ids, last_serial;
  uint64_t reaches[2];  ///< whether this PE's kernels reach all members of its new teams
};
static_assert(sizeof(split_words) <= block_scratch::least_slot);

/// One rendezvous of the parent, by host threads: collects the words of all members, in the order of their numbers.
inline std::vector<split_words> gather_at_hosts(const gravel_team_t& parent, const std::vector<uint32_t>& pes,
                                                const split_words& mine) {
  const gravel_t g = gravel_host_handle();
  block_scratch* const scratch = scratch_of(g, parent);
  const uint64_t epoch = poll_word(g, &scratch->epoch) + 1;
  for (const uint32_t pe : pes)
    gravel_put_bulk(g, scratch->slot(epoch, parent.my_pe, g.n_pes), &mine, sizeof(mine), static_cast<int>(pe));
  gravel_quiet(g);
  inner::await_members(g, parent, epoch, collective_name::of(other_call::team_split));
  gravel_copy(&scratch->epoch, &epoch, sizeof(epoch));
  std::vector<split_words> all(parent.n_pes);
  for (uint32_t member = 0; member < parent.n_pes; ++member)
    gravel_copy(&all[member], scratch->slot(epoch, member, g.n_pes), sizeof(split_words));
  return all;
}

inline std::string no_place_at(const char* whom) {
  return "a PE has at most " + std::to_string(block_scratch::teams) +
         " teams at a time, with those of the job, its node and its mapped peers, and too few of their places are free "
         "at " +
         whom + ": destroy teams with gravel_team_destroy";
}

/// Makes one or two teams of a parent. `members[i]`: numbers in the parent of the members of team i, the one of which
/// this PE is a member if there are several of its kind.
inline std::vector<gravel_team_t> split(const char* call, const gravel_team_t& parent, split_words mine,
                                        const std::vector<std::vector<uint32_t>>& members) {
  const std::vector<uint32_t> parent_pes = members_of(parent, call);
  std::vector<std::vector<uint32_t>> pes(members.size());
  std::vector<bool> is_member(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    for (const uint32_t member : members[i]) pes[i].push_back(parent_pes[member]);
    is_member[i] = std::count(members[i].begin(), members[i].end(), parent.my_pe) != 0;
    mine.reaches[i] = is_member[i] && reaches_all_of(pes[i]);
  }
  mine.free_ids = free_team_ids();
  mine.last_serial = last_team_serial();
  gravel_synchronize();  // kernels have ended their collectives of the parent
  const std::vector<split_words> all = gather_at_hosts(parent, parent_pes, mine);
  uint64_t free_ids = mine.free_ids, last_serial = 0;
  for (uint32_t member = 0; member < parent.n_pes; ++member) {
    const split_words& theirs = all[member];
    if (theirs.dimensions != mine.dimensions || theirs.start != mine.start || theirs.stride != mine.stride ||
        theirs.size != mine.size)
      fail_text(std::string(call) + ": PE " + std::to_string(member) + " of the parent splits it differently");
    free_ids &= theirs.free_ids;
    last_serial = std::max(last_serial, theirs.last_serial);
  }
  std::vector<gravel_team_t> teams(members.size());
  if (static_cast<size_t>(std::popcount(free_ids)) < members.size())
    fail_text(std::string(call) + ": " + no_place_at("all members of the parent"));
  for (size_t i = 0; i < members.size(); ++i) {
    bool directly = true;
    for (const uint32_t member : members[i]) directly &= all[member].reaches[i] != 0;
    const auto id = static_cast<uint32_t>(std::countr_zero(free_ids));
    free_ids &= free_ids - 1;
    if (is_member[i]) teams[i] = make_team(id, static_cast<uint32_t>(last_serial + 1), pes[i], directly);
  }
  gather_at_hosts(parent, parent_pes, {});  // the memory of the new teams is ready at all members
  return teams;
}

}  // namespace gravel::detail

/// Makes a team of members start, start + stride, ... of a parent.
/// @param start number in the parent of the first member
/// @param stride distance in the parent from member to member, not 0; it may be negative
/// @param size number of members
/// @return the team; {} at members of the parent that are not in it
inline gravel_team_t gravel_team_split_strided(const gravel_team_t& parent, int start, int stride, int size) {
  using namespace gravel::detail;
  constexpr const char* call = "gravel_team_split_strided";
  const auto n = static_cast<int64_t>(members_of(parent, call).size()), last = start + (int64_t{size} - 1) * stride;
  const std::string asked = std::string(call) + ": start " + std::to_string(start) + ", stride " +
                            std::to_string(stride) + ", size " + std::to_string(size);
  if (stride == 0) fail_text(asked + ": the stride must not be 0");
  if (size < 1) fail_text(asked + ": a team has 1 member or more");
  if (start < 0 || start >= n || last < 0 || last >= n)
    fail_text(asked + ": the parent has PEs 0 to " + std::to_string(n - 1));
  std::vector<uint32_t> members;
  for (int i = 0; i < size; ++i) members.push_back(static_cast<uint32_t>(start + i * stride));
  const split_words mine{
      1, static_cast<uint64_t>(start), static_cast<uint64_t>(stride), static_cast<uint64_t>(size), 0, 0, {}};
  return split(call, parent, mine, {members})[0];
}
/// Makes the teams of rows and columns of a parent whose members form rows of x_range, in the order of their numbers.
/// The last row may be shorter.
/// @param x_range members of a row, 1 or more; more than the parent has are one row
/// @param x becomes the team of this PE's row
/// @param y becomes the team of this PE's column
inline void gravel_team_split_2d(const gravel_team_t& parent, int x_range, gravel_team_t* x, gravel_team_t* y) {
  using namespace gravel::detail;
  constexpr const char* call = "gravel_team_split_2d";
  const auto n = static_cast<uint32_t>(members_of(parent, call).size());
  if (x_range < 1) fail_text(std::string(call) + ": rows of " + std::to_string(x_range) + " members: it is 1 or more");
  const uint32_t range = std::min(static_cast<uint32_t>(x_range), n), row = parent.my_pe / range;
  std::vector<uint32_t> of_row, of_column;
  for (uint32_t member = row * range; member < n && member < (row + 1) * range; ++member) of_row.push_back(member);
  for (uint32_t member = parent.my_pe % range; member < n; member += range) of_column.push_back(member);
  const split_words mine{2, 0, 0, static_cast<uint64_t>(x_range), 0, 0, {}};
  const std::vector<gravel_team_t> teams = split(call, parent, mine, {of_row, of_column});
  *x = teams[0];
  *y = teams[1];
}
