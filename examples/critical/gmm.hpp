// A mixture of Gaussians fitted by expectation maximization: points in a plane, as many round normal distributions as
// there are keys. All points add their shares to the sums of few components: records of four words that belong
// together. Shares and coordinates are whole numbers, so sums are exact.
#pragma once
#include <cmath>

#include "examples/common/mix.hpp"
#include "examples/critical/run_contest.hpp"

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::scope;

/// What points have given to a component.
struct gmm_sums {
  uint64_t weight, x, y, square;  ///< weight: in 65536ths of a point; the others times it
  GRAVEL_BOTH void add(const gmm_sums& more) {
    weight += more.weight;
    x += more.x;
    y += more.y;
    square += more.square;
  }
  bool operator==(const gmm_sums&) const = default;
};

struct gmm_add {
  static constexpr const char* name = "gmm_add";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(gmm_sums& s, gmm_sums more) const { s.add(more); }
};
struct gmm_add_many {
  static constexpr const char* name = "gmm_add_many";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(gmm_sums& s, gmm_sums more) const { s.add(more); }
  GRAVEL_HANDLER static gmm_sums combine(gmm_sums a, gmm_sums b) {
    a.add(b);
    return a;
  }
};

/// A component: its share of all points, as a logarithm, and where they lie.
struct gmm_component {
  double log_share, x, y, variance;
  GRAVEL_BOTH double log_density(double px, double py) const {
    const double dx = px - x, dy = py - y;
    return log_share - log(variance) - (dx * dx + dy * dy) / (2 * variance);
  }
};

/// Point number i of the whole job, near one of so many places. 12 bits a coordinate.
struct gmm_points {
  uint64_t seed;
  uint32_t places;
  GRAVEL_BOTH uint32_t coordinate(uint64_t i, uint32_t d) const {
    const uint64_t place = mix(seed ^ mix(i)) % places, middle = 512 + mix(seed ^ ~(place << 8 | d)) % 3072,
                   r = mix(seed ^ mix(i << 2 | d));
    return static_cast<uint32_t>(middle + (r & 0xff) + (r >> 32 & 0xff) - 256) & 0xfff;
  }
};

struct gmm_problem {
  static constexpr const char* name = "gmm";
  static constexpr bool combines = true, sorts = true;
  using record = gmm_sums;
  using sections = gravel_critical_sections<gmm_sums, gmm_add>;
  using combining = gravel_critical_sections<gmm_sums, gmm_add_many>;
  struct input {
    gmm_points points;
    const uint32_t* shares;  ///< [n][components], 65536ths
    uint64_t first, n;       ///< points of this PE
    uint32_t components, n_pes, my_pe;
    bool own;  ///< each PE has records for all components
    GRAVEL_BOTH uint32_t key(uint32_t c) const { return own ? c * n_pes + my_pe : c; }
    GRAVEL_BOTH gmm_sums given(uint64_t i, uint32_t c) const {
      const uint64_t share = shares[i * components + c], x = points.coordinate(first + i, 0),
                     y = points.coordinate(first + i, 1);
      return {share, share * x, share * y, share * (x * x + y * y)};
    }
  };

  using section_of_many = gmm_add_many;
  using argument = gmm_sums;
  static uint64_t most_calls(const input& in) { return in.n * in.components; }
  template <class Add>
  GRAVEL_DEVICE static void each_call(const input& in, const Add& add) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid())
      for (uint32_t c = 0; c < in.components; ++c)
        if (in.shares[i * in.components + c]) add(in.key(c), in.given(i, c));
  }
  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    out.begin(to);
    each_call(in, [&](uint32_t key, const gmm_sums& s) {
      if constexpr (std::is_same_v<Sections, sections>) out.template call<gmm_add>(key, s);
      else out.template call<gmm_add_many>(key, s);
    });
    out.end();
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    each_call(in, [&](uint32_t key, const gmm_sums& s) {
      auto& slot = table[key / n_pes];
      with_lock(&slot.lock, backs_off, [&] { slot.record.add(s); });
    });
  }
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    each_call(in, [&](uint32_t key, const gmm_sums& s) {
      gmm_sums& to = table[key / n_pes].record;
      fetch_add<scope::device>(&to.weight, s.weight);
      fetch_add<scope::device>(&to.x, s.x);
      fetch_add<scope::device>(&to.y, s.y);
      fetch_add<scope::device>(&to.square, s.square);
    });
  }
};

/// How much of each point belongs to which component.
template <class Points>
__global__ void find_shares(Points points, const gmm_component* model, uint32_t components, uint64_t first, uint64_t n,
                            uint32_t* shares) {
  for (uint64_t i = first_of_lane(); i < n; i += lanes_of_grid()) {
    const double x = points.coordinate(first + i, 0), y = points.coordinate(first + i, 1);
    double most = -1e300, sum = 0;
    for (uint32_t c = 0; c < components; ++c) most = fmax(most, model[c].log_density(x, y));
    for (uint32_t c = 0; c < components; ++c) sum += exp(model[c].log_density(x, y) - most);
    for (uint32_t c = 0; c < components; ++c)
      shares[i * components + c] = static_cast<uint32_t>(exp(model[c].log_density(x, y) - most) / sum * 65536 + 0.5);
  }
}

/// So many rounds. Sums are compared with those that one thread makes of the same shares; and the points' likelihood
/// must not fall.
inline contest_result solve_gmm(const contest_options& o, uint32_t rounds) {
  const contest_method m = method_of(o.method);
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe()),
             components = static_cast<uint32_t>(o.keys);
  const bool own = o.own || !uses_sections(m);
  const gmm_points points{o.seed, components};
  const uint64_t first = me * o.calls;
  std::vector<gmm_component> model;
  for (uint32_t c = 0; c < components; ++c)
    model.push_back({-std::log(components), double(points.coordinate(c, 0)), double(points.coordinate(c, 1)), 100'000});
  device_array<gmm_component> at_device(components);
  device_array<uint32_t> shares(o.calls * components);
  contest<gmm_problem> run(m, own ? o.keys * n_pes : o.keys, o.blocks, o.calls_under_way, true);
  double seconds = 0, before = -1e300;
  uint64_t wrong = 0, calls = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    gravel_copy(at_device.data(), model.data(), components * sizeof(gmm_component));
    gravel_launch(find_shares<gmm_points>, blocks_to_fill_device(), lanes_of_block, points, at_device.data(),
                  components, first, o.calls, shares.data());
    run.fill({});
    const gmm_problem::input in{points, shares.data(), first, o.calls, components, n_pes, me, own};
    run.prepare(in);
    const auto begin = std::chrono::steady_clock::now();
    run.run(in);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

    std::vector<gmm_sums> sums(components), expected(components);
    const auto mine = run.read();
    for (uint64_t i = 0; i < mine.size(); ++i) sums[own ? i : i * n_pes + me] = mine[i];
    std::vector<uint32_t> given(o.calls * components);
    gravel_copy(given.data(), shares.data(), given.size() * sizeof(uint32_t));
    double likelihood = 0;
    for (uint64_t i = 0; i < o.calls; ++i) {
      double sum = 0;
      for (uint32_t c = 0; c < components; ++c) {
        const gmm_problem::input all{points, given.data(), first, o.calls, components, n_pes, me, own};
        expected[c].add(all.given(i, c));
        calls += given[i * components + c] != 0;
        sum += std::exp(model[c].log_density(points.coordinate(first + i, 0), points.coordinate(first + i, 1)));
      }
      likelihood += std::log(sum);
    }
    for (auto* const all : {&sums, &expected}) {
      auto* const words = reinterpret_cast<uint64_t*>(all->data());
      gravel_sum_all(words, words, all->size() * sizeof(gmm_sums) / sizeof(uint64_t));
    }
    for (uint32_t c = 0; c < components; ++c) wrong += !(sums[c] == expected[c]);
    gravel_sum_all(&likelihood, &likelihood, 1);
    wrong += likelihood < before - 1e-3 * std::abs(before);
    before = likelihood;
    for (uint32_t c = 0; c < components; ++c) {
      const gmm_sums& s = expected[c];
      if (s.weight == 0) continue;  // it stays where it is
      const double w = static_cast<double>(s.weight), x = static_cast<double>(s.x) / w,
                   y = static_cast<double>(s.y) / w;
      model[c] = {std::log(w / (65536.0 * static_cast<double>(o.calls) * n_pes)), x, y,
                  std::max(1.0, (static_cast<double>(s.square) / w - x * x - y * y) / 2)};
    }
  }
  calls = gravel_sum_all(calls);
  const double rate = static_cast<double>(calls) / seconds;
  if (me == 0)
    std::printf(
        "%s: %u PEs on %d nodes, %s backend: %llu points of each PE by %s, %u components, %u rounds, log-likelihood "
        "%.6g\n%.4g M calls/s; "
        "%llu "
        "differences from sums by one thread\n",
        gmm_problem::name, n_pes, gravel_n_nodes(), gravel_backend(), static_cast<unsigned long long>(o.calls),
        o.method.c_str(), components, rounds, before, rate / 1e6, static_cast<unsigned long long>(wrong));
  all_succeed(gmm_problem::name, [&] {
    if (me == 0 && !o.json.empty())
      write_json(o.json, {{"program", gmm_problem::name},
                          {"backend", gravel_backend()},
                          {"pes", uint64_t{n_pes}},
                          {"method", o.method.c_str()},
                          {"components", uint64_t{components}},
                          {"points", o.calls * n_pes},
                          {"rounds", uint64_t{rounds}},
                          {"log_likelihood", before},
                          {"calls", calls},
                          {"seconds", seconds},
                          {"calls_per_s", rate},
                          {"wrong", wrong},
                          {"right", wrong == 0}});
  });
  return {wrong == 0, rate};
}

}  // namespace app
