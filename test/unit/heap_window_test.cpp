// Updates in heaps that have more words than an index of 32 bits can number: every sender, on every route, reaches the
// words around each border, by compact rows. Of the heap only the pages that are touched use memory.
#include <map>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t GiB = 1ull << 30, heap_size = 40 * GiB;
constexpr const char* size_text = "40G";

/// A handler that sends an update itself.
struct relay {
  static constexpr const char* name = "relay";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, int pe) const {
    gravel_add(g, reinterpret_cast<uint64_t*>(g.heap + offset), 1000, pe);
  }
};

/// What one lane sends, in order: the same draws say what must have arrived.
template <class Target>
void lane_program(uint64_t seed, uint32_t lane, uint32_t n_pes, Target&& to) {
  random_numbers draw(seed * 4096 + lane);
  // Words near the borders of windows, of each size of word, and near the end of the heap.
  const auto offset_near = [&](uint64_t bytes) {
    const uint64_t last = heap_size / bytes, middle = 1ull << 31, border = 1ull << 32;
    const uint64_t near[] = {64, middle, border, border + middle, 2 * border, last - 64};
    uint64_t word;
    do word = near[draw.below(6)] + draw.below(64) - 32;
    while (word >= last);
    return word * bytes;
  };
  for (uint32_t n = draw.below(10); n > 0; --n) {
    const int pe = static_cast<int>(draw.below(n_pes));
    const uint64_t a = draw.below(100);
    switch (draw.below(8)) {
      case 0: to.add(static_cast<uint32_t*>(nullptr), offset_near(4), a, pe); break;
      case 1: to.add(static_cast<double*>(nullptr), offset_near(8) ^ 4096, a, pe); break;  // apart from integers
      case 2: to.inc(offset_near(4), pe); break;
      case 3: to.put(static_cast<uint8_t*>(nullptr), offset_near(1), pe); break;
      case 4: to.put(static_cast<uint16_t*>(nullptr), offset_near(2), pe); break;
      case 5: to.relay_(offset_near(8), pe); break;
      default: to.add(static_cast<uint64_t*>(nullptr), offset_near(8), a, pe);
    }
  }
}

/// Sends by Sender's members put, add, inc, or by gravel_put and so on.
template <class Sender>
struct sends {
  Sender& s;
  const gravel_t& g;
  template <class T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(g.heap + offset);
  }
  template <class T>
  void add(T*, uint64_t offset, uint64_t a, int pe) {
    s.add(at<T>(offset), static_cast<T>(a), pe);
  }
  void inc(uint64_t offset, int pe) { s.inc(at<uint32_t>(offset), pe); }
  template <class T>
  void put(T*, uint64_t offset, int pe) {
    s.put(at<T>(offset), static_cast<T>(0x5a5a), pe);
  }
  void relay_(uint64_t offset, int pe) { gravel_am<relay>(g, pe, offset, pe ^ 1); }
};
struct direct {
  const gravel_t& g;
  template <class T>
  void add(T* at, T a, int pe) {
    gravel_add(g, at, a, pe);
  }
  void inc(uint32_t* at, int pe) { gravel_inc(g, at, pe); }
  template <class T>
  void put(T* at, T a, int pe) {
    gravel_put(g, at, a, pe);
  }
};

/// The heap as it must be: counts by PE, offset and kind of word. Words of different sizes overlap, so only words that
/// one kind alone has touched are compared.
struct model {
  struct word {
    uint32_t bytes = 0;
    bool is_double = false, is_put = false, is_mixed = false;
    uint64_t sum = 0;
  };
  std::map<std::pair<int, uint64_t>, word> words;
  word& touch(int pe, uint64_t offset, uint32_t bytes, bool is_double, bool is_put) {
    word& w = words[{pe, offset}];
    if (w.bytes && (w.bytes != bytes || w.is_double != is_double || w.is_put != is_put)) w.is_mixed = true;
    w.bytes = bytes;
    w.is_double = is_double;
    w.is_put = is_put;
    // All that overlaps is mixed.
    for (uint64_t at = offset & ~7ull; at < (offset & ~7ull) + 8; ++at) {
      const auto other = words.find({pe, at});
      if (at == offset || other == words.end() || !other->second.bytes) continue;
      if (at < offset + bytes && offset < at + other->second.bytes) w.is_mixed = other->second.is_mixed = true;
    }
    return w;
  }
  template <class T>
  void add(T*, uint64_t offset, uint64_t a, int pe) {
    touch(pe, offset, sizeof(T), std::is_floating_point_v<T>, false).sum += a;
  }
  void inc(uint64_t offset, int pe) { touch(pe, offset, 4, false, false).sum += 1; }
  template <class T>
  void put(T*, uint64_t offset, int pe) {
    touch(pe, offset, sizeof(T), false, true).sum = static_cast<T>(0x5a5a);
  }
  void relay_(uint64_t offset, int pe) { touch(pe ^ 1, offset, 8, false, false).sum += 1000; }
};

void compare(fake_job& job, const model& all) {
  uint32_t compared = 0;
  for (const auto& [place, w] : all.words) {
    if (w.is_mixed) continue;
    INFO("PE " << place.first << ", offset " << std::hex << place.second << ", " << w.bytes << " bytes");
    const char* at = job.pe(static_cast<uint32_t>(place.first)).at<char>(place.second);
    uint64_t found = 0;
    std::memcpy(&found, at, w.bytes);
    if (w.is_double) {
      double number;
      std::memcpy(&number, at, sizeof(number));
      found = static_cast<uint64_t>(number);
    }
    REQUIRE(found == w.sum);
    ++compared;
  }
  REQUIRE(compared > 20);
}

const fake_shape shapes[] = {{.nodes = 2, .pes_per_node = 1},
                             {.nodes = 1, .pes_per_node = 2, .self_in_place = false},
                             {.nodes = 1, .pes_per_node = 2, .peers = true}};

/// Runs `send(to)` for each lane of PE 0 and PE 1, and compares.
template <class Launch>
void check(Launch launch) {
  constexpr uint32_t lanes = 64;
  for (const fake_shape& base : shapes)
    for (uint64_t seed = 1; seed <= of_seeds(12); ++seed) {
      INFO(base.nodes << " nodes, self in place " << base.self_in_place << ", peers " << base.peers << ", seed "
                      << seed);
      fake_shape shape = base;
      shape.seed = seed;
      shape.settings["GRAVEL_SYMMETRIC_SIZE"] = size_text;
      const auto job = fake_job::with<relay>(shape);
      model all;
      for (uint32_t pe = 0; pe < 2; ++pe) {
        for (uint32_t lane = 0; lane < lanes; ++lane) lane_program(seed, pe * lanes + lane, 2, all);
        launch(*job, pe, lanes, seed);
      }
      job->quiet_all();
      job->settle();
      compare(*job, all);
    }
}

}  // namespace

TEST_CASE("windows: 2^32 words each, in steps of 2^24; a row's first word is in the middle") {
  struct row {
    uint64_t word;
    bool is_large;
    uint32_t number;
  };
  constexpr uint64_t half = 1ull << 31, step = 1ull << 24;
  const row table[] = {
      {0, true, 0},          {half, true, 0},          {half + step - 1, true, 0}, {half + step, true, 1},
      {2 * half, true, 128}, {2 * half, false, 0},     {2 * half - 1, false, 0},   {(1ull << 43) - 1, true, 524159},
      {half + 1, false, 0},  {5 * half + 7, true, 512}};
  for (const row& r : table) {
    INFO("word " << r.word << ", large " << r.is_large);
    const uint32_t number = heap_window::around(r.word, r.is_large);
    CHECK(number == r.number);
    if (!r.is_large) continue;
    CHECK(heap_window::has(number, r.word));
    CHECK(heap_window::begin(number) + heap_window::index_of(number, static_cast<uint32_t>(r.word)) == r.word);
    CHECK(number <= heap_window::last);
    // Its neighbours have a place in the row.
    CHECK(heap_window::has(number, r.word + half - step - 1));
    if (r.word >= half) CHECK(heap_window::has(number, r.word - half));
  }
  CHECK_FALSE(heap_window::has(1, step - 1));
  CHECK(heap_window::has(1, step));
  CHECK(heap_window::has(1, step + (1ull << 32) - 1));
  CHECK_FALSE(heap_window::has(1, step + (1ull << 32)));
}

TEST_CASE("a window that no heap has makes a kind unsound") {
  const row_kind add = update_kind(op::add, value_type::u64);
  CHECK(is_sound(add.in_window(heap_window::last)));
  for (uint32_t number : {heap_window::last + 1, 1u << 31, ~0u}) CHECK_FALSE(is_sound(add.in_window(number)));
  CHECK(is_sound(am_kind(~0u, 8)));
}

TEST_CASE("large heaps: kernels send one message at a time") {
  check([](fake_job& job, uint32_t pe, uint32_t lanes, uint64_t seed) {
    job.launch(1, lanes, seed, [&] {
      const gravel_t& g = job.pe(pe).kernel;
      direct s{g};
      lane_program(seed, pe * lanes + threadIdx.x, 2, sends<direct>{s, g});
    });
  });
}

TEST_CASE("large heaps: host threads send") {
  check([](fake_job& job, uint32_t pe, uint32_t lanes, uint64_t seed) {
    const gravel_t& g = job.pe(pe).host_thread;
    direct s{g};
    for (uint32_t lane = 0; lane < lanes; ++lane) lane_program(seed, pe * lanes + lane, 2, sends<direct>{s, g});
  });
}

TEST_CASE("large heaps: block senders gather rows of several windows") {
  check([](fake_job& job, uint32_t pe, uint32_t lanes, uint64_t seed) {
    job.launch(1, lanes, seed, [&] {
      const gravel_t& g = job.pe(pe).kernel;
      __shared__ gravel_block_sender<64, 512> sender;
      sender.begin(g);
      lane_program(seed, pe * lanes + threadIdx.x, 2, sends<gravel_block_sender<64, 512>>{sender, g});
      sender.end();
    });
  });
}

TEST_CASE("large heaps: block senders in the plain order of lanes") {
  check([](fake_job& job, uint32_t pe, uint32_t lanes, uint64_t seed) {
    job.launch(1, lanes, 0, [&] {
      const gravel_t& g = job.pe(pe).kernel;
      __shared__ gravel_block_sender<64, 128> sender;
      sender.begin(g);
      lane_program(seed, pe * lanes + threadIdx.x, 2, sends<gravel_block_sender<64, 128>>{sender, g});
      sender.end();
    });
  });
}

TEST_CASE("large heaps: a block sender that sends to more windows than it numbers sends the rest directly") {
  const auto job = fake_job::with<relay>(
      {.nodes = 2, .pes_per_node = 1, .settings = {{"GRAVEL_SYMMETRIC_SIZE", "80G"}, {"GRAVEL_WARP_SLOTS", "64"}}});
  job->launch(1, 64, 3, [&] {
    const gravel_t& g = job->pe(0).kernel;
    __shared__ gravel_block_sender<64, 512> sender;
    sender.begin(g);
    for (uint64_t i = 0; i < 20; ++i) sender.put(reinterpret_cast<uint8_t*>(g.heap + i * 4 * GiB + threadIdx.x), 7, 1);
    sender.end();
  });
  job->quiet_all();
  job->settle();
  for (uint64_t i = 0; i < 20; ++i)
    for (uint64_t lane = 0; lane < 64; ++lane) REQUIRE(job->pe(1).at<uint8_t>(i * 4 * GiB)[lane] == 7);
}

TEST_CASE("large heaps: lanes that send together share a slot, and a row where one window has their words") {
  struct row {
    const char* what;
    uint64_t base, stride;  ///< bytes; lane i increments the 8-byte word at base + i * stride
    uint32_t rows;
  };
  const row table[] = {{"a small table", GiB, 8, 1},
                       {"a table across the 2^32nd word", 32 * GiB - 16 * 8, 8, 1},
                       {"a table of 12 GiB", 20 * GiB, 12 * GiB / 32, 1},
                       {"all over the heap", 64, 40 * GiB / 33, 2}};
  for (const row& r : table) {
    INFO(r.what);
    uint32_t most_rows = 0, shared = 0;
    for (uint64_t seed = 1; seed <= of_seeds(20); ++seed) {
      const auto job =
          fake_job::with<relay>({.nodes = 1,
                                 .pes_per_node = 2,
                                 .seed = seed,
                                 .settings = {{"GRAVEL_SYMMETRIC_SIZE", size_text}, {"GRAVEL_WARP_SLOTS", "64"}}});
      job->launch(1, 32, seed, [&] {
        const gravel_t& g = job->pe(0).kernel;
        gravel_inc(g, reinterpret_cast<uint64_t*>(g.heap + (r.base + threadIdx.x * r.stride) / 8 * 8), 1);
      });
      const queue& q = job->pe(0).kernel.direct;
      uint32_t messages = 0;
      for (uint64_t ticket = 0; ticket < q.state->tickets; ++ticket) {
        slot_header* const slot = q.slot(ticket);
        most_rows = std::max(most_rows, slot->n_rows);
        for (uint32_t i = 0; i < slot->n_rows; ++i) {
          const message_row found = q.rows(slot)[i];
          REQUIRE(found.kind.is_in_a_window_as(update_kind(op::inc, value_type::u64)));
          messages += found.messages;
          shared += found.messages > 4;
        }
      }
      REQUIRE(messages == 32);
    }
    CHECK(most_rows == r.rows);
    CHECK(shared > 0);
  }
}
