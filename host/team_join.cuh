// Teams of any PEs, which only their members make. Their rendezvous is in the memory of the PE that made the team's id.
//
// Protocol. A member knows the id, the number of members and its own number, but no other member. It writes what it
// knows into its place at the root, which the id names; the root waits for all, decides, and answers each: who is a
// member, and the place of the team. Then each clears the team's memory, and there is a second rendezvous: when a
// member returns, this memory is ready everywhere. A word that is waited for, the tag, is written after what it stands
// for, behind a quiet. Who has read it clears it before it writes again, so an id may be used again. Model:
// test/models/team_join.pml.
#pragma once
#include <bit>
#include <cstddef>
#include <string>
#include <vector>

#include "host/teams.cuh"
#include "lib/base/join_rendezvous.hpp"

namespace gravel::detail {

/// Describes a wait for the members of a team.
struct wait_for_members {
  GRAVEL_BOTH wait_subject operator()() const { return {.what = awaited::members}; }
};

/// Writes words at PEs, the tag, which is the first one, behind all others. `to(pe)`: where. Thread scope: a host
/// thread.
template <class Words, class To>
void put_with_tag(const gravel_t& g, const Words& words, const std::vector<uint32_t>& pes, To to) {
  constexpr uint64_t tag_bytes = sizeof(words.tag);
  for (const uint32_t pe : pes)
    gravel_put_bulk(g, reinterpret_cast<char*>(to(pe)) + tag_bytes, reinterpret_cast<const char*>(&words) + tag_bytes,
                    sizeof(words) - tag_bytes, static_cast<int>(pe));
  gravel_quiet(g);
  for (const uint32_t pe : pes) gravel_put(g, &to(pe)->tag, words.tag, static_cast<int>(pe));
  gravel_quiet(g);
}
inline void clear_tag(uint64_t* tag) {
  constexpr uint64_t none = 0;
  gravel_copy(tag, &none, sizeof(none));
}

/// A rendezvous at the root: waits for `size` members. `pes` becomes the PEs that came, in order.
inline std::vector<team_join> await_joins(const gravel_t& g, join_rendezvous* here, uint64_t tag, uint32_t size,
                                          std::vector<uint32_t>& pes) {
  std::vector<bool> came(g.n_pes);
  uint32_t n = 0;
  for (watched_wait wait;;) {
    for (uint32_t pe = 0; pe < g.n_pes && n < size; ++pe) {
      if (came[pe] || poll_word(g, &here->join_of(pe, g.n_pes)->tag) != tag) continue;
      came[pe] = true;
      ++n;
    }
    if (n == size) break;
    wait.closely(g, wait_for_members{});
  }
  std::vector<team_join> joins;
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
    if (!came[pe]) continue;
    team_join* const at = here->join_of(pe, g.n_pes);
    pes.push_back(pe);
    gravel_copy(&joins.emplace_back(), at, sizeof(team_join));
    clear_tag(&at->tag);
  }
  return joins;
}
/// What the root answers in the first rendezvous, and who is a member, by number.
inline team_answer decide_team(const std::vector<team_join>& joins, const std::vector<uint32_t>& came, uint32_t root,
                               std::vector<uint32_t>& members) {
  const auto size = static_cast<uint32_t>(came.size());
  team_answer answer{};
  std::vector<bool> is_taken(size);
  members.resize(size);
  uint64_t free_ids = ~uint64_t{0};
  for (uint32_t i = 0; i < size; ++i) {
    const team_join& j = joins[i];
    if (j.size != size) return {.fault = team_fault::other_size, .pe = {root, came[i]}, .said = {size, j.size}};
    if (is_taken[j.number])
      return {.fault = team_fault::same_number, .pe = {members[j.number], came[i]}, .said = {j.number, 0}};
    is_taken[j.number] = true;
    members[j.number] = came[i];
    free_ids &= j.free_ids;
    if (answer.serial <= j.last_serial) answer.serial = j.last_serial + 1;
  }
  if (free_ids == 0) answer.fault = team_fault::no_place;
  else answer.id = static_cast<uint32_t>(std::countr_zero(free_ids));
  return answer;
}
/// One of the two rendezvous: says `mine`, and returns the answer. In the first one `members` becomes the members' PEs.
inline team_answer join_members(const gravel_t& g, uint64_t id, bool is_second, const team_join& say,
                                std::vector<uint32_t>& members) {
  team_join mine = say;
  const uint32_t root = join_rendezvous::root_of(id);
  join_rendezvous* const here = join_rendezvous::of(g.scratch, g.n_pes);
  mine.tag = join_rendezvous::tag_of(id, is_second);
  put_with_tag(g, mine, {root}, [&](uint32_t) { return here->join_of(g.my_pe, g.n_pes); });
  if (root == g.my_pe) {
    std::vector<uint32_t> came;
    const std::vector<team_join> joins = await_joins(g, here, mine.tag, mine.size, came);
    team_answer answer{};
    if (is_second) {
      answer.directly = 1;
      for (const team_join& j : joins) answer.directly &= j.reaches;
    } else {
      answer = decide_team(joins, came, root, members);
      for (const uint32_t pe : came)
        gravel_put_bulk(g, here->pes(), members.data(), members.size() * sizeof(uint32_t), static_cast<int>(pe));
    }
    answer.tag = mine.tag;
    put_with_tag(g, answer, came, [&](uint32_t) { return &here->answer; });
  }
  for (watched_wait wait; poll_word(g, &here->answer.tag) != mine.tag;) wait.closely(g, wait_for_members{});
  team_answer answer;
  gravel_copy(&answer, &here->answer, sizeof(answer));
  clear_tag(&here->answer.tag);
  if (!is_second) {
    members.resize(mine.size);
    gravel_copy(members.data(), here->pes(), members.size() * sizeof(uint32_t));
  }
  return answer;
}

inline std::string text_of(const team_answer& a) {
  const auto pe = [&](int i) { return "PE " + std::to_string(a.pe[i]); };
  switch (a.fault) {
    case team_fault::other_size:
      return pe(0) + " gives a size of " + std::to_string(a.said[0]) + ", and " + pe(1) + " one of " +
             std::to_string(a.said[1]) + ": all members give the same";
    case team_fault::same_number:
      return pe(0) + " and " + pe(1) + " both give the number " + std::to_string(a.said[0]) +
             ": each member has one of its own";
    default: return no_place_at("all members");
  }
}

}  // namespace gravel::detail

/// An id for gravel_team_join. The calling PE is the id's root: it is a member of the team. The program brings the id
/// to the other members.
/// @return the id, not 0
/// @scope the program's host thread
/// @completion on return
/// @errors gravel::error: outside gravel_init .. gravel_finalize
/// @source NVSHMEM: nvshmemx_team_get_uniqueid
inline uint64_t gravel_team_unique_id() { return gravel::detail::next_team_id(); }
/// Makes a team of any PEs, in any order. Only its members call. PEs that have several teams in common make them in the
/// same order.
/// @param id what gravel_team_unique_id returned at one of the members. It may be used again
/// @param size number of members, the same at all members
/// @param number this PE's number in the team, 0 to size - 1, another one at each member
/// @return the team; gravel_team_destroy ends it
/// @scope the program's host thread of each member
/// @completion on return: kernels may use the new team
/// @errors gravel::error at all members: sizes differ, a number is given twice, or all 32 teams of a PE are in use. At
///   a member: impossible numbers, an id of another job
/// @source NVSHMEM: nvshmemx_team_init
inline gravel_team_t gravel_team_join(uint64_t id, int size, int number) {
  using namespace gravel::detail;
  const std::string call = "gravel_team_join";
  const auto n = static_cast<int>(members_of(gravel_team_world(), call.c_str()).size());
  const gravel_t g = gravel_host_handle();
  if (!join_rendezvous::is_id(id, g.n_pes))
    fail_text(call + ": " + std::to_string(id) + " is no id that gravel_team_unique_id has returned in this job");
  if (size < 1 || size > n)
    fail_text(call + ": size " + std::to_string(size) + ": a team has 1 to " + std::to_string(n) + " members");
  if (number < 0 || number >= size)
    fail_text(call + ": number " + std::to_string(number) + ": the members of this team have numbers 0 to " +
              std::to_string(size - 1));
  team_join mine{};
  mine.size = static_cast<uint32_t>(size);
  mine.number = static_cast<uint32_t>(number);
  mine.free_ids = free_team_ids();
  mine.last_serial = last_team_serial();
  std::vector<uint32_t> members;
  const team_answer first = join_members(g, id, false, mine, members);
  if (first.fault != team_fault::none) fail_text(call + ": " + text_of(first));
  make_team(first.id, first.serial, members, false);
  mine.reaches = reaches_all_of(members);
  const team_answer second = join_members(g, id, true, mine, members);
  return set_directly(first.id, second.directly != 0);
}
