// The thread of a PE that applies arriving messages, as far as the host does that, and finds errors of kernels and
// handlers.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "host/pe/backend.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

class receiver_thread {
 public:
  /// Calls `check` in every round. Calls `failed`, which does not return, with the text of an exception.
  receiver_thread(backend& device, std::function<void()> check, std::function<void(const std::string&)> failed)
      : device_(device),
        check_(std::move(check)),
        failed_(std::move(failed)),
        thread_(start_thread("the receiver of a PE", [this] { run(); })) {}
  ~receiver_thread() { stop(); }
  receiver_thread(const receiver_thread&) = delete;
  receiver_thread& operator=(const receiver_thread&) = delete;
  /// After this call no arriving message is applied.
  void stop() {
    stop_ = true;
    if (!thread_.joinable()) return;
    thread_.join();
    device_.stop_receiver();
  }

  /// true on the thread that runs handlers on the host
  static inline thread_local bool is_this = false;

 private:
  void run() {
    name_this_thread("gravel receiver");
    is_this = true;
    relax wait;
    try {
      while (!stop_.load(std::memory_order_relaxed)) {
        check_();
        if (device_.receive()) wait.reset();
        else wait();
      }
    } catch (const std::exception& e) {
      failed_(e.what());
    }
  }

  backend& device_;
  std::function<void()> check_;
  std::function<void(const std::string&)> failed_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gravel::detail
