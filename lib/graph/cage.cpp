// The cage model: a polymer is a chain of monomers on the points of a cubic lattice, bonds between neighbouring points.
// Where both neighbours of a monomer lie at one point it is a kink, and may move to any other point beside that one; an
// end may move to any point beside its only neighbour. An electric field along the cube's diagonal makes three of the
// six directions "up", three "down".
//
// What moves can follow depends only on which points of the chain are the same, so a chain is a walk in a tree where
// each point has three points above it and three below, and chains that a symmetry of this tree carries into each other
// are one state; so are a chain and the same chain read from its other end. (Counted so, 3 to 15 monomers give the
// numbers of states and transitions of the published matrices; test/unit/graph_generate_test.cpp.)
//
// A walk is written as its steps, 3 bits each, the first in the highest place: 0 or 1 to a point that is new, above or
// below; 2 + k to the k-th of the points beside this one that the walk has been at, in the order of first visits. Walks
// that a symmetry carries into each other have one word, and others have others. Of a chain's two directions the
// smaller word is the state.
#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/graph/generate.hpp"
#include "lib/graph/slices.hpp"

namespace gravel::detail {
namespace {

constexpr int least_monomers = 3, most_monomers = 15;
constexpr int step_bits = 3;
// Of cage3 and so on: vertices, and edges with the diagonal.
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

using numbers =
    std::array<uint8_t, most_monomers + 1>;  // of points, of which there may be one more to move to; or of monomers

numbers backwards(const numbers& at, unsigned monomers) {
  numbers turned{};
  for (unsigned i = 0; i < monomers; ++i) turned[i] = at[monomers - 1 - i];
  return turned;
}

/// Writes a walk, from its first place on. Its steps choose by arithmetic, as no branch could be foretold.
class scribe {
 public:
  scribe() = default;
  explicit scribe(unsigned start) {
    before_[start] = static_cast<uint8_t>(start);  // no step leads there
    letter_[start] = 2;                            // not new, and always before where a step to it comes from
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
    const unsigned letter = letter_[to], is_new = letter == 0, old = is_new - 1;  // `old`: all bits or none
    const unsigned is_back = before_[from] == to;
    const unsigned written = (is_new & (height[to] < height[from])) | (old & (is_back ? 2 : letter));
    word_ = word_ << step_bits | written;
    letter_[to] = static_cast<uint8_t>((old & letter) | (~old & (2u + neighbours_[from])));
    before_[to] = static_cast<uint8_t>((old & before_[to]) | (~old & from));
    neighbours_[from] = static_cast<uint8_t>(neighbours_[from] + is_new);
    neighbours_[to] = static_cast<uint8_t>(neighbours_[to] + is_new);
  }
  uint64_t word_ = 0;
  unsigned places_ = 1;
  numbers before_{};  // of each point, where the first step to it came from
  numbers
      letter_{};  // of each point what a step from there writes, but for a step back; 0 if the walk has not been there
  numbers neighbours_{};  // of each point, at how many beside it the walk has been
};

/// A chain, or the first monomers of one, and the tree of its points: numbered in the order of first visits.
struct chain {
  uint64_t word = 0;
  unsigned monomers = 1, points = 1;
  numbers at{};                                      // of each monomer, the point
  numbers height{most_monomers};                     // of each point
  numbers above{}, below{};                          // of each point, how many of its neighbours are above and below it
  std::array<uint32_t, most_monomers + 1> beside{};  // of each point its neighbours, the first in the lowest 4 bits

  unsigned here() const { return at[monomers - 1]; }
  unsigned neighbours(unsigned point) const { return above[point] + unsigned{below[point]}; }
  unsigned neighbour(unsigned point, unsigned k) const { return beside[point] >> 4 * k & 15; }
  bool may(unsigned letter) const { return letter > 1 || (letter == 0 ? above : below)[here()] < 3; }
  void step(unsigned letter) {
    const unsigned from = here(), to = letter > 1 ? neighbour(from, letter - 2) : points++;
    if (letter < 2) {
      height[to] = static_cast<uint8_t>(letter == 0 ? height[from] + 1 : height[from] - 1);
      beside[from] |= to << 4 * neighbours(from);
      beside[to] = from;
      ++(letter == 0 ? above : below)[from];
      ++(letter == 0 ? below : above)[to];
    }
    at[monomers++] = static_cast<uint8_t>(to);
    word = word << step_bits | letter;
  }
};

/// Calls visit(chain) for all walks of `monomers` places that begin with c, in ascending order of their words.
template <class Visit>
void each_walk(const chain& c, unsigned monomers, Visit&& visit) {
  if (c.monomers == monomers) return visit(c);
  for (unsigned letter = 0; letter < 2 + c.neighbours(c.here()); ++letter) {
    if (!c.may(letter)) continue;
    chain longer = c;
    longer.step(letter);
    each_walk(longer, monomers, visit);
  }
}

uint64_t word_backwards(const chain& c) {
  const numbers at = backwards(c.at, c.monomers);
  scribe s(at[0]);
  s.write_to(c.monomers - 1, at, c.height);
  return s.word();
}

/// All states, in ascending order.
std::vector<uint64_t> all_states(unsigned monomers, int threads) {
  std::vector<chain> beginnings;
  each_walk({}, std::min(monomers, 7u), [&](const chain& c) { beginnings.push_back(c); });
  std::vector<uint64_t> states;
  states.reserve(cage_size(static_cast<int>(monomers)).vertices);
  using words = std::vector<uint64_t>;
  in_slices<words>(
      beginnings.size(), threads,
      [&](uint64_t slice, words& piece) {
        piece.clear();
        each_walk(beginnings[slice], monomers, [&](const chain& c) {
          if (c.word <= word_backwards(c)) piece.push_back(c.word);
        });
      },
      [&](const words& piece) { states.insert(states.end(), piece.begin(), piece.end()); });
  return states;
}

/// Where each state stands among all: a hash table with open addressing, of words that hold a state above its number.
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

/// Finds where the moves of a state lead. Used again for state after state.
class move_finder {
 public:
  /// Appends the state and those to which its moves lead, in ascending order, each once.
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
  /// The chain read from one end.
  struct reading {
    numbers at;
    std::array<scribe, most_monomers>
        until;  // of each place whose monomer may move, but for the first, what is written before it

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

  /// Moves monomer i to the other points beside `point`, and to one of those above and below it where nobody is, as far
  /// as there are any. If it leaves its own point empty, that one is no other point, and an empty one like it is no
  /// other place.
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

  /// The state with monomer i at another point: the smaller one of both directions. A few letters mostly tell which it
  /// is, and then the other one is not written.
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

  unsigned last_ = 0;  // monomer
  chain c_;
  numbers monomers_at_{};  // of each point
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
  // Each move has one back, so turned around, or in both directions, the edges are the same.
  const block_distribution blocks(list.vertices, share.parts);
  const uint64_t first = blocks.first(share.part), count = blocks.count(share.part);
  struct moves {
    move_finder finder;
    std::vector<uint64_t> to;    // of vertex after vertex
    std::vector<uint64_t> ends;  // of each vertex, in `to`
    std::vector<edge> edges;
  };
  constexpr uint64_t of_slice = 1024, ahead = 16;
  const auto make = [&](uint64_t slice, moves& piece) {
    piece.to.clear();
    piece.ends.clear();
    piece.edges.clear();
    const uint64_t begin = first + slice * of_slice, end = std::min(begin + of_slice, first + count);
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
  in_slices<moves>((count + of_slice - 1) / of_slice, share.threads, make, [&](const moves& piece) {
    list.edges.insert(list.edges.end(), piece.edges.begin(), piece.edges.end());
  });
  return list;
}

}  // namespace gravel::detail
