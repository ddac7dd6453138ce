// The fibers of one OS thread (Boost.Context), as the CPU backend uses them. A fiber is made once, kept, and reused for
// one lane after another. A carrier that runs lane after lane to its end never switches at all.
#pragma once
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace gravel::detail::simt::inner {

/// Data that the C++ runtime stores per thread about exceptions in flight (Itanium ABI: __cxa_eh_globals). It belongs
/// to the code that runs, hence to the fiber: a lane may wait inside a catch block.
struct exception_state {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

/// A fiber with its stack, or the thread's own context. Between switches exactly one of a thread's carriers is running;
/// the others are `suspended`.
struct carrier {
  boost::context::fiber suspended;
  uint32_t lane = 0;  ///< the lane to run; set by whatever code resumes an idle carrier
  bool ending = false;
  exception_state exceptions;
  // For the sanitizers, which need a call at each switch.
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

class carriers {
 public:
  /// `run` is the function of a carrier. It works on behalf of `owner`. The carrier ends when its `ending` is set.
  carriers(size_t stack_bytes, void (*run)(void* owner, carrier& self), void* owner);
  ~carriers();
  carriers(const carriers&) = delete;
  carriers& operator=(const carriers&) = delete;

  size_t stack_bytes() const { return stack_bytes_; }
  carrier& main() { return *main_; }

  /// Returns an idle carrier, or a new one if there is none. It is the one that was put back last, whose stack is still
  /// in the cache. Throws gravel::error if there is no memory for a stack.
  carrier& take() {
    if (idle_.empty()) return make();
    carrier& c = *idle_.back();
    idle_.pop_back();
    return c;
  }
  void put_back(carrier& c) { idle_.push_back(&c); }

  /// Suspends the running carrier and resumes `to`. Returns when another carrier switches back.
  void switch_to(carrier& to);

 private:
  carrier& make();
  void leave(carrier& from, carrier& to);
  void arrive();

  size_t stack_bytes_;
  void (*run_)(void*, carrier&);
  void* owner_;
  carrier* main_ = new carrier;  ///< the thread's own context
  carrier* running_ = main_;
  carrier* left_ = nullptr;  ///< the carrier that ran before the last switch
  exception_state* thread_exceptions_;
  std::vector<carrier*> all_, idle_;
};

// ---- calls for the sanitizers, and the exceptions in flight
inline void carriers::leave(carrier& from, carrier& to) {
  from.exceptions = *thread_exceptions_;
  left_ = &from;
  running_ = &to;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  // Each switch orders what was before it with what comes after it. So lanes of one block never race in
  // ThreadSanitizer's view, but blocks on different threads do.
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

inline void carriers::arrive() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // A carrier that ends returns through frames that belong to it in the sanitizers' view, so it cannot report itself
  // that it is left.
  if (left_->ending) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(nullptr, running_->stack_bottom, running_->stack_bytes);
#else
    __tsan_switch_to_fiber(running_->tsan_fiber, 0);
#endif
  }
#endif
#if defined(__SANITIZE_ADDRESS__)
  // The bounds of the thread's own stack become known when it is first left.
  __sanitizer_finish_switch_fiber(running_->fake_stack, left_ == main_ ? &main_->stack_bottom : nullptr,
                                  left_ == main_ ? &main_->stack_bytes : nullptr);
#endif
  *thread_exceptions_ = running_->exceptions;
}

[[gnu::always_inline]] inline void carriers::switch_to(carrier& to) {
  leave(*running_, to);
  boost::context::fiber previous = std::move(to.suspended).resume();
  arrive();
  left_->suspended = std::move(previous);
}

}  // namespace gravel::detail::simt::inner
