// Critical sections by service blocks in a job: each record against a serial oracle, in all ways of exclusion, with
// data in both memories, at service blocks and in place, with keys from one to thousands; nested sections of two to
// four keys in any order, with the least room; answers. Exclusion shows in counters that are not atomic, and in a word
// for each key that says which lane is inside. One source for the CPU backend and for GPUs.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "lib/base/mix.hpp"
#include "lib/critical/critical_sections.cuh"
#include "test/support/pure_sections.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace gravel::detail;

namespace {

int failures = 0;
bool prints_times = false;
std::chrono::steady_clock::time_point began;

/// Prints the time since the last call, if prints_times is set.
void print_time(const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (prints_times && gravel_my_pe() == 0)
    fprintf(stderr, "%s: %.3f s\n", what.c_str(), std::chrono::duration<double>(now - began).count());
  began = now;
}

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s\n", gravel_my_pe(), what.c_str());
}
void expect_refusal(const char* what, const char* word, const std::function<void()>& call) {
  std::string text = "(nothing)";
  try {
    call();
  } catch (const gravel::detail::error& e) {
    text = e.what();
  }
  expect(text.find(word) != std::string::npos,
         std::string(what) + ": expected an error with '" + word + "' in it, got " + text);
}

struct account {
  int64_t balance;
  uint32_t calls, wrong;
  uint32_t*
      inside;  ///< of this key, at its PE: 0, or the lane in a section with it; nullptr: records travel to other PEs
};

/// Enters a section and leaves it, slowly. If another lane is inside at the same time, one of the two sees the other.
GRAVEL_DEVICE void be_alone_with(account& a, uint32_t who) {
  ++a.calls;
  if (!a.inside) return;
  a.wrong += load_relaxed<scope::device>(a.inside) != 0;
  store_relaxed<scope::device>(a.inside, who);
  for (int i = 0; i < 3; ++i) a.wrong += load_relaxed<scope::device>(a.inside) != who;
  store_relaxed<scope::device>(a.inside, 0u);
}

struct deposit {
  static constexpr const char* name = "deposit";
  __device__ void operator()(account& a, int32_t amount, uint32_t who) const {
    be_alone_with(a, who);
    a.balance += amount;
  }
};
struct add {  // calls of one key may become one
  __device__ void operator()(account& a, int32_t amount) const { a.balance += amount; }
  __device__ static int32_t combine(int32_t a, int32_t b) { return a + b; }
};
/// How an amount is counted. Only changes that are counted alike may become one.
struct change {
  uint32_t kind;
  int32_t amount;
  GRAVEL_BOTH int32_t counted() const { return amount * (2 * static_cast<int32_t>(kind) - 3); }
};
struct weigh {
  __device__ void operator()(account& a, change c) const { a.balance += c.counted(); }
  __device__ static uint32_t combine_by(const change& c) { return c.kind; }
  __device__ static change combine(change a, change b) { return {a.kind, a.amount + b.amount}; }
};
struct draw {  // the number of those before
  __device__ uint32_t operator()(account& a, uint32_t who) const {
    be_alone_with(a, who);
    return a.calls - 1;
  }
};
using single = gravel_critical_sections<account, deposit, add, weigh, draw>;

struct visit {
  static constexpr const char* name = "visit";
  __device__ void operator()(account& a, int32_t amount) const {
    ++a.calls;
    a.balance += amount;
  }
};
struct transfer {
  __device__ uint32_t operator()(account& from, account& to, int32_t amount, uint32_t who) const {
    be_alone_with(from, who);
    from.balance -= amount;
    be_alone_with(to, who);
    to.balance += amount;
    return from.calls;
  }
};
struct split {
  __device__ void operator()(account& from, account& a, account& b, int32_t amount) const {
    ++from.calls;
    ++a.calls;
    ++b.calls;
    from.balance -= amount;
    a.balance += amount / 3;
    b.balance += amount - amount / 3;
  }
};
struct hand_on {
  __device__ void operator()(account& a, account& b, account& c, account& d, int32_t amount) const {
    ++a.calls;
    ++b.calls;
    ++c.calls;
    ++d.calls;
    a.balance -= amount;
    b.balance += 2 * amount;
    c.balance -= 3 * amount;
    d.balance += 2 * amount;
  }
};
using nested = gravel_critical_sections<account, visit, transfer, split, hand_on, add>;

unsigned blocks = GRAVEL_CUDA ? 32 : 2, lanes = GRAVEL_CUDA ? 128 : 32;  // of each PE's kernel

/// Call number i of lane `lane` of a PE: the same on the device and for the oracle.
struct call_source {
  uint64_t seed;
  uint64_t keys;
  uint32_t stride;  ///< keys are multiples of it
  uint32_t each;
  GRAVEL_BOTH uint64_t random(uint32_t pe, uint32_t lane, uint32_t i) const {
    return mix(seed ^ mix(uint64_t{pe} << 48 | uint64_t{lane} << 24 | i));
  }
  GRAVEL_BOTH uint32_t key(uint64_t random, uint32_t which) const {
    return static_cast<uint32_t>(mix(random + which) % keys) * stride;
  }
  GRAVEL_BOTH bool adds(uint64_t random) const { return random >> 50 & 1; }
  GRAVEL_BOTH change weighed(uint64_t random) const {
    return {static_cast<uint32_t>(random >> 52 & 3), amount(random)};
  }
  GRAVEL_BOTH int32_t amount(uint64_t random) const { return static_cast<int32_t>(random >> 40 & 0xff) - 100; }
};

template <class Sender>
__global__ void call_plain(single::handle_type bank, call_source from, uint32_t* answers) {
  auto& out = gravel_sender_of_block<Sender>();
  out.begin(bank);
  const uint32_t lane = blockIdx.x * blockDim.x + threadIdx.x, pe = bank.table.my_pe,
                 who = 1 + pe * gridDim.x * blockDim.x + lane;
  for (uint32_t i = 0; i < from.each; ++i) {
    const uint64_t r = from.random(pe, lane, i);
    const uint32_t key = from.key(r, 0);
    switch (r % 4) {  // lanes are not together
      case 0: out.template call<deposit>(key, from.amount(r), who); break;
      case 1:
        if (from.adds(r)) out.template call<add>(key, from.amount(r));
        else out.template call<weigh>(key, from.weighed(r));
        break;
      case 2: out.template ask<draw>(&answers[lane * from.each + i], key, who); break;
      default: gravel_critical_call<deposit>(bank, key, from.amount(r), who);
    }
  }
  out.end();
}

__global__ void call_nested(nested::handle_type bank, call_source from, uint32_t* answers) {
  __shared__ nested::combining_sender out;
  out.begin(bank);
  const uint32_t lane = blockIdx.x * blockDim.x + threadIdx.x, pe = bank.table.my_pe,
                 who = 1 + pe * gridDim.x * blockDim.x + lane;
  for (uint32_t i = 0; i < from.each; ++i) {
    const uint64_t r = from.random(pe, lane, i);
    const uint32_t a = from.key(r, 0), b = from.key(r, 1), c = from.key(r, 2), d = from.key(r, 3);
    switch (r % 5) {
      case 0:
        if (from.adds(r)) out.call<add>(a, from.amount(r));
        else out.call<visit>(a, from.amount(r));
        break;
      case 1: out.call<split>(a, b, c, from.amount(r)); break;
      case 2: out.call<hand_on>(a, b, c, d, from.amount(r)); break;
      case 3: out.ask<transfer>(&answers[lane * from.each + i], a, b, from.amount(r), who); break;
      default: gravel_critical_call<transfer>(bank, a, b, from.amount(r), who);
    }
  }
  out.end();
}

/// Lanes that wait for what they are answered before they ask again; some end earlier than others.
__global__ void ask_and_wait(single::handle_type bank, uint32_t* slots, uint32_t* wrong) {
  const uint32_t lane = blockIdx.x * blockDim.x + threadIdx.x, me = bank.table.my_pe;
  uint32_t last = 0;
  for (uint32_t i = 0; i < 1 + lane % 4; ++i) {
    const uint32_t key = static_cast<uint32_t>((me + lane) % bank.table.keys);
    gravel_critical_ask<draw>(bank, &slots[lane], key, 1 + lane);
    gravel_wait_until(bank.service.g, &slots[lane], GRAVEL_NE, ~0u);
    const uint32_t now = slots[lane];
    if (i > 0 && now <= last) atomicAdd(wrong, 1u);
    last = now;
    slots[lane] = ~0u;
  }
}

struct expected {
  int64_t balance = 0;
  uint32_t calls = 0;
};

/// All records are as they are to be.
template <class Sections>
void compare(const std::string& what, const Sections& sections, const std::vector<expected>& all) {
  const std::vector<account> mine = sections.read();
  print_time("  applied");
  const auto n_pes = static_cast<uint64_t>(gravel_n_pes()), me = static_cast<uint64_t>(gravel_my_pe());
  uint64_t different = 0, inside = 0;
  std::string first;
  for (uint64_t i = 0; i < mine.size(); ++i) {
    const expected& e = all[i * n_pes + me];
    inside += mine[i].wrong;
    if (mine[i].balance == e.balance && mine[i].calls == e.calls) continue;
    if (different++ == 0)
      first = ", first key " + std::to_string(i * n_pes + me) + ": balance " + std::to_string(mine[i].balance) +
              " of " + std::to_string(e.balance) + ", calls " + std::to_string(mine[i].calls) + " of " +
              std::to_string(e.calls);
  }
  expect(different == 0 && inside == 0, what + ": " + std::to_string(different) + " records are wrong" + first + "; " +
                                            std::to_string(inside) + " times two were inside");
}

struct marks {
  uint32_t* of;  ///< [keys of this PE]
  explicit marks(uint64_t keys, bool some = true)
      : of(some ? gravel_malloc<uint32_t>((keys + 1) * sizeof(uint32_t)) : nullptr) {}
  ~marks() { gravel_free(of); }
  auto initial() const {
    return [at = of](uint32_t key) {
      return account{0, 0, 0, at ? at + key / static_cast<uint32_t>(gravel_n_pes()) : nullptr};
    };
  }
};

template <class Sender = single::sender>
void run_plain(const std::string& what, gravel_critical_options how, uint32_t stride, uint32_t each, uint64_t seed) {
  const call_source from{seed, (how.keys + stride - 1) / stride, stride, each};
  const uint32_t n_pes = static_cast<uint32_t>(gravel_n_pes()), all_lanes = blocks * lanes;
  std::vector<expected> all(how.keys);
  std::vector<uint64_t> draws(how.keys), answered(how.keys);
  for (uint32_t pe = 0; pe < n_pes; ++pe)
    for (uint32_t lane = 0; lane < all_lanes; ++lane)
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t r = from.random(pe, lane, i);
        expected& e = all[from.key(r, 0)];
        e.calls += r % 4 != 1;
        if (r % 4 == 1 && !from.adds(r)) e.balance += from.weighed(r).counted();
        else if (r % 4 != 2) e.balance += from.amount(r);
      }
  const marks inside(how.keys);
  auto* answers = gravel_malloc<uint32_t>(uint64_t{all_lanes} * each * sizeof(uint32_t));
  {
    single sections(how, inside.initial());
    print_time("  open");
    gravel_launch(call_plain<Sender>,
                  gravel_launch_config{.grid = blocks, .block = lanes, .shared_bytes = Sender::shared_bytes},
                  sections.handle(), from, answers);
    gravel_synchronize();
    print_time("  kernel");
    compare(what, sections, all);
    std::vector<uint32_t> got(uint64_t{all_lanes} * each);
    gravel_copy(got.data(), answers, got.size() * sizeof(uint32_t));
    // With numbers drawn by draws alone each answer is the calls before it: below those of the key, and no two draws
    // have the same.
    for (uint32_t lane = 0; lane < all_lanes; ++lane)
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t r = from.random(static_cast<uint32_t>(gravel_my_pe()), lane, i);
        if (r % 4 != 2) continue;
        const uint32_t key = from.key(r, 0), answer = got[lane * each + i];
        expect(answer < all[key].calls, what + ": an answer of " + std::to_string(answer) + " from " +
                                            std::to_string(all[key].calls) + " calls");
        draws[key] |= uint64_t{1} << answer % 64;
        answered[key] += (answer & 63) == answer;
      }
    for (uint64_t key = 0; key < how.keys; ++key)
      if (all[key].calls <= 64)
        expect(static_cast<uint64_t>(__builtin_popcountll(draws[key])) == answered[key],
               what + ": two answers are the same");
  }
  gravel_free(answers);
  print_time(what);
}

void run_nested(const std::string& what, gravel_critical_options how, uint32_t stride, uint32_t each, uint64_t seed) {
  const call_source from{seed, (how.keys + stride - 1) / stride, stride, each};
  const uint32_t n_pes = static_cast<uint32_t>(gravel_n_pes()), all_lanes = blocks * lanes;
  std::vector<expected> all(how.keys);
  for (uint32_t pe = 0; pe < n_pes; ++pe)
    for (uint32_t lane = 0; lane < all_lanes; ++lane)
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t r = from.random(pe, lane, i);
        expected *const a = &all[from.key(r, 0)], *const b = &all[from.key(r, 1)], *const c = &all[from.key(r, 2)],
                        *const d = &all[from.key(r, 3)];
        const int32_t amount = from.amount(r);
        switch (r % 5) {
          case 0:
            a->balance += amount;
            a->calls += !from.adds(r);
            break;
          case 1:
            a->balance -= amount;
            b->balance += amount / 3;
            c->balance += amount - amount / 3;
            ++a->calls;
            ++b->calls;
            ++c->calls;
            break;
          case 2:
            a->balance -= amount;
            b->balance += 2 * amount;
            c->balance -= 3 * amount;
            d->balance += 2 * amount;
            ++a->calls;
            ++b->calls;
            ++c->calls;
            ++d->calls;
            break;
          default:
            a->balance -= amount;
            b->balance += amount;
            ++a->calls;
            ++b->calls;
        }
      }
  const marks inside(how.keys, n_pes == 1);
  auto* answers = gravel_malloc<uint32_t>(uint64_t{all_lanes} * each * sizeof(uint32_t));
  {
    nested sections(how, inside.initial());
    print_time("  open");
    gravel_launch(call_nested, blocks, lanes, sections.handle(), from, answers);
    gravel_synchronize();
    print_time("  kernel");
    compare(what, sections, all);
    std::vector<uint32_t> got(uint64_t{all_lanes} * each);
    gravel_copy(got.data(), answers, got.size() * sizeof(uint32_t));
    uint64_t wrong = 0;
    for (uint32_t lane = 0; lane < all_lanes; ++lane)
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t r = from.random(static_cast<uint32_t>(gravel_my_pe()), lane, i);
        const uint32_t answer = got[lane * each + i];
        wrong += r % 5 == 3 ? answer == 0 || answer > all[from.key(r, 0)].calls : answer != 0;
      }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong answers");
  }
  gravel_free(answers);
  print_time(what);
}

void wait_for_answers() {
  constexpr uint64_t keys = 5;
  const marks inside(keys);
  auto* slots = gravel_malloc<uint32_t>(uint64_t{blocks} * lanes * sizeof(uint32_t));
  auto* wrong = gravel_malloc<uint32_t>(sizeof(uint32_t));
  const std::vector<uint32_t> none(blocks * lanes, ~0u);
  gravel_copy(slots, none.data(), none.size() * sizeof(uint32_t));
  std::vector<expected> all(keys);
  for (uint32_t pe = 0; pe < static_cast<uint32_t>(gravel_n_pes()); ++pe)
    for (uint32_t lane = 0; lane < blocks * lanes; ++lane) all[(pe + lane) % keys].calls += 1 + lane % 4;
  {
    single sections({.keys = keys, .blocks = 2}, inside.initial());
    gravel_launch(ask_and_wait, blocks, lanes, sections.handle(), slots, wrong);
    compare("answers that are waited for", sections, all);
    uint32_t found = 0;
    gravel_copy(&found, wrong, sizeof(found));
    expect(found == 0, "numbers that are drawn one after the other rise");
  }
  gravel_free(wrong);
  gravel_free(slots);
}

/// Service blocks are closed as soon as the kernel has ended, and no one has waited for the calls.
void close_at_once(uint32_t each, uint64_t seed) {
  constexpr uint64_t keys = 3;
  const call_source from{seed, keys, 1, each};
  const marks inside(keys);
  const uint64_t n = uint64_t{blocks} * lanes * each;
  auto* answers = gravel_malloc<uint32_t>(n * sizeof(uint32_t));
  std::vector<uint32_t> got(n, ~0u);
  gravel_copy(answers, got.data(), n * sizeof(uint32_t));
  single sections({.keys = keys,
                   .blocks = 2,
                   .data = gravel_critical_data::device,
                   .place = gravel_critical_place::service,
                   .chunks = 2},
                  inside.initial());
  gravel_launch(call_plain<single::sender>, blocks, lanes, sections.handle(), from, answers);
  gravel_synchronize();
  sections.close();
  gravel_copy(got.data(), answers, n * sizeof(uint32_t));
  uint64_t lost = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const auto lane = static_cast<uint32_t>(i / each), call = static_cast<uint32_t>(i % each);
    lost += from.random(static_cast<uint32_t>(gravel_my_pe()), lane, call) % 4 == 2 && got[i] == ~0u;
  }
  expect(lost == 0, "critical sections that are closed at once: " + std::to_string(lost) + " calls have no answer");
  gravel_free(answers);
}

void refusals() {
  const auto open = [](const gravel_critical_options& how) { return [how] { nested sections(how); }; };
  if (gravel_n_pes() > 1) {
    const auto me = static_cast<uint64_t>(gravel_my_pe());
    expect_refusal("other keys", "keys is 1000 at PE 0, 1001 at PE 1", open({.keys = 1000 + me}));
    expect_refusal("another way", "exclusion is 0 at PE 0, 1 at PE 1",
                   open({.keys = 1000, .exclusion = static_cast<gravel_exclusion>(me % 2)}));
    expect_refusal("no key at one PE", "keys is 0 at PE 0, 1000 at PE 1", open({.keys = 1000 * me}));
    expect_refusal("other critical sections", "blocks is 2 at PE 0, 3 at PE 1",
                   open({.keys = 1000, .blocks = 2 + static_cast<uint32_t>(me)}));
  }
  expect_refusal("no key", "0 keys", open({.keys = 0}));
  expect_refusal("too many keys", "keys; there may be", open({.keys = uint64_t{1} << 33}));
  expect_refusal("no room for the lanes of a warp", "16 calls", open({.keys = 1, .calls = 16}));
  expect_refusal("calls", "33 calls", open({.keys = 1, .calls = 33}));
  expect_refusal("shared memory in place", "cannot run in place",
                 open({.keys = 1, .data = gravel_critical_data::shared, .place = gravel_critical_place::caller}));
  expect_refusal("too many for shared memory", "shared memory for",
                 open({.keys = 1 << 20, .blocks = 1, .data = gravel_critical_data::shared}));
}

/// Whether PEs share a GPU, one at a time. Then a section of keys of two PEs, which waits twice for the other PE, takes
/// some 4 ms. With few keys such sections run one after the other: a thousand times longer than on GPUs of their own.
bool take_turns() {
#if GRAVEL_CUDA
  int gpus = 1, at_once = 0;
  cuda_check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  cuda_check(cudaDeviceGetAttribute(&at_once, cudaDevAttrMpsEnabled, 0), "cudaDeviceGetAttribute");
  return gravel_n_pes() > gpus && !at_once;
#else
  return false;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t each = GRAVEL_CUDA ? 10 : 12;
  if (argc > 1) each = static_cast<uint32_t>(std::atoi(argv[1]));
  prints_times = argc > 2;  // how long each part takes
  began = std::chrono::steady_clock::now();
  gravel_init<single::delivery, nested::delivery, pure_words::delivery, pure_lines::delivery>();
  if (take_turns()) {
    blocks = 2;
    lanes = 32;
  }
  refusals();
  // Sections of several of few keys follow one another, and where keys are other nodes' each step of one is a message
  // from aggregator to aggregator. So there are fewer of them, of as many lanes.
  const bool far_apart = GRAVEL_CUDA && gravel_n_nodes() > 1;
  const uint32_t each_nested = far_apart ? (each + 9) / 10 : each;
  const uint32_t n_pes = static_cast<uint32_t>(gravel_n_pes());
  uint64_t seed = 1;
  using exclusion = gravel_exclusion;
  using data = gravel_critical_data;
  using place = gravel_critical_place;
  for (const auto by : {exclusion::owners, exclusion::locks}) {
    const std::string how = by == exclusion::owners ? "owners, " : "locks, ";
    run_plain(how + "one key", {.keys = 1, .blocks = 3, .exclusion = by}, 1, each, seed++);
    run_plain(how + "one key in device memory",
              {.keys = 1, .blocks = 1, .exclusion = by, .data = data::device, .place = place::service, .chunks = 2}, 1,
              each, seed++);
    run_plain(how + "few keys in place", {.keys = 7, .blocks = 2, .exclusion = by, .place = place::caller}, 1, each,
              seed++);
    run_plain(how + "many keys", {.keys = 100'000, .blocks = 2, .exclusion = by, .chunks = 4, .chunk_messages = 32}, 1,
              each, seed++);
    run_plain<single::combining_sender>(how + "combined in blocks", {.keys = 5, .blocks = 2, .exclusion = by}, 1, each,
                                        seed++);
    run_plain<single::combining_sender>(how + "combined in blocks, in place",
                                        {.keys = 1000, .blocks = 2, .exclusion = by, .place = place::caller}, 1, each,
                                        seed++);
    run_plain<single::large_sender>(how + "combined in large tables", {.keys = 5, .blocks = 2, .exclusion = by}, 1,
                                    each, seed++);
    run_plain<single::large_sender>(how + "combined in large tables, in place",
                                    {.keys = 1000, .blocks = 2, .exclusion = by, .place = place::caller}, 1, each,
                                    seed++);

    run_nested(how + "nested, one key", {.keys = 1, .blocks = 1, .exclusion = by, .calls = 32}, 1, each_nested, seed++);
    run_nested(how + "nested, opposite", {.keys = 2, .blocks = 2, .exclusion = by, .calls = 32, .chunks = 2}, 1,
               each_nested, seed++);
    run_nested(how + "nested, few keys", {.keys = 9, .blocks = 3, .exclusion = by, .data = data::shared, .calls = 64},
               1, each_nested, seed++);
    run_nested(how + "nested, in place",
               {.keys = 40, .blocks = 2, .exclusion = by, .place = place::caller, .calls = 32}, 1, each_nested, seed++);
    // Numbers of keys are 4096 apart at their service block: they share the words of its locks.
    run_nested(how + "nested, one lock word",
               {.keys = 3 * 4096 * n_pes, .blocks = 1, .exclusion = by, .data = data::device, .place = place::service},
               4096 * n_pes, each_nested, seed++);
  }
  const auto pure = [&]<class Sections>(const std::string& what, const gravel_critical_options& how) {
    const std::string fault =
        run_pure<Sections>(how, blocks, lanes, std::is_same_v<Sections, pure_words> ? each_nested : each, seed++);
    expect(fault.empty(), what + ": " + fault);
    print_time(what);
  };
  pure.template operator()<pure_words>("pure, one key", {.keys = 1, .blocks = 2, .place = place::caller, .calls = 32});
  pure.template operator()<pure_words>("pure, few keys",
                                       {.keys = 11, .blocks = 2, .place = place::caller, .calls = 64});
  pure.template operator()<pure_words>("pure, many keys",
                                       {.keys = 50'000, .blocks = 2, .place = place::caller, .calls = 64});
  pure.template operator()<pure_words>("pure, at service blocks",
                                       {.keys = 11, .blocks = 2, .place = place::service, .calls = 64});
  pure.template operator()<pure_lines>("pure, few keys of 64 bytes", {.keys = 7, .blocks = 2, .place = place::caller});
  pure.template operator()<pure_lines>("pure, many keys of 64 bytes",
                                       {.keys = 50'000, .blocks = 2, .place = place::caller});
  wait_for_answers();
  close_at_once(each, seed++);
  const auto with_clients = [&](unsigned of_blocks, unsigned of_lanes, uint32_t calls, const std::string& what) {
    const unsigned all_blocks = blocks, all_lanes = lanes;
    blocks = of_blocks;
    lanes = of_lanes;
    run_plain(what, {.keys = 5, .blocks = 1}, 1, calls, seed++);
    if (far_apart) lanes = 1;
    run_nested(what + ", nested", {.keys = 5, .blocks = 1, .place = place::service, .calls = 32}, 1, calls, seed++);
    blocks = all_blocks;
    lanes = all_lanes;
  };
  with_clients(1, 1, each, "one client, one service block");
  if (!take_turns()) with_clients(GRAVEL_CUDA ? 4096 : 12, 32, 1, "more clients than fit");
  { nested idle({.keys = 1000}); }
  const bool all_well = gravel_max_all(static_cast<uint64_t>(failures)) == 0;
  if (gravel_my_pe() == 0 && all_well)
    printf("critical sections: all well on %d PEs, %s\n", gravel_n_pes(), gravel_backend());
  gravel_finalize();
  return all_well ? 0 : 1;
}
