#include "host/pe/launcher_cpu.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel::detail {

cpu_stream::~cpu_stream() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    change_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void cpu_stream::put(cpu_kernel kernel) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread("a stream of gravel_launch", [this] { run(); });
  queue_.push_back(std::move(kernel));
  ++put_;
  change_.notify_all();
}

void cpu_stream::run() {
  name_this_thread("gravel stream");
  std::unique_lock lock(mutex_);
  for (;;) {
    change_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const cpu_kernel& kernel = queue_.front();  // does not move while others are put behind it
    std::exception_ptr thrown;
    if (!error_) {
      lock.unlock();
      try {
        const profile_range range("kernel");
        simt::launch(kernel.grid, kernel.block, kernel.options, kernel.lane);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
    }
    if (thrown) {
      error_ = thrown;
      failed_ = std::chrono::steady_clock::now();
      any_failed_ = true;
    }
    queue_.pop_front();
    ++ended_;
    change_.notify_all();
  }
}

std::exception_ptr cpu_stream::wait() {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&, last = put_] { return ended_ >= last; });
  return std::exchange(error_, nullptr);
}

void cpu_stream::throw_if_unheard() {
  constexpr std::chrono::seconds grace(5);
  std::lock_guard lock(mutex_);
  if (!error_ || std::chrono::steady_clock::now() - failed_ < grace) return;
  fail("a kernel failed, and the program has not waited for it since: {}", text_of_thrown(error_));
}

cpu_stream& cpu_launcher::find(void* stream, const char* caller) {
  if (!stream) return own_;
  for (const auto& s : streams_)
    if (s.get() == stream) return *s;
  fail("{}: not a stream of gravel_stream_create", caller);
}

void cpu_launcher::launch(void* stream, cpu_kernel kernel) {
  simt::check_launch(kernel.grid, kernel.block, kernel.options);
  std::lock_guard lock(mutex_);
  find(stream, "gravel_launch").put(std::move(kernel));
}

void* cpu_launcher::create_stream() {
  std::lock_guard lock(mutex_);
  return streams_.emplace_back(std::make_unique<cpu_stream>(any_failed_)).get();
}
void cpu_launcher::destroy_stream(void* stream) {
  if (!stream) fail("gravel_stream_destroy: not a stream of gravel_stream_create");
  synchronize_stream(stream);
  std::unique_ptr<cpu_stream> ended;
  std::lock_guard lock(mutex_);
  const auto at = std::find_if(streams_.begin(), streams_.end(), [&](const auto& s) { return s.get() == stream; });
  if (at == streams_.end()) fail("gravel_stream_destroy: not a stream of gravel_stream_create");
  ended = std::move(*at);
  streams_.erase(at);
}

void cpu_launcher::synchronize_stream(void* stream) {
  cpu_stream* waited;
  {
    std::lock_guard lock(mutex_);
    waited = &find(stream, "gravel_stream_synchronize");
  }
  if (const std::exception_ptr thrown = waited->wait()) std::rethrow_exception(thrown);
}

void cpu_launcher::synchronize() {
  std::vector<cpu_stream*> all{&own_};
  {
    std::lock_guard lock(mutex_);
    for (const auto& s : streams_) all.push_back(s.get());
  }
  std::exception_ptr first;
  for (cpu_stream* s : all)
    if (std::exception_ptr thrown = s->wait(); !first) first = thrown;
  if (first) std::rethrow_exception(first);
}

void cpu_launcher::throw_if_unheard() {
  if (!any_failed_) return;
  std::lock_guard lock(mutex_);
  own_.throw_if_unheard();
  for (const auto& s : streams_) s->throw_if_unheard();
}

}  // namespace gravel::detail
