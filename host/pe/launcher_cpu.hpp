// gravel_launch on the CPU backend: a launch returns at once, and a thread for each stream runs the kernels one after
// the other (each on as many threads as GRAVEL_CPU_THREADS says).
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
  /// `failed` is set when a kernel fails.
  explicit cpu_stream(std::atomic<bool>& failed) : any_failed_(failed) {}
  /// Waits for the kernels.
  ~cpu_stream();
  cpu_stream(const cpu_stream&) = delete;
  cpu_stream& operator=(const cpu_stream&) = delete;

  /// Returns at once. Any thread.
  void put(cpu_kernel);
  /// Until the kernels that are in the stream have ended. What a lane has thrown comes back; the kernels behind it have
  /// not run.
  std::exception_ptr wait();
  /// Throws gravel::error if a lane has thrown and nobody has called wait() for some seconds: the program may be
  /// waiting for what that kernel has not done.
  void throw_if_unheard();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<cpu_kernel> queue_;  ///< the first one is running
  uint64_t put_ = 0, ended_ = 0;  ///< kernels so far
  bool closing_ = false;
  std::exception_ptr error_;
  std::atomic<bool>& any_failed_;
  std::chrono::steady_clock::time_point failed_;
  std::thread thread_;  ///< since the first kernel
};

/// The part of the backend that knows nothing of the program's handlers.
class GRAVEL_API cpu_launcher : public backend {
 public:
  /// nullptr: the PE's own stream. Throws gravel::error, and starts nothing, if `stream` is none.
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
  std::atomic<bool> any_failed_{false};  ///< so far
  cpu_stream own_{any_failed_};
  std::vector<std::unique_ptr<cpu_stream>> streams_;
};

}  // namespace gravel::detail
