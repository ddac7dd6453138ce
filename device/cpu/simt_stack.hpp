// The stacks of the CPU backend's lanes, and what happens when one is used up.
#pragma once
#include <signal.h>

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>

namespace gravel::detail::simt::inner {

/// Below each stack so many bytes are mapped without any right of access. A larger frame may pass over them unseen; a
/// GPU gives a lane no more local memory than that either.
constexpr size_t guard_bytes = 512 * 1024;

/// Allocates stacks for Boost.Context: mapped, with the guard below.
class guarded_stacks {
 public:
  /// `bytes` that can be used; rounded up to whole pages.
  explicit guarded_stacks(size_t bytes);
  /// Throws std::bad_alloc.
  boost::context::stack_context allocate() const;
  void deallocate(boost::context::stack_context& stack) const;

 private:
  size_t bytes_;
};

/// A thread that runs lanes needs one: the handler below cannot run on a stack that is used up. Thread scope: it
/// belongs to the thread that made it, and ends with it.
class signal_stack {
 public:
  signal_stack();
  ~signal_stack();
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;  ///< null: the thread had one already
};

/// Sees to it that a lane that runs into its guard ends the process with a sentence and status 1. Any other SIGSEGV
/// goes to whatever handled it before. Called at each launch, as programs, and test frameworks, set handlers of their
/// own.
void watch_for_overflows();

/// What the handler says.
struct overflow {
  unsigned lane;
  unsigned block[3];
  size_t stack_bytes;
};
/// Whether `address` lies in the guard of a lane of this thread. Async-signal-safe.
bool is_overflow(const void* address, overflow& found);

}  // namespace gravel::detail::simt::inner
