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

/// A kernel with its arguments.
struct cpu_kernel {
  dim3 grid, block;
  simt::launch_options options;
  std::function<void()> lane;
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

/// The part of the backend that does not depend on the program's handlers.
class GRAVEL_API cpu_launcher : public backend {
 public:
  /// Starts a kernel. `stream`: nullptr for the PE's own. Throws gravel::error, and starts nothing, if it is no stream.
  void launch(void* stream, cpu_kernel);
  void synchronize() override;
  void* create_stream() override;
  void destroy_stream(void*) override;
  void synchronize_stream(void*) override;

 protected:
  void throw_if_unheard();

 private:
  cpu_stream& find(void* stream, const char* caller);

  std::mutex mutex_;
  std::atomic<bool> any_failed_{false};  ///< whether a kernel has failed so far
  cpu_stream own_{any_failed_};
  std::vector<std::unique_ptr<cpu_stream>> streams_;
};

}  // namespace gravel::detail
