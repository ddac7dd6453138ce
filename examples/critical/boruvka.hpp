// Borůvka's minimum spanning forest: in each round every component looks for its lightest edge to another, and joins
// it. The lightest edge of a component is a record of three words, which edges offer themselves to in critical
// sections. Few components are left in the last rounds, and all edges go there.
#pragma once
#include <numeric>

#include "examples/common/mix.hpp"
#include "examples/critical/run_contest.hpp"

namespace app {
using gravel::device_array;

/// Edges of equal weight are ordered by their numbers, so there is one minimum spanning forest.
struct __attribute__((packed, aligned(4)))
edge_offer {       // 12 bytes: with a lock they make 16, which are read and written at once
  uint64_t order;  ///< weight << 32 | number of the edge
  uint32_t to;     ///< the component at its other end
};
constexpr edge_offer no_edge{~uint64_t{0}, ~0u};

struct offer_edge {
  static constexpr const char* name = "offer_edge";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(edge_offer& best, edge_offer other) const {
    if (other.order < best.order) best = other;
  }
};
struct offer_edges {
  static constexpr const char* name = "offer_edges";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(edge_offer& best, edge_offer other) const { offer_edge{}(best, other); }
  GRAVEL_HANDLER static edge_offer combine(edge_offer a, edge_offer b) { return a.order < b.order ? a : b; }
};

/// Edge number i of the whole job.
struct edge_source {
  uint64_t seed;
  uint32_t vertices;
  GRAVEL_BOTH uint32_t from(uint32_t i) const {
    return static_cast<uint32_t>(mix(seed ^ mix(uint64_t{i} << 2)) % vertices);
  }
  GRAVEL_BOTH uint32_t to(uint32_t i) const {
    return static_cast<uint32_t>(mix(seed ^ mix(uint64_t{i} << 2 | 1)) % vertices);
  }
  GRAVEL_BOTH uint32_t weight(uint32_t i) const {
    return static_cast<uint32_t>(mix(seed ^ mix(uint64_t{i} << 2 | 2)) % 1000);
  }
  GRAVEL_BOTH uint64_t order(uint32_t i) const { return uint64_t{weight(i)} << 32 | i; }
};

struct boruvka_problem {
  static constexpr const char* name = "boruvka";
  static constexpr bool combines = true, sorts = true;
  using record = edge_offer;
  using sections = gravel_critical_sections<edge_offer, offer_edge>;
  using combining = gravel_critical_sections<edge_offer, offer_edges>;
  struct input {
    edge_source edges;
    const uint32_t* component;  ///< of each vertex
    uint64_t first, n;          ///< edges of this PE
    uint32_t n_pes, my_pe;
    bool own;  ///< each PE has records for all components
    GRAVEL_BOTH uint32_t key(uint32_t c) const { return own ? c * n_pes + my_pe : c; }
  };

  using section_of_many = offer_edges;
  using argument = edge_offer;
  static uint64_t most_calls(const input& in) { return 2 * in.n; }
  /// Calls offer(key, edge) for both ends of each edge between two components.
  template <class Offer>
  GRAVEL_DEVICE static void each_call(const input& in, const Offer& offer) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      const auto edge = static_cast<uint32_t>(in.first + i);
      const uint32_t a = in.component[in.edges.from(edge)], b = in.component[in.edges.to(edge)];
      if (a == b) continue;
      const uint64_t order = in.edges.order(edge);
      offer(in.key(a), edge_offer{order, b});
      offer(in.key(b), edge_offer{order, a});
    }
  }
  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    out.begin(to);
    each_call(in, [&](uint32_t key, const edge_offer& e) {
      if constexpr (std::is_same_v<Sections, sections>) out.template call<offer_edge>(key, e);
      else out.template call<offer_edges>(key, e);
    });
    out.end();
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    each_call(in, [&](uint32_t key, const edge_offer& e) {
      auto& slot = table[key / n_pes];
      with_lock(&slot.lock, backs_off, [&] { offer_edge{}(slot.record, e); });
    });
  }
  GRAVEL_DEVICE static uint64_t* first_word(locked_record<record>& slot) { return reinterpret_cast<uint64_t*>(&slot); }
  /// The first word alone.
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    each_call(in, [&](uint32_t key, const edge_offer& e) { atomicMin(first_word(table[key / n_pes]), e.order); });
  }
};

/// Which vertices belong together.
class components {
 public:
  explicit components(uint32_t vertices) : parent_(vertices) { std::iota(parent_.begin(), parent_.end(), 0u); }
  uint32_t of(uint32_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  /// False: they did already.
  bool join(uint32_t a, uint32_t b) {
    a = of(a);
    b = of(b);
    parent_[a < b ? b : a] = a < b ? a : b;
    return a != b;
  }

 private:
  std::vector<uint32_t> parent_;
};

/// Kruskal's algorithm, by one thread.
inline std::vector<uint32_t> find_serially(const edge_source& edges, uint64_t n) {
  std::vector<uint32_t> by_weight(n), forest;
  std::iota(by_weight.begin(), by_weight.end(), 0u);
  std::sort(by_weight.begin(), by_weight.end(),
            [&](uint32_t a, uint32_t b) { return edges.order(a) < edges.order(b); });
  components together(edges.vertices);
  for (const uint32_t e : by_weight)
    if (together.join(edges.from(e), edges.to(e))) forest.push_back(e);
  std::sort(forest.begin(), forest.end());
  return forest;
}

/// The vertices' components are the same at all PEs, edges lie where they are drawn; in each round hosts join the
/// components that their lightest edges connect.
inline contest_result solve_boruvka(const contest_options& o) {
  const contest_method m = method_of(o.method);
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe()),
             n = static_cast<uint32_t>(o.keys);
  const bool own = o.own || !uses_sections(m);
  const edge_source edges{o.seed, n};
  device_array<uint32_t> component(n);
  std::vector<uint32_t> label(n), forest;
  components together(n);
  contest<boruvka_problem> run(m, own ? o.keys * n_pes : o.keys, o.blocks, o.calls_under_way, true);
  double seconds = 0;
  uint64_t wrong = 0;
  uint32_t rounds = 0;
  for (bool goes_on = true; goes_on; ++rounds) {
    for (uint32_t v = 0; v < n; ++v) label[v] = together.of(v);
    gravel_copy(component.data(), label.data(), n * sizeof(uint32_t));
    run.fill(no_edge);
    const boruvka_problem::input in{edges, component.data(), me * o.calls, o.calls, n_pes, me, own};
    run.prepare(in);
    const auto begin = std::chrono::steady_clock::now();
    run.run(in);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    // The lightest edge of each component, of what all PEs have found.
    const auto mine = run.read();
    std::vector<uint64_t> best(n, no_edge.order);
    for (uint64_t i = 0; i < mine.size(); ++i) {
      if (mine[i].order == no_edge.order) continue;
      const auto e = static_cast<uint32_t>(mine[i].order), c = static_cast<uint32_t>(own ? i : i * n_pes + me);
      best[c] = mine[i].order;
      const uint32_t a = label[edges.from(e)], b = label[edges.to(e)];  // the words of a record belong together
      wrong += m != contest_method::atomics && mine[i].to != (a == c ? b : a);
    }
    gravel_min_all(best.data(), best.data(), n);
    goes_on = false;
    for (uint32_t c = 0; c < n; ++c) {
      const auto e = static_cast<uint32_t>(best[c]);
      if (best[c] == no_edge.order || !together.join(edges.from(e), edges.to(e))) continue;
      forest.push_back(e);
      goes_on = true;
    }
  }
  std::sort(forest.begin(), forest.end());
  const uint64_t all = o.calls * n_pes;
  const std::vector<uint32_t> expected = find_serially(edges, all);
  uint64_t weight = 0;
  for (const uint32_t e : forest) weight += edges.weight(e);
  wrong += forest != expected;
  wrong = gravel_sum_all(wrong);
  const double rate = static_cast<double>(all) * rounds / seconds;
  if (me == 0)
    std::printf(
        "%s: %u PEs on %d nodes, %s backend: %u vertices, %llu edges by %s: a forest of %zu edges, weight %llu, in %u "
        "rounds\n%.4g M "
        "edges/s; %llu "
        "differences from Kruskal's algorithm\n",
        boruvka_problem::name, n_pes, gravel_n_nodes(), gravel_backend(), n, static_cast<unsigned long long>(all),
        o.method.c_str(), forest.size(), static_cast<unsigned long long>(weight), rounds, rate / 1e6,
        static_cast<unsigned long long>(wrong));
  all_succeed(boruvka_problem::name, [&] {
    if (me == 0 && !o.json.empty())
      write_json(o.json, {{"program", boruvka_problem::name},
                          {"backend", gravel_backend()},
                          {"pes", uint64_t{n_pes}},
                          {"method", o.method.c_str()},
                          {"vertices", uint64_t{n}},
                          {"edges", all},
                          {"rounds", uint64_t{rounds}},
                          {"weight", weight},
                          {"seconds", seconds},
                          {"edges_per_s", rate},
                          {"wrong", wrong},
                          {"right", wrong == 0}});
  });
  return {wrong == 0, rate};
}

}  // namespace app
