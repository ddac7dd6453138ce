// Updates of elements of 16 bits.
//
// Problem. Operations on symmetric memory take words of 4 and 8 bytes.
// Solution. A row consists of words of 4 bytes, and each word is a pair of elements. A pair is one message: an active
// message to the handler gravel::pair_updates, which combines both elements. Each element is updated atomically.
#pragma once
#include <type_traits>

#include <gravel/gravel.cuh>
#include "device/am.cuh"
#include "lib/base/element.hpp"

namespace gravel::detail {

/// Combines the two elements of a word with those of `pair`, each atomically with regard to this function and to CUDA's
/// atomics on the same device. Results are rounded to the nearest, ties to even. Thread scope: lane.
template <gravel_reduction HOW, class T>
GRAVEL_BOTH void update_pair_in_place(uint32_t* at, uint32_t pair) {
#if GRAVEL_ON_GPU
  constexpr bool is_half_sum = HOW == GRAVEL_SUM && std::is_same_v<T, gravel_half>;
  constexpr bool is_bfloat16_sum = HOW == GRAVEL_SUM && std::is_same_v<T, gravel_bfloat16> && __CUDA_ARCH__ >= 900;
#else
  constexpr bool is_half_sum = false, is_bfloat16_sum = false;
#endif
  if constexpr (is_half_sum) {
#if GRAVEL_ON_GPU
    asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(at), "r"(pair) : "memory");
#endif
  } else if constexpr (is_bfloat16_sum) {
#if GRAVEL_ON_GPU
    asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(at), "r"(pair) : "memory");
#endif
  } else {
    for (uint32_t seen = load_relaxed<scope::device>(at);;) {
      combination<HOW, T, uint32_t> both;
      both.begin(seen);
      both.add(pair);
      const uint32_t wanted = both.result();
      if (wanted == seen) return;
      const uint32_t found = compare_swap_in_place(at, seen, wanted);
      if (found == seen) return;
      seen = found;
    }
  }
}

/// What the handler does, and where, in one word: bits 0-7 reduction_call::word | 8-63 number of the heap's word of 4
/// bytes.
struct pair_target {
  gravel_reduction how;
  reduction_type type;
  uint64_t word;

  GRAVEL_BOTH uint64_t packed() const { return reduction_call{how, type, false, 0}.word() | word << 8; }
  GRAVEL_BOTH static pair_target of(uint64_t packed) {
    const reduction_call call = reduction_call::of(static_cast<uint32_t>(packed & 0xff));
    return {call.how, call.type, packed >> 8};
  }
};

}  // namespace gravel::detail

namespace gravel {

/// The handler that updates elements of 16 bits of tables. A program that updates such elements passes it to
/// gravel_init.
struct pair_updates {
  static constexpr const char* name = "gravel::pair_updates";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t packed, uint32_t pair) const {
    const auto target = detail::pair_target::of(packed);
    if (target.word >= g.heap_bytes / sizeof(pair))
      return detail::report_error(g, detail::message_fault::bad_size, detail::op::am, g.my_pe,
                                  target.word * sizeof(pair), sizeof(pair));
    uint32_t* const at = reinterpret_cast<uint32_t*>(g.heap) + target.word;
    if (target.type == detail::reduction_type::f16) combine<gravel_half>(target.how, at, pair);
    else combine<gravel_bfloat16>(target.how, at, pair);
  }

 private:
  template <class T>
  GRAVEL_BOTH static void combine(gravel_reduction how, uint32_t* at, uint32_t pair) {
    if (how == GRAVEL_SUM) detail::update_pair_in_place<GRAVEL_SUM, T>(at, pair);
    else if (how == GRAVEL_MIN) detail::update_pair_in_place<GRAVEL_MIN, T>(at, pair);
    else detail::update_pair_in_place<GRAVEL_MAX, T>(at, pair);
  }
};

}  // namespace gravel

namespace gravel::detail {

/// Combines a pair of a symmetric word at `pe` with `pair`: here at once, elsewhere by a message.
/// Thread scope: lane, divergent.
template <gravel_reduction HOW, class T, class Sender>
GRAVEL_DEVICE void update_pair(Sender& sender, const gravel_t& g, uint32_t* to, uint32_t pair, int pe) {
  if (static_cast<uint32_t>(pe) == g.my_pe) return update_pair_in_place<HOW, T>(to, pair);
  const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(to) - g.heap);
  const pair_target target{HOW, element<T>::type, offset / sizeof(pair)};
  sender.template am<pair_updates>(pe, target.packed(), pair);
}

}  // namespace gravel::detail
