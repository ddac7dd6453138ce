// One call from a place where it is not allowed, by the guide's table "Who may call what". test/scripts/callers_test.py
// runs every pair of call and place, and expects a sentence with which the job must end. `--list` prints them: place,
// call, sentence.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <gravel/gravel.cuh>

namespace {

constexpr const char *waits = "inside a handler: handlers must not wait",
                     *team = "inside a handler: it is for whole blocks or warps of a kernel",
                     *local = "on the host: this memory is the device's";

// --- calls of lanes and blocks
// ----------------------------------------------------------------------------------------
struct device_call {
  const char *name, *sentence;
};
constexpr device_call device_calls[] = {{"gravel_get", waits},
                                        {"gravel_fetch", waits},
                                        {"gravel_fetch_add", waits},
                                        {"gravel_fetch_and", waits},
                                        {"gravel_fetch_or", waits},
                                        {"gravel_fetch_xor", waits},
                                        {"gravel_fetch_min", waits},
                                        {"gravel_fetch_max", waits},
                                        {"gravel_swap", waits},
                                        {"gravel_compare_swap", waits},
                                        {"gravel_quiet", waits},
                                        {"gravel_fence", waits},
                                        {"gravel_wait_until", waits},
                                        {"gravel_put_bulk", team},
                                        {"gravel_put_bulk_warp", team},
                                        {"gravel_get_bulk", team},
                                        {"gravel_get_bulk_warp", team},
                                        {"gravel_put_signal", team},
                                        {"gravel_put_signal_warp", team},
                                        {"gravel_block_sender", team},
                                        {"gravel_barrier_block", team},
                                        {"gravel_broadcast_block", team},
                                        {"gravel_sum_all_block", team},
                                        {"gravel_min_all_block", team},
                                        {"gravel_max_all_block", team},
                                        {"gravel_barrier", team}};
constexpr int n_device_calls = sizeof(device_calls) / sizeof(*device_calls);
/// From here on they are for kernels alone.
constexpr int the_block_sender = n_device_calls - 7;

/// No call may return a value or touch the words. The job checks the words if it goes on, which it must not.
GRAVEL_BOTH void try_device_call(const gravel_t& g, uint64_t* word, int which) {
  switch (which) {
    case 0: gravel_get(g, word, word + 1, 0); break;
    case 1: gravel_fetch(g, word, 0); break;
    case 2: gravel_fetch_add(g, word, 1, 0); break;
    case 3: gravel_fetch_and(g, word, 1, 0); break;
    case 4: gravel_fetch_or(g, word, 1, 0); break;
    case 5: gravel_fetch_xor(g, word, 1, 0); break;
    case 6: gravel_fetch_min(g, word, 1, 0); break;
    case 7: gravel_fetch_max(g, word, 1, 0); break;
    case 8: gravel_swap(g, word, 1, 0); break;
    case 9: gravel_compare_swap(g, word, 0, 1, 0); break;
    case 10: gravel_quiet(g); break;
    case 11: gravel_fence(g); break;
    case 12: gravel_wait_until(g, word, GRAVEL_EQ, 77); break;
    case 13: gravel_put_bulk(g, word, word + 1, 64, 0); break;
    case 14: gravel_put_bulk_warp(g, word, word + 1, 64, 0); break;
    case 15: gravel_get_bulk(g, word, word + 1, 64, 0); break;
    case 16: gravel_get_bulk_warp(g, word, word + 1, 64, 0); break;
    case 17: gravel_put_signal(g, word, word + 1, 64, word + 9, 1, GRAVEL_SIGNAL_SET, 0); break;
    case 18: gravel_put_signal_warp(g, word, word + 1, 64, word + 9, 1, GRAVEL_SIGNAL_SET, 0); break;
    default: break;
  }
}
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
GRAVEL_DEVICE void try_kernel_call(const gravel_t& g, uint64_t* word, int which) {
  if (which == the_block_sender + 1) return gravel_barrier_block(g);
  if (which == the_block_sender + 2) return gravel_broadcast_block(g, word, 1, 0);
  if (which == the_block_sender + 3) return gravel_sum_all_block(g, word, word, 1);
  if (which == the_block_sender + 4) return gravel_min_all_block(g, word, word, 1);
  if (which == the_block_sender + 5) return gravel_max_all_block(g, word, word, 1);
  if (which == the_block_sender + 6) return gravel_barrier(g);
  __shared__ gravel_block_sender<128, 256> sender;
  sender.begin(g);
  sender.inc(word, 0);
  sender.put(word, 1, 0);
  sender.end();
}
#endif

struct with_context {
  static constexpr const char* name = "with_context";
  using context = int;
  GRAVEL_HANDLER void operator()(const gravel_t&, int*) const {}
};

// --- calls of host threads
// ----------------------------------------------------------------------------------------------
struct host_call {
  const char* name;
  void (*call)(uint64_t*);
};
__global__ void nothing_to_do() {}
const host_call host_calls[] = {{"gravel_malloc", [](uint64_t*) { gravel_malloc<char>(64); }},
                                {"gravel_free", [](uint64_t* word) { gravel_free(word); }},
                                {"gravel_barrier_all", [](uint64_t*) { gravel_barrier_all(); }},
                                {"gravel_wait_quiescent", [](uint64_t*) { gravel_wait_quiescent(); }},
                                {"gravel_sum_all", [](uint64_t*) { gravel_sum_all(1); }},
                                {"gravel_min_all", [](uint64_t*) { gravel_min_all(1); }},
                                {"gravel_max_all", [](uint64_t*) { gravel_max_all(1); }},
                                {"gravel_broadcast", [](uint64_t*) { gravel_broadcast(1, 0); }},
                                {"gravel_allgather",
                                 [](uint64_t*) {
                                   int all[1];
                                   gravel_allgather(all, 1);
                                 }},
                                {"gravel_and_all", [](uint64_t*) { gravel_and_all(1); }},
                                {"gravel_or_all", [](uint64_t*) { gravel_or_all(1); }},
                                {"gravel_xor_all", [](uint64_t*) { gravel_xor_all(1); }},
                                {"gravel_scan_inclusive", [](uint64_t*) { gravel_scan_inclusive(1); }},
                                {"gravel_scan_exclusive", [](uint64_t*) { gravel_scan_exclusive(1); }},
                                {"gravel_set_context", [](uint64_t*) { gravel_set_context<with_context>(nullptr); }},
                                {"gravel_launch", [](uint64_t*) { gravel_launch(nothing_to_do, 1, 1); }},
                                {"gravel_copy",
                                 [](uint64_t* word) {
                                   uint64_t here;
                                   gravel_copy(&here, word, sizeof(here));
                                 }},
                                {"gravel_quiet()", [](uint64_t*) { gravel_quiet(); }},
                                {"gravel_synchronize", [](uint64_t*) { gravel_synchronize(); }},
                                {"gravel_stream_create", [](uint64_t*) { gravel_stream_create(); }},
                                {"gravel_stream_synchronize", [](uint64_t*) { gravel_stream_synchronize(nullptr); }},
                                {"gravel_stream_wait", [](uint64_t* word) { gravel_stream_wait(nullptr, word, 0); }},
                                {"gravel_stream_write", [](uint64_t* word) { gravel_stream_write(nullptr, word, 1); }},
                                {"gravel_stream_destroy", [](uint64_t*) { gravel_stream_destroy(nullptr); }},
                                {"gravel_finalize", [](uint64_t*) { gravel_finalize(); }}};

// --- places
// -------------------------------------------------------------------------------------------------------------
// `where`: offset of the words. Calls from 1000 on are those of host threads.
struct in_device_handler {
  static constexpr const char* name = "in_device_handler";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where, int which) const {
    auto* const word = reinterpret_cast<uint64_t*>(g.heap + where);
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (which >= the_block_sender && which < n_device_calls) try_kernel_call(g, word, which);
#endif
#if !GRAVEL_CUDA
    if (which >= 1000) host_calls[which - 1000].call(word);
#endif
    try_device_call(g, word, which);
  }
};
struct in_host_handler {
  static constexpr const char* name = "in_host_handler";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()([[maybe_unused]] const gravel_t& g, [[maybe_unused]] uint64_t where,
                                 [[maybe_unused]] int which) const {
#if !GRAVEL_ON_GPU
    auto* const word = reinterpret_cast<uint64_t*>(g.heap + where);
    if (which >= 1000) host_calls[which - 1000].call(word);
    else if (which == 999) gravel_local_add(g, word, 1);
    else try_device_call(g, word, which);
#if !GRAVEL_CUDA
    if (which >= the_block_sender && which < n_device_calls) try_kernel_call(g, word, which);
#endif
#endif
  }
};
template <class Handler>
__global__ void send_to(gravel_t g, uint64_t where, int which) {
  gravel_am<Handler>(g, 0, where, which);
}
template <class Handler>
void by_handler(uint64_t* word, int which) {
  const gravel_t g = gravel_handle();
  gravel_launch(send_to<Handler>, 1, 1, g, static_cast<uint64_t>(reinterpret_cast<char*>(word) - g.heap), which);
  gravel_wait_quiescent();
}
__global__ void sync_in_plain_grid(gravel_t g) { gravel_barrier(g); }

#if !GRAVEL_CUDA
// nvcc does not compile these: host calls in kernels, and the block sender in host code.
__global__ void host_call_in_kernel(uint64_t* word, int which) { host_calls[which].call(word); }
#endif

/// Every forbidden pair; `f` returns true to stop.
template <class F>
void for_each_pair(F f) {
  struct place {
    const char* name;
    void (*go)(uint64_t*, int);
  };
  for (const place& p :
       {place{"device_handler", by_handler<in_device_handler>}, place{"host_handler", by_handler<in_host_handler>}}) {
    const bool on_host = !std::strcmp(p.name, "host_handler");
    for (int i = 0; i < n_device_calls; ++i)
      if (!(GRAVEL_CUDA && on_host && i >= the_block_sender))
        f(p.name, device_calls[i].name, device_calls[i].sentence, p.go, i);
    int number = 1000;
    for (const host_call& call : host_calls) {
      if (on_host || !GRAVEL_CUDA) f(p.name, call.name, waits, p.go, number);
      ++number;
    }
    if (on_host) f(p.name, "gravel_local_add", local, p.go, 999);
  }
  f(
      "host_thread", "gravel_local_add", local,
      [](uint64_t* word, int) { gravel_local_add(gravel_host_handle(), word, 1); }, 0);
  f(
      "plain_grid", "gravel_barrier", "in a grid of several blocks that was not launched as cooperative",
      [](uint64_t*, int) { gravel_launch(sync_in_plain_grid, 2, 32, gravel_handle()); }, 0);
#if !GRAVEL_CUDA
  constexpr const char* in_kernel = "inside a kernel: it is for host threads";
  for (int i = the_block_sender; i < n_device_calls; ++i)
    f(
        "host_thread", device_calls[i].name, "outside a kernel: it is for kernels",
        [](uint64_t* word, int which) { try_kernel_call(gravel_host_handle(), word, which); }, i);
  int number = 0;
  for (const host_call& call : host_calls)
    f(
        "kernel", call.name, in_kernel,
        [](uint64_t* word, int which) { gravel_launch(host_call_in_kernel, 1, 1, word, which); }, number++);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--list")) {
    for_each_pair([](const char* place, const char* call, const char* sentence, void (*)(uint64_t*, int), int) {
      std::printf("%s %s %s\n", place, call, sentence);
    });
    return 0;
  }
  if (argc != 3) {
    std::fprintf(stderr, "usage: callers_job --list | PLACE CALL\n");
    return 2;
  }
  gravel_init<in_device_handler, in_host_handler, with_context>();
  auto* const word = gravel_malloc<uint64_t>(4096);
  bool found = false;
  for_each_pair([&](const char* place, const char* call, const char*, void (*go)(uint64_t*, int), int which) {
    if (found || std::strcmp(place, argv[1]) || std::strcmp(call, argv[2])) return;
    found = true;
    go(word, which);
    gravel_barrier_all();
  });
  std::fprintf(stderr, found ? "the call was not refused\n" : "no such pair\n");
  gravel_finalize();
  return 0;
}
