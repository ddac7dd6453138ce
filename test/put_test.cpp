// One-sided operations and active messages against a serial model: every type, from kernels under seeds, from host threads
// and from handlers, in place and through the whole path to other PEs and nodes.
#include "device/put.cuh"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "test/catch.hpp"
#include "test/fake_job.hpp"

using namespace gravel;

namespace {

constexpr uint32_t n_words = 8, lanes = 40, rounds = 3;
constexpr op updates[] = {op::add, op::bit_and, op::bit_or, op::bit_xor, op::min, op::max};

uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) { return random_numbers(a * 1'000'003 + b * 1009 + c)(); }

template <class T>
T value_of(uint64_t bits) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(static_cast<int>(bits % 1000) - 500);  // sums are exact
  else return static_cast<T>(bits);
}

template <class T>
T start_of(op o) {
  switch (o) {
    case op::bit_and: return static_cast<T>(~0ull);
    case op::min: return std::numeric_limits<T>::max();
    case op::max: return std::numeric_limits<T>::lowest();
    default: return T{};
  }
}

template <class T>
T updated(op o, T old, T value) {
  if constexpr (std::is_integral_v<T>) {
    using bits = std::make_unsigned_t<T>;
    switch (o) {
      case op::add: return static_cast<T>(static_cast<bits>(old) + static_cast<bits>(value));
      case op::bit_and: return old & value;
      case op::bit_or: return old | value;
      case op::bit_xor: return old ^ value;
      case op::min: return std::min(old, value);
      default: return std::max(old, value);
    }
  } else {
    return o == op::add ? old + value : o == op::min ? std::min(old, value) : std::max(old, value);
  }
}

/// Does a T take this update?
template <class T>
bool takes(op o) {
  return is_atomic_integer<T> || (is_addable<T> && (o == op::add || o == op::min || o == op::max));
}

template <class T>
void send_update(const gravel_t& g, op o, T* dest, T value, int pe) {
  if constexpr (is_addable<T>) {
    if (o == op::add) gravel_add(g, dest, value, pe);
    if (o == op::min) gravel_min(g, dest, value, pe);
    if (o == op::max) gravel_max(g, dest, value, pe);
  }
  if constexpr (is_atomic_integer<T>) {
    if (o == op::bit_and) gravel_and(g, dest, value, pe);
    if (o == op::bit_or) gravel_or(g, dest, value, pe);
    if (o == op::bit_xor) gravel_xor(g, dest, value, pe);
  }
}

/// All that one type can do, in one job.
template <class T>
struct operations {
  fake_job& job;
  std::vector<std::vector<T>> model;  ///< [PE]: updates' words, inc's, then one word for each put
  uint64_t sent = 0;

  static constexpr uint64_t inc_at = std::size(updates) * n_words, puts_at = inc_at + n_words;
  uint64_t words() const { return puts_at + job.n_pes() * 2 * lanes * rounds; }

  explicit operations(fake_job& j) : job(j), model(j.n_pes()) {
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
      model[pe].assign(words(), T{});
      for (uint32_t k = 0; k < std::size(updates); ++k) {
        if (takes<T>(updates[k])) std::fill_n(model[pe].begin() + k * n_words, n_words, start_of<T>(updates[k]));
      }
      std::memcpy(job.pe(pe).template at<T>(0), model[pe].data(), words() * sizeof(T));
    }
  }

  /// What lane `lane` of source `source` (PE, or PE + n for its host thread) does. `apply`: to the model, else for real.
  void run(const gravel_t& g, uint32_t source, uint32_t lane, bool apply) {
    T* const heap = reinterpret_cast<T*>(g.heap);
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint64_t bits = mixed(source, lane, r);
      const uint32_t pe = static_cast<uint32_t>(bits % job.n_pes()), word = static_cast<uint32_t>(bits / 64 % n_words);
      const T value = value_of<T>(bits >> 13);
      for (uint32_t k = 0; k < std::size(updates); ++k) {
        if (!takes<T>(updates[k])) continue;
        const uint64_t at = k * n_words + word;
        if (apply) model[pe][at] = updated<T>(updates[k], model[pe][at], value), ++sent;
        else send_update<T>(g, updates[k], heap + at, value, static_cast<int>(pe));
      }
      if constexpr (is_addable<T>) {
        if (apply) model[pe][inc_at + word] = updated<T>(op::add, model[pe][inc_at + word], T{1}), ++sent;
        else gravel_inc(g, heap + inc_at + word, static_cast<int>(pe));
      }
      const uint64_t mine = puts_at + (source * lanes + lane) * rounds + r;
      if (apply) model[pe][mine] = value, ++sent;
      else gravel_put(g, heap + mine, value, static_cast<int>(pe));
    }
  }
};

template <class T>
void all_operations(fake_shape shape, uint64_t kernel_seed) {
  const auto job = fake_job::with<>(shape);
  operations<T> ops(*job);
  const uint32_t n = job->n_pes();
  for (uint32_t pe = 0; pe < n; ++pe) {
    job->launch(2, lanes / 2, kernel_seed, [&] { ops.run(job->pe(pe).kernel, pe, blockIdx.x * blockDim.x + threadIdx.x, false); });
    for (uint32_t lane = 0; lane < lanes; ++lane) ops.run(job->pe(pe).host_thread, n + pe, lane, false);
  }
  job->quiet_all();
  uint64_t in_place = 0, to_peers = 0;
  for (uint32_t pe = 0; pe < n; ++pe) {
    for (uint32_t source : {pe, n + pe})
      for (uint32_t lane = 0; lane < lanes; ++lane) ops.run(job->pe(pe).kernel, source, lane, true);
    REQUIRE(job->error_of(pe).code == 0);
    in_place += job->pe(pe).device.counters.in_place() + job->pe(pe).host.counters.in_place();
    to_peers += job->pe(pe).device.counters.to_peers();
  }
  for (uint32_t pe = 0; pe < n; ++pe)
    for (uint64_t w = 0; w < ops.words(); ++w) {
      INFO("PE " << pe << ", word " << w);
      REQUIRE(job->pe(pe).at<T>(0)[w] == ops.model[pe][w]);
    }
  CHECK(job->stat_of(stat::messages_taken) + in_place + to_peers == ops.sent);
  CHECK((to_peers != 0) == (shape.peers && shape.pes_per_node > 1));
  CHECK((in_place == 0) == !shape.self_in_place);
}

template <class T>
void in_every_shape() {
  uint64_t seed = 1;
  for (auto [nodes, pes, self] : {std::tuple{1u, 1u, true}, {1u, 2u, true}, {1u, 2u, false}, {2u, 2u, true}, {3u, 1u, false}})
    for (bool plain : {true, false}) {
      INFO(nodes << " nodes of " << pes << " PEs, in place " << self << ", seed " << seed);
      all_operations<T>({.nodes = nodes, .pes_per_node = pes, .seed = seed, .self_in_place = self}, plain ? 0 : seed);
      if (self) all_operations<T>({.nodes = nodes, .pes_per_node = pes, .seed = seed, .peers = true}, plain ? 0 : seed);
      ++seed;
    }
}

// --- active messages
struct nothing {
  static constexpr const char* name = "nothing";
  GRAVEL_HANDLER void operator()(const gravel_t& g) const { add_in_place(reinterpret_cast<uint64_t*>(g.heap), uint64_t{1}); }
};
struct one_byte {
  static constexpr const char* name = "one byte";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint8_t b) const { add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 1, uint64_t{b}); }
};
struct mixed_types {
  static constexpr const char* name = "mixed types";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t slot, char c, double d, uint16_t h, float f) const {
    uint64_t* at = reinterpret_cast<uint64_t*>(g.heap) + 64 + slot * 4;
    put_in_place(at, static_cast<uint64_t>(c));
    put_in_place(at + 1, to_word(d));
    put_in_place(at + 2, uint64_t{h});
    put_in_place(at + 3, to_word(f));
  }
};
struct largest {
  static constexpr const char* name = "largest";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 2, a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f);
  }
};
struct at_host {
  static constexpr const char* name = "at host";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t v) const { add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 3, v); }
};
/// Sends on from the handler: an operation back to who asked, and a bulk put.
struct passes_on {
  static constexpr const char* name = "passes on";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t back_to, uint32_t value) const {
    gravel_add(g, reinterpret_cast<uint64_t*>(g.heap) + 4, value, static_cast<int>(back_to));
    gravel_am<one_byte>(g, static_cast<int>(back_to), uint8_t{1});
    gravel_am<at_host>(g, static_cast<int>(g.my_pe), uint64_t{value});
  }
};

}  // namespace

TEST_CASE("put on 1- and 2-byte types") {
  in_every_shape<uint8_t>();
  in_every_shape<int8_t>();
  in_every_shape<char>();
  in_every_shape<uint16_t>();
  in_every_shape<int16_t>();
}
TEST_CASE("all operations on 4-byte integers") {
  in_every_shape<uint32_t>();
  in_every_shape<int32_t>();
}
TEST_CASE("all operations on 8-byte integers") {
  in_every_shape<uint64_t>();
  in_every_shape<int64_t>();
  in_every_shape<unsigned long long>();
}
TEST_CASE("put, add and inc on float and double") {
  in_every_shape<float>();
  in_every_shape<double>();
}

TEST_CASE("every operation under 200 schedules, with 3 planes and two nodes") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    all_operations<int64_t>({.nodes = 2, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_AGGREGATOR_THREADS", "3"}}}, seed);
  }
}

TEST_CASE("active messages carry their arguments, whatever their sizes, from kernels, hosts and handlers") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<nothing, one_byte, mixed_types, largest, at_host, passes_on>({.nodes = 2, .pes_per_node = 2, .seed = seed});
    const auto everything = [&](const gravel_t& g, uint64_t i) {
      const int pe = static_cast<int>(i % g.n_pes);
      gravel_am<nothing>(g, pe);
      gravel_am<one_byte>(g, pe, static_cast<uint8_t>(i));
      gravel_am<mixed_types>(g, pe, i, static_cast<char>('a' + i % 26), double(i) / 3, static_cast<uint16_t>(60'000 + i), float(i) / 7);
      gravel_am<largest>(g, pe, i, i + 1, i + 2, i + 3, i + 4, i + 5);
      gravel_am<at_host>(g, pe, i);
      gravel_am<passes_on>(g, pe, g.my_pe, static_cast<uint32_t>(i));
    };
    job->launch(1, 33, seed, [&] { everything(job->pe(1).kernel, threadIdx.x); });
    for (uint64_t i = 33; i < 50; ++i) everything(job->pe(1).host_thread, i);
    job->settle();
    uint64_t word[5][4] = {};
    for (uint64_t i = 0; i < 50; ++i) {
      const uint64_t pe = i % 4;
      ++word[0][pe];
      word[1][pe] += i;
      word[2][pe] += i + 2 * (i + 1) + 3 * (i + 2) + 5 * (i + 3) + 7 * (i + 4) + 11 * (i + 5);
      word[3][pe] += 2 * i;
      word[4][1] += i;
      ++word[1][1];
      const uint64_t* at = job->pe(static_cast<uint32_t>(pe)).at<uint64_t>(0) + 64 + i * 4;
      REQUIRE(at[0] == 'a' + i % 26);
      REQUIRE(from_word<double>(at[1]) == double(i) / 3);
      REQUIRE(at[2] == 60'000 + i);
      REQUIRE(from_word<float>(at[3]) == float(i) / 7);
    }
    for (uint32_t pe = 0; pe < 4; ++pe)
      for (int w = 0; w < 5; ++w) {
        INFO("PE " << pe << ", word " << w);
        REQUIRE(job->pe(pe).at<uint64_t>(0)[w] == word[w][pe]);
      }
  }
}

TEST_CASE("an error is recorded with PE, operation, offset and size; the first wins; nothing is sent") {
  struct row {
    message_fault fault;
    op what;
    int pe;
    uint64_t offset;
    std::function<void(const gravel_t&)> call;
  };
  const auto word = [](const gravel_t& g, int64_t offset) { return reinterpret_cast<uint64_t*>(g.heap + offset); };
  const uint64_t end = 64 * 1024;
  const row table[] = {
      {message_fault::bad_pe, op::put, 2, 0, [&](const gravel_t& g) { gravel_put(g, word(g, 0), 1, 2); }},
      {message_fault::bad_pe, op::add, -1, 8, [&](const gravel_t& g) { gravel_inc(g, word(g, 8), -1); }},
      {message_fault::outside_heap, op::bit_xor, 1, end, [&](const gravel_t& g) { gravel_xor(g, word(g, 64 * 1024), 1, 1); }},
      {message_fault::outside_heap, op::min, 0, end - 4, [&](const gravel_t& g) { gravel_min(g, word(g, 64 * 1024 - 4), 1, 0); }},
      {message_fault::outside_heap, op::max, 1, ~0ull - 7, [&](const gravel_t& g) { gravel_max(g, word(g, -8), 1, 1); }},
      {message_fault::misaligned, op::put, 1, 4, [&](const gravel_t& g) { gravel_put(g, word(g, 4), 1, 1); }},
      {message_fault::bad_pe, op::am, 7, handler_id<nothing>::value, [&](const gravel_t& g) { gravel_am<nothing>(g, 7); }},
      {message_fault::outside_heap, op::put_bulk, 1, end - 3,
       [&](const gravel_t& g) { gravel_put_bulk(g, g.heap + end - 3, g.heap, 4, 1); }},
      {message_fault::bad_pe, op::put_bulk, 9, 0, [&](const gravel_t& g) { gravel_put_bulk(g, g.heap, g.heap + 64, 4, 9); }},
  };
  for (const row& r : table)
    for (bool in_kernel : {true, false}) {
      INFO(name_of(r.what) << ": " << name_of(r.fault) << ", in a kernel " << in_kernel);
      const auto job = fake_job::with<nothing>({});
      const auto calls = [&](const gravel_t& g) {
        r.call(g);
        gravel_put(g, word(g, 3), 1, 55);  // later errors do not replace it
      };
      if (in_kernel) job->launch(1, 1, 0, [&] { calls(job->pe(0).kernel); });
      else calls(job->pe(0).host_thread);
      const device_error e = job->error_of(0);
      CHECK(e.code == static_cast<uint64_t>(r.fault) + 1);
      CHECK(e.operation == static_cast<uint64_t>(r.what));
      CHECK(static_cast<int32_t>(e.pe) == r.pe);
      CHECK(e.offset == r.offset);
      job->settle();
      CHECK(job->stat_of(stat::messages_taken) == 0);
    }
}

TEST_CASE("handler ids are hashes of names, the same everywhere") {
  CHECK(handler_id<nothing>::value == hash_name("nothing"));
  CHECK(hash_name("") == 2166136261u);
  CHECK(hash_name("a") == 0xe40c292cu);  // FNV-1a's published value
  CHECK(handler_traits<nothing>::units == 1);
  CHECK(handler_traits<largest>::units == 4);
  CHECK(handler_traits<at_host>::kind == sink_kind::host);
  CHECK(handler_list<nothing, at_host>::name_of(hash_name("at host")) == "at host");
  CHECK(handler_list<nothing, at_host>::name_of(1) == "unknown");
}
