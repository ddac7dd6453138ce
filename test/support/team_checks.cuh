// Teams and their collectives, checked against what they must give, for test/jobs/collectives_job.cu.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gravel/collective.cuh>
#include "test/support/error_of.hpp"

namespace team_checks {

constexpr unsigned threads = 64;

/// An element as a number, and a number as an element. Numbers are small, so all types have them exactly.
template <class T>
T element_of(double number) {
  if constexpr (std::is_same_v<T, gravel_half> || std::is_same_v<T, gravel_bfloat16>)
    return T::from_float(static_cast<float>(number));
  else return static_cast<T>(static_cast<int>(number));
}
/// -0 is 0.
template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (std::is_arithmetic_v<T>) return a == b;
  else return a.to_float() == b.to_float();
}
/// What member `of` of a team contributes as element i of a round. Negative ones wrap around in unsigned types.
inline int number_of(int of, uint64_t i, int round) {
  return static_cast<int>((static_cast<uint64_t>(of) * 7 + i * 3 + static_cast<uint64_t>(round)) % 5) - 1;
}
/// The result of numbers, as a number of 32 bits.
inline int combined(gravel_reduction how, int a, int b) {
  switch (how) {
    case GRAVEL_SUM: return a + b;
    case GRAVEL_PROD: return a * b;
    case GRAVEL_MIN: return b < a ? b : a;
    case GRAVEL_MAX: return a < b ? b : a;
    case GRAVEL_AND: return a & b;
    case GRAVEL_OR: return a | b;
    case GRAVEL_XOR: return a ^ b;
  }
  return 0;
}

enum class who { block, warp, lane };

/// Calls as a block, a warp or a lane do; other threads go on. Thread scope: block.
template <class Block, class Warp, class Lane>
GRAVEL_DEVICE void call_as(who scope, Block block, Warp warp, Lane lane) {
  if (scope == who::block) block();
  else if (scope == who::warp && threadIdx.x < 32) warp();
  else if (scope == who::lane && threadIdx.x == 0) lane();
}

/// `rounds` reductions without a wait between them, each of arrays of its own.
template <gravel_reduction HOW, class T>
__global__ void reduce(gravel_t g, gravel_team_t team, who scope, T* to, const T* from, uint64_t count, int rounds,
                       bool scatters) {
  const uint64_t step = scatters ? count * team.n_pes : count;
  for (int round = 0; round < rounds; ++round) {
    const auto r = static_cast<uint64_t>(round);
    if (scatters)
      call_as(
          scope, [&] { gravel_reduce_scatter_block<HOW>(g, team, to + r * count, from + r * step, count); },
          [&] { gravel_reduce_scatter_warp<HOW>(g, team, to + r * count, from + r * step, count); },
          [&] { gravel_reduce_scatter_lane<HOW>(g, team, to + r * count, from + r * step, count); });
    else
      call_as(
          scope, [&] { gravel_reduce_all_block<HOW>(g, team, to + r * count, from + r * step, count); },
          [&] { gravel_reduce_all_warp<HOW>(g, team, to + r * count, from + r * step, count); },
          [&] { gravel_reduce_all_lane<HOW>(g, team, to + r * count, from + r * step, count); });
  }
}
/// Broadcasts, exchanges, and a token that goes around by plain stores or puts between syncs and barriers.
/// `to`: [rounds][count + 2 * count * members], `token`: [members].
template <int = 0>
__global__ void exchange(gravel_t g, gravel_team_t team, who scope, uint32_t* to, const uint32_t* from, uint64_t count,
                         int rounds, uint64_t* token, uint64_t* wrong) {
  const uint64_t n = team.n_pes, step = count + 2 * count * n;
  for (int round = 0; round < rounds; ++round) {
    const auto r = static_cast<uint64_t>(round);
    uint32_t *const sent = to + r * step, *const gathered = sent + count, *const parts = gathered + count * n;
    const uint32_t* const mine = from + r * count * n;
    const int root = round % static_cast<int>(n);
    call_as(
        scope,
        [&] {
          gravel_broadcast_block(g, team, sent, mine, count, root);
          gravel_allgather_block(g, team, gathered, mine, count);
          gravel_alltoall_block(g, team, parts, mine, count);
        },
        [&] {
          gravel_broadcast_warp(g, team, sent, mine, count, root);
          gravel_allgather_warp(g, team, gathered, mine, count);
          gravel_alltoall_warp(g, team, parts, mine, count);
        },
        [&] {
          gravel_broadcast_lane(g, team, sent, mine, count, root);
          gravel_allgather_lane(g, team, gathered, mine, count);
          gravel_alltoall_lane(g, team, parts, mine, count);
        });
    if (threadIdx.x == 0)
      for (uint32_t member = 0; member < n; ++member)
        gravel_put(g, &token[team.my_pe], r + 1,
                   gravel_team_translate_pe(g, team, static_cast<int>(member), gravel_team_world(g)));
    call_as(
        scope, [&] { gravel_barrier_block(g, team); }, [&] { gravel_barrier_warp(g, team); },
        [&] { gravel_barrier_lane(g, team); });
    if (threadIdx.x == 0)
      for (uint32_t member = 0; member < n; ++member)
        if (gravel::load_acquire<gravel::scope::system>(&token[member]) != r + 1) gravel_inc(g, wrong, gravel_my_pe(g));
    call_as(
        scope, [&] { gravel_sync_block(g, team); }, [&] { gravel_sync_warp(g, team); },
        [&] { gravel_sync_lane(g, team); });
  }
}
/// Block 0 reduces over one team and block 1 over another, at the same time.
template <int = 0>
__global__ void reduce_both(gravel_t g, gravel_team_t x, gravel_team_t y, uint64_t* sums, int rounds) {
  const gravel_team_t team = blockIdx.x ? y : x;
  __shared__ uint64_t value, sum;
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    if (threadIdx.x == 0) value = static_cast<uint64_t>(round) * 100 + static_cast<uint64_t>(gravel_my_pe(g));
    __syncthreads();
    gravel_reduce_all_block(g, team, &sum, &value, 1);
    if (threadIdx.x == 0) sums[static_cast<int>(blockIdx.x) * rounds + round] = sum;
  }
}

class checker {
 public:
  template <class Expect>
  explicit checker(Expect expect) : expect_(expect) {}

  /// `rounds` reductions without a wait between them, by a block, a warp or a lane in turn.
  template <gravel_reduction HOW, class T>
  void reductions(const gravel_team_t& team, const char* name, uint64_t count, bool scatters, int rounds) {
    if (team.n_pes == 0) return;
    const auto n = static_cast<int>(team.n_pes);
    const uint64_t step = count * (scatters ? team.n_pes : 1), all = step * static_cast<uint64_t>(rounds);
    T* const from = static_cast<T*>(memory_);
    T* const to = from + all;
    std::vector<T> values(all), results(count * static_cast<uint64_t>(rounds));
    for (int round = 0; round < rounds; ++round)
      for (uint64_t i = 0; i < step; ++i)
        values[static_cast<uint64_t>(round) * step + i] =
            element_of<T>(number_of(static_cast<int>(team.my_pe), i, round));
    gravel_copy(from, values.data(), values.size() * sizeof(T));
    const who scope = next_scope();
    gravel_launch(reduce<HOW, T>, 1, threads, gravel_handle(), team, scope, to, static_cast<const T*>(from), count,
                  rounds, scatters);
    gravel_synchronize();
    gravel_copy(results.data(), to, results.size() * sizeof(T));
    bool same = true;
    for (int round = 0; round < rounds; ++round)
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = scatters ? team.my_pe * count + i : i;
        int wanted = number_of(0, at, round);
        for (int of = 1; of < n; ++of) wanted = combined_as<T>(HOW, wanted, number_of(of, at, round));
        const T element = element_of<T>(wanted);
        same &= is_same(results[static_cast<uint64_t>(round) * count + i], element);
      }
    expect_(same, (std::string(scatters ? "a reduce_scatter of " : "a reduce_all of ") + name + ", " +
                   std::to_string(count) + " elements, " + std::to_string(n) + " members, operation " +
                   std::to_string(HOW) + ", scope " + std::to_string(static_cast<int>(scope)))
                      .c_str());
  }
  /// Reductions of values with their indices: many values are equal, some are no numbers.
  template <gravel_reduction HOW, class V, class I>
  void located(const gravel_team_t& team, uint64_t count, bool scatters) {
    if (team.n_pes == 0) return;
    using pair = gravel_located<V, I>;
    const uint64_t all = count * (scatters ? team.n_pes : 1);
    const auto contribution = [&](uint32_t of, uint64_t i) {
      const bool is_nan = std::is_floating_point_v<V> && (of + i) % 5 == 4;
      return pair{is_nan ? std::numeric_limits<V>::quiet_NaN() : static_cast<V>((of / 2 + i) % 2),
                  static_cast<I>((of * 5 + 3 + i) % 7)};
    };
    auto* const from = static_cast<pair*>(memory_);
    pair* const to = from + all;
    std::vector<pair> values, results(count);
    for (uint64_t i = 0; i < all; ++i) values.push_back(contribution(team.my_pe, i));
    gravel_copy(from, values.data(), all * sizeof(pair));
    const who scope = next_scope();
    gravel_launch(reduce<HOW, pair>, 1, threads, gravel_handle(), team, scope, to, static_cast<const pair*>(from),
                  count, 1, scatters);
    gravel_synchronize();
    gravel_copy(results.data(), to, count * sizeof(pair));
    bool same = true;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = scatters ? team.my_pe * count + i : i;
      bool has_number = false;
      pair best{};
      for (uint32_t of = 0; of < team.n_pes; ++of) {
        const pair p = contribution(of, at);
        if (p.value != p.value) continue;
        const bool wins = HOW == GRAVEL_MIN ? p.value < best.value : best.value < p.value;
        if (!has_number || wins || (p.value == best.value && p.index < best.index)) best = p;
        has_number = true;
      }
      same &= has_number ? results[i].value == best.value && results[i].index == best.index
                         : results[i].value != results[i].value;
    }
    expect_(same,
            ("values with indices, " + std::to_string(count) + " elements of " + std::to_string(sizeof(pair)) +
             " bytes, " + std::to_string(team.n_pes) + " members, scope " + std::to_string(static_cast<int>(scope)))
                .c_str());
  }
  void exchanges(const gravel_team_t& team, uint64_t count, int rounds) {
    if (team.n_pes == 0) return;
    const uint64_t n = team.n_pes, step = count + 2 * count * n, turns = static_cast<uint64_t>(rounds);
    auto* const from = static_cast<uint32_t*>(memory_);
    uint32_t* const to = from + turns * count * n;
    const auto value = [&](uint64_t member, uint64_t round, uint64_t i) {
      return static_cast<uint32_t>(member * 1000003 + round * 10007 + i);
    };
    std::vector<uint32_t> mine(turns * count * n), got(turns * step);
    for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = value(team.my_pe, i / (count * n), i % (count * n));
    gravel_copy(from, mine.data(), mine.size() * sizeof(uint32_t));
    const who scope = next_scope();
    std::vector<uint64_t> none(n + 1);
    gravel_copy(words_, none.data(), none.size() * sizeof(uint64_t));
    gravel_barrier(team);  // no member puts into words that another one clears
    gravel_launch(exchange<>, 1, threads, gravel_handle(), team, scope, to, static_cast<const uint32_t*>(from), count,
                  rounds, words_, words_ + n);
    gravel_quiet();
    uint64_t wrong = 0;
    gravel_copy(&wrong, words_ + n, sizeof(wrong));
    expect_(wrong == 0, "what members put before a barrier of their team");
    gravel_copy(got.data(), to, got.size() * sizeof(uint32_t));
    bool same = true;
    for (uint64_t round = 0; round < turns; ++round)
      for (uint64_t i = 0; i < step; ++i) {
        const uint64_t place = i < count ? i : (i - count) % (count * n), member = place / count,
                       within = place % count;
        uint32_t wanted = value(round % n, round, i);
        if (i >= count + count * n) wanted = value(member, round, team.my_pe * count + within);
        else if (i >= count) wanted = value(member, round, within);
        same &= got[round * step + i] == wanted;
      }
    expect_(same, ("broadcasts and exchanges of " + std::to_string(count) + " elements, " + std::to_string(n) +
                   " members, scope " + std::to_string(static_cast<int>(scope)))
                      .c_str());
  }
  /// The host's calls, with a stream and without.
  void from_hosts(const gravel_team_t& team, uint64_t count) {
    if (team.n_pes == 0) return;
    const uint64_t n = team.n_pes, me = team.my_pe;
    auto* const from = static_cast<int64_t*>(memory_);
    int64_t* const to = from + n * count;
    std::vector<int64_t> mine(n * count), got(n * count);
    for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = number_of(static_cast<int>(me), i, 0);
    gravel_copy(from, mine.data(), mine.size() * sizeof(int64_t));
    const auto check = [&](const char* what, uint64_t elements, auto wanted) {
      gravel_copy(got.data(), to, elements * sizeof(int64_t));
      bool same = true;
      for (uint64_t i = 0; i < elements; ++i) same &= got[i] == wanted(i);
      expect_(same, what);
    };
    const auto sum_of = [&](uint64_t i) {
      int64_t sum = 0;
      for (uint64_t of = 0; of < n; ++of) sum += number_of(static_cast<int>(of), i, 0);
      return sum;
    };
    gravel_reduce_all(team, to, from, count);
    check("gravel_reduce_all of a team", count, sum_of);
    gravel_reduce_scatter(team, to, from, count);
    check("gravel_reduce_scatter of a team", count, [&](uint64_t i) { return sum_of(me * count + i); });
    gravel_broadcast(team, to, from, count, static_cast<int>(n) - 1);
    check("gravel_broadcast of a team", count,
          [&](uint64_t i) { return int64_t{number_of(static_cast<int>(n) - 1, i, 0)}; });
    const gravel_stream_t stream = gravel_stream_create();
    gravel_allgather_on_stream(team, to, from, count, stream);
    gravel_sync_on_stream(team, stream);
    gravel_barrier_on_stream(team, stream);
    gravel_stream_synchronize(stream);
    check("gravel_allgather_on_stream", n * count,
          [&](uint64_t i) { return int64_t{number_of(static_cast<int>(i / count), i % count, 0)}; });
    gravel_alltoall_on_stream(team, to, from, count, stream);
    gravel_stream_synchronize(stream);
    check("gravel_alltoall_on_stream", n * count,
          [&](uint64_t i) { return int64_t{number_of(static_cast<int>(i / count), me * count + i % count, 0)}; });
    gravel_stream_destroy(stream);
  }
  void two_teams_at_once(const gravel_team_t& x, const gravel_team_t& y, int rounds) {
    auto* const sums = static_cast<uint64_t*>(memory_);
    gravel_launch(reduce_both<>, gravel_launch_config{.grid = 2, .block = threads, .cooperative = true},
                  gravel_handle(), x, y, sums, rounds);
    gravel_synchronize();
    std::vector<uint64_t> got(2 * static_cast<uint64_t>(rounds));
    gravel_copy(got.data(), sums, got.size() * sizeof(uint64_t));
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) {
      const gravel_team_t& team = i < got.size() / 2 ? x : y;
      uint64_t wanted = 0;
      for (int member = 0; member < static_cast<int>(team.n_pes); ++member)
        wanted += i % static_cast<uint64_t>(rounds) * 100 +
                  static_cast<uint64_t>(gravel_team_translate_pe(team, member, gravel_team_world()));
      same &= got[i] == wanted;
    }
    expect_(same, "two teams that reduce at the same time");
  }

  /// Teams of any PEs, by ids.
  void joins(const gravel_team_t& world) {
    const int me = gravel_my_pe(), n = gravel_n_pes();
    const auto refuses = [&](const char* text, auto call) {
      expect_(gravel::detail::error_of(call).find(text) != std::string::npos, text);
    };
    std::vector<uint64_t> of_pairs(static_cast<size_t>(n));
    for (uint64_t& id : of_pairs) id = gravel_team_unique_id();
    const uint64_t of_last = gravel_broadcast(of_pairs.back(), n - 1);
    gravel_broadcast(of_pairs.data(), of_pairs.size(), 0);
    // All PEs in an order that is no progression.
    if (n > 1) {
      refuses("both give the number 0", [&] { gravel_team_join(of_last, n, 0); });
      refuses("all members give the same", [&] { gravel_team_join(of_last, me == 0 ? 1 : n, me == 0 ? 0 : me); });
    }
    const int number = n > 2 ? (n + 1 - me) % n : me;
    const gravel_team_t all = gravel_team_join(of_last, n, number);
    expect_(gravel_team_my_pe(all) == number && gravel_team_n_pes(all) == n && all.directly == world.directly &&
                gravel_team_translate_pe(all, number, world) == me,
            "a team of all PEs by an id");
    exchanges(all, 3, 1);
    reductions<GRAVEL_SUM, uint64_t>(all, "uint64_t", 13, false, 3);
    // PE 0 has a team with each other PE, and makes them one by one. The others wait for it together.
    std::vector<gravel_team_t> pairs;
    for (int other = 1; other < n; ++other)
      if (me == 0 || me == other) pairs.push_back(gravel_team_join(of_pairs[static_cast<size_t>(other)], 2, me == 0));
    for (const gravel_team_t& pair : pairs) {
      expect_(gravel_team_translate_pe(pair, 1, world) == 0, "a team of two PEs by an id");
      reductions<GRAVEL_SUM, uint64_t>(pair, "uint64_t", 13, false, 1);
    }
    const gravel_team_t alone = gravel_team_join(gravel_team_unique_id(), 1, 0);
    reductions<GRAVEL_SUM, uint64_t>(alone, "uint64_t", 3, false, 1);
    refuses("is no id that gravel_team_unique_id", [&] { gravel_team_join(uint64_t{1} << 60, 1, 0); });
    refuses("a team has 1 to", [&] { gravel_team_join(of_last, n + 1, 0); });
    refuses("have numbers 0 to", [&] { gravel_team_join(of_last, n, n); });
    gravel_team_destroy(all);
    gravel_team_destroy(alone);
    for (const gravel_team_t& pair : pairs) gravel_team_destroy(pair);
  }
  void run() {
    const int me = gravel_my_pe(), n = gravel_n_pes();
    memory_ = gravel_malloc(bytes);
    words_ = gravel_malloc<uint64_t>((static_cast<uint64_t>(n) + 1) * sizeof(uint64_t));
    const gravel_team_t world = gravel_team_world(), node = gravel_team_node(), mapped = gravel_team_mapped();
    expect_(gravel_team_n_pes(world) == n && gravel_team_my_pe(world) == me, "gravel_team_world");
    for (int pe = 0; pe < n; ++pe)
      expect_((gravel_team_translate_pe(world, pe, node) >= 0) == (gravel_node_of(pe) == gravel_node_of(me)),
              "gravel_team_node");
    expect_(gravel_team_translate_pe(world, me, mapped) == gravel_team_my_pe(mapped), "gravel_team_mapped");

    const int of_parity = me % 2 ? n / 2 : (n + 1) / 2;
    const gravel_team_t even = gravel_team_split_strided(world, 0, 2, (n + 1) / 2),
                        odd = n > 1 ? gravel_team_split_strided(world, 1, 2, n / 2) : gravel_team_t{},
                        reversed = gravel_team_split_strided(world, n - 1, -1, n), mine = me % 2 ? odd : even;
    expect_((even.n_pes == 0) == (me % 2 == 1) && (odd.n_pes == 0) == (me % 2 == 0), "members of splits");
    expect_(gravel_team_n_pes(mine) == of_parity && gravel_team_my_pe(mine) == me / 2, "a strided split");
    expect_(gravel_team_translate_pe(reversed, 0, world) == n - 1 &&
                gravel_team_translate_pe(mine, gravel_team_my_pe(mine), reversed) == n - 1 - me &&
                gravel_team_translate_pe(world, n, mine) == -1 && gravel_team_my_pe({}) == -1 &&
                (n == 1 || gravel_team_translate_pe(world, me ^ 1, mine) == -1),
            "gravel_team_translate_pe");
    gravel_team_t row, column;
    gravel_team_split_2d(world, 2, &row, &column);
    expect_(gravel_team_my_pe(row) == me % 2 && gravel_team_my_pe(column) == me / 2 &&
                gravel_team_translate_pe(column, 0, world) == me % 2,
            "gravel_team_split_2d");

    const uint64_t large = 2500 + 4 * static_cast<uint64_t>(n);  // more than a slot, of 8 bytes each, from 2 PEs on
    for (const gravel_team_t& team : {world, node, mapped, mine, reversed, row, column}) {
      exchanges(team, 3, team == world || team == row ? 2 : 1);
      reductions<GRAVEL_SUM, uint64_t>(team, "uint64_t", 13, false, 3);
    }
    exchanges(world, 2 * large, 2);
    exchanges(mapped, 2 * large, 1);
    for (const gravel_team_t& team : {world, mapped, reversed}) {
      reductions<GRAVEL_SUM, uint64_t>(team, "uint64_t", 2 * large, false, 1);
      reductions<GRAVEL_SUM, uint64_t>(team, "uint64_t", large, true, 1);
    }
    types(mine);
    for (int scopes = 0; scopes < 3; ++scopes) located<GRAVEL_MAX, double, double>(world, 35, false);
    located<GRAVEL_MAX, double, double>(reversed, large / 2, false);  // more than a slot, of 16 bytes each
    located<GRAVEL_MIN, float, uint32_t>(world, 35, true);
    for (const gravel_team_t& team : {world, row}) from_hosts(team, 5);
    from_hosts(world, large);
    two_teams_at_once(row, column, 8);
    joins(world);
    refusals(world, mine);
    for (const gravel_team_t& team : {even, odd, reversed, row, column}) gravel_team_destroy(team);
    // Places of teams are used again, also by teams with other members.
    for (int i = 0; i < 4; ++i) {
      const gravel_team_t again = gravel_team_split_strided(world, i % n, 1, n - i % n);
      reductions<GRAVEL_SUM, uint64_t>(again, "uint64_t", 3, false, 3);
      gravel_team_destroy(again);
    }
    gravel_free(words_);
    gravel_free(memory_);
  }

 private:
  static constexpr uint64_t bytes = 2 << 20;

  /// Members of a team may call by different scopes.
  who next_scope() { return static_cast<who>(turn_++ % 3); }
  template <class T>
  static int combined_as(gravel_reduction how, int a, int b) {
    if constexpr (std::is_integral_v<T>)
      if (how == GRAVEL_MIN || how == GRAVEL_MAX) {
        const T x = static_cast<T>(a), y = static_cast<T>(b);
        const bool takes_b = how == GRAVEL_MIN ? y < x : x < y;
        return takes_b ? b : a;
      }
    return combined(how, a, b);
  }
  void types(const gravel_team_t& team) {
    reductions<GRAVEL_SUM, int8_t>(team, "int8_t", 35, false, 1);
    reductions<GRAVEL_XOR, uint8_t>(team, "uint8_t", 35, false, 1);
    reductions<GRAVEL_PROD, int16_t>(team, "int16_t", 35, false, 1);
    reductions<GRAVEL_AND, uint16_t>(team, "uint16_t", 35, false, 1);
    reductions<GRAVEL_MIN, int32_t>(team, "int32_t", 35, false, 1);
    reductions<GRAVEL_MAX, uint32_t>(team, "uint32_t", 35, true, 1);
    reductions<GRAVEL_OR, int64_t>(team, "int64_t", 35, false, 1);
    reductions<GRAVEL_SUM, gravel_half>(team, "gravel_half", 35, false, 1);
    reductions<GRAVEL_SUM, gravel_bfloat16>(team, "gravel_bfloat16", 35, true, 1);
    reductions<GRAVEL_MAX, float>(team, "float", 35, false, 1);
    reductions<GRAVEL_PROD, double>(team, "double", 35, false, 1);
  }
  void refusals(const gravel_team_t& world, const gravel_team_t& mine) {
    const auto refuses = [&](const char* text, auto call) {
      expect_(gravel::detail::error_of(call).find(text) != std::string::npos, text);
    };
    const int n = static_cast<int>(world.n_pes);
    refuses("the stride must not be 0", [&] { gravel_team_split_strided(world, 0, 0, 1); });
    refuses("a team has 1 member or more", [&] { gravel_team_split_strided(world, 0, 1, 0); });
    refuses("the parent has PEs 0 to", [&] { gravel_team_split_strided(world, 0, 1, n + 1); });
    refuses("the parent has PEs 0 to", [&] { gravel_team_split_strided(world, n, -1, 1); });
    refuses("is no member of this team", [&] { gravel_team_split_strided({}, 0, 1, 1); });
    refuses("it is 1 or more", [&] {
      gravel_team_t x, y;
      gravel_team_split_2d(world, 0, &x, &y);
    });
    refuses("end with the job", [&] { gravel_team_destroy(world); });
    refuses("outside the symmetric heap", [&] {
      int here = 0;
      gravel_reduce_all(world, &here, &here, 1);
    });
    refuses("the team has PEs 0 to", [&] { gravel_broadcast(mine, words_, words_, 1, n); });
    if (n == 1)
      refuses("at most 32 teams", [&] {
        std::vector<gravel_team_t> teams;
        try {
          for (int i = 0; i < 40; ++i) teams.push_back(gravel_team_split_strided(world, 0, 1, 1));
        } catch (...) {
          for (const gravel_team_t& team : teams) gravel_team_destroy(team);
          throw;
        }
      });
    const gravel_team_t over = gravel_team_split_strided(world, 0, 1, n);
    gravel_team_destroy(over);
    refuses("gravel_team_destroy has ended this team", [&] { gravel_sync(over); });
  }

  std::function<void(bool, const char*)> expect_;
  int turn_ = 0;
  void* memory_ = nullptr;
  uint64_t* words_ = nullptr;
};

}  // namespace team_checks
