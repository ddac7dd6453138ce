// gravel_task_reducer: allreduce as a schedule of puts whose tasks reduce, as in XTQ (SC 2016, section on collectives).
// gravel_allreduce (lib/allreduce) instead has one kernel at each PE that moves all data.
//
// Problem. Nothing may run at a PE beside the tasks that come, and none of them may wait for another one.
// Solution. A ring: the array is divided into pieces, each PE begins with its own, and each piece goes round as one
// chain of tasks (task_chain.cuh). The first half of the chain combines at each PE what came with that PE's own
// elements; the other half stores the result at each PE. What travels goes straight into registered buffers: into
// `partial` for a task that combines, into `to` for one that stores.
//
// Protocol, for a piece that begins at PE p of n; at the same time n * chains pieces go round:
//   step            at PE        payload from, into        the task                        signal
//   1 .. n - 2      p + step     from or to, `partial`     to = payload combined with from
//   n - 1           p + n - 1    to, `partial`             the same: now `to` is right     `done` there += 1
//   n .. 2n - 2     p + step     to, to                    nothing: its payload is there   `done` there += 1
//
// A chain begins when all PEs have said, by a word for each chain, that they have entered the call [T5]: then `from` is
// written everywhere, and nobody reads the last `to`. So the wait is in front of the tasks.
//
// Invariants.
// - In each call `done` rises at each PE by the number of pieces. Then the PE's `to` is whole, and no task there
//   reads it any more, as a task's step is sent before its signal rises.
// - A PE that has entered a call has room for its tasks: the pieces that are not done here never exceed the slots.
//
// Model: test/models/task_ring.pml.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/element.hpp"
#include "lib/remote_task/task_queue.cuh"

namespace gravel::detail {

/// The name of a task of a ring, another one for each kind, operation and type.
template <char KIND, gravel_reduction HOW, class T>
struct ring_task_name {
  static constexpr char text[] = {'g',
                                  'r',
                                  'a',
                                  'v',
                                  'e',
                                  'l',
                                  ' ',
                                  'r',
                                  'i',
                                  'n',
                                  'g',
                                  ' ',
                                  KIND,
                                  '0' + static_cast<char>(HOW),
                                  '0' + static_cast<char>(element<T>::type),
                                  0};
};

/// Combines words from `i` to `end`: to = came combined with mine. `Word`: one or several T that are loaded at once.
/// Returns where the thread stopped. Thread scope: the threads of a task, each for its own words.
template <gravel_reduction HOW, class T, class Word, uint32_t AT_ONCE>
GRAVEL_DEVICE uint64_t combine_words(Word* to, const Word* came, const Word* mine, uint64_t i, uint64_t end,
                                     uint64_t step) {
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    Word a[AT_ONCE], b[AT_ONCE];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) a[k] = came[i + k * step];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) b[k] = mine[i + k * step];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) {
      combination<HOW, T, Word> all;
      all.begin(a[k]);
      all.add(b[k]);
      to[i + k * step] = all.result();
    }
  }
  return i;
}

constexpr uint32_t ring_threads = GRAVEL_CUDA ? 512 : 64;

/// Combines a piece with this PE's own elements, at offset `from` in the heap.
template <gravel_reduction HOW, class T>
struct combine_piece {
  static constexpr const char* name = ring_task_name<'c', HOW, T>::text;
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = ring_threads};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, T* to, const T* payload, uint64_t from) const {
    const T* const mine = reinterpret_cast<const T*>(t.queue.g.heap + from);
    const uint64_t count = t.bytes / sizeof(T);
    constexpr uint32_t n = sizeof(unit) / sizeof(T);
    const uint64_t places =
        reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(payload) | reinterpret_cast<uint64_t>(mine);
    const uint64_t units = places % sizeof(unit) == 0 ? count / n : 0;
    unit* const to_units = reinterpret_cast<unit*>(to);
    const unit* const came_units = reinterpret_cast<const unit*>(payload);
    const unit* const my_units = reinterpret_cast<const unit*>(mine);
    uint64_t i = combine_words<HOW, T, unit, 4>(to_units, came_units, my_units, t.first(), units, t.stride());
    combine_words<HOW, T, unit, 1>(to_units, came_units, my_units, i, units, t.stride());
    combine_words<HOW, T, T, 1>(to, payload, mine, units * n + t.first(), count, t.stride());
  }
};
/// The payload is in its place already.
template <gravel_reduction HOW, class T>
struct store_piece {
  static constexpr const char* name = ring_task_name<'s', HOW, T>::text;
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = ring_threads};
  GRAVEL_DEVICE void operator()(const gravel_task_t&, T*, const T*) const {}
};

/// The words of one chain of a reducer, at each PE.
struct alignas(64) chain_line {
  uint64_t entered;  ///< how often other PEs have entered a call that has this chain; they raise it [T5]
  uint64_t calls;    ///< of this PE that had this chain
  uint64_t awaited;  ///< what `done` is when all calls of this PE have ended
  uint64_t spare[5];
};

/// How a call divides its range. All PEs divide it alike.
struct ring_division {
  static constexpr uint64_t bytes_of_piece = 8192;  ///< below this a chain is not divided further
  uint32_t chains;
  uint64_t each;  ///< elements of a piece; the last ones may be shorter, or empty

  GRAVEL_BOTH static ring_division of(uint64_t count, uint32_t element_bytes, uint32_t n_pes, uint32_t most_chains) {
    const uint64_t wanted = (count * element_bytes + n_pes * bytes_of_piece - 1) / (n_pes * bytes_of_piece);
    uint32_t chains = wanted < most_chains ? static_cast<uint32_t>(wanted) : most_chains;
    if (chains == 0) chains = 1;
    const uint64_t pieces = uint64_t{chains} * n_pes, aligned = sizeof(unit) / element_bytes;
    return {chains, ((count + pieces - 1) / pieces + aligned - 1) / aligned * aligned};
  }
};

}  // namespace gravel::detail

/// Options of a reducer by tasks, the same at all PEs.
struct gravel_task_reducer_options {
  uint32_t chains = GRAVEL_CUDA ? 16 : 4;   ///< that each PE begins for a large array, 1 to 64
  uint32_t workers = GRAVEL_CUDA ? 16 : 4;  ///< of each PE, 1 to 256
  uint32_t slots = 0;                       ///< of the queue; 0: as the reducer chooses
};

/// The reducer as kernels see it, from gravel_task_reducer::handle(). Plain data.
template <class T, gravel_reduction HOW = GRAVEL_SUM>
struct gravel_task_reducer_handle {
  gravel_task_handle queue;
  const T* from;
  T* to;
  uint64_t count;
  gravel_task_buffer result, partial;
  gravel_signal done;
  gravel::detail::chain_line* lines;  ///< [chains]
  uint64_t* steps;                    ///< [chains][step_words]: memory for the steps of the chains
  uint32_t chains, step_words;
};

namespace gravel::detail {

template <class T, gravel_reduction HOW>
GRAVEL_BOTH void put_piece(const gravel_task_reducer_handle<T, HOW>& r, uint32_t chain, uint64_t first, uint64_t end,
                           uint64_t each) {
  const uint32_t n = r.queue.g.n_pes, me = r.queue.g.my_pe;
  const uint64_t wanted = first + (uint64_t{chain} * n + me) * each, begin = wanted < end ? wanted : end,
                 count = end - begin < each ? end - begin : each, bytes = count * sizeof(T);
  T* const to = r.to + begin;
  const auto from = static_cast<uint64_t>(reinterpret_cast<const char*>(r.from + begin) - r.queue.g.heap);
  const auto pe_of = [&](uint32_t step) { return static_cast<int>((me + step) % n); };
  const auto into = [&](uint32_t step) { return (step < n ? r.partial : r.result).at(begin * sizeof(T)); };
  auto pieces = gravel_make_task<combine_piece<HOW, T>>(r.queue, pe_of(1), to, {{r.from + begin, bytes}, {}, into(1)},
                                                        n == 2 ? r.done : gravel_signal{}, from)
                    .steps_in(r.steps + uint64_t{chain} * r.step_words, r.step_words);
  for (uint32_t step = 2; step < n; ++step)
    pieces.template then<combine_piece<HOW, T>>(pe_of(step), to, {to, bytes, into(step)},
                                                step == n - 1 ? r.done : gravel_signal{}, from);
  for (uint32_t step = n; step <= 2 * n - 2; ++step)
    pieces.template then<store_piece<HOW, T>>(pe_of(step), to, {to, bytes, into(step)}, r.done);
  pieces.put();
}

}  // namespace gravel::detail

/// Starts the reduction of a range of the arrays of a reducer: when all PEs have called it, tasks do the rest, and
/// `done` rises at each PE by the number of pieces (gravel_task_allreduce_wait). Ranges of calls that have not ended
/// must not overlap.
/// @param r from gravel_task_reducer::handle(), of a kernel that was started when `from` was written
/// @param first number of elements in front of the range, of `from` and `to`; the same at all PEs
/// @param count number of elements of the range, the same at all PEs
/// @scope all threads of a grid of `r.chains` blocks or fewer; waits for the other PEs' calls
/// @completion gravel_task_allreduce_wait
/// @errors a range outside the arrays: the job ends with a message
/// @source MPI_Iallreduce; XTQ (SC 2016), allreduce
template <class T, gravel_reduction HOW>
GRAVEL_DEVICE void gravel_task_allreduce_start(const gravel_task_reducer_handle<T, HOW>& r, uint64_t first,
                                               uint64_t count) {
  using namespace gravel::detail;
  const gravel_t& g = r.queue.g;
  if (first > r.count || count > r.count - first) {
    if (threadIdx.x == 0)
      report_error(g, message_fault::bad_reduction, op::none, g.my_pe,
                   static_cast<uint64_t>(reduction_fault::outside_heap), count);
    return;
  }
  const ring_division by = ring_division::of(count, sizeof(T), g.n_pes, r.chains);
  const bool is_alone = g.n_pes == 1;
  if (is_alone)
    for (uint64_t i = first + blockIdx.x * blockDim.x + threadIdx.x; i < first + count; i += gridDim.x * blockDim.x)
      r.to[i] = r.from[i];
  if (threadIdx.x == 0) {
    for (uint32_t c = blockIdx.x; c < r.chains; c += gridDim.x)
      r.lines[c].awaited += is_alone ? 0 : by.chains * g.n_pes;
    for (uint32_t c = blockIdx.x; c < by.chains; c += gridDim.x) {
      ++r.lines[c].calls;
      for (uint32_t pe = 0; pe < g.n_pes; ++pe)
        if (pe != g.my_pe) gravel_inc(g, &r.lines[c].entered, static_cast<int>(pe));  // [T5]
    }
    gravel_flush(g);
  }
  for (uint32_t c = blockIdx.x; c < by.chains && !is_alone; c += gridDim.x) {
    if (threadIdx.x == 0)
      gravel_wait_until(g, &r.lines[c].entered, GRAVEL_GE, r.lines[c].calls * (g.n_pes - 1));  // [T5]
    __syncthreads();
    put_piece(r, c, first, first + count, by.each);
  }
}
/// Waits until all calls of gravel_task_allreduce_start of this PE have ended: `to` has the results.
/// @param r from gravel_task_reducer::handle()
/// @scope as gravel_task_allreduce_start, the same grid
/// @completion on return
/// @errors none; a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
/// @source MPI_Wait
template <class T, gravel_reduction HOW>
GRAVEL_DEVICE void gravel_task_allreduce_wait(const gravel_task_reducer_handle<T, HOW>& r) {
  if (threadIdx.x == 0 && blockIdx.x < r.chains) gravel_wait(r.queue.g, r.done, r.lines[blockIdx.x].awaited);
  __syncthreads();
}

namespace gravel::detail {

template <class T, gravel_reduction HOW>
__global__ void __launch_bounds__(ring_threads)
    start_task_allreduce(const __grid_constant__ gravel_task_reducer_handle<T, HOW> r, uint64_t first, uint64_t count) {
  gravel_task_allreduce_start(r, first, count);
}

}  // namespace gravel::detail

/// Sums (or other reductions) over all PEs of two symmetric arrays, by tasks. Elements are combined in the order of the
/// ring, beginning with another PE for each piece; the result is the same at all PEs, bit for bit. Beside others: each
/// reducer has a gravel_task_queue of its own. The program passes gravel_task_delivery to gravel_init.
/// @scope the program's host thread; collective, except handle() and wait()
/// @completion on return
/// @errors gravel::error
/// @source MPI_Allreduce_init; XTQ (SC 2016), allreduce
template <class T, gravel_reduction HOW = GRAVEL_SUM>
class gravel_task_reducer {
 public:
  /// Opens a reducer. Throws gravel::error, on all PEs, if arguments are invalid or differ, or if there is no room.
  /// @param to [count], symmetric: the results
  /// @param from [count], symmetric: what this PE contributes; it may be `to`, and must not overlap it otherwise
  /// @param count number of elements, more than 0
  /// @param how the same at all PEs
  gravel_task_reducer(T* to, const T* from, uint64_t count, const gravel_task_reducer_options& how = {})
      : from_(from), to_(to), count_(count), chains_(how.chains) {
    using namespace gravel::detail;
    const auto n = static_cast<uint32_t>(gravel_n_pes());
    const gravel_t g = gravel_handle();
    const terms mine{offset_in_heap(g, from), offset_in_heap(g, to), count, how.chains, how.slots};
    agree(mine);
    const auto is_good = [&](uint64_t offset) {
      return lies_in_heap(offset, count * sizeof(T), g.heap_bytes) && offset % sizeof(T) == 0;
    };
    const bool has_elements = count != 0 && count <= g.heap_bytes / sizeof(T);
    if (chains_ < 1 || chains_ > 64 || !has_elements || !is_good(mine.from) || !is_good(mine.to))
      fail_text("gravel_task_reducer: it takes 1 to 64 chains and symmetric arrays with at least one element");
    if (how.slots != 0 && how.slots < n * chains_)
      fail_text("gravel_task_reducer: " + std::to_string(how.slots) + " slots; " + std::to_string(n) + " PEs with " +
                std::to_string(chains_) + " chains each need " + std::to_string(n * chains_));
    const bool stages = !g.all_mapped;  // a task that has to wait keeps its payload
    const ring_division all = ring_division::of(count, sizeof(T), n, chains_);
    const uint64_t piece = std::max(all.each * sizeof(T), ring_division::bytes_of_piece + sizeof(unit));
    step_words_ = 7 * (2 * n - 2) + 1;
    uint32_t slots = how.slots ? how.slots : 2;
    while (how.slots == 0 && slots < std::max(n * chains_, stages ? 0u : 1024u)) slots *= 2;
    slots_ = slots;
    const uint64_t bytes = step_words_ * sizeof(uint64_t) + (stages ? piece : 0);
    queue_.emplace(gravel_task_queue_options{
        .workers = how.workers,
        .slots = slots,
        .payload_bytes = static_cast<uint32_t>(std::min(bytes, uint64_t{UINT32_MAX}))});  // it refuses too many
    partial_ = gravel_malloc<T>(count * sizeof(T));
    lines_ = gravel_malloc<chain_line>(chains_ * sizeof(chain_line));
    steps_ = gravel_malloc<uint64_t>(uint64_t{chains_} * step_words_ * sizeof(uint64_t));
    done_ = gravel_new_signal();
    result_buffer_ = queue_->register_buffer(to, count * sizeof(T));
    partial_buffer_ = queue_->register_buffer(partial_, count * sizeof(T));
  }
  /// Waits for all calls and closes the queue.
  ~gravel_task_reducer() noexcept(false) {
    if (!queue_) return;
    queue_.reset();
    gravel_free_signal(done_);
    gravel_free(steps_);
    gravel_free(lines_);
    gravel_free(partial_);
  }
  /// @internal
  gravel_task_reducer(const gravel_task_reducer&) = delete;
  gravel_task_reducer& operator=(const gravel_task_reducer&) = delete;

  /// Returns the handle for kernels of gravel_launch. A reducer is called by kernels or by hosts, not by both.
  gravel_task_reducer_handle<T, HOW> handle() const {
    return {queue_->handle(), from_,  to_,     count_,     result_buffer_, partial_buffer_, done_,
            lines_,           steps_, chains_, step_words_};
  }
  /// Starts the reduction of a range behind what is in the stream, and returns. Another call may follow at once, for
  /// another range.
  /// @param first number of elements in front of the range
  /// @param count number of elements of the range
  /// @param stream nullptr: the PE's own
  /// @return the value of done() at which this PE has the results
  uint64_t start(uint64_t first, uint64_t count, gravel_stream_t stream = nullptr) {
    using namespace gravel::detail;
    const auto n = static_cast<uint32_t>(gravel_n_pes());
    const uint64_t pieces = n == 1 ? 0 : uint64_t{n} * ring_division::of(count, sizeof(T), n, chains_).chains;
    if (awaited_ + pieces > slots_) gravel_wait(done_, awaited_ + pieces - slots_);
    awaited_ += pieces;
    gravel_launch(start_task_allreduce<T, HOW>,
                  gravel_launch_config{.grid = chains_, .block = ring_threads, .stream = stream}, handle(), first,
                  count);
    return awaited_;
  }
  /// Reduces the whole arrays.
  void allreduce() {
    start(0, count_);
    wait();
  }
  /// Waits until this PE has the results of all calls.
  void wait() {
    gravel_synchronize();
    gravel_wait(done_, awaited_);
  }
  /// Returns the signal that rises as results come (start), for kernels and streams that wait for it.
  gravel_signal done() const { return done_; }

 private:
  /// What must be the same at all PEs, beside what their queue compares.
  struct terms {
    uint64_t from, to;  ///< offsets in the heap
    uint64_t count, chains, slots;
    bool operator==(const terms&) const = default;
    /// @internal
    std::string text() const {
      return std::to_string(count) + " elements from offset " + std::to_string(from) + " of the heap to " +
             std::to_string(to) + ", " + std::to_string(chains) + " chains, " + std::to_string(slots) + " slots";
    }
  };
  /// Each PE gets the terms of all, so that all find the same mistake.
  static void agree(const terms& mine) {
    std::vector<terms> all(static_cast<size_t>(gravel_n_pes()));
    gravel_allgather(all.data(), &mine, 1);
    for (size_t pe = 1; pe < all.size(); ++pe)
      if (all[pe] != all[0])
        gravel::detail::fail_text("gravel_task_reducer: PE 0 opens " + all[0].text() + "; PE " + std::to_string(pe) +
                                  " " + all[pe].text());
  }

  const T* from_;
  T* to_;
  uint64_t count_;
  uint32_t chains_, step_words_ = 0, slots_ = 0;
  uint64_t awaited_ = 0;  ///< of `done`, by the host's calls
  std::optional<gravel_task_queue<gravel::detail::combine_piece<HOW, T>, gravel::detail::store_piece<HOW, T>>> queue_;
  T* partial_ = nullptr;
  gravel::detail::chain_line* lines_ = nullptr;
  uint64_t* steps_ = nullptr;
  gravel_signal done_{};
  gravel_task_buffer result_buffer_{}, partial_buffer_{};
};
