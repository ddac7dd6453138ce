// The cage model of gel electrophoresis. A polymer is a chain of monomers on the points of a cubic lattice, with bonds
// between neighbouring points. If both neighbours of a monomer lie at one point, the monomer is a kink and may move to
// any other point beside that point. An end may move to any point beside its only neighbour. An electric field along
// the cube's diagonal makes three of the six directions "up" and three "down".
//
// Which moves can follow depends only on which points of the chain are the same. So a chain is a walk in a tree where
// each point has three points above it and three below. Chains that a symmetry of this tree maps to each other are one
// state; so are a chain and the same chain read from its other end. (Counted this way, 3 to 15 monomers give the
// numbers of states and transitions of the published matrices; test/unit/graph_generate_test.cpp.)
//
// A walk is written as a word of its steps, 3 bits each, the first step in the highest place. Code 0 or 1: a step to a
// new point, above or below. Code 2 + k: a step to the k-th of the points beside this one that the walk has visited, in
// the order of first visits. Walks that a symmetry maps to each other have the same word, all others have different
// words. Of a chain's two directions the smaller word is the state.
#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/graph/generate.hpp"
#include "lib/graph/portions.hpp"

namespace gravel::detail {
namespace {

constexpr int least_monomers = 3, most_monomers = 15;
constexpr int step_bits = 3;
// Sizes of cage3 to cage15: vertices, and edges with the diagonal.
constexpr std::array<graph_size, most_monomers - least_monomers + 1> sizes{{{5, 19},
                                                                            {9, 49},
                                                                            {37, 233},
                                                                            {93, 785},
                                                                            {340, 3084},
                                                                            {1015, 11003},
                                                                            {3534, 41594},
                                                                            {11397, 150645},
                                                                            {39082, 559722},
                                                                            {130228, 2032536},
                                                                            {445315, 7479343},
                                                                            {1505785, 27130349},
                                                                            {5154859, 99199551}}};

// A number for each point (there may be one more, to move to), or for each monomer.
using numbers = std::array<uint8_t, most_monomers + 1>;

numbers backwards(const numbers& at, unsigned monomers) {
  numbers turned{};
  for (unsigned i = 0; i < monomers; ++i) turned[i] = at[monomers - 1 - i];
  return turned;
}

/// Writes a walk, from its first place on. Steps are chosen by arithmetic, since branches would be unpredictable.
class scribe {
 public:
  scribe() = default;
  explicit scribe(unsigned start) {
    before_[start] = static_cast<uint8_t>(start);  // no step leads there
    code_[start] = 2;                              // not new; every step to it is a step back
  }
  /// Writes places up to `last` of a walk.
  void write_to(unsigned last, const numbers& at, const numbers& height) {
    for (; places_ <= last; ++places_) step(at[places_ - 1], at[places_], height);
  }
  unsigned steps() const { return places_ - 1; }
  uint64_t word() const { return word_; }
  uint64_t word_of_first(unsigned n) const { return word_ >> step_bits * (steps() - n); }

 private:
  void step(unsigned from, unsigned to, const numbers& height) {
    const unsigned code = code_[to], is_new = code == 0, old = is_new - 1;  // `old`: all bits or none
    const unsigned is_back = before_[from] == to;
    const unsigned written = (is_new & (height[to] < height[from])) | (old & (is_back ? 2 : code));
    word_ = word_ << step_bits | written;
    code_[to] = static_cast<uint8_t>((old & code) | (~old & (2u + neighbours_[from])));
    before_[to] = static_cast<uint8_t>((old & before_[to]) | (~old & from));
    neighbours_[from] = static_cast<uint8_t>(neighbours_[from] + is_new);
    neighbours_[to] = static_cast<uint8_t>(neighbours_[to] + is_new);
  }
  uint64_t word_ = 0;
  unsigned places_ = 1;
  numbers before_{};      // for each point: where the first step to it came from
  numbers code_{};        // for each point: the code of a step to it that is no step back; 0 if it has not been visited
  numbers neighbours_{};  // for each point: number of points beside it that the walk has visited
};

/// A chain, or its first monomers, and the tree of its points, which are numbered in the order of first visits.
struct chain {
  uint64_t word = 0;
  unsigned monomers = 1, points = 1;
  numbers at{};                                      // for each monomer: its point
  numbers height{most_monomers};                     // for each point
  numbers above{}, below{};                          // for each point: number of its neighbours above and below it
  std::array<uint32_t, most_monomers + 1> beside{};  // for each point: its neighbours, the first in the lowest 4 bits

  unsigned here() const { return at[monomers - 1]; }
  unsigned neighbours(unsigned point) const { return above[point] + unsigned{below[point]}; }
  unsigned neighbour(unsigned point, unsigned k) const { return beside[point] >> 4 * k & 15; }
  bool may(unsigned code) const { return code > 1 || (code == 0 ? above : below)[here()] < 3; }
  void step(unsigned code) {
    const unsigned from = here(), to = code > 1 ? neighbour(from, code - 2) : points++;
    if (code < 2) {
      height[to] = static_cast<uint8_t>(code == 0 ? height[from] + 1 : height[from] - 1);
      beside[from] |= to << 4 * neighbours(from);
      beside[to] = from;
      ++(code == 0 ? above : below)[from];
      ++(code == 0 ? below : above)[to];
    }
    at[monomers++] = static_cast<uint8_t>(to);
    word = word << step_bits | code;
  }
};

/// Calls visit(chain) for all walks of `monomers` places that begin with c, in ascending order of their words.
template <class Visit>
void each_walk(const chain& c, unsigned monomers, Visit&& visit) {
  if (c.monomers == monomers) return visit(c);
  for (unsigned code = 0; code < 2 + c.neighbours(c.here()); ++code) {
    if (!c.may(code)) continue;
    chain longer = c;
    longer.step(code);
    each_walk(longer, monomers, visit);
  }
}

uint64_t word_backwards(const chain& c) {
  const numbers at = backwards(c.at, c.monomers);
  scribe s(at[0]);
  s.write_to(c.monomers - 1, at, c.height);
  return s.word();
}

/// Returns all states, in ascending order.
std::vector<uint64_t> all_states(unsigned monomers, int threads) {
  std::vector<chain> beginnings;
  each_walk({}, std::min(monomers, 7u), [&](const chain& c) { beginnings.push_back(c); });
  std::vector<uint64_t> states;
  states.reserve(cage_size(static_cast<int>(monomers)).vertices);
  using words = std::vector<uint64_t>;
  in_portions<words>(
      beginnings.size(), threads,
      [&](uint64_t portion, words& piece) {
        piece.clear();
        each_walk(beginnings[portion], monomers, [&](const chain& c) {
          if (c.word <= word_backwards(c)) piece.push_back(c.word);
        });
      },
      [&](const words& piece) { states.insert(states.end(), piece.begin(), piece.end()); });
  return states;
}

/// The number of each state among all states: a hash table with open addressing, whose words hold a state above its
/// number.
class state_index {
 public:
  explicit state_index(const std::vector<uint64_t>& states) {
    while ((uint64_t{1} << bits_) < states.size() + states.size() / 2) ++bits_;
    slots_.resize(uint64_t{1} << bits_);
    for (uint64_t i = 0; i < states.size(); ++i) {
      uint64_t at = home(states[i]);
      while (slots_[at]) at = after(at);
      slots_[at] = (states[i] + 1) << number_bits | i;
    }
  }
  void prefetch(uint64_t state) const { __builtin_prefetch(&slots_[home(state)]); }
  uint64_t operator[](uint64_t state) const {
    for (uint64_t at = home(state); slots_[at]; at = after(at))
      if (slots_[at] >> number_bits == state + 1) return slots_[at] & ((uint64_t{1} << number_bits) - 1);
    fail_text("a move leads to a state that there is not");
  }

 private:
  static constexpr int number_bits = 24;
  // The first step of a state is 0 or 1, and no state is all ones.
  static_assert(step_bits * (most_monomers - 2) + 1 + number_bits <= 64);
  static_assert(sizes.back().vertices < uint64_t{1} << number_bits);

  uint64_t home(uint64_t state) const { return state * 0x9e3779b97f4a7c15u >> (64 - bits_); }
  uint64_t after(uint64_t at) const { return (at + 1) & (slots_.size() - 1); }
  int bits_ = 1;
  std::vector<uint64_t> slots_;
};

/// Finds where the moves of a state lead. One object is used for many states.
class move_finder {
 public:
  /// Appends the state and the states to which its moves lead, in ascending order, each once.
  void append(uint64_t state, unsigned monomers, std::vector<uint64_t>& to) {
    const auto begin = static_cast<std::ptrdiff_t>(to.size());
    read(state, monomers);
    to.push_back(state);
    move(0, c_.at[1], to);
    move(last_, c_.at[last_ - 1], to);
    for (unsigned i = 1; i < last_; ++i)
      if (c_.at[i - 1] == c_.at[i + 1]) move(i, c_.at[i - 1], to);
    std::sort(to.begin() + begin, to.end());
    to.erase(std::unique(to.begin() + begin, to.end()), to.end());
  }

 private:
  /// The chain, read from one end.
  struct reading {
    numbers at;
    std::array<scribe, most_monomers>
        until;  // for each place whose monomer may move, except the first: what is written before it

    void read(const numbers& places, unsigned last, const numbers& height) {
      at = places;
      scribe s(at[0]);
      for (unsigned i = 1; i <= last; ++i) {
        if (i == last || at[i - 1] == at[i + 1]) until[i] = s;
        s.write_to(i, at, height);
      }
    }
    scribe before(unsigned i) const { return i == 0 ? scribe(at[0]) : until[i]; }
  };

  void read(uint64_t state, unsigned monomers) {
    last_ = monomers - 1;
    c_ = {};
    monomers_at_ = {1};
    for (unsigned i = 1; i < monomers; ++i) {
      c_.step(static_cast<unsigned>(state >> step_bits * (last_ - i) & 7));
      ++monomers_at_[c_.here()];
    }
    forwards_.read(c_.at, last_, c_.height);
    back_.read(backwards(c_.at, monomers), last_, c_.height);
  }

  /// Moves monomer i to the other points beside `point`, and to one empty point above and one below it, if there are
  /// any. If the monomer leaves its own point empty, an empty point on the same side would be the same state, so it
  /// does not count.
  void move(unsigned i, unsigned point, std::vector<uint64_t>& to) {
    const unsigned own = c_.at[i];
    for (unsigned k = 0; k < c_.neighbours(point); ++k)
      if (const unsigned p = c_.neighbour(point, k); p != own) to.push_back(moved(i, p));
    for (const bool up : {true, false}) {
      if ((up ? c_.above : c_.below)[point] == 3 ||
          (monomers_at_[own] == 1 && (c_.height[own] > c_.height[point]) == up))
        continue;
      c_.height[c_.points] = static_cast<uint8_t>(up ? c_.height[point] + 1 : c_.height[point] - 1);
      to.push_back(moved(i, c_.points));
    }
    put(i, own);
  }
  void put(unsigned i, unsigned point) { forwards_.at[i] = back_.at[last_ - i] = static_cast<uint8_t>(point); }

  /// Returns the state with monomer i at another point: the smaller word of both directions. A few codes mostly decide
  /// which one is smaller; then the other one is not written.
  uint64_t moved(unsigned i, unsigned point) {
    put(i, point);
    scribe one = forwards_.before(i), other = back_.before(last_ - i);
    const unsigned few = std::min(4u, last_);
    one.write_to(few, forwards_.at, c_.height);
    other.write_to(few, back_.at, c_.height);
    const unsigned both = std::min(one.steps(), other.steps());
    const uint64_t one_begins = one.word_of_first(both), other_begins = other.word_of_first(both);
    if (one_begins <= other_begins) one.write_to(last_, forwards_.at, c_.height);
    if (one_begins < other_begins) return one.word();
    other.write_to(last_, back_.at, c_.height);
    return one_begins > other_begins ? other.word() : std::min(one.word(), other.word());
  }

  unsigned last_ = 0;  // number of the last monomer
  chain c_;
  numbers monomers_at_{};  // for each point
  reading forwards_, back_;
};

}  // namespace

graph_size cage_size(int monomers) {
  if (monomers < least_monomers || monomers > most_monomers)
    fail("a cage of {} monomers; it must be from {} to {}", monomers, least_monomers, most_monomers);
  return sizes[static_cast<size_t>(monomers - least_monomers)];
}

edge_list cage(int monomers, const graph_share& share) {
  const graph_size size = cage_size(monomers);
  check_share(share);
  const auto n = static_cast<unsigned>(monomers);
  const std::vector<uint64_t> states = all_states(n, share.threads);
  const state_index index(states);
  edge_list list;
  list.vertices = states.size();
  list.total_edges = size.edges;
  reserve_share(list, size.edges, share.parts);
  // Each move can be reversed, so the edges are the same turned around, or in both directions.
  const block_distribution blocks(list.vertices, share.parts);
  const uint64_t first = blocks.first(share.part), count = blocks.count(share.part);
  struct moves {
    move_finder finder;
    std::vector<uint64_t> to;    // targets of all vertices in order
    std::vector<uint64_t> ends;  // for each vertex: the end of its targets in `to`
    std::vector<edge> edges;
  };
  constexpr uint64_t of_portion = 1024, ahead = 16;
  const auto make = [&](uint64_t portion, moves& piece) {
    piece.to.clear();
    piece.ends.clear();
    piece.edges.clear();
    const uint64_t begin = first + portion * of_portion, end = std::min(begin + of_portion, first + count);
    for (uint64_t v = begin; v < end; ++v) {
      piece.finder.append(states[v], n, piece.to);
      piece.ends.push_back(piece.to.size());
    }
    for (uint64_t v = begin, i = 0; v < end; ++v)
      for (; i < piece.ends[v - begin]; ++i) {
        if (i + ahead < piece.to.size()) index.prefetch(piece.to[i + ahead]);
        piece.edges.push_back({v, index[piece.to[i]]});
      }
  };
  in_portions<moves>((count + of_portion - 1) / of_portion, share.threads, make, [&](const moves& piece) {
    list.edges.insert(list.edges.end(), piece.edges.begin(), piece.edges.end());
  });
  return list;
}

}  // namespace gravel::detail
