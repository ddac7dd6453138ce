// One problem, run by service blocks and by their rivals. A problem P defines its record, and has these functions of
// whole grids, which make the calls that P::input describes:
//
//   by_servers<Sections>(handle, input)             by service blocks
//   by_locks(table, input, n_pes, backs_off)        a word beside each record, in global memory
//   by_atomics(table, input, n_pes)                 without exclusion
//
// and, if its calls can be combined, what bench/rivals/sorted_calls.hpp asks for.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gravel/critical.cuh>
#include <gravel/gravel.cuh>
#include "bench/rivals/sorted_calls.hpp"
#include "examples/common/together.hpp"

namespace app {
using gravel::compare_swap_acquire;
using gravel::relax;
using gravel::scope;
using gravel::store_release;

/// Calls for keys that lie in an array.
struct keyed_calls {
  const uint32_t* keys;  ///< [n * P::keys_of_call]
  uint64_t n;
};

/// A record of this PE and its lock: number i is that of key i * n_pes + my_pe. They lie as those of service blocks do.
template <class Record>
struct alignas(gravel::detail::slot_alignment_of<Record>) locked_record {
  Record record;
  uint32_t lock;
};

/// A grid's lanes take every n-th call.
GRAVEL_DEVICE uint64_t first_of_lane() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
GRAVEL_DEVICE uint64_t lanes_of_grid() { return uint64_t{gridDim.x} * blockDim.x; }

/// Between two tries: nothing, or twice as long each time. (On the CPU backend others must run.)
class lock_pause {
 public:
  GRAVEL_DEVICE explicit lock_pause(bool backs_off) : backs_off_(backs_off) {}
  GRAVEL_DEVICE void operator()() {
#if GRAVEL_ON_GPU
    if (!backs_off_) return;
    __nanosleep(nanoseconds_);
    nanoseconds_ = nanoseconds_ < 8192 ? nanoseconds_ * 2 : nanoseconds_;
#else
    wait_();
#endif
  }

 private:
  [[maybe_unused]] bool backs_off_;
  [[maybe_unused]] uint32_t nanoseconds_ = 32;
  relax wait_;
};

/// Tries until it has the lock; `section` runs; gives it back. In the form that SIMT needs: who has the lock runs and
/// gives it back in the same round, as its neighbours in the warp may wait for it.
template <class F>
GRAVEL_DEVICE void with_lock(uint32_t* lock, bool backs_off, const F& section) {
  bool waits = true;
  for (lock_pause pause(backs_off); waits;) {
    if (compare_swap_acquire<scope::device>(lock, 0u, 1u)) {
      section();
      store_release<scope::device>(lock, 0u);
      waits = false;
    } else {
      pause();
    }
  }
}
/// The same with two, of which `first` is the lower. If the second is taken the first is given back.
template <class F>
GRAVEL_DEVICE void with_locks(uint32_t* first, uint32_t* second, bool backs_off, const F& section) {
  if (first == second) return with_lock(first, backs_off, section);
  bool waits = true;
  for (lock_pause pause(backs_off); waits;) {
    if (compare_swap_acquire<scope::device>(first, 0u, 1u)) {
      if (compare_swap_acquire<scope::device>(second, 0u, 1u)) {
        section();
        store_release<scope::device>(second, 0u);
        waits = false;
      }
      store_release<scope::device>(first, 0u);
    }
    if (waits) pause();
  }
}

/// Service blocks whose callers combine calls of a block, not only of a warp.
template <class Sections>
struct in_blocks {
  using handle_type = typename Sections::handle_type;
  using sender = typename Sections::combining_sender;
};
/// The same, all that a multiprocessor calls. Where calls are few, begin and end of it cost more than it brings; where
/// keys are, all lanes wait for few places.
template <class Sections>
struct in_large_blocks {
  using handle_type = typename Sections::handle_type;
  using sender = typename Sections::large_sender;
  static constexpr uint64_t least_keys = 4096, least_calls = uint64_t{1} << 22;
};

constexpr uint32_t contest_lanes = GRAVEL_CUDA ? 256 : lanes_of_block;
template <class Sections>
constexpr uint32_t lanes_of_callers = Sections::sender::shared_bytes > 0 ? 4 * contest_lanes : contest_lanes;
/// Who calls has no more registers than leave room for as many blocks as there is shared memory for, beside a large
/// cache.
template <class Sections>
constexpr uint32_t blocks_of_callers =
    Sections::sender::shared_bytes > 0
        ? 1
        : std::min(8u, static_cast<uint32_t>(160 * 1024 / (sizeof(typename Sections::sender) + 1024)));

template <class P, class Sections>
__global__ void __launch_bounds__(lanes_of_callers<Sections>, blocks_of_callers<Sections>)
    call_sections(typename Sections::handle_type to, typename P::input in) {
  P::template by_sections<Sections>(to, in);
}
template <class P>
__global__ void take_locks(locked_record<typename P::record>* table, typename P::input in, uint32_t n_pes,
                           bool backs_off) {
  P::by_locks(table, in, n_pes, backs_off);
}
template <class P>
__global__ void use_atomics(locked_record<typename P::record>* table, typename P::input in, uint32_t n_pes) {
  P::by_atomics(table, in, n_pes);
}

template <class P, class Sections>
__global__ void fill_sections(typename Sections::handle_type to, typename P::record with) {
  const auto& t = to.table;
  for (uint64_t key = first_of_lane() * t.n_pes + t.my_pe; key < t.keys; key += lanes_of_grid() * t.n_pes)
    *to.record(static_cast<uint32_t>(key)) = with;
}
template <class P>
__global__ void fill_table(locked_record<typename P::record>* table, uint64_t n, typename P::record with) {
  for (uint64_t i = first_of_lane(); i < n; i += lanes_of_grid()) table[i].record = with;
}

enum class contest_method {
  servers,
  owners,
  locks,
  in_place,
  combine,
  combine_block,
  try_lock,
  backoff,
  sort,
  atomics
};
struct contest_name {
  const char* name;
  contest_method method;
  const char* text;
};
constexpr contest_name contest_names[] = {
    {"servers", contest_method::servers, "servers, as they choose themselves"},
    {"owners", contest_method::owners, "all sections at servers, exclusion by owners"},
    {"locks", contest_method::locks, "all sections at servers, exclusion by locks in shared memory"},
    {"in-place", contest_method::in_place, "sections run in place where their keys are free"},
    {"combine", contest_method::combine, "servers, where calls of one key become one"},
    {"combine-block", contest_method::combine_block, "as combine, for the calls of a block"},
    {"try-lock", contest_method::try_lock, "locks in global memory"},
    {"backoff", contest_method::backoff, "the same, waiting longer each time"},
    {"sort", contest_method::sort,
     "calls are sorted by key and combined, then each key's is made; no exclusion is needed"},
    {"atomics", contest_method::atomics, "atomic operations, no exclusion"},
};
constexpr bool uses_sections(contest_method m) { return m <= contest_method::combine_block; }
constexpr bool combines_calls(contest_method m) {
  return m == contest_method::combine || m == contest_method::combine_block;
}
/// Has problem P this method?
template <class P>
constexpr bool has_method(contest_method m) {
  if (combines_calls(m)) return P::combines;
  return m == contest_method::sort ? P::sorts : true;
}
template <class P>
void need_method(contest_method m) {
  if (!has_method<P>(m)) fail_text(std::string(P::name) + ": calls of this problem cannot be combined");
}

/// What problem P asks less of its sections where calls are combined; nullptr: nothing.
template <class P>
constexpr const char* asks_less = nullptr;
template <class P>
requires requires { P::asks_less; }
constexpr const char* asks_less<P> = P::asks_less;

/// Does who calls service blocks wait for all answers? Then nothing is under way when the kernels have ended.
template <class P>
constexpr bool waits_for_answers = false;
template <class P>
requires requires { P::waits_for_answers; }
constexpr bool waits_for_answers<P> = P::waits_for_answers;

/// `blocks`: 0: up to 24, and as many as its sender gathers calls for.
template <class Sections>
gravel_critical_options options_of(contest_method m, uint64_t keys, uint32_t blocks, uint32_t calls) {
  gravel_critical_options how;
  how.keys = keys;
  const auto gathered_by = []<class Sender>(const Sender*) {
    return gravel_n_pes() > 1 ? Sender::blocks_beside_peers() : Sender::blocks;
  };
  const auto gathered = [&] {
    return m == contest_method::combine_block ? gathered_by(static_cast<typename Sections::combining_sender*>(nullptr))
                                              : gathered_by(static_cast<typename Sections::sender*>(nullptr));
  };
  how.blocks = blocks;
  if (blocks == 0) how.blocks = GRAVEL_CUDA ? std::min(24u, gathered()) : 2;
  how.calls = calls;
  how.chunks = 256;
  if (m == contest_method::locks) how.exclusion = gravel_exclusion::locks;
  if (m == contest_method::owners || m == contest_method::locks) how.place = gravel_critical_place::service;
  if (m == contest_method::in_place) how.place = gravel_critical_place::caller;
  return how;
}

/// The records of one method, from its first call to its last. Collective.
template <class P>
class contest {
  using record = typename P::record;

 public:
  /// `refills`: fill() will be called.
  contest(contest_method m, uint64_t keys, uint32_t blocks, uint32_t calls, bool refills = false)
      : method_(m), keys_(keys) {
    need_method<P>(m);
    const auto open = [&]<class Sections>(std::unique_ptr<Sections>& sections) {
      auto how = options_of<Sections>(m, keys, blocks, calls);
      if (refills) how.data = gravel_critical_data::device;
      sections = std::make_unique<Sections>(how);
    };
    if (combines_calls(m)) {
      if constexpr (P::combines) open(combining_);
    } else if (uses_sections(m)) {
      open(sections_);
    } else {
      table_ = gravel_malloc<locked_record<record>>(of_pe() * sizeof(locked_record<record>));
    }
  }
  ~contest() noexcept(false) {
    sections_.reset();
    combining_.reset();
    gravel_free(table_);
  }
  /// Takes the memory that sorting needs, so that the first run does not take it.
  void prepare([[maybe_unused]] const typename P::input& in) {
    if constexpr (P::sorts)
      if (method_ == contest_method::sort) sorted().prepare(in);
  }
  /// Makes the calls, and returns when all have run, also those of other PEs, or, of problems that wait for answers,
  /// all of this PE. Collective.
  void run(const typename P::input& in) {
    const unsigned grid = blocks_for(in.n), block = contest_lanes;
    if (sections_) launch_callers<typename P::sections>(*sections_, in);
    else if (method_ == contest_method::sort) run_sorted(in, grid, block);
    else if (method_ == contest_method::atomics) gravel_launch(use_atomics<P>, grid, block, table_, in, n_pes());
    else if (table_) gravel_launch(take_locks<P>, grid, block, table_, in, n_pes(), method_ == contest_method::backoff);
    if constexpr (P::combines) {
      if (method_ == contest_method::combine) launch_callers<typename P::combining>(*combining_, in);
      if (method_ == contest_method::combine_block) {
        using in_large = in_large_blocks<typename P::combining>;
        if (keys_ >= in_large::least_keys && P::most_calls(in) >= in_large::least_calls)
          launch_callers<in_large>(*combining_, in);
        else launch_callers<in_blocks<typename P::combining>>(*combining_, in);
      }
    }
    if (table_ || (sections_ && waits_for_answers<P>)) gravel_synchronize();
    else gravel_wait_quiescent();
  }
  /// Makes all records alike. Collective.
  void fill(const record& with) {
    const unsigned grid = blocks_to_fill_device();
    if (sections_)
      gravel_launch(fill_sections<P, typename P::sections>, grid, lanes_of_block, sections_->handle(), with);
    if constexpr (P::combines)
      if (combining_)
        gravel_launch(fill_sections<P, typename P::combining>, grid, lanes_of_block, combining_->handle(), with);
    if (table_) gravel_launch(fill_table<P>, grid, lanes_of_block, table_, of_pe(), with);
    gravel_synchronize();
    gravel_barrier_all();
  }
  /// Of this PE. Collective.
  std::vector<record> read() const {
    if (sections_) return sections_->read();
    if (combining_) return combining_->read();
    std::vector<locked_record<record>> all(of_pe());
    gravel_copy(all.data(), table_, all.size() * sizeof(all[0]));
    std::vector<record> records;
    for (uint64_t i = 0; i < all.size() && i * n_pes() + me() < keys_; ++i) records.push_back(all[i].record);
    return records;
  }
  /// Symmetric memory of the largest of them, with `records` at each PE.
  static uint64_t bytes(uint64_t records, uint32_t calls, int n_pes) {
    const auto how =
        options_of<typename P::sections>(contest_method::servers, records * static_cast<uint64_t>(n_pes), 1, calls);
    return P::sections::bytes(how, n_pes) + P::combining::bytes(how, n_pes) +
           (records + 1) * sizeof(locked_record<record>);
  }

 private:
  template <class Callers, class Sections>
  void launch_callers(Sections& sections, const typename P::input& in) {
    gravel_launch_config how{.grid = blocks_for(in.n) * contest_lanes / lanes_of_callers<Callers>,
                             .block = lanes_of_callers<Callers>};
    how.shared_bytes = Callers::sender::shared_bytes;
    if (how.shared_bytes > 0) how.grid = blocks_beside(sections.blocks());
    gravel_launch(call_sections<P, Callers>, how, sections.handle(), in);
  }
  static uint32_t n_pes() { return static_cast<uint32_t>(gravel_n_pes()); }
  static uint32_t me() { return static_cast<uint32_t>(gravel_my_pe()); }
  uint64_t of_pe() const { return (keys_ + n_pes() - 1) / n_pes(); }
  void run_sorted([[maybe_unused]] const typename P::input& in, [[maybe_unused]] unsigned grid,
                  [[maybe_unused]] unsigned block) {
    if constexpr (P::sorts) sorted().run(table_, in, n_pes(), grid, block);
  }
  auto& sorted() {
    if (!sorted_) sorted_ = std::make_unique<sorted_type>();
    return *sorted_;
  }
  contest_method method_;
  uint64_t keys_;
  std::unique_ptr<typename P::sections> sections_;
  std::unique_ptr<typename P::combining> combining_;
  locked_record<record>* table_ = nullptr;
  struct not_sorted {};
  using sorted_type = std::conditional_t<P::sorts, sorted_calls<P>, not_sorted>;
  std::unique_ptr<sorted_type> sorted_;
};

}  // namespace app
