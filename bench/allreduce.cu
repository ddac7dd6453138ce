// Arrays reduced over all PEs, by size. Gravel's allreduce and reduce are called in a kernel, started by the host
// without waiting, or called by the host one after the other; the hosts' own collectives (gravel_sum_all) take all
// bytes through the processors. In the way "tasks" a kernel starts chains of remote tasks that combine, as in the
// paper. Beside them NCCL, where its library is found, in a stream and in a CUDA graph. Figure 9 of "extended task
// queuing" (SC 2016), recast.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gravel/accumulate.cuh>
#include <gravel/allreduce.cuh>
#include <gravel/device_array.hpp>
#include <gravel/task_allreduce.cuh>
#include "bench/nccl.hpp"
#include "bench/perf/report.hpp"
#include "examples/common/together.hpp"
#include "lib/base/turn.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "allreduce";

const std::vector<std::string> all_ways{"kernel", "reduce-kernel", "accumulate", "tasks",     "start",
                                        "call",   "hosts",         "nccl",       "nccl-graph"};

struct bench_options {
  std::vector<std::string> ways = all_ways;
  std::vector<uint64_t> sizes;
  std::vector<uint32_t> blocks{0}, one_shot{gravel_reducer_options{}.one_shot_bytes};
  uint32_t calls = GRAVEL_CUDA ? 200 : 10, repeat = 3;
  uint64_t least = 4, most = 4 << 20;
  bool is_short = false;
  std::string nccl = "libnccl.so.2", json;
};

/// `calls` reductions; times[2 * block], [2 * block + 1]: when the block began and ended, the first two calls left out.
__global__ void __launch_bounds__(512)
    reduce_often(const __grid_constant__ gravel_reducer_handle r, float* to, const float* from, uint64_t count,
                 uint32_t calls, int root, uint64_t* times) {
  for (uint32_t i = 0; i < calls + 2; ++i) {
    if (i == 2 && threadIdx.x == 0) times[2 * blockIdx.x] = globaltimer_ns();
    if (root < 0) gravel_allreduce(r, to, from, count);
    else gravel_reduce(r, to, from, count, root);
  }
  if (threadIdx.x == 0) times[2 * blockIdx.x + 1] = globaltimer_ns();
}

/// The same by tasks.
__global__ void __launch_bounds__(512)
    reduce_often_by_tasks(const __grid_constant__ gravel_task_reducer_handle<float> r, uint32_t calls,
                          uint64_t* times) {
  for (uint32_t i = 0; i < calls + 2; ++i) {
    if (i == 2 && threadIdx.x == 0) times[2 * blockIdx.x] = globaltimer_ns();
    gravel_task_allreduce_start(r, 0, r.count);
    gravel_task_allreduce_wait(r);
  }
  if (threadIdx.x == 0) times[2 * blockIdx.x + 1] = globaltimer_ns();
}

/// Accumulates to the next PE, each awaited by its target; all PEs do so at the same time. signal: the number of calls
/// that were made before.
__global__ void __launch_bounds__(512)
    accumulate_often(const __grid_constant__ gravel_t g, float* target, const float* source, uint64_t count,
                     uint32_t calls, uint64_t* signal, uint64_t* times) {
  const word_range mine = word_range::of(count, blockIdx.x, gridDim.x);
  const uint64_t before = load_acquire(signal + 1);
  for (uint64_t i = 0; i < calls + 2; ++i) {
    if (i == 2 && threadIdx.x == 0) times[2 * blockIdx.x] = globaltimer_ns();
    gravel_accumulate(g, target + mine.begin, source + mine.begin, mine.end - mine.begin, signal,
                      static_cast<int>((g.my_pe + 1) % g.n_pes));
    if (threadIdx.x == 0) gravel_flush(g);
    gravel_wait_until(g, signal, GRAVEL_GE, before + (i + 1) * count);
    __syncthreads();
  }
  if (threadIdx.x == 0) times[2 * blockIdx.x + 1] = globaltimer_ns();
}

gravel_reducer_options reducer_of(uint32_t blocks, uint32_t one_shot) {
  return {.blocks = blocks ? blocks : gravel_reducer_options{}.blocks, .one_shot_bytes = one_shot};
}

class bench {
 public:
  bench(const bench_options& o, perf::report& r)
      : o_(o),
        r_(r),
        from_(gravel_malloc<float>(o.most)),
        to_(gravel_malloc<float>(o.most)),
        signal_(gravel_malloc<uint64_t>(2 * sizeof(uint64_t))),
        times_(2 * reducer_memory::most_blocks) {
    std::vector<float> mine(o.most / sizeof(float));
    for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = value(gravel_my_pe(), i);
    if (!mine.empty()) gravel_copy(from_, mine.data(), mine.size() * sizeof(float));
#if GRAVEL_CUDA
    if (std::none_of(o.ways.begin(), o.ways.end(), [](const std::string& way) { return way.starts_with("nccl"); }))
      return;
    nccl_.emplace(o.nccl);
    if (nccl_->is_there()) r.fact("nccl", nccl_->version());
    else if (gravel_my_pe() == 0) std::printf("without NCCL: %s\n", nccl_->why().c_str());
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
#endif
  }
  ~bench() {
#if GRAVEL_CUDA
    if (stream_) cudaStreamDestroy(stream_);
#endif
    gravel_free(signal_);
    gravel_free(to_);
    gravel_free(from_);
  }

  void run() {
    for (const uint32_t blocks : o_.blocks)
      for (const uint32_t one_shot : o_.one_shot) {
        gravel_reducer reducer(reducer_of(blocks, one_shot));
        for (const auto& way : o_.ways)
          for (const uint64_t bytes : o_.sizes) measure(reducer, blocks, one_shot, way, bytes);
      }
  }

 private:
  static float value(int pe, uint64_t i) { return static_cast<float>((pe + 1) * static_cast<int>(i % 97 + 1)); }

  void poison(uint64_t bytes) {
    const std::vector<float> bad(bytes / sizeof(float), -1.0f);
    gravel_copy(to_, bad.data(), bytes);
    gravel_barrier_all();
  }
  uint64_t wrong_of(uint64_t bytes, bool written) {
    std::vector<float> got(bytes / sizeof(float));
    gravel_copy(got.data(), to_, bytes);
    uint64_t wrong = 0;
    const int n = gravel_n_pes();
    for (uint64_t i = 0; i < got.size(); ++i) {
      float sum = 0;
      for (int pe = 0; pe < n; ++pe) sum += value(pe, i);
      wrong += got[i] != (written ? sum : -1.0f);
    }
    return gravel_sum_all(wrong);
  }

  /// They began with -1 each. What is added is exact.
  uint64_t wrong_accumulates(uint64_t bytes) {
    std::vector<float> got(bytes / sizeof(float));
    gravel_copy(got.data(), to_, bytes);
    uint64_t wrong = 0;
    const int before = (gravel_my_pe() + gravel_n_pes() - 1) % gravel_n_pes();
    for (uint64_t i = 0; i < got.size(); ++i)
      wrong += got[i] != -1.0f + static_cast<float>(o_.calls + 2) * value(before, i);
    return gravel_sum_all(wrong);
  }

  /// `way`: kernel, reduce-kernel or accumulate.
  double in_kernel(gravel_reducer& reducer, uint64_t count, const std::string& way) {
    const reducer_memory& m = reducer.handle().memory;
    const uint32_t blocks = way == "accumulate"
                                ? reduction_plan::blocks_for(count * sizeof(float), one_shot_bytes_of_block, m.blocks)
                                : reduction_plan::of(m, count * sizeof(float), m.blocks).blocks;
    if (way == "accumulate") {
      gravel_copy(signal_ + 1, signal_, sizeof(uint64_t));
      gravel_barrier_all();
      gravel_launch(accumulate_often,
                    gravel_launch_config{.grid = blocks, .block = reducer_threads, .cooperative = blocks > 1},
                    gravel_handle(), to_, from_, count, o_.calls, signal_, times_.data());
    } else
      gravel_launch(reduce_often,
                    gravel_launch_config{.grid = blocks, .block = reducer_threads, .cooperative = blocks > 1},
                    reducer.handle(), to_, from_, count, o_.calls, way == "kernel" ? -1 : 0, times_.data());
    gravel_synchronize();
    return time_of_call(blocks);
  }
  double by_tasks(uint64_t count) {
    const uint32_t chains = ring_division::of(count, sizeof(float), static_cast<uint32_t>(gravel_n_pes()),
                                              gravel_task_reducer_options{}.chains)
                                .chains;
    gravel_task_reducer<float> reducer(to_, from_, count, {.chains = chains});
    gravel_launch(reduce_often_by_tasks,
                  gravel_launch_config{.grid = chains, .block = ring_threads, .cooperative = chains > 1},
                  reducer.handle(), o_.calls, times_.data());
    gravel_synchronize();
    return time_of_call(chains);
  }
  /// Microseconds, from the times that so many blocks have written.
  double time_of_call(uint32_t blocks) {
    std::vector<uint64_t> times(2 * blocks);
    gravel_copy(times.data(), times_.data(), times.size() * sizeof(uint64_t));
    uint64_t begin = ~uint64_t{0}, end = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      begin = std::min(begin, times[2 * b]);
      end = std::max(end, times[2 * b + 1]);
    }
    return static_cast<double>(end - begin) / 1e3 / o_.calls;
  }
  template <class Call>
  double by_host(const Call& call, uint32_t calls) {
    call();
    gravel_synchronize();
    gravel_barrier_all();
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < calls; ++i) call();
    gravel_synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
  }

  bool has_nccl() const {
#if GRAVEL_CUDA
    return nccl_->is_there();
#else
    return false;
#endif
  }
#if GRAVEL_CUDA
  /// As by_host, in a stream.
  double by_nccl(uint64_t count, bool in_graph) {
    const auto call = [&] { nccl_->sum(to_, from_, count, stream_); };
    call();
    cudaGraphExec_t ready = nullptr;
    if (in_graph) {
      cudaGraph_t graph = nullptr;
      cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      for (uint32_t i = 0; i < o_.calls; ++i) call();
      cuda_check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
      cuda_check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
      cudaGraphDestroy(graph);
      cuda_check(cudaGraphLaunch(ready, stream_), "cudaGraphLaunch");
    }
    cuda_check(cudaStreamSynchronize(stream_), "NCCL");
    gravel_barrier_all();
    const auto begin = std::chrono::steady_clock::now();
    if (in_graph) cuda_check(cudaGraphLaunch(ready, stream_), "cudaGraphLaunch");
    else
      for (uint32_t i = 0; i < o_.calls; ++i) call();
    cuda_check(cudaStreamSynchronize(stream_), "NCCL");
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / o_.calls;
    if (ready) cudaGraphExecDestroy(ready);
    return us;
  }
#endif

  void measure(gravel_reducer& reducer, uint32_t blocks, uint32_t one_shot, const std::string& way, uint64_t bytes) {
    const uint64_t count = bytes / sizeof(float);
    const bool by_hosts = way == "hosts", to_root = way == "reduce-kernel", accumulates = way == "accumulate",
               by_rival = way.starts_with("nccl");
    if (by_rival && !has_nccl()) return;
    if ((by_hosts || by_rival) && (blocks != o_.blocks.front() || one_shot != o_.one_shot.front())) return;
    std::vector<double> us;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < o_.repeat; ++i) {
      poison(bytes);
      if (way == "kernel" || to_root || accumulates) us.push_back(in_kernel(reducer, count, way));
      else if (way == "tasks") us.push_back(by_tasks(count));
      else if (way == "start")
        us.push_back(
            by_host([&] { gravel_allreduce_start(reducer, to_, from_, count, {.blocks = blocks}); }, o_.calls));
      else if (way == "call")
        us.push_back(by_host([&] { gravel_allreduce(reducer, to_, from_, count, {.blocks = blocks}); }, o_.calls));
#if GRAVEL_CUDA
      else if (by_rival) us.push_back(by_nccl(count, way == "nccl-graph"));
#endif
      else us.push_back(by_host([&] { gravel_sum_all(to_, from_, count); }, std::max(o_.calls / 20, 1u)));
      us.back() = gravel_max_all(us.back());
      gravel_barrier_all();
      wrong += accumulates ? wrong_accumulates(bytes) : wrong_of(bytes, !to_root || gravel_my_pe() == 0);
    }
    std::sort(us.begin(), us.end());
    const double median = us[us.size() / 2];
    r_.row({{"way", "way", way},
            {"bytes", "bytes", bytes},
            {"blocks", "blocks", uint64_t{by_hosts || by_rival ? 0 : blocks}},
            {"one_shot_bytes", "one shot B", uint64_t{by_hosts || by_rival ? 0 : one_shot}},
            {"us", "us", median},
            {"least_us", "least us", us.front()},
            {"gb_per_s", "GB/s", static_cast<double>(bytes) / median / 1e3}},
           {count * o_.repeat * static_cast<uint64_t>(gravel_n_pes()), wrong});
  }

  const bench_options& o_;
  perf::report& r_;
  float *from_, *to_;
  uint64_t* signal_;  ///< of accumulates: elements that have come so far, and before this run
  device_array<uint64_t> times_;
#if GRAVEL_CUDA
  std::optional<nccl_ring> nccl_;
  cudaStream_t stream_ = nullptr;
#endif
};

int main(int argc, char** argv) {
  bench_options o;
  command_line app("Time of a reduction of arrays of float over all PEs.", program_name);
  app.add_option("--ways", o.ways, "Of kernel, reduce-kernel, accumulate, tasks, start, call, hosts, nccl, nccl-graph")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--sizes", o.sizes, "Bytes; without it all powers of two from --least to --most").delimiter(',');
  app.add_option("--least", o.least, "Bytes").range(uint64_t{4}, uint64_t{1} << 34).capture_default_str();
  app.add_option("--most", o.most, "Bytes").range(uint64_t{4}, uint64_t{1} << 34).capture_default_str();
  app.add_option("--blocks", o.blocks, "Most blocks of a grid that reduces; 0: as the library chooses")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--one-shot", o.one_shot, "Bytes that a block reduces in one shot")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--calls", o.calls, "Of a run").range(1u, 1'000'000u).capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_option("--nccl", o.nccl, "The library to compare with, if it is there").capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few sizes, few calls, one run");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    for (const auto& way : o.ways)
      if (std::find(all_ways.begin(), all_ways.end(), way) == all_ways.end())
        fail_text("there is no way '" + way + "'");
    if (o.is_short) {
      o.sizes = {4, 100'000};
      o.calls = 3;
      o.repeat = 1;
    }
    if (o.sizes.empty())
      for (uint64_t bytes = o.least; bytes <= o.most; bytes *= 2) o.sizes.push_back(bytes);
    for (uint64_t& bytes : o.sizes) {
      if (bytes < 4) fail_text("--sizes: 4 bytes or more");
      o.most = std::max(o.most, bytes = bytes / 4 * 4);
    }
    uint64_t staging = 0;
    for (const uint32_t blocks : o.blocks)
      for (const uint32_t one_shot : o.one_shot)
        staging = std::max(staging, gravel_reducer::bytes(reducer_of(blocks, one_shot), 64));
    constexpr uint64_t tasks = 64 << 20;  // of the queue of a gravel_task_reducer
    need_symmetric(3 * o.most + staging + tasks);
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<gravel_accumulation, gravel_task_delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  r.title("allreduce", "one reduction of float, median of the runs, at the slowest PE");
  bench(o, r).run();
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
