// Active messages in a job within one process: every mix of arguments on every route and way, in seeded schedules.
#include "test/support/argument_mixes.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint32_t each_lane = 1;  // it checks each access
#else
constexpr uint32_t each_lane = 3;
#endif
constexpr uint32_t lanes = 96, each = lanes * each_lane;

/// Every PE's kernels (directly and by block sender) and host threads send all mixes to everybody.
void send_all(const fake_shape& shape, uint64_t kernel_seed) {
  const auto job = fake_job::with_list<mixes::all::list>(shape);
  const uint32_t n = job->n_pes();
  std::vector<uint32_t> senders;
  for (uint32_t pe = 0; pe < n; ++pe) {
    const gravel_t& kernel = job->pe(pe).kernel;
    job->launch(2, lanes / 2, kernel_seed, [&] {
      for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
        mixes::all::each([&]<class H>() { H::send(kernel, (i + pe) % n, i); });
    });
    job->launch(2, lanes / 2, kernel_seed, [&] {
      __shared__ gravel_block_sender<lanes / 2, lanes * 3> sender;
      sender.begin(kernel);
      for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
        mixes::all::each([&]<class H>() { H::send_by(sender, (i + pe) % n, i); });
      sender.end();
    });
    for (uint32_t i = 0; i < each; ++i)
      mixes::all::each([&]<class H>() { H::send(job->pe(pe).host_thread, (i + pe) % n, i); });
    senders.insert(senders.end(), 3, pe);
  }
  job->settle();
  for (uint32_t pe = 0; pe < n; ++pe) {
    REQUIRE(job->error_of(pe).code == 0);
    REQUIRE(mixes::compare(job->pe(pe).at<mixes::tally>(0), pe, n, senders, each) == "");
  }
}

// --- handlers that are given more
struct sums {
  uint64_t messages = 0, values = 0, groups = 0;
};
struct with_context {
  static constexpr const char* name = "with context";
  using context = sums;
  GRAVEL_HANDLER void operator()(const gravel_t&, sums* mine, uint32_t value) const {
    ++mine->messages;
    mine->values += value;
  }
};
struct with_const_context {
  static constexpr const char* name = "with const context";
  static constexpr bool on_host = true;
  using context = const uint64_t;
  void operator()(const gravel_t& g, const uint64_t* factor, uint64_t value) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap), value * *factor);
  }
};
struct in_batches {
  static constexpr const char* name = "in batches";
  static constexpr bool batch = true;
  GRAVEL_HANDLER void operator()(const gravel_t& g, const gravel_batch& lanes, uint64_t key) const {
    const gravel_batch same = lanes.part(lanes.match(key));
    const auto n = same.sum(uint64_t{1});
    if (same.is_leader()) add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 1 + key, n);
  }
};
struct with_both {
  static constexpr const char* name = "with both";
  static constexpr bool batch = true;
  using context = sums;
  GRAVEL_HANDLER void operator()(const gravel_t&, sums* mine, const gravel_batch& lanes, uint16_t value) const {
    const auto messages = lanes.size();
    const auto values = lanes.sum(uint32_t{value});
    if (!lanes.is_leader()) return;
    mine->messages += messages;
    mine->values += values;
    ++mine->groups;
  }
};

// --- large messages from handlers
using large_one = mixes::carries<18, false, mixes::bytes<256>>;  // 17 units, as the next one
using another_large_one = mixes::carries<16, false, mixes::bytes<199>, uint64_t, mixes::bytes<49>>;
struct floods {
  static constexpr const char* name = "floods";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t to) const {
    for (uint32_t i = 0; i < 256; ++i) i % 3 ? large_one::send(g, to, i) : another_large_one::send(g, to, i);
  }
};

}  // namespace

TEST_CASE("active messages arrive once and whole, whatever their arguments, by every way") {
  uint64_t seed = 1;
  for (auto [nodes, pes, self, peers] :
       {std::tuple{1u, 1u, true, false}, {1u, 2u, false, false}, {1u, 3u, true, true}, {2u, 2u, true, true}})
    for (bool plain : {true, false}) {
      INFO(nodes << " nodes of " << pes << " PEs, in place " << self << ", peers " << peers << ", seed " << seed);
      send_all({.nodes = nodes, .pes_per_node = pes, .seed = seed, .self_in_place = self, .peers = peers},
               plain ? 0 : seed);
      ++seed;
    }
}

TEST_CASE("arguments lie one after the other, without padding") {
  using few = mixes::carries<3, false, char, uint16_t, uint32_t, uint64_t, bool>;
  am_message<few> m;
  m.fill('a', uint16_t{0x0201}, 0x06050403u, uint64_t{0x0e0d0c0b0a090807}, true);
  CHECK(m.kind == am_kind(handler_id<few>::value, 16));
  const uint32_t words[] = {0x03020161, 0x07060504, 0x0b0a0908, 0x010e0d0c};
  REQUIRE(std::size(m.data) == 4);
  for (uint32_t i = 0; i < 4; ++i) CHECK(m.data[i] == words[i]);
  unit wide[max_small_units];
  CHECK(widen(m.kind, m.data, wide) == 2);
  CHECK(wide[0].word[0] == make_am_word0(handler_id<few>::value, 16));
  CHECK(wide[0].word[1] == 0x0706050403020161);
  CHECK(wide[1].word[0] == 0x010e0d0c0b0a0908);
  CHECK(wide[1].word[1] == 0);
}

TEST_CASE("with more arguments than a compact message has, they follow a first word") {
  using many = mixes::carries<3, false, uint64_t, mixes::bytes<49>>;
  am_message<many> m;
  m.fill(uint64_t{0x0807060504030201}, mixes::bytes<49>{});
  CHECK(m.kind == wide_kind(5));
  CHECK(m.data[0].word[0] == make_am_word0(handler_id<many>::value, 57));
  CHECK(m.data[0].word[1] == 0x0807060504030201);
  CHECK(am_message<mixes::carries<3, false, mixes::bytes<56>>>::kind == am_kind(handler_id<many>::value, 56));
}

TEST_CASE("a bulk message in a row of others is refused") {
  const auto job = fake_job::with<>({});
  const unit message[max_am_units] = {{{make_word0(op::put_bulk, 0, 0), 100}}};
  CHECK(fake_job::apply_with<handler_list<>>(job->pe(0).device_handler, message, bulk_units(100)) ==
        message_fault::bad_op);
}

TEST_CASE("a handler is given its PE's context, and its group of lanes") {
  const auto job =
      fake_job::with<in_batches, with_context, with_both, with_const_context>({.nodes = 2, .pes_per_node = 2});
  const uint32_t n = job->n_pes();
  std::vector<sums> single(n), both(n);
  std::vector<uint64_t> factors(n);
  for (uint32_t pe = 0; pe < n; ++pe) {
    factors[pe] = pe + 10;
    const auto give = [&]<class H>(void* context, sink_kind kind = sink_kind::device) {
      job->pe(pe).memory->set_context(handler_id<H>::value, H::name, kind, context);
    };
    give.operator()<with_context>(&single[pe]);
    give.operator()<with_both>(&both[pe]);
    give.operator()<with_const_context>(&factors[pe], sink_kind::host);
  }
  const auto send = [&](const gravel_t& g, uint32_t i) {
    const int to = static_cast<int>(i % n);
    gravel_am<with_context>(g, to, i);
    gravel_am<with_const_context>(g, to, i);
    gravel_am<in_batches>(g, to, i % 7);
    gravel_am<with_both>(g, to, i);
  };
  job->launch(2, 48, 0, [&] { send(job->pe(1).kernel, blockIdx.x * blockDim.x + threadIdx.x); });
  for (uint32_t i = 96; i < 200; ++i) send(job->pe(2).host_thread, i);
  job->settle();
  for (uint32_t pe = 0; pe < n; ++pe) {
    sums expected;
    std::vector<uint64_t> words(8);
    for (uint32_t i = pe; i < 200; i += n) {
      ++expected.messages;
      expected.values += i;
      words[0] += i * factors[pe];
      ++words[1 + i % 7];
    }
    for (const sums& s : {single[pe], both[pe]}) {
      CHECK(s.messages == expected.messages);
      CHECK(s.values == expected.values);
    }
    CHECK(both[pe].groups != 0);
    CHECK(std::vector<uint64_t>(job->pe(pe).at<uint64_t>(0), job->pe(pe).at<uint64_t>(0) + 8) == words);
  }
}

TEST_CASE("a message for a handler without its context is an error, which names the handler") {
  const auto job = fake_job::with<in_batches, with_context>({});
  gravel_am<with_context>(job->pe(0).host_thread, 1, 5u);
  job->settle();
  const device_error e = job->error_of(1);
  CHECK(e.code == static_cast<uint64_t>(message_fault::no_context) + 1);
  CHECK(e.offset == handler_id<with_context>::value);
}

TEST_CASE("the context of a handler is no argument of its messages") {
  CHECK(handler_traits<with_context>::bytes == 4);
  CHECK(handler_traits<with_both>::bytes == 2);
  CHECK(handler_traits<in_batches>::bytes == 8);
}

TEST_CASE("a group adds up what its lanes have under equal keys") {
  for (uint64_t seed = 0; seed <= of_seeds(50); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>({});
    std::vector<uint64_t> bins(5), expected(5);
    for (uint32_t i = 0; i < 96; ++i) expected[i * i % 5] += i;
    job->launch(2, 48, seed, [&] {
      const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i % 11 == 0) relax{}();
      const lane_group lanes = lane_group::active();
      const lane_group same = lanes.part(lanes.match(uint64_t{i * i % 5} << 32));
      const uint64_t sum = same.sum(uint64_t{i});
      if (same.is_leader()) fetch_add(&bins[i * i % 5], sum);
    });
    CHECK(bins == expected);
  }
}

TEST_CASE("large messages of handlers spill, and come out again") {
  for (uint32_t nodes : {1u, 2u}) {
    const auto job = fake_job::with<large_one, another_large_one, floods>({.nodes = nodes, .pes_per_node = 2 / nodes});
    job->pe(1).receiving[0] = true;
    gravel_am<floods>(job->pe(0).host_thread, 0, 1u);
    job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_taken) == 1 + 256; });
    CHECK(job->stat_of(gravel::detail::stat::messages_spilled) ==
          256 - 2 * (packet_capacity_units(4096) / max_am_units));
    job->pe(1).receiving[0] = false;
    job->settle();
    const mixes::tally* got = job->pe(1).at<mixes::tally>(0);
    for (uint32_t i = 0; i < 256; ++i) {
      REQUIRE(got[large_one::number].arrived[i] == (i % 3 != 0));
      REQUIRE(got[another_large_one::number].arrived[i] == (i % 3 == 0));
    }
    CHECK(got[large_one::number].wrong + got[another_large_one::number].wrong == 0);
    CHECK(job->node(0).spill.used == 0);
  }
}

TEST_CASE("bulk messages and active messages of their size travel together") {
  using of_five_units = mixes::carries<13, false, mixes::bytes<57>>;
  static_assert(handler_traits<of_five_units>::units == bulk_units(64));
  constexpr uint32_t rounds = 20;
  for (uint64_t seed = 0; seed <= 10; ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<of_five_units>({.nodes = 2, .pes_per_node = 1, .seed = seed + 1});
    std::vector<unsigned char> from(64 * rounds);
    for (uint32_t b = 0; b < from.size(); ++b) from[b] = static_cast<unsigned char>(b * 7 + 1);
    char* const to = job->pe(0).at<char>(32 * 1024);
    job->launch(1, 16, seed, [&] {
      const gravel_t& g = job->pe(0).kernel;
      for (uint32_t i = 0; i < rounds; ++i) {
        of_five_units::send(g, 1, i * 16 % 256 + threadIdx.x % 16);
        gravel_put_bulk(g, to + 64 * i, &from[64 * i], 64, 1);
      }
    });
    job->settle();
    REQUIRE(job->error_of(1).code == 0);
    CHECK(std::memcmp(job->pe(1).at<char>(0) + (to - job->pe(0).at<char>(0)), from.data(), from.size()) == 0);
    const mixes::tally& got = job->pe(1).at<mixes::tally>(0)[of_five_units::number];
    CHECK(got.wrong == 0);
    for (uint32_t i = 0; i < 256; ++i) REQUIRE(got.arrived[i] == (i < rounds * 16 - 256 ? 2 : 1));
  }
}
