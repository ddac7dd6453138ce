// The stacks of the CPU backend's lanes, and the handling of a stack overflow.
#pragma once
#include <signal.h>

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>

namespace gravel::detail::simt::inner {

/// Size of the guard: so many bytes below each stack are mapped without access. A larger frame may pass over them
/// unseen. A GPU gives a lane no more local memory than that either.
constexpr size_t guard_bytes = 512 * 1024;

/// Allocates stacks for Boost.Context: mapped memory, with the guard below.
class guarded_stacks {
 public:
  /// `bytes`: usable bytes; rounded up to whole pages.
  explicit guarded_stacks(size_t bytes);
  /// Throws std::bad_alloc.
  boost::context::stack_context allocate() const;
  void deallocate(boost::context::stack_context& stack) const;

 private:
  size_t bytes_;
};

/// A stack for signal handlers. A thread that runs lanes needs one: the handler below cannot run on a stack that has
/// overflowed. Thread scope: it belongs to the thread that made it, and ends with it.
class signal_stack {
 public:
  signal_stack();
  ~signal_stack();
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;  ///< null: the thread had a signal stack already
};

/// Installs a signal handler. A lane that reaches its guard ends the process with an error message and status 1. Any
/// other SIGSEGV goes to the previous handler. Called at each launch, since programs, and test frameworks, set handlers
/// of their own.
void watch_for_overflows();

/// The overflow that the handler reports.
struct overflow {
  unsigned lane;
  unsigned block[3];
  size_t stack_bytes;
};
/// Returns true if `address` lies in the guard of a lane of this thread. Async-signal-safe.
bool is_overflow(const void* address, overflow& found);

}  // namespace gravel::detail::simt::inner
