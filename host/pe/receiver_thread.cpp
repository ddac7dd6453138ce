#include "host/pe/receiver_thread.hpp"

#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

receiver_thread::receiver_thread(backend& device, std::function<void()> check, std::function<void(const std::string&)> failed)
    : device_(device), check_(std::move(check)), failed_(std::move(failed)), thread_([this] { run(); }) {}

void receiver_thread::stop() {
  stop_ = true;
  if (!thread_.joinable()) return;
  thread_.join();
  device_.stop_receiver();
}

void receiver_thread::run() {
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

}  // namespace gravel
