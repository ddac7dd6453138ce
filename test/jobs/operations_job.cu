// Every operation of the device API, on every type, between all PEs, checked against what it must give. One source for
// the CPU backend and for GPUs; run under ucx-run with any number of PEs and nodes. With the argument `short` it takes
// fewer types, messages and sizes, for a job of many PEs.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/on_stream.cuh>

namespace {

int failures = 0;
bool is_short = false;

void expect(bool holds, const char* what, int64_t got, int64_t wanted) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s: got %" PRId64 ", expected %" PRId64 "\n", gravel_my_pe(), what, got, wanted);
}

constexpr int threads = 128, blocks = 4, lanes = threads * blocks;

template <class T>
struct cells {  // one symmetric object: an element per lane and operation, and shared ones
  T put[lanes], got[lanes];
  T added, anded, ored, xored, least, most, fetched, swapped;
  T returned[lanes];
};

// Every lane puts its number to the next PE; all lanes of all PEs update the shared elements of PE 0 .. n-1.
template <class T>
__global__ void one_sided(gravel_t g, cells<T>* c) {
  const int lane = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  // Divergent on purpose: in branches of their own, lanes of one warp send other operations and other numbers of them.
  // All leave the same value in an element that was zero, whatever the order in which they are applied.
  const T value = static_cast<T>(lane + gravel_my_pe(g));
  if constexpr (sizeof(T) < 4) {
    if (lane % 3) gravel_put(g, &c->put[lane], value, next);
    else
      for (int i = 0; i <= lane % 5; ++i) gravel_put(g, &c->put[lane], value, next);
  } else if (lane % 3 == 0) {
    gravel_put(g, &c->put[lane], value, next);
  } else if (lane % 3 == 1 || !gravel::detail::is_atomic_integer<T>) {
    for (int i = 0; i < lane % 5; ++i) gravel_add(g, &c->put[lane], T{1}, next);
    gravel_add(g, &c->put[lane], static_cast<T>(value - static_cast<T>(lane % 5)), next);
  } else if constexpr (gravel::detail::is_atomic_integer<T>) {
    gravel_or(g, &c->put[lane], value, next);
    if (lane % 2) gravel_max(g, &c->put[lane], value, next);
  }
  for (int pe = 0; pe < gravel_n_pes(g); ++pe) {
    if constexpr (sizeof(T) >= 4) gravel_add(g, &c->added, T{2}, (pe + lane) % gravel_n_pes(g));
    if constexpr (gravel::detail::is_atomic_integer<T>) {
      gravel_and(g, &c->anded, static_cast<T>(~(T{1} << (lane % 31))), pe);
      gravel_or(g, &c->ored, static_cast<T>(T{1} << (lane % 31)), pe);
      gravel_xor(g, &c->xored, static_cast<T>(T{1} << (lane % 31)), pe);
      gravel_min(g, &c->least, static_cast<T>(lane + 5), pe);
      gravel_max(g, &c->most, static_cast<T>(lane + 5), pe);
    }
  }
}

// Reads what the kernel above put, and makes the fetching operations hand out every number once.
template <class T>
__global__ void reading(gravel_t g, cells<T>* c) {
  const int lane = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  gravel_get(g, &c->got[lane], &c->put[lane], next);
  if constexpr (sizeof(T) >= 4) {
    if (lane < 64) c->returned[lane] = gravel_fetch_add(g, &c->fetched, T{1}, 0);
    if constexpr (gravel::detail::is_atomic_integer<T>) {
      // A lock-free counter out of compare-and-swap: each lane adds one.
      if (lane >= 64 && lane < 72) {
        T seen = 0;
        for (;;) {
          const T found = gravel_compare_swap(g, &c->swapped, seen, static_cast<T>(seen + 1), 0);
          if (found == seen) break;
          seen = found;
        }
      }
    }
  }
  gravel_quiet(g);
}

template <class T>
void check_type(const char* name) {
  const int me = gravel_my_pe(), n = gravel_n_pes();
  auto* c = gravel_malloc<cells<T>>(sizeof(cells<T>));
  std::vector<cells<T>> host(1);
  gravel_copy(host.data(), c, sizeof(cells<T>));
  if constexpr (gravel::detail::is_atomic_integer<T>) host[0].anded = static_cast<T>(-1);
  if constexpr (gravel::detail::is_atomic_integer<T>) host[0].least = static_cast<T>(1000000);
  gravel_copy(c, host.data(), sizeof(cells<T>));
  gravel_barrier_all();
  gravel_launch(one_sided<T>, blocks, threads, gravel_handle(), c);
  gravel_barrier_all();
  gravel_launch(reading<T>, blocks, threads, gravel_handle(), c);
  gravel_barrier_all();
  gravel_copy(host.data(), c, sizeof(cells<T>));
  const cells<T>& h = host[0];
  const int before = (me + n - 1) % n;
  for (int lane = 0; lane < lanes; ++lane) {
    expect(h.put[lane] == static_cast<T>(lane + before), name, int64_t(h.put[lane]), lane + before);
    expect(h.got[lane] == static_cast<T>(lane + me), "gravel_get", int64_t(h.got[lane]), lane + me);
  }
  if constexpr (sizeof(T) >= 4) {
    expect(h.added == static_cast<T>(2 * lanes * n), "gravel_add", int64_t(h.added), 2 * lanes * n);
    if (me == 0) expect(h.fetched == static_cast<T>(64 * n), "gravel_fetch_add", int64_t(h.fetched), 64 * n);
    // Every number was handed out once: over all PEs the returned ones sum to that of 0 .. 64n - 1.
    uint64_t sum = 0;
    for (int lane = 0; lane < 64; ++lane) sum += uint64_t(h.returned[lane]);
    const uint64_t all = gravel_sum_all(sum), count = 64ull * uint64_t(n);
    expect(all == count * (count - 1) / 2, "values of gravel_fetch_add", int64_t(all),
           int64_t(count * (count - 1) / 2));
  }
  if constexpr (gravel::detail::is_atomic_integer<T>) {
    const T bits = static_cast<T>(T(0x7fffffff));
    T xored = 0;
    for (int lane = 0; lane < lanes * n; ++lane) xored ^= static_cast<T>(T{1} << (lane % lanes % 31));
    expect(h.anded == static_cast<T>(~bits), "gravel_and", int64_t(h.anded), int64_t(~bits));
    expect(h.ored == bits, "gravel_or", int64_t(h.ored), int64_t(bits));
    expect(h.xored == xored, "gravel_xor", int64_t(h.xored), int64_t(xored));
    expect(h.least == T{5}, "gravel_min", int64_t(h.least), 5);
    expect(h.most == T{lanes + 4}, "gravel_max", int64_t(h.most), lanes + 4);
    if (me == 0) expect(h.swapped == static_cast<T>(8 * n), "gravel_compare_swap", int64_t(h.swapped), 8 * n);
  }
  gravel_barrier_all();
  gravel_free(c);
}

// --- operations with an answer: every lane has a word of its own at every PE, so it knows what each must return
// -------
constexpr int asking = 48;

template <class T>
__device__ T sample(int lane, int step) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>((lane * 37 + step * 1009) % 2001 - 1000) / 8;
  else return static_cast<T>((lane + 1) * 0x9e3779b97f4a7c15ull * (static_cast<unsigned>(step) + 3));
}

/// As gravel_fetch_add does it: integers wrap around.
template <class T>
__device__ T sum_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
}

/// Operation number `step`: what it returned is compared with `model`, which becomes what it must leave.
template <class T>
__device__ bool ask(const gravel_t& g, T* at, T value, int step, int pe, T* model) {
  const T before = *model;
  T found = before;
  switch (step) {
    case 0:
      found = gravel_fetch_add(g, at, value, pe);
      *model = sum_of(before, value);
      break;
    case 1:
      found = gravel_fetch_min(g, at, value, pe);
      *model = value < before ? value : before;
      break;
    case 2:
      found = gravel_fetch_max(g, at, value, pe);
      *model = value > before ? value : before;
      break;
    case 3:
      found = gravel_swap(g, at, value, pe);
      *model = value;
      break;
    case 4: found = gravel_fetch(g, at, pe); break;
    default:
      if constexpr (gravel::detail::is_atomic_integer<T>) {
        if (step == 5) {
          found = gravel_fetch_and(g, at, value, pe);
          *model = before & value;
        }
        if (step == 6) {
          found = gravel_fetch_or(g, at, value, pe);
          *model = before | value;
        }
        if (step == 7) {
          found = gravel_fetch_xor(g, at, value, pe);
          *model = before ^ value;
        }
        if (step == 8) {
          found = gravel_compare_swap(g, at, before, value, pe);
          *model = value;
        }
        if (step == 9) found = gravel_compare_swap(g, at, sum_of(before, T{1}), value, pe);
      }
  }
  return found == before;
}

template <class T>
__global__ void ask_everybody(gravel_t g, T* words, T* token, int* wrong, T* seen) {
  const int lane = static_cast<int>(threadIdx.x), me = gravel_my_pe(g), n = gravel_n_pes(g);
  int mistakes = 0;
  for (int pe = 0; pe < n; ++pe) {
    T* const at = words + me * asking + lane;
    T model{};
    // Lanes of a warp are at different operations, and make different numbers of them.
    for (int i = 0; i < 10 + lane % 7; ++i) mistakes += !ask(g, at, sample<T>(lane, i), (i + lane) % 10, pe, &model);
    mistakes += gravel_get_value(g, at, pe) != model;
  }
  // Everybody's tokens pass through one word: none is lost, none is seen twice.
  seen[lane] = gravel_swap(g, token, static_cast<T>(1 + me * asking + lane), 0);
  wrong[lane] = mistakes;
}

// Minima and maxima without an answer, of all PEs together.
template <class T>
__global__ void extremes(gravel_t g, T* extreme) {
  const int number = static_cast<int>(threadIdx.x) + gravel_my_pe(g) * asking;
  for (int pe = 0; pe < gravel_n_pes(g); ++pe) {
    if (threadIdx.x % 3) gravel_min(g, &extreme[0], static_cast<T>(-number) / 2, pe);
    gravel_max(g, &extreme[1], static_cast<T>(number) / 2, pe);
    gravel_max(g, &extreme[2], static_cast<T>(-2 - number) / 2, pe);
  }
}

template <class T>
void check_answers(const char* name) {
  const int n = gravel_n_pes();
  const uint64_t count = uint64_t(n) * asking;
  auto* words = gravel_malloc<T>((count + 8) * sizeof(T));
  auto* wrong = gravel_malloc<int>(asking * sizeof(int));
  auto* seen = gravel_malloc<T>(asking * sizeof(T));
  T* const special = words + count;  // a token, and three extremes
  const T low = static_cast<T>(-1000000);
  if constexpr (std::is_signed_v<T>) gravel_copy(special + 3, &low, sizeof(low));
  gravel_barrier_all();
  gravel_launch(ask_everybody<T>, 1, asking, gravel_handle(), words, special, wrong, seen);
  gravel_barrier_all();
  if constexpr (std::is_signed_v<T>) gravel_launch(extremes<T>, 1, asking, gravel_handle(), special + 1);
  gravel_barrier_all();
  int mistakes[asking];
  T returned[asking], last[4];
  gravel_copy(mistakes, wrong, sizeof(mistakes));
  gravel_copy(returned, seen, sizeof(returned));
  gravel_copy(last, special, sizeof(last));
  uint64_t sum = gravel_my_pe() == 0 ? uint64_t(last[0]) : 0;
  for (int lane = 0; lane < asking; ++lane) {
    expect(mistakes[lane] == 0, name, mistakes[lane], 0);
    sum += uint64_t(returned[lane]);
  }
  const uint64_t all = gravel_sum_all(sum);
  expect(all == count * (count + 1) / 2, "tokens of gravel_swap", int64_t(all), int64_t(count * (count + 1) / 2));
  if constexpr (std::is_signed_v<T>) {
    const T farthest = static_cast<T>(int64_t(count) - 1);
    expect(last[1] == -farthest / 2, "gravel_min of signed numbers", int64_t(last[1]), int64_t(-farthest / 2));
    expect(last[2] == farthest / 2, "gravel_max of signed numbers", int64_t(last[2]), int64_t(farthest / 2));
    expect(last[3] == T{-1}, "gravel_max of negative numbers", int64_t(last[3]), -1);
  }
  gravel_free(seen);
  gravel_free(wrong);
  gravel_free(words);
}

// Enumerations, pointers and bool travel as what they are.
enum class colour : uint32_t { black, green = 0xfffffffe };
enum tiny : int8_t { zero, minus = -1 };
struct everything {
  colour shade, old_shade, got_shade;
  tiny small, got_small;
  bool flag, got_flag;
  int* pointer;
  int* old_pointer;
  int* got_pointer;
};
__global__ void send_values(gravel_t g, everything* e) {
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  gravel_put(g, &e->small, minus, next);
  gravel_put(g, &e->flag, true, next);
  e->old_shade = gravel_swap(g, &e->shade, colour::green, next);
  e->old_pointer = gravel_compare_swap(g, &e->pointer, nullptr, reinterpret_cast<int*>(8), next);
  gravel_quiet(g);
  gravel_get(g, &e->got_shade, &e->shade, next);
  gravel_get(g, &e->got_pointer, &e->pointer, next);
  gravel_get(g, &e->got_flag, &e->flag, next);
  e->got_small = gravel_get_value(g, &e->small, next);
  gravel_quiet(g);
}

// These operations again, from a block sender: from the lanes `from` and later ones.
__global__ void send_by_block(gravel_t g, unsigned from, float* least, double* most, everything* e) {
  __shared__ gravel_block_sender<threads, 256> sender;
  sender.begin(g);
  for (int pe = 0; pe < gravel_n_pes(g); ++pe) {
    if (threadIdx.x < from) continue;
    if (threadIdx.x % 3) sender.min(least, -0.5f * static_cast<float>(threadIdx.x), pe);
    else sender.max(most, 0.5 * static_cast<double>(threadIdx.x), pe);
    if (threadIdx.x == 100) sender.put(&e->shade, colour::green, pe);
    if (threadIdx.x == 101) sender.put(&e->flag, true, pe);
    if (threadIdx.x == 102) sender.put(&e->pointer, reinterpret_cast<int*>(16), pe);
  }
  sender.end();
}

void check_block_sender() {
  auto* e = gravel_malloc<everything>(sizeof(everything));
  auto* least = gravel_malloc<float>(sizeof(float));
  auto* most = gravel_malloc<double>(sizeof(double));
  gravel_launch(send_by_block, is_short ? 1 : 2, threads, gravel_handle(), is_short ? 96u : 0u, least, most, e);
  gravel_barrier_all();
  everything h;
  float low;
  double high;
  gravel_copy(&h, e, sizeof(h));
  gravel_copy(&low, least, sizeof(low));
  gravel_copy(&high, most, sizeof(high));
  expect(low == -63.5f, "minimum by a block sender, halves", int64_t(low * 2), -127);
  expect(high == 63.0, "maximum by a block sender, halves", int64_t(high * 2), 126);
  expect(h.shade == colour::green && h.flag && h.pointer == reinterpret_cast<int*>(16), "values by a block sender",
         int64_t(h.pointer), 16);
  gravel_free(most);
  gravel_free(least);
  gravel_free(e);
}

void check_values() {
  auto* e = gravel_malloc<everything>(sizeof(everything));
  gravel_launch(send_values, 1, 1, gravel_handle(), e);
  gravel_barrier_all();
  everything h;
  gravel_copy(&h, e, sizeof(h));
  expect(h.shade == colour::green && h.got_shade == colour::green && h.old_shade == colour::black, "enumerations",
         int64_t(h.shade), -2);
  expect(h.pointer == reinterpret_cast<int*>(8) && h.got_pointer == h.pointer && !h.old_pointer, "pointers",
         int64_t(h.pointer), 8);
  expect(h.small == minus && h.got_small == minus, "small enumerations", h.small, minus);
  expect(h.flag && h.got_flag, "bool", h.flag, true);
  gravel_free(e);
}

// --- active messages: device handler, host handler, handlers that send, all sizes -----------------------------------
struct tally {
  uint64_t visits, bytes, hops;
};
__host__ __device__ tally* as_tally(uint64_t offset, const gravel_t& g) {
  return reinterpret_cast<tally*>(g.heap + offset);
}

struct arguments40 {
  uint64_t word[5];
};

struct count_visit {
  static constexpr const char* name = "count_visit";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where, arguments40 more) const {
    gravel_inc(g, &as_tally(where, g)->visits, static_cast<int>(g.my_pe));
    gravel_add(g, &as_tally(where, g)->bytes, more.word[0] + more.word[4], static_cast<int>(g.my_pe));
  }
};
struct hop {
  static constexpr const char* name = "hop";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where, uint32_t left) const {
    gravel_inc(g, &as_tally(where, g)->hops, static_cast<int>(g.my_pe));
    if (left) gravel_am<hop>(g, static_cast<int>((g.my_pe + left) % g.n_pes), where, left - 1);
  }
};
uint64_t host_visits = 0;
struct on_the_host {
  static constexpr const char* name = "on_the_host";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where, int back) const {
#if !GRAVEL_ON_GPU
    ++host_visits;
    gravel_inc(g, &as_tally(where, g)->visits, back);
#endif
  }
};
struct nothing {
  static constexpr const char* name = "nothing";
  GRAVEL_HANDLER void operator()(const gravel_t&) const {}
};

__global__ void send_ams(gravel_t g, uint64_t where, int each) {
  const int n = gravel_n_pes(g);
  for (int i = 0; i < each; ++i) {
    const int pe = static_cast<int>(threadIdx.x + static_cast<unsigned>(i)) % n;
    gravel_am<count_visit>(g, pe, where, arguments40{{1, 0, 0, 0, 2}});
    if (threadIdx.x % 4 == 0) gravel_am<hop>(g, pe, where, 5u);
    if (threadIdx.x % 8 == 0) gravel_am<on_the_host>(g, pe, where, gravel_my_pe(g));
    if (threadIdx.x % 16 == 0) gravel_am<nothing>(g, pe);
  }
}
__global__ void send_ams_by_block(gravel_t g, uint64_t where, int each) {
  __shared__ gravel_block_sender<threads, 512> sender;
  sender.begin(g);
  // Lane t sends t % 7 * each messages of three sizes: no two warps agree on when they are done.
  for (int i = 0; i < static_cast<int>(threadIdx.x % 7) * each; ++i) {
    const int pe = static_cast<int>(threadIdx.x + static_cast<unsigned>(i)) % gravel_n_pes(g);
    sender.template am<count_visit>(pe, where, arguments40{{1, 0, 0, 0, 2}});
    sender.template am<hop>(pe, where, 0u);
    sender.inc(&as_tally(where, g)->bytes, pe);
  }
  sender.end();
}

void check_active_messages() {
  const uint64_t n = uint64_t(gravel_n_pes());
  auto* t = gravel_malloc<tally>(sizeof(tally));
  const gravel_t g = gravel_handle();
  const uint64_t where = uint64_t(reinterpret_cast<char*>(t) - g.heap);
  const int each = is_short ? 1 : 5;
  const uint32_t blocks_of_ams = is_short ? 1 : 2, blocks_with_sender = is_short ? 1 : 3;
  gravel_launch(send_ams, blocks_of_ams, threads, g, where, each);
  gravel_wait_quiescent();
  tally h;
  gravel_copy(&h, t, sizeof(h));
  const uint64_t sent = blocks_of_ams * threads * uint64_t(each) * n;
  const uint64_t visits = gravel_sum_all(h.visits), bytes = gravel_sum_all(h.bytes), hops = gravel_sum_all(h.hops);
  expect(visits == sent + sent / 8, "device and host handlers", int64_t(visits), int64_t(sent + sent / 8));
  expect(bytes == 3 * sent, "arguments", int64_t(bytes), int64_t(3 * sent));
  expect(hops == sent / 4 * 6, "handlers that send", int64_t(hops), int64_t(sent / 4 * 6));
  const uint64_t on_host = gravel_sum_all(host_visits);
  expect(on_host == sent / 8, "host handlers", int64_t(on_host), int64_t(sent / 8));

  gravel_launch(send_ams_by_block, blocks_with_sender, threads, g, where, each);
  gravel_wait_quiescent();
  gravel_copy(&h, t, sizeof(h));
  uint64_t more = 0;
  for (int lane = 0; lane < threads; ++lane) more += uint64_t(lane % 7 * each);
  more *= blocks_with_sender * n;
  const uint64_t visits2 = gravel_sum_all(h.visits), bytes2 = gravel_sum_all(h.bytes), hops2 = gravel_sum_all(h.hops);
  expect(visits2 == visits + more, "block sender: 48-byte messages", int64_t(visits2 - visits), int64_t(more));
  expect(hops2 == hops + more, "block sender: 12-byte messages", int64_t(hops2 - hops), int64_t(more));
  expect(bytes2 == bytes + 4 * more, "block sender: increments", int64_t(bytes2 - bytes), int64_t(4 * more));
  gravel_free(t);
}

// --- bulk, host producers, waiting ----------------------------------------------------------------------------------
enum class bulk_way {
  put_by_block,
  get_by_block,
  put_by_warps,
  get_by_warps,
  put_by_some_lanes,
  signal_by_block,
  signal_by_warp
};
constexpr bulk_way bulk_ways[] = {bulk_way::put_by_block,  bulk_way::get_by_block,      bulk_way::put_by_warps,
                                  bulk_way::get_by_warps,  bulk_way::put_by_some_lanes, bulk_way::signal_by_block,
                                  bulk_way::signal_by_warp};

__device__ char bulk_pattern(uint64_t i, int pe) { return static_cast<char>(i * 7 + static_cast<uint64_t>(pe)); }

/// Fills `to` at the next PE, or here, with the `from` of the previous, or next one.
__global__ void move_bulk(gravel_t g, char* to, const char* from, uint64_t bytes, bulk_way way, uint64_t* signal,
                          int* wrong) {
  const int n = gravel_n_pes(g), me = gravel_my_pe(g), next = (me + 1) % n, before = (me + n - 1) % n;
  const uint64_t warp = threadIdx.x / 32, warps = blockDim.x / 32, share = bytes / warps + 1;
  const uint64_t first = warp * share < bytes ? warp * share : bytes,
                 mine = bytes - first < share ? bytes - first : share;
  constexpr uint32_t some = 0x80f01203;
  switch (way) {
    case bulk_way::put_by_block: return gravel_put_bulk(g, to, from, bytes, next);
    case bulk_way::get_by_block: return gravel_get_bulk(g, to, from, bytes, next);
    case bulk_way::put_by_warps: return gravel_put_bulk_warp(g, to + first, from + first, mine, next);
    case bulk_way::get_by_warps:
      if (warp % 2)
        return gravel_get_bulk_warp(g, to + first, from + first, mine, next);  // the others by some of their lanes
      if (some >> threadIdx.x % 32 & 1) gravel_get_bulk_warp(g, to + first, from + first, mine, next, some);
      return;
    case bulk_way::put_by_some_lanes:
      if (some >> threadIdx.x % 32 & 1) gravel_put_bulk_warp(g, to + first, from + first, mine, next, some);
      return;
    case bulk_way::signal_by_block: gravel_put_signal(g, to, from, bytes, signal, 5, GRAVEL_SIGNAL_SET, next); break;
    case bulk_way::signal_by_warp:
      gravel_put_signal_warp(g, to + first, from + first, mine, signal, 5, GRAVEL_SIGNAL_ADD, next);
      break;
  }
  // A lane that sees the signal sees the data.
  gravel_wait_until(g, signal, GRAVEL_EQ, way == bulk_way::signal_by_block ? 5 : 5 * warps);
  for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
    if (*reinterpret_cast<volatile char*>(&to[i]) != bulk_pattern(i, before)) ++wrong[threadIdx.x];
}

void check_bulk() {
  const int me = gravel_my_pe(), n = gravel_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  for (uint64_t bytes : {0ull, 1ull, 15ull, 16ull, 4097ull, 100'003ull, 1'000'000ull}) {
    if (is_short && bytes != 15 && bytes != 4097) continue;
    char* to = gravel_malloc<char>(bytes + 16);
    char* from = gravel_malloc<char>(bytes + 16);
    auto* signal = gravel_malloc<uint64_t>(sizeof(uint64_t));
    int* wrong = gravel_malloc<int>(threads * sizeof(int));
    std::vector<char> host(bytes + 16);
    const uint64_t shift = bytes % 3;  // unaligned now and then
    for (uint64_t i = 0; i < bytes; ++i) host[i] = char(i * 7 + uint64_t(me));
    gravel_copy(from + shift, host.data(), bytes);
    gravel_barrier_all();
    const auto check = [&](const char* what, int source) {
      gravel_barrier_all();
      gravel_copy(host.data(), to, bytes + 16);
      for (uint64_t i = 0; i < bytes; ++i)
        if (host[i + shift] != char(i * 7 + uint64_t(source))) {
          expect(false, what, host[i + shift], char(i * 7 + uint64_t(source)));
          break;
        }
      if (shift) expect(host[0] == 0 && host[shift + bytes] == 0, "bytes beside a bulk operation", host[0], 0);
      const std::vector<char> zeros(bytes + 16);
      gravel_copy(to, zeros.data(), bytes + 16);
      gravel_copy(signal, zeros.data(), sizeof(*signal));
      gravel_barrier_all();
    };
    for (bulk_way way : bulk_ways) {
      gravel_launch(move_bulk, 1, threads, gravel_handle(), to + shift, static_cast<const char*>(from + shift), bytes,
                    way, signal, wrong);
      const bool gets = way == bulk_way::get_by_block || way == bulk_way::get_by_warps;
      check(gets ? "gravel_get_bulk" : "gravel_put_bulk and gravel_put_signal", gets ? next : before);
    }
    int mistakes[threads];
    gravel_copy(mistakes, wrong, sizeof(mistakes));
    for (int m : mistakes) expect(m == 0, "data behind a signal", m, 0);
    const gravel_t g = gravel_host_handle();
    gravel_get_bulk(g, to + shift, from + shift, bytes, next);
    gravel_quiet();
    check("gravel_get_bulk from the host", next);
    gravel_put_signal(g, to + shift, from + shift, bytes, signal, 9, GRAVEL_SIGNAL_SET, next);
    gravel_wait_until(g, signal, GRAVEL_EQ, 9);
    check("gravel_put_signal from the host", before);
    gravel_free(wrong);
    gravel_free(signal);
    gravel_free(from);
    gravel_free(to);
  }
}

// --- strided calls, numbers of 16 bits, sets of words, signals -------------------------------------------------------
struct pair_of_words {
  uint64_t first, second;
};
template <class T>
__host__ __device__ T strided_sample(uint64_t i, int pe) {
  const uint64_t word = (i + 1) * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(pe) * 0x1111;
  if constexpr (sizeof(T) == 16) return {word, ~word};
  else return static_cast<T>(word);
}
template <class T>
__host__ __device__ bool are_equal(const T& a, const T& b) {
  if constexpr (sizeof(T) == 16) return a.first == b.first && a.second == b.second;
  else return a == b;
}
constexpr uint64_t strided_count = 37;

/// What three kinds of callers put or get: the block, its second warp, and four lanes with two elements each.
template <class T>
struct strided_area {
  T from[strided_count * 3], by_block[strided_count * 2], by_warp[strided_count * 2], by_lane[16],
      got_by_block[strided_count * 2], got_by_warp[strided_count * 2];
};
template <class T>
__global__ void move_strided(gravel_t g, strided_area<T>* a, int* wrong) {
  const int n = gravel_n_pes(g), me = gravel_my_pe(g), next = (me + 1) % n, before = (me + n - 1) % n;
  const uint64_t lane = threadIdx.x;
  for (uint64_t i = lane; i < strided_count * 3; i += blockDim.x) a->from[i] = strided_sample<T>(i, me);
  gravel_barrier_block(g);
  gravel_put_strided(g, a->by_block, a->from, 2, 3, strided_count, next);
  gravel_get_strided(g, a->got_by_block, a->from, 2, 3, strided_count, next);
  if (lane / 32 == 1) {
    gravel_put_strided_warp(g, a->by_warp, a->from, 2, 3, strided_count, next);
    gravel_get_strided_warp(g, a->got_by_warp, a->from, 2, 3, strided_count, next);
  }
  T own[4] = {};  // not symmetric
  if (lane < 4) {
    gravel_put_strided_lane(g, a->by_lane + lane * 4, a->from + lane, 2, 5, 2, next);
    gravel_get_strided_lane(g, own, a->from + lane, 2, 5, 2, next);
  }
  gravel_quiet(g);
  if (lane < 4)
    for (uint64_t i = 0; i < 4; ++i)
      wrong[lane] += !are_equal(own[i], i % 2 ? T{} : strided_sample<T>(lane + i / 2 * 5, next));
  gravel_barrier_block(g);
  for (uint64_t i = lane; i < strided_count * 2; i += blockDim.x) {
    const T put = i % 2 ? T{} : strided_sample<T>(i / 2 * 3, before),
            got = i % 2 ? T{} : strided_sample<T>(i / 2 * 3, next);
    wrong[lane] += !are_equal(a->by_block[i], put) + !are_equal(a->by_warp[i], put);
    wrong[lane] += !are_equal(a->got_by_block[i], got) + !are_equal(a->got_by_warp[i], got);
  }
  if (lane < 16) {
    const T put = lane % 2 ? T{} : strided_sample<T>(lane / 4 + lane % 4 / 2 * 5, before);
    wrong[lane] += !are_equal(a->by_lane[lane], put);
  }
}
void expect_all_right(const int* wrong, const char* what) {
  int mistakes[threads];
  gravel_copy(mistakes, wrong, sizeof(mistakes));
  for (int m : mistakes) expect(m == 0, what, m, 0);
}
template <class T>
void check_strided(const char* name) {
  auto* area = gravel_malloc<strided_area<T>>(sizeof(strided_area<T>));
  auto* wrong = gravel_malloc<int>(threads * sizeof(int));
  gravel_launch(move_strided<T>, 1, threads, gravel_handle(), area, wrong);
  gravel_barrier_all();
  expect_all_right(wrong, name);
  gravel_free(wrong);
  gravel_free(area);
}

// Neighbours in one word, to which all PEs add.
struct halves {
  gravel_half sum, counted;
  gravel_bfloat16 wide_sum, moved;
  float returned[8];
};
__global__ void add_halves(gravel_t g, halves* h) {
  const auto one = gravel_half::from_float(1);
  for (int pe = 0; pe < gravel_n_pes(g); ++pe) {
    gravel_add(g, &h->sum, gravel_half::from_float(0.5), pe);
    if (threadIdx.x < 3) gravel_add(g, &h->wide_sum, gravel_bfloat16::from_float(1), pe);
  }
  h->returned[threadIdx.x] = gravel_fetch_add(g, &h->counted, one, 0).to_float();
  if (threadIdx.x == 0)
    gravel_put(g, &h->moved, gravel_bfloat16::from_float(-3), (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}
void check_halves() {
  const int n = gravel_n_pes();
  auto* at = gravel_malloc<halves>(sizeof(halves));
  gravel_launch(add_halves, 1, 8, gravel_handle(), at);
  gravel_barrier_all();
  halves h;
  gravel_copy(&h, at, sizeof(h));
  expect(h.sum.to_float() == 4.0f * static_cast<float>(n), "gravel_add gravel_half", int64_t(h.sum.to_float()), 4 * n);
  expect(h.wide_sum.to_float() == 3.0f * static_cast<float>(n), "gravel_add gravel_bfloat16",
         int64_t(h.wide_sum.to_float()), 3 * n);
  expect(h.moved.to_float() == -3, "gravel_put gravel_bfloat16", int64_t(h.moved.to_float()), -3);
  uint64_t sum = 0;
  for (float value : h.returned) sum += static_cast<uint64_t>(value);
  const uint64_t all = gravel_sum_all(sum), count = 8 * static_cast<uint64_t>(n);
  expect(all == count * (count - 1) / 2, "gravel_fetch_add gravel_half", int64_t(all),
         int64_t(count * (count - 1) / 2));
  gravel_free(at);
}

/// Four lanes put 1 to 4 to words of the next PE. Another one waits for them in all ways, and counts mistakes.
template <class T>
__global__ void wait_for_sets(gravel_t g, T* words, int* wrong) {
  constexpr size_t n = 4, none = ~size_t{0};
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  if (threadIdx.x < n) gravel_put(g, &words[threadIdx.x], static_cast<T>(threadIdx.x + 1), next);
  if (threadIdx.x != 0) return;
  gravel_flush(g);
  size_t found[n] = {};
  const int without_second[n] = {0, 1, 0, 0}, nothing[n] = {1, 1, 1, 1};
  const T wanted[n] = {1, 2, 3, 4};
  int mistakes = 0;
  mistakes += gravel_wait_until_any(g, words, n, nothing, GRAVEL_EQ, 7) != none;
  mistakes += gravel_wait_until_some(g, words, n, found, nothing, GRAVEL_EQ, 7) != 0;
  gravel_wait_until_all(g, words, n, nothing, GRAVEL_EQ, 7);
  const size_t any = gravel_wait_until_any(g, words, n, without_second, GRAVEL_NE, 0);
  mistakes += any == 1 || any >= n || words[any] == 0;
  const size_t same = gravel_wait_until_any_vector(g, words, n, nullptr, GRAVEL_EQ, wanted);
  mistakes += same >= n || words[same] != wanted[same];
  size_t some = gravel_wait_until_some(g, words, n, found, without_second, GRAVEL_GT, 0);
  mistakes += some == 0 || some > 3;
  for (size_t i = 0; i < some; ++i) mistakes += found[i] == 1 || (i > 0 && found[i] <= found[i - 1]);
  some = gravel_wait_until_some_vector(g, words, n, found, nullptr, GRAVEL_GE, wanted);
  mistakes += some == 0 || some > n;
  gravel_wait_until_all_vector(g, words, n, nullptr, GRAVEL_EQ, wanted);
  gravel_wait_until_all(g, words, n, nullptr, GRAVEL_LE, 4);
  mistakes += !gravel_test(g, &words[2], GRAVEL_EQ, 3) + gravel_test(g, &words[2], GRAVEL_LT, 3);
  mistakes += !gravel_test_all(g, words, n, without_second, GRAVEL_NE, 2);
  mistakes +=
      gravel_test_all(g, words, n, nullptr, GRAVEL_NE, 2) + !gravel_test_all(g, words, n, nothing, GRAVEL_EQ, 9);
  mistakes += !gravel_test_all_vector(g, words, n, nullptr, GRAVEL_EQ, wanted);
  mistakes += gravel_test_any(g, words, n, without_second, GRAVEL_GE, 2) != 2;
  mistakes += gravel_test_any(g, words, n, nullptr, GRAVEL_GT, 4) != none;
  mistakes += gravel_test_any_vector(g, words, n, nullptr, GRAVEL_GE, wanted) != 0;
  mistakes += gravel_test_some(g, words, n, found, nullptr, GRAVEL_GE, 3) != 2 || found[0] != 2 || found[1] != 3;
  mistakes += gravel_test_some_vector(g, words, n, found, without_second, GRAVEL_EQ, wanted) != 3 || found[1] != 2;
  wrong[0] += mistakes;
}
template <class T>
void check_sets(const char* name) {
  auto* words = gravel_malloc<T>(4 * sizeof(T));
  auto* wrong = gravel_malloc<int>(threads * sizeof(int));
  gravel_launch(wait_for_sets<T>, 1, 32, gravel_handle(), words, wrong);
  gravel_barrier_all();
  expect_all_right(wrong, name);
  // A host thread, too.
  const gravel_t g = gravel_host_handle();
  expect(gravel_wait_until_any(g, words, 4, nullptr, GRAVEL_EQ, T{3}) == 2, "gravel_wait_until_any on the host", 0, 2);
  gravel_free(wrong);
  gravel_free(words);
}

/// Two PEs signal each PE; its owner counts, resets the word, and lets them begin the second round.
__global__ void signal_neighbours(gravel_t g, uint64_t* signal, uint64_t* data, int* wrong) {
  const int n = gravel_n_pes(g), me = gravel_my_pe(g), next = (me + 1) % n, before = (me + n - 1) % n;
  for (uint64_t round = 1; round <= 2; ++round) {
    const uint64_t value = round * 100 + static_cast<uint64_t>(me);
    gravel_put_signal_lane(g, data, &value, sizeof(value), signal, 1, GRAVEL_SIGNAL_ADD, next);
    gravel_send_signal(g, signal, 1, GRAVEL_SIGNAL_ADD, before);
    wrong[0] += gravel_signal_wait_until(g, signal, GRAVEL_GE, 2) != 2;
    wrong[0] += gravel_signal_fetch(g, signal) != 2;
    wrong[0] += gravel::load_relaxed(data) != round * 100 + static_cast<uint64_t>(before);
    gravel_signal_reset(g, signal);
    gravel_barrier_block(g);
  }
  gravel_send_signal(g, signal, 77, GRAVEL_SIGNAL_SET, next);
  gravel_flush(g);
  wrong[0] += gravel_signal_wait_until(g, signal, GRAVEL_NE, 0) != 77;
}
void check_signals() {
  auto* words = gravel_malloc<uint64_t>(2 * sizeof(uint64_t));
  auto* wrong = gravel_malloc<int>(threads * sizeof(int));
  gravel_launch(signal_neighbours, 1, 1, gravel_handle(), words, words + 1, wrong);
  gravel_barrier_all();
  expect_all_right(wrong, "signals");
  gravel_free(wrong);
  gravel_free(words);
}

// --- operations on streams -------------------------------------------------------------------------------------------
struct stream_words {
  uint64_t signal, value;
  uint32_t set[4], wanted[4];
};
void check_streams(uint64_t bytes) {
  const int me = gravel_my_pe(), n = gravel_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  auto* from = gravel_malloc<char>(bytes);
  auto* to = gravel_malloc<char>(bytes);
  auto* back = gravel_malloc<char>(bytes);
  auto* strided = gravel_malloc<uint32_t>(64 * sizeof(uint32_t));
  auto* w = gravel_malloc<stream_words>(sizeof(stream_words));
  std::vector<char> host(bytes);
  for (uint64_t i = 0; i < bytes; ++i) host[i] = char(i * 7 + uint64_t(me));
  gravel_copy(from, host.data(), bytes);
  const uint32_t wanted[4] = {5, 5, 5, 5};
  gravel_copy(w->wanted, wanted, sizeof(wanted));
  gravel_barrier_all();
  const gravel_stream_t stream = gravel_stream_create();
  const auto check = [&](const char* data, const char* what, int pe) {
    gravel_stream_synchronize(stream);
    gravel_copy(host.data(), data, bytes);
    uint64_t i = 0;
    while (i < bytes && host[i] == char(i * 7 + uint64_t(pe))) ++i;
    expect(i == bytes, what, int64_t(i), int64_t(bytes));
    gravel_barrier_all();  // nobody overwrites it before
  };
  const auto exchange = [&](uint64_t round) {
    gravel_put_on_stream(to, from, bytes, next, stream);
    gravel_quiet_on_stream(stream);
    gravel_send_signal_on_stream(&w->signal, 1, GRAVEL_SIGNAL_ADD, next, stream);
    gravel_wait_until_on_stream(&w->signal, GRAVEL_GE, round, stream);
    gravel_get_on_stream(back, from, bytes, next, stream);
  };
  exchange(1);
  check(to, "gravel_put_on_stream", before);
  check(back, "gravel_get_on_stream", next);
  gravel_put_signal_on_stream(to, back, bytes, &w->signal, 10, GRAVEL_SIGNAL_SET, next, stream);
  gravel_wait_until_on_stream(&w->signal, GRAVEL_EQ, 10, stream);
  check(to, "gravel_put_signal_on_stream", me);
  gravel_put_value_on_stream(&w->value, uint64_t(100 + me), next, stream);
  for (uint32_t i = 0; i < 4; ++i) gravel_put_value_on_stream(&w->set[i], 5u, next, stream);
  gravel_quiet_on_stream(stream);
  gravel_wait_until_all_on_stream(w->set, 4, nullptr, GRAVEL_EQ, 5u, stream);
  gravel_wait_until_all_vector_on_stream(w->set, 4, nullptr, GRAVEL_LE, w->wanted, stream);
  const uint64_t value = gravel_get_value_on_stream(&w->value, next, stream);
  expect(value == uint64_t(100 + me), "gravel_get_value_on_stream", int64_t(value), 100 + me);
  auto* const words = reinterpret_cast<uint32_t*>(from);
  gravel_put_strided_on_stream(strided, words, 2, 1, 8, next, stream);
  gravel_get_strided_on_stream(strided + 32, words, 3, 2, 8, next, stream);
  gravel_quiet_on_stream(stream);
  gravel_stream_synchronize(stream);
  gravel_barrier_all();
  uint32_t got[64];
  gravel_copy(got, strided, sizeof(got));
  const auto sample = [](int word, int pe) {
    uint32_t all = 0;
    for (int b = 3; b >= 0; --b) all = all << 8 | static_cast<unsigned char>((word * 4 + b) * 7 + pe);
    return all;
  };
  for (int i = 0; i < 8; ++i) {
    expect(got[i * 2] == sample(i, before), "gravel_put_strided_on_stream", got[i * 2], sample(i, before));
    expect(got[32 + i * 3] == sample(i * 2, next), "gravel_get_strided_on_stream", got[32 + i * 3],
           sample(i * 2, next));
  }
#if GRAVEL_CUDA
  if (gravel::detail::all_heaps_are_mapped()) {
    gravel_copy(to, std::vector<char>(bytes).data(), bytes);
    gravel_copy(back, std::vector<char>(bytes).data(), bytes);
    gravel_barrier_all();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess, "begin of a capture", 0, 1);
    exchange(11);  // the signal is 10
    expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "end of a capture", 0, 1);
    expect(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess, "a graph", 0, 1);
    expect(cudaGraphLaunch(ready, stream) == cudaSuccess, "launch of a graph", 0, 1);
    check(to, "gravel_put_on_stream in a graph", before);
    check(back, "gravel_get_on_stream in a graph", next);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
  }
#endif
  gravel_stream_destroy(stream);
  gravel_barrier_all();
  for (void* object : {static_cast<void*>(w), static_cast<void*>(strided), static_cast<void*>(back),
                       static_cast<void*>(to), static_cast<void*>(from)})
    gravel_free(object);
}

void check_host_producer() {
  const int me = gravel_my_pe(), n = gravel_n_pes();
  auto* counters = gravel_malloc<uint64_t>(16 * sizeof(uint64_t));
  const gravel_t g = gravel_host_handle();
  const int each = is_short ? 1000 : 10000;
  for (int i = 0; i < each; ++i) gravel_inc(g, &counters[i % 8], i % n);
  gravel_put(g, &counters[8], uint64_t(100 + me), (me + 1) % n);
  gravel_barrier_all();
  gravel_get(g, &counters[9], &counters[8], (me + 1) % n);
  gravel_quiet();
  const uint64_t old = gravel_fetch_add(g, &counters[10], uint64_t{1}, 0);
  expect(old < uint64_t(n), "gravel_fetch_add from the host", int64_t(old), n);
  gravel_barrier_all();
  uint64_t h[16];
  gravel_copy(h, counters, sizeof(h));
  uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += h[i];
  const uint64_t all = gravel_sum_all(sum);
  expect(all == uint64_t(each) * uint64_t(n), "gravel_inc from the host", int64_t(all), each * n);
  expect(h[9] == uint64_t(100 + me), "gravel_get from the host", int64_t(h[9]), 100 + me);
  gravel_free(counters);
}

__global__ void pass_on(gravel_t g, uint64_t* token) {
  // PE 0 starts a token; everybody waits for it and passes it on.
  if (gravel_my_pe(g) != 0) gravel_wait_until(g, token, GRAVEL_GE, 1);
  gravel_inc(g, token, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
  gravel_fence(g);
  if (gravel_my_pe(g) == 0) gravel_wait_until(g, token, GRAVEL_EQ, 1);
}

void check_waiting() {
  auto* token = gravel_malloc<uint64_t>(8);
  gravel_launch(pass_on, 1, 1, gravel_handle(), token);
  gravel_barrier_all();
  uint64_t h;
  gravel_copy(&h, token, 8);
  expect(h == 1, "token", int64_t(h), 1);
  gravel_free(token);
}

}  // namespace

int main(int argc, char** argv) {
  is_short = argc > 1 && std::string_view(argv[1]) == "short";
  gravel_init<count_visit, hop, on_the_host, nothing>();
  check_type<int16_t>("gravel_put int16_t");
  check_type<uint32_t>("gravel_put uint32_t");
  check_type<int64_t>("gravel_put int64_t");
  check_type<float>("gravel_put float");
  check_answers<uint32_t>("answers of uint32_t");
  check_answers<double>("answers of double");
  if (!is_short) {
    check_type<uint8_t>("gravel_put uint8_t");
    check_type<int32_t>("gravel_put int32_t");
    check_type<uint64_t>("gravel_put uint64_t");
    check_type<double>("gravel_put double");
    check_answers<int32_t>("answers of int32_t");
    check_answers<int64_t>("answers of int64_t");
    check_answers<uint64_t>("answers of uint64_t");
    check_answers<float>("answers of float");
  }
  check_values();
  check_block_sender();
  check_active_messages();
  check_bulk();
  check_host_producer();
  check_waiting();
  check_halves();
  check_signals();
  check_sets<int32_t>("sets of int32_t");
  if (!is_short) {
    check_sets<uint64_t>("sets of uint64_t");
    check_strided<uint8_t>("strided uint8_t");
    check_strided<uint32_t>("strided uint32_t");
    check_strided<pair_of_words>("strided pairs of words");
    check_streams(gravel_n_pes() % 2 ? 1000 : 40'000);  // by kernels, and by copies
  }
  const uint64_t all = gravel_sum_all(uint64_t(failures));
  if (gravel_my_pe() == 0)
    printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
