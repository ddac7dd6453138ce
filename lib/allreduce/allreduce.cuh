// gravel_allreduce and gravel_reduce: arrays in the symmetric heap, combined over all PEs, element by element
// (docs/allreduce.md). All threads of a kernel's grid call them, or the host calls them and they start a kernel.
//
//   gravel_reducer reducer;                               // collective
//   gravel_allreduce(reducer, to, from, count);           // host: on return the sum over all PEs is in `to`
//   gravel_allreduce_start<GRAVEL_MAX>(reducer, to, from, count, {.done = signal});  // at once; later *signal += 1
//   gravel_allreduce(reducer.handle(), to, from, count);  // in a kernel
//
// Elements are combined in the order of the PEs, so the result is the same at all PEs, bit for bit, and in every run.
// T: float, double, gravel_half, gravel_bfloat16 (these two are combined in float and rounded once), integers of 4 and
// 8 bytes.
//
// All calls of this file:
// @param r from gravel_reducer::handle()
// @param reducer open at all PEs
// @param to [count] results: a symmetric address, the same at all PEs, of any alignment of T; data moves fastest at
// multiples of 16 bytes. It may be `from`; otherwise it must not overlap it
// @param from [count] contributions of this PE, a symmetric address, the same at all PEs
// @param count number of elements, the same at all PEs
// @param root the PE that gets the result; of other PEs `to` is not written
// @param how CUDA stream, word to wait for, word to raise
// @errors memory outside the heap, PEs whose calls differ: the job ends with a message; the host's calls throw
// gravel::error for invalid arguments
// @source MPI_Allreduce, MPI_Reduce; XTQ (SC 2016), reductions
#pragma once
#include "host/launch_alone.cuh"
#include "host/pe/libgravel.hpp"
#include "lib/allreduce/one_shot.cuh"
#include "lib/allreduce/reduce_by_messages.cuh"
#include "lib/allreduce/two_shot.cuh"

namespace gravel::detail {

/// So many bytes of an array for each block: in one shot; by messages; in two shots.
constexpr uint64_t one_shot_bytes_of_block = 2048, message_bytes_of_block = 4096, two_shot_bytes_of_block = 16384;
/// For a reduction in two shots that a host starts: so many blocks move the data as fast as more blocks, and leave
/// multiprocessors to other kernels; beyond them, each further block needs so many bytes.
constexpr uint32_t few_blocks = 16;
constexpr uint64_t bytes_of_further_block = 2 << 20;

enum class reduction_way : uint8_t { alone, one_shot, two_shots, messages };

/// How a grid of `most` blocks reduces `bytes` bytes. All PEs plan alike.
struct reduction_plan {
  reduction_way way;
  uint32_t blocks;  ///< blocks that take part

  GRAVEL_BOTH static reduction_plan of(const reducer_memory& m, uint64_t bytes, uint32_t most) {
    if (m.n_pes == 1) return {reduction_way::alone, blocks_for(bytes, two_shot_bytes_of_block, most)};
    if (!m.directly) return {reduction_way::messages, blocks_for(bytes, message_bytes_of_block, most)};
    const uint32_t few = blocks_for(bytes, one_shot_bytes_of_block, most);
    const uint64_t words = (bytes + flagged_words::data_bytes - 1) / flagged_words::data_bytes;
    if (words <= uint64_t{few} * m.staged_units) return {reduction_way::one_shot, few};
    return {reduction_way::two_shots, blocks_for(bytes, two_shot_bytes_of_block, most)};
  }
  /// The units of 16 bytes of block `slice`, of `units` that are reduced in one shot by `most` blocks at most. Small
  /// arrays are divided without a division.
  GRAVEL_BOTH word_range one_shot_part(const reducer_memory& m, uint32_t units, uint32_t slice, uint32_t most) const {
    constexpr uint32_t usual = one_shot_bytes_of_block / sizeof(unit);
    const bool is_usual =
        blocks == 1 || (blocks < most && m.staged_units * flagged_words::data_bytes >= one_shot_bytes_of_block);
    const uint32_t each = is_usual ? usual : (units + blocks - 1) / blocks;
    const uint32_t begin = slice * each < units ? slice * each : units;
    return {begin, units - begin < each || blocks == 1 ? units : begin + each};
  }
  /// Blocks of a kernel that a host starts beside other kernels.
  static uint32_t blocks_beside(const reducer_memory& m, uint64_t bytes) {
    const reduction_plan plan = of(m, bytes, m.blocks);
    return plan.way == reduction_way::two_shots
               ? std::min(plan.blocks, std::max(few_blocks, blocks_for(bytes, bytes_of_further_block, m.blocks)))
               : plan.blocks;
  }
  GRAVEL_BOTH static uint32_t blocks_for(uint64_t bytes, uint64_t each, uint32_t most) {
    const uint64_t wanted = (bytes + each - 1) / each;
    if (wanted < 1) return 1;
    return wanted < most ? static_cast<uint32_t>(wanted) : most;
  }
};

/// Reports invalid arguments, and returns true for them. Thread scope: lane, several of a block at once.
template <class T>
GRAVEL_DEVICE bool is_bad_reduction(const gravel_reducer_handle& r, const T* to, const T* from, uint64_t count,
                                    int root) {
  const auto to_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(to) - r.g.heap),
             from_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(from) - r.g.heap),
             bytes = count * sizeof(T);
  // Without branches: small arrays wait for this.
  const uint64_t room = r.g.heap_bytes - bytes, apart = to_offset - from_offset;
  const bool fits = (count <= r.g.heap_bytes / sizeof(T)) & (to_offset <= room) & (from_offset <= room);
  const bool overlaps = (apart != 0) & ((apart < bytes) | (0 - apart < bytes));
  const bool are_good = (count == 0) | (fits & !overlaps & ((to_offset | from_offset) % sizeof(T) == 0));
  const bool has_root = (root == no_root) | (static_cast<uint32_t>(root) < r.memory.n_pes);
  if (are_good & has_root & (gridDim.x <= r.memory.blocks)) [[likely]]
    return false;
  reduction_fault fault;
  if (root != no_root && static_cast<uint32_t>(root) >= r.memory.n_pes) fault = reduction_fault::bad_root;
  else if (gridDim.x > r.memory.blocks) fault = reduction_fault::too_many_blocks;
  else if (count && !fits) fault = reduction_fault::outside_heap;
  else if (count && (to_offset | from_offset) % sizeof(T)) fault = reduction_fault::misaligned;
  else fault = reduction_fault::overlapping;
  if (threadIdx.x == blockDim.x - 1)
    report_error(r.g, message_fault::bad_reduction, op::none,
                 fault == reduction_fault::too_many_blocks ? r.memory.blocks : static_cast<uint32_t>(root),
                 static_cast<uint64_t>(fault), fault == reduction_fault::too_many_blocks ? gridDim.x : count);
  return true;
}

/// Returns a word that is the same at all PEs if their arguments are the same. Its products do not depend on each
/// other: small arrays wait for this word.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE uint32_t word_of_call(const gravel_reducer_handle& r, const T* to, const T* from, uint64_t count,
                                    int root) {
  const auto to_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(to) - r.g.heap),
             from_offset = static_cast<uint64_t>(reinterpret_cast<const char*>(from) - r.g.heap);
  // Sums of products with odd numbers, of which the high bits are used: multilinear hashing.
  const auto mixed = [](uint64_t value, uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(value) * low + static_cast<uint32_t>(value >> 32) * high;
  };
  uint32_t arguments =
      mixed(count, 0x9e3779b1, 0x85ebca6b) + static_cast<uint32_t>(root) * 0xc2b2ae35 + gridDim.x * 0x27d4eb2f;
  if (count) arguments += mixed(to_offset, 0x165667b1, 0xd3a2646d) + mixed(from_offset, 0xfd7046c5, 0xb55a4f09);
  return reduction_call{HOW, element<T>::type, root != no_root, arguments >> 8}.word();
}

template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_as_grid(const gravel_reducer_handle& r, T* to, const T* from, uint64_t count, int root) {
  const other_call call = root == no_root ? other_call::allreduce : other_call::reduce;
  if (forbidden_outside_kernel(r.g, call) || forbidden_in_plain_grid(r.g, call)) return;
  if (!enter_block(r.g, root == no_root ? team_call::allreduce : team_call::reduce, to, from, count, root)) return;
  const reducer_memory& m = r.memory;
  const uint32_t slice = blockIdx.x;
  // Read before the barrier, so that it has come when the data are sent. The block's previous call has written it
  // before its last barrier.
  const uint64_t calls = slice < m.blocks ? load_relaxed<scope::block>(&m.slice(slice)->calls) : 0;
  const reduction_plan plan = reduction_plan::of(m, count * sizeof(T), gridDim.x);
  if (slice >= plan.blocks) return;
  reduction_part p{slice, 0, 0, count};
  bool is_bad = false;
  if (visits_others(m)) {  // only these lanes: small arrays would wait until all warps had computed this
    is_bad = is_bad_reduction(r, to, from, count, root);
    p.what = word_of_call<HOW>(r, to, from, count, root);
  }
  if (__syncthreads_or(is_bad)) return;  // the data of this call are written
  p.call = calls + 1;
  const bool keeps = root == no_root || static_cast<uint32_t>(root) == m.my_pe;
  if (plan.way == reduction_way::two_shots) {
    reduce_in_two_shots<HOW>(r, p, to, from, count, plan.blocks, root);
  } else {
    constexpr uint64_t n = sizeof(unit) / sizeof(T);
    const uint64_t all_units = (count + n - 1) / n;
    const word_range units = plan.way == reduction_way::one_shot
                                 ? plan.one_shot_part(m, static_cast<uint32_t>(all_units), slice, gridDim.x)
                                 : word_range::of(all_units, slice, plan.blocks);
    const uint64_t begin = units.begin * n, end = units.end * n < count ? units.end * n : count,
                   here = begin < end ? end - begin : 0;
    if (plan.way == reduction_way::one_shot) {
      reduce_in_one_shot<HOW>(r, p, one_shot_part<T>{to + begin, from + begin, static_cast<uint32_t>(here), keeps});
    } else if (plan.way == reduction_way::messages) {
      p.what = word_of_call<HOW>(r, to, from, count, root);  // any thread may send
      p.call = reduce_by_messages<HOW>(r, p, to, from, begin, begin + here, root);
    } else if (to != from) {
      copy_bytes(copy_team::block(r.g), reinterpret_cast<char*>(to + begin),
                 reinterpret_cast<const char*>(from + begin), here * sizeof(T));
    }
  }
  if (plan.way != reduction_way::alone) {
    p.call = end_call(r, slice, p.call);
    if (threadIdx.x == 0) m.slice(slice)->calls = p.call;
  }
  __syncthreads();  // the result is there, and all threads have read what the other PEs sent
}

/// The words of this PE's symmetric heap for which the kernel of a host's call waits, and which it raises; or nullptr.
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
  __syncthreads();  // all threads see what was written before the word rose
  reduce_as_grid<HOW>(r, to, from, count, root);
  if (!s.done) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* const line = r.memory.grid();
  if (fetch_add_acq_rel<scope::device>(&line->blocks_done, uint64_t{1}) + 1 != gridDim.x) return;
  store_relaxed<scope::device>(&line->blocks_done, uint64_t{0});
  fetch_add_release<scope::system>(s.done, uint64_t{1});  // [A5] gravel_wait_until and similar calls acquire
}

}  // namespace gravel::detail

/// Options of a reducer, the same at all PEs.
struct gravel_reducer_options {
  uint32_t blocks = GRAVEL_CUDA ? 32 : 3;  ///< the most blocks of a grid that calls, 1 to 128
  uint32_t one_shot_bytes =
      16384;  ///< elements that a block exchanges in one shot, without barriers: 64 to 2^20, a multiple of 16
};

/// Memory in which PEs reduce together. The reducer is open from its constructor to its destructor, which are
/// collective. All PEs make the same calls in the same order, and a call must have ended before the next begins: use
/// kernels of one stream, or wait for signals. Several calls at a time need several reducers.
/// @scope the program's host thread; collective, except handle(), directly() and bytes()
/// @completion on return
/// @errors gravel::error
/// @source XTQ (SC 2016), reductions
class gravel_reducer {
 public:
  /// Returns the symmetric memory of a reducer, in bytes, at each PE.
  /// @param how options of the reducer
  /// @param n_pes number of PEs of the job
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
    gravel_barrier_all();  // no PE writes before all memory is ready
  }
  /// Frees the memory, unless an exception passes. No kernel that reduces with it may run.
  ~gravel_reducer() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) gravel_free(handle_.memory.base);
  }
  /// @internal
  gravel_reducer(const gravel_reducer&) = delete;
  gravel_reducer& operator=(const gravel_reducer&) = delete;

  /// Returns the handle for kernels of gravel_launch with one-dimensional grids.
  const gravel_reducer_handle& handle() const { return handle_; }
  /// Returns whether all PEs reach each other's memory. Otherwise arrays travel as messages.
  bool directly() const { return handle_.memory.directly; }

 private:
  static gravel::detail::reducer_memory memory_of(const gravel_reducer_options& how, uint32_t n_pes) {
    gravel::detail::reducer_memory m{};
    m.blocks = how.blocks;
    m.n_pes = n_pes;
    m.staged_units = how.one_shot_bytes / gravel::detail::flagged_words::data_bytes;
    m.lay_out();
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

/// Options of a host's call.
struct gravel_reduce_call {
  gravel_stream_t stream = nullptr;  ///< nullptr: the PE's own stream
  const uint64_t* after = nullptr;  ///< the device waits until this word of the PE's symmetric heap is at least `value`
  uint64_t value = 0;
  bool raised_here = false;  ///< only kernels of this PE raise `after`, and no message: then no other kernel
                             ///< need stay resident beside the call
  uint64_t* done = nullptr;  ///< this word of the PE's symmetric heap rises by 1 when the result is in `to`
  uint32_t blocks = 0;  ///< the most blocks of the kernel, the same at all PEs; 0: so few that other kernels have room
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
  // A kernel that waits only for other PEs' kernels needs no resolver; the kernel that raises `after` may need one. A
  // kernel that is started apart would not see `after` if a kernel of this PE raises it with a release for its own GPU
  // only.
  if (r.memory.directly && !how.after) launch_apart(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
  else if (r.memory.directly && how.raised_here)
    launch_alone(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
  else gravel_launch(reduce_for_host<HOW, T>, config, r, to, from, count, root, signals);
}
}  // namespace gravel::detail

/// Combines the arrays of all PEs, element by element; all PEs get the result. Blocks do not wait for each other: each
/// reduces its own part. The data must have been written before the call: by gravel_barrier(g), or in an earlier
/// kernel. Likewise blocks must wait for each other before one reads the results of another.
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
/// @completion returns at once; the result is there when the kernel in the stream has ended, or `how.done` has risen
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_allreduce_start(const gravel_reducer& reducer, T* to, const T* from, uint64_t count,
                            const gravel_reduce_call& how = {}) {
  gravel::detail::start_reduction<HOW>(reducer, to, from, count, gravel::detail::no_root, how);
}
/// Starts a kernel that combines the arrays of all PEs for one PE.
/// @scope the program's host thread; collective
/// @completion returns at once; the result is there when the kernel in the stream has ended, or `how.done` has risen
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
