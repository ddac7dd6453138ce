// Task graphs: fine-grain tasks that spawn tasks and wait for their results, gathered into batches on the GPU
// (Channels, ISCA 2014, "channel-flow graphs"; Cilk's spawn and sync). A graph belongs to one PE: its tasks run on that
// PE's device and send no messages. docs/channels.md says how to split a function into tasks.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/launch_alone.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/base/error.hpp"
#include "lib/taskgraph/task_kernels.cuh"

/// The party that decides which batch runs next.
enum class gravel_dispatch {
  workers,     ///< workers: warps of a kernel that stays until the end, which take batches themselves
  schedulers,  ///< some warps of that kernel poll the channels and hand batches to the others
  host,        ///< the host, which launches a kernel for each round of batches
};

/// Sizes of a task graph, and how its tasks are dispatched.
struct gravel_task_options {
  uint32_t max_depth = 63;   ///< greatest depth of a task; tasks that the host pushes have depth 0
  uint32_t capacity = 4065;  ///< elements of the channel of each type and depth; 2^k - 31 wastes nothing
  uint32_t frames = 0;       ///< continuations of each type and depth that can wait; 0: see gravel_task_graph::frames()
  uint32_t width = 32;       ///< channels with this many elements are polled first
  uint32_t results = 1;      ///< number of words for results that the host reads
  uint32_t local_levels = ~0u;  ///< tasks of lower levels run in shared memory, as far as there is room; 0: none
  uint32_t blocks = 0,
           warps = 0;  ///< blocks, and warps of a block; 0: as many as the device runs at once, in few blocks
  gravel_dispatch dispatch = gravel_dispatch::workers;
  uint32_t schedulers = 4;  ///< number of scheduler warps, for gravel_dispatch::schedulers
  bool cycles = false;      ///< children of tasks at max_depth are at max_depth, too; no task runs in shared memory
};

/// Counts of a run. A batch is the tasks that a warp runs at once.
struct gravel_task_counts {
  uint64_t tasks, batches;              ///< all of them, with continuations
  uint64_t local_tasks, local_batches;  ///< those that ran out of shared memory
  uint64_t continuations;
  uint64_t refusals;    ///< batches that did not start because a channel had no room
  uint64_t handed_out;  ///< batches that a scheduler has handed to a worker
};

/// The constants of a graph that has none.
struct gravel_no_constants {};

/// A task graph of the task types T (lib/taskgraph/graph_types.hpp): its channels, frames and kernels. `Constants`:
/// what all tasks read, by here.constants(). The constructor allocates all memory. A graph exists between gravel_init
/// and gravel_finalize.
/// @scope the program's host thread of one PE; not collective
/// @completion on return
/// @errors gravel::error
/// @source Channels (ISCA 2014), section 5; Cilk's spawn and sync
template <class Constants, class... T>
class gravel_task_graph {
  using view = gravel::detail::task_view<Constants, T...>;
  using types = gravel_types<T...>;
  template <class U>
  using facts = gravel::detail::task_facts<U>;

 public:
  /// Makes the graph.
  /// @param constants what all tasks read, by here.constants()
  /// @param options sizes, and how tasks are dispatched
  /// @errors gravel::error for sizes with which a run might not end, and for what does not fit into memory
  explicit gravel_task_graph(const Constants& constants, const gravel_task_options& options = {})
      : gravel_task_graph(constants, options, 0) {}
  /// @internal
  gravel_task_graph(const gravel_task_graph&) = delete;
  gravel_task_graph& operator=(const gravel_task_graph&) = delete;
  ~gravel_task_graph() {
    if (running_) let_go();  // start() without wait(): the run ends, and its faults are not reported
    gravel_stream_synchronize(run_stream_);
    gravel_stream_destroy(push_stream_);
    gravel_stream_destroy(run_stream_);
    gravel::detail::release_device_memory(memory_);
  }

  /// Number of continuations of each type and depth that can wait. Default: two for each task that workers run at once,
  /// and at least 4065, as far as the limit of all depths together and a sixteenth of the free memory allow.
  uint32_t frames() const { return options_.frames; }
  /// Bytes of device memory.
  uint64_t bytes() const { return bytes_; }
  /// Warps that run tasks.
  uint32_t workers() const { return blocks_ * options_.warps; }
  /// Levels that run in shared memory.
  uint32_t local_levels() const { return view_.local_levels; }

  /// Word i of the results that the host reads: a task may deliver its result there.
  /// @param i below gravel_task_options::results
  template <class V>
  gravel_return<V> result(uint32_t i = 0) const {
    if (i >= options_.results)
      gravel::detail::fail_text("task graph: result " + std::to_string(i) + " of " + std::to_string(options_.results));
    return gravel_return<V>::to(false, gravel_return<V>::of_host, 0, i);
  }
  /// The value of a result word, after a run. Result words are 0 initially, and stay from run to run.
  /// @param of from result()
  template <class V>
  V value(gravel_return<V> of) const {
    V v;
    gravel_copy(&v, &view_.results[of.row()], sizeof(v));
    return v;
  }
  /// Sets a result word, before a run.
  /// @param of from result()
  /// @param v its value
  template <class V>
  void set_value(gravel_return<V> of, std::type_identity_t<V> v) {
    gravel_copy(&view_.results[of.row()], &v, sizeof(v));
  }

  /// Pushes tasks of depth 0, before a run or during one.
  /// @param tasks copied
  /// @errors before a run: gravel::error if the channel has no room for all of them; then none is pushed. During a run:
  ///   it returns early if a task has a fault, which wait() then reports
  template <class U>
  void push(const std::vector<U>& tasks) {
    static_assert(types::template has<U> && !facts<U>::is_continuation, "not a task of this graph");
    if (!running_) return push_before_run(tasks);
    constexpr uint64_t most = staging_bytes / sizeof(U);
    for (uint64_t done = 0; done < tasks.size();) {
      const auto n = static_cast<uint32_t>(std::min<uint64_t>(most, tasks.size() - done));
      push_some(&tasks[done], n, false, push_stream_);
      gravel_stream_synchronize(push_stream_);
      uint32_t pushed = 0;
      gravel_copy(&pushed, staging_, sizeof(pushed));
      done += pushed;
      if (pushed < n && has_fault()) return;  // no worker makes room any more; wait() says why
      if (pushed < n) std::this_thread::yield();
    }
  }
  /// Pushes one task of depth 0.
  /// @param task copied
  template <class U>
  void push(const U& task) {
    push(std::vector<U>{task});
  }

  /// Runs until no task is left.
  /// @errors gravel::error if a task has a fault; then all tasks are dropped, and results are what they were
  void run() {
    begin(0);
    finish();
  }
  /// Starts a run: the first half of run(). The host may push until it calls wait(). Only for gravel_dispatch::workers.
  void start() {
    if (options_.dispatch != gravel_dispatch::workers)
      gravel::detail::fail_text(
          "task graph: start() is for workers that serve themselves; with another dispatcher there is run()");
    begin(1);
  }
  /// Waits for the end of a run.
  void wait() {
    if (!running_) gravel::detail::fail_text("task graph: wait() without start()");
    let_go();
    finish();
  }
  /// Counts of the last run.
  const gravel_task_counts& counts() const { return counts_; }

 protected:
  /// `exported`: number of additional frames, for tasks that wait for other PEs.
  gravel_task_graph(const Constants& constants, const gravel_task_options& options, uint32_t exported)
      : options_(options) {
    check();
    view_.constants = constants;
    view_.depths = options_.max_depth + 1;
    view_.cycles = options_.cycles;
    view_.width = std::max(options_.width, 1u);
    view_.capacity = options_.capacity;
    view_.schedulers = options_.dispatch == gravel_dispatch::schedulers ? std::max(options_.schedulers, 1u) : 0;
    view_.local_levels = levels_in_shared_memory();
    auto& device = gravel::detail::current_backend();
    if (options_.warps == 0) options_.warps = warps_that_fit();
    blocks_ = options_.blocks ? options_.blocks : blocks_that_fit();
    if (options_.frames == 0) options_.frames = usual_frames(exported);
    options_.frames += exported;
    view_.frame_capacity = options_.frames;
    view_.frame_shift = 0;
    while (1u << view_.frame_shift <
           gravel::detail::slots<>::chunks_for(options_.frames) * gravel::detail::chunk_tickets)
      ++view_.frame_shift;
    view_.task_chunks = gravel::detail::slots<>::chunks_for(view_.capacity);
    view_.ready_chunks = gravel::detail::slots<>::chunks_for(2 * view_.frame_capacity);
    if (uint64_t{view_.depths} << view_.frame_shift > uint64_t{1} << gravel_return<void>::row_bits)
      gravel::detail::fail_text("task graph: " + std::to_string(view_.depths) + " depths of " +
                                std::to_string(options_.frames) +
                                " frames; together there may be 2^25, each depth rounded up to a power of two");
    bytes_ = line(mailbox_bytes()) + line(idle_bytes()) + sizeof(gravel::detail::graph_words) +
             line(options_.results * 8) + staging_bytes + 128;
    ((bytes_ += line(stride<T>()) * view_.depths), ...);
    ((bytes_ += facts<T>::is_continuation ? frame_bytes<T>() * view_.depths : 0), ...);
    memory_ = static_cast<char*>(device.allocate(bytes_, "the channels of a task graph"));
    open();
    last_ = {device, 1, "the counts of a task graph"};
    run_stream_ = gravel_stream_create();
    push_stream_ = gravel_stream_create();
  }

  /// Only the host fills the channel now, so it knows how many tasks find room. The host does not wait for the kernel:
  /// the run comes after it in the same stream.
  template <class U>
  void push_before_run(const std::vector<U>& tasks) {
    uint64_t& pushed = pushed_[types::template index<U>];
    if (pushed + tasks.size() > options_.capacity)
      gravel::detail::fail_text("task graph: " + std::to_string(pushed + tasks.size()) + " tasks '" + U::name +
                                "' before a run; its channel has room for " + std::to_string(options_.capacity));
    pushed += tasks.size();
    if (tasks.size() == 1) return push_some(&tasks[0], 1, true, run_stream_);
    constexpr uint64_t most = staging_bytes / sizeof(U);
    for (uint64_t done = 0; done < tasks.size(); done += most) {
      if (staged_) gravel_stream_synchronize(run_stream_);  // until the kernel has read the last tasks
      staged_ = true;
      push_some(&tasks[done], static_cast<uint32_t>(std::min<uint64_t>(most, tasks.size() - done)), true, run_stream_);
    }
  }
  /// A single task goes with the kernel's arguments.
  template <class U>
  void push_some(const U* tasks, uint32_t n, bool before_run, gravel_stream_t stream) {
    auto* const staged = reinterpret_cast<U*>(staging_ + 128);
    if (n != 1) gravel_copy(staged, tasks, n * sizeof(U));
    const uint32_t step = std::min(options_.capacity, GRAVEL_CUDA ? 256u : 64u);
    launch(gravel::detail::push_tasks<view, U>, 1, (step + 31) / 32 * 32, 0, stream, view_, *tasks,
           static_cast<const U*>(staged), n, step, before_run, reinterpret_cast<uint32_t*>(staging_));
  }

  static constexpr uint64_t staging_bytes = 64 << 10;
  static constexpr uint32_t local_bytes = 20 << 10;  ///< default shared memory of a worker
  static uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  unsigned threads() const { return options_.warps * 32; }
  size_t shared_bytes() const { return options_.warps * gravel::detail::worker_bytes<view>(view_.local_levels); }
  uint32_t levels_in_shared_memory() const {
    if (!view::store::possible || options_.cycles) return 0;
    if (options_.local_levels != ~0u) return std::min(options_.local_levels, view::store::most_levels);
    uint32_t levels = 0;
    while (levels < view::store::most_levels && view::store::bytes(levels + 1) <= local_bytes) ++levels;
    return levels;
  }
  /// Only workers that get their batches from schedulers have a mailbox.
  uint32_t mailboxes() const { return view_.schedulers ? workers() : 0; }
  uint64_t mailbox_bytes() const { return mailboxes() * sizeof(gravel::detail::worker_mailbox); }
  /// Each worker is in the channel of idle ones at most once, and as many may be taken and not freed yet.
  uint32_t idle_capacity() const { return 2 * mailboxes() + 1; }
  uint64_t idle_bytes() const { return gravel::detail::channel<uint32_t>::bytes(idle_capacity()); }
  template <class U>
  uint64_t stride() const {
    return gravel::detail::channel<typename view::template element<U>>::bytes(view_.template capacity_of<U>());
  }
  template <class U>
  uint64_t frame_bytes(uint32_t frames) const {
    if constexpr (facts<U>::is_continuation) return gravel::detail::frames<U>::bytes(frames);
    else return 0;
  }
  template <class U>
  uint64_t frame_bytes() const {
    return frame_bytes<U>(options_.frames);
  }

  /// Checks the options. A batch of each type must find room for its children in empty channels.
  void check() const {
    constexpr uint32_t most = 1u << 30;
    if (options_.max_depth >= 1u << 16 || options_.capacity == 0 || options_.capacity > most ||
        options_.frames > most / 2 || options_.results == 0 || options_.results > 1u << 20 || options_.warps > 32)
      gravel::detail::fail_text(
          "task graph: an option is out of its range (max_depth below 2^16, capacity 1 to 2^30, frames to 2^29, "
          "results 1 to 2^20, warps to 32)");
    (check_parent<T>(static_cast<typename facts<T>::children*>(nullptr),
                     static_cast<typename facts<T>::continuations*>(nullptr)),
     ...);
  }
  template <class P, class... U, class... C>
  void check_parent(gravel_types<U...>*, gravel_types<C...>*) const {
    static_assert(((types::template has<U> && !facts<U>::is_continuation) && ... && true),
                  "children are tasks of the same graph");
    static_assert(((types::template has<C> && facts<C>::is_continuation) && ... && true),
                  "continuations are of the same graph, and have inputs");
    static_assert(gravel_types<U...>::distinct && gravel_types<C...>::distinct,
                  "children and continuations name each type once");
    const uint64_t batch = facts<P>::batch, children = batch * facts<P>::spawns;
    const std::string spawner = std::string("; '") + P::name + "' spawns up to " + std::to_string(facts<P>::spawns) +
                                ", and a batch of " + std::to_string(batch) + " needs room for " +
                                std::to_string(children);
    (check_channel(U::name, children, spawner), ...);
    (check_frames(C::name, P::name, batch), ...);
  }
  /// A channel must have room for the children of a batch.
  void check_channel(const std::string& child, uint64_t children, const std::string& spawner) const {
    if (options_.capacity < children)
      gravel::detail::fail_text("task graph: the channels of '" + child + "' have room for " +
                                std::to_string(options_.capacity) + " elements" + spawner);
  }
  /// There must be a frame for each task of a batch.
  void check_frames(const std::string& continuation, const std::string& parent, uint64_t batch) const {
    if (options_.frames != 0 && options_.frames < batch)
      gravel::detail::fail_text("task graph: there are " + std::to_string(options_.frames) + " frames of '" +
                                continuation + "' for each depth; a batch of '" + parent + "' needs " +
                                std::to_string(batch));
  }

  uint32_t usual_frames(uint32_t exported) const {
    uint32_t batch = 0;
    ((batch = facts<T>::continuations::count ? std::max(batch, facts<T>::batch) : batch), ...);
    uint64_t free = ~uint64_t{0};
#if GRAVEL_CUDA
    if (size_t now = 0, all = 0; cudaMemGetInfo(&now, &all) == cudaSuccess) free = now;
#endif
    const auto fits = [&](uint32_t n) {
      uint64_t each = 0;
      ((each += facts<T>::is_continuation
                    ? frame_bytes<T>(n + exported) + gravel::detail::channel<uint32_t>::bytes(2 * (n + exported))
                    : 0),
       ...);
      const uint64_t rows = uint64_t{gravel::detail::slots<>::chunks_for(n + exported)} * gravel::detail::chunk_tickets;
      return rows * view_.depths <= uint64_t{1} << gravel_return<void>::row_bits && each * view_.depths <= free / 16;
    };
    return gravel::detail::usual_frames(uint64_t{2} * workers() * batch, fits);
  }

  /// Lays out the memory, which is zero.
  void open() {
    char* at = memory_;
    const auto take = [&at](uint64_t bytes) {
      char* const here = at;
      at += line(bytes);
      return here;
    };
    view_.words = reinterpret_cast<gravel::detail::graph_words*>(take(sizeof(gravel::detail::graph_words)));
    view_.results = reinterpret_cast<uint64_t*>(take(options_.results * 8));
    staging_ = take(staging_bytes + 128);
    view_.mailboxes = reinterpret_cast<gravel::detail::worker_mailbox*>(take(mailbox_bytes()));
    view_.idle = gravel::detail::channel<uint32_t>::in(take(idle_bytes()), idle_capacity());
    view_.depth_stride = 0;
    const auto add_channel = [this](uint32_t type, uint64_t bytes) {
      view_.channel_offset[type] = view_.depth_stride;
      view_.depth_stride += bytes;
    };
    (add_channel(types::template index<T>, line(stride<T>())), ...);
    view_.channel_memory = take(view_.depth_stride * view_.depths);
    const auto add_frames = [&](uint32_t type, uint64_t bytes) {
      view_.frame_stride[type] = bytes;
      view_.frame_memory[type] = take(bytes * view_.depths);
    };
    (add_frames(types::template index<T>, frame_bytes<T>()), ...);
    launch(gravel::detail::open_channels<view>, 1, 128, 0, nullptr, view_);
    gravel_stream_synchronize(nullptr);
  }

  void begin(uint64_t held) {
    prepare(held);
    if (options_.dispatch != gravel_dispatch::host) run_workers(~0u);
  }
  /// Prepares a run, without starting workers. `held` not 0: workers stay when no task is left, until let_go().
  void prepare(uint64_t held) {
    if (running_) gravel::detail::fail_text("task graph: it runs already");
    if (mailboxes()) {  // workers of the last run are still in the channel of idle ones
      const uint32_t room = idle_capacity();
      gravel::detail::current_backend().zero(&view_.idle.state(), idle_bytes());
      gravel_copy(&view_.idle.state().room, &room, sizeof(room));
    }
    spare_ = GRAVEL_CUDA && held && options_.blocks == 0 && blocks_ > 1;
    // If tasks were pushed before the run, that kernel has begun the run already.
    if (held || pushed_ == decltype(pushed_){})
      launch(gravel::detail::begin_run<view>, 1, 32, 0, run_stream_, view_, held);
    if (held) gravel_stream_synchronize(run_stream_);  // before let_go() or push() writes the same words
    pushed_ = {};
    staged_ = false;
    running_ = true;
  }
  void run_workers(uint32_t batches) {
    if (view_.schedulers)
      launch(gravel::detail::run_scheduled_tasks<view>, blocks_, threads(), shared_bytes(), run_stream_, view_);
    else
      launch(gravel::detail::run_tasks<view>, blocks_ - spare_, threads(), shared_bytes(), run_stream_, view_, batches);
  }
  /// The host pushes no more tasks: workers end when no task is left.
  void let_go() { gravel::detail::current_backend().store_word(&view_.words->held, 0); }
  bool has_fault() const {
    uint64_t fault = 0;
    gravel_copy(&fault, &view_.words->fault, sizeof(fault));
    return fault != 0;
  }
  void finish() {
    gravel::detail::graph_words words{};
    if (options_.dispatch == gravel_dispatch::host) {
      do {
        run_workers(1);
        gravel_stream_synchronize(run_stream_);
        gravel_copy(&words, view_.words, sizeof(words));
      } while ((words.live & gravel::detail::graph_words::live_mask) != 0 && words.fault == 0);
    }
    gravel::detail::current_backend().copy_in_stream(run_stream_, last_.data(), view_.words, sizeof(words));
    gravel_stream_synchronize(run_stream_);
    words = *last_.data();
    running_ = false;
    const gravel::detail::work_counts<uint64_t>& c = words.counts;
    counts_ = {c.tasks + c.local_tasks,
               c.batches + c.local_batches,
               c.local_tasks,
               c.local_batches,
               c.continuations,
               c.refusals,
               c.handed_out};
    std::string wrong = text_of(words.fault);
    if (wrong.empty() && c.begun != c.continuations)
      wrong = std::to_string(c.begun - c.continuations) + " of " + std::to_string(c.begun) +
              " continuations never ran: they expect more results than tasks have delivered";
    if (wrong.empty()) return;
    drop();
    gravel::detail::fail_text("task graph: " + wrong);
  }
  /// Drops all tasks and frames; only the results stay.
  void drop() {
    std::vector<uint64_t> results(options_.results);
    gravel_copy(results.data(), view_.results, results.size() * 8);
    gravel::detail::current_backend().zero(memory_, bytes_);
    open();
    gravel_copy(view_.results, results.data(), results.size() * 8);
  }

  std::string text_of(uint64_t fault) const {
    const auto type = static_cast<uint32_t>(fault >> 8 & 0xff);
    const std::string number = std::to_string(fault >> 32);
    std::string name;
    uint32_t spawns = 0;
    const auto describe = [&](uint32_t of_type, const char* its_name, uint32_t its_spawns) {
      if (type != of_type) return;
      name = its_name;
      spawns = its_spawns;
    };
    (describe(types::template index<T>, T::name, facts<T>::spawns), ...);
    const std::string task = "task '" + name + "' ";
    switch (static_cast<gravel::detail::task_fault>(fault & 0xff)) {
      case gravel::detail::task_fault::none: return {};
      case gravel::detail::task_fault::too_many_spawns:
        return task + "spawned " + number + " tasks; it declares at most " + std::to_string(spawns);
      case gravel::detail::task_fault::too_deep:
        return task + "spawns or waits at the last depth, or at level 0; max_depth is " +
               std::to_string(options_.max_depth);
      case gravel::detail::task_fault::level_does_not_fall:
        return task + "spawned a task of level " + number + ", which is not below its own";
      case gravel::detail::task_fault::continuation_twice: return task + "waits twice with one type of continuation";
      case gravel::detail::task_fault::stalled:
        return number + " tasks wait, '" + name + "' among them, and none may start: " +
               (options_.cycles ? "the channels of a cycle, of capacity " + std::to_string(options_.capacity) +
                                      ", or its frames are full, or a predicate is false"
                                : "a predicate (may_start) is false, and nothing runs that could change it");
      case gravel::detail::task_fault::elsewhere: return "another PE reports what is wrong";
    }
    return "fault " + std::to_string(fault);
  }

  template <class... P, class... A>
  static void launch(void (*kernel)(P...), unsigned grid, unsigned block, size_t shared, gravel_stream_t stream,
                     A... arguments) {
    gravel::detail::launch_alone(kernel, {.grid = grid, .block = block, .shared_bytes = shared, .stream = stream},
                                 arguments...);
  }
  /// Number of blocks that the device runs at once.
  unsigned blocks_that_fit() const {
#if GRAVEL_CUDA
    int device = 0, processors = 0;
    const unsigned each = blocks_of_multiprocessor();
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || each == 0)
      gravel::detail::fail_text("task graph: no block of " + std::to_string(threads()) + " threads with " +
                                std::to_string(shared_bytes()) + " bytes of shared memory runs on this GPU");
    return static_cast<unsigned>(processors) * each;
#else
    return std::max(1u, std::thread::hardware_concurrency());
#endif
  }
  /// Number of warps of a block with which most warps fit on a multiprocessor. Of several such numbers it is the
  /// largest: one warp of each block polls the channels.
  unsigned warps_that_fit() {
#if GRAVEL_CUDA
    unsigned best = 4, most = 0;
    for (unsigned warps = 4; warps <= 32; ++warps) {
      options_.warps = warps;
      if (const unsigned all = warps * blocks_of_multiprocessor(); all != 0 && all >= most) {
        most = all;
        best = warps;
      }
    }
    return best;
#else
    return 4;
#endif
  }
#if GRAVEL_CUDA
  /// Number of blocks that fit on a multiprocessor; 0: not even one.
  unsigned blocks_of_multiprocessor() const {
    const auto kernel = view_.schedulers ? reinterpret_cast<const void*>(&gravel::detail::run_scheduled_tasks<view>)
                                         : reinterpret_cast<const void*>(&gravel::detail::run_tasks<view>);
    int each = 0;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes())) ==
            cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, static_cast<int>(threads()), shared_bytes()) ==
            cudaSuccess)
      return static_cast<unsigned>(each);
    cudaGetLastError();  // the caller reports it, if it needs a block
    return 0;
  }
#endif

  gravel::detail::open_object open_{"gravel_task_graph"};
  gravel_task_options options_;
  view view_{};
  char *memory_ = nullptr, *staging_ = nullptr;
  gravel::detail::pinned_array<gravel::detail::graph_words> last_;  ///< how the last run ended
  uint64_t bytes_ = 0;
  unsigned blocks_ = 0;
  bool spare_ = false;  ///< a run has one block less, so that there is room for the kernel that pushes
  gravel_stream_t run_stream_ = nullptr, push_stream_ = nullptr;
  bool running_ = false;
  std::array<uint64_t, types::count> pushed_{};  ///< number of tasks of each type that were pushed before the run
  bool staged_ = false;                          ///< the kernel may not have read some of them yet
  gravel_task_counts counts_{};
};
