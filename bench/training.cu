// A step of data-parallel training over published lists of layers: each layer's backward computation, from last to
// first, and at the same time the sum over all PEs of the finished gradients; by gravel_reducer, by tasks
// (gravel_task_reducer), and by NCCL's allreduce. Figure 10 of "extended task queuing" (SC 2016), recast.
//
// The computation is a stand-in: multiply-adds in registers, as many as the layer's backward computation has, on all of
// the GPU, and a store of the gradient. Gradients are whole numbers that differ from step to step, so that sums are
// exact. Sums of two steps of each way are compared element by element, and those of the last step that was timed.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gravel/allreduce.cuh>
#include <gravel/device_array.hpp>
#include <gravel/launch_alone.cuh>
#include <gravel/task_allreduce.cuh>
#include "bench/nccl.hpp"
#include "bench/perf/report.hpp"
#include "bench/training_layers.hpp"
#include "examples/common/together.hpp"
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "training";
constexpr unsigned compute_threads = GRAVEL_CUDA ? 256 : 4;

struct training_options {
  std::vector<std::string> lists{"digits",   "resnet50",   "transformer", "64x2048",    "64x16384",
                                 "64x65536", "32x1048576", "16x4194304",  "8x16777216", "4x67108864"};
  std::vector<std::string> ways{"kernel",  "kernel+graph", "start", "start+graph",
                                "signals", "tasks",        "nccl",  "nccl+graph"};
  std::vector<uint32_t> blocks{0};
  std::vector<uint64_t> buckets{0, 25};
  double scale = 1;
  uint32_t steps = GRAVEL_CUDA ? 20 : 2, repeat = 3;
  std::string nccl = "libnccl.so.2", json;
  bool is_short = false;
};

/// The gradients: whole numbers, so that sums are exact.
GRAVEL_BOTH float gradient_of(uint64_t layer, uint64_t i, uint64_t step) {
  return static_cast<float>(static_cast<uint32_t>(i + 7 * layer + step) % 97 + 1);
}

__global__ void begin_step(uint64_t* step) { ++*step; }

/// `ready` rises by 1 with each block that has written its part of the gradient; nullptr: nobody waits for it.
__global__ void __launch_bounds__(256) compute_layer(float* gradient, uint64_t elements, uint64_t layer, float factor,
                                                     uint32_t products, const uint64_t* step, uint64_t* ready) {
  float sums[4] = {1, 2, 3, 4};
  const float by = 1.0f + 1e-9f * static_cast<float>(threadIdx.x);
  for (uint32_t i = 0; i < products; i += 4) {
    GRAVEL_UNROLL
    for (int k = 0; k < 4; ++k) sums[k] = sums[k] * by + 1.0f;
  }
  // Never: but the compiler does not know.
  const float never = sums[0] + sums[1] + sums[2] + sums[3] < 0 ? 1.0f : 0.0f;
  const uint64_t now = *step;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += uint64_t{gridDim.x} * blockDim.x)
    gradient[i] = factor * gradient_of(layer, i, now) + never;
  if (!ready) return;
  __syncthreads();  // what the others of the block wrote, this release covers
  if (threadIdx.x == 0) fetch_add_release<scope::device>(ready, uint64_t{1});  // reduce_buckets and [A4] acquire
}

/// The layers that are reduced at once: one, or several.
struct bucket {
  uint64_t begin, elements;
  uint64_t last;      ///< layer whose gradient comes last
  uint64_t computed;  ///< by how much its `ready` rises in a step
};

/// All buckets of a step, each as soon as its gradient is there.
__global__ void __launch_bounds__(512)
    reduce_buckets(const __grid_constant__ gravel_reducer_handle r, float* to, const float* from, const bucket* buckets,
                   uint64_t n, const uint64_t* ready, uint64_t step) {
  bucket next = buckets[0];
  for (uint64_t i = 0; i < n; ++i) {
    const bucket p = next;
    if (i + 1 < n) next = buckets[i + 1];  // on its way meanwhile
    if (threadIdx.x == 0)
      for (relax wait; load_acquire(ready + p.last) < step * p.computed; wait.attentively()) {
      }
    __syncthreads();
    gravel_allreduce(r, to + p.begin, from + p.begin, p.elements);
  }
}

__global__ void poison_sums(float* sums, uint64_t elements) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += uint64_t{gridDim.x} * blockDim.x)
    sums[i] = -1;
}
__global__ void count_wrong(const float* sums, uint64_t elements, uint64_t layer, float factor, uint64_t step,
                            uint64_t* wrong) {
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += uint64_t{gridDim.x} * blockDim.x)
    mine += sums[i] != factor * gradient_of(layer, i, step);
  if (mine) fetch_add<scope::device>(wrong, mine);
}

/// One way to reduce what a step computes.
struct way_to_reduce {
  std::string name;
  uint32_t blocks;        ///< of a reduction by Gravel, at most; 0: as the library chooses
  uint64_t bucket_bytes;  ///< gradients are gathered to so much; 0: each layer by itself
  bool by_graph;          ///< computation (and NCCL) are started as a CUDA graph

  bool by_nccl() const { return name.starts_with("nccl"); }
  bool by_tasks() const { return name == "tasks"; }
};

class training {
 public:
  training(const training_options& o, training_list list, perf::report& r, [[maybe_unused]] void* nccl)
      : o_(o), list_(std::move(list)), r_(r), wrong_(std::vector<uint64_t>{0}), step_(std::vector<uint64_t>{0}) {
    uint64_t at = 0;
    places_.resize(list_.layers.size());
    for (size_t l = list_.layers.size(); l-- > 0;) {
      places_[l] = at;
      at += padded(list_.layers[l].elements);
    }
    room_ = at;
    gradients_ = gravel_malloc<float>(room_ * sizeof(float));
    sums_ = gravel_malloc<float>(room_ * sizeof(float));
    ready_ = gravel_malloc<uint64_t>(list_.layers.size() * sizeof(uint64_t));
    main_ = gravel_stream_create();
#if GRAVEL_CUDA
    nccl_ = static_cast<nccl_ring*>(nccl);
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    cuda_check(cudaStreamCreateWithPriority(&side_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
#else
    side_ = gravel_stream_create();
#endif
  }
  ~training() {
    gravel_stream_destroy(main_);
#if GRAVEL_CUDA
    cudaEventDestroy(event_);
    cudaStreamDestroy(side_);
#else
    gravel_stream_destroy(side_);
#endif
    gravel_free(ready_);
    gravel_free(sums_);
    gravel_free(gradients_);
  }
  static uint64_t symmetric_bytes(const training_list& list, uint32_t blocks) {
    uint64_t elements = 0;
    for (const training_layer& l : list.layers) elements += padded(l.elements);
    constexpr uint64_t tasks = 64 << 20;  // of the queue of a gravel_task_reducer
    return 3 * elements * sizeof(float) + gravel_reducer::bytes(reducer_of(blocks), 64) + tasks;
  }
  static gravel_reducer_options reducer_of(uint32_t blocks) {
    return blocks ? gravel_reducer_options{.blocks = blocks} : gravel_reducer_options{};
  }

  void run() {
    std::vector<way_to_reduce> ways;
    for (const auto& name : o_.ways) {
      const bool by_nccl = name.starts_with("nccl"), by_graph = name.ends_with("+graph");
      if ((by_nccl || by_graph) && !can_nccl(by_nccl)) continue;
      for (const uint32_t blocks : by_nccl ? std::vector<uint32_t>{0} : o_.blocks)
        for (const uint64_t mib : o_.buckets)
          if (mib == 0 || list_.layers.size() > 1) ways.push_back({name, blocks, mib << 20, by_graph});
    }
    struct times {
      std::vector<double> step, alone;
      uint64_t wrong = 0;
    };
    std::vector<times> all(ways.size());
    std::vector<double> computing[2];
    for (uint32_t i = 0; i < o_.repeat; ++i) {
      for (const bool by_graph : {false, true})
        if (!by_graph || GRAVEL_CUDA) computing[by_graph].push_back(time_steps(nullptr, by_graph, true));
      for (size_t w = 0; w < ways.size(); ++w) {
        std::optional<gravel_reducer> reducer;
        if (!ways[w].by_nccl() && !ways[w].by_tasks()) reducer.emplace(reducer_of(ways[w].blocks));
        reducer_ = reducer ? &*reducer : nullptr;
        if (ways[w].by_tasks()) task_reducer_.emplace(sums_, gradients_, room_);
        gather(ways[w].bucket_bytes);
        if (i == 0) all[w].wrong += wrong_of_single_steps(ways[w]);
        all[w].step.push_back(time_steps(&ways[w], ways[w].by_graph, true));
        all[w].wrong += wrong_sums();
        all[w].alone.push_back(time_steps(&ways[w], ways[w].by_graph && !ways[w].name.starts_with("kernel"), false));
        all[w].wrong += wrong_sums();
        gravel_barrier_all();  // no kernel reduces when the reducer is gone
        task_reducer_.reset();
      }
    }
    double rival = 0;
    for (size_t w = 0; w < ways.size(); ++w)
      if (ways[w].by_nccl()) rival = rival == 0 ? median(all[w].step) : std::min(rival, median(all[w].step));
    for (size_t w = 0; w < ways.size(); ++w) {
      const double step = median(all[w].step), compute = median(computing[ways[w].by_graph]);
      r_.row({{"list", "list", list_.name},
              {"way", "way", ways[w].name},
              {"blocks", "blocks", uint64_t{ways[w].blocks}},
              {"bucket_mib", "MiB", ways[w].bucket_bytes >> 20},
              {"layers", "layers", uint64_t{list_.layers.size()}},
              {"bytes", "bytes", list_.elements() * sizeof(float)},
              {"step_us", "step us", step},
              {"least_us", "least us", *std::min_element(all[w].step.begin(), all[w].step.end())},
              {"compute_us", "compute us", compute},
              {"reduce_us", "reduce us", median(all[w].alone)},
              {"exposed_us", "exposed us", step - compute},
              {"to_nccl", "NCCL/this", rival / step}},
             {(o_.repeat * 2 + 2) * list_.elements() * static_cast<uint64_t>(gravel_n_pes()), all[w].wrong});
    }
  }

 private:
  static uint64_t padded(uint64_t elements) { return (elements + 3) / 4 * 4; }
  static double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of.empty() ? 0 : of[of.size() / 2];
  }
  bool can_nccl([[maybe_unused]] bool by_nccl) const {
#if GRAVEL_CUDA
    return !by_nccl || nccl_;
#else
    return false;
#endif
  }

  double operations(size_t l) const { return o_.scale * list_.operations(list_.layers[l]); }
  /// Blocks of a layer's kernel: small enough parts for the GPU to even them out beside other kernels.
  uint32_t blocks_of(size_t l) const {
    const double by_work = operations(l) / (compute_threads * 4096.0),
                 by_store = static_cast<double>(list_.layers[l].elements) / (compute_threads * 32.0);
    return static_cast<uint32_t>(std::clamp(std::max(by_work, by_store), 1.0, 1e6));
  }

  /// The buckets of a step, each of consecutive whole layers.
  void gather(uint64_t bucket_bytes) {
    buckets_.clear();
    for (size_t l = list_.layers.size(); l-- > 0;) {
      const uint64_t end = places_[l] + list_.layers[l].elements;
      if (buckets_.empty() || (end - buckets_.back().begin) * sizeof(float) > bucket_bytes)
        buckets_.push_back({places_[l], 0, 0, 0});
      bucket& last = buckets_.back();
      last.elements = end - last.begin;
      last.last = l;
      last.computed = blocks_of(l);
    }
    on_device_ = device_array<bucket>(buckets_);
  }

  /// Work that is put into `later` from now on begins when the work in `earlier` has ended.
  void follow(gravel_stream_t later, gravel_stream_t earlier) {
#if GRAVEL_CUDA
    cuda_check(cudaEventRecord(event_, earlier), "cudaEventRecord");
    cuda_check(cudaStreamWaitEvent(later, event_, 0), "cudaStreamWaitEvent");
#else
    (void)later;
    gravel_stream_synchronize(earlier);
#endif
  }
  template <class... P, class... A>
  void launch(void (*kernel)(P...), uint32_t grid, uint32_t block, A... arguments) {
#if GRAVEL_CUDA
    kernel<<<grid, block, 0, main_>>>(arguments...);  // may be captured
    cuda_check(cudaGetLastError(), "a kernel's launch");
#else
    gravel_launch(kernel, gravel_launch_config{.grid = grid, .block = block, .stream = main_}, arguments...);
#endif
  }
  void compute(size_t l, bool notifies) {
    const uint32_t blocks = blocks_of(l);
    launch(compute_layer, blocks, compute_threads, gradients_ + places_[l], list_.layers[l].elements,
           static_cast<uint64_t>(l), static_cast<float>(gravel_my_pe() + 1),
           static_cast<uint32_t>(operations(l) / (2.0 * blocks * compute_threads)), step_.data(),
           notifies ? ready_ + l : nullptr);
  }

  static bool notifies(const way_to_reduce* way) {
    return way && (way->name.starts_with("kernel") || way->name == "signals");
  }
  /// `computes`: otherwise the gradients are those of the step before.
  void reduce(const way_to_reduce& way, size_t i, bool computes) {
    const bucket& p = buckets_[i];
    float *const to = sums_ + p.begin, *const from = gradients_ + p.begin;
    if (way.name == "signals")
      return gravel_allreduce_start(*reducer_, to, from, p.elements,
                                    {.stream = side_,
                                     .after = ready_ + p.last,
                                     .value = reported_ * p.computed,
                                     .raised_here = true,
                                     .blocks = way.blocks});
    if (computes) follow(side_, main_);
    if (way.by_tasks()) {
      reduced_ = task_reducer_->start(p.begin, p.elements, side_);
      return;
    }
    if (!way.by_nccl())
      return gravel_allreduce_start(*reducer_, to, from, p.elements, {.stream = side_, .blocks = way.blocks});
#if GRAVEL_CUDA
    nccl_->sum(to, from, p.elements, side_);
#endif
  }
  void compute_and_reduce(const way_to_reduce* way, bool in_kernel, bool computes) {
    if (computes) launch(begin_step, 1, 1, step_.data());
    size_t i = 0;
    for (size_t l = list_.layers.size(); l-- > 0;) {
      if (computes) compute(l, notifies(way));
      if (way && !in_kernel && i < buckets_.size() && buckets_[i].last == l) reduce(*way, i++, computes);
    }
  }
  /// Starts the kernels of a step. `graph`: those of the main stream, or nullptr.
  void start_step(const way_to_reduce* way, void* graph, bool computes) {
    const bool in_kernel = way && way->name.starts_with("kernel");
    if (computes) ++number_;
    if (computes && notifies(way)) ++reported_;
    if (way && !graph) follow(side_, main_);
    if (in_kernel) {
      if (graph) follow(side_, main_);
      const uint32_t blocks = reducer_->handle().memory.blocks;
      launch_alone_if(
          reducer_->directly(), reduce_buckets,
          gravel_launch_config{.grid = blocks, .block = reducer_threads, .stream = side_, .cooperative = blocks > 1},
          reducer_->handle(), sums_, gradients_, on_device_.data(), static_cast<uint64_t>(buckets_.size()), ready_,
          computes ? reported_ : 0);
    }
#if GRAVEL_CUDA
    if (graph) cuda_check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), main_), "cudaGraphLaunch");
#endif
    if (!graph) compute_and_reduce(way, in_kernel, computes);
    if (way && way->by_tasks()) gravel_wait(task_reducer_->done(), reduced_, side_);
    if (way && (!graph || in_kernel)) follow(main_, side_);
  }
  template <class... P, class... A>
  static void launch_alone_if(bool alone, void (*kernel)(P...), const gravel_launch_config& how, A... arguments) {
    if (alone) launch_alone(kernel, how, arguments...);
    else gravel_launch(kernel, how, arguments...);
  }

  /// A step's kernels of the main stream, and NCCL's, as a graph.
  struct step_graph {
    void* ready = nullptr;
    step_graph([[maybe_unused]] training& of, [[maybe_unused]] const way_to_reduce* way,
               [[maybe_unused]] bool computes) {
#if GRAVEL_CUDA
      const bool in_kernel = way && way->name.starts_with("kernel");
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t made = nullptr;
      cuda_check(cudaStreamBeginCapture(of.main_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      if (way && !in_kernel) of.follow(of.side_, of.main_);
      of.compute_and_reduce(way, in_kernel, computes);
      if (way && !in_kernel) of.follow(of.main_, of.side_);
      cuda_check(cudaStreamEndCapture(of.main_, &graph), "cudaStreamEndCapture");
      cuda_check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
      cudaGraphDestroy(graph);
      ready = made;
#endif
    }
    step_graph(const step_graph&) = delete;
    step_graph& operator=(const step_graph&) = delete;
    ~step_graph() {
#if GRAVEL_CUDA
      cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(ready));
#endif
    }
  };

  /// Microseconds of a step at the slowest PE; without `way` nothing is reduced.
  double time_steps(const way_to_reduce* way, bool by_graph, bool computes) {
    std::optional<step_graph> graph;
    if (by_graph) graph.emplace(*this, way, computes);
    void* const ready = graph ? graph->ready : nullptr;
    poison();
    for (int warm = 0; warm < 2; ++warm) start_step(way, ready, computes);
    gravel_stream_synchronize(main_);
    gravel_sum_all(uint64_t{0});
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < o_.steps; ++i) start_step(way, ready, computes);
    gravel_stream_synchronize(main_);
    return gravel_max_all(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                          o_.steps);
  }

  void poison() {
    gravel_stream_synchronize(main_);
    gravel_barrier_all();
    for (size_t l = 0; l < list_.layers.size(); ++l)
      launch(poison_sums, 64, compute_threads, sums_ + places_[l], list_.layers[l].elements);
    gravel_stream_synchronize(main_);
    gravel_barrier_all();
  }
  uint64_t wrong_of_single_steps(const way_to_reduce& way) {
    std::optional<step_graph> graph;
    if (way.by_graph) graph.emplace(*this, &way, true);
    uint64_t wrong = 0;
    for (int i = 0; i < 2; ++i) {
      poison();
      start_step(&way, graph ? graph->ready : nullptr, true);
      wrong += wrong_sums();
    }
    return wrong;
  }
  /// Wrong gradients of the last step, over all PEs.
  uint64_t wrong_sums() {
    const uint64_t zero = 0;
    const int n = gravel_n_pes();
    gravel_stream_synchronize(main_);
    gravel_copy(wrong_.data(), &zero, sizeof(zero));
    for (size_t l = 0; l < list_.layers.size(); ++l)
      launch(count_wrong, 64, compute_threads, sums_ + places_[l], list_.layers[l].elements, static_cast<uint64_t>(l),
             static_cast<float>(n * (n + 1) / 2), number_, wrong_.data());
    gravel_stream_synchronize(main_);
    uint64_t wrong = 0;
    gravel_copy(&wrong, wrong_.data(), sizeof(wrong));
    return gravel_sum_all(wrong);
  }

  const training_options& o_;
  const training_list list_;
  perf::report& r_;
  device_array<uint64_t> wrong_, step_;
  device_array<bucket> on_device_;
  std::vector<uint64_t> places_;  ///< of each layer, elements; the last layer's comes first
  std::vector<bucket> buckets_;
  uint64_t room_ = 0, number_ = 0,
           reported_ = 0;  ///< steps that were computed, and in how many of them `ready_` was raised
  float *gradients_ = nullptr, *sums_ = nullptr;
  uint64_t* ready_ = nullptr;  ///< [layer] blocks that have computed it, in all steps that count in `reported_`
  const gravel_reducer* reducer_ = nullptr;
  std::optional<gravel_task_reducer<float>> task_reducer_;
  uint64_t reduced_ = 0;  ///< what the signal of task_reducer_ is when its calls have ended
  gravel_stream_t main_ = nullptr, side_ = nullptr;
#if GRAVEL_CUDA
  nccl_ring* nccl_ = nullptr;
  cudaEvent_t event_ = nullptr;
#endif
};

int main(int argc, char** argv) {
  training_options o;
  command_line app(
      "Time of a step of data-parallel training: layers are computed, from last to first, while gradients are summed "
      "over all PEs.",
      program_name);
  app.add_option("--lists", o.lists, "Of digits, resnet50, transformer, and LAYERSxBYTES: full layers of one size")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--ways", o.ways,
                 "kernel: one kernel reduces all layers, as soon as each is ready; start: the host starts a reduction "
                 "for each, behind an "
                 "event; signals: the "
                 "same, and the reduction waits for a signal; tasks: as start, by chains of remote tasks; nccl: "
                 "NCCL's, behind an event; kernel+graph, nccl+graph: "
                 "what is computed is "
                 "started as a CUDA graph")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--blocks", o.blocks, "Most blocks of a reduction by Gravel; 0: as the library chooses")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--buckets", o.buckets, "MiB to which gradients are gathered; 0: each layer by itself")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--scale", o.scale, "How much is computed, of what the list says")
      .range(0.0, 1e6)
      .capture_default_str();
  app.add_option("--steps", o.steps, "Of a run").range(1u, 1'000'000u).capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_option("--nccl", o.nccl, "The library to compare with, if it is there").capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few layers, few steps, one run");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    const std::vector<std::string> all = training_options{}.ways;
    for (const auto& way : o.ways)
      if (std::find(all.begin(), all.end(), way) == all.end()) fail_text("there is no way '" + way + "'");
    if (o.is_short) {
      o.lists = {"digits", "5x2048", "3x100000"};
      o.scale = 1e-3;
      o.steps = 2;
      o.repeat = 1;
      o.blocks = {3};
    }
    uint64_t bytes = 0;
    for (const auto& list : o.lists)
      for (const uint32_t blocks : o.blocks)
        bytes = std::max(bytes, training::symmetric_bytes(training_list_of(list), blocks));
    need_symmetric(bytes);
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<gravel_task_delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  void* rival = nullptr;
#if GRAVEL_CUDA
  std::optional<nccl_ring> nccl(std::in_place, o.nccl);
  if (nccl->is_there()) {
    rival = &*nccl;
    r.fact("nccl", nccl->version());
  } else if (gravel_my_pe() == 0) {
    std::printf("without NCCL: %s\n", nccl->why().c_str());
  }
#endif
  r.title("training",
          "one step, median of the runs, at the slowest PE; reduce: without computing; NCCL/this: its best way's step "
          "to this one's");
  for (const auto& list : o.lists) training(o, training_list_of(list), r, rival).run();
  r.finish();
#if GRAVEL_CUDA
  nccl.reset();
#endif
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
