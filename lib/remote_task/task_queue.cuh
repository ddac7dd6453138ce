// gravel_task_queue: tasks that kernels and hosts of other PEs start at this PE. Resident workers, kernels of their
// own, or a thread of the host run them.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "device/watched_wait.cuh"
#include "host/pe/libgravel.hpp"
#include "host/pe/services.hpp"
#include "lib/base/error.hpp"
#include "lib/remote_task/task_host.cuh"
#include "lib/remote_task/task_worker.cuh"

/// Options of a queue, the same at all PEs.
struct gravel_task_queue_options {
  uint32_t workers = 8;  ///< of each PE, 1 to 256: blocks of a resident kernel
  uint32_t slots = 64;   ///< of each ring, a power of two, 2 to 65536: most tasks of one sender at a PE at once
  uint32_t payload_bytes = 4096;  ///< the largest payload of a task
};

/// Makes a signal: a word of each PE's symmetric heap, 0 at first. Collective.
/// @return the signal; gravel_free_signal frees it
/// @scope the program's host thread
/// @completion on return
/// @errors gravel::error if there is no room
/// @source OpenSHMEM 1.5, signals
inline gravel_signal gravel_new_signal() {
  const auto* word = gravel_malloc<char>(sizeof(uint64_t));
  return {static_cast<uint64_t>(word - gravel_handle().heap)};
}
/// Frees a signal. Collective.
/// @param signal from gravel_new_signal
/// @scope the program's host thread
/// @completion on return: all operations that PEs have sent are complete
/// @errors gravel::error if it is no signal
/// @source OpenSHMEM 1.5, signals
inline void gravel_free_signal(const gravel_signal& signal) { gravel_free(signal.word(gravel_handle())); }
/// Waits until a signal of this PE is at least `value`.
/// @param signal from gravel_new_signal
/// @param value what it must reach
/// @scope any host thread
/// @completion on return
/// @errors none; a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
/// @source OpenSHMEM 1.5: shmem_signal_wait_until
inline void gravel_wait(const gravel_signal& signal, uint64_t value) {
  gravel_wait(gravel_host_handle(), signal, value);
}
/// Makes a stream wait until a signal of this PE is at least `value`.
/// @param signal from gravel_new_signal
/// @param value what it must reach
/// @param stream nullptr: the PE's own
/// @scope any host thread
/// @completion returns at once
/// @errors gravel::error if the device cannot wait in a stream; then nothing is put into the stream
/// @source NVSHMEM: nvshmemx_signal_wait_until_on_stream
inline void gravel_wait(const gravel_signal& signal, uint64_t value, gravel_stream_t stream) {
  gravel_stream_wait(stream, signal.word(gravel_handle()), value);
}
/// Returns the value of a signal of this PE.
/// @param signal from gravel_new_signal
/// @return the current value
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source OpenSHMEM 1.5: shmem_signal_fetch
inline uint64_t gravel_read(const gravel_signal& signal) {
  uint64_t value = 0;
  gravel::detail::current_backend().read_words(&value, signal.word(gravel_handle()), 1);
  return value;
}

namespace gravel::detail {

/// A number that no other open queue of this PE has. PEs open and close queues together, so all PEs choose the same
/// number.
class task_queue_number {
 public:
  task_queue_number() {
    while (value_ < most && taken_ >> value_ & 1) ++value_;
    if (value_ == most) fail_text("task queue: " + std::to_string(most) + " are open; there may be no more");
    taken_ |= uint64_t{1} << value_;
  }
  ~task_queue_number() { taken_ &= ~(uint64_t{1} << value_); }
  task_queue_number(const task_queue_number&) = delete;
  task_queue_number& operator=(const task_queue_number&) = delete;
  uint32_t value() const { return value_; }

 private:
  static constexpr uint32_t most = 32;
  GRAVEL_API static inline uint64_t taken_ = 0;
  uint32_t value_ = 0;
};

}  // namespace gravel::detail

/// A queue of all PEs for these tasks. It is open from its constructor to close() or its destructor; several queues may
/// be open. All members except handle(), host_handle() and bytes() are collective. The program passes
/// gravel_task_delivery to gravel_init. Thread scope: the program's host thread.
/// @scope the program's host thread; collective, except handle(), host_handle() and bytes()
/// @completion on return
/// @errors gravel::error
/// @source XTQ (SC 2016)
template <class... Tasks>
class gravel_task_queue {
 public:
  /// Opens a queue. Throws gravel::error, on all PEs, if options or tasks are invalid, if they differ between PEs (the
  /// message names both), or if there is no room.
  /// @param how the same at all PEs
  explicit gravel_task_queue(const gravel_task_queue_options& how = {}) : exceptions_(std::uncaught_exceptions()) {
    static_assert((gravel::detail::task_check<Tasks>::good && ...));
    const auto n_pes = static_cast<uint32_t>(gravel_n_pes());
    check(how, n_pes);
    number_.emplace();
    agree(how, number_->value());
    // The service is opened first, so that a refusal comes before anything is allocated.
    service_ = std::make_unique<gravel::detail::open_service>(gravel::detail::service_description{
        number_->value() ? "tasks " + std::to_string(number_->value()) : std::string("tasks"),
        gravel::detail::service_shape::without_messages(how.workers), threads, 0,
        reinterpret_cast<const void*>(&gravel::detail::work<threads, Tasks...>)});
    const gravel::detail::task_shape shape{n_pes, how.slots, how.payload_bytes, how.workers};
    memory_ = gravel_malloc<char>(shape.bytes() + sizeof(gravel_t));
    const gravel_t g = gravel_handle();
    kept_ = reinterpret_cast<gravel_t*>(memory_ + shape.bytes());
    gravel_copy(kept_, &g, sizeof(g));
    at_ = gravel::detail::task_memory::of(static_cast<uint64_t>(memory_ - g.heap), shape, number_->value());
    host_tickets_ = std::make_unique<gravel::detail::task_line[]>(n_pes);
    gravel_task_handle inside = for_kernels(), on_host = for_host();
    inside.in_worker = inside.fenced = true;
    inside.opening = on_host.opening = 0;
    host_.emplace(gravel::detail::task_hosting{inside, on_host, shape.descriptors()},
                  gravel::detail::task_host::runner_of<Tasks...>());
    const gravel::detail::task_place place{host_->descriptors()};
    load(inside, place);
    write_record({at_.at + 1, at_.at + shape.bytes(), at_.asleep(static_cast<uint32_t>(gravel_my_pe())),
                  service_->view().control});
    service_->start([inside, place, view = service_->view(), life = service_->life(), workers = how.workers](
                        [[maybe_unused]] void* stream, uint64_t number) {
#if GRAVEL_CUDA
      gravel::detail::work<threads, Tasks...>
          <<<workers, threads, 0, static_cast<cudaStream_t>(stream)>>>(inside, place, view, life, number);
#else
      (void)workers;
      gravel::detail::work<threads, Tasks...>(inside, place, view, life, number);
#endif
    });
  }
  /// Calls close(), unless an exception passes: then the other PEs may never call it, and tasks that have not ended are
  /// lost.
  ~gravel_task_queue() noexcept(false) {
    try {
      if (std::uncaught_exceptions() == exceptions_) close();
      else forget_record();
    } catch (...) {
      forget_record();
      throw;
    }
  }
  /// @internal
  gravel_task_queue(const gravel_task_queue&) = delete;
  gravel_task_queue& operator=(const gravel_task_queue&) = delete;

  /// Returns the handle for kernels of gravel_launch, valid until close().
  gravel_task_handle handle() const {
    check_open("handle()");
    return for_kernels();
  }
  /// Returns the handle for host threads that put tasks.
  gravel_task_handle host_handle() const {
    check_open("host_handle()");
    return for_host();
  }

  /// Registers memory of the symmetric heap: payloads may go into it (gravel_payload::into) until close(). Throws, at
  /// all PEs, if it is not the same memory at all of them, if it does not lie in the heap, or if 64 buffers are
  /// registered.
  /// @param memory symmetric address; it stays allocated until close()
  /// @param bytes of the buffer
  /// @return the buffer, the same at all PEs
  gravel_task_buffer register_buffer(void* memory, uint64_t bytes) {
    using namespace gravel::detail;
    check_open("register_buffer()");
    const gravel_t g = gravel_handle();
    const task_buffer_entry mine{offset_in_heap(g, memory), bytes};
    std::vector<task_buffer_entry> all(static_cast<size_t>(gravel_n_pes()));
    gravel_allgather(all.data(), &mine, 1);
    for (size_t pe = 0; pe < all.size(); ++pe) {
      const task_buffer_entry &one = all[pe], &first = all[0];
      if (one.bytes == 0 || !lies_in_heap(one.offset, one.bytes, g.heap_bytes))
        refuse("register_buffer: PE " + std::to_string(pe) + " registers " + std::to_string(one.bytes) +
               " bytes that do not lie in its symmetric heap (gravel_malloc)");
      if (one.offset != first.offset || one.bytes != first.bytes)
        refuse("register_buffer: PE 0 registers " + std::to_string(first.bytes) + " bytes at offset " +
               std::to_string(first.offset) + " of the heap, PE " + std::to_string(pe) + " " +
               std::to_string(one.bytes) + " at offset " + std::to_string(one.offset));
    }
    if (buffers_ == buffer_place::most_buffers)
      refuse("register_buffer: " + std::to_string(buffers_) + " buffers are registered; there may be no more");
    ++buffers_;
    gravel_copy(memory_ + at_.buffer(buffers_) - at_.at, &mine, sizeof(mine));
    gravel_barrier_all();  // no payload arrives before the table has it
    return {mine.offset, mine.bytes, 0, buffers_};
  }

  /// Returns the symmetric memory of a queue, in bytes, at each of `n_pes` PEs.
  /// @param how options of the queue
  /// @param n_pes number of PEs of the job
  static uint64_t bytes(const gravel_task_queue_options& how, int n_pes) {
    return gravel::detail::task_shape{static_cast<uint32_t>(n_pes), how.slots, how.payload_bytes, how.workers}.bytes() +
           sizeof(gravel_t);
  }

  /// Returns when all tasks that any PE has sent have ended, including tasks that tasks have sent. No kernel that sends
  /// tasks may run.
  void wait() {
    check_open("wait()");
    check_same_queue("wait()");
    gravel_synchronize();
    uint64_t ended_before = ~uint64_t{0};
    for (gravel::detail::watched_wait wait;;) {
      // A task that a task sends has its ticket before the sending task is counted as ended. So if all tickets of this
      // sample had ended in the sample before, nothing was left between the two.
      uint64_t sums[2] = {ended(), 0};
      sums[1] = sent();
      gravel_sum_all(sums, sums, 2);
      if (sums[1] == ended_before) return;
      ended_before = sums[0];
      wait.attentively([&] {
        return "the tasks of a gravel_task_queue to end: " + std::to_string(sums[0]) + " of " +
               std::to_string(sums[1]) + " have, at all PEs";
      });
    }
  }
  /// Calls wait(), then ends the workers.
  void close() {
    if (!service_) return;
    wait();
    service_->close();
    write_record({});
    service_.reset();
    host_.reset();
    gravel_free(memory_);
    number_.reset();
    open_.reset();
  }

 private:
  static constexpr uint32_t threads = std::max({gravel::detail::shape_of<Tasks>().threads...});

  /// Loads kernels that may have to start while others run and wait for them, and reserves their local memory.
  /// Otherwise CUDA would wait for the others at the first launch.
  static void load([[maybe_unused]] const gravel_task_handle& q,
                   [[maybe_unused]] const gravel::detail::task_place& place) {
#if GRAVEL_CUDA
    gravel_launch(gravel::detail::work<threads, Tasks...>, 1, threads, q, place, gravel::detail::service_view{},
                  static_cast<gravel::detail::service_life*>(nullptr), uint64_t{0});
    (load_alone<Tasks>(q), ...);
    gravel_synchronize();
#endif
  }
  template <class Task>
  static void load_alone([[maybe_unused]] const gravel_task_handle& q) {
#if GRAVEL_CUDA
    if constexpr (!gravel::detail::task_check<Task>::on_host)
      gravel_launch(gravel::detail::run_alone<Task>, 1, gravel::detail::task_check<Task>::shape.threads, q, 0u,
                    uint64_t{0}, uint64_t{0});
#endif
  }
  /// A description of a task, which all PEs compare.
  struct record {
    char name[48];
    gravel_task_shape shape;
    uint32_t words;
    bool operator==(const record& o) const {
      return std::strcmp(name, o.name) == 0 && shape.blocks == o.shape.blocks && shape.threads == o.shape.threads &&
             shape.start == o.shape.start && words == o.words;
    }
    /// @internal
    std::string text() const {
      return "'" + std::string(name) + "' (" + std::to_string(shape.blocks) + " blocks of " +
             std::to_string(shape.threads) + " threads, " + std::to_string(words) + " words of arguments)";
    }
  };
  template <class Task>
  static record record_of() {
    record r{};
    std::strncpy(r.name, Task::name, sizeof(r.name) - 1);
    r.shape = gravel::detail::shape_of<Task>();
    r.words = gravel::detail::task_check<Task>::call::words;
    return r;
  }
  static std::string text_of(const gravel_task_queue_options& how) {
    return std::to_string(how.workers) + " workers, " + std::to_string(how.slots) + " slots, " +
           std::to_string(how.payload_bytes) + " bytes of payload, ";
  }
  static void refuse(const std::string& why) { gravel::detail::fail_text("task queue: " + why); }
  static void check(const gravel_task_queue_options& how, uint32_t n_pes) {
    if (how.workers < 1 || how.workers > 256) refuse(std::to_string(how.workers) + " workers; there may be 1 to 256");
    if (how.slots < 2 || how.slots > 65536 || (how.slots & (how.slots - 1)) != 0)
      refuse(std::to_string(how.slots) + " slots; it is a power of two, 2 to 65536");
    if (how.payload_bytes > 1u << 30)
      refuse(std::to_string(how.payload_bytes) + " bytes of payload; there may be up to 2^30");
    const gravel::detail::handler_table all = gravel::detail::current_backend().handlers();
    if (std::none_of(all.begin(), all.end(),
                     [](const auto& h) { return h.id == gravel::detail::handler_id<gravel_task_delivery>::value; }))
      refuse("gravel_init did not receive its handler: gravel_init<gravel_task_delivery>()");
    if (2 * n_pes + 1 > gravel::detail::resident_worker<Tasks...>::most_rings)
      refuse(std::to_string(n_pes) + " PEs; a queue serves up to 255");
  }
  /// Compares options and tasks of all PEs. Each PE gets the data of all, so that all find the same mistake.
  static void agree(const gravel_task_queue_options& how, uint32_t number) {
    const uint64_t n = static_cast<uint64_t>(gravel_n_pes()), each = sizeof...(Tasks);
    const record mine[] = {record_of<Tasks>()...};
    struct header {
      gravel_task_queue_options how;
      uint32_t tasks, number;
    } own{how, static_cast<uint32_t>(each), number};
    std::vector<header> headers(n);
    gravel_allgather(headers.data(), &own, 1);
    for (uint64_t pe = 1; pe < n; ++pe) {
      if (headers[0].number != headers[pe].number)
        refuse("it is number " + std::to_string(headers[0].number) + " of those open at PE 0, and " +
               std::to_string(headers[pe].number) + " at PE " + std::to_string(pe) +
               ": queues are opened and closed by all PEs together");
      const gravel_task_queue_options &a = headers[0].how, &b = headers[pe].how;
      if (a.workers != b.workers || a.slots != b.slots || a.payload_bytes != b.payload_bytes ||
          headers[0].tasks != headers[pe].tasks)
        refuse("PE 0 opens " + text_of(a) + std::to_string(headers[0].tasks) + " tasks; PE " + std::to_string(pe) +
               " " + text_of(b) + std::to_string(headers[pe].tasks) + " tasks");
    }
    std::vector<record> all(n * each);
    gravel_allgather(all.data(), mine, each);
    for (uint64_t pe = 1; pe < n; ++pe)
      for (uint64_t i = 0; i < each; ++i)
        if (!(all[pe * each + i] == all[i]))
          refuse("task " + std::to_string(i) + " is " + all[i].text() + " at PE 0, and " + all[pe * each + i].text() +
                 " at PE " + std::to_string(pe));
    for (uint64_t i = 0; i < each; ++i)
      for (uint64_t j = 0; j < i; ++j)
        if (std::strcmp(mine[i].name, mine[j].name) == 0)
          refuse("two tasks are named '" + std::string(mine[i].name) + "'");
  }

  /// Checks that all PEs wait for the same queue: sums over different queues would never be equal.
  void check_same_queue(const char* call) const {
    const uint32_t mine = number_->value();
    std::vector<uint32_t> all(static_cast<size_t>(gravel_n_pes()));
    gravel_allgather(all.data(), &mine, 1);
    for (size_t pe = 1; pe < all.size(); ++pe)
      if (all[pe] != all[0])
        refuse(std::string(call) + ", or close(): PE 0 calls it for queue " + std::to_string(all[0]) + ", PE " +
               std::to_string(pe) + " for queue " + std::to_string(all[pe]) +
               " (in the order of opening, from 0): all PEs close the same one");
  }
  void write_record(const gravel::detail::task_queue_record& r) const { gravel_copy(memory_, &r, sizeof(r)); }
  /// Closes the queue at this PE only: a command that arrives later is reported.
  void forget_record() noexcept {
    try {
      if (service_) write_record({});
    } catch (...) {
    }
  }
  void check_open(const char* call) const {
    if (!service_) gravel::detail::refuse_closed(call, "the task queue", "");
  }
  gravel_task_handle for_kernels() const {
    return handle(
        gravel_handle(),
        reinterpret_cast<gravel::detail::task_line*>(memory_ + at_.line(gravel::detail::task_memory::tickets) - at_.at),
        kept_);
  }
  gravel_task_handle for_host() const { return handle(gravel_host_handle(), host_tickets_.get(), &kept_on_host_); }
  gravel_task_handle handle(const gravel_t& g, gravel::detail::task_line* tickets, const gravel_t* kept) const {
    return {g, at_, tickets, kept, false, true, service_ ? service_->opening() : 0};
  }
  uint64_t word(uint64_t offset) const {
    uint64_t value = 0;
    gravel::detail::current_backend().read_words(&value, reinterpret_cast<const uint64_t*>(memory_ + offset - at_.at),
                                                 1);
    return value;
  }
  uint64_t ended() const { return word(at_.line(gravel::detail::task_memory::ended)) + host_->ended(); }
  uint64_t sent() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= at_.shape.n_pes; ++i) sum += word(at_.line(gravel::detail::task_memory::tickets + i));
    for (uint32_t i = 0; i < at_.shape.n_pes; ++i) sum += gravel::detail::load_acquire(&host_tickets_[i].tickets);
    return sum;
  }

  std::optional<gravel::detail::open_object> open_{std::in_place, "gravel_task_queue"};
  std::optional<gravel::detail::task_queue_number> number_;
  char* memory_ = nullptr;
  gravel_t* kept_ = nullptr;  ///< in device memory
  gravel_t kept_on_host_ = gravel_host_handle();
  gravel::detail::task_memory at_{};
  std::unique_ptr<gravel::detail::task_line[]> host_tickets_;
  std::optional<gravel::detail::task_host> host_;
  std::unique_ptr<gravel::detail::open_service> service_;
  uint32_t buffers_ = 0;  ///< that are registered
  int exceptions_ = 0;
};
