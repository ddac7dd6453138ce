// One call of a whole block, warp or grid, made wrongly: by too few threads, with different arguments, or where others
// make another call. The job must end with a sentence that names the call. test/scripts/scope_test.py runs them all,
// and those that are legal, which must end well. `--list` prints them: call, kind, sentence. On a GPU it is compiled
// with -DGRAVEL_CHECK=1 -DGRAVEL_CHECK_S=1.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "lib/allreduce/allreduce.cuh"
#include "lib/base/team_call.hpp"
#include "lib/channel/remote_channel.cuh"
#include "lib/critical/critical_sections.cuh"
#include "lib/link/link.cuh"
#include "lib/remote_task/accumulate.cuh"
#include "lib/remote_task/task.cuh"

namespace {

constexpr unsigned threads = 128;

struct account {
  int64_t balance;
};
struct deposit {
  static constexpr const char* name = "deposit";
  GRAVEL_HANDLER void operator()(account& a, int32_t amount) const { a.balance += amount; }
};
using bank = gravel_critical_sections<account, deposit>;
struct add_up {
  static constexpr const char* name = "add_up";
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t&, uint64_t* target, const uint64_t*) const {
    gravel::detail::fetch_add(target, uint64_t{1});
  }
};
struct order {
  static constexpr const char* name = "order";
  uint32_t number;
};

/// Objects that a kernel may need for its call.
struct things {
  gravel_t g;
  uint64_t* words;  ///< 4096, symmetric; the last is a flag
  gravel_reducer_handle reducer;
  gravel_link_handle link;
  gravel_task_handle tasks;
  bank::handle_type sections;
  gravel_remote_channel_handle<order> orders;
  gravel_signal done;
};

enum class kind { alone, half, apart, differ, other };
constexpr const char* kinds[] = {"alone", "half", "apart", "differ", "other"};

/// `call(v)`: v is 0, or differs from thread to thread.
template <class F>
GRAVEL_DEVICE void wrongly(const things& t, kind k, bool by_warp, F call) {
  const unsigned thread = threadIdx.x, team = by_warp ? 32 : threads;
  if (by_warp && thread >= team) return;
  if (k == kind::half && thread >= team / 2) return;
  const bool is_other = k == kind::other && thread >= team / 2;
  if (!is_other && (thread == 0 || (k != kind::alone && k != kind::apart))) call(k == kind::differ ? thread : 0u);
  if (is_other && by_warp) gravel_get_bulk_warp(t.g, t.words, t.words, 8, 0);
  if (is_other && !by_warp) gravel_barrier_block(t.g);
  if (k != kind::apart) return;
  if (by_warp) __syncwarp();
  else __syncthreads();
}

#define CALLS(X)                                                                                                   \
  X(put_bulk, gravel_put_bulk(t.g, t.words, t.words + 512, 4096 - 8 * v, 0))                                       \
  X(get_bulk, gravel_get_bulk(t.g, t.words, t.words + 512, 4096 - 8 * v, 0))                                       \
  X(put_signal, gravel_put_signal(t.g, t.words, t.words + 512, 4096, t.words + 4000 + v, 1, GRAVEL_SIGNAL_SET, 0)) \
  X(put_bulk_warp, gravel_put_bulk_warp(t.g, t.words + v, t.words + 512, 256, 0))                                  \
  X(get_bulk_warp, gravel_get_bulk_warp(t.g, t.words, t.words + 512 + v, 256, 0))                                  \
  X(put_signal_warp,                                                                                               \
    gravel_put_signal_warp(t.g, t.words, t.words + 512, 256, t.words + 4000, 1 + v, GRAVEL_SIGNAL_ADD, 0))         \
  X(barrier_block, gravel_barrier_block(t.g))                                                                      \
  X(barrier, gravel_barrier(t.g))                                                                                  \
  X(broadcast_block, gravel_broadcast_block(t.g, t.words, 1 + v, 0))                                               \
  X(sum_all_block, gravel_sum_all_block(t.g, t.words + v, t.words + 512, 4))                                       \
  X(min_all_block, gravel_min_all_block(t.g, t.words, t.words + 512, 4 + v))                                       \
  X(max_all_block, gravel_max_all_block(t.g, t.words, t.words + 512, 4 + v))                                       \
  X(accumulate, gravel_accumulate(t.g, t.words, t.words + 512, 100 + v, nullptr, 0))                               \
  X(allreduce, gravel_allreduce(t.reducer, t.words, t.words + 512, 64 + v))                                        \
  X(reduce, gravel_reduce(t.reducer, t.words, t.words + 512, 64, v != 0))                                          \
  X(task_put, gravel_task_put<add_up>(t.tasks, 0, t.words + v, {{t.words + 512, 64}}, t.done))                     \
  X(task_put_warp, gravel_task_put_warp<add_up>(t.tasks, 0, t.words, {{t.words + 512, 64 + 8 * v}}, t.done))       \
  X(task_chain, gravel_make_task<add_up>(t.tasks, 0, t.words + v, {{t.words + 512, 64}}, t.done).put())            \
  X(block_sender_begin, __shared__ gravel_block_sender<threads> out; out.begin(t.g))                               \
  X(critical_sender_begin, __shared__ bank::sender out; out.begin(t.sections))                                     \
  X(packet_sender, gravel_packet_sender out(t.link, v % 2))                                                        \
  X(packet_receiver, gravel_packet_receiver in(t.link, v % 2))

// These come behind others that all threads make.
#define LATER_CALLS(X)                                                                                                \
  X(block_sender_end, __shared__ gravel_block_sender<threads> out; out.begin(t.g); out.inc(t.words, 0), out.end())    \
  X(critical_sender_end, __shared__ bank::sender out; out.begin(t.sections);                                          \
    out.template call<deposit>(1, 1), out.end())                                                                      \
  X(packet_send, gravel_packet_sender out(t.link, 0);, out.send(t.words, 64 + v))                                     \
  X(packet_shutdown, gravel_packet_sender out(t.link, 0);, out.shutdown())                                            \
  X(packet_receive, gravel_packet_sender out(t.link, 0); gravel_packet_receiver in(t.link, 0); out.send(t.words, 64); \
    , in.receive())                                                                                                   \
  X(packet_release, gravel_packet_sender out(t.link, 0); gravel_packet_receiver in(t.link, 0); out.send(t.words, 64); \
    const gravel_packet p = in.receive();, in.release(p))

enum class which {
#define NAME(name, ...) name,
  CALLS(NAME) LATER_CALLS(NAME) channel_take
#undef NAME
};

template <which W>
__global__ void make_call(const __grid_constant__ things t, kind k) {
  const bool by_warp = W == which::put_bulk_warp || W == which::get_bulk_warp || W == which::put_signal_warp ||
                       W == which::task_put_warp || W == which::channel_take;
  if constexpr (W == which::channel_take) {
    wrongly(t, k, by_warp, [&](unsigned v) { t.orders.take(gravel::detail::lane_group::of(~0u), 1 + v); });
  }
#define CALL(name, ...) \
  else if constexpr (W == which::name) wrongly(t, k, by_warp, [&]([[maybe_unused]] unsigned v) { __VA_ARGS__; });
#define LATER(name, before, ...)                                               \
  else if constexpr (W == which::name) {                                       \
    before;                                                                    \
    wrongly(t, k, by_warp, [&]([[maybe_unused]] unsigned v) { __VA_ARGS__; }); \
  }
  CALLS(CALL)
  LATER_CALLS(LATER)
#undef CALL
#undef LATER
}

/// A block that leaves its grid's barrier out.
__global__ void leave_block_out(gravel_t g) {
  if (blockIdx.x != 1) gravel_barrier(g);
}

// ---- what is right
/// Blocks of any size; masks that are not the whole warp; lanes that have returned; calls from different places of
/// the program.
__global__ void all_right(gravel_t g, uint64_t* words, uint64_t* other, int pe) {
  const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32, last = blockDim.x - 1;
  const uint64_t value = 7;  // in each thread's own memory
  gravel_put_bulk(g, words, &value, sizeof(value), pe);
  if (thread < 40) gravel_barrier_block(g);
  else gravel_barrier_block(g);
  for (unsigned i = 0; i < warp; ++i) gravel_put_bulk_warp(g, words + 64 * (warp + 1), words, 8, pe);
  const uint32_t even = 0x55555555u;
  if (lane % 2 == 0) gravel_put_bulk_warp(g, other + 64 * warp, words, 8, pe, even);
  else gravel_put_bulk_warp(g, other + 64 * warp + 1, words, 8, pe, ~even);
  if (thread == 5 || thread == last) gravel_put_bulk_warp(g, other + 64 * warp + 2, words, 8, pe, 1u << lane);
  if (lane < 3) {
    gravel_put_bulk_lane(g, other + 64 * warp + 8 + 8 * lane, words, 8 * (lane + 1), pe);
    gravel_get_bulk_lane(g, other + 64 * warp + 48 + lane, other + 64 * warp + 48 + lane, 8, pe);
  }
  if (thread == 3) gravel_put_signal_lane(g, other + 3, words, 8, other + 4, 9, GRAVEL_SIGNAL_SET, pe);
  gravel_quiet(g);
  if (warp != 0) return;
  gravel_put_bulk_warp(g, words + 1, words, 8, pe);
  if (lane < 16) return;
  gravel_put_bulk_warp(g, words + 2, words, 8, pe, 0xffff0000u);
}

struct entry {
  gravel::detail::team_call call;
  const char* name;  ///< of the test
  void (*run)(const things&, kind);
  bool by_warp, has_arguments, is_later;
};
template <which W>
void run(const things& t, kind k) {
  const bool by_grid = W == which::barrier || W == which::allreduce || W == which::reduce;
  gravel_launch(make_call<W>, gravel_launch_config{.grid = 1, .block = threads, .cooperative = by_grid}, t, k);
  gravel_synchronize();
}
const entry entries[] = {
#define FACTS(name) gravel::detail::facts_of(gravel::detail::team_call::name)
#define ENTRY(name, ...)                                                                                            \
  {gravel::detail::team_call::name, #name, run<which::name>, FACTS(name).scope == gravel::detail::team_scope::warp, \
   *FACTS(name).arguments != 0,     false},
#define LATER_ENTRY(name, ...) \
  {gravel::detail::team_call::name, #name, run<which::name>, false, which::name == which::packet_send, true},
    CALLS(ENTRY) LATER_CALLS(LATER_ENTRY) ENTRY(channel_take)
#undef LATER_ENTRY
#undef ENTRY
};

/// A part of what the job must say.
std::string sentence(const entry& e, kind k) {
  const std::string name = gravel::detail::facts_of(e.call).name;
#if GRAVEL_CUDA
  return name + " in block 0: ";
#else
  if (e.is_later)
    return name;  // the missing thread may be in the destructor of an object; and any thread may be the first
  const unsigned team = e.by_warp ? 32 : threads, last = team - 1, half = team / 2;
  const auto range = [](unsigned a, unsigned b) { return "lanes " + std::to_string(a) + "-" + std::to_string(b); };
  const std::string in = name + " in block (0,0,0) was called by ";
  switch (k) {
    case kind::alone: return in + "lane 0, but " + range(1, last) + " ended without it. All ";
    case kind::half: return in + range(0, half - 1) + ", but " + range(half, last) + " ended without it. All ";
    case kind::apart:
      return in + "lane 0, but " + range(1, last) + " wait " +
             (e.by_warp ? "in __syncwarp. All " : "at a barrier of the block (__syncthreads). All ");
    case kind::differ: return name + " with different arguments: `";
    default:
      if (e.call == gravel::detail::team_call::barrier_block || e.call == gravel::detail::team_call::get_bulk_warp)
        return {};
      return std::string(e.by_warp ? "gravel_get_bulk_warp" : "gravel_barrier_block") + " where " + range(0, half - 1) +
             " called " + name;
  }
#endif
}

int list() {
  for (const entry& e : entries)
    for (int k = 0; k < 5; ++k)
      if (const std::string text = sentence(e, kind(k)); !text.empty() && (kind(k) != kind::differ || e.has_arguments))
        std::printf("%s %s %s\n", e.name, kinds[k], text.c_str());
#if !GRAVEL_CUDA
  std::printf("grid grid of the grid, but block 1 has ended without it. All \n");
#endif
  for (const char* size : {"32", "64", "100", "128", "97"}) std::printf("right %s \n", size);
  return 0;
}

/// Runs what is right in a block of `size` threads, and checks what came.
int run_right(unsigned size) {
  auto* const words = gravel_malloc<uint64_t>(4096 * sizeof(uint64_t));
  auto* const other = gravel_malloc<uint64_t>(4096 * sizeof(uint64_t));
  const int next = (gravel_my_pe() + 1) % gravel_n_pes();
  gravel_launch(all_right, gravel_launch_config{.grid = 1, .block = size, .cooperative = true}, gravel_handle(), words,
                other, next);
  gravel_barrier_all();
  std::vector<uint64_t> here(4096), there(4096);
  gravel_copy(here.data(), words, here.size() * sizeof(uint64_t));
  gravel_copy(there.data(), other, there.size() * sizeof(uint64_t));
  int wrong = here[0] != 7 || here[1] != 7 || here[2] != 7 || there[3] != 7 || there[4] != 9;
  for (unsigned warp = 0; warp * 32 < size; ++warp) {
    if (warp) wrong += here[64 * (warp + 1)] != 7;
    wrong += there[64 * warp] != 7 || there[64 * warp + 8] != 7;
    if (size - warp * 32 > 1) wrong += there[64 * warp + 1] != 7 || there[64 * warp + 16] != 7;
  }
  if (wrong) std::fprintf(stderr, "%d wrong\n", wrong);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--list")) return list();
  if (argc < 3) {
    std::fprintf(stderr, "usage: scope_job CALL KIND\n");
    return 2;
  }
  gravel_init<gravel_task_delivery, bank::delivery, gravel_channel_delivery<order>, gravel_accumulation>();
  int wrong = 1;
  const std::string call = argv[1], how = argv[2];
  if (call == "right") {
    wrong = run_right(static_cast<unsigned>(std::stoul(how)));
  } else if (call == "grid") {
    gravel_launch(leave_block_out, gravel_launch_config{.grid = 3, .block = 32, .cooperative = true}, gravel_handle());
    gravel_synchronize();
  } else {
    gravel_reducer reducer;
    gravel_link link(gravel_device(0), gravel_device(0, 1), {.packet_bytes = 256, .buffers = 4, .lanes = 2});
    gravel_task_queue<add_up> tasks({.workers = 2, .slots = 4, .payload_bytes = 4096});
    bank sections({.keys = 16, .blocks = 1});
    gravel_remote_channel<order> orders(256);
    const things t{gravel_handle(),  gravel_malloc<uint64_t>(4096 * sizeof(uint64_t)),
                   reducer.handle(), link.handle(),
                   tasks.handle(),   sections.handle(),
                   orders.handle(),  gravel_new_signal()};
    for (const entry& e : entries)
      for (int k = 0; k < 5; ++k)
        if (e.name == call && kinds[k] == how) e.run(t, kind(k));
    std::fprintf(stderr, "not refused\n");
  }
  gravel_finalize();
  return wrong != 0;
}
