// The symmetric memory of the rendezvous of PEs that make a team by an id (host/team_join.cuh), behind the scratch
// memory of all teams. The PE that made the id, its root, collects what the members say, and answers each.
#pragma once
#include <cstdint>

#include "lib/base/block_scratch.hpp"

namespace gravel::detail {

/// What a member says to the root. The member writes it at the root, the tag last; the root reads it and clears the
/// tag.
struct alignas(64) team_join {
  uint64_t tag;  ///< join_rendezvous::tag_of; 0: nothing is said
  uint64_t free_ids;
  uint32_t size, number;  ///< arguments of the call
  uint32_t last_serial;
  uint32_t reaches;  ///< whether this PE's kernels reach all members
};
enum class team_fault : uint32_t { none, other_size, same_number, no_place };
/// What the root says to a member. The root writes it at the member, the tag last; the member reads it and clears the
/// tag.
struct alignas(64) team_answer {
  uint64_t tag = 0;
  team_fault fault = team_fault::none;
  uint32_t id = 0, serial = 0;
  uint32_t directly = 0;
  uint32_t pe[2] = {}, said[2] = {};  ///< of a fault: two PEs and what they said
};

/// The memory of such rendezvous at a PE. A PE makes one team at a time, so one answer is enough; a root has a place
/// for what each PE says.
struct join_rendezvous {
  team_answer answer;

  /// A team's id has its root and a number, which is not 0. There are two rendezvous for an id.
  static uint64_t id_of(uint32_t root, uint32_t number) { return uint64_t{root} << 32 | number; }
  static uint32_t root_of(uint64_t id) { return static_cast<uint32_t>(id >> 32); }
  static bool is_id(uint64_t id, uint32_t n_pes) { return root_of(id) < n_pes && static_cast<uint32_t>(id) != 0; }
  static uint64_t tag_of(uint64_t id, bool is_second) { return id | uint64_t{is_second} << 63; }

  /// [n_pes]: the members' PEs in the job, by number; part of the answer.
  uint32_t* pes() { return reinterpret_cast<uint32_t*>(this + 1); }
  /// What PE `pe` says to this root.
  team_join* join_of(uint32_t pe, uint32_t n_pes) {
    return reinterpret_cast<team_join*>(reinterpret_cast<char*>(this + 1) + bytes_of_pes(n_pes)) + pe;
  }
  static uint64_t bytes_of_pes(uint32_t n_pes) { return (n_pes * sizeof(uint32_t) + 63) / 64 * 64; }
  static uint64_t bytes(uint32_t n_pes) {
    return sizeof(join_rendezvous) + bytes_of_pes(n_pes) + n_pes * sizeof(team_join);
  }
  static join_rendezvous* of(block_scratch* first, uint32_t n_pes) {
    return reinterpret_cast<join_rendezvous*>(block_scratch::of(first, block_scratch::teams, n_pes));
  }
};
static_assert(sizeof(team_join) == 64 && sizeof(join_rendezvous) == 64);

/// The memory of all teams of a PE, behind its symmetric heap.
inline uint64_t bytes_of_teams(uint32_t n_pes) {
  return block_scratch::teams * block_scratch::bytes(n_pes) + join_rendezvous::bytes(n_pes);
}

}  // namespace gravel::detail
