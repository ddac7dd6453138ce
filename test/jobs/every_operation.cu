// A program that uses every operation: 9 handlers, 8 kernels. It shows what a large program costs to compile
// (tools/compile_time), and runs as a small job: each lane and each handler counts that it was there.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

namespace {

constexpr unsigned threads = 64, blocks = 2, lanes = threads * blocks, n_handlers = 9;
constexpr uint32_t bulk_bytes = 4096;

/// The symmetric object of the program.
struct board {
  uint64_t handled[n_handlers], sent[lanes];
  uint64_t u64[8];
  int64_t i64[8];
  uint32_t u32[8];
  int32_t i32[8];
  float f32[4];
  double f64[4];
  uint8_t u8[2];
  uint16_t u16[2];
  uint64_t signal, signal_of_warp, flag;
  alignas(16) char source[bulk_bytes], put[bulk_bytes], got[bulk_bytes];
};

GRAVEL_BOTH board* board_at(const gravel_t& g, uint64_t offset) { return reinterpret_cast<board*>(g.heap + offset); }
GRAVEL_BOTH int next_of(const gravel_t& g) { return (gravel_my_pe(g) + 1) % gravel_n_pes(g); }

struct updates_own_memory {
  static constexpr const char* name = "updates_own_memory";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at) const {
    gravel_local_add(g, &board_at(g, at)->handled[0], 1);  // done when it returns
  }
};
struct local_operations {
  static constexpr const char* name = "local_operations";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint32_t value) const {
    board* b = board_at(g, at);
    gravel_local_add(g, &b->handled[1], 1);
    gravel_local_min(g, &b->u32[0], value);
    gravel_local_max(g, &b->i32[0], static_cast<int32_t>(value));
    gravel_local_and(g, &b->u64[0], ~uint64_t{value});
    gravel_local_or(g, &b->u64[1], uint64_t{value});
    gravel_local_xor(g, &b->u64[2], uint64_t{value});
    gravel_local_swap(g, &b->u64[3], uint64_t{value});
    gravel_local_compare_swap(g, &b->u64[4], uint64_t{0}, uint64_t{value});
  }
};
struct sends_on {
  static constexpr const char* name = "sends_on";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint32_t hops) const {
    gravel_local_add(g, &board_at(g, at)->handled[2], 1);
    if (hops) gravel_am<sends_on>(g, next_of(g), at, hops - 1);
  }
};
struct sends_updates {
  static constexpr const char* name = "sends_updates";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, double value) const {
    board* b = board_at(g, at);
    gravel_inc(g, &b->handled[3], gravel_my_pe(g));
    gravel_add(g, &b->f64[0], value, next_of(g));
    gravel_max(g, &b->f64[1], value, next_of(g));
  }
};
struct sends_puts {
  static constexpr const char* name = "sends_puts";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, float value, uint8_t small) const {
    board* b = board_at(g, at);
    gravel_local_add(g, &b->handled[4], 1);
    gravel_put(g, &b->f32[0], value, next_of(g));
    gravel_put(g, &b->u8[0], small, next_of(g));
    gravel_or(g, &b->u32[1], 1u << small % 32, next_of(g));
  }
};
struct counts_batches {
  static constexpr const char* name = "counts_batches";
  static constexpr bool batch = true;
  using context = board;
  GRAVEL_HANDLER void operator()(const gravel_t& g, board* b, const gravel_batch& together, uint32_t key) const {
    const gravel_batch same = together.part(together.match(key));
    if (same.is_leader()) gravel_add(g, &b->handled[5], same.size(), gravel_my_pe(g));
  }
};
struct answers {
  static constexpr const char* name = "answers";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, int32_t from) const {
    gravel_local_add(g, &board_at(g, at)->handled[6], 1);
    gravel_am<updates_own_memory>(g, from, at);
    gravel_flush(g);
  }
};
struct large {
  uint64_t at, words[30];
};
struct takes_much {
  static constexpr const char* name = "takes_much";
  GRAVEL_HANDLER void operator()(const gravel_t& g, const large& arguments) const {
    gravel_local_add(g, &board_at(g, arguments.at)->handled[7], arguments.words[29]);
  }
};
struct runs_on_host {
  static constexpr const char* name = "runs_on_host";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at) const {
    gravel_inc(g, &board_at(g, at)->handled[8], gravel_my_pe(g));  // the host reaches the heap by messages
  }
};

GRAVEL_DEVICE unsigned my_lane() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void stores(gravel_t g, board* b) {
  const int pe = next_of(g);
  gravel_put(g, &b->sent[my_lane()], uint64_t{1}, pe);
  gravel_put(g, &b->u8[1], uint8_t{1}, pe);
  gravel_put(g, &b->u16[0], uint16_t{2}, pe);
  gravel_put(g, &b->u32[2], 3u, pe);
  gravel_put(g, &b->i32[2], -3, pe);
  gravel_put(g, &b->f32[1], 4.0f, pe);
  gravel_put(g, &b->f64[2], 5.0, pe);
  gravel_inc(g, &b->u32[3], pe);
  gravel_inc(g, &b->u64[5], pe);
  gravel_add(g, &b->i32[3], -1, pe);
  gravel_add(g, &b->i64[0], int64_t{-1}, pe);
  gravel_add(g, &b->f32[2], 1.0f, pe);
  gravel_add(g, &b->f64[3], 1.0, pe);
}

__global__ void bits_and_limits(gravel_t g, board* b) {
  const int pe = next_of(g);
  const unsigned lane = my_lane();
  gravel_and(g, &b->u32[4], ~(1u << lane % 32), pe);
  gravel_or(g, &b->u32[5], 1u << lane % 32, pe);
  gravel_xor(g, &b->u32[6], 1u << lane % 32, pe);
  gravel_and(g, &b->i64[1], ~(int64_t{1} << lane % 32), pe);
  gravel_or(g, &b->u64[6], uint64_t{1} << lane % 64, pe);
  gravel_xor(g, &b->u64[6], uint64_t{0}, pe);
  gravel_min(g, &b->i32[4], -static_cast<int32_t>(lane), pe);
  gravel_max(g, &b->u32[7], lane, pe);
  gravel_min(g, &b->i64[2], -static_cast<int64_t>(lane), pe);
  gravel_max(g, &b->u64[7], uint64_t{lane}, pe);
  gravel_min(g, &b->f32[3], -static_cast<float>(lane), pe);
  gravel_max(g, &b->f64[1], static_cast<double>(lane), pe);
}

__global__ void reads(gravel_t g, board* b, board* own) {
  const int pe = next_of(g);
  gravel_get(g, &own->sent[my_lane()], &b->sent[my_lane()], pe);
  gravel_get(g, &own->u8[0], &b->u8[1], pe);
  gravel_quiet(g);
  gravel_add(g, &own->u64[0], own->sent[my_lane()], gravel_my_pe(g));
  gravel_add(g, &own->u64[1], gravel_fetch(g, &b->sent[my_lane()], pe), gravel_my_pe(g));
  gravel_add(g, &own->u32[0], gravel_get_value(g, &b->u32[2], pe), gravel_my_pe(g));
  gravel_add(g, &own->f64[0], gravel_fetch(g, &b->f64[2], pe), gravel_my_pe(g));
}

__global__ void fetching_updates(gravel_t g, board* own) {
  const int pe = next_of(g);
  gravel_fetch_add(g, &own->u64[2], uint64_t{1}, pe);
  gravel_fetch_add(g, &own->f32[0], 1.0f, pe);
  gravel_fetch_add(g, &own->f64[1], 1.0, pe);
  gravel_fetch_min(g, &own->i32[0], -1, pe);
  gravel_fetch_max(g, &own->u32[1], 7u, pe);
  gravel_fetch_and(g, &own->u32[2], ~0u, pe);
  gravel_fetch_or(g, &own->u64[3], uint64_t{1}, pe);
  gravel_fetch_xor(g, &own->i64[0], int64_t{0}, pe);
  gravel_swap(g, &own->u32[3], 9u, pe);
  if (gravel_compare_swap(g, &own->u64[4], uint64_t{0}, uint64_t{1}, pe) == 0) gravel_inc(g, &own->u64[5], pe);
}

// Pieces of one array: the first half by a put, the next quarter with a signal, two eighths by a warp.
__global__ void bulk(gravel_t g, board* b) {
  constexpr uint32_t half = bulk_bytes / 2, quarter = half / 2, eighth = quarter / 2, end = bulk_bytes - eighth;
  const char* from = b->source;
  char* to = b->put;
  const int pe = next_of(g);
  if (blockIdx.x == 0) {
    gravel_put_bulk(g, to, from, half, pe);
    gravel_get_bulk(g, b->got, from, half, pe);
    gravel_put_signal(g, to + half, from + half, quarter, &b->signal, 1, GRAVEL_SIGNAL_SET, pe);
    gravel_wait_until(g, &b->signal, GRAVEL_EQ, uint64_t{1});
  } else if (threadIdx.x < 32) {
    gravel_put_bulk_warp(g, to + half + quarter, from + half + quarter, eighth, pe);
    gravel_get_bulk_warp(g, b->got + half, from + half, half, pe);
    gravel_put_signal_warp(g, to + end, from + end, eighth, &b->signal_of_warp, 1, GRAVEL_SIGNAL_ADD, pe);
    gravel_wait_until(g, &b->signal_of_warp, GRAVEL_GE, uint64_t{1});
  }
  if (my_lane() == 0) {
    gravel_fence(g);
    gravel_put(g, &b->flag, uint64_t{1}, pe);
    gravel_flush(g);
  }
}

__global__ void sends(gravel_t g, uint64_t at) {
  const int pe = next_of(g);
  gravel_am<updates_own_memory>(g, pe, at);
  gravel_am<local_operations>(g, pe, at, my_lane());
  gravel_am<sends_on>(g, pe, at, 2u);
  gravel_am<sends_updates>(g, pe, at, 1.5);
  gravel_am<sends_puts>(g, pe, at, 2.5f, static_cast<uint8_t>(my_lane()));
  gravel_am<counts_batches>(g, pe, my_lane() % 3);
  gravel_am<answers>(g, pe, at, gravel_my_pe(g));
  large arguments{at, {}};
  arguments.words[29] = 1;
  gravel_am<takes_much>(g, pe, arguments);
  gravel_am<runs_on_host>(g, pe, at);
}

__global__ void gathers(gravel_t g, board* b, uint64_t at) {
  __shared__ gravel_block_sender<threads> sender;
  const int pe = next_of(g);
  sender.begin(g);
  sender.put(&b->u32[0], 1u, pe);
  sender.inc(&b->u64[0], pe);
  sender.add(&b->i64[0], int64_t{2}, pe);
  sender.bit_and(&b->u32[1], ~0u, pe);
  sender.bit_or(&b->u64[1], uint64_t{1}, pe);
  sender.bit_xor(&b->u64[2], uint64_t{0}, pe);
  sender.min(&b->i32[0], -1, pe);
  sender.max(&b->f64[0], 1.0, pe);
  sender.am<updates_own_memory>(pe, at);
  sender.am<sends_on>(pe, at, 0u);
  sender.end();
}

__global__ void all_blocks(gravel_t g, board* b) {
  __shared__ uint64_t number[3];
  if (threadIdx.x == 0) number[0] = static_cast<uint64_t>(gravel_my_pe(g)) + 1;
  __syncthreads();
  gravel_sum_all_block(g, &number[1], &number[0], 1);
  gravel_max_all_block(g, &number[2], &number[0], 1);
  gravel_broadcast_block(g, &number[0], 1, 0);
  gravel_barrier_block(g);
  if (threadIdx.x == 0) {
    b->u64[0] = number[0];
    b->u64[1] = number[1];
    b->u64[2] = number[2];
  }
}

int wrong = 0;
void expect(const char* what, uint64_t got, uint64_t wanted) {
  if (got == wanted) return;
  ++wrong;
  std::fprintf(stderr, "PE %d: %s: %llu instead of %llu\n", gravel_my_pe(), what, static_cast<unsigned long long>(got),
               static_cast<unsigned long long>(wanted));
}

}  // namespace

int main() {
  gravel_init<updates_own_memory, local_operations, sends_on,  //
              sends_updates, sends_puts, counts_batches,       //
              answers, takes_much, runs_on_host>();
  const uint64_t n = static_cast<uint64_t>(gravel_n_pes()), all_lanes = n * lanes;
  const gravel_t g = gravel_handle();
  // One for what kernels store, and others for what they read, fetch, move, call, gather: each begins with zeros.
  board* object[6];
  for (board*& b : object) b = gravel_malloc<board>(sizeof(board));
  auto offset = [&](board* b) { return static_cast<uint64_t>(reinterpret_cast<char*>(b) - g.heap); };
  gravel_set_context<counts_batches>(object[4]);
  std::vector<char> pattern(bulk_bytes);
  for (uint32_t i = 0; i < bulk_bytes; ++i) pattern[i] = static_cast<char>(i * 7 % 251);
  gravel_copy(object[3]->source, pattern.data(), bulk_bytes);
  gravel_barrier_all();

  gravel_launch(stores, blocks, threads, g, object[0]);
  gravel_launch(bits_and_limits, blocks, threads, g, object[0]);
  gravel_barrier_all();
  gravel_launch(reads, blocks, threads, g, object[0], object[1]);
  gravel_launch(fetching_updates, blocks, threads, g, object[2]);
  gravel_barrier_all();
  gravel_launch(bulk, blocks, threads, g, object[3]);
  gravel_launch(sends, blocks, threads, g, offset(object[4]));
  gravel_wait_quiescent();
  board here{};
  auto poll_word = [&](int i) { gravel_copy(&here, object[i], sizeof(here)); };

  poll_word(0);
  expect("increments", here.u64[5], lanes);
  expect("additions", static_cast<uint64_t>(here.i64[0]), static_cast<uint64_t>(-int64_t{lanes}));
  expect("additions of double", static_cast<uint64_t>(here.f64[3]), lanes);
  expect("bits", here.u32[5], ~0u);
  expect("the largest", here.u64[7], lanes - 1);
  poll_word(1);
  expect("words that were got", here.u64[0], lanes);
  expect("words that were fetched", here.u64[1], lanes);
  expect("words that were fetched by another name", here.u32[0], 3 * lanes);
  poll_word(2);
  expect("additions with an answer", here.u64[2], lanes);
  expect("the one that compared and swapped", here.u64[5], 1);
  poll_word(3);
  for (uint32_t i = 0; i < bulk_bytes; ++i) wrong += here.put[i] != pattern[i] || here.got[i] != pattern[i];
  expect("flag behind a fence", here.flag, 1);
  poll_word(4);
  const uint64_t times[n_handlers] = {2 * lanes, lanes, 3 * lanes, lanes, lanes, lanes, lanes, lanes, lanes};
  for (unsigned h = 0; h < n_handlers; ++h) expect("a handler", gravel_sum_all(here.handled[h]), n * times[h]);
  expect("sums of handlers", static_cast<uint64_t>(2 * here.f64[0]), 3 * lanes);

  gravel_launch(gathers, blocks, threads, g, object[5], offset(object[5]));
  gravel_wait_quiescent();
  poll_word(5);
  expect("gathered increments", here.u64[0], lanes);
  expect("gathered additions", static_cast<uint64_t>(here.i64[0]), 2 * lanes);
  expect("gathered messages", gravel_sum_all(here.handled[0] + here.handled[2]), 2 * all_lanes);
  gravel_launch(all_blocks, 1, threads, g, object[5]);
  gravel_barrier_all();
  poll_word(5);
  expect("broadcast", here.u64[0], 1);
  expect("sum of all PEs", here.u64[1], n * (n + 1) / 2);
  expect("largest of all PEs", here.u64[2], n);

  const int all_wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", all_wrong ? "wrong" : "ok");
  gravel_finalize();
  return all_wrong != 0;
}
