// The cage model: a polymer is a chain of monomers on the points of a cubic lattice, bonds between neighbouring points. Where both
// neighbours of a monomer lie at one point it is a kink, and may move to any other point beside that one; an end may move to any
// point beside its only neighbour. An electric field along the cube's diagonal makes three of the six directions "up", three "down".
//
// What moves can follow depends only on which points of the chain are the same, so a chain is a walk in a tree where each point has three
// points above it and three below, and chains that a symmetry of this tree carries into each other are one state; so are a chain and
// the same chain read from its other end. (Counted so, 3 to 12 monomers give the numbers of states and transitions of the published
// matrices; test/graph_test.cpp.)
//
// A state is written as the walk's steps, 5 bits each: 0 or 1 for a point that is new, above or below; 2 + i for point i, in the order of
// first visits. Of the two directions the smaller number is the state.
#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/graph/generate.hpp"

namespace gravel {
namespace {

constexpr int most_monomers = 15;
constexpr uint64_t step_bits = 5;
using state = __uint128_t;  // a leading 1, then the steps

struct chain {
  int monomers = 1;
  int points = 1;
  std::array<int8_t, most_monomers> at{};          // of each monomer, the point
  std::array<int8_t, most_monomers + 1> height{};  // of each point; one more than there are for a point to move to
};

state write(const chain& c, bool backwards) {
  std::array<int8_t, most_monomers + 1> label;
  label.fill(-1);
  const auto at = [&](int i) { return c.at[static_cast<size_t>(backwards ? c.monomers - 1 - i : i)]; };
  label[static_cast<size_t>(at(0))] = 0;
  int8_t labels = 1;
  state word = 1;
  for (int i = 1; i < c.monomers; ++i) {
    const auto from = static_cast<size_t>(at(i - 1)), to = static_cast<size_t>(at(i));
    const bool is_new = label[to] < 0;
    const uint64_t step = is_new ? (c.height[to] > c.height[from] ? 0 : 1) : 2 + static_cast<uint64_t>(label[to]);
    if (is_new) label[to] = labels++;
    word = word << step_bits | step;
  }
  return word;
}

state state_of(const chain& c) { return std::min(write(c, false), write(c, true)); }

chain chain_of(state word, int monomers) {
  chain c;
  c.monomers = monomers;
  for (int i = 1; i < monomers; ++i) {
    const auto step = static_cast<int>(static_cast<uint64_t>(word >> (step_bits * static_cast<uint64_t>(monomers - 1 - i))) & 31);
    const auto here = static_cast<size_t>(i);
    if (step < 2) {
      c.height[static_cast<size_t>(c.points)] = static_cast<int8_t>(c.height[static_cast<size_t>(c.at[here - 1])] + (step == 0 ? 1 : -1));
      c.at[here] = static_cast<int8_t>(c.points++);
    } else {
      c.at[here] = static_cast<int8_t>(step - 2);
    }
  }
  return c;
}

/// Calls visit(chain) for each place of monomer `moved` beside `point`, where all others stay: the points beside it where others are, and
/// one of those above it and below it where none is, as far as there are any.
template <class Visit>
void each_place(chain c, int moved, int8_t point, Visit&& visit) {
  uint32_t beside = 0;
  for (int i = 0; i + 1 < c.monomers; ++i) {
    if (i == moved || i + 1 == moved) continue;
    const int8_t a = c.at[static_cast<size_t>(i)], b = c.at[static_cast<size_t>(i + 1)];
    if (a == point) beside |= 1u << b;
    if (b == point) beside |= 1u << a;
  }
  int above = 0, below = 0;
  for (uint32_t rest = beside; rest; rest &= rest - 1) {
    const int p = __builtin_ctz(rest);
    ++(c.height[static_cast<size_t>(p)] > c.height[static_cast<size_t>(point)] ? above : below);
    c.at[static_cast<size_t>(moved)] = static_cast<int8_t>(p);
    visit(c);
  }
  c.at[static_cast<size_t>(moved)] = static_cast<int8_t>(c.points);
  for (const int up : {1, -1}) {
    if ((up > 0 ? above : below) == 3) continue;
    c.height[static_cast<size_t>(c.points)] = static_cast<int8_t>(c.height[static_cast<size_t>(point)] + up);
    visit(c);
  }
}

void make_unique(std::vector<state>& states) {
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
}

/// All states, in ascending order. A chain without its last monomer is a chain, so each grows out of a shorter one; a state stands for
/// both of its directions, so both ends grow.
std::vector<state> all_states(int monomers) {
  std::vector<state> states{1};
  for (int n = 1; n < monomers; ++n) {
    std::vector<state> longer;
    for (const state s : states) {
      chain c = chain_of(s, n);
      for (int end = 0; end < 2; ++end) {
        std::reverse(c.at.begin(), c.at.begin() + n);
        chain grown = c;
        grown.monomers = n + 1;
        each_place(grown, n, c.at[static_cast<size_t>(n - 1)], [&](const chain& next) { longer.push_back(state_of(next)); });
      }
    }
    make_unique(longer);
    states.swap(longer);
  }
  return states;
}

}  // namespace

edge_list cage(int monomers, const graph_share& share) {
  if (monomers < 3 || monomers > most_monomers) fail("a cage of {} monomers; it must be from 3 to {}", monomers, most_monomers);
  const std::vector<state> states = all_states(monomers);
  edge_list list;
  list.vertices = states.size();
  edge_keeper keeper(list, {share.part, share.parts, false, share.reversed});  // each move has one back
  std::vector<state> next;
  for (uint64_t v = 0; v < states.size(); ++v) {
    const chain c = chain_of(states[v], monomers);
    next.assign(1, states[v]);
    const auto add = [&](const chain& moved) { next.push_back(state_of(moved)); };
    const auto at = [&](int i) { return c.at[static_cast<size_t>(i)]; };
    each_place(c, 0, at(1), add);
    each_place(c, monomers - 1, at(monomers - 2), add);
    for (int i = 1; i + 1 < monomers; ++i)
      if (at(i - 1) == at(i + 1)) each_place(c, i, at(i - 1), add);
    make_unique(next);
    for (const state s : next) keeper.add({v, static_cast<uint64_t>(std::lower_bound(states.begin(), states.end(), s) - states.begin())});
  }
  return list;
}

}  // namespace gravel
