#include "device/cpu/team_ledger.hpp"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <string_view>

namespace gravel::detail::simt::inner {

namespace {
bool holds(const lane_masks& lanes, uint32_t lane) { return lanes[lane / 32] >> lane % 32 & 1; }

/// Returns name number i of "a,b,c".
std::string_view name_in(std::string_view list, uint32_t i) {
  for (; i > 0 && list.find(',') != list.npos; --i) list.remove_prefix(list.find(',') + 1);
  return list.substr(0, list.find(','));
}
}  // namespace

std::string text_of_lanes(const lane_masks& lanes) {
  std::string text;
  uint32_t count = 0;
  for (uint32_t lane = 0; lane < 1024; ++lane) {
    if (!holds(lanes, lane)) continue;
    uint32_t last = lane;
    while (last + 1 < 1024 && holds(lanes, last + 1)) ++last;
    count += last - lane + 1;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", lane);
    if (last > lane) text += fmt::format("-{}", last);
    lane = last;
  }
  return (count == 1 ? "lane " : "lanes ") + text;
}

lane_masks team_ledger::team_of(uint32_t warp, uint32_t lanes) const {
  lane_masks team{};
  if (warp != whole_block) team[warp] = lanes;
  else
    for (uint32_t lane = 0; lane < lanes_; ++lane) team[lane / 32] |= 1u << lane % 32;
  return team;
}
lane_masks team_ledger::joined(const entry& e) const {
  lane_masks all = team_of(e.warp, e.lanes);
  for (uint32_t w = 0; w < all.size(); ++w) all[w] &= ~e.missing[w];
  return all;
}
bool team_ledger::lacks(const lane_masks& lanes) const {
  for (const entry& e : entries_)
    for (uint32_t w = 0; w < lanes.size(); ++w)
      if (e.missing[w] & lanes[w]) return true;
  return false;
}
const team_ledger::entry* team_ledger::open_call_of(uint32_t lane, const entry* but) const {
  for (const entry& e : entries_)
    if (&e != but && holds(joined(e), lane)) return &e;
  return nullptr;
}

std::string team_ledger::enter(uint32_t lane, team_call call, uint32_t lanes, const uint64_t* arguments, uint32_t count,
                               bool* first) {
  const uint32_t warp = lanes ? lane / 32 : whole_block;
  const team_call_facts& facts = facts_of(call);
  *first = false;
  if (lanes && !(lanes >> lane % 32 & 1))
    return fmt::format("{} by lane {} with a mask of lanes, {:#010x}, that does not name it. {}", facts.name, lane,
                       lanes, rule_of(call));
  for (size_t i = 0; i < entries_.size(); ++i) {
    entry& e = entries_[i];
    if (e.warp != warp || e.lanes != lanes || !holds(e.missing, lane)) continue;
    if (e.call != call)
      return fmt::format("lane {} calls {} where {} called {}. {} {}", lane, facts.name, text_of_lanes(joined(e)),
                         facts_of(e.call).name, rule_of(e.call), rule_of(call));
    for (uint32_t a = 0; a < count; ++a)
      if (e.arguments[a] != arguments[a])
        return fmt::format("{} with different arguments: `{}` is {:#x} in lane {} and {:#x} in lane {}. {}", facts.name,
                           name_in(facts.arguments, a), e.arguments[a], e.first_lane, arguments[a], lane,
                           rule_of(call));
    e.missing[lane / 32] &= ~(1u << lane % 32);
    if (--e.n_missing == 0) entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
    return {};
  }
  *first = true;
  entry e{call, warp, lanes, {}, lane, 0, team_of(warp, lanes)};
  for (uint32_t a = 0; a < count; ++a) e.arguments[a] = arguments[a];
  e.missing[lane / 32] &= ~(1u << lane % 32);
  for (const uint32_t word : e.missing) e.n_missing += static_cast<uint32_t>(std::popcount(word));
  if (e.n_missing) entries_.push_back(e);
  return {};
}

std::string team_ledger::describe(const std::string& block,
                                  const std::function<std::string(uint32_t lane)>& state) const {
  const entry& e = entries_.front();
  std::map<std::string, lane_masks> by_state;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    if (!holds(e.missing, lane)) continue;
    const entry* const other = open_call_of(lane, &e);
    by_state[other ? fmt::format("called {}", facts_of(other->call).name) : state(lane)][lane / 32] |= 1u << lane % 32;
  }
  std::string missing;
  for (const auto& [what, lanes] : by_state)
    missing += fmt::format("{}{} {}", missing.empty() ? "" : ", ", text_of_lanes(lanes), what);
  return fmt::format("{} in {} was called by {}, but {}. {}", facts_of(e.call).name, block, text_of_lanes(joined(e)),
                     missing, rule_of(e.call));
}

}  // namespace gravel::detail::simt::inner
