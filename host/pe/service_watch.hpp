// The open services of this PE. Checks that they make progress: no aggregator sees their rings.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "host/pe/services.hpp"
#include "lib/base/error.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

class service_watch {
 public:
  explicit service_watch(uint32_t pe) : pe_(pe) {}

  /// These three functions are for the program's thread.
  const std::vector<open_service*>& open() const { return open_; }
  void add(open_service& s) {
    const std::lock_guard lock(lock_);
    open_.push_back(&s);
  }
  /// When it returns, no thread reads the service any more.
  void remove(open_service& s) {
    const std::lock_guard lock(lock_);
    std::erase(open_, &s);
    watches_.erase(&s);
  }

  /// Polls the services once; a stall_watch of `limit_s` seconds counts the polls. Returns what has stopped, in words,
  /// or an empty text. One thread at a time, any.
  std::string poll(uint64_t limit_s) {
    const std::lock_guard lock(lock_);
    for (open_service* s : open_) {
      watched& watch = watches_[s];
      if (s->is_to_end()) {
        if (watch.end.poll(true, 0))
          return fmt::format(
              "service '{}': it is closed, but its kernel at PE {} has not ended for {} s (GRAVEL_WATCHDOG_S); a "
              "service block may not return "
              "from its messages",
              s->name(), pe_, limit_s);
        continue;
      }
      const std::vector<service_block> blocks = s->read_blocks();
      watch.blocks.resize(blocks.size());
      for (size_t i = 0; i < blocks.size(); ++i)
        if (watch.blocks[i].poll(blocks[i].applied() < blocks[i].tickets(), blocks[i].applied()))
          return fmt::format(
              "service '{}': service block {} of PE {} has finished nothing for {} s (GRAVEL_WATCHDOG_S), and messages "
              "wait for it: it does not return from its messages, or its kernel finds no room on the device, or a "
              "caller of a critical section has not left it",
              s->name(), i, pe_, limit_s);
    }
    return {};
  }
  /// State of the service blocks, one line for each. Any thread.
  std::string describe() {
    const std::lock_guard lock(lock_);
    std::string text;
    for (open_service* s : open_) text += describe_blocks(*s);
    return text;
  }

 private:
  static std::string describe_blocks(open_service& s) {
    std::string text;
    const std::vector<service_block> blocks = s.read_blocks();
    const uint64_t places = s.view().shape.far_messages();
    for (size_t i = 0; i < blocks.size(); ++i) {
      const service_block& now = blocks[i];
      text += fmt::format(
          "  service '{}', service block {} {}; chunks of kernels of this PE: {}, applied: {}; messages of other PEs, "
          "handlers and service blocks: {} in "
          "a ring of {}, applied: {}\n",
          s.name(), i, now.state == service_block::asleep ? "sleeps" : "runs", now.near.tickets, now.near_done,
          now.far_tickets, places, now.far_done);
    }
    return text;
  }
  struct watched {
    std::vector<stall_watch> blocks;
    stall_watch end;
  };
  uint32_t pe_;
  std::mutex lock_;  ///< protects the members below when they are changed, or used by another thread
  std::vector<open_service*> open_;
  std::map<const open_service*, watched> watches_;
};

}  // namespace gravel::detail
