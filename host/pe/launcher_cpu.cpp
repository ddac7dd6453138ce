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
    if (!error_ || kernel.on_host) {
      lock.unlock();
      try {
        const profile_range range("kernel");
        if (kernel.on_host) kernel.lane();
        else simt::launch(kernel.grid, kernel.block, kernel.options, kernel.lane);
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

uint64_t cpu_stream::last_pending() {
  std::lock_guard lock(mutex_);
  return ended_ < put_ ? put_ : 0;
}
void cpu_stream::wait_for(uint64_t kernels) {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return ended_ >= kernels; });
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

cpu_streams& cpu_streams::of_process() {
  static cpu_streams* const streams = new cpu_streams;
  return *streams;
}

cpu_streams::shared_stream cpu_streams::find(void* at, const char* caller) {
  if (!at) return own_;
  std::lock_guard lock(mutex_);
  for (const auto& s : streams_)
    if (&s->kernels == at) return s;
  fail("{}: not a stream of gravel_stream_create", caller);
}

cpu_stream* cpu_streams::create(bool follows_null) {
  std::lock_guard lock(mutex_);
  return &streams_.emplace_back(std::make_shared<stream>(any_failed_, follows_null))->kernels;
}

void cpu_streams::destroy(void* at, const char* caller) {
  if (!at) fail("{}: the PE's own stream stays", caller);
  const shared_stream ended = find(at, caller);
  const std::exception_ptr thrown = ended->kernels.wait();
  {
    std::lock_guard lock(mutex_);
    std::erase(streams_, ended);
  }
  if (thrown) std::rethrow_exception(thrown);
}

void cpu_streams::put_wait(cpu_stream& waiting, const shared_stream& awaited) {
  const uint64_t last = awaited->kernels.last_pending();
  if (last == 0) return;
  waiting.put({1, 1, {}, [awaited, last] { awaited->kernels.wait_for(last); }, true});
}

void cpu_streams::put(void* at, cpu_kernel kernel, const char* caller) {
  const shared_stream to = find(at, caller);
  if (to == own_) {
    for (const auto& s : all())
      if (s->follows_null) put_wait(to->kernels, s);
  } else if (to->follows_null) {
    put_wait(to->kernels, own_);
  }
  to->kernels.put(std::move(kernel));
}

std::exception_ptr cpu_streams::wait(void* at, const char* caller) { return find(at, caller)->kernels.wait(); }
bool cpu_streams::is_idle(void* at, const char* caller) { return find(at, caller)->kernels.last_pending() == 0; }

std::vector<cpu_streams::shared_stream> cpu_streams::all() {
  std::lock_guard lock(mutex_);
  std::vector<shared_stream> found{own_};
  found.insert(found.end(), streams_.begin(), streams_.end());
  return found;
}

std::exception_ptr cpu_streams::wait() {
  std::exception_ptr first;
  for (const auto& s : all())
    if (std::exception_ptr thrown = s->kernels.wait(); !first) first = thrown;
  return first;
}

void cpu_streams::throw_if_unheard() {
  if (!any_failed_) return;
  for (const auto& s : all()) s->kernels.throw_if_unheard();
}

cpu_launcher::~cpu_launcher() {
  for (cpu_stream* s : streams_) {
    try {
      all_.destroy(s, "gravel_finalize");
    } catch (...) {  // whoever waits for a kernel hears of its error
    }
  }
  all_.wait(nullptr, "gravel_finalize");
}

void cpu_launcher::launch(void* stream, cpu_kernel kernel) {
  simt::check_launch(kernel.grid, kernel.block, kernel.options);
  all_.put(stream, std::move(kernel), "gravel_launch");
}

void* cpu_launcher::create_stream() {
  std::lock_guard lock(mutex_);
  return streams_.emplace_back(all_.create(false));
}
void cpu_launcher::destroy_stream(void* stream) {
  {
    std::lock_guard lock(mutex_);
    if (std::erase(streams_, stream) == 0) fail("gravel_stream_destroy: not a stream of gravel_stream_create");
  }
  all_.destroy(stream, "gravel_stream_destroy");
}

void cpu_launcher::synchronize_stream(void* stream) {
  if (const std::exception_ptr thrown = all_.wait(stream, "gravel_stream_synchronize")) std::rethrow_exception(thrown);
}
void cpu_launcher::synchronize() {
  if (const std::exception_ptr thrown = all_.wait()) std::rethrow_exception(thrown);
}
void cpu_launcher::throw_if_unheard() { all_.throw_if_unheard(); }

}  // namespace gravel::detail
