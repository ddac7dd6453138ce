// gravel_allreduce and gravel_reduce: arrays in the symmetric heap, combined over all PEs, element by element (docs/allreduce.md).
// Called by all threads of a kernel's grid, or by the host, which starts a kernel for it.
//
//   gravel_reducer reducer;                                              // collective
//   gravel_allreduce(reducer, to, from, count);                          // host: when it returns, the sum of all PEs is in `to`
//   gravel_allreduce_start<GRAVEL_MAX>(reducer, to, from, count, {.done = signal});   // at once; later *signal += 1
//   gravel_allreduce(reducer.handle(), to, from, count);                 // in a kernel
//
// Elements are combined in the order of the PEs, so the result is the same at all PEs, bit for bit, and in every run.
// T: float, double, gravel_half, gravel_bfloat16 (those two are combined in float and rounded once), integers of 4 and 8 bytes.
//
// What all calls of this file have in common:
// @param r from gravel_reducer::handle()
// @param reducer open at all PEs
// @param to [count] results: a symmetric address, the same at all PEs, of any alignment of T; data moves fastest at
//   multiples of 16 bytes. It may be `from`, and else does not overlap it
// @param from [count] contributions of this PE, a symmetric address, the same at all PEs
// @param count number of elements, the same at all PEs
// @param root the PE that gets the result; of other PEs `to` is not written
// @param how stream, word to wait for, word to raise
// @errors memory outside the heap, PEs whose calls differ: the job ends with a message; the host's calls throw
//   gravel::error for what cannot be
// @source MPI_Allreduce, MPI_Reduce; XTQ (SC 2016), reductions
#pragma once
#include "host/launch_alone.cuh"
#include "host/pe/libgravel.hpp"
#include "lib/allreduce/one_shot.cuh"
#include "lib/allreduce/reduce_by_messages.cuh"
#include "lib/allreduce/two_shot.cuh"

namespace gravel::detail {

/// Bytes of an array for which one more block is worth while: in one shot, by messages; in two shots.
constexpr uint64_t one_shot_bytes_of_block = 4096, two_shot_bytes_of_block = 16384;
/// Of a reduction that a host starts, in two shots: so many blocks move the data as fast as more do, and leave
/// multiprocessors to what is computed beside them; one more is worth while only for so many bytes.
constexpr uint32_t few_blocks = 16;
constexpr uint64_t bytes_of_further_block = 2 << 20;

enum class reduction_way : uint8_t { alone, one_shot, two_shots, messages };

/// How a grid of `most` blocks reduces `bytes` bytes: the same at all PEs.
struct reduction_plan {
  reduction_way way;
  uint32_t blocks;  ///< that take part

  GRAVEL_BOTH static reduction_plan of(const reducer_memory& m, uint64_t bytes, uint32_t most) {
    if (m.n_pes == 1) return {reduction_way::alone, blocks_for(bytes, two_shot_bytes_of_block, most)};
    const uint32_t few = blocks_for(bytes, one_shot_bytes_of_block, most);
    if (!m.directly) return {reduction_way::messages, few};
    const uint64_t words = (bytes + flagged_words::data_bytes - 1) / flagged_words::data_bytes;
    if ((words + few - 1) / few <= m.staged_units) return {reduction_way::one_shot, few};
    return {reduction_way::two_shots, blocks_for(bytes, two_shot_bytes_of_block, most)};
  }
  /// Of a kernel that a host starts.
  static uint32_t blocks_beside(const reducer_memory& m, uint64_t bytes) {
    const reduction_plan plan = of(m, bytes, m.blocks);
    return plan.way == reduction_way::two_shots
               ? std::min(plan.blocks, std::max(few_blocks, blocks_for(bytes, bytes_of_further_block, m.blocks)))
               : plan.blocks;
  }
  GRAVEL_BOTH static uint32_t blocks_for(uint64_t bytes, uint64_t each, uint32_t most) {
    const uint64_t wanted = (bytes + each - 1) / each;
    return wanted < 1 ? 1 : wanted < most ? static_cast<uint32_t>(wanted) : most;
  }
};

/// Reports what cannot be. Thread scope: block.
template <class T>
GRAVEL_DEVICE bool is_bad_reduction(const gravel_reducer_handle& r, const T* to, const T* from, uint64_t count,
                                    int root) {
  const auto to_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(to) - r.g.heap),
             from_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(from) - r.g.heap),
             bytes = count * sizeof(T);
  const bool fits = count <= r.g.heap_bytes / sizeof(T) && lies_in_heap(to_offset, bytes, r.g.heap_bytes) &&
                    lies_in_heap(from_offset, bytes, r.g.heap_bytes);
  const bool overlaps = to != from && to_offset < from_offset + bytes && from_offset < to_offset + bytes;
  reduction_fault fault;
  if (root != no_root && static_cast<uint32_t>(root) >= r.memory.n_pes) fault = reduction_fault::bad_root;
  else if (gridDim.x > r.memory.blocks) fault = reduction_fault::too_many_blocks;
  else if (count && !fits) fault = reduction_fault::outside_heap;
  else if (count && (to_offset | from_offset) % sizeof(T)) fault = reduction_fault::misaligned;
  else if (count && overlaps) fault = reduction_fault::overlapping;
  else return false;
  if (threadIdx.x == 0)
    report_error(r.g, message_fault::bad_reduction, op::none,
                 fault == reduction_fault::too_many_blocks ? r.memory.blocks : static_cast<uint32_t>(root),
                 static_cast<uint64_t>(fault), fault == reduction_fault::too_many_blocks ? gridDim.x : count);
  return true;
}

/// Of arguments that are equal at all PEs.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE uint32_t word_of_call(const gravel_reducer_handle& r, const T* to, const T* from, uint64_t count,
                                    int root) {
  const auto to_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(to) - r.g.heap),
             from_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(from) - r.g.heap);
  const uint64_t mixed =
      mix(mix(mix(count) + (count ? to_offset : 0)) + (count ? from_offset : 0) + static_cast<uint32_t>(root)) +
      gridDim.x;
  return reduction_call{HOW, element<T>::type, root != no_root, static_cast<uint32_t>(mix(mixed) >> 38)}.word();
}

template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_as_grid(const gravel_reducer_handle& r, T* to, const T* from, uint64_t count, int root) {
  const other_call call = root == no_root ? other_call::allreduce : other_call::reduce;
  if (forbidden_outside_kernel(r.g, call) || forbidden_in_plain_grid(r.g, call)) return;
  if (!enter_block(r.g, root == no_root ? team_call::allreduce : team_call::reduce, to, from, count, root)) return;
  if (is_bad_reduction(r, to, from, count, root)) return;
  const reducer_memory& m = r.memory;
  const reduction_plan plan = reduction_plan::of(m, count * sizeof(T), gridDim.x);
  const uint32_t slice = blockIdx.x;
  if (slice >= plan.blocks) return;
  __syncthreads();  // the block's call before is over, and what it reduces now is written
  const bool keeps = root == no_root || static_cast<uint32_t>(root) == m.my_pe;
  const uint64_t calls = m.slice(slice)->calls;
  reduction_part p{slice, word_of_call<HOW>(r, to, from, count, root),
                   plan.way == reduction_way::alone ? 0 : next_call(r, slice, calls), count};
  if (plan.way == reduction_way::two_shots) {
    reduce_in_two_shots<HOW>(r, p, to, from, count, plan.blocks, root);
  } else {
    constexpr uint64_t n = sizeof(unit) / sizeof(T);
    const word_range units = word_range::of((count + n - 1) / n, slice, plan.blocks);
    const uint64_t begin = units.begin * n, end = units.end * n < count ? units.end * n : count,
                   here = begin < end ? end - begin : 0;
    if (plan.way == reduction_way::one_shot) {
      reduce_in_one_shot<HOW>(r, p, to + begin, from + begin, here, keeps);
    } else if (plan.way == reduction_way::messages) {
      p.call = reduce_by_messages<HOW>(r, p, to, from, begin, begin + here, root);
    } else if (to != from) {
      copy_bytes(copy_team::block(r.g), reinterpret_cast<char*>(to + begin),
                 reinterpret_cast<const char*>(from + begin), here * sizeof(T));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && plan.way != reduction_way::alone) m.slice(slice)->calls = p.call;
}

/// What the kernel of a host's call waits for, and tells: words of this PE's symmetric heap, or nullptr.
struct reduction_signals {
  const uint64_t* after;
  uint64_t value;
  uint64_t* done;
};

constexpr unsigned reducer_threads = GRAVEL_CUDA ? 512 : 32;

template <gravel_reduction HOW, class T>
__global__ void __launch_bounds__(512) reduce_for_host(const __grid_constant__ gravel_reducer_handle r, T* to,
                                                       const T* from, uint64_t count, int root, reduction_signals s) {
  if (s.after && threadIdx.x == 0) {
    uint64_t seen;
    for (watched_wait wait; (seen = load_acquire(s.after)) < s.value;)  // [A4]
      wait.attentively(r.g,
                       [&] { return subject_of_word(r.g, awaited::event, s.after, comparison::ge, s.value, seen); });
  }
  reduce_as_grid<HOW>(r, to, from, count, root);
  if (!s.done) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* const line = r.memory.grid();
  if (fetch_add_acq_rel<scope::device>(&line->blocks_done, uint64_t{1}) + 1 != gridDim.x) return;
  store_relaxed<scope::device>(&line->blocks_done, uint64_t{0});
  fetch_add_release<scope::system>(s.done, uint64_t{1});  // [A5] gravel_wait_until and the like acquire
}

}  // namespace gravel::detail

/// All PEs say the same.
struct gravel_reducer_options {
  uint32_t blocks = GRAVEL_CUDA ? 32 : 3;  ///< most blocks of a grid that calls, 1 to 128
  uint32_t one_shot_bytes =
      16384;  ///< elements that a block exchanges in one shot, without barriers: 64 to 2^20, a multiple of 16
};

/// Memory in which PEs reduce together. Open from its constructor to its destructor, which are collective. All PEs make
/// the same calls in the same order, and one is over before the next begins: kernels of one stream, or who waits for
/// signals. For several at a time there are several reducers.
/// @scope the program's host thread; collective, but for handle(), directly() and bytes()
/// @completion on return
/// @errors gravel::error
/// @source XTQ (SC 2016), reductions
class gravel_reducer {
 public:
  /// Symmetric memory that it takes, bytes at each PE.
  /// @param how options of the reducer
  /// @param n_pes PEs of the job
  static uint64_t bytes(const gravel_reducer_options& how, int n_pes) {
    return memory_of(how, static_cast<uint32_t>(n_pes)).bytes();
  }

  /// Opens a reducer.
  /// @param how the same at all PEs
  explicit gravel_reducer(const gravel_reducer_options& how = {}) : open_("gravel_reducer") {
    if (how.blocks < 1 || how.blocks > gravel::detail::reducer_memory::most_blocks)
      gravel::detail::fail_text("gravel_reducer: " + std::to_string(how.blocks) + " blocks; there may be 1 to " +
                                std::to_string(gravel::detail::reducer_memory::most_blocks));
    if (how.one_shot_bytes < 64 || how.one_shot_bytes > 1 << 20 || how.one_shot_bytes % 16)
      gravel::detail::fail_text("gravel_reducer: one_shot_bytes is " + std::to_string(how.one_shot_bytes) +
                                "; it is 64 to 1048576, a multiple of 16");
    handle_.g = gravel_handle();
    gravel::detail::reducer_memory& m = handle_.memory;
    m = memory_of(how, static_cast<uint32_t>(gravel_n_pes()));
    m.my_pe = static_cast<uint32_t>(gravel_my_pe());
    m.base = gravel_malloc<char>(m.bytes());
    m.directly = gravel_min_all(uint64_t{reaches_all()}) != 0;
    gravel_barrier_all();  // nobody writes into memory that is not yet as it must be
  }
  /// Frees the memory, unless an exception is on its way. No kernel that reduces with it may run.
  ~gravel_reducer() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) gravel_free(handle_.memory.base);
  }
  /// @internal
  gravel_reducer(const gravel_reducer&) = delete;
  gravel_reducer& operator=(const gravel_reducer&) = delete;

  /// For kernels of gravel_launch with grids of one dimension.
  const gravel_reducer_handle& handle() const { return handle_; }
  /// Whether all PEs reach each other's memory; otherwise arrays travel as messages.
  bool directly() const { return handle_.memory.directly; }

 private:
  static gravel::detail::reducer_memory memory_of(const gravel_reducer_options& how, uint32_t n_pes) {
    gravel::detail::reducer_memory m{};
    m.blocks = how.blocks;
    m.n_pes = n_pes;
    m.staged_units = how.one_shot_bytes / gravel::detail::flagged_words::data_bytes;
    return m;
  }
  bool reaches_all() {
    gravel::detail::reducer_memory& m = handle_.memory;
    if (m.n_pes == 1) return true;
    if (!handle_.g.peers) return false;
    std::vector<gravel::detail::peer_link> links(m.n_pes);
    gravel_copy(links.data(), handle_.g.peers, links.size() * sizeof(links[0]));
    bool all = true;
    for (uint32_t pe = 0; pe < m.n_pes; ++pe) {
      char* const heap = pe == m.my_pe ? handle_.g.heap : links[pe].heap;
      if (pe < gravel::detail::reducer_memory::near_heaps) m.heap[pe] = heap;
      all &= heap != nullptr;
    }
    return all;
  }

  gravel::detail::open_object open_;
  gravel_reducer_handle handle_{};
  int exceptions_ = std::uncaught_exceptions();
};

/// How a host's call is made.
struct gravel_reduce_call {
  gravel_stream_t stream = nullptr;  ///< nullptr: the PE's own
  const uint64_t* after =
      nullptr;  ///< waits, on the device, until this word of the own symmetric heap is at least `value`
  uint64_t value = 0;
  bool raised_here = false;  ///< `after` is raised by kernels of this PE alone, and by no message: then nothing else
                             ///< need stay beside the call
  uint64_t* done = nullptr;  ///< this word of the own symmetric heap += 1 when the result is in `to`
  uint32_t blocks =
      0;  ///< of the kernel, at most, the same at all PEs; 0: few enough to leave room for what is computed beside it
};

namespace gravel::detail {
template <gravel_reduction HOW, class T>
void start_reduction(const gravel_reducer& reducer, T* to, const T* from, uint64_t count, int root,
                     const gravel_reduce_call& how) {
  const gravel_reducer_handle& r = reducer.handle();
  if (how.blocks > r.memory.blocks)
    fail_text("a reduction of " + std::to_string(how.blocks) + " blocks; its reducer has " +
              std::to_string(r.memory.blocks));
  const uint64_t bytes = count * sizeof(T);
  const uint32_t blocks = how.blocks ? reduction_plan::of(r.memory, bytes, how.blocks).blocks
                                     : reduction_plan::blocks_beside(r.memory, bytes);
  const gravel_launch_config config{
      .grid = blocks, .block = reducer_threads, .stream = how.stream, .cooperative = blocks > 1};
  const reduction_signals signals{how.after, how.value, how.done};
  // Who waits for other PEs' kernels alone needs no resolver; what raises the signal may. And a signal that a kernel of
  // this PE raises for its own GPU alone would not reach a kernel that is apart.
  if (r.memory.directly && !how.after) launch_apart(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
  else if (r.memory.directly && how.raised_here)
    launch_alone(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
  else gravel_launch(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
}
}  // namespace gravel::detail

/// Combines the arrays of all PEs, element by element; all PEs get the result. Blocks do not wait for each other: each
/// reduces a part of its own. What it reduces must have been written before it calls, by gravel_barrier(g) or in a
/// kernel before; so must blocks wait for each other before one reads what others got.
/// @scope grid of one dimension: all threads of all blocks, as many at all PEs; cooperative if there are several blocks
/// @completion on return: the part of the calling block is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
GRAVEL_DEVICE void gravel_allreduce(const gravel_reducer_handle& r, T* to, const T* from, uint64_t count) {
  gravel::detail::reduce_as_grid<HOW>(r, to, from, count, gravel::detail::no_root);
}
/// Combines the arrays of all PEs, element by element, as gravel_allreduce; one PE gets the result.
/// @scope grid of one dimension: all threads of all blocks, as many at all PEs; cooperative if there are several blocks
/// @completion on return: the part of the calling block is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
GRAVEL_DEVICE void gravel_reduce(const gravel_reducer_handle& r, T* to, const T* from, uint64_t count, int root) {
  gravel::detail::reduce_as_grid<HOW>(r, to, from, count, root < 0 ? static_cast<int>(r.memory.n_pes) : root);
}

/// Starts a kernel that combines the arrays of all PEs.
/// @scope the program's host thread; collective
/// @completion returns at once; the result is there when the stream has come so far, or `how.done` has risen
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_allreduce_start(const gravel_reducer& reducer, T* to, const T* from, uint64_t count,
                            const gravel_reduce_call& how = {}) {
  gravel::detail::start_reduction<HOW>(reducer, to, from, count, gravel::detail::no_root, how);
}
/// Starts a kernel that combines the arrays of all PEs for one PE.
/// @scope the program's host thread; collective
/// @completion returns at once; the result is there when the stream has come so far, or `how.done` has risen
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce_start(const gravel_reducer& reducer, T* to, const T* from, uint64_t count, int root,
                         const gravel_reduce_call& how = {}) {
  gravel::detail::start_reduction<HOW>(reducer, to, from, count, root < 0 ? gravel_n_pes() : root, how);
}
/// Combines the arrays of all PEs.
/// @scope the program's host thread; collective
/// @completion on return: the stream's kernels have ended, and the result is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_allreduce(const gravel_reducer& reducer, T* to, const T* from, uint64_t count,
                      const gravel_reduce_call& how = {}) {
  gravel_allreduce_start<HOW>(reducer, to, from, count, how);
  gravel_stream_synchronize(how.stream);
}
/// Combines the arrays of all PEs for one PE.
/// @scope the program's host thread; collective
/// @completion on return: the stream's kernels have ended, and the result is there
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce(const gravel_reducer& reducer, T* to, const T* from, uint64_t count, int root,
                   const gravel_reduce_call& how = {}) {
  gravel_reduce_start<HOW>(reducer, to, from, count, root, how);
  gravel_stream_synchronize(how.stream);
}
