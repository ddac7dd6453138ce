// gravel_block_sender under seeds: small buffers, divergent loops, messages of all sizes; a serial replay of what each lane
// draws says what must have arrived.
#include "device/block_sender.cuh"

#include <vector>

#include "test/catch.hpp"
#include "test/fake_job.hpp"

using namespace gravel;

namespace {

constexpr uint64_t words = 512;
/// All lanes of a block run on one thread, so ThreadSanitizer sees nothing here but the cost of its bookkeeping.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t seeds = 20;
#else
constexpr uint64_t seeds = 200;
#endif

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
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b) const { note<3>(g, handled + at, a ^ b); }
};
struct am48 {
  static constexpr const char* name = "am48";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e) const {
    note<6>(g, handled + at, a ^ b ^ c ^ d ^ e);
  }
};
struct host24 {
  static constexpr const char* name = "host24";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t at, uint64_t a, uint64_t b) const { note<3>(g, at_host + at, a + b); }
};

/// What one lane does: drawn from its own numbers, so that it can be replayed. `Target` sends, or applies to a model.
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
    switch (draw.below(7)) {
      case 0: to.add(pe, at, a); break;
      case 1: to.inc(pe, at); break;
      case 2: to.put(pe, lane * 12 + r, a); break;
      case 3: to.am8_(pe, at); break;
      case 4: to.am24_(pe, at, a, b); break;
      case 5: to.am48_(pe, at, a, b); break;
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
  void am48_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { s.template am<am48>(static_cast<int>(pe), at, a, b, a + 1, b + 2, a * b); }
  void host24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { s.template am<host24>(static_cast<int>(pe), at, a, b); }
};

struct applies {
  std::vector<std::vector<uint64_t>>& model;
  void add(uint32_t pe, uint64_t at, uint64_t a) { model[pe][adds + at] += a; }
  void inc(uint32_t pe, uint64_t at) { ++model[pe][narrow + at]; }
  void put(uint32_t pe, uint64_t mine, uint64_t a) { model[pe][puts + mine % words] = a; }
  void am8_(uint32_t pe, uint64_t at) { ++model[pe][handled + at]; }
  void am24_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { model[pe][handled + at] += 3 * (a ^ b); }
  void am48_(uint32_t pe, uint64_t at, uint64_t a, uint64_t b) { model[pe][handled + at] += 6 * (a ^ b ^ (a + 1) ^ (b + 2) ^ (a * b)); }
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
    lane_program(seed + static_cast<uint64_t>(i), rank, g.n_pes, sends<Sender>{sender, reinterpret_cast<uint64_t*>(g.heap)});
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
  INFO("block " << BLOCK << ", capacity " << CAPACITY << ", job seed " << shape.seed << ", kernel seed " << kernel_seed);
  using sender = gravel_block_sender<BLOCK, CAPACITY, PEERS>;
  const auto job = fake_job::with<am8, am24, am48, host24>(shape);
  const uint32_t n = job->n_pes();
  std::vector<std::vector<uint64_t>> model(n, std::vector<uint64_t>(5 * words));
  uint64_t sent = 0;
  // One PE sends: of two puts to one word from two PEs nobody knows which comes last.
  job->launch(
      1, block, kernel_seed, [&] { kernel<sender>(job->pe(0).kernel, shape.seed, uses); }, is_dynamic<sender> ? sender::shared_bytes : 0);
  for (int use = 0; use < uses; ++use) {
    for (uint32_t lane = 0; lane < BLOCK; ++lane) sent += lane_program(shape.seed + static_cast<uint64_t>(use), lane, n, applies{model});
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
  CHECK(job->stat_of(stat::messages_taken) + job->pe(0).device.counters.in_place() + job->pe(0).device.counters.to_peers() == sent);
  CHECK(job->error_of(0).code == 0);
}

/// All of a block's lanes send the largest message at the same place.
template <int BLOCK, int CAPACITY>
void crowd(const gravel_t& g) {
  __shared__ gravel_block_sender<BLOCK, CAPACITY> sender;
  sender.begin(g);
  for (uint64_t r = 0; r < 6; ++r) sender.template am<am48>(1, uint64_t{threadIdx.x} + r, 1ull, 0ull, 0ull, 0ull, 0ull);
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
  for (uint64_t seed = 1; seed <= seeds / 6; ++seed) {
    send_all<96, 192>({.nodes = 2, .pes_per_node = 2, .seed = seed}, seed, 2);
    send_all<16, 128>({.nodes = 1, .pes_per_node = 1, .seed = seed, .self_in_place = false}, seed, 3);
    send_all<256, 512>({.nodes = 1, .pes_per_node = 2, .seed = seed, .settings = {{"GRAVEL_AGGREGATOR_THREADS", "2"}}}, seed);
    send_all<40, 160>({.nodes = 5, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}}, seed, 2);
  }
}

TEST_CASE("blocks of two and three dimensions, and buffers for all sizes of block and numbers of peers") {
  for (uint64_t seed = 0; seed < seeds / 20; ++seed) {
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
  for (uint64_t seed = 1; seed <= seeds / 4; ++seed) {
    send_all<64, 512>({.nodes = 1, .pes_per_node = 2, .seed = seed, .peers = true}, seed);
    send_all<64, 1024>({.nodes = 2, .pes_per_node = 3, .seed = seed, .peers = true}, seed, 3);
    send_all<32, 128>({.nodes = 1, .pes_per_node = 3, .seed = seed, .peers = true}, seed, 2);
  }
  for (uint64_t seed = 1; seed <= 10; ++seed)
    send_all<256, 2048>({.nodes = 1, .pes_per_node = 4, .seed = seed, .peers = true}, seed % 2 ? seed : 0, 4);
}

TEST_CASE("in plain order, and with buffers larger than a slot") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    send_all<32, 128>({.nodes = 1, .pes_per_node = 2, .seed = seed}, 0, 2);
    send_all<128, 4096>({.nodes = 1, .pes_per_node = 2, .seed = seed}, seed % 2 ? seed : 0, 3);
  }
}

TEST_CASE("a whole warp's largest messages fill the smallest buffer exactly") {
  for (uint64_t seed = 0; seed <= seeds / 2; ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<am8, am24, am48, host24>({.nodes = 1, .pes_per_node = 2, .seed = seed + 1});
    job->launch(1, 64, seed, [&] { crowd<64, 128>(job->pe(0).kernel); });
    job->settle();
    uint64_t sum = 0;
    for (uint64_t w = 0; w < words; ++w) sum += job->pe(1).at<uint64_t>(0)[handled + w];
    REQUIRE(sum == 64 * 6 * 6);
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
  CHECK(job->pe(0).device.queues[static_cast<uint32_t>(queue_kind::kernel_block)].tickets == 0);
}

TEST_CASE("a slot's rows are sorted by destination, one row for each destination and size") {
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
  CHECK(slot->n_units == 64 + 64 * 2);
  const unit* at = q.payload(slot);
  for (uint32_t r = 0; r < 8; ++r) {
    const gravel::message_row row = q.rows(slot)[r];
    CHECK(row.sink == sink_of(r / 2, sink_kind::device));
    CHECK(row.units == r % 2 + 1);
    CHECK(row.messages == 16);
    for (uint32_t m = 0; m < row.messages; ++m, at += row.units) CHECK(units_of(at->word[0], at->word[1]) == row.units);
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
    CHECK_THROWS_WITH(job->launch(
                          1, 32, 0, [&] { sender::dynamic(16).begin(job->pe(0).kernel); }, given),
                      contains_text("in a block with " + std::to_string(given) + " bytes of dynamic shared memory: it needs " +
                                    std::to_string(sender::shared_bytes + 16)));
  job->launch(
      1, 32, 0, [&] { sender::dynamic(16).begin(job->pe(0).kernel); }, sender::shared_bytes + 16);
}
