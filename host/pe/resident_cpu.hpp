// Kernels that stay resident, on the CPU backend: each runs from the first day to the last on threads of its own, one for each block, which
// sleep when nothing comes.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/pe/backend.hpp"

namespace gravel {

class resident_cpu {
 public:
  /// `options`: seed and stack.
  void keep(resident_kernel& kernel, const simt::launch_options& options) {
    auto& mine = add(kernel);
    *kernel.life = {};
    mine.thread = std::thread([&mine, options] {
      std::string what;
      try {
        simt::launch_options how = options;
        how.cooperative = true;
        simt::launch(mine.kernel->blocks, mine.kernel->threads, how, [&mine] { mine.kernel->run(nullptr, 1); });
      } catch (const std::exception& e) {
        what = e.what();
      } catch (...) {
        what = "something that is no std::exception";
      }
      store_relaxed(&mine.ended, uint64_t{1});
      const std::lock_guard lock(mine.lock);
      mine.error = what;
    });
    for (relax wait; load_acquire(&kernel.mail->resident) != 1; wait.attentively()) {  // [V3]
      if (load_relaxed(&mine.ended)) mine.thread.join(), throw_if_failed();
    }
  }
  void let_go(resident_kernel& kernel) {
    std::unique_ptr<running> mine;
    {
      const std::lock_guard lock(lock_);
      for (auto& r : all_)
        if (r && r->kernel == &kernel) mine = std::move(r);
      std::erase(all_, nullptr);
    }
    if (!mine) return;
    store_relaxed(&kernel.life->stop, uint64_t{1});
    if (mine->thread.joinable()) mine->thread.join();
    mine->throw_error();
  }
  /// Throws gravel::error, which names the service, if a server has thrown. Any thread.
  void throw_if_failed() {
    const std::lock_guard lock(lock_);
    for (const auto& r : all_) r->throw_error();
  }

 private:
  struct running {
    resident_kernel* kernel;
    std::thread thread;
    uint64_t ended = 0;
    std::mutex lock;
    std::string error;
    void throw_error() {
      const std::lock_guard guard(lock);
      if (!error.empty()) fail("a server of service '{}' failed: {}", kernel->name, error);
    }
  };
  running& add(resident_kernel& kernel) {
    const std::lock_guard guard(lock_);
    all_.push_back(std::make_unique<running>());
    all_.back()->kernel = &kernel;
    return *all_.back();
  }

  std::mutex lock_;
  std::vector<std::unique_ptr<running>> all_;
};

}  // namespace gravel
