// Operations with an answer, and waiting: against a serial model, from kernels under seeds and from host threads.
#include "device/fetch.cuh"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint32_t lanes = 36;

template <class F>
void in_every_shape(F f) {
  uint64_t seed = 1;
  for (auto [nodes, pes, self] :
       {std::tuple{1u, 1u, true}, {1u, 2u, true}, {1u, 1u, false}, {2u, 2u, true}, {3u, 1u, false}})
    for (auto [plain, peers] : {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
      INFO(nodes << " nodes of " << pes << " PEs, in place " << self << ", peers " << peers << ", seed " << seed);
      const auto job =
          fake_job::with<>({.nodes = nodes, .pes_per_node = pes, .seed = seed, .self_in_place = self, .peers = peers});
      f(*job, plain ? 0 : seed);
      for (uint32_t pe = 0; pe < job->n_pes(); ++pe) REQUIRE(job->error_of(pe).code == 0);
      ++seed;
    }
}

/// Everybody reads from everybody.
template <class T>
void gets() {
  in_every_shape([](fake_job& job, uint64_t seed) {
    const auto value = [](uint32_t pe, uint32_t i) { return static_cast<T>(pe * 100 + i * 3 + 1); };
    const uint32_t n = job.n_pes();
    for (uint32_t pe = 0; pe < n; ++pe)
      for (uint32_t i = 0; i < lanes; ++i) job.pe(pe).at<T>(0)[i] = value(pe, i);
    const auto read = [&](const gravel_t& g, uint32_t i, uint64_t to) {
      T* const heap = reinterpret_cast<T*>(g.heap);
      for (uint32_t pe = 0; pe < n; ++pe) gravel_get(g, heap + to + pe * lanes + i, heap + i, static_cast<int>(pe));
    };
    const uint64_t by_kernel = 64, by_host = by_kernel + n * lanes;
    for (uint32_t pe = 0; pe < n; ++pe) {
      const auto check = [&](uint64_t to) {
        for (uint32_t from = 0; from < n; ++from)
          for (uint32_t i = 0; i < lanes; ++i) {
            INFO("PE " << pe << " from " << from << ", word " << i);
            REQUIRE(job.pe(pe).at<T>(0)[to + from * lanes + i] == value(from, i));
          }
      };
      job.launch(1, lanes, seed, [&] {
        const gravel_t& g = job.pe(pe).kernel;
        read(g, threadIdx.x, by_kernel);
        gravel_quiet(g);
        // After quiet its own values are here.
        for (uint32_t from = 0; from < n; ++from)
          if (reinterpret_cast<T*>(g.heap)[by_kernel + from * lanes + threadIdx.x] != value(from, threadIdx.x))
            fail("a get was not complete after gravel_quiet");
      });
      check(by_kernel);
      for (uint32_t i = 0; i < lanes; ++i) read(job.pe(pe).host_thread, i, by_host);
      gravel_quiet(job.pe(pe).host_thread);
      check(by_host);
    }
  });
}

/// Everybody adds to one word of everybody: each old value is returned once.
template <class T>
void fetch_adds() {
  in_every_shape([](fake_job& job, uint64_t seed) {
    const uint32_t n = job.n_pes();
    std::vector<std::vector<T>> old(n);
    const auto add = [&](const gravel_t& g) {
      for (uint32_t pe = 0; pe < n; ++pe)
        old[pe].push_back(gravel_fetch_add(g, reinterpret_cast<T*>(g.heap), T{2}, static_cast<int>(pe)));
    };
    for (uint32_t pe = 0; pe < n; ++pe) {
      job.launch(1, lanes, seed, [&] { add(job.pe(pe).kernel); });
      for (uint32_t i = 0; i < 5; ++i) add(job.pe(pe).host_thread);
    }
    for (uint32_t pe = 0; pe < n; ++pe) {
      const auto total = static_cast<uint32_t>(old[pe].size());
      REQUIRE(total == n * (lanes + 5));
      std::sort(old[pe].begin(), old[pe].end());
      for (uint32_t i = 0; i < total; ++i) REQUIRE(old[pe][i] == static_cast<T>(2 * i));
      REQUIRE(*job.pe(pe).at<T>(0) == static_cast<T>(2 * total));
    }
  });
}

/// A counter advanced by compare and swap: exactly as many succeed as it advances.
template <class T>
void compare_swaps() {
  in_every_shape([](fake_job& job, uint64_t seed) {
    const uint32_t n = job.n_pes();
    const auto advance = [&](const gravel_t& g, int pe) {
      for (T seen = static_cast<T>(-3);;) {
        const T found = gravel_compare_swap(g, reinterpret_cast<T*>(g.heap), seen, static_cast<T>(seen + 1), pe);
        if (found == seen) return;
        seen = found;
      }
    };
    for (uint32_t pe = 0; pe < n; ++pe) *job.pe(pe).at<T>(0) = static_cast<T>(-3);
    for (uint32_t pe = 0; pe < n; ++pe) {
      job.launch(1, 6, seed, [&] { advance(job.pe(pe).kernel, static_cast<int>(threadIdx.x % n)); });
      advance(job.pe(pe).host_thread, static_cast<int>(pe));
    }
    for (uint32_t pe = 0; pe < n; ++pe) {
      uint32_t times = n;  // of the host threads: one each
      times = 1;
      for (uint32_t lane = 0; lane < 6; ++lane) times += lane % n == pe ? n : 0;
      REQUIRE(*job.pe(pe).at<T>(0) == static_cast<T>(-3 + static_cast<int>(times)));
    }
  });
}

/// The results of a fetching operation.
template <class T>
T updated(op o, T old, T value) {
  switch (o) {
    case op::fetch_add:  // integers wrap around
      if constexpr (std::is_floating_point_v<T>) return old + value;
      else
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value));
    case op::fetch_min: return std::min(old, value);
    case op::fetch_max: return std::max(old, value);
    case op::swap: return value;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (o == op::fetch_and) return old & value;
    if (o == op::fetch_or) return old | value;
    if (o == op::fetch_xor) return old ^ value;
  }
  return old;
}
template <class T>
T call(const gravel_t& g, op o, T* at, T value, int pe) {
  switch (o) {
    case op::fetch_add: return gravel_fetch_add(g, at, value, pe);
    case op::fetch_min: return gravel_fetch_min(g, at, value, pe);
    case op::fetch_max: return gravel_fetch_max(g, at, value, pe);
    case op::swap: return gravel_swap(g, at, value, pe);
    case op::fetch: return gravel_fetch(g, at, pe);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (o == op::fetch_and) return gravel_fetch_and(g, at, value, pe);
    if (o == op::fetch_or) return gravel_fetch_or(g, at, value, pe);
    return gravel_fetch_xor(g, at, value, pe);
  }
  return T{};
}

/// Each lane has a word of its own at each PE, so every answer is known.
template <class T>
void answers() {
  in_every_shape([](fake_job& job, uint64_t seed) {
    const uint32_t n = job.n_pes();
    std::vector<op> ops{op::fetch_add, op::fetch_min, op::fetch_max, op::swap, op::fetch};
    if constexpr (std::is_integral_v<T>) ops.insert(ops.end(), {op::fetch_and, op::fetch_or, op::fetch_xor});
    const auto value_of = [&](uint64_t which) {
      const uint64_t bits = random_numbers(which * 77 + 5)();
      if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
      else return static_cast<T>(static_cast<int>(bits % 2001) - 1000) / 4;
    };
    const auto run = [&](const gravel_t& g, uint32_t source, uint32_t lane) {
      for (uint32_t pe = 0; pe < n; ++pe) {
        T* const at = reinterpret_cast<T*>(g.heap) + source * lanes + lane;
        T model{};
        for (uint32_t i = 0; i < 2 * ops.size(); ++i) {
          const op o = ops[(i + lane) % ops.size()];
          const T value = value_of((source * lanes + lane) * 100 + i);
          const T found = call<T>(g, o, at, value, static_cast<int>(pe));
          if (found != model) fail("{} gave {}, not {}", name_of(o), found, model);
          model = updated<T>(o, model, value);
        }
        if (gravel_get_value(g, at, static_cast<int>(pe)) != model) fail("gravel_get_value found another value");
      }
    };
    for (uint32_t pe = 0; pe < n; ++pe) {
      job.launch(1, 7, seed, [&] { run(job.pe(pe).kernel, pe, threadIdx.x); });
      for (uint32_t lane = 0; lane < 2; ++lane) run(job.pe(pe).host_thread, n + pe, lane);
    }
  });
}

struct blocks {
  static constexpr const char* name = "blocks";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t which) const {
    uint64_t* const word = reinterpret_cast<uint64_t*>(g.heap);
    switch (which) {
      case 0: gravel_fetch_add(g, word, 1, 0); break;
      case 1: gravel_compare_swap(g, word, 0, 1, 0); break;
      case 2: gravel_get(g, word, word, 0); break;
      case 3: gravel_quiet(g); break;
      case 4: gravel_fence(g); break;
      case 6: gravel_swap(g, word, 1, 0); break;
      case 7: gravel_fetch(g, word, 0); break;
      case 8: gravel_fetch_min(g, word, 1, 0); break;
      default: gravel_wait_until(g, word, GRAVEL_EQ, 77);
    }
  }
};

}  // namespace

TEST_CASE("get, every type") {
  gets<uint8_t>();
  gets<int16_t>();
  gets<uint32_t>();
  gets<int64_t>();
  gets<float>();
  gets<double>();
}
TEST_CASE("fetch_add, every type") {
  fetch_adds<uint32_t>();
  fetch_adds<int32_t>();
  fetch_adds<uint64_t>();
  fetch_adds<int64_t>();
  fetch_adds<float>();
  fetch_adds<double>();
}
TEST_CASE("compare_swap, every type") {
  compare_swaps<uint32_t>();
  compare_swaps<int32_t>();
  compare_swaps<uint64_t>();
  compare_swaps<int64_t>();
}

TEST_CASE("fetching operations give the old value, every type") {
  answers<uint32_t>();
  answers<int32_t>();
  answers<uint64_t>();
  answers<int64_t>();
  answers<float>();
  answers<double>();
}

TEST_CASE("enumerations, pointers and bool are values") {
  enum class colour : uint32_t { red = 1, green = 0xfffffffe };
  enum tiny : int8_t { minus = -1 };
  struct everything {
    colour c, c_got;
    int* p;
    int* p_got;
    tiny t, t_got;
    bool b, b_got;
  };
  in_every_shape([](fake_job& job, uint64_t seed) {
    const int last = static_cast<int>(job.n_pes()) - 1;
    const auto run = [&](const gravel_t& g) {
      auto* const e = reinterpret_cast<everything*>(g.heap);
      int* const pointer = reinterpret_cast<int*>(g.heap) + 5;
      gravel_put(g, &e->c, colour::green, last);
      gravel_put(g, &e->p, pointer, last);
      gravel_put(g, &e->t, minus, last);
      gravel_put(g, &e->b, true, last);
      gravel_quiet(g);
      gravel_get(g, &e->c_got, &e->c, last);
      gravel_get(g, &e->p_got, &e->p, last);
      gravel_get(g, &e->t_got, &e->t, last);
      gravel_get(g, &e->b_got, &e->b, last);
      gravel_quiet(g);
      if (e->c_got != colour::green || e->p_got != pointer || e->t_got != minus || !e->b_got)
        fail("a value changed on its way");
      if (!gravel_get_value(g, &e->b, last) || gravel_get_value(g, &e->t, last) != minus) fail("gravel_get_value");
      if (gravel_swap(g, &e->c, colour::red, last) != colour::green) fail("gravel_swap of an enumeration");
      if (gravel_compare_swap(g, &e->c, colour::red, colour::green, last) != colour::red) fail("gravel_compare_swap");
      if (gravel_compare_swap(g, &e->p, nullptr, pointer + 1, last) != pointer)
        fail("gravel_compare_swap of another pointer");
      if (gravel_swap(g, &e->p, nullptr, last) != pointer) fail("gravel_swap of a pointer");
    };
    job.launch(1, 1, seed, [&] { run(job.pe(0).kernel); });
    run(job.pe(0).host_thread);
  });
}

TEST_CASE("minima and maxima of floating point: signs, infinities, and NaN") {
  const auto job = fake_job::with<>({});
  const gravel_t& g = job->pe(0).host_thread;
  auto* const at = job->pe(0).at<double>(0);
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (int pe : {0, 1}) {
    double least = 1, most = 1;
    gravel_put(g, at, least, pe);
    gravel_put(g, at + 1, most, pe);
    gravel_quiet(g);
    for (double value : {0.5, nan, -0.25, 2.0, -3.0, -2.0, nan, 7.5, -infinity, infinity}) {
      CHECK(gravel_fetch_min(g, at, value, pe) == least);
      CHECK(gravel_fetch_max(g, at + 1, value, pe) == most);
      if (value < least) least = value;
      if (value > most) most = value;
    }
    CHECK(gravel_fetch(g, at, pe) == -infinity);
    CHECK(gravel_fetch(g, at + 1, pe) == infinity);
  }
}

TEST_CASE("blocking reads under 100 schedules, with more lanes than reply cells") {
  for (uint64_t seed = 1; seed <= of_seeds(100); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1, .seed = seed});
    constexpr uint32_t many = 96;  // 64 cells
    std::vector<uint64_t> old;
    job->launch(1, many, seed, [&] {
      const gravel_t& g = job->pe(0).kernel;
      old.push_back(gravel_fetch_add(g, reinterpret_cast<uint64_t*>(g.heap), 1, 1));
    });
    std::sort(old.begin(), old.end());
    REQUIRE(old.size() == many);
    for (uint64_t i = 0; i < many; ++i) REQUIRE(old[i] == i);
    const gravel_t& g = job->pe(0).kernel;
    for (const reply_cell& cell : std::span(g.cells, g.n_cells)) REQUIRE(cell.state == reply_cell::is_free);
  }
}

TEST_CASE("a storm of gets at a PE with a slow way out needs no more memory than gets may be under way") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>({.nodes = seed % 2 ? 1u : 3u,
                                       .pes_per_node = seed % 2 ? 3u : 1u,
                                       .seed = seed,
                                       .self_in_place = false,
                                       .settings = {{"GRAVEL_SPILL_SIZE", "64K"}, {"GRAVEL_REPLY_CELLS", "1024"}}});
    constexpr uint32_t words = 64, gets = 9000;  // 144 KB of answers for each PE
    for (uint32_t i = 0; i < words; ++i) job->pe(0).at<uint64_t>(0)[i] = 1000 + i;
    uint64_t most = 0;
    const auto storm = [&](uint32_t pe, const gravel_t& g, uint32_t lane, uint32_t n_lanes) {
      uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
      for (uint32_t i = lane; i < gets; i += n_lanes) {
        // PE 0's replies wait until the others have sent as many requests as they may.
        const uint64_t under_way = g.counters->gets.issued[0] + g.counters->gets.issued[1] - g.counters->gets.done[0] -
                                   g.counters->gets.done[1];
        job->pe(pe).receiving[0] = pe != 0 && under_way + 32 < 1024 && i + 1024 < gets;
        most = std::max(most, under_way);
        gravel_get(g, heap + words + i % words, heap + i % words, 0);
      }
      job->pe(pe).receiving[0] = false;
      gravel_quiet(g);
    };
    for (uint32_t pe = 0; pe < 3; ++pe) {
      job->launch(1, 16, seed % 3 ? seed : 0, [&] { storm(pe, job->pe(pe).kernel, threadIdx.x, 16); });
      storm(pe, job->pe(pe).host_thread, 0, 1);
      for (uint32_t i = 0; i < words; ++i) REQUIRE(job->pe(pe).at<uint64_t>(0)[words + i] == 1000 + i);
    }
    CHECK(most <= 1024);
    job->settle();
    for (uint32_t node = 0; node < job->node(0).setup.nodes.n_nodes(); ++node)
      CHECK(job->node(node).spill.answers == 0);
  }
}

TEST_CASE("gravel_quiet: all that a kernel sent before is applied when it returns, under 100 schedules") {
  for (uint64_t seed = 1; seed <= of_seeds(100); ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<>({.nodes = 5, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}});
    job->launch(1, 16, seed, [&] {
      const gravel_t& g = job->pe(0).kernel;
      uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
      for (int pe = 0; pe < 5; ++pe) gravel_put(g, heap + threadIdx.x, 7 + threadIdx.x, pe);
      if (threadIdx.x % 3 == 0) return;
      gravel_quiet(g);
      for (uint32_t pe = 0; pe < 5; ++pe)
        if (job->pe(pe).at<uint64_t>(0)[threadIdx.x] != 7 + threadIdx.x)
          fail("not applied at PE {} after gravel_quiet", pe);
    });
  }
}

TEST_CASE("gravel_fence orders operations on one PE") {
  for (uint64_t seed = 1; seed <= of_seeds(50); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>(
        {.nodes = 2, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_AGGREGATOR_THREADS", "2"}}});
    job->launch(1, 2, seed, [&] {
      // Message passing: a reader that sees the flag sees the data.
      const gravel_t& g = job->pe(0).kernel;
      uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
      if (threadIdx.x == 0) {
        gravel_put(g, heap, 42, 1);
        gravel_fence(g);
        gravel_put(g, heap + 1, 1, 1);
      } else {
        const gravel_t& there = job->pe(1).kernel;
        uint64_t* const memory = reinterpret_cast<uint64_t*>(there.heap);
        gravel_wait_until(there, memory + 1, GRAVEL_EQ, 1);
        if (*memory != 42) fail("the flag came before the data");
      }
    });
  }
}

TEST_CASE("gravel_wait_until knows all six comparisons") {
  const auto job = fake_job::with<>({});
  const gravel_t& g = job->pe(0).host_thread;
  int32_t* const word = job->pe(0).at<int32_t>(0);
  *word = -5;
  gravel_wait_until(g, word, GRAVEL_EQ, -5);
  gravel_wait_until(g, word, GRAVEL_NE, 5);
  gravel_wait_until(g, word, GRAVEL_GT, -6);
  gravel_wait_until(g, word, GRAVEL_GE, -5);
  gravel_wait_until(g, word, GRAVEL_LT, -4);
  gravel_wait_until(g, word, GRAVEL_LE, -5);
  SUCCEED("none of them waited");
  for (auto [compare, value] : {std::pair{GRAVEL_EQ, 1}, {GRAVEL_GT, 0}, {GRAVEL_GE, 1}}) {
    *word = -5;
    gravel_put(job->pe(1).host_thread, word + (job->pe(1).at<int32_t>(0) - word), 1, 0);
    gravel_wait_until(g, word, compare, value);  // the rest of the job goes on meanwhile
    CHECK(*word == 1);
  }
}

TEST_CASE("whatever would block in a handler is an error that names it") {
  for (auto [which, what] : {std::pair{0u, op::fetch_add},
                             {1u, op::compare_swap},
                             {2u, op::get},
                             {3u, op::none},
                             {4u, op::none},
                             {5u, op::none},
                             {6u, op::swap},
                             {7u, op::fetch},
                             {8u, op::fetch_min}}) {
    const auto job = fake_job::with<blocks>({});
    gravel_am<blocks>(job->pe(0).host_thread, 1, which);
    job->settle();
    const device_error e = job->error_of(1);
    CHECK(e.code == static_cast<uint64_t>(message_fault::blocking_handler) + 1);
    CHECK(e.operation == static_cast<uint64_t>(what));
  }
}

TEST_CASE("errors of reads name operation and place, and return zero") {
  const auto job = fake_job::with<>({});
  const gravel_t& g = job->pe(0).host_thread;
  CHECK(gravel_fetch_add(g, reinterpret_cast<uint64_t*>(g.heap), 1, 2) == 0);
  CHECK(job->error_of(0).operation == static_cast<uint64_t>(op::fetch_add));
  CHECK(job->error_of(0).code == static_cast<uint64_t>(message_fault::bad_pe) + 1);
  const gravel_t& h = job->pe(1).host_thread;
  int outside;
  gravel_get(h, &outside, reinterpret_cast<int*>(h.heap), 0);
  CHECK(job->error_of(1).operation == static_cast<uint64_t>(op::get));
  CHECK(job->error_of(1).code == static_cast<uint64_t>(message_fault::bad_destination) + 1);
}

TEST_CASE("gravel_ptr reaches only this PE's own memory") {
  const auto job = fake_job::with<>({});
  const gravel_t& g = job->pe(1).kernel;
  int* const object = job->pe(1).at<int>(64);
  CHECK(gravel_ptr(g, object, 1) == object);
  CHECK(gravel_ptr(g, object, 0) == nullptr);
  CHECK(gravel_ptr(g, object, -1) == nullptr);
  CHECK(gravel_my_pe(g) == 1);
  CHECK(gravel_n_pes(g) == 2);
}
