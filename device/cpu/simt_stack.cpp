#include "device/cpu/simt_stack.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <string_view>

#include "lib/base/log.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gravel::detail::simt::inner {

// ---- stacks

guarded_stacks::guarded_stacks(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (bytes + page - 1) / page * page;
}

boost::context::stack_context guarded_stacks::allocate() const {
  const size_t all = guard_bytes + bytes_;
  void* const bottom = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (bottom == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(static_cast<char*>(bottom) + guard_bytes, bytes_, PROT_READ | PROT_WRITE) != 0) {
    munmap(bottom, all);
    throw std::bad_alloc();
  }
  boost::context::stack_context stack;
  stack.size = all;
  stack.sp = static_cast<char*>(bottom) + all;
  return stack;
}

void guarded_stacks::deallocate(boost::context::stack_context& stack) const {
#if defined(__SANITIZE_ADDRESS__)
  // The last frames of a stack never return. Memory that is mapped here next must not inherit their red zones.
  __asan_unpoison_memory_region(static_cast<char*>(stack.sp) - stack.size + guard_bytes, stack.size - guard_bytes);
#endif
  munmap(static_cast<char*>(stack.sp) - stack.size, stack.size);
}

signal_stack::signal_stack() {
  stack_t now{};
  if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE)) return;
  const size_t bytes = std::max<size_t>(64 * 1024, 2 * static_cast<size_t>(SIGSTKSZ));
  memory_.reset(new char[bytes]);
  stack_t mine{};
  mine.ss_sp = memory_.get();
  mine.ss_size = bytes;
  sigaltstack(&mine, nullptr);
}

signal_stack::~signal_stack() {
  stack_t now{};
  if (!memory_ || sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory_.get()) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

// ---- the handler

namespace {

struct sigaction previous;                          // written under the lock of watch_for_overflows
constinit thread_local bool asking_others = false;  // another handler may pass a signal back to this one

/// Ends the process with a message. fmt writes numbers and strings into such a buffer without the heap or the C
/// library's locks.
[[noreturn]] void end_by(const overflow& o) {
  char line[512];
  const auto made = fmt::format_to_n(line, sizeof(line),
                                     "gravel: {}{}error: lane {} of block ({},{},{}) has used up its stack of {} "
                                     "bytes; GRAVEL_CPU_STACK_SIZE gives lanes a larger one\n",
                                     log_name(), log_name().empty() ? "" : ": ", o.lane, o.block[0], o.block[1],
                                     o.block[2], o.stack_bytes);
  std::string_view rest(line, std::min(made.size, sizeof(line)));
  for (ssize_t n; !rest.empty() && (n = write(STDERR_FILENO, rest.data(), rest.size())) > 0;)
    rest.remove_prefix(static_cast<size_t>(n));
  _exit(1);
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  overflow found;
  if (info->si_code > 0 && is_overflow(info->si_addr, found)) end_by(found);
  const bool has_handler =
      previous.sa_flags & SA_SIGINFO || (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN);
  if (has_handler && !asking_others) {
    asking_others = true;
    if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(signal_number, info, context);
    else previous.sa_handler(signal_number);
    asking_others = false;
    return;
  }
  // Acts as without any handler: the instruction faults again. A signal that was sent has to be sent again.
  signal(signal_number, SIG_DFL);
  if (info->si_code <= 0) raise(signal_number);
}

}  // namespace

void watch_for_overflows() {
  static constinit std::mutex lock;
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  const auto is_ours = [&now] { return now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault; };
  if (is_ours()) return;
  std::lock_guard guard(lock);
  sigaction(SIGSEGV, nullptr, &now);
  if (is_ours()) return;
  previous = now;
  struct sigaction mine {};
  mine.sa_sigaction = on_fault;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  sigaction(SIGSEGV, &mine, nullptr);
}

}  // namespace gravel::detail::simt::inner
