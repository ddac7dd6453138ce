// The cost of resident workers of a task queue for a kernel beside them, and the tasks that they run in a second.
//
// product: the last PE multiplies matrices, by a tiled kernel that fills the GPU, and by cuBLAS where it is found:
// alone; beside the resolver, which stays while a kernel of gravel_launch runs; with a queue that is open while no such
// kernel runs, so that its workers sleep; beside workers that are resident and find nothing; beside workers that are
// busy with tasks that PE 0 sends. rate: PE 0 sends tasks to the last PE (to itself, if it is alone), by one block and
// by many, as fast as it can.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/remote_task.cuh>
#include "bench/cublas.hpp"
#include "bench/perf/report.hpp"
#include "examples/common/together.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "workers";

struct workers_options {
  std::vector<uint32_t> workers{8, 32}, senders{1, 2, 4, 8, 16, 32, 64};
  uint32_t slots = 64, products = GRAVEL_CUDA ? 20 : 2, tasks = GRAVEL_CUDA ? 30000 : 200, repeat = 3;
  uint64_t side = GRAVEL_CUDA ? 2048 : 64, cublas_side = 4096;
  bool is_short = false;
  std::string json;
};

constexpr uint32_t payload_elements = 512;  ///< 4 KiB

struct tick {
  static constexpr const char* name = "tick";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* counter, const char*) const {
    if (t.rank() == 0) fetch_add<scope::device>(counter, uint64_t{1});
  }
};
using add = gravel_accumulate_task<GRAVEL_SUM, double>;
using queue_type = gravel_task_queue<tick, add>;

enum class kind : uint32_t { tick, tick_by_warps, add };
constexpr const char* kind_names[] = {"tick", "tick by warps", "add 4 KiB"};

/// Symmetric.
struct board {
  uint64_t stop, ticks, sent;
};

/// Sends `each` tasks by each block (by each warp, if warps do), or as many as it can until `stop`.
__global__ void send(const __grid_constant__ gravel_task_handle q, board* at, double* sums, const double* ones,
                     kind what, int pe, uint64_t each, gravel_signal done) {
  double* const target = sums + blockIdx.x * payload_elements;
  uint64_t n = 0;
  // All threads go on, or none: they stop together, also where only some of them have seen `stop`.
  for (; n < each && !__syncthreads_or(load_relaxed(&at->stop) != 0); ++n) {
    if (what == kind::tick) gravel_task_put<tick>(q, pe, &at->ticks, {}, done);
    else if (what == kind::tick_by_warps) gravel_task_put_warp<tick>(q, pe, &at->ticks, {}, done);
    else gravel_task_put<add>(q, pe, target, {{ones, payload_elements * sizeof(double)}}, done);
  }
  if (what == kind::tick_by_warps ? threadIdx.x % 32 == 0 : threadIdx.x == 0) fetch_add<scope::device>(&at->sent, n);
}
/// Keeps resolver and workers resident.
__global__ void stay(gravel_t g, board* at) { gravel_wait_until(g, &at->stop, GRAVEL_NE, 0); }

constexpr uint32_t tile = 64, deep = 16, multiply_threads = 256;
GRAVEL_BOTH float a_of(uint64_t i) { return static_cast<float>(i % 3) - 1; }  ///< all of row i
GRAVEL_BOTH float b_of(uint64_t j) { return static_cast<float>(j % 5); }      ///< all of column j
__global__ void fill(float* a, float* b, uint64_t n) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * n; i += uint64_t{gridDim.x} * blockDim.x) {
    a[i] = a_of(i / n);
    b[i] = b_of(i % n);
  }
}
/// c = a * b, row by row; n is a multiple of `tile`. A block makes a tile of c, a thread 4 x 4 of it.
__global__ void __launch_bounds__(256) multiply(const float* a, const float* b, float* c, uint64_t n) {
  __shared__ float part_a[deep][tile], part_b[deep][tile];
  const uint64_t row = blockIdx.x / (n / tile) * tile, column = blockIdx.x % (n / tile) * tile;
  const uint32_t y = threadIdx.x / 16, x = threadIdx.x % 16;
  float sums[4][4] = {};
  for (uint64_t k = 0; k < n; k += deep) {
    for (uint32_t i = threadIdx.x; i < deep * tile; i += blockDim.x) {
      part_a[i % deep][i / deep] = a[(row + i / deep) * n + k + i % deep];
      part_b[i / tile][i % tile] = b[(k + i / tile) * n + column + i % tile];
    }
    __syncthreads();
    for (uint32_t d = 0; d < deep; ++d) {
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < 4; ++j) sums[i][j] += part_a[d][y + 16 * i] * part_b[d][x + 16 * j];
      }
    }
    __syncthreads();
  }
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t j = 0; j < 4; ++j) c[(row + y + 16 * i) * n + column + x + 16 * j] = sums[i][j];
}
__global__ void count_wrong(const float* c, uint64_t n, uint64_t* wrong) {
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * n; i += uint64_t{gridDim.x} * blockDim.x)
    mine += c[i] != static_cast<float>(n) * a_of(i / n) * b_of(i % n);
  if (mine) fetch_add<scope::device>(wrong, mine);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}
template <class T>
T read(const T* from) {
  T value;
  gravel_copy(&value, from, sizeof(T));
  return value;
}

class bench {
 public:
  bench(const workers_options& o, perf::report& r)
      : o_(o),
        r_(r),
        most_senders_(*std::max_element(o.senders.begin(), o.senders.end())),
        at_(gravel_malloc<board>(sizeof(board))),
        sums_(gravel_malloc<double>(uint64_t{most_senders_} * payload_elements * sizeof(double))),
        ones_(std::vector<double>(payload_elements, 1.0)),
        done_(gravel_new_signal()) {}
  ~bench() {
    gravel_free_signal(done_);
    gravel_free(sums_);
    gravel_free(at_);
  }

  void products() {
    r_.title("product", "a product of matrices at the last PE, median of the runs, beside what is there");
    multiply_all("tiled", o_.side);
#if GRAVEL_CUDA
    const cublas library;
    if (gravel_min_all(uint64_t{library.is_there()})) {
      cublas_ = &library;
      multiply_all("cuBLAS", o_.cublas_side);
      cublas_ = nullptr;
    } else if (gravel_my_pe() == 0) {
      std::printf("without cuBLAS\n");
    }
#endif
  }

  void rates() {
    r_.title("task_rate", "tasks of PE 0 that the last PE's workers run in a second, median of the runs");
    for (const uint32_t workers : o_.workers) {
      queue_type queue(options(workers));
      for (const kind what : {kind::tick, kind::tick_by_warps, kind::add})
        for (const uint32_t senders : o_.senders) {
          const uint32_t of_block = what == kind::tick_by_warps ? sender_threads / 32 : 1;
          const uint64_t each = std::max<uint64_t>(o_.tasks / senders / of_block, 1), all = each * senders * of_block;
          std::vector<double> seconds;
          uint64_t wrong = 0;
          for (uint32_t i = 0; i < o_.repeat; ++i) {
            reset();
            const auto begin = std::chrono::steady_clock::now();
            if (gravel_my_pe() == 0) start_sending(queue, senders, what, each);
            if (is_last()) gravel_wait(done_, expected_ += all);
            gravel_synchronize();
            seconds.push_back(gravel_max_all(seconds_since(begin)));
            queue.wait();
            wrong += wrong_of(what, all);
          }
          r_.row({{"kind", "kind", std::string(kind_names[static_cast<int>(what)])},
                  {"workers", "workers", uint64_t{workers}},
                  {"senders", "blocks", uint64_t{senders}},
                  {"tasks", "tasks", all},
                  {"us_for_each", "us each", median(seconds) * 1e6 / static_cast<double>(all)},
                  {"million_tasks_per_s", "M tasks/s", static_cast<double>(all) / median(seconds) / 1e6}},
                 {all * o_.repeat, wrong});
        }
    }
  }

 private:
  static constexpr double warm_seconds = GRAVEL_CUDA ? 0.5 : 0;
  static constexpr uint32_t sender_threads = GRAVEL_CUDA ? 256 : 32;
  static bool is_last() { return gravel_my_pe() == gravel_n_pes() - 1; }
  gravel_task_queue_options options(uint32_t workers) const {
    return {.workers = workers, .slots = o_.slots, .payload_bytes = payload_elements * sizeof(double)};
  }

  void reset() {
    const board zero{};
    const std::vector<double> zeros(uint64_t{most_senders_} * payload_elements);
    gravel_copy(at_, &zero, sizeof(zero));
    gravel_copy(sums_, zeros.data(), zeros.size() * sizeof(double));
    gravel_barrier_all();
  }
  void stop_at_own() {
    const uint64_t one = 1;
    gravel_copy(&at_->stop, &one, sizeof(one));
  }
  void start_sending(queue_type& queue, uint32_t senders, kind what, uint64_t each) {
    gravel_launch(send, senders, sender_threads, queue.handle(), at_, sums_, static_cast<const double*>(ones_.data()),
                  what, gravel_n_pes() - 1, each, done_);
  }
  /// Compares the work of the last PE's workers with the right result. Collective.
  uint64_t wrong_of(kind what, uint64_t tasks) {
    uint64_t wrong = 0;
    if (is_last()) {
      wrong += gravel_read(done_) != expected_;
      double sum = 0;
      std::vector<double> sums(uint64_t{most_senders_} * payload_elements);
      gravel_copy(sums.data(), sums_, sums.size() * sizeof(double));
      for (const double s : sums) sum += s;
      if (what == kind::add) wrong += sum != static_cast<double>(tasks) * payload_elements;
      else wrong += read(&at_->ticks) != tasks;
    }
    return gravel_sum_all(wrong);
  }

  void multiply_all(const std::string& by, uint64_t n) {
    device_array<float> a(is_last() ? n * n : 0), b(is_last() ? n * n : 0), c(is_last() ? n * n : 0);
    stream_ = gravel_stream_create();
    if (is_last()) {
      gravel_launch(fill, gravel_launch_config{.grid = 64, .block = multiply_threads, .stream = stream_}, a.data(),
                    b.data(), n);
      gravel_stream_synchronize(stream_);
    }
    const auto timed = [&] { return time_products(a.data(), b.data(), c.data(), n); };
    double alone = 0;
    const auto report = [&](const std::string& beside, uint64_t workers, const std::vector<double>& seconds,
                            uint64_t tasks_a_second, uint64_t wrong) {
      const double now = gravel_max_all(is_last() ? median(seconds) : 0);
      if (alone == 0) alone = now;
      r_.row({{"by", "by", by},
              {"side", "side", n},
              {"beside", "beside", beside},
              {"workers", "workers", workers},
              {"ms", "ms", now * 1e3},
              {"tflop_per_s", "Tflop/s", 2e-12 * static_cast<double>(n * n * n) / now},
              {"ratio", "to alone", now / alone},
              {"tasks_per_s", "tasks/s", tasks_a_second}},
             {n * n, gravel_sum_all(wrong + wrong_product(c.data(), n))});
    };
    const auto repeated = [&](const std::function<double()>& run) {
      std::vector<double> seconds;
      for (uint32_t i = 0; i < o_.repeat; ++i) seconds.push_back(run());
      return seconds;
    };
    const auto beside_stay = [&] {
      reset();
      if (is_last()) gravel_launch(stay, 1, 1, gravel_handle(), at_);
      const double seconds = timed();
      stop_at_own();
      gravel_synchronize();
      gravel_barrier_all();
      return seconds;
    };
    for (const auto begin = std::chrono::steady_clock::now(); seconds_since(begin) < warm_seconds;)
      timed();  // clocks rise
    gravel_barrier_all();
    report("nothing", 0, repeated(timed), 0, 0);
    report("the resolver", 0, repeated(beside_stay), 0, 0);
    for (const uint32_t workers : o_.workers) {
      queue_type queue(options(workers));
      report("workers asleep", workers, repeated(timed), 0, 0);
      report("workers idle", workers, repeated(beside_stay), 0, 0);
      for (const kind what : {kind::tick, kind::add}) {
        uint64_t sent = 0, wrong = 0;
        double all_seconds = 0;
        const auto seconds = repeated([&] {
          reset();
          if (is_last() && gravel_n_pes() > 1) gravel_launch(stay, 1, 1, gravel_handle(), at_);
          const auto begin = std::chrono::steady_clock::now();
          if (gravel_my_pe() == 0) start_sending(queue, busy_senders(), what, ~uint64_t{0});
          gravel_sum_all(uint64_t{0});
          const double now = timed();
          gravel_sum_all(uint64_t{0});
          stop_at_own();
          gravel_synchronize();
          queue.wait();
          all_seconds += seconds_since(begin);
          const uint64_t tasks = gravel_sum_all(read(&at_->sent));
          sent += tasks;
          expected_ += tasks;
          wrong += wrong_of(what, tasks);
          return now;
        });
        report(std::string("workers that ") + kind_names[static_cast<int>(what)], workers, seconds,
               static_cast<uint64_t>(static_cast<double>(sent) / all_seconds), wrong);
      }
      report("workers asleep again", workers, repeated(timed), 0, 0);
    }
    report("nothing again", 0, repeated(timed), 0, 0);
    gravel_stream_destroy(stream_);
  }
  uint32_t busy_senders() const { return std::min(most_senders_, 8u); }
  /// Seconds of a product, at the last PE.
  double time_products(const float* a, const float* b, float* c, uint64_t n) {
    if (!is_last()) return 0;
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < o_.products; ++i) start_product(a, b, c, n);
    gravel_stream_synchronize(stream_);
    return seconds_since(begin) / o_.products;
  }
  void start_product(const float* a, const float* b, float* c, uint64_t n) {
    const auto blocks = static_cast<uint32_t>(n / tile * (n / tile));
#if GRAVEL_CUDA
    // Not by gravel_launch: nothing is to stay resident for it.
    if (!cublas_) multiply<<<blocks, multiply_threads, 0, stream_>>>(a, b, c, n);
    else if (!cublas_->use(stream_) || !cublas_->multiply(a, b, c, static_cast<int>(n))) fail_text("cuBLAS refused");
    cuda_check(cudaGetLastError(), "a product's launch");
#else
    gravel_launch(multiply, gravel_launch_config{.grid = blocks, .block = multiply_threads, .stream = stream_}, a, b, c,
                  n);
#endif
  }
  uint64_t wrong_product(float* c, uint64_t n) {
    if (!is_last()) return 0;
    device_array<uint64_t> wrong(std::vector<uint64_t>{0});
    gravel_launch(count_wrong, gravel_launch_config{.grid = 64, .block = multiply_threads, .stream = stream_},
                  static_cast<const float*>(c), n, wrong.data());
    gravel_stream_synchronize(stream_);
    const std::vector<float> bad(n * n, -1.0f);  // so that the next one's result is seen to be its own
    gravel_copy(c, bad.data(), bad.size() * sizeof(float));
    return read(wrong.data());
  }

  const workers_options& o_;
  perf::report& r_;
  const uint32_t most_senders_;
  board* at_;
  double* sums_;
  device_array<double> ones_;
  gravel_signal done_;
  uint64_t expected_ = 0;  ///< of the signal, at the last PE
  gravel_stream_t stream_ = nullptr;
#if GRAVEL_CUDA
  const cublas* cublas_ = nullptr;
#endif
};

int main(int argc, char** argv) {
  workers_options o;
  command_line app(
      "What resident workers cost a product of matrices beside them, and how many tasks they run in a second.",
      program_name);
  std::vector<std::string> parts{"product", "rate"};
  app.add_option("--parts", parts, "Of product, rate").delimiter(',').capture_default_str();
  app.add_option("--workers", o.workers, "Resident blocks of each PE").delimiter(',').capture_default_str();
  app.add_option("--senders", o.senders, "Blocks that send").delimiter(',').capture_default_str();
  app.add_option("--slots", o.slots, "Tasks of one PE that may be at another at once").capture_default_str();
  app.add_option("--side", o.side, "Rows and columns of the tiled kernel's matrices: a multiple of 64")
      .range(uint64_t{64}, uint64_t{1} << 15)
      .capture_default_str();
  app.add_option("--cublas-side", o.cublas_side, "The same of cuBLAS's")
      .range(uint64_t{64}, uint64_t{1} << 15)
      .capture_default_str();
  app.add_option("--products", o.products, "Of a run").range(1u, 1'000'000u).capture_default_str();
  app.add_option("--tasks", o.tasks, "Of a run").range(1u, 1'000'000'000u).capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few products, few tasks, one run");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    for (const auto& part : parts)
      if (part != "product" && part != "rate") fail_text("there is no part '" + part + "'");
    if (o.is_short) {
      o.workers = {2};
      o.senders = {1, 3};
      o.side = 64;
      o.products = 1;
      o.tasks = 40;
      o.repeat = 1;
    }
    for (const uint32_t senders : o.senders)
      if (senders < 1 || senders > 1024) fail_text("--senders: 1 to 1024 blocks");
    if (o.side % tile || o.cublas_side % tile) fail_text("--side: a multiple of " + std::to_string(tile));
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<gravel_task_delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  {
    bench b(o, r);
    for (const auto& part : parts) part == "product" ? b.products() : b.rates();
  }
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
