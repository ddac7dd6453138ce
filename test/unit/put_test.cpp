// One-sided operations and active messages against a serial model: every type, from kernels under seeds, from host
// threads and from handlers, in place and through the whole path to other PEs and nodes.
#include "device/put.cuh"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint32_t n_words = 8, lanes = 40, rounds = 3;
constexpr op updates[] = {op::add, op::bit_and, op::bit_or, op::bit_xor, op::min, op::max};

uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) { return random_numbers(a * 1'000'003 + b * 1009 + c)(); }

template <class T>
T value_of(uint64_t bits) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(static_cast<int>(bits % 1000) - 500);  // sums are exact
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
    if (o == op::add) return old + value;
    return o == op::min ? std::min(old, value) : std::max(old, value);
  }
}

/// Whether a T takes this update.
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

  /// The steps of lane `lane` of source `source` (PE, or PE + n for its host thread). `apply`: on the model, else for
  /// real.
  void run(const gravel_t& g, uint32_t source, uint32_t lane, bool apply) {
    T* const heap = reinterpret_cast<T*>(g.heap);
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint64_t bits = mixed(source, lane, r);
      const uint32_t pe = static_cast<uint32_t>(bits % job.n_pes()), word = static_cast<uint32_t>(bits / 64 % n_words);
      const T value = value_of<T>(bits >> 13);
      for (uint32_t k = 0; k < std::size(updates); ++k) {
        if (!takes<T>(updates[k])) continue;
        const uint64_t at = k * n_words + word;
        if (apply) {
          model[pe][at] = updated<T>(updates[k], model[pe][at], value);
          ++sent;
        } else send_update<T>(g, updates[k], heap + at, value, static_cast<int>(pe));
      }
      if constexpr (is_addable<T>) {
        if (apply) {
          model[pe][inc_at + word] = updated<T>(op::add, model[pe][inc_at + word], T{1});
          ++sent;
        } else gravel_inc(g, heap + inc_at + word, static_cast<int>(pe));
      }
      const uint64_t mine = puts_at + (source * lanes + lane) * rounds + r;
      if (apply) {
        model[pe][mine] = value;
        ++sent;
      } else gravel_put(g, heap + mine, value, static_cast<int>(pe));
    }
  }
};

template <class T>
void all_operations(fake_shape shape, uint64_t kernel_seed) {
  const auto job = fake_job::with<>(shape);
  operations<T> ops(*job);
  const uint32_t n = job->n_pes();
  for (uint32_t pe = 0; pe < n; ++pe) {
    job->launch(2, lanes / 2, kernel_seed,
                [&] { ops.run(job->pe(pe).kernel, pe, blockIdx.x * blockDim.x + threadIdx.x, false); });
    for (uint32_t lane = 0; lane < lanes; ++lane) ops.run(job->pe(pe).host_thread, n + pe, lane, false);
  }
  job->quiet_all();
  uint64_t in_place = 0, to_peers = 0;
  for (uint32_t pe = 0; pe < n; ++pe) {
    for (uint32_t source : {pe, n + pe})
      for (uint32_t lane = 0; lane < lanes; ++lane) ops.run(job->pe(pe).kernel, source, lane, true);
    REQUIRE(job->error_of(pe).code == 0);
    in_place += job->pe(pe).kernel.counters->in_place() + job->pe(pe).host_thread.counters->in_place();
    to_peers += job->pe(pe).kernel.counters->to_peers();
  }
  for (uint32_t pe = 0; pe < n; ++pe)
    for (uint64_t w = 0; w < ops.words(); ++w) {
      INFO("PE " << pe << ", word " << w);
      REQUIRE(job->pe(pe).at<T>(0)[w] == ops.model[pe][w]);
    }
  CHECK(job->stat_of(gravel::detail::stat::messages_taken) + in_place + to_peers == ops.sent);
  CHECK((to_peers != 0) == (shape.peers && shape.pes_per_node > 1));
  CHECK((in_place == 0) == !shape.self_in_place);
}

template <class T>
void in_every_shape() {
  uint64_t seed = 1;
  for (auto [nodes, pes, self] :
       {std::tuple{1u, 1u, true}, {1u, 2u, true}, {1u, 2u, false}, {2u, 2u, true}, {3u, 1u, false}})
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
  GRAVEL_HANDLER void operator()(const gravel_t& g) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap), uint64_t{1});
  }
};
struct one_byte {
  static constexpr const char* name = "one byte";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint8_t b) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 1, uint64_t{b});
  }
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
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                 uint64_t f) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 2, a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f);
  }
};
struct at_host {
  static constexpr const char* name = "at host";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t v) const { add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 3, v); }
};
/// Sends from the handler: an operation back to the sender, and a bulk put.
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
  for (uint64_t seed = 1; seed <= of_seeds(200); ++seed) {
    INFO("seed " << seed);
    all_operations<int64_t>(
        {.nodes = 2, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_AGGREGATOR_THREADS", "3"}}}, seed);
  }
}

TEST_CASE("active messages carry their arguments, whatever their sizes, from kernels, hosts and handlers") {
  for (uint64_t seed = 1; seed <= of_seeds(40); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<nothing, one_byte, mixed_types, largest, at_host, passes_on>(
        {.nodes = 2, .pes_per_node = 2, .seed = seed});
    const auto everything = [&](const gravel_t& g, uint64_t i) {
      const int pe = static_cast<int>(i % g.n_pes);
      gravel_am<nothing>(g, pe);
      gravel_am<one_byte>(g, pe, static_cast<uint8_t>(i));
      gravel_am<mixed_types>(g, pe, i, static_cast<char>('a' + i % 26), double(i) / 3,
                             static_cast<uint16_t>(60'000 + i), float(i) / 7);
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
  const uint64_t end = fake_job::with<nothing>({})->pe(0).kernel.heap_bytes;
  const row table[] = {
      {message_fault::bad_pe, op::put, 2, 0, [&](const gravel_t& g) { gravel_put(g, word(g, 0), 1, 2); }},
      {message_fault::bad_pe, op::inc, -1, 8, [&](const gravel_t& g) { gravel_inc(g, word(g, 8), -1); }},
      {message_fault::outside_heap, op::bit_xor, 1, end,
       [&](const gravel_t& g) { gravel_xor(g, word(g, static_cast<int64_t>(end)), 1, 1); }},
      {message_fault::outside_heap, op::min, 0, end - 4,
       [&](const gravel_t& g) { gravel_min(g, word(g, static_cast<int64_t>(end) - 4), 1, 0); }},
      {message_fault::outside_heap, op::max, 1, ~0ull - 7,
       [&](const gravel_t& g) { gravel_max(g, word(g, -8), 1, 1); }},
      {message_fault::misaligned, op::put, 1, 4, [&](const gravel_t& g) { gravel_put(g, word(g, 4), 1, 1); }},
      {message_fault::bad_pe, op::am, 7, handler_id<nothing>::value,
       [&](const gravel_t& g) { gravel_am<nothing>(g, 7); }},
      {message_fault::outside_heap, op::put_bulk, 1, end - 3,
       [&](const gravel_t& g) { gravel_put_bulk(g, g.heap + end - 3, g.heap, 4, 1); }},
      {message_fault::bad_pe, op::put_bulk, 9, 0,
       [&](const gravel_t& g) { gravel_put_bulk(g, g.heap, g.heap + 64, 4, 9); }},
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
      CHECK(job->stat_of(gravel::detail::stat::messages_taken) == 0);
    }
}

TEST_CASE("handler ids are hashes of names, the same everywhere") {
  CHECK(handler_id<nothing>::value == hash_name("nothing"));
  CHECK(hash_name("") == 2166136261u);
  CHECK(hash_name("a") == 0xe40c292cu);  // FNV-1a's published value
  CHECK(handler_traits<nothing>::units == 1);
  CHECK(handler_traits<largest>::units == 4);
  CHECK(handler_traits<at_host>::kind == sink_kind::host);
  CHECK(std::string(handler_list<nothing, at_host>::name_of(hash_name("at host"))) == "at host");
  CHECK(std::string(handler_list<nothing, at_host>::name_of(1)) == "unknown");
}

namespace {

struct sent_row {
  message_row row;
  std::vector<uint32_t> words;  ///< of its only message
};
/// The messages that PE 0's host thread hands over by send(handle). `heap_bytes`, if not 0: the handle says that its
/// heap is as large; no one reads it.
template <class F>
sent_row row_after(F send, uint64_t heap_bytes = 0) {
  const auto job = fake_job::with<nothing, one_byte, largest, at_host>({});
  gravel_t g = job->pe(0).host_thread;
  if (heap_bytes) g.heap_bytes = heap_bytes;
  send(g);
  REQUIRE(job->error_of(0).code == 0);
  const queue& q = g.direct;
  slot_header* const slot = q.slot(0);
  REQUIRE(slot->published == 1);
  REQUIRE(slot->n_rows == 1);
  const message_row row = q.rows(slot)[0];
  REQUIRE(row.messages == 1);
  REQUIRE(slot->n_units == row.units());
  const uint32_t* const words = words_at(q.payload(slot));
  return {row, {words, words + row.kind.words}};
}
template <class T>
T* word_of(const gravel_t& g, uint64_t index) {
  return reinterpret_cast<T*>(g.heap + index * sizeof(T));
}

}  // namespace

TEST_CASE("what travels: the row says operation, type, handler and destination, a message the rest") {
  struct row {
    const char* what;
    std::function<void(const gravel_t&)> send;
    row_kind kind;
    std::vector<uint32_t> words;
    sink_kind sink = sink_kind::device;
  };
  const row table[] = {
      {"inc of u64",
       [](auto& g) { gravel_inc(g, word_of<uint64_t>(g, 5), 1); },
       update_kind(op::inc, value_type::u64),
       {5}},
      {"inc of float",
       [](auto& g) { gravel_inc(g, word_of<float>(g, 6), 1); },
       update_kind(op::inc, value_type::f32),
       {6}},
      {"put of u8",
       [](auto& g) { gravel_put(g, word_of<uint8_t>(g, 7), 200, 1); },
       update_kind(op::put, value_type::u8),
       {7, 200}},
      {"put of i16",
       [](auto& g) { gravel_put(g, word_of<int16_t>(g, 8), -2, 1); },
       update_kind(op::put, value_type::u16),
       {8, 0xfffe}},
      {"add of i32, as of u32",
       [](auto& g) { gravel_add(g, word_of<int32_t>(g, 9), -3, 1); },
       update_kind(op::add, value_type::u32),
       {9, ~2u}},
      {"min of float",
       [](auto& g) { gravel_min(g, word_of<float>(g, 1), 1, 1); },
       update_kind(op::min, value_type::f32),
       {1, 0x3f800000}},
      {"xor of u64",
       [](auto& g) { gravel_xor(g, word_of<uint64_t>(g, 2), 0x1122334455667788, 1); },
       update_kind(op::bit_xor, value_type::u64),
       {2, 0x55667788, 0x11223344}},
      {"max of double",
       [](auto& g) { gravel_max(g, word_of<double>(g, 3), 1, 1); },
       update_kind(op::max, value_type::f64),
       {3, 0, 0x3ff00000}},
      {"the last word",
       [](auto& g) { gravel_inc(g, word_of<uint32_t>(g, 16383), 1); },
       update_kind(op::inc, value_type::u32),
       {16383}},
      {"no arguments", [](auto& g) { gravel_am<nothing>(g, 1); }, am_kind(handler_id<nothing>::value, 0), {0}},
      {"one byte",
       [](auto& g) { gravel_am<one_byte>(g, 1, uint8_t{255}); },
       am_kind(handler_id<one_byte>::value, 1),
       {255}},
      {"to a host",
       [](auto& g) { gravel_am<at_host>(g, 1, 0x100000002u); },
       am_kind(handler_id<at_host>::value, 8),
       {2, 1},
       sink_kind::host},
      {"48 bytes",
       [](auto& g) { gravel_am<largest>(g, 1, 1, 2, 3, 4, 5, ~0ull); },
       am_kind(handler_id<largest>::value, 48),
       {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, ~0u, ~0u}},
  };
  for (const row& r : table) {
    INFO(r.what);
    const sent_row sent = row_after(r.send);
    CHECK(sent.row.kind == r.kind);
    CHECK(sent.row.sink == sink_of(1, r.sink));
    CHECK(sent.words == r.words);
  }
}

TEST_CASE("in a heap of more than 2^32 words the row names a window around the word") {
  struct row {
    uint64_t heap_bytes;
    std::function<void(const gravel_t&)> send;
    row_kind kind;
    uint32_t index, value;  ///< the first two words
  };
  constexpr uint64_t all = 1ull << 32;
  constexpr uint32_t half = 1u << 31;
  const row table[] = {
      {all, [](auto& g) { gravel_put(g, word_of<uint8_t>(g, all - 1), 3, 1); }, update_kind(op::put, value_type::u8),
       ~0u, 3},
      {all + 4096, [](auto& g) { gravel_put(g, word_of<uint8_t>(g, all), 3, 1); },
       update_kind(op::put, value_type::u8).in_window(128), half, 3},
      {all + 4096, [](auto& g) { gravel_put(g, word_of<uint8_t>(g, 5), 3, 1); }, update_kind(op::put, value_type::u8),
       5, 3},
      {all + 4096, [](auto& g) { gravel_put(g, word_of<uint8_t>(g, all / 2 + (3 << 24) + 9), 3, 1); },
       update_kind(op::put, value_type::u8).in_window(3), half + 9, 3},
      {4 * all, [](auto& g) { gravel_add(g, word_of<uint32_t>(g, all - 1), 7, 1); },
       update_kind(op::add, value_type::u32), ~0u, 7},
      {4 * all + 4096, [](auto& g) { gravel_add(g, word_of<uint32_t>(g, all), 1, 1); },
       update_kind(op::add, value_type::u32).in_window(128), half, 1},
      {4 * all + 4096, [](auto& g) { gravel_put(g, word_of<uint64_t>(g, all / 2), 9, 1); },
       update_kind(op::put, value_type::u64), half, 9},
      {8 * all + 4096, [](auto& g) { gravel_add(g, word_of<double>(g, all + 1), 1, 1); },
       update_kind(op::add, value_type::f64).in_window(128), half + 1, 0},
      {8192 * all, [](auto& g) { gravel_min(g, word_of<int64_t>(g, 1024 * all - 1), -1, 1); },
       update_kind(op::min, value_type::i64).in_window(262015), half + (1u << 24) - 1, ~0u},
  };
  for (const row& r : table) {
    INFO("heap of " << r.heap_bytes << " bytes, index " << r.index);
    const sent_row sent = row_after(r.send, r.heap_bytes);
    REQUIRE(sent.row.kind == r.kind);
    CHECK(sent.words[0] == r.index);
    CHECK(sent.words[1] == r.value);
  }
}

TEST_CASE("lanes that send together share rows by destination, whose messages lie word beside word") {
  uint32_t shared = 0;
  for (uint64_t seed = 1; seed <= of_seeds(50); ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<>({.nodes = 1, .pes_per_node = 3, .seed = seed, .settings = {{"GRAVEL_WARP_SLOTS", "64"}}});
    const gravel_t& g = job->pe(0).kernel;
    job->launch(1, 32, seed,
                [&] { gravel_inc(g, word_of<uint64_t>(g, threadIdx.x), static_cast<int>(1 + threadIdx.x % 2)); });
    const queue& q = g.direct;
    uint32_t seen = 0;
    for (uint64_t ticket = 0; ticket < q.state->tickets; ++ticket) {
      slot_header* const slot = q.slot(ticket);
      REQUIRE(slot->published == ticket + 1);
      uint32_t units = 0;
      for (uint32_t r = 0; r < slot->n_rows; ++r) {
        const message_row row = q.rows(slot)[r];
        REQUIRE(row.kind == update_kind(op::inc, value_type::u64));
        for (uint32_t m = 0; m < row.messages; ++m) {
          const uint32_t index = words_at(q.payload(slot) + units)[m];
          REQUIRE(index < 32);
          REQUIRE(row.sink == sink_of(1 + index % 2, sink_kind::device));
          REQUIRE((seen >> index & 1) == 0);
          seen |= 1u << index;
        }
        shared += row.messages > 4;
        units += static_cast<uint32_t>(row.units());
      }
      REQUIRE(slot->n_units == units);
    }
    REQUIRE(seen == ~0u);
  }
  CHECK(shared > 10);
}
