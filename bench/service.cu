// Services within one GPU: how long a message takes to its service block, and how many messages a second 1, 8 and 32
// service blocks take from kernels that send to random keys. In the same run the limits: a flag that two blocks
// pass to and fro through the GPU's memory, and the same additions made by the senders themselves, with atomics.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/perf/report.hpp"
#include "examples/common/lane_share.hpp"
#include "examples/common/program.hpp"
#include "examples/common/together.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/base/mix.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "service";
constexpr uint32_t slots = 4096;  ///< of each service block

/// In device memory.
struct board {
  uint64_t sums[64][slots];  ///< [service block]
  uint64_t answer;           ///< the last latency message that was seen
  uint64_t seen_ns;          ///< when, by globaltimer
};

/// Adds to words that only this service block touches: only its own lanes can collide.
struct adding {
  static constexpr const char* name = "adding";
  static constexpr uint32_t threads = GRAVEL_CUDA ? 512 : 32;
  struct message {
    uint32_t slot, value;  ///< slot `slots`: report the arrival
  };
  board* at;
  __device__ void operator()(const gravel_service_block<adding>& here,
                             const gravel_service_batch<message>& batch) const {
    uint64_t* const mine = at->sums[here.number()];
    for (uint32_t c = here.rank() / 32; c < batch.chunks(); c += here.size() / 32)
      for (uint32_t i = here.rank() % 32; i < batch.messages_of(c); i += 32) {
        const message m = batch.chunk(c)[i];
        if (m.slot < slots) {
          fetch_add<scope::block>(&mine[m.slot], uint64_t{m.value});
        } else {
          store_relaxed<scope::device>(&at->seen_ns, globaltimer_ns());
          store_release<scope::device>(&at->answer, uint64_t{m.value});
        }
      }
  }
};

GRAVEL_DEVICE uint32_t key_of(uint64_t i, uint64_t salt) {
  return static_cast<uint32_t>(mix(i * 0x9e3779b97f4a7c15ull + salt));
}
GRAVEL_DEVICE uint32_t value_of(uint32_t key) { return 1 + (key >> 28); }

__global__ void send_all(gravel_service_handle<adding> to, uint64_t count, uint64_t salt) {
  __shared__ gravel_service_sender<adding, 32, 64> sender;
  sender.begin(to);
  const lane_share mine(count);
  const uint32_t blocks = to.blocks();
  for (uint64_t i = mine.first; i < mine.last; ++i) {
    const uint32_t key = key_of(i, salt);
    sender.send(static_cast<int>(to.g.my_pe), key % blocks, {key / blocks % slots, value_of(key)});
  }
  sender.end();
}
__global__ void add_all(board* at, uint32_t blocks, uint64_t count, uint64_t salt) {
  const lane_share mine(count);
  for (uint64_t i = mine.first; i < mine.last; ++i) {
    const uint32_t key = key_of(i, salt);
    fetch_add<scope::device>(&at->sums[key % blocks][key / blocks % slots], uint64_t{value_of(key)});
  }
}

/// One lane: sends, waits for the answer. times[2 * i]: until it was seen there, times[2 * i + 1]: until the answer was
/// here, nanoseconds.
__global__ void ask(gravel_service_handle<adding> to, board* at, uint32_t iterations, uint64_t* times) {
  for (uint32_t i = 0; i < iterations; ++i) {
    const uint64_t begin = globaltimer_ns();
    gravel_service_send(to, static_cast<int>(to.g.my_pe), 0, {slots, i + 1});
    for (relax wait; load_acquire<scope::device>(&at->answer) != i + 1; wait.attentively()) {
    }
    const uint64_t end = globaltimer_ns();
    times[2 * i] = load_relaxed<scope::device>(&at->seen_ns) - begin;
    times[2 * i + 1] = end - begin;
  }
}
/// Two blocks pass a flag: the least that an answer can take.
__global__ void pass_flag(uint64_t* flags, uint32_t iterations, uint64_t* nanoseconds) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = globaltimer_ns();
  for (uint64_t i = 1; i <= iterations; ++i) {
    if (blockIdx.x == 0) store_release<scope::device>(&flags[0], i);
    for (relax wait; load_acquire<scope::device>(&flags[(1 - blockIdx.x) * 16]) < i; wait.attentively()) {
    }
    if (blockIdx.x == 1) store_release<scope::device>(&flags[16], i);
  }
  if (blockIdx.x == 0) *nanoseconds = globaltimer_ns() - begin;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
uint64_t sum_of(const board* at) {
  std::vector<uint64_t> words(64 * slots);
  gravel_copy(words.data(), at->sums, words.size() * sizeof(uint64_t));
  uint64_t sum = 0;
  for (uint64_t w : words) sum += w;
  return sum;
}

int main(int argc, char** argv) {
  uint64_t messages = GRAVEL_CUDA ? uint64_t{1} << 29 : 20000;
  uint32_t iterations = GRAVEL_CUDA ? 10000 : 200, chunks = 256;
  int repeat = 5;
  std::vector<uint32_t> blocks{1, 8, 32};
  std::string json;
  command_line app("Services within one GPU: latency of a message, messages a second.", program_name);
  app.add_option("--blocks", blocks, "Numbers of service blocks, each at most 32")
      .range(1, 32)
      .delimiter(',')
      .capture_default_str();
  app.add_option("--messages", messages, "Of each PE in a run").capture_default_str();
  app.add_option("--iterations", iterations, "Messages whose latency is taken").range(1, 1 << 24).capture_default_str();
  app.add_option("--chunks", chunks, "Of each ring, a power of two").capture_default_str();
  app.add_option("--repeat", repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_option("--json", json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (!json.empty()) need_writable(json);
    need_symmetric(sizeof(board) + iterations * 16 + (64 << 10));
  });
  gravel_init<gravel_service_delivery<adding>>();
  const bool speaks = gravel_my_pe() == 0;
  auto* at = gravel_malloc<board>(sizeof(board));
  auto* times = gravel_malloc<uint64_t>(iterations * 2 * sizeof(uint64_t));
  auto* flags = gravel_malloc<uint64_t>(64 * sizeof(uint64_t));
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(speaks, command, json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.fact("partition", current_settings().partition);
  const unsigned grid = blocks_for(messages), block = GRAVEL_CUDA ? 256 : lanes_of_block;

  r.title("latency", "one lane sends to a service block of its GPU and waits for the answer, ns");
  {
    gravel_launch(pass_flag, gravel_launch_config{.grid = 2, .block = 32, .cooperative = true}, flags, iterations,
                  flags + 32);
    gravel_synchronize();
    uint64_t passed = 0, last = 0;
    gravel_copy(&passed, flags + 32, sizeof(passed));
    gravel_service<adding> service(adding{at}, {.blocks = 1, .chunks = chunks});
    gravel_launch(ask, 1, 1, service.handle(), at, iterations, times);
    gravel_synchronize();
    std::vector<uint64_t> all(2 * uint64_t{iterations});
    gravel_copy(all.data(), times, all.size() * sizeof(uint64_t));
    gravel_copy(&last, &at->answer, sizeof(last));
    std::vector<double> seen, answered;
    for (uint32_t i = 0; i < iterations; ++i) {
      seen.push_back(static_cast<double>(all[2 * i]));
      answered.push_back(static_cast<double>(all[2 * i + 1]));
    }
    const uint64_t wrong = gravel_sum_all(uint64_t{last != iterations});
    r.row({{"seen_ns", "seen ns", median(seen)},
           {"answered_ns", "answered ns", median(answered)},
           {"limit_round_trip_ns", "limit: flag and back ns", static_cast<double>(passed) / iterations}},
          {iterations, wrong});
  }

  r.title("rate", "messages of 8 bytes to random keys, per PE");
  for (uint32_t n : blocks) {
    uint64_t wrong = 0, salt = 0, expected = 0;
    std::vector<double> rates, direct;
    {
      gravel_service<adding> service(adding{at}, {.blocks = n, .chunks = chunks, .chunk_messages = 64});
      for (int run = 0; run < repeat; ++run) {
        const uint64_t before = sum_of(at);
        gravel_barrier_all();
        direct.push_back(static_cast<double>(messages) / seconds_of([&] {
                           gravel_launch(add_all, grid, block, at, n, messages, ++salt);
                           gravel_synchronize();
                         }));
        const uint64_t between = sum_of(at);
        expected = between - before;
        gravel_barrier_all();
        rates.push_back(static_cast<double>(messages) / seconds_of([&] {
                          gravel_launch(send_all, grid, block, service.handle(), messages, salt);  // the same messages
                          gravel_wait_quiescent();  // of which some 100 us
                        }));
        wrong += sum_of(at) - between != expected;
      }
    }
    wrong = gravel_sum_all(wrong);
    r.row({{"blocks", "service blocks", uint64_t{n}},
           {"threads", "threads each", uint64_t{adding::threads}},
           {"million_messages_per_s", "M msg/s", median(rates) / 1e6},
           {"limit_million_atomics_per_s", "limit: atomics M/s", median(direct) / 1e6}},
          {messages * static_cast<uint64_t>(repeat), wrong});
  }
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
