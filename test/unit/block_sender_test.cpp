// gravel_block_sender under seeds: small buffers, divergent loops, messages of all sizes; a serial replay of what each
// lane draws says what must have arrived.
#include "device/block_sender.cuh"

#include <vector>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t words = 512;
constexpr uint64_t seeds = of_seeds(200);

enum area : uint64_t { adds = 0, puts = words, narrow = 2 * words, handled = 3 * words, at_host = 4 * words };

template <uint32_t WORDS>
void note(const gravel_t& g, uint64_t where, uint64_t sum) {
  add_in_place(reinterpret_cast<uint64_t*>(g.heap) + where, sum * WORDS);
}
struct am8 {
  static constexpr const char* name = "am8";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at) const { note<1>(g, handled + at, 1); }
};
struct am24 {
  static constexpr const char* name = "am24";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b) const {
    note<3>(g, handled + at, a ^ b);
  }
};
struct am48 {
  static constexpr const char* name = "am48";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                 uint64_t e) const {
    note<6>(g, handled + at, a ^ b ^ c ^ d ^ e);
  }
};
struct am56 {
  static constexpr const char* name = "am56";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                 uint64_t e, uint64_t f) const {
    note<7>(g, handled + at, a ^ b ^ c ^ d ^ e ^ f);
  }
};
/// Large ones, which are gathered where a warp's fit the buffer and there is no ring.
template <uint32_t MORE>
struct am_large {
  struct values {
    uint64_t value[MORE];
  };
  static constexpr const char* name = MORE == 8 ? "am72" : "am256";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, values all) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MORE; ++i) sum ^= all.value[i] * (2 * i + 1);
    note<MORE>(g, handled + at, sum);
  }
  static values of(uint64_t a) {
    values all;
    for (uint64_t& value : all.value) {
      a = a * 0x9E3779B97F4A7C15u + 1;
      value = a;
    }
    return all;
  }
};
using am72 = am_large<8>;
using am256 = am_large<31>;
struct host24 {
  static constexpr const char* name = "host24";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b) const { note<3>(g, at_host + at, a + b); }
};

/// The steps of one lane, drawn from its own numbers, so that they can be replayed. `Target` sends, or applies to a
/// model.
template <class Target>
uint64_t lane_program(uint64_t seed, uint32_t lane, uint32_t n_pes, Target&& to) {
  random_numbers draw(seed * 4096 + lane);
  const uint32_t rounds = draw.below(12);  // lanes leave the loop at different times
  uint64_t sent = 0;
  for (uint32_t r = 0; r < rounds; ++r) {
    if (draw.below(4) == 0) continue;
    const uint32_t pe = draw.below(n_pes);
    const uint64_t at = draw.below(words), a = draw(), b = draw();
    ++sent;
    switch (draw.below(9)) {
      case 0: to.add(pe, at, a); break;
      case 1: to.inc(pe, at); break;
      case 2: to.put(pe, lane * 12 + r, a); break;
      case 3: to.am8_(pe, at); break;
      case 4: to.am24_(pe, at, a, b); break;
      case 5: to.am48_(pe, at, a, b); break;
      case 6: to.template large<8>(pe, at, a); break;
      case 7: to.template large<31>(pe, at, a); break;
      default: to.host24_(pe, at, a, b);
    }
  }
  return sent;
}

template <class Sender>
struct sends {
  Sender& s;
  uint64_t* heap;
  void add(uint32_t pe, uint64_t at, uint64_t a) { s.add(heap + adds + at, a, static_cast<int>(pe)); }
  void inc(uint32_t pe, uint64_t at) { s.inc(reinterpret_cast<uint32_t*>(heap + narrow + at), static_cast<int>(pe)); }
  void put(uint32_t pe, uint64_t mine, uint64_t a) { s.put(heap + puts + mine % words, a, static_cast<int>(pe)); }
  void am8_(uint32_t pe, uint64_t at) { s.template am<am8>(static_cast<int>(pe), at); }
  void am24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { s.template am<am24>(static_cast<int>(pe), at, a, b); }
  void am48_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) {
    s.template am<am48>(static_cast<int>(pe), at, a, b, a + 1, b + 2, a * b);
  }
  template <uint32_t MORE>
  void large(uint32_t pe, uint64_t at, uint64_t a) {
    s.template am<am_large<MORE>>(static_cast<int>(pe), at, am_large<MORE>::of(a));
  }
  void host24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) {
    s.template am<host24>(static_cast<int>(pe), at, a, b);
  }
};

struct applies {
  std::vector<std::vector<uint64_t>>& model;
  void add(uint32_t pe, uint64_t at, uint64_t a) { model[pe][adds + at] += a; }
  void inc(uint32_t pe, uint64_t at) { ++model[pe][narrow + at]; }
  void put(uint32_t pe, uint64_t mine, uint64_t a) { model[pe][puts + mine % words] = a; }
  void am8_(uint32_t pe, uint64_t at) { ++model[pe][handled + at]; }
  void am24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { model[pe][handled + at] += 3 * (a ^ b); }
  void am48_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) {
    model[pe][handled + at] += 6 * (a ^ b ^ (a + 1) ^ (b + 2) ^ (a * b));
  }
  template <uint32_t MORE>
  void large(uint32_t pe, uint64_t at, uint64_t a) {
    const auto all = am_large<MORE>::of(a);
    for (uint32_t i = 0; i < MORE; ++i) a = i == 0 ? all.value[0] : a ^ all.value[i] * (2 * i + 1);
    model[pe][handled + at] += MORE * a;
  }
  void host24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { model[pe][at_host + at] += 3 * (a + b); }
};

/// Where the sender lies: as a GPU would have it.
template <class Sender>
constexpr bool is_dynamic = Sender::shared_bytes > 48 * 1024;

template <class Sender>
void use(Sender& sender, const gravel_t& g, uint64_t seed, int uses) {
  const uint32_t rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  for (int i = 0; i < uses; ++i) {
    sender.begin(g);
    lane_program(seed + static_cast<uint64_t>(i), rank, g.n_pes,
                 sends<Sender>{sender, reinterpret_cast<uint64_t*>(g.heap)});
    sender.end();
  }
}
template <class Sender>
void kernel(const gravel_t& g, uint64_t seed, int uses) {
  if constexpr (is_dynamic<Sender>) {
    use(Sender::dynamic(), g, seed, uses);
  } else {
    __shared__ Sender sender;
    use(sender, g, seed, uses);
  }
}

/// `block`: of BLOCK lanes; none: in one dimension.
template <int BLOCK, int CAPACITY = 1024, int PEERS = 1>
void send_all(const fake_shape& shape, uint64_t kernel_seed, int uses = 1, dim3 block = BLOCK) {
  INFO("block " << BLOCK << ", capacity " << CAPACITY << ", job seed " << shape.seed << ", kernel seed "
                << kernel_seed);
  using sender = gravel_block_sender<BLOCK, CAPACITY, PEERS>;
  const auto job = fake_job::with<am8, am24, am48, am72, am256, host24>(shape);
  const uint32_t n = job->n_pes();
  std::vector<std::vector<uint64_t>> model(n, std::vector<uint64_t>(5 * words));
  uint64_t sent = 0;
  // One PE sends: of two puts to one word from two PEs nobody knows which comes last.
  job->launch(
      1, block, kernel_seed, [&] { kernel<sender>(job->pe(0).kernel, shape.seed, uses); },
      is_dynamic<sender> ? sender::shared_bytes : 0);
  for (int use = 0; use < uses; ++use) {
    for (uint32_t lane = 0; lane < BLOCK; ++lane)
      sent += lane_program(shape.seed + static_cast<uint64_t>(use), lane, n, applies{model});
  }
  job->settle();
  const bool distinct_puts = BLOCK * 12 <= words && uses == 1;
  for (uint32_t pe = 0; pe < n; ++pe)
    for (uint64_t w = 0; w < 5 * words; ++w) {
      if (!distinct_puts && w >= puts && w < puts + words) continue;
      if (job->pe(pe).at<uint64_t>(0)[w] != model[pe][w]) {
        INFO("PE " << pe << ", word " << w);
        REQUIRE(job->pe(pe).at<uint64_t>(0)[w] == model[pe][w]);
      }
    }
  CHECK(job->stat_of(gravel::detail::stat::messages_taken) + job->pe(0).kernel.counters->in_place() +
            job->pe(0).kernel.counters->to_peers() ==
        sent);
  CHECK(job->error_of(0).code == 0);
}

/// All of a block's lanes send the largest message that is gathered at the same place.
template <int BLOCK, int CAPACITY>
void crowd(const gravel_t& g) {
  __shared__ gravel_block_sender<BLOCK, CAPACITY> sender;
  sender.begin(g);
  for (uint64_t r = 0; r < 6; ++r)
    sender.template am<am56>(1, uint64_t{threadIdx.x} + r, 1ull, 0ull, 0ull, 0ull, 0ull, 0ull);
  sender.end();
}

}  // namespace

TEST_CASE("everything arrives once, under 200 schedules, from the smallest buffers") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    send_all<32, 128>({.nodes = 2, .pes_per_node = 1, .seed = seed}, seed);
    send_all<64, 128>({.nodes = 1, .pes_per_node = 3, .seed = seed}, seed);
  }
}

TEST_CASE("the same with other shapes of block, buffer and job") {
  for (uint64_t seed = 1; seed <= of_seeds(33); ++seed) {
    send_all<96, 192>({.nodes = 2, .pes_per_node = 2, .seed = seed}, seed, 2);
    send_all<16, 128>({.nodes = 1, .pes_per_node = 1, .seed = seed, .self_in_place = false}, seed, 3);
    send_all<256, 512>({.nodes = 1, .pes_per_node = 2, .seed = seed, .settings = {{"GRAVEL_AGGREGATOR_THREADS", "2"}}},
                       seed);
    send_all<40, 160>({.nodes = 5, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}}, seed,
                      2);
  }
}

TEST_CASE("blocks of two and three dimensions, and buffers for all sizes of block and numbers of peers") {
  for (uint64_t seed = 0; seed < of_seeds(10); ++seed) {
    send_all<64, 128>({.nodes = 1, .pes_per_node = 2, .seed = seed}, seed, 2, dim3(8, 8));
    send_all<96, 192>({.nodes = 2, .pes_per_node = 1, .seed = seed}, seed, 2, dim3(2, 3, 16));
    send_all<128, 1024>({.nodes = 1, .pes_per_node = 3, .seed = seed, .peers = true}, seed, 2, dim3(1, 128));
    send_all<100, 130>({.nodes = 1, .pes_per_node = 2, .seed = seed}, seed, 2, dim3(5, 5, 4));
  }
  for (uint64_t seed = 0; seed < 3; ++seed) {
    send_all<1024>({.nodes = 1, .pes_per_node = 3, .seed = seed, .peers = seed % 2 != 0}, 0, 1, dim3(32, 4, 8));
    send_all<128, 1024, 5>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed, 2);
    send_all<128, 1024, 7>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed, 2, dim3(16, 8));
    send_all<128, 2048>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed, 2);
    send_all<128, 4096>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed, 2);
  }
}

TEST_CASE("what goes to peers is gathered in bins, or sorted where a block has none, and pushed into their rings") {
  for (uint64_t seed = 1; seed <= of_seeds(50); ++seed) {
    send_all<64, 512>({.nodes = 1, .pes_per_node = 2, .seed = seed, .peers = true}, seed);
    send_all<64, 1024>({.nodes = 2, .pes_per_node = 3, .seed = seed, .peers = true}, seed, 3);
    send_all<32, 128>({.nodes = 1, .pes_per_node = 3, .seed = seed, .peers = true}, seed, 2);
  }
  for (uint64_t seed = 1; seed <= of_seeds(10); ++seed)
    send_all<256, 2048>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed % 2 ? seed : 0, 4);
}

TEST_CASE("in plain order, and with buffers larger than a slot") {
  for (uint64_t seed = 1; seed <= of_seeds(10); ++seed) {
    send_all<32, 128>({.nodes = 1, .pes_per_node = 2, .seed = seed}, 0, 2);
    send_all<128, 4096>({.nodes = 1, .pes_per_node = 2, .seed = seed}, seed % 2 ? seed : 0, 3);
  }
}

TEST_CASE("a whole warp's largest messages fill the smallest buffer exactly") {
  for (uint64_t seed = 0; seed <= of_seeds(100); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<am56>({.nodes = 1, .pes_per_node = 2, .seed = seed + 1});
    job->launch(1, 64, seed, [&] { crowd<64, 128>(job->pe(0).kernel); });
    job->settle();
    uint64_t sum = 0;
    for (uint64_t w = 0; w < words; ++w) sum += job->pe(1).at<uint64_t>(0)[handled + w];
    REQUIRE(sum == 64 * 6 * 7);
  }
}

TEST_CASE("a sender without messages hands over nothing") {
  const auto job = fake_job::with<>({});
  job->launch(1, 64, 0, [&] {
    __shared__ gravel_block_sender<64, 128> sender;
    sender.begin(job->pe(0).kernel);
    sender.end();
    sender.begin(job->pe(0).kernel);
    sender.end();
  });
  CHECK(job->pe(0).kernel.block.state->tickets == 0);
}

TEST_CASE(
    "gravel_quiet in a kernel: what block senders handed over before is applied when it returns, on every route") {
  for (uint64_t seed = 1; seed <= of_seeds(50); ++seed)
    for (auto [nodes, pes, peers] : {std::tuple{2u, 1u, false}, {1u, 2u, false}, {1u, 3u, true}}) {
      INFO("seed " << seed << ", " << nodes << " nodes of " << pes << ", peers " << peers);
      const auto job = fake_job::with<>({.nodes = nodes, .pes_per_node = pes, .seed = seed, .peers = peers});
      job->launch(1, 64, seed, [&] {
        const gravel_t& g = job->pe(0).kernel;
        __shared__ gravel_block_sender<64, 512> sender;
        sender.begin(g);
        for (uint32_t pe = 0; pe < g.n_pes; ++pe)
          sender.add(reinterpret_cast<uint64_t*>(g.heap) + threadIdx.x, 7 + threadIdx.x, static_cast<int>(pe));
        sender.end();
        if (threadIdx.x % 16 != 5) return;  // one lane of some warps waits for what all have sent
        gravel_quiet(g);
        for (uint32_t pe = 0; pe < g.n_pes; ++pe)
          for (uint64_t lane = 0; lane < 64; ++lane)
            if (job->pe(pe).at<uint64_t>(0)[lane] != 7 + lane) fail("not applied at PE {} after gravel_quiet", pe);
      });
    }
}

TEST_CASE("a slot's rows are sorted by kind and destination, one row for each") {
  const auto job = fake_job::with<am8, am24, am48, host24>({.nodes = 1, .pes_per_node = 4, .self_in_place = false});
  queue q = job->pe(0).kernel.block;
  job->launch(1, 64, 5, [&] {
    __shared__ gravel_block_sender<64, 512> sender;
    const gravel_t& g = job->pe(0).kernel;
    sender.begin(g);
    uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
    sender.add(heap + threadIdx.x, 1, static_cast<int>(threadIdx.x % 4));
    sender.am<am24>(static_cast<int>(threadIdx.x * 7 % 4), uint64_t{threadIdx.x}, 1ull, 2ull);
    sender.end();
  });
  slot_header* slot = q.slot(0);
  REQUIRE(slot->published == 1);
  REQUIRE(slot->n_rows == 8);
  const row_kind add = update_kind(op::add, value_type::u64), am = am_message<am24>::kind;
  CHECK(slot->n_units == 4 * (units_for(add, 16) + units_for(am, 16)));
  const unit* at = q.payload(slot);
  for (uint32_t r = 0; r < 8; ++r) {
    const gravel::detail::message_row row = q.rows(slot)[r];
    CHECK(row.sink == sink_of(r % 4, sink_kind::device));
    CHECK(row.kind == (r < 4 ? add : am));
    CHECK(row.messages == 16);
    uint32_t lanes = 0;  // as bits
    for (uint32_t m = 0; m < row.messages; ++m) {
      const uint32_t* const message = words_at(at) + m * row.kind.words;
      const uint32_t lane = message[0];
      CHECK(message[1] == (r < 4 ? 1 : 0));
      CHECK(message[2] == (r < 4 ? 0 : 1));
      CHECK((r < 4 ? lane % 4 : lane * 7 % 4) == r % 4);
      lanes |= 1u << lane / 4;
    }
    CHECK(lanes == 0xffff);
    at += row.units();
  }
}

namespace {

/// Word i of the heap by operation i, of more operations than a block sender tells apart; the last ones by more
/// messages.
constexpr uint32_t many_kinds = 21;
static_assert(many_kinds > kind_table::most + 2);
template <class Sender>
void send_of_kind(Sender& s, uint32_t kind, uint64_t* heap, int pe) {
  const auto at = [&]<class T>(T) { return reinterpret_cast<T*>(heap + kind); };
  switch (kind) {
    case 0: return s.inc(at(uint64_t{}), pe);
    case 1: return s.inc(at(uint32_t{}), pe);
    case 2: return s.max(at(int32_t{}), 64, pe);
    case 3: return s.max(at(int64_t{}), 64, pe);
    case 4: return s.inc(at(float{}), pe);
    case 5: return s.inc(at(double{}), pe);
    case 6: return s.add(at(uint64_t{}), 1, pe);
    case 7: return s.add(at(uint32_t{}), 1, pe);
    case 8: return s.max(at(uint32_t{}), 64, pe);
    case 9: return s.bit_or(at(uint64_t{}), 64, pe);
    case 10: return s.add(at(float{}), 1, pe);
    case 11: return s.add(at(double{}), 1, pe);
    case 12: return s.put(at(uint8_t{}), 7, pe);
    case 13: return s.max(at(uint64_t{}), 8, pe);
    case 14: return s.bit_or(at(uint32_t{}), 9, pe);
    case 15: return s.bit_xor(at(uint64_t{}), 0, pe);
    case 16: return s.template am<am8>(pe, uint64_t{1});
    case 17: return s.template am<am24>(pe, uint64_t{2}, uint64_t{1}, uint64_t{0});
    case 18:
      return s.template am<am48>(pe, uint64_t{3}, uint64_t{1}, uint64_t{0}, uint64_t{0}, uint64_t{0}, uint64_t{0});
    case 19: return s.template am<am72>(pe, uint64_t{5}, am72::values{{1}});
    default: return s.template am<host24>(pe, uint64_t{4}, uint64_t{1}, uint64_t{0});
  }
}

}  // namespace

TEST_CASE("kinds beyond those that a block sender tells apart are sent directly, and all arrive") {
  for (bool peers : {false, true})
    for (uint64_t seed = 0; seed <= of_seeds(50); ++seed) {
      INFO("peers " << peers << ", seed " << seed);
      constexpr uint32_t lanes = 32, each = 2;
      const auto job = fake_job::with<am8, am24, am48, am72, host24>(
          {.nodes = 1, .pes_per_node = 2, .seed = seed + 1, .peers = peers});
      const gravel_t& g = job->pe(0).kernel;
      uint32_t kinds = 0;
      job->launch(1, lanes, seed, [&] {
        __shared__ gravel_block_sender<lanes, 512> sender;
        sender.begin(g);
        for (uint32_t r = 0; r < each; ++r)
          for (uint32_t k = 0; k < many_kinds; ++k) send_of_kind(sender, k, reinterpret_cast<uint64_t*>(g.heap), 1);
        __syncthreads();
        if (threadIdx.x == 0) kinds = sender.kinds.size();
        sender.end();
      });
      CHECK(kinds == kind_table::most);
      const uint64_t direct = g.direct.state->tickets;
      job->settle();
      CHECK(direct >= each * (many_kinds - kind_table::most - (peers ? 1 : 0)));  // with peers bins hold one kind
      constexpr uint64_t n = lanes * each;
      static_assert(n == 64);  // what some put there
      const uint64_t* const heap = job->pe(1).at<uint64_t>(0);
      for (uint32_t k : {0, 1, 2, 3, 6, 7, 8, 9}) REQUIRE(heap[k] == n);
      for (uint32_t k : {4, 10}) REQUIRE(from_word<float>(heap[k]) == n);
      for (uint32_t k : {5, 11}) REQUIRE(from_word<double>(heap[k]) == n);
      for (uint32_t k : {12, 13, 14}) REQUIRE(heap[k] == k - 5);
      REQUIRE(heap[15] == 0);
      REQUIRE(heap[handled + 1] == n);
      REQUIRE(heap[handled + 2] == 3 * n);
      REQUIRE(heap[handled + 3] == 6 * n);
      REQUIRE(heap[handled + 5] == 8 * n);
      REQUIRE(heap[at_host + 4] == 3 * n);
      CHECK(job->error_of(0).code == 0);
    }
}

TEST_CASE("bins hold the kind of the first message to a peer; others are sorted, in rows of their own") {
  // The first kind, and how many messages of it a half of a bin holds.
  for (auto [first, half] : {std::pair{0u, 1024u}, {7u, 512u}, {6u, 256u}, {16u, 512u}}) {
    INFO("first kind " << first);
    const auto job = fake_job::with<am8, am24, am48, host24>({.nodes = 1, .pes_per_node = 2, .peers = true});
    const gravel_t& g = job->pe(0).kernel;
    const peer_ring& ring = g.peers[1].ring;
    const uint32_t first_kind = first;
    job->launch(1, 32, 0, [&] {
      __shared__ gravel_block_sender<32, 1024> sender;
      sender.begin(g);
      auto* const heap = reinterpret_cast<uint64_t*>(g.heap);
      send_of_kind(sender, first_kind, heap, 1);
      __syncthreads();
      for (uint32_t kind : {0u, 6u, 7u, 16u}) send_of_kind(sender, kind, heap, 1);
      __syncthreads();
      if (threadIdx.x == 0) {
        CHECK(1u << sender.bins.half_log2(row_kind::of_bits(sender.bins.kind).words) == half);
        CHECK(sender.kinds.size() == 3);  // sorted
      }
      sender.end();
    });
    // Three kinds that were sorted, in the order of their first messages; then what the bin holds.
    for (uint64_t ticket = 0; ticket < 4; ++ticket) {
      REQUIRE(ring.arrived(ticket));
      const message_row row = ring.chunk(ticket)->row;
      CHECK(is_sound(row.kind));
      CHECK(row.sink == sink_of(1, sink_kind::device));
      CHECK(row.messages == (ticket == 3 ? 64 : 32));
      for (uint64_t before = 0; before < ticket; ++before) CHECK(row.kind != ring.chunk(before)->row.kind);
    }
    row_kind last = am_message<am8>::kind;
    if (first == 0) last = update_kind(op::inc, value_type::u64);
    else if (first == 7) last = update_kind(op::add, value_type::u32);
    else if (first == 6) last = update_kind(op::add, value_type::u64);
    CHECK(ring.chunk(3)->row.kind == last);
    CHECK_FALSE(ring.arrived(4));
    job->settle();
    const uint64_t* const heap = job->pe(1).at<uint64_t>(0);
    for (auto [kind, word] : {std::pair<uint32_t, uint64_t>{0, 0}, {6, 6}, {7, 7}, {16, handled + 1}})
      CHECK(heap[word] == (kind == first_kind ? 64 : 32));
  }
}

TEST_CASE("halves of bins that fill are pushed as rows of their kind, whatever its size") {
  for (uint64_t seed = 0; seed <= of_seeds(20); ++seed)
    for (uint32_t kind : {0u, 6u, 7u, 16u}) {
      INFO("seed " << seed << ", kind " << kind);
      constexpr uint32_t lanes = 96, each = 30;
      const auto job =
          fake_job::with<am8, am24, am48, host24>({.nodes = 1, .pes_per_node = 3, .seed = seed + 1, .peers = true});
      const gravel_t& g = job->pe(0).kernel;
      job->launch(1, lanes, seed, [&] {
        __shared__ gravel_block_sender<lanes, 512> sender;
        for (int use = 0; use < 2; ++use) {
          sender.begin(g);
          for (uint32_t r = 0; r < each; ++r)
            send_of_kind(sender, kind, reinterpret_cast<uint64_t*>(g.heap),
                         static_cast<int>(1 + (threadIdx.x + r) % 2));
          sender.end();
        }
      });
      job->settle();
      for (uint32_t pe : {1u, 2u})
        REQUIRE(job->pe(pe).at<uint64_t>(0)[kind == 16 ? handled + 1 : kind] == lanes * each);
      CHECK(job->pe(0).kernel.counters->to_peers() == 2 * lanes * each);
    }
}

TEST_CASE("in a heap of more than 2^32 words of a type its rows name a window") {
  // The heap is as large in the handle alone; no one reads at these addresses.
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
  gravel_t g = job->pe(0).kernel;
  g.heap_bytes = (1ull << 34) + 4096;
  const uint64_t far = 1ull << 34;
  job->launch(1, 32, 0, [&] {
    __shared__ gravel_block_sender<32, 128> sender;
    sender.begin(g);
    if (threadIdx.x < 4) {
      sender.inc(reinterpret_cast<uint32_t*>(g.heap + far) + threadIdx.x, 1);
      sender.add(reinterpret_cast<uint64_t*>(g.heap + far) + threadIdx.x, 5, 1);
    }
    sender.end();
  });
  const queue& q = g.block;
  slot_header* const slot = q.slot(0);
  REQUIRE(slot->published == 1);
  REQUIRE(slot->n_rows == 2);
  const row_kind inc = update_kind(op::inc, value_type::u32).in_window(128),
                 add = update_kind(op::add, value_type::u64);
  CHECK(q.rows(slot)[0].kind == inc);
  CHECK(q.rows(slot)[1].kind == add);
  const uint32_t *const increments = words_at(q.payload(slot)), *const sums = words_at(q.payload(slot) + 1);
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK(heap_window::begin(inc.window()) + increments[i] == far / 4 + increments[i] % 4);
    CHECK(sums[3 * i] == far / 8 + sums[3 * i] % 4);
    CHECK(sums[3 * i + 1] == 5);
    CHECK(sums[3 * i + 2] == 0);
  }
}

TEST_CASE("an error in a block sender is recorded and drops only that message") {
  const auto job = fake_job::with<am8>({});
  job->launch(1, 32, 3, [&] {
    __shared__ gravel_block_sender<32, 128> sender;
    const gravel_t& g = job->pe(0).kernel;
    sender.begin(g);
    uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
    if (threadIdx.x == 5) sender.inc(heap, 77);
    sender.inc(heap, 1);
    sender.end();
  });
  job->settle();
  const device_error e = job->error_of(0);
  CHECK(e.code == static_cast<uint64_t>(message_fault::bad_pe) + 1);
  CHECK(e.pe == 77);
  CHECK(job->pe(1).at<uint64_t>(0)[0] == 32);
}

TEST_CASE("a block with another number of threads than its sender is reported, and the sender drops what it is given") {
  for (uint64_t seed : {0, 1, 2, 3})
    for (dim3 block : {dim3(32), dim3(96), dim3(64, 2), dim3(1)}) {
      const auto job = fake_job::with<am8>({.peers = true});
      job->launch(2, block, seed, [&] {
        __shared__ gravel_block_sender<64, 512> sender;
        const gravel_t& g = job->pe(0).kernel;
        uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
        for (int use = 0; use < 2; ++use) {
          sender.begin(g);
          for (int i = 0; i < 20; ++i) {
            for (int pe = 0; pe < 2; ++pe) {
              sender.inc(heap, pe);
              sender.am<am8>(pe, 1ull);
            }
          }
          sender.end();
        }
      });
      job->settle();
      const device_error e = job->error_of(0);
      CHECK(e.code == static_cast<uint64_t>(message_fault::bad_block) + 1);
      CHECK(text_of_misfit(message_fault::bad_block, e.offset, e.bytes) ==
            "gravel_block_sender<64, ...> in a block of " + std::to_string(block.x * block.y) +
                " threads: its first argument must be the number of threads of the block");
      for (uint32_t pe = 0; pe < 2; ++pe)
        for (uint64_t word : {uint64_t{0}, handled + 1}) CHECK(job->pe(pe).at<uint64_t>(0)[word] == 0);
    }
}

TEST_CASE("a sender in dynamic shared memory of which the block has too little ends the block") {
  const auto job = fake_job::with<>({});
  using sender = gravel_block_sender<32, 128>;
  for (uint32_t given : {0u, sender::shared_bytes, sender::shared_bytes + 15})
    CHECK_THROWS_WITH(
        job->launch(
            1, 32, 0, [&] { sender::dynamic(16).begin(job->pe(0).kernel); }, given),
        contains_text("in a block with " + std::to_string(given) + " bytes of dynamic shared memory: it needs " +
                      std::to_string(sender::shared_bytes + 16)));
  job->launch(
      1, 32, 0, [&] { sender::dynamic(16).begin(job->pe(0).kernel); }, sender::shared_bytes + 16);
}
