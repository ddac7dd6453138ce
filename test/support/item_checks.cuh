// Worklists of items of any type (gravel_item_worklist), for test/jobs/search_job.cu: items of all sizes, each flag,
// packed items, parts, priorities, limits, items that move, lack of room, bad options; asynchronous and in rounds.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/item_worklist.cuh>
#include "test/support/expect.hpp"

namespace item_checks {

/// An item of BYTES bytes: its number, and words that follow from it.
template <uint32_t BYTES>
struct numbered {
  uint32_t word[BYTES / 4];

  GRAVEL_BOTH static numbered of(uint32_t number) {
    numbered x;
    for (uint32_t k = 0; k < BYTES / 4; ++k) x.word[k] = number * (2 * k + 1);
    return x;
  }
  GRAVEL_BOTH uint32_t number() const { return word[0]; }
  GRAVEL_BOTH bool is_whole() const {
    for (uint32_t k = 0; k < BYTES / 4; ++k)
      if (word[k] != word[0] * (2 * k + 1)) return false;
    return true;
  }
};

/// What the programs of this file have in common: the numbers below `all` belong to PEs in turn.
struct numbers {
  uint32_t me, pes, all;
  uint32_t* visits;  ///< [all] in this PE's device memory
  bool in_rounds;

  GRAVEL_DEVICE void visit(uint32_t number, bool is_right) const { atomicAdd(&visits[number], is_right ? 1u : 1000u); }
  /// Whether a number of a tree is in the round of its level.
  GRAVEL_DEVICE bool is_level(uint32_t number, uint32_t round) const { return !in_rounds || round == level_of(number); }
  GRAVEL_BOTH static uint32_t level_of(uint32_t number) {
    uint32_t level = 0;
    for (; number != 0; number = (number - 1) / 2) ++level;
    return level;
  }
  /// The next number of the path or tree.
  GRAVEL_DEVICE uint32_t child(uint32_t number, uint32_t k) const { return 2 * number + 1 + k; }
};

/// A binary tree of numbers.
template <uint32_t BYTES>
struct plain : numbers {
  static constexpr char name[] = {'p', 'l', 'a', 'i', 'n', static_cast<char>('0' + BYTES / 4), 0};
  using item = numbered<BYTES>;
  GRAVEL_DEVICE int owner(const item& x) const { return static_cast<int>(x.number() % pes); }
  GRAVEL_DEVICE void process(const gravel_item_list<plain>& list, const item& x) const {
    visit(x.number(), x.is_whole() && x.number() % pes == me && is_level(x.number(), list.round()));
    for (uint32_t k = 0; k < 2; ++k)
      if (child(x.number(), k) < all) list.push(item::of(child(x.number(), k)));
  }
};
/// The same tree by parts, with ranks that rise and fall. Every eighth item has parts for a whole warp and more; they
/// are those of the tree and some that are no item.
struct by_parts : numbers {
  static constexpr const char* name = "by parts";
  using item = numbered<8>;
  GRAVEL_DEVICE int owner(const item& x) const { return static_cast<int>(x.number() % pes); }
  GRAVEL_DEVICE uint32_t priority(const item& x) const { return x.number() * 7 % 61; }
  GRAVEL_DEVICE uint32_t process(const gravel_item_list<by_parts>& list, const item& x) const {
    visit(x.number(), x.is_whole() && x.number() % pes == me && is_level(x.number(), list.round()));
    if (x.number() % 16 == 1) return 9;
    return x.number() % 8 == 0 ? 150 : 2;
  }
  GRAVEL_DEVICE void part(const gravel_item_list<by_parts>& list, const item& x, uint32_t k) const {
    if (!x.is_whole()) visit(x.number(), false);
    if (k < 2 && child(x.number(), k) < all) list.push(item::of(child(x.number(), k)));
  }
};
/// The same tree; 4 of 16 bytes travel.
struct packed : numbers {
  static constexpr const char* name = "packed";
  using item = numbered<16>;
  GRAVEL_DEVICE int owner(const item& x) const { return static_cast<int>(x.number() % pes); }
  GRAVEL_DEVICE uint32_t pack(const item& x) const { return x.number(); }
  GRAVEL_DEVICE item unpack(uint32_t number) const { return item::of(number); }
  GRAVEL_DEVICE void process(const gravel_item_list<packed>& list, const item& x) const {
    visit(x.number(), x.is_whole() && x.number() % pes == me && is_level(x.number(), list.round()));
    for (uint32_t k = 0; k < 2; ++k)
      if (child(x.number(), k) < all) list.push(item::of(child(x.number(), k)));
  }
};

/// What happens to an item follows from its kind. Items that pass go around the ring of PEs.
struct flagged : numbers {
  enum kinds : uint32_t { taken, passed, duplicated, dropped, dropped_there, travelling, seed, n_kinds };
  static constexpr uint32_t way = 24;  ///< hops of a travelling item, from handler to handler
  struct item {
    uint32_t kind, number, origin, hops;
  };
  static constexpr const char* name = "flagged";
  GRAVEL_DEVICE int owner(const item& x) const { return static_cast<int>(x.kind == seed ? x.origin : (me + 1) % pes); }
  GRAVEL_DEVICE item pack(const item& x) const { return {x.kind, x.number, x.origin, x.hops + 1}; }
  GRAVEL_DEVICE item unpack(const item& x) const { return x; }
  GRAVEL_DEVICE gravel_item_flags on_send(const item& x) const {
    switch (x.kind) {
      case taken: return gravel_item_flags::take;
      case passed: return x.number % pes == me ? gravel_item_flags::take : gravel_item_flags::pass;
      case duplicated: return gravel_item_flags::duplicate;
      case dropped: return gravel_item_flags::drop;
      default: return gravel_item_flags::pass;
    }
  }
  GRAVEL_DEVICE gravel_item_flags on_receive(const item& x) const {
    switch (x.kind) {
      case passed: return x.number % pes == me ? gravel_item_flags::take : gravel_item_flags::pass;
      case duplicated: return (me + 1) % pes == x.origin ? gravel_item_flags::take : gravel_item_flags::duplicate;
      case dropped_there: return gravel_item_flags::drop;
      case travelling: return x.hops < way ? gravel_item_flags::pass : gravel_item_flags::take;
      default: return gravel_item_flags::take;
    }
  }
  GRAVEL_DEVICE void process(const gravel_item_list<flagged>& list, const item& x) const {
    visit(x.kind, !in_rounds || list.round() == (x.kind == seed ? 0u : 1u));
    if (x.kind != seed) return;
    for (uint32_t i = 0; i < all; ++i) list.push({(i + x.number) % seed, i, me, 0});
  }
};

/// A tree with ranks that grow from the root to the leaves, to the last rank. Eight ranks are near together.
struct by_limits : numbers {
  static constexpr const char* name = "by limits";
  struct item {
    uint32_t number, rank;
    GRAVEL_BOTH item child(uint32_t k) const {
      const uint32_t last = ~0u, next = 2 * number + 1 + k;
      return {next, next % 50 == 49 || rank == last ? last : rank + 1 + next * 7 % 11};
    }
  };
  GRAVEL_BOTH static uint32_t limit(uint32_t rank) { return (rank / 8 + 1) * 8; }
  uint32_t* rounds;  ///< [all]
  GRAVEL_DEVICE int owner(const item& x) const { return static_cast<int>(x.number % pes); }
  GRAVEL_DEVICE uint32_t priority(const item& x) const { return x.rank; }
  GRAVEL_DEVICE uint32_t limit_after(uint32_t rank) const { return limit(rank); }
  GRAVEL_DEVICE void process(const gravel_item_list<by_limits>& list, const item& x) const {
    visit(x.number, x.number % pes == me);
    rounds[x.number] = list.round();
    for (uint32_t k = 0; k < 2; ++k)
      if (x.child(k).number < all) list.push(x.child(k));
  }
};

/// A deep tree at each PE. `deepest_first`: those who are close to its leaves come first.
struct deep {
  struct item {
    uint64_t depth;
  };
  static constexpr const char* name = "deep";
  uint32_t me, most_depth;
  bool deepest_first;
  uint32_t* leaves;
  GRAVEL_DEVICE int owner(const item&) const { return static_cast<int>(me); }
  GRAVEL_DEVICE uint32_t priority(const item& x) const {
    return deepest_first ? most_depth - static_cast<uint32_t>(x.depth) : 0;
  }
  GRAVEL_DEVICE void process(const gravel_item_list<deep>& list, const item& x) const {
    if (x.depth == most_depth) atomicAdd(leaves, 1u);
    else
      for (int k = 0; k < 2; ++k) list.push({x.depth + 1});
  }
};

/// Items of PE 0 that end only when another PE has processed one.
struct moving {
  struct item {
    uint32_t number;
  };
  static constexpr const char* name = "moving";
  uint32_t me, pes;
  uint64_t* elsewhere;  ///< symmetric
  uint64_t* ended;      ///< symmetric
  GRAVEL_DEVICE int owner(const item&) const { return static_cast<int>(me); }
  GRAVEL_DEVICE void process(const gravel_item_list<moving>& list, const item& x) const {
    if (me == 0 && pes > 1 && gravel::detail::load_relaxed<gravel::detail::scope::system>(elsewhere) == 0) {
      list.push(x);
      return;
    }
    if (me != 0) gravel_inc(list.handle(), elsewhere, 0);
    gravel_add(list.handle(), ended, uint64_t{x.number}, 0);
  }
};

inline uint32_t me() { return static_cast<uint32_t>(gravel_my_pe()); }
inline uint32_t pes() { return static_cast<uint32_t>(gravel_n_pes()); }

inline const char* name_of(gravel_execution how) {
  if (how == gravel_execution::rounds) return " in rounds: ";
  return how == gravel_execution::fused ? " in fused rounds: " : ": ";
}
inline bool has_rounds(gravel_execution how) { return how != gravel_execution::asynchronous; }

/// A tree: in each run a number is visited once, at its owner, and has come whole. In rounds its round is its level.
template <class Program>
void check_tree(uint32_t all, gravel_execution how = gravel_execution::asynchronous, uint32_t runs = 1) {
  gravel::device_array<uint32_t> visits(std::vector<uint32_t>(all, 0));
  Program program;
  static_cast<numbers&>(program) = {me(), pes(), all, visits.data(), has_rounds(how)};
  gravel_item_worklist<Program> work(program, {.execution = how, .ranks = 5, .capacity = all});
  for (uint32_t run = 1; run <= runs; ++run) {
    if (me() == pes() - 1) work.offer(Program::item::of(0));
    work.run();
    std::vector<uint32_t> here(all);
    gravel_copy(here.data(), visits.data(), all * sizeof(uint32_t));
    uint64_t own = 0, wrong = 0;
    for (uint32_t i = 0; i < all; ++i) {
      own += i % pes() == me();
      wrong += here[i] != (i % pes() == me() ? run : 0);
    }
    const std::string what = Program::name + std::string(name_of(how));
    const uint64_t rounds = has_rounds(how) ? numbers::level_of(all - 1) + 1 : 0;
    expect(wrong == 0, what + std::to_string(wrong) + " items were not visited once, or in another round");
    expect(work.counts().rounds == rounds, what + std::to_string(work.counts().rounds) + " rounds");
    expect(work.counts().processed == own, what + std::to_string(work.counts().processed) + " items were processed");
    expect(gravel_sum_all(work.counts().sent) == gravel_sum_all(work.counts().received), what + "items were lost");
    expect((pes() > 1) == (gravel_sum_all(work.counts().sent) != 0), what + "items were sent, or none");
  }
}

/// Rounds with limits: every item is processed in the round that a sequential run finds.
inline void check_limits(gravel_execution how) {
  constexpr uint32_t all = 200;
  using item = by_limits::item;
  std::vector<uint32_t> expected(all), found(all), counted(all);
  std::vector<item> near, far{{0, 3}};
  uint32_t round = 0, limit = 0;
  const auto rank = [](const item& x) { return std::min(x.rank, ~0u - 1); };
  while (!near.empty() || !far.empty()) {
    if (near.empty()) {
      uint32_t least = ~0u;
      for (const item& x : far) least = std::min(least, rank(x));
      limit = std::max(by_limits::limit(least), least + 1);
      const auto end = std::partition(far.begin(), far.end(), [&](const item& x) { return rank(x) >= limit; });
      near.assign(end, far.end());
      far.erase(end, far.end());
    }
    std::vector<item> next;
    for (const item& x : near) {
      expected[x.number] = round;
      for (uint32_t k = 0; k < 2; ++k)
        if (const item y = x.child(k); y.number < all) (rank(y) < limit ? next : far).push_back(y);
    }
    near = next;
    ++round;
  }
  gravel::device_array<uint32_t> visits(std::vector<uint32_t>(all, 0)), rounds(std::vector<uint32_t>(all, 0));
  by_limits program;
  static_cast<numbers&>(program) = {me(), pes(), all, visits.data(), has_rounds(how)};
  program.rounds = rounds.data();
  gravel_item_worklist<by_limits> work(program, {.execution = how, .capacity = all});
  if (me() == 0) work.offer({0, 3});
  work.run();
  gravel_copy(found.data(), rounds.data(), all * sizeof(uint32_t));
  gravel_copy(counted.data(), visits.data(), all * sizeof(uint32_t));
  uint64_t wrong = 0;
  for (uint32_t i = me(); i < all; i += pes()) wrong += counted[i] != 1 || (has_rounds(how) && found[i] != expected[i]);
  const std::string what = by_limits::name + std::string(name_of(how));
  expect(wrong == 0, what + std::to_string(wrong) + " items were processed in another round");
  expect(work.counts().rounds == (has_rounds(how) ? round : 0),
         what + std::to_string(work.counts().rounds) + " rounds");
}

inline void check_flags(gravel_execution how) {
  constexpr uint32_t all = 36;  // numbers of each seed, six kinds in turn
  gravel::device_array<uint32_t> visits(std::vector<uint32_t>(flagged::n_kinds, 0));
  flagged program;
  static_cast<numbers&>(program) = {me(), pes(), all, visits.data(), has_rounds(how)};
  gravel_item_worklist<flagged> work(program, {.execution = how, .capacity = 4096});
  constexpr uint32_t seeds = 3;
  for (uint32_t i = 0; i < seeds; ++i) work.offer({flagged::seed, 0, me(), 0});
  work.run();
  std::vector<uint32_t> found(flagged::n_kinds), expected(flagged::n_kinds, 0);
  gravel_copy(found.data(), visits.data(), found.size() * sizeof(uint32_t));
  expected[flagged::seed] = seeds;
  for (uint32_t i = 0; i < all; ++i) {
    const uint32_t kind = i % flagged::seed;
    if (kind == flagged::taken) expected[kind] += seeds;
    if (kind == flagged::passed && i % pes() == me()) expected[kind] += seeds * pes();
    if (kind == flagged::duplicated) expected[kind] += seeds * pes();
    if (kind == flagged::travelling) expected[kind] += seeds;                   // as many as leave each PE
    if (kind == flagged::dropped_there && pes() == 1) expected[kind] += seeds;  // its own: on_receive is not called
  }
  for (uint32_t kind = 0; kind < flagged::n_kinds; ++kind)
    expect(found[kind] == expected[kind], "flagged" + std::string(name_of(how)) + "of kind " + std::to_string(kind) +
                                              " " + std::to_string(found[kind]) + " were processed, not " +
                                              std::to_string(expected[kind]));
}

/// A deep tree that finds room, as items close to its leaves come first. Without priorities there may be room or not,
/// as warps take items in any order: then the run fails, or no item is lost. A run that begins with more items than
/// there is room for always fails.
inline void check_room() {
  constexpr uint32_t depth = GRAVEL_CUDA ? 16 : 12, room = GRAVEL_CUDA ? 1024 : 80;
  gravel::device_array<uint32_t> leaves(std::vector<uint32_t>(1, 0));
  const auto leaves_found = [&] {
    uint32_t found = 0;
    gravel_copy(&found, leaves.data(), sizeof(found));
    return found;
  };
  const deep first{me(), depth, true, leaves.data()};
  const gravel_item_options options{.ranks = 16, .capacity = room, .blocks = GRAVEL_CUDA ? 1u : 2u};
  {
    gravel_item_worklist<deep> work(first, options);
    work.offer({0});
    work.run();
    expect(leaves_found() == 1u << depth, "a deep tree had " + std::to_string(leaves_found()) + " leaves");
    expect_error("'deep' is open already", [&] { gravel_item_worklist<deep> second(first, options); });
  }
  gravel_item_worklist<deep> work({me(), depth, false, leaves.data()}, options);
  work.offer({0});
  bool found_room = true;
  try {
    work.run();
  } catch (const gravel::error&) {
    found_room = false;
  }
  const uint32_t twice = 2u << depth;
  expect(!found_room || leaves_found() == twice,
         "of " + std::to_string(twice) + " leaves " + std::to_string(leaves_found()) + " were found, without an error");
  const bool is_full = me() == pes() - 1;
  for (uint32_t i = 0; i <= options.ranks * room && is_full; ++i) work.offer({depth});
  expect_error("PE " + std::to_string(pes() - 1) + " had no room for an item", [&] { work.run(); });
  expect(is_full == (work.counts().processed != 0), "items that had room were not processed");
  work.offer({depth});  // another run begins without what is left
  work.run();
  expect(work.counts().processed == 1, "items of a run that failed were left");
}

/// In rounds a list holds all items of a round, or the run fails at all PEs; the next run begins without items.
inline void check_room_of_rounds(gravel_execution how) {
  constexpr uint32_t depth = 7, room = 64;
  gravel::device_array<uint32_t> leaves(std::vector<uint32_t>(1, 0));
  gravel_item_worklist<deep> work({me(), depth, false, leaves.data()}, {.execution = how, .capacity = room});
  if (me() == pes() - 1) work.offer({0});
  expect_error("PE " + std::to_string(pes() - 1) + " had no room for an item, with capacity = 64 in rounds",
               [&] { work.run(); });
  work.offer({1});
  work.run();
  expect(work.counts().processed == 127 && work.counts().rounds == depth, "items of a round that failed were left");
}

/// Items that move in rounds: a tree that begins at PE 0 and stays where its nodes are, unless a PE has none.
inline void check_division(gravel_execution how) {
  constexpr uint32_t depth = 7;
  std::vector<uint64_t> has(pes(), 0), moved(pes(), 0), processed(pes(), 0);
  has[0] = 1;
  for (uint32_t round = 0; round <= depth; ++round) {
    uint64_t all = 0, more = 0;
    for (const uint64_t n : has) all += n;
    const uint64_t share = (all + pes() - 1) / pes();
    for (const uint64_t n : has) more += n > share ? n - share : 0;
    if (*std::min_element(has.begin(), has.end()) == 0)
      for (uint32_t pe = 0; pe < pes(); ++pe) {
        if (has[pe] > share) moved[pe] += has[pe] - share;
        const uint64_t gets = has[pe] < share ? std::min(share - has[pe], more) : 0;
        has[pe] = std::min(has[pe], share) + gets;
        more -= gets;
      }
    for (uint32_t pe = 0; pe < pes(); ++pe) {
      processed[pe] += has[pe];
      has[pe] *= 2;
    }
  }
  gravel::device_array<uint32_t> leaves(std::vector<uint32_t>(1, 0));
  gravel_item_worklist<deep> work({me(), depth, false, leaves.data()},
                                  {.execution = how, .capacity = 256, .items_move = true});
  if (me() == 0) work.offer({0});
  work.run();
  const std::string what = "items that move" + std::string(name_of(how));
  const gravel_item_counts& found = work.counts();
  expect(found.processed == processed[me()],
         what + std::to_string(found.processed) + " were processed, not " + std::to_string(processed[me()]));
  expect(found.moved == moved[me()], what + std::to_string(found.moved) + " moved, not " + std::to_string(moved[me()]));
  expect(pes() == 1 || gravel_sum_all(found.moved) != 0, what + "none moved");
  expect(gravel_sum_all(found.sent) == gravel_sum_all(found.received), what + "items were lost");
}

inline void check_moving(gravel_execution how) {
  constexpr uint32_t all = 300;
  auto* const words = gravel_malloc<uint64_t>(2 * sizeof(uint64_t));
  {
    gravel_item_worklist<moving> work({me(), pes(), words, words + 1}, {.execution = how, .items_move = true});
    for (uint32_t i = 1; i <= all && me() == 0; ++i) work.offer({i});
    work.run();
    uint64_t found[2];
    gravel_copy(found, words, sizeof(found));
    if (me() == 0) {
      expect(found[1] == all * (all + 1) / 2, "the sum of items that moved is " + std::to_string(found[1]));
      expect((pes() > 1) == (found[0] != 0), std::to_string(found[0]) + " items were processed elsewhere");
      expect((pes() > 1) == (work.counts().moved != 0), std::to_string(work.counts().moved) + " items have moved");
    }
  }
  gravel_free(words);
}

inline void check_options() {
  using tree = gravel_item_worklist<plain<4>>;
  const plain<4> program{};
  expect_error("ranks is 33: it is 1 to 32", [] { gravel_item_worklist<by_parts> work({}, {.ranks = 33}); });
  expect_error("execution is automatic: of items it is rounds, fused or asynchronous",
               [&] { tree work(program, {.execution = gravel_execution::automatic}); });
  expect_error("capacity is 31: it is 32 to 2^30", [&] { tree work(program, {.capacity = 31}); });
  if (pes() == 1) return;
  expect_error(me() == 0 ? "capacity is 0" : "refused at another PE",
               [&] { tree work(program, {.capacity = me() == 0 ? 0u : 64u}); });
  expect_error("PEs differ in execution, ranks or items_move", [&] { tree work(program, {.items_move = me() == 0}); });
  expect_error("PEs differ in execution, ranks or items_move", [&] {
    tree work(program, {.execution = me() == 0 ? gravel_execution::rounds : gravel_execution::fused});
  });
  expect_error("PEs differ in capacity. It is the same at all PEs if items move in rounds", [&] {
    tree work(program, {.execution = gravel_execution::fused, .capacity = 64 + me(), .items_move = true});
  });
}

/// All checks; gravel_init has got the handlers of item_checks::deliveries.
inline void check_all() {
  check_options();
  check_tree<plain<4>>(100, gravel_execution::asynchronous, 3);
  check_tree<by_parts>(150);
  check_tree<plain<12>>(64);
  check_tree<plain<64>>(200);
  check_tree<packed>(100);
  check_flags(gravel_execution::asynchronous);
  check_room();
  check_moving(gravel_execution::asynchronous);
  check_limits(gravel_execution::asynchronous);
  for (const gravel_execution how : {gravel_execution::rounds, gravel_execution::fused}) {
    check_tree<plain<4>>(100, how, 2);
    check_tree<by_parts>(150, how);
    check_tree<plain<64>>(90, how);
    check_tree<packed>(70, how);
    check_flags(how);
    check_room_of_rounds(how);
    check_moving(how);
    check_division(how);
    check_limits(how);
  }
}
/// Begins a job with the handlers of all programs of this file.
inline void begin_job() {
  gravel_init<gravel_item_delivery<plain<4>>, gravel_item_delivery<by_parts>, gravel_item_delivery<plain<12>>,
              gravel_item_delivery<plain<64>>, gravel_item_delivery<packed>, gravel_item_delivery<flagged>,
              gravel_item_delivery<by_limits>, gravel_item_delivery<deep>, gravel_item_delivery<moving>>();
}

}  // namespace item_checks
