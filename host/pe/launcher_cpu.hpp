// gravel_launch on the CPU backend. A launch returns at once. A thread for each stream runs its kernels one after the
// other, each on as many threads as GRAVEL_CPU_THREADS says.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "host/pe/backend.hpp"
#include "host/pe/launch_config.hpp"

namespace gravel::detail {

/// A kernel with its arguments; or, with `on_host`, a function that the stream's thread calls once.
struct cpu_kernel {
  dim3 grid, block;
  simt::launch_options options;
  std::function<void()> lane;
  bool on_host = false;  ///< it runs even if a kernel before it has failed
};

class cpu_stream {
 public:
  /// Sets `failed` when a kernel fails.
  explicit cpu_stream(std::atomic<bool>& failed) : any_failed_(failed) {}
  /// Waits for the kernels of the stream.
  ~cpu_stream();
  cpu_stream(const cpu_stream&) = delete;
  cpu_stream& operator=(const cpu_stream&) = delete;

  /// Puts a kernel into the stream. Returns at once. Any thread.
  void put(cpu_kernel);
  /// Number of kernels put so far; 0: none of them is left.
  uint64_t last_pending();
  /// Waits until so many kernels have ended.
  void wait_for(uint64_t kernels);
  /// Waits until all kernels of the stream have ended. Returns what a lane has thrown; the kernels behind that one have
  /// not run.
  std::exception_ptr wait();
  /// Throws gravel::error if a lane has thrown and no thread has called wait() for some seconds: the program may be
  /// waiting for work that the failed kernel has not done.
  void throw_if_unheard();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<cpu_kernel> queue_;  ///< the first one is running
  uint64_t put_ = 0, ended_ = 0;  ///< number of kernels put, and ended
  bool closing_ = false;
  std::exception_ptr error_;
  std::atomic<bool>& any_failed_;
  std::chrono::steady_clock::time_point failed_;
  std::thread thread_;  ///< started with the first kernel
};

/// The streams of this process.
///
/// Programs in CUDA's style make streams before gravel_init, and use them after gravel_finalize. So streams do not
/// belong to a job. nullptr stands for the PE's own stream, which is also CUDA's null stream: work of a stream that
/// follows it begins when all that is in the null stream before has ended, and the other way round.
class cpu_streams {
 public:
  /// They are never destroyed: a process may exit while a kernel runs.
  static cpu_streams& of_process();
  /// `follows_null`: as streams of cudaStreamCreate do.
  cpu_stream* create(bool follows_null);
  // `caller`: the call that an error names. All throw gravel::error, and do nothing, if `stream` is no stream.
  /// Waits for the stream's kernels first, and throws what one of them has thrown.
  void destroy(void* stream, const char* caller);
  void put(void* stream, cpu_kernel, const char* caller);
  /// Waits for the stream's kernels. Returns what a lane has thrown.
  std::exception_ptr wait(void* stream, const char* caller);
  bool is_idle(void* stream, const char* caller);
  /// Waits for the kernels of all streams. Returns the first exception.
  std::exception_ptr wait();
  void throw_if_unheard();

 private:
  struct stream {
    cpu_stream kernels;
    const bool follows_null;
    stream(std::atomic<bool>& failed, bool follows) : kernels(failed), follows_null(follows) {}
  };
  using shared_stream = std::shared_ptr<stream>;  ///< kept by waits for it in other streams
  shared_stream find(void* at, const char* caller);
  static void put_wait(cpu_stream& waiting, const shared_stream& awaited);
  std::vector<shared_stream> all();

  std::mutex mutex_;
  std::atomic<bool> any_failed_{false};  ///< whether a kernel has failed so far
  const shared_stream own_ = std::make_shared<stream>(any_failed_, false);
  std::vector<shared_stream> streams_;
};

/// The part of the backend that does not depend on the program's handlers.
class GRAVEL_API cpu_launcher : public backend {
 public:
  /// Waits for the job's kernels, and destroys the streams that it has made.
  ~cpu_launcher() override;
  /// Starts a kernel. `stream`: nullptr for the PE's own. Throws gravel::error, and starts nothing, if it is no stream.
  void launch(void* stream, cpu_kernel);
  void synchronize() override;
  void* create_stream() override;
  void destroy_stream(void*) override;
  void synchronize_stream(void*) override;

 protected:
  void throw_if_unheard();

 private:
  cpu_streams& all_ = cpu_streams::of_process();
  std::mutex mutex_;
  std::vector<cpu_stream*> streams_;  ///< made by the job, and not yet destroyed
};

}  // namespace gravel::detail
