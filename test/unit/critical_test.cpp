// Critical sections within one process: how calls lie in messages, calls that are combined, a park list that is exactly
// full, and service blocks on threads of their own beside clients, with seeds. There is no host, and no other PE.
#include "lib/critical/critical_sections.cuh"

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/base/mix.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

struct account {
  int64_t balance = 0;
};
struct deposit {
  static constexpr const char* name = "deposit";
  void operator()(account& a, int32_t amount) const { a.balance += amount; }
};
struct transfer {
  static constexpr const char* name = "transfer";
  void operator()(account& from, account& to, int32_t amount) const {
    from.balance -= amount;
    to.balance += amount;
  }
};
struct rotate {
  static constexpr bool pure =
      true;  // in place its records are read, taken and written as words, as those of transfer are, which is not pure
  void operator()(account& a, account& b, account& c, int32_t amount) const {
    a.balance -= 2 * amount;
    b.balance += amount;
    c.balance += amount;
  }
};
struct add_up {
  static constexpr const char* name = "add_up";
  void operator()(account& a, uint64_t more) const { a.balance += static_cast<int64_t>(more); }
  static uint64_t combine(uint64_t a, uint64_t b) { return a + b; }
};
struct pay_in {
  static constexpr const char* name = "pay_in";
  static constexpr bool pure = true;
  void operator()(account& a, int32_t amount) const { a.balance += amount; }
};
struct enter {  // not pure: it marks in other memory that it is inside
  static inline uint32_t people[4] = {}, wrong = 0;
  void operator()(account& a, uint32_t key) const {
    const bool enters_alone = fetch_add<scope::device>(&people[key], 1u) == 0;
    ++a.balance;
    interleave_point();
    const bool leaves_alone = fetch_add<scope::device>(&people[key], ~0u) == 1;
    if (!enters_alone || !leaves_alone)
      fetch_add<scope::device>(&wrong, 1u);  // sections of other keys run at the same time
  }
};
struct take {
  static constexpr const char* name = "take";
  uint16_t operator()(account& a, uint8_t, double) const { return static_cast<uint16_t>(a.balance); }
};

using plain = call_layout<account, deposit>;
static_assert(plain::bits == 0 && plain::words == 2 && !plain::nested && !plain::answers && !plain::combines);
using answering = call_layout<account, deposit, add_up, take>;
static_assert(answering::bits == 2 && answering::at_slot == 1 && answering::at_arguments == 3 &&
              answering::words == 3 + 3 && answering::combines);
using nested = call_layout<account, deposit, transfer, rotate>;
static_assert(nested::keys == 3 && nested::kinds == 4 && nested::at_keys == 2 && nested::at_values == 5 &&
              nested::at_arguments == 5 + 2 * 2);
static_assert(nested::kind_of<rotate>() == 2 && nested::key_return == 3);

/// Service blocks of one PE without a host.
template <class Record, class... Sections>
struct rig_of {
  using service_type = key_service<Record, Sections...>;
  using table_type = record_table<typename service_type::layout>;
  using message = typename service_type::message;
  service_shape shape;
  device_counters counters{};
  device_error error{};
  alignas(64) service_life life{};
  service_control control{};
  std::unique_ptr<char, void (*)(void*)> memory;
  std::vector<typename table_type::slot> slots;
  std::vector<uint32_t> complete, next, parked;
  uint64_t tickets = 0;
  gravel_critical_handle<Record, Sections...> handle{};

  rig_of(uint32_t keys, uint32_t blocks, uint32_t calls, bool by_locks, bool in_place, bool in_shared = false)
      : shape{blocks, 256, 64, sizeof(message)},
        memory(static_cast<char*>(std::aligned_alloc(64, (shape.bytes() + 63) / 64 * 64)), &std::free),
        slots(keys),
        complete(calls),
        next(calls, ~0u),
        parked(calls * service_type::layout::words) {
    std::memset(memory.get(), 0, shape.bytes());
    gravel_t& g = handle.service.g;
    g.stamp = valid_stamp;
    g.n_pes = 1;
    g.heap_bytes = 8;
    g.counters = &counters;
    g.error = &error;
    handle.service.view = {memory.get(), &control, shape};
    handle.table = {slots.data(),
                    keys,
                    1,
                    0,
                    blocks,
                    by_locks,
                    in_place,
                    in_shared,
                    {calls, &tickets, complete.data(), next.data(), parked.data()}};
    for (uint32_t i = 0; i < blocks; ++i) {
      handle.service.view.block(i).room = shape.far_messages();
    }
  }
  void serve_all(uint64_t seed) {
    simt::launch_options how{};
    how.seed = seed;
    how.cooperative = true;
    auto inside = handle.service;
    inside.in_service = true;
    simt::launch(shape.blocks, service_type::threads, how,
                 [&] { serve<service_type>(inside, service_type{handle.table}, &life, 1); });
  }
  void wait_until_done() const {
    for (relax wait;; wait.attentively()) {
      uint64_t applied = 0, sent = 0;
      for (uint32_t s = 0; s < shape.blocks; ++s) applied += handle.service.view.block(s).applied();
      for (uint32_t s = 0; s < shape.blocks; ++s) sent += handle.service.view.block(s).tickets();
      if (applied == sent) return;
    }
  }
  /// The kernel, while `clients` run.
  template <class F>
  void run(uint64_t seed, const F& clients) {
    std::jthread kernel([&] { serve_all(seed); });
    clients();
    wait_until_done();
    store_relaxed(&life.stop, uint64_t{1});
  }
};
template <class... Sections>
using rig = rig_of<account, Sections...>;

/// Transfers from key 0 to key 1, in the far ring of service block 0. The first is seen last: one batch.
template <class Rig>
void send_transfers(Rig& r, uint32_t n) {
  const auto& view = r.handle.service.view;
  const far_claim claim = claim_far(view.block(0), n);
  REQUIRE(claim.n == n);
  const service_far_ring ring = view.far(0);
  for (uint32_t i = 0; i < n; ++i) {
    section_call<transfer, account, deposit, transfer> c;
    c.write(r.handle, 0u, 1u, static_cast<int32_t>(i + 1));
    c.reserve(r.handle);
    c.address(r.handle);
    *ring.at<typename Rig::message>(claim.first + i) = c.m;
  }
  for (uint64_t i = n; i-- > 0;)
    gravel::detail::ring<scope::device>::publish(ring.word(claim.first + i), claim.first + i);
}

/// f() by all lanes of so many blocks, whose order the seed decides.
template <class F>
void launch_seeded(uint64_t seed, unsigned threads, unsigned blocks, unsigned lanes, const F& f) {
  simt::launch_options how{};
  how.threads = threads;
  how.seed = seed;
  simt::launch(blocks, lanes, how, f);
}
uint64_t mixed(uint64_t seed, uint32_t lane, uint32_t i) { return mix(seed * 1000 + mix(lane * 100 + i)); }

/// Lanes of two blocks call all sections for few keys.
void call_from_clients(uint64_t seed, bool by_locks, bool in_place) {
  constexpr uint32_t keys = 4, blocks = 2, lanes = 32, each = 5;
  rig<deposit, transfer, rotate> r(keys, 2, 32, by_locks, in_place);
  r.run(seed, [&] {
    launch_seeded(seed, 1, blocks, lanes, [&] {
      const uint32_t lane = blockIdx.x * lanes + threadIdx.x;
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t m = mixed(seed, lane, i);
        const auto a = static_cast<uint32_t>(m % keys), b = static_cast<uint32_t>(m / keys % keys),
                   c = static_cast<uint32_t>(m / 99 % keys);
        const auto amount = static_cast<int32_t>(m >> 40 & 0xff);
        if (m >> 60 < 5) gravel_critical_call<deposit>(r.handle, a, amount);
        else if (m >> 60 < 11) gravel_critical_call<transfer>(r.handle, a, b, amount);
        else gravel_critical_call<rotate>(r.handle, a, b, c, amount);
      }
    });
  });
  std::vector<int64_t> expected(keys);
  for (uint32_t lane = 0; lane < blocks * lanes; ++lane)
    for (uint32_t i = 0; i < each; ++i) {
      const uint64_t m = mixed(seed, lane, i);
      const auto a = m % keys, b = m / keys % keys, c = m / 99 % keys;
      const auto amount = static_cast<int64_t>(m >> 40 & 0xff);
      if (m >> 60 < 5) expected[a] += amount;
      else if (m >> 60 < 11) {
        expected[a] -= amount;
        expected[b] += amount;
      } else {
        expected[a] -= 2 * amount;
        expected[b] += amount;
        expected[c] += amount;
      }
    }
  for (uint32_t key = 0; key < keys; ++key) {
    CHECK(r.slots[key].record.balance == expected[key]);
    CHECK(r.slots[key].lock != static_cast<uint32_t>(key_state::held));
    CHECK(r.slots[key].lock != static_cast<uint32_t>(key_state::client));
  }
  uint64_t complete = 0;
  for (const uint32_t c : r.complete) complete += c;
  CHECK(complete == r.tickets);
  CHECK(r.error.code == 0);
}

}  // namespace

TEST_CASE("calls wait for a held key in all the room there is") {
  constexpr uint32_t calls = 32;
  for (const bool by_locks : {false, true}) {
    rig<deposit, transfer> r(2, 1, calls, by_locks, false);
    send_transfers(r, calls);
    r.run(0, [] {});
    uint64_t parked = 0;
    for (const uint32_t n : r.next) parked += n != ~0u;
    CHECK(parked == calls - 1);
    CHECK(r.slots[0].record.balance == -int64_t{calls} * (calls + 1) / 2);
    CHECK(r.slots[1].record.balance == int64_t{calls} * (calls + 1) / 2);
    for (const uint32_t c : r.complete) CHECK(c == 1);
    CHECK(r.error.code == 0);
  }
}

TEST_CASE("nested sections of clients run once, alone for their keys") {
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t seeds = 0;  // too slow there; what can race is the case without
#else
  constexpr uint64_t seeds = 6;
#endif
  for (uint64_t seed = 0; seed <= seeds; ++seed)
    for (const bool by_locks : {false, true}) {
      INFO("seed " << seed << (by_locks ? ", locks" : ", owners"));
      call_from_clients(seed, by_locks, seed % 2);
    }
}

TEST_CASE("sections in place where record and lock are one word") {
  static_assert(sizeof(key_slot<account>) == 16 && record_table<call_layout<account, pay_in, enter>>::in_words);
  static_assert(section_traits<account, pay_in>::pure && !section_traits<account, enter>::pure &&
                !section_traits<account, take>::pure);
  static_assert(slot_alignment(24, 8) == 32 && slot_alignment(16, 4) == 16 && slot_alignment(72, 8) == 8 &&
                slot_alignment(8, 1) == 8 && slot_alignment(44, 4) == 4);
  for (uint64_t seed = 0; seed <= 8; ++seed) {
    INFO("seed " << seed);
    constexpr uint32_t keys = 3, blocks = 2, lanes = 32, each = 6;
    rig<pay_in, enter> r(keys, 1 + seed % 2, 32, seed % 3 == 2, true);
    enter::wrong = 0;
    r.run(seed, [&] {
      launch_seeded(seed, 2, blocks, lanes, [&] {
        for (uint32_t i = 0; i < each; ++i) {
          const auto key = static_cast<uint32_t>(mixed(seed, blockIdx.x * lanes + threadIdx.x, i) % keys);
          if ((threadIdx.x + i) % 3 == 0) gravel_critical_call<enter>(r.handle, key, key);
          else gravel_critical_call<pay_in>(r.handle, key, 1000);
        }
      });
    });
    int64_t entries = 0, paid = 0;
    for (uint32_t key = 0; key < keys; ++key) {
      entries += r.slots[key].record.balance % 1000;
      paid += r.slots[key].record.balance / 1000;
      CHECK(r.slots[key].lock != static_cast<uint32_t>(key_state::client));
    }
    CHECK(entries == blocks * lanes * each / 3);
    CHECK(paid == blocks * lanes * each - entries);
    CHECK(enter::wrong == 0);
    CHECK(r.error.code == 0);
  }
}

TEST_CASE("calls of equal words become one") {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    uint64_t sum[8] = {};
    uint32_t results[8] = {}, counted = 0;
    simt::launch_options how{};
    how.seed = seed;
    simt::launch(1, 32, how, [&] {
      const auto word = static_cast<uint32_t>(mixed(seed, threadIdx.x, 0) % (1 + 2 * seed % 8));
      uint64_t value = uint64_t{1} << threadIdx.x | uint64_t{1} << 40;
      const uint32_t lanes = combine_equal<add_up>(~0u, threadIdx.x, word, value);
      if (lanes == 0) return;
      sum[word] += value;
      ++results[word];
      counted += lanes;
    });
    uint64_t all = 0, lanes = 0;
    for (uint32_t w = 0; w < 8; ++w) {
      CHECK(results[w] == (sum[w] != 0));
      CHECK((sum[w] >> 40) == static_cast<uint64_t>(__builtin_popcountll(sum[w] & 0xffffffff)));
      all |= sum[w] & 0xffffffff;
      lanes += sum[w] >> 40;
    }
    CHECK(all == 0xffffffff);
    CHECK(lanes == 32);
    CHECK(counted == 32);
  }
}

TEST_CASE("records in shared memory are in device memory too, also when the kernel comes back") {
  rig<deposit> r(3, 1, 32, false, false, true);
  for (uint32_t round = 1; round <= 2; ++round) {
    store_relaxed(&r.life.stop, uint64_t{0});
    r.run(0, [&] {
      simt::launch(1, 32, {}, [&] {
        gravel_critical_call<deposit>(r.handle, threadIdx.x % 3, static_cast<int32_t>(threadIdx.x));
      });
    });
    CHECK(r.slots[0].record.balance == round * (0 + 3 + 6 + 9 + 12 + 15 + 18 + 21 + 24 + 27 + 30));
  }
}

TEST_CASE("whichever lanes of a warp call") {
  std::vector<uint32_t> masks{1,          1u << 31,   1u << 31 | 1, 0xffff, 0xffff0000, 0x55555555,
                              0xaaaaaaaa, 0x00ff00ff, ~0u,          ~1u,    ~0u >> 1,   6};
  for (uint32_t i = 0; i < 20; ++i)
    masks.push_back(static_cast<uint32_t>(mix(i)) & static_cast<uint32_t>(mix(i) >> (i % 3 ? 32 : 0)));
  for (uint64_t seed = 0; seed < 3; ++seed) {
    INFO("seed " << seed);
    constexpr uint32_t keys = 5;
    rig<deposit, add_up> r(keys, 1 + seed % 2, 32, seed == 1, seed == 2);
    r.run(seed, [&] {
      launch_seeded(seed, 1, 1, 32, [&] {
        __shared__ critical_sender<2, 0, account, deposit, add_up> out;
        out.begin(r.handle);
        for (uint32_t i = 0; i < masks.size(); ++i) {
          if (!(masks[i] >> threadIdx.x & 1)) continue;
          const uint32_t key = (threadIdx.x + i) % keys, amount = threadIdx.x + 100 * i;
          if (i % 3 == 0) gravel_critical_call<deposit>(r.handle, key, amount);
          else if ((i + threadIdx.x) % 3) out.call<add_up>(key, amount);
          else out.call<deposit>(uint64_t{key}, amount);
        }
        out.end();
      });
    });
    int64_t expected[keys] = {};
    for (uint32_t i = 0; i < masks.size(); ++i)
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (masks[i] >> lane & 1) expected[(lane + i) % keys] += lane + 100 * i;
    for (uint32_t key = 0; key < keys; ++key) CHECK(r.slots[key].record.balance == expected[key]);
    CHECK(r.error.code == 0);
  }
}

/// The calls of a block: a bit for each lane, and the number of calls that were added.
struct gather_up {
  static constexpr const char* name = "gather_up";
  void operator()(account& a, uint64_t more) const { a.balance += static_cast<int64_t>(more); }
  static uint64_t combine(uint64_t a, uint64_t b) {
    interleave_point();  // another lane with this place may be here too
    return a + b;
  }
};

/// 64 lanes add 2^32 + their number to keys of a table of so many places; what leaves it is counted. Returns how many
/// calls left.
template <uint32_t PLACES>
uint32_t fill_table(uint64_t seed, uint32_t keys, uint32_t each) {
  constexpr uint32_t lanes = 64;
  std::vector<uint64_t> made(keys), wanted(keys);
  uint32_t left = 0;
  launch_seeded(seed, 1, 1, lanes, [&] {
    __shared__ call_table<gather_up, account, PLACES> table;
    const auto make = [&](uint32_t key, uint64_t value) {
      made[key] += value;
      ++left;
    };
    for (uint32_t round = 0; round < 2; ++round) {
      table.begin(threadIdx.x, lanes);
      __syncthreads();
      for (uint32_t i = 0; i < each; ++i) {
        if (mixed(seed + 1, threadIdx.x, i) % 4 == 0) continue;  // lanes are not together
        auto key = static_cast<uint32_t>(mixed(seed + round, threadIdx.x, i) % keys);
        uint64_t value = (uint64_t{1} << 32) + threadIdx.x;
        wanted[key] += value;
        const lane_group group = lane_group::active();
        const bool calls = i % 5 != 1 || threadIdx.x % 2;  // as if the other's were in this one
        if (!calls) wanted[key] -= value;
        if (!table.keep(group, calls, key, value) && calls) make(key, value);
      }
      __syncthreads();
      table.empty(threadIdx.x, lanes, make);
      __syncthreads();
      table.empty(threadIdx.x, lanes, [&](uint32_t, uint64_t) { left += 1u << 30; });  // it is empty
      __syncthreads();
    }
  });
  CHECK(made == wanted);
  return left;
}

TEST_CASE("calls of one key in a block become few, and none is lost") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    const uint32_t same = fill_table<8>(seed, 1, 6), in_one = fill_table<1>(seed, 1, 6);
    CHECK(same < 400);  // of 500, all for one place at once; what finds it taken too often goes on alone
    CHECK(in_one < 400);
    if (seed == 0) CHECK(same == 2);
    CHECK(fill_table<1>(seed, 2, 6) < 1u << 30);
    CHECK(fill_table<4>(seed, 5, 6) < 1u << 30);
    CHECK(fill_table<16>(seed, 100'000, 6) > 400);  // hardly two alike: given up
    CHECK(fill_table<512>(seed, 300, 6) < 1u << 30);
  }
}

/// Calls of one key that are not all alike: only what is of one color becomes one.
struct paint {
  uint64_t color[2];  ///< four words, of which only the last differs
  uint64_t amount;
};
struct mix_paint {
  static constexpr const char* name = "mix_paint";
  void operator()(account& a, paint p) const { a.balance += static_cast<int64_t>(p.amount); }
  static auto combine_by(const paint& p) {
    struct {
      uint64_t color[2];
    } by{{p.color[0], p.color[1]}};
    return by;
  }
  static paint combine(const paint& a, const paint& b) { return {{a.color[0], a.color[1]}, a.amount + b.amount}; }
};

/// 64 lanes add 2^32 + their number of some color to key 5. By warps, and by a table of so many places. Returns how
/// many calls are left.
template <uint32_t PLACES>
uint32_t mix_colors(uint64_t seed, uint32_t colors, uint32_t each) {
  constexpr uint32_t lanes = 64;
  std::vector<uint64_t> made(colors), wanted(colors);
  uint32_t left = 0;
  const auto color = [](uint64_t c) { return c << 32; };
  launch_seeded(seed, 1, 1, lanes, [&] {
    __shared__ call_table<mix_paint, account, PLACES> table;
    const auto make = [&](uint32_t key, const paint& p) {
      CHECK(key == 5);
      made[p.color[1] >> 32] += p.amount;
      ++left;
    };
    table.begin(threadIdx.x, lanes);
    __syncthreads();
    for (uint32_t i = 0; i < each; ++i) {
      if (mixed(seed + 1, threadIdx.x, i) % 4 == 0) continue;  // lanes are not together
      const uint64_t c = mixed(seed, threadIdx.x, i) % colors;
      paint p{{1, color(c)}, (uint64_t{1} << 32) + threadIdx.x};
      wanted[c] += p.amount;
      const lane_group group = lane_group::active();
      uint32_t key = 5;
      const bool calls = combine_equal<mix_paint>(group.mask(), group.lane(), key, p) != 0;
      if (!table.keep(group, calls, key, p) && calls) make(key, p);
    }
    __syncthreads();
    table.empty(threadIdx.x, lanes, make);
  });
  CHECK(made == wanted);
  return left;
}

TEST_CASE("calls of one key that are not all alike") {
  static_assert(combined_by<mix_paint, paint>::words == 4 && combined_by<gather_up, uint64_t>::words == 0);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    CHECK(mix_colors<64>(seed, 1, 8) < 30);
    CHECK(mix_colors<64>(seed, 8, 8) < 120);  // they have places of their own, where one key would have one place
    CHECK(mix_colors<1>(seed, 2, 8) < 300);
    CHECK(mix_colors<4>(seed, 9, 8) < 400);
  }
}

TEST_CASE("a block keeps what many call for, and makes no table of the rest") {
  using table_type = call_table<gather_up, account, 4>;
  std::vector<uint32_t> left;
  const auto calls = [&](const auto& key_of, uint32_t n) {
    uint32_t passed = 0;
    simt::launch(1, 1, {}, [&] {
      __shared__ table_type table;
      table.begin(0, 1);
      for (uint32_t i = 0; i < n; ++i) {
        uint32_t key = key_of(i);
        uint64_t value = 1;
        passed += !table.keep(lane_group::active(), true, key, value);
      }
      table.empty(0, 1, [&](uint32_t, uint64_t) { ++passed; });
    });
    return passed;
  };
  CHECK(calls([](uint32_t i) { return i; }, 1000) == 1000);
  // Every second call is for key 7: it stays, whatever came before and comes between.
  const uint32_t passed = calls([](uint32_t i) { return i % 2 ? 7u : i + 100; }, 1000);
  CHECK(passed > 490);
  CHECK(passed < 530);
  // From key 1 to key 2: the later key gets the place in the end.
  CHECK(calls([](uint32_t i) { return i < 500 ? 1u : 2u; }, 1000) <= 70);
  // Few in the first calls are decisive, many later are not.
  CHECK(calls([](uint32_t i) { return i < table_type::sample ? i : 7u; }, 1000) == 1000);
}

/// Three of four calls are for the first two of the keys, or all alike. Sections that do not combine, and nested ones,
/// go their usual way.
template <class... Nested>
void call_by_tables(uint64_t seed) {
  constexpr uint32_t keys = 6, blocks = 2, lanes = 64, each = 12;
  const auto key_of = [](uint64_t m) { return static_cast<uint32_t>(m >> 20 & 1 ? m >> 32 & 1 : m % keys); };
  rig<gather_up, deposit, Nested...> r(keys, 1 + seed % 2, 32, seed % 3 == 2, seed % 2);
  r.run(seed, [&] {
    launch_seeded(seed, 2, blocks, lanes, [&] {
      __shared__ critical_sender<2, 4, account, gather_up, deposit, Nested...> out;
      out.begin(r.handle);
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t m = mixed(seed, blockIdx.x * lanes + threadIdx.x, i);
        const uint32_t key = key_of(m);
        if (m >> 60 < 2) out.template call<deposit>(key, 1 << 20);
        else if (m >> 60 > 3 || sizeof...(Nested) == 0) out.template call<gather_up>(key, uint64_t{1});
        else (out.template call<Nested>(key, (key + 1) % keys, 1 << 24), ...);
      }
      out.end();
    });
  });
  std::vector<int64_t> expected(keys), found;
  for (uint32_t lane = 0; lane < blocks * lanes; ++lane)
    for (uint32_t i = 0; i < each; ++i) {
      const uint64_t m = mixed(seed, lane, i);
      const uint32_t key = key_of(m);
      if (m >> 60 < 2) expected[key] += 1 << 20;
      else if (m >> 60 > 3 || sizeof...(Nested) == 0) ++expected[key];
      else {
        expected[key] -= 1 << 24;
        expected[(key + 1) % keys] += 1 << 24;
      }
    }
  for (const auto& slot : r.slots) found.push_back(slot.record.balance);
  CHECK(found == expected);
  CHECK(r.error.code == 0);
}

TEST_CASE("calls of a block by its sender's table, for service blocks and in place") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    call_by_tables<>(seed);
    call_by_tables<transfer>(seed);
  }
}

TEST_CASE("senders with a table, and its size") {
  using none = gravel_critical_combining_sender<account, deposit, transfer>;
  static_assert(std::is_same_v<none, gravel_critical_sender<account, deposit, transfer>>);  // nothing here combines
  static_assert(places_in<account, gather_up>(6 * 1024) == 256 &&
                places_in<account, gather_up, add_up>(6 * 1024) == 128 &&
                places_in<account, deposit, gather_up>(6 * 1024) == 256 && places_in<account, deposit>(6 * 1024) == 0);
  CHECK(sizeof(gravel_critical_combining_sender<account, gather_up>) <= 48 * 1024);
}

TEST_CASE("calls that have had a room are counted beyond 32 bits") {
  constexpr uint32_t calls = 32, lanes = 64, each = 2;
  rig<deposit, transfer> r(2, 1, calls, false, false);
  const auto had = [&](uint32_t place) { return static_cast<uint32_t>((r.tickets - place + calls - 1) / calls); };
  r.tickets = (uint64_t{calls} << 32) - 40;
  for (uint32_t place = 0; place < calls; ++place) r.complete[place] = had(place);
  CHECK(r.complete[0] == ~0u);
  r.run(0, [&] {
    simt::launch_options how{};
    how.threads = 1;
    simt::launch(1, lanes, how, [&] {
      for (uint32_t i = 0; i < each; ++i) gravel_critical_call<transfer>(r.handle, 0, 1, 1);
    });
  });
  for (uint32_t place = 0; place < calls; ++place) CHECK(r.complete[place] == had(place));
  CHECK(r.complete[0] < 10);
  CHECK(r.slots[1].record.balance == lanes * each);
}

TEST_CASE("calls with keys and slots that are none are not made") {
  const auto fault_of = [](const auto& call) {
    rig<deposit, take> r(3, 1, 32, false, true);
    simt::launch(1, 1, {}, [&] { call(r); });
    CHECK(r.handle.service.view.block(0).tickets() == 0);
    for (const auto& slot : r.slots) CHECK(slot.record.balance == 0);
    return static_cast<message_fault>(r.error.code - 1);
  };
  const auto deposit_at = [&](auto key) {
    return fault_of([=](auto& r) { gravel_critical_call<deposit>(r.handle, key, 1); });
  };
  CHECK(deposit_at(3u) == message_fault::bad_key);
  CHECK(deposit_at(-1) == message_fault::bad_key);
  CHECK(deposit_at(int8_t{-1}) == message_fault::bad_key);
  CHECK(deposit_at((uint64_t{1} << 32) + 1) == message_fault::bad_key);
  uint16_t slot = 0;
  CHECK(fault_of([&](auto& r) { gravel_critical_ask<take>(r.handle, &slot, 1, uint8_t{1}, 2.0); }) ==
        message_fault::bad_slot);
}

TEST_CASE("a sender that is used out of order is reported") {
  using sender = critical_sender<2, 0, account, deposit, add_up>;
  rig<deposit, add_up> r(3, 1, 32, false, true);
  simt::launch(2, 1, {}, [&] {  // the blocks follow one another: what one ends the next begins
    __shared__ sender out;
    out.begin(r.handle);
    out.call<deposit>(0u, 1);
    out.end();
    out.begin(r.handle);
    out.end();
  });
  CHECK(r.error.code == 0);
  CHECK_THROWS_WITH(simt::launch(1, 1, {},
                                 [&] {
                                   __shared__ sender out;
                                   out.begin(r.handle);
                                   out.end();
                                   out.call<deposit>(0u, 1);
                                 }),
                    contains_text("call was called before begin() of the sender, or after its end()"));
  CHECK(r.error.code == 0);
  simt::launch(1, 1, {}, [&] {
    __shared__ sender out;
    out.begin(r.handle);
    out.begin(r.handle);
    out.end();
  });
  CHECK(static_cast<message_fault>(r.error.code - 1) == message_fault::sender_begun);
}

/// Not a word with its lock.
struct large_account {
  int64_t balance = 0, more[4] = {};
};
struct large_deposit {
  static constexpr const char* name = "large_deposit";
  int32_t operator()(large_account& a, int32_t amount) const {
    a.balance += amount;
    return static_cast<int32_t>(a.balance);
  }
};

TEMPLATE_TEST_CASE("calls that arrive run at once if their keys are free", "", (rig_of<account, deposit, take>),
                   (rig_of<large_account, large_deposit>)) {
  using message = typename TestType::message;
  using layout = typename TestType::service_type::layout;
  const auto call = [](uint32_t number, int amount) {
    message m{};
    m.word[0] = number << layout::bits;
    m.word[layout::at_arguments] = static_cast<uint32_t>(amount);
    return m;
  };
  TestType r(4, 2, 32, false, true);
  const gravel_t& g = r.handle.service.g;
  const typename TestType::service_type arrivals{r.handle.table};
  CHECK(arrivals.arrive(g, call(1, 5)));
  CHECK(arrivals.arrive(g, call(3, 7)));
  CHECK(arrivals.arrive(g, call(1, 23)));
  CHECK(r.slots[1].record.balance == 28);
  CHECK(r.slots[3].record.balance == 7);
  for (const auto& slot : r.slots) CHECK(state_in(slot.lock) == key_state::free);
  for (const auto taken : {key_state::client, key_state::service}) {
    r.slots[2].lock = static_cast<uint32_t>(taken);
    CHECK(!arrivals.arrive(g, call(2, 5)));
    CHECK(arrivals.arrive(g, call(0, 1)));
    CHECK(r.slots[2].record.balance == 0);
    CHECK(state_in(r.slots[2].lock) == taken);
  }
  CHECK(r.slots[0].record.balance == 2);
  TestType at_sections(4, 2, 32, false, false);
  CHECK(!typename TestType::service_type{at_sections.handle.table}.arrive(at_sections.handle.service.g, call(1, 5)));
}

TEMPLATE_TEST_CASE("a service block that waits for a key makes clients send their calls", "",
                   (rig_of<account, deposit>), (rig_of<large_account, large_deposit>)) {
  TestType r(2, 1, 32, false, true);
  auto& lock = r.slots[1].lock;
  const auto pay = [&](int32_t amount) {
    simt::launch(1, 1, {}, [&] {
      if constexpr (std::is_same_v<TestType, rig_of<account, deposit>>)
        gravel_critical_call<deposit>(r.handle, 1u, amount);
      else gravel_critical_call<large_deposit>(r.handle, 1u, amount);
    });
  };
  r.run(0, [&] {
    store_relaxed(&lock, static_cast<uint32_t>(key_state::client));  // one that is slow
    pay(5);
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (state_in(load_relaxed(&lock)) == key_state::client && std::chrono::steady_clock::now() < late)
      std::this_thread::yield();
    CHECK(state_in(load_relaxed(&lock)) == key_state::service);
    pay(6);
    CHECK(r.slots[1].record.balance == 0);  // the client is still inside
    store_release(&lock, static_cast<uint32_t>(key_state::free));
  });
  CHECK(r.slots[1].record.balance == 11);
  CHECK(r.error.code == 0);
}

/// In a record that service blocks copy where several calls of it wait.
struct large_enter {
  static constexpr const char* name = "large_enter";
  static inline uint32_t people[4] = {}, wrong = 0, copied = 0;
  static inline uintptr_t slots = 0, slots_end = 0;  ///< where records lie
  void operator()(large_account& a, uint32_t key) const {
    if (fetch_add<scope::device>(&people[key], 1u) != 0) fetch_add<scope::device>(&wrong, 1u);
    if (a.more[3] != a.balance) fetch_add<scope::device>(&wrong, 1u);
    ++a.balance;
    interleave_point();
    a.more[3] = a.balance;
    const auto at = reinterpret_cast<uintptr_t>(&a);
    if (at < slots || at >= slots_end) fetch_add<scope::device>(&copied, 1u);
    fetch_add<scope::device>(&people[key], ~0u);
  }
};
TEST_CASE("large records are copied where several of their calls wait") {
  constexpr uint32_t keys = 4, blocks = 2, lanes = 64, each = 20;
  uint32_t copied = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    rig_of<large_account, large_enter> r(keys, 1 + seed % 2, 32, seed == 5, seed % 2);
    static_assert(decltype(r)::service_type::warp_copies > 1);
    large_enter::wrong = large_enter::copied = 0;
    large_enter::slots = reinterpret_cast<uintptr_t>(r.slots.data());
    large_enter::slots_end = reinterpret_cast<uintptr_t>(r.slots.data() + keys);
    r.run(seed, [&] {
      launch_seeded(seed, 2, blocks, lanes, [&] {
        for (uint32_t i = 0; i < each; ++i) {
          const uint64_t m = mixed(seed, blockIdx.x * lanes + threadIdx.x, i);
          const uint32_t key = seed == 4 || m >> 62 ? 1 : static_cast<uint32_t>(m % keys);  // most are of key 1
          gravel_critical_call<large_enter>(r.handle, key, key);
        }
      });
    });
    int64_t all = 0;
    for (const auto& slot : r.slots) {
      all += slot.record.balance;
      CHECK(slot.record.more[3] == slot.record.balance);
    }
    CHECK(all == blocks * lanes * each);
    CHECK(large_enter::wrong == 0);
    copied += large_enter::copied;
  }
  CHECK(copied > 0);
}
