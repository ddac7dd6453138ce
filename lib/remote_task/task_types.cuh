// The public types of remote tasks: shapes, payloads, signals, handles, and the argument that a running task receives.
#pragma once
#include "device/am.cuh"
#include "device/bulk.cuh"
#include "device/wait.cuh"
#include "lib/remote_task/task_slot.hpp"

/// How a task is to run. Blocks of a task must not wait for each other.
struct gravel_task_shape {
  uint32_t blocks = 1;  ///< 1 to 65535; resident workers divide them among each other
  /// Threads of a block, in whole warps, at most 1024. A resident worker that has more threads uses all of them.
  uint32_t threads = 32;
  gravel::detail::task_start start = gravel::detail::task_start::shaped;
};
/// Names for gravel_task_shape::start, and to override it in gravel_task_put_as.
inline constexpr gravel::detail::task_start GRAVEL_TASK_BY_SHAPE = gravel::detail::task_start::shaped,
                                            GRAVEL_TASK_WARP = gravel::detail::task_start::warp,
                                            GRAVEL_TASK_WORKERS = gravel::detail::task_start::workers,
                                            GRAVEL_TASK_LAUNCH = gravel::detail::task_start::launch;

/// A piece of the sender's memory.
struct gravel_task_source {
  const void* data = nullptr;
  uint64_t bytes = 0;
};
/// A buffer of the symmetric heap that is registered with a queue (gravel_task_queue::register_buffer), or a place in
/// it. A payload that goes there is stored once, where the program wants it. Plain data, the same at all PEs: it may be
/// an argument of tasks.
/// @scope any
/// @completion on return
/// @errors none
/// @source XTQ (SC 2016), target buffers
struct gravel_task_buffer {
  uint64_t offset = 0;  ///< of the buffer in the heap
  uint64_t bytes = 0;   ///< of the buffer
  uint64_t first = 0;   ///< bytes of the buffer before the place
  uint32_t number = 0;  ///< of the buffer in its queue, from 1 on; 0: none
  /// Returns a place further on in the buffer.
  /// @param further in bytes
  GRAVEL_BOTH gravel_task_buffer at(uint64_t further) const { return {offset, bytes, first + further, number}; }
  /// Returns the address of the place in this PE's memory.
  /// @param g handle
  GRAVEL_BOTH char* data(const gravel_t& g) const { return g.heap + offset + first; }
  /// Returns whether there is room for so many bytes from the place on.
  /// @param wanted in bytes
  GRAVEL_BOTH bool has_room(uint64_t wanted) const { return first <= bytes && wanted <= bytes - first; }
};
/// @scope any
/// @completion on return
/// @errors none
/// @source XTQ (SC 2016)
struct gravel_payload {
  gravel_task_source first{}, second{};
  gravel_task_buffer into{};  ///< where the payload goes at the target; {}: into a slot of the queue
  /// Returns the bytes of both pieces together.
  GRAVEL_BOTH uint64_t bytes() const { return first.bytes + second.bytes; }
};

/// The payload of a step of a chain.
struct gravel_step_source {
  const void* data = nullptr;  ///< in the symmetric heap of the PE where the task before has run
  uint64_t bytes = 0;
  gravel_task_buffer into{};  ///< where the payload goes at the target; {}: into a slot of the queue
};

/// A 64-bit counter in the symmetric heap (gravel_new_signal). It rises by 1 when a task has ended, after everything
/// that the task wrote in its PE's memory. Plain data, the same at all PEs: it may be an argument of tasks.
/// @scope any
/// @completion on return
/// @errors none
/// @source XTQ (SC 2016); OpenSHMEM 1.5, signals
struct gravel_signal {
  uint64_t offset = gravel::detail::task_words::none;  ///< of the counter in the heap; `none`: no signal
  int pe = -1;                                         ///< PE of the counter; -1: the PE that runs the task
  /// Returns the same signal at a certain PE.
  /// @param which 0 to gravel_n_pes(g) - 1
  GRAVEL_BOTH gravel_signal at(int which) const { return {offset, which}; }
  /// Returns the word of this PE.
  /// @param g handle
  GRAVEL_BOTH uint64_t* word(const gravel_t& g) const { return reinterpret_cast<uint64_t*>(g.heap + offset); }
};
/// Waits until a signal of this PE is at least `value`.
/// @param g handle
/// @param signal from gravel_new_signal
/// @param value what it must reach
/// @scope lane, kernels of gravel_launch; host threads
/// @completion on return
/// @errors none; a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
/// @source OpenSHMEM 1.5: shmem_signal_wait_until
GRAVEL_BOTH void gravel_wait(const gravel_t& g, const gravel_signal& signal, uint64_t value) {
  gravel_wait_until(g, signal.word(g), GRAVEL_GE, value);
}

/// The handle that sends tasks, from gravel_task_queue::handle() for kernels and host_handle() for host threads. Plain
/// data.
struct gravel_task_handle {
  gravel_t g;
  gravel::detail::task_memory memory;
  gravel::detail::task_line* tickets;  ///< [PEs], then the own ring; for host threads in host memory
  const gravel_t* kept;                ///< a copy of g in memory, for functions that are not inlined
  bool in_worker;                      ///< the caller runs a task, which never waits for other PEs
  bool fenced;                         ///< the task sees what the caller wrote before in its PE's or peers' memory
  uint32_t opening;                    ///< number for gravel::check_open
};

/// The first argument of a running task. Thread scope of all members: the threads that run a block of the task.
/// @scope all threads of the task
/// @completion on return
/// @errors none
/// @source XTQ (SC 2016)
struct gravel_task_t {
  const gravel_task_handle& queue;  ///< to send tasks; queue.g is the handle for Gravel's operations
  gravel::detail::copy_team team;
  uint32_t block, blocks;
  uint64_t bytes;  ///< of the payload
  int from;        ///< PE that sent it

  /// Returns the number of the calling thread in its block of the task.
  GRAVEL_BOTH uint32_t rank() const { return team.rank(); }
  /// Returns the number of threads of the task's block.
  GRAVEL_BOTH uint32_t size() const { return team.size(); }
  /// Returns the number of the calling thread in the task.
  GRAVEL_BOTH uint32_t first() const { return block * team.size() + team.rank(); }
  /// Returns the number of threads of the task, in all its blocks.
  GRAVEL_BOTH uint32_t stride() const { return blocks * team.size(); }
  /// Waits for the threads of this block of the task.
  GRAVEL_BOTH void sync() const { team.sync(); }
};

namespace gravel::detail {

/// The parameters of a task's operator(): (const gravel_task_t&, T* target, const P* payload, A...).
template <class F>
struct task_operator {
  static constexpr bool known = false;
};
template <class H, class R, class T, class P, class... A>
struct task_operator<R (H::*)(const gravel_task_t&, T*, const P*, A...) const> {
  static constexpr bool known = std::is_void_v<R>;
  using target = T;
  using payload = P;
  template <class... B>
  static constexpr bool takes = sizeof...(A) == sizeof...(B);
  static constexpr bool copyable = (std::is_trivially_copyable_v<A> && ...);
  static constexpr uint32_t words = (0 + ... + static_cast<uint32_t>((sizeof(A) + 7) / 8));

  /// Writes the arguments to `to`, each in words of its own.
  GRAVEL_BOTH static void pack([[maybe_unused]] uint64_t* to, const A&... arguments) {
    [[maybe_unused]] uint32_t at = 0;
    [[maybe_unused]] const auto pack_one = [&](const auto& argument) {
      to[at + (sizeof(argument) - 1) / 8] = 0;
      __builtin_memcpy(static_cast<void*>(to + at), static_cast<const void*>(&argument), sizeof(argument));
      at += static_cast<uint32_t>((sizeof(argument) + 7) / 8);
    };
    (pack_one(arguments), ...);
  }
  template <class Task>
  GRAVEL_BOTH static void call(const gravel_task_t& t, void* target, const void* payload, const uint64_t* arguments) {
    call_each<Task>(t, target, payload, arguments, std::index_sequence_for<A...>());
  }

 private:
  GRAVEL_BOTH static constexpr uint32_t word_of(size_t i) {
    constexpr uint32_t sizes[] = {static_cast<uint32_t>((sizeof(A) + 7) / 8)..., 0};
    uint32_t at = 0;
    for (size_t before = 0; before < i; ++before) at += sizes[before];
    return at;
  }
#if GRAVEL_CUDA
#pragma nv_diagnostic push
#pragma nv_diag_suppress 20014  // a task is compiled for one side; the caller knows for which
#pragma nv_diag_suppress 20011
#endif
  template <class Task, size_t... I>
  GRAVEL_BOTH static void call_each(const gravel_task_t& t, void* target, const void* payload,
                                    [[maybe_unused]] const uint64_t* arguments, std::index_sequence<I...>) {
    Task{}(t, static_cast<T*>(target), static_cast<const P*>(payload), argument<A>(arguments + word_of(I))...);
  }
#if GRAVEL_CUDA
#pragma nv_diagnostic pop
#endif
  template <class X>
  GRAVEL_BOTH static X argument(const uint64_t* word) {
    unpacked_value<X> u;
    __builtin_memcpy(static_cast<void*>(&u.value), word, sizeof(X));
    return u.value;
  }
};

template <class Task>
constexpr gravel_task_shape shape_of() {
  if constexpr (requires { Task::shape; }) return Task::shape;
  else return {};
}

/// Checks the rules of a task. The compiler prints one line for each broken rule.
template <class Task>
struct task_check {
  static_assert(has_name<Task>, "a task has a name: static constexpr const char* name = \"...\";");
  using call = task_operator<decltype(&Task::operator())>;
  static_assert(call::known,
                "a task has one operator(): GRAVEL_DEVICE void operator()(const gravel_task_t& t, T* target, const P* "
                "payload, arguments...) const");
  static_assert(call::copyable, "a task's arguments are copied byte by byte: use trivially copyable types");
  static_assert(call::words <= task_words::most_arguments,
                "a task takes up to 80 bytes of arguments, each in words of 8: use the payload");
  static_assert(std::is_empty_v<Task>, "a task is made anew for each command: it has no members");
  static constexpr gravel_task_shape shape = shape_of<Task>();
  static_assert(shape.blocks >= 1 && shape.blocks <= 65535 && shape.threads >= 32 && shape.threads <= 1024 &&
                    shape.threads % 32 == 0,
                "a task's shape has 1 to 65535 blocks of 32 to 1024 threads, in whole warps");
  static constexpr bool on_host = runs_on_host<Task>();
  static constexpr task_start start_of_shape() {
    if (on_host) return task_start::on_host;
    if (shape.start != task_start::shaped) return shape.start;
    return shape.blocks == 1 && shape.threads == 32 ? task_start::warp : task_start::workers;
  }
  static constexpr task_start start = start_of_shape();
  static constexpr bool good = true;
};
}  // namespace gravel::detail
