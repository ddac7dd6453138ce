// Resident kernels on the CPU backend. Each runs from keep() to let_go() in a stream of its own, with a thread for each
// block. The threads sleep when no message comes.
#pragma once
#include <map>

#include "host/pe/backend.hpp"
#include "host/pe/launcher_cpu.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class resident_cpu {
 public:
  /// `how`: seed and stack.
  void keep(resident_kernel& kernel, simt::launch_options how) {
    *kernel.life = {};
    how.cooperative = true;
    {
      const std::lock_guard lock(lock_);
      all_[&kernel].stream.put({kernel.blocks, kernel.threads, how, [&kernel] { kernel.run(nullptr, 1); }});
    }
    for (relax wait; load_acquire(&kernel.control->resident) != 1; wait.attentively()) throw_if_failed();  // [V3]
  }

  void let_go(resident_kernel& kernel) {
    const auto mine = [&] {
      const std::lock_guard lock(lock_);
      return all_.extract(&kernel);
    }();
    if (mine.empty()) return;
    store_relaxed(&kernel.life->stop, uint64_t{1});
    wait_for(kernel, mine.mapped());
  }

  /// Throws gravel::error that names the service if a service block has thrown. Any thread.
  void throw_if_failed() {
    const std::lock_guard lock(lock_);
    for (auto& [kernel, mine] : all_)
      if (mine.failed) wait_for(*kernel, mine);
  }

 private:
  struct running {
    std::atomic<bool> failed{false};
    cpu_stream stream{failed};
  };

  static void wait_for(const resident_kernel& kernel, running& mine) {
    if (const std::exception_ptr thrown = mine.stream.wait())
      fail("a service block of service '{}' failed: {}", kernel.name, text_of_thrown(thrown));
  }

  std::mutex lock_;
  std::map<resident_kernel*, running> all_;
};

}  // namespace gravel::detail
