// Who of a block's lanes has made which call that belongs to a whole team (lib/base/team_call.hpp).
//
// A team's calls are in one order: its k-th call is the k-th of each of its lanes. So the first lane that makes a
// call opens an entry, the others join it, each its team's first entry that it has not joined, and whoever joins must
// make the same call with the same arguments. Nobody waits.
//
// An entry that all have joined is forgotten. One that stays open is a fault as soon as one of those who are missing
// has ended, or waits where its team is together: at a barrier, which all lanes pass in the same order as well.
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
/// "lane 3", "lanes 0-31, 64".
std::string text_of_lanes(const lane_masks&);

class team_ledger {
 public:
  static constexpr uint32_t most_arguments = 6;

  /// A block of so many lanes begins.
  void begin(uint32_t lanes) {
    entries_.clear();
    lanes_ = lanes;
  }
  /// Is a call open that lanes are missing in?
  bool is_open() const { return !entries_.empty(); }
  /// The same of calls of the block; of those of the lanes `lanes` of a warp.
  bool is_open_for_block() const { return is_open_for(whole_block, 0); }
  bool is_open_for(uint32_t warp, uint32_t lanes) const {
    for (const entry& e : entries_)
      if (e.warp == warp && e.lanes == lanes) return true;
    return false;
  }
  /// Is one of these lanes missing?
  bool lacks(const lane_masks&) const;

  /// A lane makes a call of its block (lanes = 0), or of these lanes of its warp. Returns what is wrong, or nothing.
  /// `first`: whether it is the first of its team.
  std::string enter(uint32_t lane, team_call, uint32_t lanes, const uint64_t* arguments, uint32_t count, bool* first);
  /// Of the oldest call that lacks lanes: who made it, who did not, and what to write. state(lane): "have ended" and
  /// the like.
  std::string describe(const std::string& block, const std::function<std::string(uint32_t lane)>& state) const;

 private:
  static constexpr uint32_t whole_block = ~0u;
  struct entry {
    team_call call;
    uint32_t warp, lanes;  ///< whole_block and 0: of the block
    std::array<uint64_t, most_arguments> arguments;
    uint32_t first_lane, n_missing;
    lane_masks missing;
  };
  lane_masks team_of(uint32_t warp, uint32_t lanes) const;
  lane_masks joined(const entry&) const;
  /// The call that the lane has joined and others have not; nullptr: none.
  const entry* open_call_of(uint32_t lane, const entry* but) const;

  uint32_t lanes_ = 0;
  std::vector<entry> entries_;  ///< open ones, the oldest first
};

}  // namespace gravel::detail::simt::inner
