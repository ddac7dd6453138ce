#include "device/cpu/simt_fiber.hpp"

#include <cxxabi.h>

#include <new>
#include <utility>

#include "device/cpu/simt_stack.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail::simt::inner {

carriers::carriers(size_t stack_bytes, void (*run)(void*, carrier&), void* owner)
    : stack_bytes_(stack_bytes),
      run_(run),
      owner_(owner),
      thread_exceptions_(reinterpret_cast<exception_state*>(abi::__cxa_get_globals())) {
#if defined(__SANITIZE_THREAD__)
  main_->tsan_fiber = __tsan_get_current_fiber();
#endif
}

// Ends the carriers, so that their stacks can be reused. They are all idle, unless a lane calls exit(). Then the stacks
// must stay, since this function runs on one of them.
carriers::~carriers() {
  if (running_ != main_ || idle_.size() != all_.size()) return;
  for (carrier* c : all_) {
    c->ending = true;
    switch_to(*c);
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(c->tsan_fiber);
#endif
    delete c;
  }
  delete main_;
}

carrier& carriers::make() {
  guarded_stacks allocator(stack_bytes_);
  boost::context::stack_context stack;
  try {
    stack = allocator.allocate();
  } catch (const std::bad_alloc&) {
    fail(
        "cannot map the stack of lane {} ({} bytes and a guard): out of memory, or more mappings than vm.max_map_count "
        "allows; use fewer "
        "threads, smaller blocks, or a smaller GRAVEL_CPU_STACK_SIZE",
        all_.size(), stack_bytes_);
  }
  carrier* c = new carrier;
  c->stack_bytes = stack.size - guard_bytes;
  c->stack_bottom = static_cast<char*>(stack.sp) - c->stack_bytes;
  // Boost enters the new stack once and returns at once. The sanitizers must book its first frame on the new carrier.
#if defined(__SANITIZE_ADDRESS__)
  void* own_fake_stack = nullptr;
  const void* own_bottom = nullptr;
  size_t own_bytes = 0;
  __sanitizer_start_switch_fiber(&own_fake_stack, c->stack_bottom, c->stack_bytes);
  __sanitizer_finish_switch_fiber(nullptr, &own_bottom, &own_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  c->tsan_fiber = __tsan_create_fiber(0);
  void* const own_tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(c->tsan_fiber, 0);
#endif
  const boost::context::preallocated place(stack.sp, stack.size, stack);
  c->suspended = boost::context::fiber(std::allocator_arg, place, std::move(allocator), [this, c](auto&& previous) {
    arrive();
    left_->suspended = std::move(previous);
    while (!c->ending) run_(owner_, *c);
    left_ = c;
    running_ = main_;
    return std::move(main_->suspended);
  });
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c->fake_stack, own_bottom, own_bytes);
  __sanitizer_finish_switch_fiber(own_fake_stack, nullptr, nullptr);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(own_tsan_fiber, 0);
#endif
  all_.push_back(c);
  idle_.reserve(all_.size());  // so that put_back never throws
  return *c;
}

}  // namespace gravel::detail::simt::inner
