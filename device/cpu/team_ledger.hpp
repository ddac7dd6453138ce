// Team ledger: records which lanes of a block have made which call of a team (lib/base/team_call.hpp).
//
// Protocol. The calls of a team are in one order: its k-th call is the k-th of each of its lanes. The first lane that
// makes a call opens an entry, and the other lanes join it. Each lane joins its team's first entry that it has not
// joined yet, and must make the same call with the same arguments. No lane waits.
//
// An entry that all lanes have joined is dropped. An open entry is a fault as soon as a missing lane has ended, or
// waits where its team is together: at a barrier, which all lanes also pass in the same order.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/team_call.hpp"

namespace gravel::detail::simt::inner {

/// Lanes 0 to 1023 of a block, a word for each warp.
using lane_masks = std::array<uint32_t, 32>;
/// Returns text such as "lane 3" or "lanes 0-31, 64".
std::string text_of_lanes(const lane_masks&);

class team_ledger {
 public:
  static constexpr uint32_t most_arguments = 6;

  /// Begins for a block of so many lanes.
  void begin(uint32_t lanes) {
    entries_.clear();
    lanes_ = lanes;
  }
  /// True if lanes are missing in some call.
  bool is_open() const { return !entries_.empty(); }
  /// True if lanes are missing in a call of the block; or in a call of the lanes `lanes` of a warp.
  bool is_open_for_block() const { return is_open_for(whole_block, 0); }
  bool is_open_for(uint32_t warp, uint32_t lanes) const {
    for (const entry& e : entries_)
      if (e.warp == warp && e.lanes == lanes) return true;
    return false;
  }
  /// True if one of these lanes is missing.
  bool lacks(const lane_masks&) const;

  /// A lane makes a call of its block (lanes = 0), or of these lanes of its warp. Returns what is wrong, or nothing.
  /// `first`: set to whether the lane is the first of its team.
  std::string enter(uint32_t lane, team_call, uint32_t lanes, const uint64_t* arguments, uint32_t count, bool* first);
  /// Describes the oldest call that lacks lanes: which lanes made it, and which did not. state(lane): "have ended" and
  /// the like.
  std::string describe(const std::string& block, const std::function<std::string(uint32_t lane)>& state) const;

 private:
  static constexpr uint32_t whole_block = ~0u;
  struct entry {
    team_call call;
    uint32_t warp, lanes;  ///< whole_block and 0: a call of the block
    std::array<uint64_t, most_arguments> arguments;
    uint32_t first_lane, n_missing;
    lane_masks missing;
  };
  lane_masks team_of(uint32_t warp, uint32_t lanes) const;
  lane_masks joined(const entry&) const;
  /// The call that the lane has joined and other lanes have not; nullptr: none.
  const entry* open_call_of(uint32_t lane, const entry* but) const;

  uint32_t lanes_ = 0;
  std::vector<entry> entries_;  ///< open entries, the oldest first
};

}  // namespace gravel::detail::simt::inner
