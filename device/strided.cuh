// Strided puts and gets: elements at equal distances, by a whole block, a warp, a lane, or a host thread.
//
// On the route `net` each element is a message of its own, and such messages are gathered as any others. On the other
// routes the elements are copied.
//
// What all calls of this file have in common. A host thread calls any of them alone. T: any plain type of 1, 2, 4, 8 or
// 16 bytes.
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @param dest the first element's place: at `pe` (put: a symmetric address), or here (get: any memory that the caller
//   can write). It is aligned to the element's size, or to 8 for elements of 16 bytes
// @param source the first element. Put: any memory that this device can read, of host threads also memory of the host;
//   it may be reused on return. Get: symmetric address at `pe`. Aligned as `dest`
// @param dest_stride distance of neighbouring elements at `dest`, in elements, 1 or more
// @param source_stride distance of neighbouring elements at `source`, in elements, 1 or more
// @param count number of elements, 0 or more
// @param pe 0 to gravel_n_pes(g) - 1
// @param lanes mask of the lanes of the warp that call together; all of them call with the same mask
// @completion gravel_quiet. On the route `net` a get into memory that is not symmetric is complete on return
// @errors memory outside the heap, misaligned addresses, a PE out of range, a call from a handler, threads that are
//   missing or differ in their arguments: the job ends with a message that names the call
// @source OpenSHMEM 1.5: shmem_iput, shmem_iget; NVSHMEM: nvshmemx_*_block and _warp
#pragma once
#include "device/bulk.cuh"

namespace gravel::detail {

/// The word of `bytes` bytes as which an element, or half of one of 16 bytes, is copied.
template <uint32_t BYTES>
using word_of_bytes =
    std::conditional_t<BYTES == 1, uint8_t,
                       std::conditional_t<BYTES == 2, uint16_t, std::conditional_t<BYTES == 4, uint32_t, uint64_t>>>;

/// Elements at equal distances: element i consists of WORDS words from at[i * stride] on.
template <class Word, uint32_t WORDS>
struct strided_words {
  Word* at;
  uint64_t stride;  ///< in words
  GRAVEL_BOTH Word* word(uint64_t n) const { return at + n / WORDS * stride + n % WORDS; }
};

/// Bytes from the first element's first byte to the last element's last one; the largest number if there are too many
/// for any heap.
GRAVEL_BOTH uint64_t strided_bytes(uint64_t count, uint64_t stride, uint64_t element) {
  if (count == 0) return 0;
  const uint64_t most = max_offset / element;
  if (stride > most || (stride && (count - 1) > most / stride)) return ~uint64_t{0};
  return ((count - 1) * stride + 1) * element;
}

/// Copies words between places that the caller reaches. Several loads of a thread are under way together. Thread scope:
/// the team, each thread for its own words.
template <class Word, uint32_t WORDS>
GRAVEL_BOTH void copy_strided(const copy_team& team, strided_words<Word, WORDS> to,
                              strided_words<const Word, WORDS> from, uint64_t words) {
  constexpr uint32_t at_once = 4;
  const uint64_t step = team.size();
  for (uint64_t i = team.rank(); i < words; i += at_once * step) {
    Word held[at_once] = {};
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k)
      if (i + k * step < words) held[k] = read_in_place(from.word(i + k * step));
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k)
      if (i + k * step < words) put_in_place(to.word(i + k * step), held[k]);
  }
}

/// Reads or writes a word that may lie in a GPU's memory while the caller is a host thread.
template <class Word>
GRAVEL_BOTH Word load_anywhere(const Word* from) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  if (is_device_memory(from)) {
    Word value;
    copy_from_device(&value, from, sizeof(value));
    return value;
  }
#endif
  return *from;
}
template <class Word>
GRAVEL_BOTH void store_anywhere(Word* to, Word value) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  if (is_device_memory(to)) {
    copy_from_device(to, &value, sizeof(value));
    return;
  }
#endif
  *to = value;
}

/// Checks what puts and gets have in common. `symmetric`: the first element's symmetric address. Returns false after
/// reporting a mistake. Thread scope: the team.
GRAVEL_BOTH bool check_strided(const gravel_t& g, const copy_team& team, op o, const void* symmetric, const void* other,
                               uint64_t stride, uint64_t count, uint32_t bytes, int pe) {
  uint64_t offset;
  if (!locate_bytes(g, team, count ? symmetric : g.heap, strided_bytes(count, stride, bytes), pe, o, &offset))
    return false;
  const uint32_t align = bytes == 16 ? 8 : bytes;
  const bool is_aligned = offset % align == 0 && reinterpret_cast<uint64_t>(other) % align == 0;
  if (!is_aligned && team.is_leader())
    report_error(g, message_fault::misaligned, o, static_cast<uint32_t>(pe),
                 offset % align ? offset : reinterpret_cast<uint64_t>(other) % align, bytes);
  return is_aligned;
}

template <class T>
GRAVEL_BOTH void put_strided_by(const gravel_t& g, const copy_team& team, T* dest, const T* source,
                                uint64_t dest_stride, uint64_t source_stride, uint64_t count, int pe) {
  constexpr uint32_t n = sizeof(T) == 16 ? 2 : 1;
  using word = word_of_bytes<sizeof(T) / n>;
  static_assert(std::is_trivially_copyable_v<T> && sizeof(word) * n == sizeof(T),
                "gravel_put_strided takes plain types of 1, 2, 4, 8 or 16 bytes");
  if (team_forbidden_in_handler(g, op::put_strided)) return;
  if (!enter_team(g, team.is_warp() ? team_call::put_strided_warp : team_call::put_strided, team, dest, dest_stride,
                  source_stride, count, pe))
    return;
  if (!check_strided(g, team, op::put_strided, dest, source, dest_stride, count, sizeof(T), pe)) return;
  if (count == 0) return team.sync();
  const strided_words<const word, n> from{reinterpret_cast<const word*>(source), source_stride * n};
  if (char* const heap = mapped_heap(g, pe)) {
    auto* const at = reinterpret_cast<word*>(heap + (reinterpret_cast<char*>(dest) - g.heap));
    copy_strided<word, n>(team, {at, dest_stride * n}, from, count * n);
  } else {
    const strided_words<word, n> to{reinterpret_cast<word*>(dest), dest_stride * n};
    for (uint64_t i = team.rank(); i < count * n; i += team.size())
      one_sided<op::put>(g, to.word(i), load_anywhere(from.word(i)), pe);
  }
  team.sync();  // before this, `source` may not be reused
}

template <class T>
GRAVEL_BOTH void get_strided_by(const gravel_t& g, const copy_team& team, T* dest, const T* source,
                                uint64_t dest_stride, uint64_t source_stride, uint64_t count, int pe) {
  constexpr uint32_t n = sizeof(T) == 16 ? 2 : 1;
  using word = word_of_bytes<sizeof(T) / n>;
  static_assert(std::is_trivially_copyable_v<T> && sizeof(word) * n == sizeof(T),
                "gravel_get_strided takes plain types of 1, 2, 4, 8 or 16 bytes");
  if (team_forbidden_in_handler(g, op::get_strided)) return;
  if (!enter_team(g, team.is_warp() ? team_call::get_strided_warp : team_call::get_strided, team, dest, source,
                  dest_stride, source_stride, count, pe))
    return;
  if (!check_strided(g, team, op::get_strided, source, dest, source_stride, count, sizeof(T), pe)) return;
  if (count == 0) return team.sync();
  const strided_words<word, n> to{reinterpret_cast<word*>(dest), dest_stride * n};
  const auto there = static_cast<uint64_t>(reinterpret_cast<const char*>(source) - g.heap);
  if (const char* const heap = mapped_heap(g, pe)) {
    copy_strided<word, n>(team, to, {reinterpret_cast<const word*>(heap + there), source_stride * n}, count * n);
  } else {
    const strided_words<const word, n> from{reinterpret_cast<const word*>(source), source_stride * n};
    const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(dest) - g.heap);
    const bool is_symmetric = lies_in_heap(offset, strided_bytes(count, dest_stride, sizeof(T)), g.heap_bytes);
    for (uint64_t i = team.rank(); i < count * n; i += team.size()) {
      if (is_symmetric) gravel_get(g, to.word(i), from.word(i), pe);
      else store_anywhere(to.word(i), gravel_fetch(g, from.word(i), pe));
    }
  }
  team.sync();
}

}  // namespace gravel::detail

/// Copies `count` elements to `pe`: dest[i * dest_stride] = source[i * source_stride].
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_put_strided(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                    uint64_t source_stride, uint64_t count, int pe) {
  gravel::detail::put_strided_by(g, gravel::detail::copy_team::block(g), dest, source, dest_stride, source_stride,
                                 count, pe);
}
/// Copies `count` elements to `pe`, as gravel_put_strided.
/// @scope warp: the lanes in `lanes`, converged, with the same arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_put_strided_warp(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                         uint64_t source_stride, uint64_t count, int pe, uint32_t lanes = ~0u) {
  gravel::detail::put_strided_by(g, gravel::detail::copy_team::warp(g, lanes), dest, source, dest_stride, source_stride,
                                 count, pe);
}
/// Copies `count` elements to `pe`, as gravel_put_strided.
/// @scope lane, from divergent code, each with its own arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_put_strided_lane(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                         uint64_t source_stride, uint64_t count, int pe) {
  gravel::detail::put_strided_by(g, gravel::detail::copy_team::lane(g), dest, source, dest_stride, source_stride, count,
                                 pe);
}

/// Copies `count` elements from `pe`: dest[i * dest_stride] = source[i * source_stride].
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_get_strided(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                    uint64_t source_stride, uint64_t count, int pe) {
  gravel::detail::get_strided_by(g, gravel::detail::copy_team::block(g), dest, source, dest_stride, source_stride,
                                 count, pe);
}
/// Copies `count` elements from `pe`, as gravel_get_strided.
/// @scope warp: the lanes in `lanes`, converged, with the same arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_get_strided_warp(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                         uint64_t source_stride, uint64_t count, int pe, uint32_t lanes = ~0u) {
  gravel::detail::get_strided_by(g, gravel::detail::copy_team::warp(g, lanes), dest, source, dest_stride, source_stride,
                                 count, pe);
}
/// Copies `count` elements from `pe`, as gravel_get_strided.
/// @scope lane, from divergent code, each with its own arguments; a host thread. Not handlers
template <class T>
GRAVEL_BOTH void gravel_get_strided_lane(const gravel_t& g, T* dest, const T* source, uint64_t dest_stride,
                                         uint64_t source_stride, uint64_t count, int pe) {
  gravel::detail::get_strided_by(g, gravel::detail::copy_team::lane(g), dest, source, dest_stride, source_stride, count,
                                 pe);
}
