// Active messages in jobs: every mix of arguments by every way, contexts, batch handlers, and handlers that change
// their own memory, and others'. One source for the CPU backend and for GPUs; run under ucx-run.
#include <cinttypes>
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include "test/support/argument_mixes.hpp"

namespace {

using namespace gravel::detail;

int failures = 0;

void expect(const char* what, uint64_t got, uint64_t wanted) {
  if (got == wanted) return;
  ++failures;
  fprintf(stderr, "PE %d: %s: got %" PRIu64 ", expected %" PRIu64 "\n", gravel_my_pe(), what, got, wanted);
}

constexpr uint32_t threads = 128, blocks = 2, lanes = threads * blocks, each = 600;

// --- every mix of arguments
// -------------------------------------------------------------------------------------------
__global__ void send_directly(gravel_t g) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
    mixes::all::each([&]<class H>() { H::send(g, (i + g.my_pe) % g.n_pes, i); });
}
__global__ void send_by_block(gravel_t g) {
  __shared__ gravel_block_sender<threads, 512> sender;
  sender.begin(g);
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < each; i += lanes)
    mixes::all::each([&]<class H>() { H::send_by(sender, (i + g.my_pe) % g.n_pes, i); });
  sender.end();
}

void check_mixes() {
  const uint32_t me = static_cast<uint32_t>(gravel_my_pe()), n = static_cast<uint32_t>(gravel_n_pes());
  auto* tallies = gravel_malloc<mixes::tally>(mixes::all::count * sizeof(mixes::tally));
  if (reinterpret_cast<char*>(tallies) != gravel_handle().heap)
    gravel_abort("am_job: the first object does not begin the heap");
  gravel_launch(send_directly, blocks, threads, gravel_handle());
  gravel_launch(send_by_block, blocks, threads, gravel_handle());
  for (uint32_t i = 0; i < each; ++i)
    mixes::all::each([&]<class H>() { H::send(gravel_host_handle(), (i + me) % n, i); });
  gravel_wait_quiescent();
  std::vector<mixes::tally> got(mixes::all::count);
  gravel_copy(got.data(), tallies, got.size() * sizeof(mixes::tally));
  std::vector<uint32_t> senders;
  for (uint32_t pe = 0; pe < n; ++pe) senders.insert(senders.end(), 3, pe);
  const std::string wrong = mixes::compare(got.data(), me, n, senders, each);
  if (!wrong.empty()) {
    ++failures;
    fprintf(stderr, "PE %u: %s", me, wrong.c_str());
  }
  gravel_barrier_all();
  gravel_free(tallies);
}

// --- contexts, and a histogram by a batch handler
// -------------------------------------------------------------------------
constexpr uint32_t n_bins = 61;
struct histogram {
  uint64_t messages, groups, bin[n_bins];
};
/// Combines what a warp has under equal keys: one addition for each. There are two, alike: a batch must not mix them.
template <int WHICH>
struct count {
  static constexpr const char* name = WHICH ? "count 1" : "count 0";
  static constexpr bool batch = true;
  using context = histogram;
  GRAVEL_HANDLER void operator()(const gravel_t&, histogram* mine, const gravel_batch& batched, uint64_t key,
                                 uint32_t weight) const {
    const gravel_batch same = batched.part(batched.match(key));
    const uint32_t sum = same.sum(weight);
    if (same.is_leader()) fetch_add(&mine->bin[key], uint64_t{sum});
    batched.sync();
    if (!batched.is_leader()) return;
    fetch_add(&mine->messages, uint64_t{batched.size()});
    fetch_add(&mine->groups, uint64_t{1});
  }
};
/// The same handler for the host, where handlers run one after the other.
struct count_on_host {
  static constexpr const char* name = "count_on_host";
  static constexpr bool batch = true, on_host = true;
  using context = histogram;
  GRAVEL_HANDLER void operator()(const gravel_t&, histogram* mine, const gravel_batch& batched, uint64_t key,
                                 uint32_t weight) const {
    mine->bin[key] += batched.sum(weight);
    mine->messages += batched.size();
    ++mine->groups;
  }
};
GRAVEL_BOTH void send_count(const gravel_t& g, int pe, uint64_t key, uint32_t weight) {
  if (key % 2) gravel_am<count<1>>(g, pe, key, weight);
  else gravel_am<count<0>>(g, pe, key, weight);
}
/// Handlers' messages too come to batch handlers.
struct relay {
  static constexpr const char* name = "relay";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t key, uint32_t weight) const {
    send_count(g, static_cast<int>((g.my_pe + 1) % g.n_pes), key, weight);
  }
};

GRAVEL_BOTH uint64_t key_of(uint32_t i) { return i * 2654435761u % 1000003 % n_bins; }

__global__ void draw(gravel_t g, uint32_t samples) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < samples; i += gridDim.x * blockDim.x) {
    const int pe = static_cast<int>(i % g.n_pes);
    send_count(g, pe, key_of(i), i % 5);
    if (i % 3 == 0) gravel_am<relay>(g, pe, key_of(i), 7u);
    if (i % 8 == 0) gravel_am<count_on_host>(g, pe, key_of(i), 1u);
  }
}

/// The sum of all PEs' histograms that `draw` and the host below make.
void add_expected(std::vector<uint64_t>& bins, uint32_t samples, bool on_host) {
  for (uint32_t i = 0; i < samples; ++i) {
    if (on_host) bins[key_of(i)] += i % 8 == 0;
    else bins[key_of(i)] += i % 5 + (i % 3 == 0 ? 7 : 0);
  }
}

void check_histogram() {
  constexpr uint32_t samples = 40'000;
  const uint64_t n = static_cast<uint64_t>(gravel_n_pes());
  auto* first = gravel_malloc<histogram>(2 * sizeof(histogram));
  auto* second = gravel_malloc<histogram>(2 * sizeof(histogram));
  histogram on_host{};
  gravel_set_context<count_on_host>(&on_host);
  uint64_t messages = 0, groups = 0;
  for (histogram* now : {first, second}) {
    gravel_set_context<count<0>>(&now[0]);
    gravel_set_context<count<1>>(&now[1]);
    gravel_barrier_all();
    gravel_launch(draw, blocks, threads, gravel_handle(), samples);
    gravel_wait_quiescent();
  }
  histogram got[4];
  gravel_copy(&got[0], first, 2 * sizeof(histogram));
  gravel_copy(&got[2], second, 2 * sizeof(histogram));
  std::vector<uint64_t> device_bins(n_bins), host_bins(n_bins);
  add_expected(device_bins, samples, false);
  add_expected(host_bins, samples, true);
  for (uint32_t b = 0; b < n_bins; ++b) {
    for (uint32_t h = 0; h < 4; ++h)
      expect("a bin of the device's histogram", gravel_sum_all(got[h].bin[b]), b % 2 == h % 2 ? n * device_bins[b] : 0);
    expect("a bin of the host's histogram", gravel_sum_all(on_host.bin[b]), 2 * n * host_bins[b]);
  }
  for (const histogram& h : got) {
    messages += gravel_sum_all(h.messages);
    groups += gravel_sum_all(h.groups);
  }
  expect("messages of the batch handler", messages, 2 * n * (samples + (samples + 2) / 3));
  expect("messages of the host's", gravel_sum_all(on_host.messages), 2 * n * (samples / 8));
  if (gravel_my_pe() == 0)
    printf("%.1f messages in a batch\n", static_cast<double>(messages) / static_cast<double>(groups ? groups : 1));
  gravel_free(second);
  gravel_free(first);
}

// --- a handler's own memory
// ------------------------------------------------------------------------------------------------
constexpr uint32_t entries_of_few = 3000;  ///< that each PE sends to each, in jobs of up to 16 PEs
constexpr uint32_t most_places = 16 * entries_of_few;
/// Each ticket has a place of its own.
GRAVEL_BOTH uint32_t entries_of(uint32_t n_pes) { return n_pes <= 16 ? entries_of_few : most_places / n_pes; }
/// Values that handlers change by gravel_local_add and the like. For every route and setting the change is done when
/// the call returns.
struct ledger {
  uint64_t tickets, sum, wrong;
  uint64_t place[most_places];
  uint32_t ored, xored, anded;
  int32_t least, most;
  double total;
};
GRAVEL_BOTH uint32_t bits_of(uint32_t value) { return value * 2654435761u; }
struct enter {
  static constexpr const char* name = "enter";
  using context = ledger;
  GRAVEL_HANDLER void operator()(const gravel_t& g, ledger* l, uint32_t value) const {
    const int32_t number = static_cast<int32_t>(value) - 100;  // of both signs
    uint64_t* const place =
        &l->place[gravel_local_add(g, &l->tickets, 1) % most_places];  // nobody else has this ticket
    bool right = gravel_local_swap(g, place, value + 1) == 0;
    right &=
        gravel_local_compare_swap(g, place, value, 1) == value + 1 && load_relaxed<scope::device>(place) == value + 1;
    right &= gravel_local_compare_swap(g, place, value + 1, value) == value + 1 &&
             load_relaxed<scope::device>(place) == value;
    gravel_local_add(g, &l->sum, load_relaxed<scope::device>(place));
    gravel_local_add(g, &l->total, 0.5 * value);
    gravel_local_xor(g, &l->xored, bits_of(value));
    gravel_local_or(g, &l->ored, bits_of(value));
    right &= (gravel_local_or(g, &l->ored, 0) & bits_of(value)) == bits_of(value);
    gravel_local_and(g, &l->anded, ~bits_of(value) | 0xff);
    right &= (gravel_local_and(g, &l->anded, ~0u) & bits_of(value) & ~0xffu) == 0;
    gravel_local_min(g, &l->least, number);
    right &= gravel_local_min(g, &l->least, number) <= number;
    gravel_local_max(g, &l->most, number);
    right &= gravel_local_max(g, &l->most, number) >= number;
    if (!right) gravel_local_add(g, &l->wrong, 1);
  }
};
__global__ void send_entries(gravel_t g) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < entries_of(g.n_pes) * g.n_pes; i += lanes)
    gravel_am<enter>(g, static_cast<int>(i % g.n_pes), i / g.n_pes);
}

void check_own_memory() {
  const uint64_t n = static_cast<uint64_t>(gravel_n_pes());
  const uint32_t entries = entries_of(static_cast<uint32_t>(n));
  auto* object = gravel_malloc<ledger>(sizeof(ledger));
  ledger got{}, wanted{};
  got.anded = wanted.anded = ~0u;
  gravel_copy(object, &got, sizeof(got));
  gravel_set_context<enter>(object);
  gravel_barrier_all();
  gravel_launch(send_entries, blocks, threads, gravel_handle());
  gravel_wait_quiescent();
  gravel_copy(&got, object, sizeof(got));
  for (uint32_t i = 0; i < entries; ++i) {
    wanted.sum += n * i;
    wanted.ored |= bits_of(i);
    wanted.anded &= ~bits_of(i) | 0xff;
    wanted.xored ^= n % 2 ? bits_of(i) : 0;
  }
  expect("entries", got.tickets, n * entries);
  expect("entries that found what no other handler may have left", got.wrong, 0);
  expect("the sum of the entries", got.sum, wanted.sum);
  expect("half the sum, in floating point", static_cast<uint64_t>(2 * got.total), wanted.sum);
  expect("the or of the entries", got.ored, wanted.ored);
  expect("the and", got.anded, wanted.anded);
  expect("the xor", got.xored, wanted.xored);
  expect("the least", static_cast<uint64_t>(got.least + 100), 0);
  expect("the most", static_cast<uint64_t>(got.most + 100), entries - 1);
  gravel_free(object);
}

// --- handlers for one side: a plain __device__ one, and one that only the host can run
// ------------------------------------
struct on_device {
  static constexpr const char* name = "on_device";
  __device__ void operator()(const gravel_t& g, uint64_t at, uint32_t amount) const {
    auto* word = reinterpret_cast<unsigned long long*>(g.heap + at);
    atomicAdd(word, static_cast<unsigned long long>(amount));
    if (__popcll(amount) == 1)
      gravel_am<on_device>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), at, amount - 1);  // 2 + 1 + 0
  }
};
std::vector<uint32_t> received;
struct on_host_alone {
  static constexpr const char* name = "on_host_alone";
  static constexpr bool on_host = true;
  void operator()(const gravel_t& g, uint64_t at, uint32_t amount) const {
    received.push_back(amount);
    gravel_am<on_device>(g, static_cast<int>(g.my_pe), at, amount);
  }
};
__global__ void send_to_one_side(gravel_t g, uint64_t at) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  gravel_am<on_device>(g, static_cast<int>(i % g.n_pes), at, 2u);
  gravel_am<on_host_alone>(g, static_cast<int>(i % g.n_pes), at, 3u);
}

void check_one_side() {
  auto* sum = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const uint64_t at = static_cast<uint64_t>(reinterpret_cast<char*>(sum) - gravel_handle().heap);
  gravel_launch(send_to_one_side, blocks, threads, gravel_handle(), at);
  gravel_am<on_device>(gravel_host_handle(), 0, at, 2);
  gravel_am<on_host_alone>(gravel_host_handle(), 0, at, 3u);
  gravel_wait_quiescent();
  uint64_t got = 0, by_host = 0;
  gravel_copy(&got, sum, sizeof(got));
  for (uint32_t amount : received) by_host += amount;
  const uint64_t messages = (lanes + 1) * static_cast<uint64_t>(gravel_n_pes());
  expect("sum of the host's handlers", gravel_sum_all(by_host), 3 * messages);
  expect("sum of the device's handlers", gravel_sum_all(got), (2 + 1 + 3) * messages);
  gravel_free(sum);
}

// --- what handlers send to all PEs: puts and updates whose messages have 1, 2 and 3 words, and active messages
// ---------------
constexpr uint32_t items_of_few = 200;  ///< that each PE's handlers send to each, in jobs of up to 16 PEs
constexpr uint32_t most_notes = 16 * items_of_few;
/// Each note has a place of its own.
GRAVEL_BOTH uint32_t items_of(uint32_t n_pes) { return n_pes <= 16 ? items_of_few : most_notes / n_pes; }
struct board {
  uint64_t long_note[most_notes];
  uint32_t short_note[most_notes];
  uint32_t incs, most;
  uint64_t sum, by_handlers;
};
struct count_note {
  static constexpr const char* name = "count_note";
  using context = board;
  GRAVEL_HANDLER void operator()(const gravel_t& g, board* b, uint32_t item) const {
    gravel_local_add(g, &b->by_handlers, item);
  }
};
/// Lanes that stand together send to one PE each, or to different ones; one in four is alone with half of what it
/// sends.
struct notify_all {
  static constexpr const char* name = "notify_all";
  using context = board;
  GRAVEL_HANDLER void operator()(const gravel_t& g, board* b, uint32_t item) const {
    const uint32_t first = item / 64 % 2 ? item : 0, place = g.my_pe * items_of(g.n_pes) + item;
    for (uint32_t i = 0; i < g.n_pes; ++i) {
      const int pe = static_cast<int>((first + i) % g.n_pes);
      gravel_put(g, &b->long_note[place], uint64_t{place} << 32 | item, pe);
      if (item % 4 == 0) gravel_inc(g, &b->incs, pe);
      gravel_put(g, &b->short_note[place], ~place, pe);
      gravel_am<count_note>(g, pe, item);
      if (item % 4 != 0) gravel_inc(g, &b->incs, pe);
      gravel_add(g, &b->sum, uint64_t{item}, pe);
      gravel_max(g, &b->most, item, pe);
    }
  }
};
__global__ void send_items(gravel_t g) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < items_of(g.n_pes); i += lanes)
    gravel_am<notify_all>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), i);
}

void check_notes() {
  const uint32_t n = static_cast<uint32_t>(gravel_n_pes()), items = items_of(n);
  auto* b = gravel_malloc<board>(sizeof(board));
  gravel_set_context<count_note>(b);
  gravel_set_context<notify_all>(b);
  gravel_barrier_all();
  gravel_launch(send_items, blocks, threads, gravel_handle());
  gravel_wait_quiescent();
  std::vector<board> copy(1);
  board& got = copy[0];
  gravel_copy(&got, b, sizeof(board));
  uint64_t wrong = 0;
  for (uint32_t place = 0; place < n * items; ++place)
    wrong += (got.long_note[place] != (uint64_t{place} << 32 | place % items)) + (got.short_note[place] != ~place);
  const uint64_t sum = uint64_t{n} * items * (items - 1) / 2;
  expect("notes of handlers that are wrong", wrong, 0);
  expect("increments by handlers", got.incs, n * items);
  expect("sum of what handlers added", got.sum, sum);
  expect("the most of what handlers sent", got.most, items - 1);
  expect("sum of what handlers sent to handlers", got.by_handlers, sum);
  gravel_barrier_all();
  gravel_free(b);
}

template <class... H>
void start(mixes::handlers<H...>) {
  gravel_init<H..., count<0>, count<1>, count_on_host, relay, enter, on_device, on_host_alone, count_note,
              notify_all>();
}

}  // namespace

int main() {
  start(mixes::all());
  check_mixes();
  check_histogram();
  check_own_memory();
  check_one_side();
  check_notes();
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0)
    printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
