#include "device/cpu/simt_cpu.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "device/cpu/simt_block.hpp"
#include "lib/base/error.hpp"

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim{}, gridDim{};

namespace gravel::detail::simt {

namespace inner {

constinit thread_local uint32_t lane_in_block = 0;
constinit thread_local bool explores = false;
constinit thread_local char* dynamic_shared = nullptr;
constinit thread_local size_t dynamic_shared_bytes = 0;
constinit thread_local bool cooperative = false;
constinit thread_local uint64_t blocks_begun = 0;
constinit thread_local uint64_t* grid_arrivals = nullptr;
constinit thread_local bool running_lanes = false;

// ---- the threads

namespace {

/// Keeps the threads that help to run launches. A launch requests a number of helpers and gets them at once: new
/// threads are made if too few are idle. So blocks of a grid no larger than `threads` run at the same time and may wait
/// for each other.
class helpers {
 public:
  struct job {
    launch_state& launch;
    unsigned running = 0;
    std::condition_variable done{};
  };

  /// It is never destroyed, and its threads are detached: a process may exit while they sleep or, after an error, work.
  static helpers& instance() {
    static helpers* const all = new helpers;
    return *all;
  }

  void request(job& j, unsigned count) {
    std::lock_guard lock(mutex_);
    while (idle_ < waiting_.size() + count) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error& e) {
        fail("cannot start a thread to run thread blocks ({}); launch with fewer threads", e.what());
      }
      ++idle_;
    }
    waiting_.insert(waiting_.end(), count, &j);
    if (count == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
  }

  /// Removes the work that no helper has begun, and waits for the helpers that have begun.
  void finish(job& j) {
    std::unique_lock lock(mutex_);
    std::erase(waiting_, &j);
    j.done.wait(lock, [&] { return j.running == 0; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !waiting_.empty(); });
      job& j = *waiting_.front();
      waiting_.pop_front();
      ++j.running;
      --idle_;
      lock.unlock();
      block_runner::of_this_thread().run_share(j.launch);
      lock.lock();
      ++idle_;
      if (--j.running == 0) j.done.notify_one();  // under the lock: `j` is destroyed right after it
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<job*> waiting_;
  size_t idle_ = 0;  ///< threads that are not in a launch; some may be reserved for `waiting_`
};

std::string text_of(dim3 v) { return fmt::format("({},{},{})", v.x, v.y, v.z); }

uint64_t blocks_of(dim3 grid) { return uint64_t{grid.x} * grid.y * grid.z; }

}  // namespace
}  // namespace inner

void check_launch(dim3 grid, dim3 block, const launch_options& options) {
  using namespace inner;
  // CUDA's limits: a launch that runs here shall run there.
  constexpr size_t most_shared = 227 * 1024;  // of any GPU
  const uint64_t lanes = uint64_t{block.x} * block.y * block.z;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || lanes == 0 || lanes > max_lanes)
    fail("launch: a block of {} lanes; it must have 1 to {} lanes, and at most 64 in z", text_of(block), max_lanes);
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || grid.x == 0 || grid.y == 0 || grid.z == 0)
    fail("launch: a grid of {} blocks; each extent must be at least 1, x below 2^31, y and z below 2^16",
         text_of(grid));
  if (options.shared_bytes > most_shared)
    fail("launch: {} bytes of dynamic shared memory; a block has at most {}", options.shared_bytes, most_shared);
  // Limits of threads.
  constexpr uint64_t most_at_once = 256;
  constexpr size_t most_stack = size_t{1} << 30;
  if (options.cooperative && blocks_of(grid) > most_at_once)
    fail("launch: a cooperative grid of {} blocks; on the CPU at most {} run at once", blocks_of(grid), most_at_once);
  if (options.stack_bytes > most_stack)
    fail("launch: a stack of {} bytes for each lane; it has at most {}", options.stack_bytes, most_stack);
}

void launch(dim3 grid, dim3 block, const launch_options& options, const std::function<void()>& kernel) {
  using namespace inner;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t larger_frames = 4;
#else
  constexpr size_t larger_frames = 1;
#endif
  constexpr size_t usual_stack = 64 * 1024, least_stack = 16 * 1024;
  if (in_kernel()) fail("launch: called from inside a kernel; only host code may launch");
  check_launch(grid, block, options);
  launch_state state{
      .grid = grid,
      .block = block,
      .kernel = kernel,
      .seed = options.seed,
      .shared_bytes = options.shared_bytes,
      .stack_bytes = std::max(options.stack_bytes ? options.stack_bytes : usual_stack, least_stack) * larger_frames,
      .cooperative = options.cooperative,
      .blocks = blocks_of(grid)};
  watch_for_overflows();
  uint64_t threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::optional<baton> order;
  if (options.cooperative) {
    threads = state.blocks;
    if (state.seed && state.blocks > 1) state.order = &order.emplace(state.seed, static_cast<uint32_t>(state.blocks));
  }
  if (state.seed) {
    if (!state.order) threads = 1;  // with several threads the schedule could not be repeated
    random_numbers draw(state.seed);
    do state.stride = draw() % state.blocks;
    while (state.blocks > 1 && std::gcd(state.stride, state.blocks) != 1);
    state.offset = draw() % state.blocks;
  }
  const auto helping = static_cast<unsigned>(std::min<uint64_t>(threads, state.blocks)) - 1;
  if (helping == 0) {
    block_runner::of_this_thread().run_share(state);
  } else {
    helpers::job job{state};
    helpers::instance().request(job, helping);
    block_runner::of_this_thread().run_share(state);
    helpers::instance().finish(job);
  }
  if (state.error) std::rethrow_exception(state.error);
}

}  // namespace gravel::detail::simt
