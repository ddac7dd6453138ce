// The state word of vertices by table; the kernels of lib/worklist under seeded schedules, on graphs so small that
// lists overflow, hubs are cut up and limits move on: after each kernel every vertex that waits is in the list that
// fits its key, once, and at the end all keys are what a serial run finds.
#include "lib/worklist/worklist.cuh"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "device/simt.hpp"
#include "examples/worklists/check_search.cuh"
#include "lib/base/mix.hpp"
#include "lib/graph/graph.hpp"
#include "test/support/catch.hpp"
#include "test/support/seeds.hpp"

using namespace app;
using namespace gravel::detail;

namespace {

/// Distances of whole-numbered lengths. `times`: how often each vertex was expanded; `followers`, if there: for each
/// edge a bit for each warp that followed it.
struct walk {
  static constexpr const char* name = "walk";
  using state = least_keys;
  state vertices;
  const uint32_t* lengths;
  uint32_t* times;
  uint32_t delta;  ///< 0: all are near; never: the limit does not move by itself
  uint64_t* followers = nullptr;
  static constexpr uint32_t never = ~0u;

  GRAVEL_DEVICE uint32_t begin(uint32_t v, uint32_t key, uint64_t) const {
    atomicAdd(&times[v], 1u);
    return key;
  }
  GRAVEL_DEVICE uint32_t along(uint32_t from, uint64_t edge) const {
    if (followers)
      atomicOr(reinterpret_cast<unsigned long long*>(&followers[edge]),
               1ull << (blockIdx.x * blockDim.x + threadIdx.x) / 32);
    return from + lengths[edge];
  }
  GRAVEL_BOTH uint32_t limit_after(uint32_t key) const {
    if (delta == never) return key;
    return delta == 0 || key >= least_keys::unreached - delta ? least_keys::unreached : key + delta;
  }
  GRAVEL_BOTH uint32_t rank_of(uint32_t key) const { return delta == 0 ? 0 : key / delta; }
};

struct problem {
  csr rows;
  std::vector<uint32_t> targets, lengths;

  explicit problem(const edge_list& list) : rows(make_csr(list)), targets(rows.targets.begin(), rows.targets.end()) {
    for (const double w : rows.weights) lengths.push_back(static_cast<uint32_t>(w));
    lengths.resize(targets.size(), 1);
  }
  static problem weighted(edge_list list) {
    assign_weights(list, 255, 3);
    return problem(list);
  }
  /// Distances of all vertices from `source`; only vertices below `own` pass anything on.
  std::vector<uint32_t> solve(uint32_t source, uint64_t own) const {
    std::vector<uint32_t> key(rows.rows(), least_keys::unreached);
    using entry = std::pair<uint32_t, uint32_t>;
    std::priority_queue<entry, std::vector<entry>, std::greater<>> next;
    key[source] = 0;
    for (next.emplace(0, source); !next.empty();) {
      const auto [here, v] = next.top();
      next.pop();
      if (here != key[v] || v >= own) continue;
      for (uint64_t e = rows.offsets[v]; e < rows.offsets[v + 1]; ++e)
        if (here + lengths[e] < key[targets[e]]) next.emplace(key[targets[e]] = here + lengths[e], targets[e]);
    }
    return key;
  }
};

/// Memory that the asynchronous kernel needs beside a rig.
struct channels_of_ranks {
  std::vector<char> memory;
  asynchronous_words words{};
  asynchronous_view view{};

  channels_of_ranks(uint32_t ranks, uint32_t capacity, uint32_t pieces_room) {
    view.words = &words;
    view.n_ranks = ranks;
    view.capacity = capacity;
    view.slack = 8;
    view.pieces_room = pieces_room;
    view.stride = channel<uint32_t>::bytes(capacity);
    memory.resize(view.stride * ranks + channel<edge_piece>::bytes(pieces_room) + 128);
    view.memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 127) / 128 * 128);
    view.piece_memory = view.memory + view.stride * ranks;
    for (uint32_t r = 0; r < ranks; ++r) view.of(r).state().room = capacity;
    if (pieces_room) view.pieces().state().room = pieces_room;
    words.allowed = no_rank;
  }
};

/// A worklist of one PE without a job: the first `own` vertices are its own, the others ghosts.
struct rig {
  const problem& p;
  uint64_t own, seed;
  std::vector<uint32_t> words, lists, times;
  std::vector<hub_piece> hubs;
  worklist_words shared{};
  block_report reports[2][most_rendezvous_blocks]{};
  worklist_view<walk> view{};
  uint32_t left_fused = 0, hub_rounds = 0, advances = 0;

  rig(const problem& problem_, uint64_t own_, uint32_t delta, uint64_t seed_)
      : p(problem_),
        own(own_),
        seed(seed_),
        words(p.rows.rows(), least_keys::initial_word),
        lists(4 * own + p.rows.rows()),
        times(own),
        hubs(p.targets.size() / hub_edges + p.targets.size() / piece_edges + 1) {
    view.program = {{words.data()}, p.lengths.data(), times.data(), delta};
    view.graph = {p.rows.offsets.data(), p.targets.data(), nullptr, vertex_code{1}, own, p.rows.rows() - own};
    for (uint64_t i = 0; i < 2; ++i) {
      view.near[i] = lists.data() + i * own;
      view.far[i] = lists.data() + (2 + i) * own;
    }
    view.remote = lists.data() + 4 * own;
    view.hubs = hubs.data();
    view.words = &shared;
    view.reports = reports;
    shared.limit = view.program.limit_after(0);
    shared.least = ~0u;
  }

  void launch(unsigned grid, unsigned block, bool cooperative, const std::function<void()>& kernel) {
    simt::launch_options how{};
    how.seed = seed = mix(seed + 1) | 1;
    how.threads = 2;
    how.cooperative = cooperative;
    simt::launch(grid, block, how, kernel);
  }
  void grid_round() {
    launch(3, 32, false, [this] { expand_near(view); });
    hub_rounds += shared.hub_size != 0;
    launch(2, 64, false, [this] { expand_hubs(view); });
    launch(1, 1, false, [this] { turn_over(view); });
    check_lists();
  }
  void fused_rounds(unsigned blocks, fused_limits how) {
    launch(blocks, fused_threads, true, [this, how] { run_rounds(view, how); });
    launch(1, 1, false, [this] { turn_over_fused(view); });
    check_lists();
  }
  uint32_t near() const { return shared.near_size[shared.near_turn]; }
  uint32_t far() const { return shared.far_size[shared.far_turn]; }

  void work(uint32_t source, bool fused, unsigned blocks = 2) {
    launch(1, 32, false, [&] { offer_one(view, source, 0); });
    check_lists();
    while (near() || far()) {
      const uint32_t room = blocks * local_entries * 3 / 4;
      if (fused && near() <= room) {
        fused_rounds(blocks, {room, 1u << 24, true, true});
        if (near()) {
          ++left_fused;
          grid_round();
        } else REQUIRE(far() == 0);
      } else if (near()) {
        grid_round();
      } else {
        advance();
      }
    }
  }
  /// By the asynchronous kernel; what finds no room by rounds of the grid.
  void work_without_rounds(uint32_t source, channels_of_ranks& channels, unsigned blocks) {
    gravel_t g{};
    g.n_pes = 1;
    launch(1, 32, false, [&] { offer_one(view, source, 0); });
    launch(1, 32, false, [&] { lists_to_ranks(view, channels.view); });
    shared.near_size[shared.near_turn] = shared.far_size[shared.far_turn] = 0;
    launch(blocks, 64, true, [&] { work_asynchronously(g, view, channels.view); });
    REQUIRE(channels.words.pending == 0);
    for (uint32_t r = 0; r < channels.view.n_ranks; ++r) REQUIRE(channels.view.of(r).waiting() == 0);
    if (channels.words.overflows) launch(2, 32, false, [&] { collect_waiting(view); });
    check_lists();
    while (near() || far()) near() ? grid_round() : advance();
  }
  void advance() {
    launch(1, 32, false, [this] { find_least(view); });
    REQUIRE(shared.least >= shared.limit);
    if (shared.least == ~0u) {  // all entries were stale
      shared.far_size[shared.far_turn] = 0;
      return;
    }
    const uint32_t limit = std::max(view.program.limit_after(shared.least), shared.least + 1);
    launch(2, 32, false, [&] { split_far(view, limit); });
    launch(1, 1, false, [&] { set_limit(view, limit); });
    ++advances;
    REQUIRE(near() > 0);
    check_lists();
  }

  /// How often `list` has each vertex: once at most.
  std::vector<bool> members(const uint32_t* list, uint32_t size, const char* what) const {
    std::vector<bool> has(words.size());
    REQUIRE(size <= words.size());
    for (uint32_t i = 0; i < size; ++i) {
      INFO(what << " has vertex " << list[i]);
      REQUIRE(list[i] < words.size());
      if (has[list[i]]) FAIL("twice");
      has[list[i]] = true;
    }
    return has;
  }
  void check_lists() const {
    const auto is_near = members(view.near[shared.near_turn], near(), "near"),
               is_far = members(view.far[shared.far_turn], far(), "far"),
               is_remote = members(view.remote, shared.remote_size, "remote");
    for (uint64_t v = 0; v < words.size(); ++v) {
      if (!least_keys::waits(words[v])) continue;
      bool listed;
      if (v >= own) listed = is_remote[v];
      else listed = least_keys::key_of(words[v]) < shared.limit ? is_near[v] : is_far[v];
      if (!listed) FAIL("vertex " << v << " waits and is in no list");
    }
    for (uint32_t i = 0; i < near(); ++i) REQUIRE(view.near[shared.near_turn][i] < own);
    for (uint32_t i = 0; i < shared.remote_size; ++i) REQUIRE(view.remote[i] >= own);
  }
  void check_result(uint32_t source) {
    const std::vector<uint32_t> expected = p.solve(source, own);
    uint64_t expanded = 0, edges = 0;
    for (uint64_t v = 0; v < words.size(); ++v) {
      INFO("vertex " << v);
      REQUIRE(least_keys::key_of(words[v]) == expected[v]);
      REQUIRE(least_keys::waits(words[v]) ==
              (v >= own && expected[v] != least_keys::unreached));  // ghosts are not sent here
      if (v >= own) continue;
      REQUIRE((times[v] > 0) == (expected[v] != least_keys::unreached));
      expanded += times[v];
      edges += times[v] * p.rows.degree(v);
    }
    REQUIRE(shared.expanded == expanded);
    REQUIRE(shared.edges == edges);
  }
};

problem star(uint64_t leaves) {
  edge_list list;
  list.vertices = leaves + 1;
  for (uint64_t v = 1; v <= leaves; ++v) {
    list.edges.push_back({0, v});
    list.edges.push_back({v, 0});
  }
  list.total_edges = list.edges.size();
  return problem::weighted(list);
}

}  // namespace

TEST_CASE("what an offer does to a vertex") {
  using enum listing;
  constexpr uint32_t limit = 100, last = least_keys::unreached - 1;
  const auto word = [](uint32_t key, bool waits) { return least_keys::word_of(key, waits); };
  struct {
    const char* who;
    uint32_t old, key, limit;
    listing found;
  } const table[] = {
      {"nobody knew it, near", least_keys::initial_word, 99, limit, near},
      {"nobody knew it, at the limit", least_keys::initial_word, 100, limit, far},
      {"nobody knew it, the greatest key", least_keys::initial_word, last, limit, far},
      {"nobody knew it, the greatest key, no limit", least_keys::initial_word, last, least_keys::unreached, near},
      {"a ghost", least_keys::initial_word, last, ~0u, near},
      {"a ghost that waits", word(last, true), 5, ~0u, none},
      {"waits near", word(50, true), 40, limit, none},
      {"waits near, the same key", word(50, true), 50, limit, none},
      {"waits near, a greater key", word(50, true), 60, limit, none},
      {"waits far, still far", word(200, true), 150, limit, none},
      {"waits far, near now", word(200, true), 99, limit, near},
      {"waits far, the same key", word(200, true), 200, limit, none},
      {"was taken, a lesser key", word(50, false), 49, limit, near},
      {"was taken with this key", word(50, false), 50, limit, none},
      {"was taken with a lesser key", word(50, false), 51, limit, none},
      {"was taken before the limit fell: far", word(300, false), 200, limit, far},
      {"was taken with 0", word(0, false), 0, limit, none},
      {"the least key", word(1, false), 0, limit, near},
      {"nothing is near", least_keys::initial_word, 0, 0, far},
  };
  for (const auto& row : table) {
    INFO(row.who);
    CHECK(least_keys::place_of(row.old, row.key, row.limit) == row.found);
    // And the same from a vertex.
    uint32_t w = row.old, key = 0;
    const least_keys state{&w};
    const bool may = state.may_take(0, row.key);
    CHECK(state.offer(0, row.key, row.limit) == row.found);
    CHECK(may == (w != row.old));
    CHECK(least_keys::key_of(w) == std::min(row.key, least_keys::key_of(row.old)));
    CHECK(least_keys::waits(w) == (least_keys::waits(row.old) || row.key < least_keys::key_of(row.old)));
    const bool waited = least_keys::waits(w);
    CHECK(state.take(0, &key) == waited);
    CHECK(key == std::min(row.key, least_keys::key_of(row.old)));
    CHECK_FALSE(state.take(0, &key));
    CHECK_FALSE(least_keys::waits(w));
  }
  uint32_t w = least_keys::initial_word;
  for (const uint32_t key : {least_keys::unreached, ~0u}) {
    CHECK_FALSE(least_keys{&w}.may_take(0, key));
    CHECK(least_keys{&w}.offer(0, key, ~0u) == none);
    CHECK(w == least_keys::initial_word);
  }
}

TEST_CASE("an offer by ranks lists a vertex that waits under another rank again") {
  const auto rank = [](uint32_t key) { return key / 10; };
  uint32_t w = least_keys::initial_word, key = 0;
  const least_keys state{&w};
  CHECK(state.offer_ranked(0, 25, rank) == listing::near);
  CHECK(state.offer_ranked(0, 25, rank) == listing::none);
  CHECK(state.offer_ranked(0, 21, rank) == listing::none);
  CHECK(state.offer_ranked(0, 19, rank) == listing::near);
  CHECK(state.take(0, &key));
  CHECK(key == 19);
  CHECK_FALSE(state.take(0, &key));
  CHECK(state.offer_ranked(0, 19, rank) == listing::none);
  CHECK(state.offer_ranked(0, 18, rank) == listing::near);
  CHECK(state.offer_ranked(0, least_keys::unreached, rank) == listing::none);
}

TEST_CASE("the least key offered stays, and each listing is taken once, while lanes offer and take") {
  constexpr uint32_t vertices = 7, lanes = 64, limit = 500;
  for (uint64_t seed = 1; seed <= of_seeds(300); ++seed) {
    INFO("seed " << seed);
    std::vector<uint32_t> words(vertices, least_keys::initial_word), least(vertices, least_keys::unreached),
        listed(vertices), taken(vertices);
    std::vector<std::vector<uint32_t>> keys(vertices);
    simt::launch_options how{};
    how.seed = seed;
    simt::launch(1, lanes, how, [&] {
      const least_keys state{words.data()};
      for (uint32_t i = 0; i < 6; ++i) {
        const uint64_t random = mix(seed << 20 | threadIdx.x << 8 | i);
        const auto v = static_cast<uint32_t>(random % vertices), key = static_cast<uint32_t>(random >> 32) % 1000;
        uint32_t got;
        if (random / vertices % 3 == 0) {
          if (state.take(v, &got)) {
            ++taken[v];
            keys[v].push_back(got);
          }
          continue;
        }
        if (key < least[v]) least[v] = key;
        listed[v] += state.offer(v, key, limit) != listing::none;
      }
    });
    for (uint32_t v = 0; v < vertices; ++v) {
      INFO("vertex " << v);
      REQUIRE(least_keys::key_of(words[v]) == least[v]);
      // One that was moved from far to near has an entry in both, and is taken once.
      REQUIRE(taken[v] + least_keys::waits(words[v]) <= listed[v]);
      REQUIRE(listed[v] <= 2 * (taken[v] + least_keys::waits(words[v])));
      REQUIRE(std::is_sorted(keys[v].rbegin(), keys[v].rend()));
      REQUIRE(std::adjacent_find(keys[v].begin(), keys[v].end()) == keys[v].end());
    }
  }
}

TEST_CASE("sums lose nothing, and list a vertex once when they reach the threshold") {
  constexpr uint32_t vertices = 5, lanes = 64;
  for (uint64_t seed = 1; seed <= of_seeds(200); ++seed) {
    INFO("seed " << seed);
    std::vector<float> words(vertices);
    std::vector<float> given(vertices), taken(vertices);
    std::vector<int> waiting(vertices);
    bool twice = false;
    simt::launch_options how{};
    how.seed = seed;
    simt::launch(1, lanes, how, [&] {
      const float_sums state{words.data(), 8.0f};
      for (uint32_t i = 0; i < 6; ++i) {
        const uint64_t random = mix(seed << 20 | threadIdx.x << 8 | i);
        const auto v = static_cast<uint32_t>(random % vertices);
        const auto part = static_cast<float>(random >> 40 & 3);
        given[v] += part;
        if (state.offer(v, part, 0) == listing::near) twice |= ++waiting[v] > 1;
        if (random >> 50 & 1 && waiting[v] > 0) {
          --waiting[v];
          float sum = 0;
          const bool got = state.take(v, &sum);
          taken[v] += sum;
          twice |= !got || sum < 8;
        }
      }
    });
    REQUIRE_FALSE(twice);
    for (uint32_t v = 0; v < vertices; ++v) {
      REQUIRE(given[v] == taken[v] + words[v]);
      REQUIRE((words[v] >= 8) == (waiting[v] == 1));
    }
  }
}

TEST_CASE("shortest paths by rounds of the grid, and by many rounds in one kernel") {
  const problem problems[] = {problem::weighted(road_grid(16, 12, 0.8, 2, {.undirected = true})),
                              problem::weighted(rmat(6, 8, 2, {.undirected = true})),
                              problem(rmat(7, 4, 5, {.undirected = true})), problem::weighted(mesh(8, 6, 1))};
  uint32_t left_fused = 0, advances = 0;
  for (const problem& p : problems)
    for (uint64_t seed = 1; seed <= of_seeds(6); ++seed)
      for (const uint32_t delta : {0u, 1u, 90u, 100000u})
        for (const bool fused : {false, true}) {
          INFO("vertices " << p.rows.rows() << ", seed " << seed << ", delta " << delta
                           << (fused ? ", fused" : ", rounds"));
          if (delta == 1 && (seed > 1 || p.rows.rows() > 100)) continue;
          rig r(p, p.rows.rows(), delta, seed);
          r.work(1, fused, 1 + seed % 3);
          r.check_result(1);
          left_fused += r.left_fused;
          advances += r.advances;
        }
  CHECK(left_fused > 0);  // lists found no room in shared memory
  CHECK(advances > 0);
}

TEST_CASE("rows, edges and ghosts that cannot be are found before anything is written by them") {
  const std::vector<uint64_t> own_of{3, 5};
  const std::vector<uint64_t> offsets{0, 2, 2, 4};
  const std::vector<uint32_t> targets{1, 3, 4, 2}, ghosts{vertex_code{4}.code(1, 4), vertex_code{4}.code(1, 0)};
  const auto faults = [&](std::vector<uint64_t> rows, std::vector<uint32_t> ends, std::vector<uint32_t> others) {
    graph_faults found;
    const worklist_graph g{rows.data(), ends.data(), others.data(), vertex_code{4}, 3, others.size()};
    simt::launch_options how{};
    simt::launch(2, 32, how, [&] { find_faults(g, ends.size(), own_of.data(), 2, &found); });
    return found;
  };
  const graph_faults none = faults(offsets, targets, ghosts);
  CHECK((none.row == graph_faults::none && none.edge == graph_faults::none && none.ghost == graph_faults::none));
  CHECK(faults({0, 2, 1, 4}, targets, ghosts).row == 1);
  CHECK(faults({0, 2, 5, 4}, targets, ghosts).row == 1);
  CHECK(faults({9, 2, 2, 4}, targets, ghosts).row == 0);
  CHECK(faults(offsets, {1, 3, 5, 9}, ghosts).edge == 2);
  CHECK(faults(offsets, {1, ~0u, 4, 2}, ghosts).edge == 1);
  CHECK(faults(offsets, targets, {ghosts[0], vertex_code{4}.code(1, 5)}).ghost == 1);
  CHECK(faults(offsets, targets, {vertex_code{4}.code(2, 0), ghosts[1]}).ghost == 0);
}

TEST_CASE("edges of length 0 in circles come to an end") {
  edge_list list = road_grid(5, 4, 1, 1, {.undirected = true});
  list.weights.assign(list.edges.size(), 0);
  const problem p(list);
  for (const bool fused : {false, true}) {
    rig r(p, p.rows.rows(), 10, 3);
    r.work(7, fused);
    r.check_result(7);
    CHECK(r.shared.expanded == 20);
  }
}

TEST_CASE("a limit that the program does not move moves on by one") {
  const problem p = problem::weighted(road_grid(5, 4, 1, 1, {.undirected = true}));
  for (const bool fused : {false, true}) {
    rig r(p, p.rows.rows(), walk::never, 3);
    r.work(7, fused);
    r.check_result(7);
    CHECK(r.shared.expanded == 20);
  }
}

TEST_CASE("hubs are left to the grid, in pieces") {
  for (const uint64_t leaves : {hub_edges - 1, hub_edges, piece_edges + 1}) {
    const problem p = star(leaves);
    for (const bool fused : {false, true}) {
      INFO(leaves << " leaves" << (fused ? ", fused" : ", rounds"));
      rig r(p, p.rows.rows(), 0, 1);
      r.work(3, fused);
      r.check_result(3);
      CHECK((r.hub_rounds > 0) == (leaves >= hub_edges));
    }
  }
}

TEST_CASE("without rounds hubs are worked on by several warps, and what finds no room by the one that took them") {
  edge_list list = rmat(5, 8, 2, {.undirected = true});
  for (uint64_t i = 0; i < 1500; ++i) {
    list.edges.push_back({3, i % 32});
    list.edges.push_back({i % 32, 9});
  }
  list.total_edges = list.edges.size();
  const problem two_hubs = problem::weighted(list), one_hub = star(1500), none = star(hub_edges - 1);
  for (const problem* const p : {&two_hubs, &one_hub, &none}) {
    uint32_t several = 0;
    for (uint64_t seed = 1; seed <= of_seeds(6); ++seed)
      for (const uint32_t room : {0u, 1u, 3u, 40u}) {
        INFO(p->rows.rows() << " vertices, seed " << seed << ", room for " << room << " pieces");
        rig r(*p, p->rows.rows(), 90, seed);
        std::vector<uint64_t> followers(p->targets.size());
        r.view.program.followers = followers.data();
        channels_of_ranks channels(4, 64, room);
        r.work_without_rounds(3, channels, 3);
        r.check_result(3);
        uint64_t edges = 0, warps = 0;
        for (uint64_t v = 0; v < p->rows.rows(); ++v)
          for (uint64_t e = p->rows.offsets[v]; e < p->rows.offsets[v + 1]; ++e) {
            edges += r.times[v] != 0 && followers[e] == 0;
            if (p->rows.degree(v) >= hub_edges) warps |= followers[e];
          }
        CHECK(edges == 0);  // that nobody followed
        CHECK((r.shared.pieces > 0) == (p != &none && room > 0));
        several += room == 40 && (warps & (warps - 1)) != 0;
      }
    CHECK((several > 0) == (p != &none));
  }
}

TEST_CASE("ghosts wait in the remote list, each once, with the best that this PE has for them") {
  const problem p = problem::weighted(road_grid(12, 12, 1, 2, {.undirected = true}));
  for (uint64_t seed = 1; seed <= of_seeds(4); ++seed)
    for (const bool fused : {false, true}) {
      rig r(p, 100, 200, seed);
      r.work(5, fused);
      r.check_result(5);
      uint64_t offered = 0;
      for (uint64_t v = r.own; v < p.rows.rows(); ++v)
        offered += least_keys::key_of(r.words[v]) != least_keys::unreached;
      CHECK(r.shared.remote_size == offered);
      CHECK(offered == 12);
    }
}

TEST_CASE("priorities save work on a road-like grid") {
  const problem p = problem::weighted(road_grid(40, 30, 0.9, 4, {.undirected = true}));
  for (const bool fused : {false, true}) {
    uint64_t expanded[2];
    for (const bool priorities : {false, true}) {
      rig r(p, p.rows.rows(), priorities ? 255 : 0, 9);
      r.work(620, fused);
      r.check_result(620);
      expanded[priorities] = r.shared.expanded;
    }
    INFO(expanded[0] << " without priorities, " << expanded[1] << " with them");
    CHECK(expanded[1] < expanded[0]);
  }
}

TEST_CASE("the check by Graph500's rules accepts a search, and finds every mistake that is planted") {
  edge_list list = rmat(6, 8, 5, {.undirected = true});
  for (uint64_t i = 0; i < 100; ++i) {  // a long row
    list.edges.push_back({1, i % 50});
    list.edges.push_back({i % 50, 1});
  }
  list.total_edges = list.edges.size();
  list.vertices += 2;  // that nothing reaches
  const problem p(list);
  const uint64_t n = p.rows.rows(), source = 5;
  rig r(p, n, 0, 3);
  r.work(source, false);
  r.check_result(source);
  const std::vector<uint32_t> words = r.words;
  std::vector<uint32_t> levels = words, parents(n, no_parent);
  bits_view bits{};
  bits.own = n;
  bits.parents = parents.data();
  bits.levels = levels.data();
  std::vector<row_part> parts(n + p.targets.size() / row_piece);
  uint32_t n_parts = 0;
  r.launch(2, 32, false, [&] { scan_for_parents(r.view, bits, source, parts.data(), &n_parts); });
  CHECK(n_parts > 0);
  r.launch(2, 32, false, [&] { search_long_rows(r.view, bits, parts.data(), &n_parts); });
  const auto mistakes = [&](uint64_t from) {
    uint64_t counts[4] = {};
    r.launch(2, 32, false, [&] { check_search(r.view, bits, from, counts); });
    return counts[0];
  };
  REQUIRE(mistakes(source) == 0);
  const std::vector<uint32_t> right = parents;
  const auto level = [&](uint64_t v) { return least_keys::key_of(words[v]); };
  const auto vertex = [&](auto condition) {
    for (uint32_t v = 0; v < n; ++v)
      if (condition(v)) return v;
    FAIL("no vertex for this");
    return 0u;
  };
  const auto is_neighbour = [&](uint64_t v, uint32_t u) {
    return std::count(p.targets.begin() + static_cast<int64_t>(p.rows.offsets[v]),
                      p.targets.begin() + static_cast<int64_t>(p.rows.offsets[v + 1]), u) > 0;
  };
  const auto found = [&](uint32_t v) { return level(v) != least_keys::unreached; };
  const auto with_parent = [&](uint32_t v, uint32_t parent) {
    parents[v] = parent;
    const uint64_t count = mistakes(source);
    parents = right;
    return count;
  };
  const auto with_word = [&](uint32_t v, uint32_t word) {
    levels[v] = r.words[v] = word;
    const uint64_t count = mistakes(source);
    levels = r.words = words;
    return count;
  };
  const uint32_t deep = vertex([&](uint32_t v) { return found(v) && level(v) == 2; });
  CHECK(with_parent(deep, no_parent) > 0);
  CHECK(with_parent(deep, vertex([&](uint32_t u) { return found(u) && level(u) == 1 && !is_neighbour(deep, u); })) >
        0);                         // no edge
  for (uint32_t v = 0; v < n; ++v)  // a neighbour, but of the same level: circles would be such
    for (uint32_t u = 0; u < n && found(v) && v != source; ++u)
      if (level(u) == level(v) && is_neighbour(v, u) && with_parent(v, u) == 0) FAIL("parent " << u << " of " << v);
  for (const uint32_t wrong : {0u, level(deep) + 2, least_keys::unreached})
    CHECK(with_word(deep, least_keys::word_of(wrong, false)) > 0);
  CHECK(with_word(deep, words[deep] | 1) > 0);  // still waits
  CHECK(with_word(vertex([&](uint32_t v) { return !found(v) && p.rows.degree(v) == 0; }),
                  least_keys::word_of(1, false)) > 0);
  CHECK(with_word(source, least_keys::word_of(1, false)) > 0);
  CHECK(mistakes(deep) > 0);  // from another source
  levels[deep] = least_keys::word_of(1, false);
  CHECK(mistakes(source) > 0);  // levels that are not the worklist's
}

TEST_CASE("blocks are as many as the device has multiprocessors for") {
  for (const uint32_t m : {4u, 16u, 66u, 108u, 132u, 148u}) {
    const device_blocks of{m};
    CHECK(of.for_vertices(0) == 1);
    CHECK(of.for_vertices(vertex_threads + 1) == 2);
    CHECK(of.for_vertices(~0u) == 8 * m);
    CHECK(of.resident(true, false) == m);
    CHECK(of.resident(false, true) == 2 * m);
    CHECK(of.resident(false, false) == m / 2);
  }
  CHECK(device_blocks{1}.resident(false, false) == 1);
  CHECK(device_blocks{0}.for_vertices(~0u) == 2);
  CHECK(device_blocks{0}.resident(true, false) == 3);
}
