// gravel_accumulate combines an array of this PE with one at another PE, element by element, where the other array
// lies. The other PE takes no part. It is MPI's accumulate; XTQ (SC 2016) has a section on accumulates. On the route
// `peer` each element is an atomic operation in the other PE's memory. Otherwise elements travel as active messages,
// whose handler the program passes to gravel_init: gravel_init<gravel_accumulation>().
#pragma once
#include <gravel/gravel.cuh>
#include "device/am.cuh"
#include "device/bulk.cuh"
#include "lib/base/element.hpp"

namespace gravel::detail {

/// *at = *at combined with `value`, atomically with regard to each other and to the core's operations. Each result is
/// rounded. Thread scope: lane.
template <gravel_reduction HOW, scope S, class T>
GRAVEL_BOTH void accumulate_in_place(T* at, T value) {
  if constexpr (sizeof(T) >= 4 && HOW == GRAVEL_SUM) {
    add_in_place<S>(at, value);
  } else if constexpr (sizeof(T) >= 4 && HOW != GRAVEL_PROD) {
    fetch_in_place<S>(HOW == GRAVEL_MIN ? op::min : op::max, at, value);
  } else {
    // The element is replaced by a compare-and-swap of the whole word in which it lies.
    using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const uint64_t address = reinterpret_cast<uint64_t>(at), place = address % sizeof(word) * 8;
    auto* const whole = reinterpret_cast<word*>(address - address % sizeof(word));
    using bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    for (word seen = load_relaxed<S>(whole);;) {
      const T old = __builtin_bit_cast(T, static_cast<bits>(seen >> place));
      const T now = element<T>::narrow(combine<HOW>(element<T>::widen(old), element<T>::widen(value)));
      const word mask = static_cast<word>(static_cast<bits>(~bits{0})) << place;
      const word wanted = (seen & ~mask) | static_cast<word>(__builtin_bit_cast(bits, now)) << place;
      const word found = compare_swap_in_place<S>(whole, seen, wanted);
      if (found == seen) return;
      seen = found;
    }
  }
}

/// Some elements: the arguments of one active message.
struct accumulation_piece {
  static constexpr uint64_t no_signal = ~0ull;
  uint64_t target, signal;  ///< offsets into the heap
  uint32_t what;            ///< reduction_call::word of the operation, and the number of elements from bit 8 on
  uint32_t data[59];

  GRAVEL_BOTH uint32_t count() const { return what >> 8; }
  template <class T>
  static constexpr uint32_t most = sizeof(data) / (sizeof(T));
  template <class T>
  GRAVEL_BOTH void set(uint32_t i, T value) {
    reinterpret_cast<packed<T>*>(data)[i].value = value;
  }
  template <class T>
  GRAVEL_BOTH T get(uint32_t i) const {
    return reinterpret_cast<const packed<T>*>(data)[i].value;
  }

 private:
  template <class T>
  struct [[gnu::packed, gnu::may_alias]] packed {
    T value;
  };
};
static_assert(sizeof(accumulation_piece) == max_am_bytes);

}  // namespace gravel::detail

/// The handler that applies elements.
struct gravel_accumulation {
  static constexpr const char* name = "gravel_accumulation";
  GRAVEL_HANDLER void operator()(const gravel_t& g, const gravel::detail::accumulation_piece& p) const {
    using gravel::detail::reduction_type;
    switch (gravel::detail::reduction_call::of(p.what).type) {
      case reduction_type::f32: return of_type<float>(g, p);
      case reduction_type::f64: return of_type<double>(g, p);
      case reduction_type::f16: return of_type<gravel_half>(g, p);
      case reduction_type::bf16: return of_type<gravel_bfloat16>(g, p);
      case reduction_type::i32: return of_type<int32_t>(g, p);
      case reduction_type::u32: return of_type<uint32_t>(g, p);
      case reduction_type::i64: return of_type<int64_t>(g, p);
      default: return of_type<uint64_t>(g, p);
    }
  }

 private:
  template <class T>
  GRAVEL_BOTH static void of_type(const gravel_t& g, const gravel::detail::accumulation_piece& p) {
    using namespace gravel::detail;
    const uint64_t bytes = uint64_t{p.count()} * sizeof(T);
    const bool signals = p.signal != accumulation_piece::no_signal;
    if (p.count() > accumulation_piece::most<T> || !lies_in_heap(p.target, bytes, g.heap_bytes) ||
        p.target % sizeof(T) ||
        (signals && (!lies_in_heap(p.signal, sizeof(uint64_t), g.heap_bytes) || p.signal % sizeof(uint64_t))))
      return report_error(g, message_fault::bad_size, op::am, g.my_pe, p.target, bytes);
    switch (reduction_call::of(p.what).how) {
      case GRAVEL_SUM: apply<GRAVEL_SUM, T>(g, p); break;
      case GRAVEL_PROD: apply<GRAVEL_PROD, T>(g, p); break;
      case GRAVEL_MIN: apply<GRAVEL_MIN, T>(g, p); break;
      default: apply<GRAVEL_MAX, T>(g, p); break;
    }
    if (signals)
      fetch_add_release<scope::system>(reinterpret_cast<uint64_t*>(g.heap + p.signal),
                                       uint64_t{p.count()});  // [A6] acquired by the waiting party
  }
  template <gravel_reduction HOW, class T>
  GRAVEL_BOTH static void apply(const gravel_t& g, const gravel::detail::accumulation_piece& p) {
    T* const target = reinterpret_cast<T*>(g.heap + p.target);
    for (uint32_t i = 0; i < p.count(); ++i)
      gravel::detail::accumulate_in_place<HOW, gravel::detail::scope::device>(target + i, p.get<T>(i));
  }
};

namespace gravel::detail {

/// Sends the elements as active messages; each lane sends its own.
template <gravel_reduction HOW, class T>
GRAVEL_BOTH void accumulate_by_messages(const gravel_t& g, const copy_team& team, uint64_t target, const T* source,
                                        uint64_t count, uint64_t signal, int pe) {
  constexpr uint32_t most = accumulation_piece::most<T>;
  for (uint64_t first = uint64_t{team.rank()} * most; first < count; first += uint64_t{team.size()} * most) {
    const auto now = static_cast<uint32_t>(count - first < most ? count - first : most);
    accumulation_piece p;
    p.target = target + first * sizeof(T);
    p.signal = signal;
    p.what = reduction_call{HOW, element<T>::type, false, 0}.word() | now << 8;
    for (uint32_t i = 0; i < now; ++i) p.set(i, source[first + i]);
    gravel_am<gravel_accumulation>(g, pe, p);
  }
  team.sync();
}

}  // namespace gravel::detail

/// Combines an array with one at `pe`, element by element, each atomically: target[i] becomes target[i] combined with
/// source[i]. Floating-point sums depend on the order in which elements of several PEs arrive. The program passes
/// gravel_accumulation to gravel_init.
/// @param g handle: the one that the kernel received, or gravel_host_handle()
/// @param target [count], a symmetric address
/// @param source [count], memory that this device reads; may be used again on return
/// @param count number of elements
/// @param signal symmetric address of a word: at `pe` it rises by the number of elements as they are there, by `count`
///   in all; nullptr: none
/// @param pe 0 to gravel_n_pes(g) - 1
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
/// @completion gravel_quiet; a party that sees the signal sees the elements
/// @errors memory outside the heap, a PE out of range: the job ends with a message
/// @source MPI_Accumulate; XTQ (SC 2016), accumulates
template <gravel_reduction HOW = GRAVEL_SUM, class T>
GRAVEL_BOTH void gravel_accumulate(const gravel_t& g, T* target, const gravel::detail::same<T>* source, uint64_t count,
                                   uint64_t* signal, int pe) {
  using namespace gravel::detail;
  if (team_forbidden_in_handler(g, op::am)) return;
  const copy_team team = copy_team::block(g);
  if (!enter_team(g, team_call::accumulate, team, target, count, signal, pe)) return;
  uint64_t offset, signal_offset = accumulation_piece::no_signal;
  if (count == 0) return;
  if (!locate_bytes(g, team, target, count * sizeof(T), pe, op::add, &offset)) return;
  if (signal && !locate_bytes(g, team, signal, sizeof(*signal), pe, op::add, &signal_offset)) return;
  if (offset % sizeof(T) || (signal && signal_offset % sizeof(*signal))) {
    if (team.is_leader())
      report_error(g, message_fault::misaligned, op::add, static_cast<uint32_t>(pe), offset, count * sizeof(T));
    return;
  }
  char* const heap = mapped_heap(g, pe);
  if (!heap) return accumulate_by_messages<HOW>(g, team, offset, source, count, signal_offset, pe);
  T* const there = reinterpret_cast<T*>(heap + offset);
  for (uint64_t i = team.rank(); i < count; i += team.size())
    accumulate_in_place<HOW, scope::system>(there + i, source[i]);
  if (signal) thread_fence();
  team.sync();
  if (signal && team.is_leader())
    raise_signal(reinterpret_cast<uint64_t*>(heap + signal_offset), count, GRAVEL_SIGNAL_ADD);  // [A6] release
}
