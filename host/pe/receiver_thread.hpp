// The thread of a PE that applies what arrives, as far as the host does that, and finds the errors of kernels and handlers.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "host/pe/backend.hpp"

namespace gravel {

class receiver_thread {
 public:
  /// Calls `check` in every round. `failed` is told what is thrown, and does not return.
  receiver_thread(backend& device, std::function<void()> check, std::function<void(const std::string&)> failed);
  ~receiver_thread() { stop(); }
  receiver_thread(const receiver_thread&) = delete;
  receiver_thread& operator=(const receiver_thread&) = delete;
  /// From here on nothing that arrives is applied.
  void stop();

  /// True on the thread that runs handlers on the host.
  static inline thread_local bool is_this = false;

 private:
  void run();
  backend& device_;
  std::function<void()> check_;
  std::function<void(const std::string&)> failed_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gravel
