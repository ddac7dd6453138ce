// How long a task takes from its put to its first instruction, by the size of its payload and by the way in which it is
// started: figures 7 and 8 of the paper (XTQ, SC16), recast. PE 0 puts a task at the last PE (at itself, if it is
// alone); the task's first instruction answers with a put of a word. A second block at PE 0 waits for the answer, as
// the sending block may still be in its put then; both read the GPU's clock (steps of 32 ns on an H100). The time of
// the answer's put is measured in the same run, by two kernels that answer each other, and subtracted. In the mediated
// way a worker notifies a thread of the host, which launches a kernel. The task checks every payload: its words are
// those that the sender wrote for this put.
//
// The second table compares payloads in slots with payloads that go straight into a registered buffer: the same time,
// and the rate of puts one behind the other.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/remote_task.cuh>
#include "bench/clock.cuh"
#include "bench/perf/report.hpp"
#include "examples/common/program.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "tasks";

/// On a GPU what is waited for is to be seen at once; the CPU backend has other threads to run meanwhile.
GRAVEL_DEVICE void poll_again([[maybe_unused]] relax& wait) {
#if GRAVEL_ON_GPU
  wait.reset();
#endif
}

/// Symmetric.
struct board {
  uint64_t* back;   ///< at the last PE: `answer` of PE 0, as mapped there
  uint64_t answer;  ///< number of the last put that was answered
  uint64_t wrong;   ///< words of payloads that were not as they had to be
  uint64_t stop;
};

GRAVEL_DEVICE void answer_with(const gravel_t& g, board* at, uint64_t number, int pe) {
  uint64_t* const there = gravel_ptr(g, &at->answer, pe);
  if (there) return store_relaxed(there, number);
  gravel_put(g, &at->answer, number, pe);
  gravel_flush(g);
}

/// The work of all tasks here. `back`: where the first instruction stores its answer; nullptr: it sends a message.
GRAVEL_DEVICE void answer_and_check(const gravel_task_t& t, board* at, const uint64_t* payload, uint64_t number,
                                    uint64_t* back) {
  if (t.first() == 0) {
    if (back) store_relaxed(back, number);
    else answer_with(t.queue.g, at, number, t.from);
  }
  for (uint64_t i = t.first(); i < t.bytes / 8; i += t.stride())
    if (payload[i] != number + i) fetch_add<scope::device>(&at->wrong, uint64_t{1});
}
struct of_warp {
  static constexpr const char* name = "of a warp";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const uint64_t* payload, uint64_t number,
                                uint64_t* back) const {
    answer_and_check(t, at, payload, number, back);
  }
};
struct of_block {
  static constexpr const char* name = "of a block";
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = 256};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, board* at, const uint64_t* payload, uint64_t number,
                                uint64_t* back) const {
    answer_and_check(t, at, payload, number, back);
  }
};
using queue_type = gravel_task_queue<of_warp, of_block>;

struct times {
  uint64_t* ticks;     ///< of each round of what is measured by itself; of each put, until it returned
  uint64_t* begun;     ///< when each put was called
  uint64_t* answered;  ///< when its answer was seen
  uint64_t* all;       ///< {ticks, nanoseconds} of the whole
};

enum class way : uint32_t { warp, workers, host };

/// Grid: the block that puts, and one that sees the answers.
__global__ void put_tasks(const __grid_constant__ gravel_task_handle q, board* at, int pe, way how, uint64_t* payload,
                          uint64_t bytes, uint32_t puts, uint64_t* back, gravel_task_buffer into, times to) {
  if (blockIdx.x != 0) {
    if (threadIdx.x != 0) return;
    for (uint64_t n = 1; n <= puts; ++n) {
      for (relax wait; load_relaxed(&at->answer) < n; wait()) poll_again(wait);
      to.answered[n - 1] = nanoseconds_now();
    }
    return;
  }
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t n = 1; n <= puts; ++n) {
    for (uint64_t i = threadIdx.x; i < bytes / 8; i += blockDim.x) payload[i] = n + i;
    __syncthreads();
    if (threadIdx.x == 0) to.begun[n - 1] = nanoseconds_now();
    const uint64_t start = static_cast<uint64_t>(clock64());
    const gravel_payload p{{payload, bytes}, {}, into};
    if (how == way::warp) gravel_task_put<of_warp>(q, pe, at, p, {}, n, back);
    else if (how == way::workers) gravel_task_put<of_block>(q, pe, at, p, {}, n, back);
    else gravel_task_put_as<of_block>(GRAVEL_TASK_LAUNCH, q, pe, at, p, {}, n, back);
    if (threadIdx.x == 0) {
      to.ticks[n - 1] = static_cast<uint64_t>(clock64()) - start;
      for (relax wait; load_relaxed(&at->answer) != n; wait()) poll_again(wait);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    to.all[0] = static_cast<uint64_t>(clock64()) - first;
    to.all[1] = nanoseconds_now() - begin;
  }
}
/// Puts one behind the other. The last of `slots` puts before has ended when a put stores its payload, so it may go to
/// the same place of a buffer. Grid: one block.
__global__ void flood(const __grid_constant__ gravel_task_handle q, board* at, int pe, uint64_t* payload,
                      uint64_t bytes, uint32_t puts, uint64_t* back, gravel_task_buffer into, gravel_signal done,
                      uint64_t before, times to) {
  const uint64_t begin = nanoseconds_now();
  for (uint64_t n = 1; n <= puts; ++n) {
    for (uint64_t i = threadIdx.x; i < bytes / 8; i += blockDim.x) payload[i] = n + i;
    __syncthreads();
    const gravel_task_buffer place = into.number ? into.at(n % q.memory.shape.slots * bytes) : into;
    gravel_task_put<of_block>(q, pe, at, {{payload, bytes}, {}, place}, done, n, back);
  }
  if (threadIdx.x != 0) return;
  gravel_wait(q.g, done, before + puts);
  to.all[0] = 1;
  to.all[1] = nanoseconds_now() - begin;
}
__global__ void find_way_back(gravel_t g, board* at) { at->back = gravel_ptr(g, &at->answer, 0); }
__global__ void find_way_there(gravel_t g, board* at, uint64_t* words, int pe) { at->back = gravel_ptr(g, words, pe); }
/// Keeps the PE's workers resident.
__global__ void stay(gravel_t g, board* at) { gravel_wait_until(g, &at->stop, GRAVEL_NE, 0); }
/// Ends stay() at a PE.
void end_stay(board* at, int pe) {
  gravel_put(gravel_host_handle(), &at->stop, uint64_t{1}, pe);
  gravel_flush(gravel_host_handle());
}

/// Two kernels answer each other.
__global__ void answer_each_other(gravel_t g, board* at, int pe, bool starts, uint32_t rounds, times to) {
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t n = 1; n <= rounds; ++n) {
    const uint64_t start = static_cast<uint64_t>(clock64());
    if (starts) answer_with(g, at, n, pe);
    for (relax wait; load_relaxed(&at->answer) != n; wait()) poll_again(wait);
    if (!starts) answer_with(g, at, n, pe);
    to.ticks[n - 1] = static_cast<uint64_t>(clock64()) - start;
  }
  to.all[0] = static_cast<uint64_t>(clock64()) - first;
  to.all[1] = nanoseconds_now() - begin;
}
/// The same measurement for two blocks of one PE, with words of their own.
__global__ void pass_to_and_fro(uint64_t* words, uint32_t rounds, times to) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t n = 1; n <= rounds; ++n) {
    const uint64_t start = static_cast<uint64_t>(clock64());
    if (blockIdx.x == 0) store_relaxed(&words[0], n);
    for (relax wait; load_relaxed(&words[blockIdx.x == 0 ? 32 : 0]) != n; wait()) poll_again(wait);
    if (blockIdx.x != 0) store_relaxed(&words[32], n);
    else to.ticks[n - 1] = static_cast<uint64_t>(clock64()) - start;
  }
  if (blockIdx.x == 0) {
    to.all[0] = static_cast<uint64_t>(clock64()) - first;
    to.all[1] = nanoseconds_now() - begin;
  }
}

/// The steps of a put, each by itself: how long one lane waits for it, in cycles, in the median of 64.
enum class step : uint32_t { barrier, load, ticket, fence, store_fence, all_store_fence, store_full_fence };
constexpr const char* step_names[] = {"a barrier of 256 threads, us",
                                      "a load that no cache answers, us",
                                      "a ticket (load and addition at once), us",
                                      "a fence of one lane, nothing stored, us",
                                      "the same behind its store into the target, us",
                                      "the same of all 256 threads, and a barrier, us",
                                      "a full fence behind a store, then a load, us"};
constexpr uint32_t steps = 7, step_rounds = 64;
__global__ void time_step(const __grid_constant__ gravel_task_handle q, step what, uint64_t* mine, uint64_t* there,
                          times to) {
  uint64_t seen = 0;
  const uint64_t begin = nanoseconds_now(), first = static_cast<uint64_t>(clock64());
  for (uint64_t i = 0; i < step_rounds; ++i) {
    __syncthreads();
    const uint64_t start = static_cast<uint64_t>(clock64());
    if (threadIdx.x == 0) {
      if (what == step::load) seen += load_relaxed(&mine[64]);
      if (what == step::ticket) {
        const slot_claim claim = take_ticket(q, q.g.my_pe);
        seen += claim.ticket + claim.ended;
      }
      if (what == step::store_fence || what == step::store_full_fence) store_relaxed(there, i + seen % 2);
      if (what == step::fence || what == step::store_fence) thread_fence();
      if (what == step::store_full_fence) {
        full_fence();
        seen += load_relaxed(&mine[64]);
      }
    }
    if (what == step::all_store_fence) {
      store_relaxed(there + threadIdx.x, i);
      thread_fence();
      __syncthreads();
    }
    if (what == step::barrier) __syncthreads();
    if (threadIdx.x == 0)
      to.ticks[i] = static_cast<uint64_t>(clock64()) - start + (seen == ~uint64_t{0});  // it is waited for
  }
  if (threadIdx.x == 0) {
    to.all[0] = static_cast<uint64_t>(clock64()) - first;
    to.all[1] = nanoseconds_now() - begin;
  }
}

/// Microseconds, sorted.
std::vector<double> microseconds(const uint64_t* ticks, const times& to, uint32_t n) {
  std::vector<uint64_t> raw(n);
  uint64_t all[2];
  gravel_copy(raw.data(), ticks, n * sizeof(uint64_t));
  gravel_copy(all, to.all, sizeof(all));
  std::vector<double> us;
  for (uint64_t t : raw)
    us.push_back(static_cast<double>(t) * static_cast<double>(all[1]) / 1e3 /
                 static_cast<double>(std::max<uint64_t>(all[0], 1)));
  std::sort(us.begin(), us.end());
  return us;
}
/// From the puts to their answers, microseconds, sorted.
std::vector<double> answers(const times& to, uint32_t n) {
  std::vector<uint64_t> begun(n), answered(n);
  gravel_copy(begun.data(), to.begun, n * sizeof(uint64_t));
  gravel_copy(answered.data(), to.answered, n * sizeof(uint64_t));
  std::vector<double> us;
  for (uint32_t i = 0; i < n; ++i) us.push_back(static_cast<double>(answered[i] - begun[i]) / 1e3);
  std::sort(us.begin(), us.end());
  return us;
}
double part(const std::vector<double>& sorted, double p) {
  return sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1))];
}

template <class T>
T read(const T* from) {
  T value;
  gravel_copy(&value, from, sizeof(T));
  return value;
}

int main(int argc, char** argv) {
  command_line app("Latency of tasks, from the put to the first instruction.", program_name);
  uint32_t puts = 2000, most = 65536, workers = 8, most_of_rates = 1 << 20;
  std::string json;
  app.add_option("--puts", puts, "of each size").range(1u, 1000000u);
  app.add_option("--most", most, "bytes of the largest payload");
  app.add_option("--most-of-rates", most_of_rates, "bytes of the largest payload in slots and in buffers");
  app.add_option("--workers", workers, "resident blocks of each PE");
  app.add_option("--json", json, "write the results here as well");
  parse_or_exit(app, argc, argv, [&] {
    if (!json.empty()) need_writable(json);
  });
  gravel_init<gravel_task_delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.fact("nodes", static_cast<uint64_t>(gravel_n_nodes()));
  const int me = gravel_my_pe(), last = gravel_n_pes() - 1;
  auto* const at = gravel_malloc<board>(sizeof(board));
  auto* const payload = gravel_malloc<uint64_t>(std::max(most, most_of_rates));
  auto* const words = gravel_malloc<uint64_t>(4096);
  const times to{gravel_malloc<uint64_t>(puts * 8), gravel_malloc<uint64_t>(puts * 8),
                 gravel_malloc<uint64_t>(puts * 8), gravel_malloc<uint64_t>(64)};
  bool right = true;

  // A put of a word, one way.
  for (int warm = 0; warm < 2; ++warm) {
    const uint64_t zero = 0;
    gravel_copy(&at->answer, &zero, sizeof(zero));
    gravel_copy(words, std::vector<uint64_t>(64).data(), 512);
    gravel_barrier_all();
    if (last == 0)
      gravel_launch(pass_to_and_fro, gravel_launch_config{.grid = 2, .block = 32, .cooperative = true}, words, puts,
                    to);
    else if (me == 0 || me == last)
      gravel_launch(answer_each_other, 1, 1, gravel_handle(), at, me == 0 ? last : 0, me == 0, puts, to);
    gravel_synchronize();
    gravel_barrier_all();
  }
  const double echo = me == 0 ? part(microseconds(to.ticks, to, puts), 0.5) / 2 : 0;
  r.fact("a put of a word, one way, us", echo);

  gravel_launch(find_way_back, 1, 1, gravel_handle(), at);
  gravel_synchronize();
  auto* const back = reinterpret_cast<uint64_t*>(gravel_broadcast(reinterpret_cast<uint64_t>(read(&at->back)), last));

  {  // A queue of its own: tickets are taken and not used.
    auto* const tickets = gravel_malloc<task_line>(sizeof(task_line) * static_cast<uint64_t>(last + 1));
    gravel_launch(find_way_there, 1, 1, gravel_handle(), at, words, last);
    gravel_synchronize();
    uint64_t* const there = read(&at->back);
    gravel_task_handle q{};
    q.g = gravel_handle();
    q.tickets = tickets;
    for (uint32_t s = 0; s < steps; ++s) {
      if (me == 0 && puts >= step_rounds)
        for (int warm = 0; warm < 2; ++warm) {
          gravel_launch(time_step, 1, 256, q, static_cast<step>(s), words, there ? there : words, to);
          gravel_synchronize();
        }
      if (me == 0 && puts >= step_rounds) r.fact(step_names[s], part(microseconds(to.ticks, to, step_rounds), 0.5));
      gravel_barrier_all();
    }
    gravel_free(tickets);
  }
  {
    queue_type queue({.workers = workers, .slots = 64, .payload_bytes = most});
    r.title("tasks", "from the put to the task's first instruction, and until the put returns, microseconds");
    for (way how : {way::warp, way::workers, way::host})
      for (bool fenced : {false, true})
        for (uint64_t bytes = 8; bytes <= most; bytes *= bytes == 8 ? 8 : 4) {
          if (how == way::host && !fenced) continue;
          const uint32_t n = how == way::host ? std::max(1u, puts / 4) : puts;
          gravel_task_handle q = queue.handle();
          q.fenced = fenced;
          const board zero{};
          for (int warm = 0; warm < 2; ++warm) {
            gravel_copy(at, &zero, sizeof(zero));
            gravel_barrier_all();
            if (me == last && last != 0) gravel_launch(stay, 1, 1, gravel_handle(), at);
            gravel_max_all(uint64_t{0});
            if (me == 0) {
              gravel_launch(put_tasks, 2, 256, q, at, last, how, payload, bytes, n, back, gravel_task_buffer{}, to);
              gravel_synchronize();
              if (last != 0) end_stay(at, last);
            }
            queue.wait();
          }
          const uint64_t wrong = gravel_sum_all(read(&at->wrong));
          right &= wrong == 0;
          if (me != 0) continue;
          const auto us = answers(to, n), put = microseconds(to.ticks, to, n);
          const char* const names[] = {"warp", "workers", "host"};
          r.row({{"start", "start", std::string(names[static_cast<int>(how)])},
                 {"bytes", "bytes", bytes},
                 {"fenced", "fenced", uint64_t{fenced}},
                 {"least_us", "least", us[0] - echo},
                 {"median_us", "median", part(us, 0.5) - echo},
                 {"most_of_99_us", "99 %", part(us, 0.99) - echo},
                 {"put_us", "put", part(put, 0.5)}},
                {n * (bytes / 8), wrong});
        }
  }
  {
    constexpr uint32_t slots = 8;
    auto* const buffer = gravel_malloc<char>(uint64_t{slots} * most_of_rates);
    const gravel_signal done = gravel_new_signal();
    queue_type queue({.workers = workers, .slots = slots, .payload_bytes = most_of_rates});
    const gravel_task_buffer registered = queue.register_buffer(buffer, uint64_t{slots} * most_of_rates);
    r.title("buffers", "payloads in slots and in a registered buffer: from the put to the first instruction, and rate");
    uint64_t ended = 0;
    for (uint64_t bytes = 64; bytes <= most_of_rates; bytes *= bytes < 65536 ? 8 : 4)
      for (const bool in_buffer : {false, true}) {
        const uint32_t n = std::max(1u, bytes > 65536 ? puts / 8 : puts / 2);
        const gravel_task_buffer into = in_buffer ? registered : gravel_task_buffer{};
        const board zero{};
        for (int run = 0; run < 4; ++run) {  // latency and rate, each twice
          gravel_copy(at, &zero, sizeof(zero));
          gravel_barrier_all();
          if (me == last && last != 0) gravel_launch(stay, 1, 1, gravel_handle(), at);
          gravel_max_all(uint64_t{0});
          if (me == 0) {
            if (run < 2)
              gravel_launch(put_tasks, 2, 256, queue.handle(), at, last, way::workers, payload, bytes, n, back, into,
                            to);
            else
              gravel_launch(flood, 1, 256, queue.handle(), at, last, payload, bytes, n, back, into, done.at(0), ended,
                            times{to.ticks, to.begun, to.answered, to.all + 2});
            gravel_synchronize();
            if (run >= 2) ended += n;
            if (last != 0) end_stay(at, last);
          }
          queue.wait();
        }
        const uint64_t wrong = gravel_sum_all(read(&at->wrong));
        right &= wrong == 0;
        if (me != 0) continue;
        const double us = part(answers(to, n), 0.5) - echo, put = part(microseconds(to.ticks, to, n), 0.5),
                     all = static_cast<double>(read(&to.all[3])) / 1e3;
        r.row({{"place", "place", std::string(in_buffer ? "buffer" : "slot")},
               {"bytes", "bytes", bytes},
               {"median_us", "median us", us},
               {"put_us", "put us", put},
               {"tasks_per_ms", "tasks/ms", n / all * 1e3},
               {"gb_per_s", "GB/s", static_cast<double>(bytes) * n / all / 1e3}},
              {n * (bytes / 8), wrong});
      }
    queue.close();
    gravel_free_signal(done);
    gravel_free(buffer);
  }
  r.finish();
  gravel_finalize();
  return right ? 0 : 1;
}
