// Collectives, and the counts on which quiescence is built, in a job of one process.
#include "host/aggregator/collective.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

thread_local uint64_t in_flight = 0;  ///< hops sent and not yet run: what the counts must find out
thread_local uint64_t hops_run = 0;

/// Goes on for `generations`, to two PEs each time as long as `width` allows; on devices and on hosts.
struct hop_at_host;
struct hop {
  static constexpr const char* name = "hop";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t generations, uint32_t width, uint64_t draw) const;
};
struct hop_at_host {
  static constexpr const char* name = "hop at host";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint32_t generations, uint32_t width, uint64_t draw) const {
    hop{}(g, generations, width, draw);
  }
};

void send_hop(const gravel_t& g, uint32_t generations, uint32_t width, uint64_t draw) {
  ++in_flight;
  const int pe = static_cast<int>(draw % g.n_pes);
  if (draw >> 40 & 1) gravel_am<hop_at_host>(g, pe, generations, width, draw);
  else gravel_am<hop>(g, pe, generations, width, draw);
}

void hop::operator()(const gravel_t& g, uint32_t generations, uint32_t width, uint64_t draw) const {
  random_numbers next(draw);
  if (generations) {
    send_hop(g, generations - 1, width / 2, next());
    if (width > 1) send_hop(g, generations - 1, width / 2, next());
  }
  --in_flight;
  ++hops_run;
}

collective_words words(std::initializer_list<uint64_t> sums, uint64_t least = 0, uint64_t most = 0) {
  collective_words w{};
  std::copy(sums.begin(), sums.end(), w.sum);
  w.least = least;
  w.most = most;
  return w;
}

/// The four counts, read as host/pe/completion.hpp does.
struct counts {
  uint64_t acked = 0, taken = 0, consumed = 0, tickets = 0;
  bool operator==(const counts&) const = default;
};
enum class method { as_completion, one_sample };

counts sample_of(fake_job& job, uint32_t pe) {
  fake_pe& p = job.pe(pe);
  const uint32_t planes = p.segment->shape().n_planes;
  const bool leader = job.node(p.node).setup.nodes.pes_of(p.node)[0] == pe;
  counts c;
  const auto pause = [&] {
    for (uint32_t i = job.draw().below(4); i > 0; --i) job.step();
  };
  const auto acked = [&] {
    for (uint32_t i = 0; leader && i < planes; ++i) c.acked += load_acquire(&p.segment->control()->counts[i].acked);
  };
  const auto taken = [&] {
    for (uint32_t i = 0; leader && i < planes; ++i) c.taken += load_acquire(&p.segment->control()->counts[i].taken);
  };
  const auto consumed = [&] {
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      const queue q = p.segment->queue_of(kind);
      for (uint32_t i = 0; i < planes; ++i) c.consumed += load_acquire(&q.control->plane[i].consumed);
    }
  };
  const auto tickets = [&] {
    queue_state states[n_queue_kinds];
    p.memory->read_queue_states(states);
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      c.tickets += states[kind].tickets;
      p.segment->queue_of(kind).request_flush(states[kind].tickets);
    }
  };
  acked();
  pause();
  consumed();
  pause();
  taken();
  pause();
  tickets();
  return c;
}

/// As completion::wait_quiescent, all PEs in turn. Returns what was in flight when it thought that nothing was.
uint64_t wait_quiescent(fake_job& job, method m) {
  counts before{};
  for (bool have_before = false;; have_before = true) {
    std::vector<collective_words> mine;
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
      const counts c = sample_of(job, pe);
      mine.push_back(words({c.acked, c.taken, c.consumed, c.tickets}));
    }
    const collective_words all = job.combine(mine)[0];
    const counts now{all.sum[0], all.sum[1], all.sum[2], all.sum[3]};
    if (now.acked == now.taken && now.consumed == now.tickets &&
        (m == method::one_sample || (have_before && now == before)))
      return in_flight;
    before = now;
  }
}

uint64_t run_hops(uint64_t seed, const fake_shape& shape, method m) {
  const auto job = fake_job::with<hop, hop_at_host>(shape);
  in_flight = hops_run = 0;
  random_numbers draw(seed);
  for (uint32_t i = 0; i < 4; ++i)
    send_hop(job->pe(draw.below(job->n_pes())).host_thread, 20 + draw.below(60), 8, draw());
  const uint64_t missed = wait_quiescent(*job, m);
  if (m == method::as_completion && !missed) {
    job->settle();
    REQUIRE(in_flight == 0);
    REQUIRE(hops_run > 80);
  }
  return missed;
}

}  // namespace

TEST_CASE("sums, least and most reach everybody, time after time") {
  uint64_t seed = 1;
  for (auto [nodes, pes] : {std::pair{1u, 1u}, {1u, 4u}, {2u, 2u}, {5u, 1u}, {3u, 2u}}) {
    const auto job = fake_job::with<>({.nodes = nodes, .pes_per_node = pes, .seed = seed++});
    const uint64_t n = job->n_pes();
    for (uint64_t round = 0; round < 20; ++round) {
      std::vector<collective_words> mine;
      for (uint64_t pe = 0; pe < n; ++pe)
        mine.push_back(words({pe, 1, round, pe == n - 1 ? ~0ull : 0}, 100 + pe, 100 + pe * round));
      for (const collective_words& got : job->combine(mine)) {
        CHECK(got.sequence == round + 1);
        CHECK(got.sum[0] == n * (n - 1) / 2);
        CHECK(got.sum[1] == n);
        CHECK(got.sum[2] == n * round);
        CHECK(got.sum[3] == ~0ull);
        CHECK(got.least == 100);
        CHECK(got.most == 100 + (n - 1) * round);
        CHECK(got.last == 0);
      }
    }
  }
}

TEST_CASE("data of all PEs reach everybody in order of PE, whatever their sizes, and beside sums") {
  uint64_t seed = 1;
  for (auto [nodes, pes] : {std::pair{1u, 1u}, {1u, 3u}, {2u, 2u}, {3u, 2u}}) {
    const auto job = fake_job::with<>({.nodes = nodes, .pes_per_node = pes, .seed = seed++});
    for (uint64_t round = 0; round < 20; ++round) {
      std::vector<std::vector<std::byte>> mine(job->n_pes());
      std::vector<std::byte> all;
      for (uint32_t pe = 0; pe < job->n_pes(); ++pe) {
        uint64_t bytes = 0;
        if (round == 1) bytes = 65536 / job->n_pes();
        else if (round > 1) bytes = job->draw().below(1000);
        for (uint64_t i = 0; i < bytes; ++i) mine[pe].push_back(std::byte(job->draw().below(256)));
        all.insert(all.end(), mine[pe].begin(), mine[pe].end());
      }
      job->exchange(mine);
      for (uint32_t pe = 0; pe < job->n_pes(); ++pe) {
        const auto got = job->pe(pe).collectives->result_data();
        REQUIRE(std::vector(got.begin(), got.end()) == all);
      }
      std::vector<collective_words> ones(job->n_pes(), words({1}));
      REQUIRE(job->combine(ones)[0].sum[0] == job->n_pes());
    }
  }
}

TEST_CASE("more data than fit are an error") {
  {
    const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 2});
    CHECK_THROWS_WITH(job->exchange(std::vector(4, std::vector<std::byte>(20000))),
                      contains_text("contributed 80000 bytes"));
  }
  const auto other = fake_job::with<>({.nodes = 1, .pes_per_node = 2});
  other->pe(1).segment->control()->collective_in.bytes = 65537;
  other->pe(1).segment->control()->collective_in.call = {1, collective_kind::gather, 1, {}};
  store_release(&other->pe(1).segment->control()->collective_in.sequence, uint64_t{1});
  other->pe(0).collectives->contribute({1, collective_kind::gather, 0, {}}, {});
  CHECK_THROWS_WITH(other->settle(), contains_text("PE 1 contributed 65537 bytes"));
}

namespace {
constexpr auto barrier = collective_kind::barrier, sum = collective_kind::sum, finalize = collective_kind::finalize,
               allocate = collective_kind::allocate;
/// The error with which the job ends when these PEs make these calls; empty if it does not end.
std::string end_of(uint32_t nodes, uint32_t pes_per_node, const std::vector<collective_call>& calls,
                   const std::vector<collective_call>& waiting = {}) {
  const auto job = fake_job::with<>({.nodes = nodes, .pes_per_node = pes_per_node});
  for (const auto& c : calls) job->pe(c.pe).collectives->contribute(c, {});
  for (const auto& c : waiting)
    store_release(&job->pe(c.pe).segment->control()->waiting, waiting_word(c.number, c.kind));
  try {
    job->settle();
  } catch (const error& e) {
    return e.what();
  }
  return {};
}
}  // namespace

TEST_CASE("an error names both calls of PEs that call different collectives, on one node and on two") {
  for (uint32_t nodes : {1u, 2u}) {
    const uint32_t pes = 2 / nodes;
    CHECK(end_of(nodes, pes, {{1, sum, 0, {}}, {1, sum, 1, {}}}).empty());
    CHECK(end_of(nodes, pes, {{1, sum, 0, {}}, {1, barrier, 1, {}}}) ==
          "the PEs call different collectives: PE 0 gravel_sum_all of 0 uint8_t, PE 1 gravel_barrier_all (their "
          "collective calls number 1 "
          "and 1)");
    CHECK(end_of(nodes, pes, {{3, finalize, 0, {}}, {3, barrier, 1, {}}}) ==
          "PE 1 waits in gravel_barrier_all, PE 0 has called gravel_finalize");
    CHECK(end_of(nodes, pes, {{2, allocate, 0, {256}}, {2, allocate, 1, {512}}}) ==
          "the PEs' arguments differ: PE 0 calls gravel_malloc of 256 bytes, PE 1 gravel_malloc of 512 bytes");
    CHECK(end_of(nodes, pes,
                 {{2, collective_kind::broadcast, 0, {64, 0}}, {2, collective_kind::broadcast, 1, {64, 1}}}) ==
          "the PEs' arguments differ: PE 0 calls gravel_broadcast of 64 bytes from PE 0, PE 1 gravel_broadcast of 64 "
          "bytes from PE 1");
    CHECK(end_of(nodes, pes, {{2, barrier, 0, {}}, {3, barrier, 1, {}}}) ==
          "the PEs call different collectives: PE 0 gravel_barrier_all, PE 1 gravel_barrier_all (their collective "
          "calls number 2 and 3)");
  }
}

TEST_CASE("different collectives of two PEs are reported while other PEs have not called yet") {
  CHECK_THAT(end_of(1, 3, {{1, sum, 0, {5, 7}}, {1, barrier, 2, {}}}),
             contains_text("PE 0 gravel_sum_all of 5 double, PE 2 gravel_barrier_all"));
  CHECK(end_of(1, 3, {{1, sum, 0, {}}, {1, sum, 2, {}}}).empty());
}

TEST_CASE("what PEs wait for without their aggregator is compared with what others call under that number") {
  CHECK_THAT(end_of(1, 3, {{7, sum, 0, {}}}, {{7, barrier, 2, {}}}),
             contains_text("PE 0 gravel_sum_all of 0 uint8_t, PE 2 gravel_barrier_all"));
  CHECK(end_of(1, 3, {{7, finalize, 0, {}}}, {{7, barrier, 2, {}}}) ==
        "PE 2 waits in gravel_barrier_all, PE 0 has called gravel_finalize");
  CHECK_THAT(end_of(1, 2, {}, {{7, barrier, 0, {}}, {7, sum, 1, {}}}), contains_text("different collectives"));
  CHECK(end_of(1, 2, {}, {{7, barrier, 0, {}}, {7, barrier, 1, {}}}).empty());
  // One may be a call ahead of the other, which has not seen yet that the last is over.
  CHECK(end_of(1, 2, {{8, sum, 0, {}}}, {{7, barrier, 1, {}}}).empty());
}

TEST_CASE("what PEs of other nodes wait for without their aggregators is compared at node 0") {
  // PEs 0 and 1 are on node 0, 2 and 3 on node 1, 4 and 5 on node 2. One node has called as a whole, or node 0 in part.
  const auto whole = [](uint32_t first, collective_kind kind) {
    return std::vector<collective_call>{{7, kind, first, {}}, {7, kind, first + 1, {}}};
  };
  CHECK_THAT(end_of(3, 2, {{7, sum, 0, {}}}, {{7, barrier, 4, {}}}),
             contains_text("PE 0 gravel_sum_all of 0 uint8_t, PE 4 gravel_barrier_all"));
  CHECK_THAT(end_of(3, 2, whole(2, sum), {{7, barrier, 5, {}}}),
             contains_text("PE 2 gravel_sum_all of 0 uint8_t, PE 5 gravel_barrier_all"));
  CHECK_THAT(end_of(3, 2, whole(0, sum), {{7, barrier, 3, {}}}),
             contains_text("PE 0 gravel_sum_all of 0 uint8_t, PE 3 gravel_barrier_all"));
  CHECK_THAT(end_of(3, 2, whole(2, finalize), {{7, barrier, 0, {}}}),
             contains_text("PE 0 waits in gravel_barrier_all, PE 2 has called gravel_finalize"));
  CHECK_THAT(end_of(3, 2, {}, {{7, barrier, 2, {}}, {7, collective_kind::quiescence, 4, {}}}),
             contains_text("PE 2 gravel_barrier_all, PE 4 gravel_wait_quiescent"));
  CHECK(end_of(3, 2, {}, {{7, barrier, 0, {}}, {7, barrier, 2, {}}, {7, barrier, 5, {}}}).empty());
  CHECK(end_of(3, 2, {{8, sum, 0, {}}}, {{7, barrier, 2, {}}}).empty());
}

TEST_CASE("a report of a call that cannot be is refused") {
  const auto refusal = [](uint32_t to, const plane_header& header) {
    const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
    return text_of_error([&] { job->node(to).collectives->receive_waiting(header); });
  };
  const uint64_t word = waiting_word(7, barrier);
  CHECK(refusal(0, {plane_message::waiting, 1, 0, 0, word, 1, 0}).empty());
  const std::string text = "a call in which a PE waits that does not fit";
  CHECK_THAT(refusal(1, {plane_message::waiting, 0, 0, 0, word, 0, 0}), contains_text(text));
  CHECK_THAT(refusal(0, {plane_message::waiting, 2, 0, 0, word, 1, 0}), contains_text(text));
  CHECK_THAT(refusal(0, {plane_message::waiting, 1, 0, 0, word, 2, 0}), contains_text(text));
  CHECK_THAT(refusal(0, {plane_message::waiting, 1, 0, 0, word | 0xff, 1, 0}), contains_text(text));
}

TEST_CASE("a PE that leaves before the last collective gets the names of the PEs that wait") {
  const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 3});
  const auto& local = job->node(0).setup.local;
  const std::vector<uint32_t> pes{0, 1, 2};
  CHECK(why_not_leave(local, pes, 1) == "PE 1 has left the job before its end");
  store_release(&job->pe(2).segment->control()->waiting, waiting_word(4, barrier));
  CHECK(why_not_leave(local, pes, 1) == "PE 2 waits in gravel_barrier_all, PE 1 has left the job");
  job->pe(0).collectives->contribute({4, sum, 0, {}}, {});
  CHECK(why_not_leave(local, pes, 1) == "PE 0 waits in gravel_sum_all of 0 uint8_t, PE 1 has left the job");
  store_release(&job->pe(2).segment->control()->waiting, uint64_t{0});
  for (uint32_t pe : {1u, 2u}) job->pe(pe).collectives->contribute({4, sum, pe, {}}, {});
  job->settle();
  collective_words last{};
  last.last = 1;
  for (uint32_t pe : pes) job->pe(pe).collectives->contribute({5, finalize, pe, {}}, last);
  job->settle();
  CHECK(why_not_leave(local, pes, 1).empty());
}

TEST_CASE("no PE gets a result before all have contributed") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 2});
  for (uint32_t pe : {3u, 0u, 2u}) {
    store_release(&job->pe(pe).segment->control()->collective_in.sequence, uint64_t{1});
    job->settle();
    for (uint32_t other = 0; other < 4; ++other) CHECK(job->pe(other).segment->control()->collective_out.sequence == 0);
  }
  CHECK_THAT(job->node(0).collectives->describe(), contains_text("waits for PE 1"));
  CHECK_THAT(job->node(1).collectives->describe(), contains_text("has contributed"));
  store_release(&job->pe(1).segment->control()->collective_in.sequence, uint64_t{1});
  job->settle();
  for (uint32_t other = 0; other < 4; ++other) CHECK(job->pe(other).segment->control()->collective_out.sequence == 1);
}

TEST_CASE("the last collective is known as such on every node") {
  const auto job = fake_job::with<>({.nodes = 3, .pes_per_node = 1});
  std::vector<collective_words> mine(3);
  job->combine(mine);
  for (uint32_t n = 0; n < 3; ++n) CHECK_FALSE(job->node(n).collectives->over());
  for (auto& w : mine) w.last = 1;
  job->combine(mine);
  for (uint32_t n = 0; n < 3; ++n) CHECK(job->node(n).collectives->over());
}

TEST_CASE("a collective message that does not fit is refused, with its node") {
  const auto job = fake_job::with<>({.nodes = 3, .pes_per_node = 1});
  collective_words some{};
  some.sequence = 1;
  const auto data = to_wire(collective::contribution{some, {}, {}});
  collective& first = *job->node(0).collectives;
  collective& second = *job->node(1).collectives;
  CHECK_THROWS_WITH(first.receive({plane_message::contribution, 2, 0, 0, 2, 0, 0}, data), contains_text("node 2"));
  CHECK_THROWS_WITH(first.receive({plane_message::contribution, 2, 0, 0, 0, 0, 0}, data), contains_text("node 2"));
  CHECK_THROWS_WITH(first.receive({plane_message::contribution, 2, 0, 0, 1, 0, 0}, std::span(data).first(8)),
                    contains_text("node 2: a message is cut off (8 bytes)"));
  CHECK_THROWS_WITH(first.receive({plane_message::contribution, 3, 0, 0, 1, 0, 0}, data), contains_text("node 3"));
  using sizes = std::vector<uint32_t>;
  for (const auto& [announced, table, size] : {std::tuple{100ull, sizes{}, 0ull},
                                               {0ull, sizes{}, 8ull},
                                               {0ull, sizes{8}, 8ull},
                                               {100ull, sizes{96}, 96ull},
                                               {100ull, sizes{96}, 100ull},
                                               {100ull, sizes{}, 100ull},
                                               {100ull, sizes{100, 0}, 100ull},
                                               {1ull << 40, sizes{100}, 100ull}}) {
    const std::vector<std::byte> bytes(size);
    some.bytes = announced;
    CHECK_THROWS_WITH(first.receive({plane_message::contribution, 2, 0, 0, 1, 0, 0},
                                    to_wire(collective::contribution{some, table, bytes})),
                      contains_text("does not fit"));
    if (announced != size)
      CHECK_THROWS_WITH(
          second.receive({plane_message::result, 0, 0, 0, 1, 0, 0}, to_wire(collective::result{some, bytes})),
          contains_text("does not fit"));
  }
  CHECK_THROWS_WITH(first.receive({plane_message::result, 2, 0, 0, 1, 0, 0}, data), contains_text("node 2"));
  CHECK_THROWS_WITH(second.receive({plane_message::contribution, 2, 0, 0, 1, 0, 0}, data), contains_text("node 2"));
  first.receive({plane_message::contribution, 2, 0, 0, 1, 0, 0}, data);
  CHECK_THROWS_WITH(first.receive({plane_message::contribution, 2, 0, 0, 1, 0, 0}, data), contains_text("twice"));
}

TEST_CASE("quiescence is found only when nothing is in flight, for many generations of handlers, under 150 seeds") {
  for (uint64_t seed = 1; seed <= of_seeds(150); ++seed) {
    INFO("seed " << seed);
    const fake_shape shape{
        .nodes = seed % 3 == 0 ? 5u : 2u,
        .pes_per_node = seed % 3 == 0 ? 1u : 2u,
        .seed = seed,
        .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}, {"GRAVEL_AGGREGATOR_THREADS", seed % 2 ? "1" : "3"}}};
    REQUIRE(run_hops(seed, shape, method::as_completion) == 0);
  }
}

TEST_CASE("some seed shows that one sample is not enough") {
  uint64_t finding = 0;
  for (uint64_t seed = 1; seed <= 400 && !finding; ++seed)
    if (run_hops(seed, {.nodes = 1, .pes_per_node = 2, .seed = seed}, method::one_sample) != 0) finding = seed;
  CHECK(finding != 0);
}
