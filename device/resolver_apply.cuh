// How lanes of the resolver apply rows: several messages at once, each checked by itself.
#pragma once
#include "device/apply.cuh"
#include "device/bulk.cuh"
#include "device/resolver_state.cuh"

namespace gravel::detail {

/// Reports a message that cannot be applied. `from`: device_error::arrived.
__device__ __forceinline__ void reject(const gravel_t& g, const unit& message, message_fault fault, uint64_t from) {
  const uint64_t w0 = message.word[0];
  report_error(g, fault, op_of(w0), g.my_pe, op_of(w0) == op::am ? handler_of(w0) : offset_of(w0), 0, from);
}

/// Applies one message. Not inlined: one copy serves all sizes, which saves the compiler much time.
template <class Handlers>
__device__ GRAVEL_NOINLINE void resolve_one(const gravel_t& g, const unit* message, uint32_t units, uint64_t from) {
#if GRAVEL_CUDA
  const message_fault fault = apply_message<Handlers>(g, sink_kind::device, message, units);
#else
  const message_fault fault = apply_on_host<Handlers>(g, sink_kind::device, message, units);
#endif
  if (fault != message_fault::fine) reject(g, *message, fault, from);
}

/// Applies the most frequent messages, an addition to a 64-bit word and a put of one, without a call. Returns false if
/// the message is another one, or faulty.
__device__ __forceinline__ bool resolve_simple(const gravel_t& g, const unit& m) {
  constexpr uint8_t type = static_cast<uint8_t>(value_type::u64);
  constexpr uint64_t add = make_word0(op::add, type, 0), put = make_word0(op::put, type, 0);
  const uint64_t offset = offset_of(m.word[0]), what = m.word[0] & word0_fields::operation_and_type;
  if ((what != add && what != put) || offset > g.heap_bytes - 8 || offset % 8) return false;
  auto* at = reinterpret_cast<uint64_t*>(g.heap + offset);
  if (what == add) add_scattered(at, m.word[1]);
  else put_scattered(at, m.word[1]);
  return true;
}
template <class Handlers>
__device__ __forceinline__ void resolve_unit(const gravel_t& g, const unit& m, uint64_t from) {
  if (resolve_simple(g, m)) return;
  const unit copy = m;  // a copy, so that `m` may stay in registers
  resolve_one<Handlers>(g, &copy, 1, from);
}

/// Up to four updates of words of one type, for one lane.
struct four_updates {
  uint32_t index[4];
  uint64_t value[4];
};
/// The words of type T in a window of the heap: the first word, and their number. A window may begin behind the heap.
template <class T>
struct window_words {
  T* begin;
  uint64_t n;
  GRAVEL_BOTH window_words(const gravel_t& g, const row_kind& kind) {
    const uint64_t first = heap_window::begin(kind.window()), all = g.heap_bytes / sizeof(T);
    begin = reinterpret_cast<T*>(g.heap) + first;
    n = first < all ? all - first : 0;
  }
};
/// Reports an update of a word that is not in the heap.
GRAVEL_DEVICE void report_word(const gravel_t& g, const row_kind& kind, uint32_t index, uint32_t bytes, uint64_t from) {
  const uint64_t word = heap_window::begin(kind.window()) + index;
  report_error(g, message_fault::outside_heap, kind.operation, g.my_pe, word * bytes, bytes, from);
}
/// Calls f(word, value) for each of the first `n` updates whose word lies in the heap, and reports the others. Thread
/// scope: lane.
template <class T, class F>
GRAVEL_DEVICE void for_each_word(const gravel_t& g, const row_kind& kind, const four_updates& m, uint32_t n,
                                 uint64_t from, F&& f) {
  const window_words<T> words(g, kind);
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    if (i >= n) break;
    if (m.index[i] < words.n) f(words.begin + m.index[i], from_word<T>(m.value[i]));
    else report_word(g, kind, m.index[i], sizeof(T), from);
  }
}
/// Applies one of the rarer updates. Not inlined: one copy for all.
__device__ GRAVEL_NOINLINE inline void apply_rare(op o, value_type type, char* at, uint64_t value) {
  apply_update(o, type, at, value);
}

/// Applies up to four updates of one kind. Not inlined: one copy for all kinds. Thread scope: lane.
__device__ GRAVEL_NOINLINE inline void apply_four(const gravel_t& g, row_kind kind, four_updates m, uint32_t n,
                                                  uint64_t from) {
  const auto type = static_cast<value_type>(kind.type);
  const auto put = [](auto* at, auto value) { put_scattered(at, value); };
  const auto add = [](auto* at, auto value) { add_scattered(at, value); };
  const op applied = kind.operation == op::inc ? op::add : kind.operation;
  const auto other = [&](auto* at, auto value) {
    apply_rare(applied, type, reinterpret_cast<char*>(at), to_word(value));
  };
  const uint32_t bytes = bytes_of(type);
  // Signed integers are put and added as unsigned ones.
  if (kind.operation == op::put) {
    if (bytes == 8) for_each_word<uint64_t>(g, kind, m, n, from, put);
    else if (bytes == 4) for_each_word<uint32_t>(g, kind, m, n, from, put);
    else if (bytes == 2) for_each_word<uint16_t>(g, kind, m, n, from, put);
    else for_each_word<uint8_t>(g, kind, m, n, from, put);
  } else if (bytes == 2) {  // an addition of numbers of 16 bits
    for_each_word<uint16_t>(g, kind, m, n, from, other);
  } else if ((kind.operation == op::add || kind.operation == op::inc) && type != value_type::f32 &&
             type != value_type::f64) {
    if (bytes == 8) for_each_word<uint64_t>(g, kind, m, n, from, add);
    else for_each_word<uint32_t>(g, kind, m, n, from, add);
  } else {
    if (bytes == 8) for_each_word<uint64_t>(g, kind, m, n, from, other);
    else for_each_word<uint32_t>(g, kind, m, n, from, other);
  }
}

/// Reports the messages of a row that lie outside the heap. `held`: `units` units of the row, with the numbers
/// first_unit, first_unit + 32, ...
__device__ GRAVEL_NOINLINE inline void report_outside(const gravel_t& g, const message_row& row, uint32_t bytes,
                                                      const unit* held, uint32_t units, uint32_t first_unit,
                                                      uint64_t from) {
  const uint32_t of_unit = row_kind::words_of_unit / row.kind.words;
  for (uint32_t b = 0; b < units; ++b)
    for (uint32_t i = 0; i < of_unit; ++i) {
      const uint32_t index = words_at(held + b)[i * row.kind.words];
      if ((first_unit + b * 32) * of_unit + i < row.messages &&
          heap_window::begin(row.kind.window()) + index >= g.heap_bytes / bytes)
        report_word(g, row.kind, index, bytes, from);
    }
}
/// Applies the most frequent messages: updates of words of type T, WORDS words each. The lane holds the row's units
/// with the numbers first_unit, first_unit + 32, ... Calls f(word, value) for each message in the heap. The updates
/// follow each other without a wait, so many are under way at once. Thread scope: lane.
template <class T, uint32_t WORDS, uint32_t UNITS, class F>
GRAVEL_DEVICE void update_held(const gravel_t& g, const message_row& row, const unit (&held)[UNITS],
                               uint32_t first_unit, uint64_t from, F&& f) {
  constexpr uint32_t of_unit = row_kind::words_of_unit / WORDS;
  const window_words<T> words(g, row.kind);
  const uint32_t last = words.n > ~0u ? ~0u : static_cast<uint32_t>(words.n) - 1;
  // From the lane's first message on. None is applied if the window begins behind the heap.
  const auto left = words.n ? static_cast<int32_t>(row.messages - first_unit * of_unit) : 0;
  bool all_inside = words.n != 0;
  GRAVEL_UNROLL
  for (uint32_t b = 0; b < UNITS; ++b) GRAVEL_UNROLL
  for (uint32_t i = 0; i < of_unit; ++i) {
    const auto word_of = [&](uint32_t w) { return static_cast<uint32_t>(held[b].word[w / 2] >> w % 2 * 32); };
    const uint32_t index = word_of(i * WORDS);
    const bool is_one = static_cast<int32_t>(b * 32 * of_unit + i) < left, is_inside = index <= last;
    if (is_one && is_inside) f(words.begin + index, WORDS == 1 ? T{1} : static_cast<T>(word_of(i * WORDS + WORDS - 1)));
    all_inside &= is_inside || !is_one;
  }
  if (all_inside) return;
  unit copy[UNITS];  // a copy, so that `held` stays in registers
  for (uint32_t b = 0; b < UNITS; ++b) copy[b] = held[b];
  report_outside(g, row, sizeof(T), copy, UNITS, first_unit, from);
}

/// Applies a compact row of puts or updates. Each lane takes four neighbouring messages at a time, which are as many
/// units as a message has words. Thread scope: TEAM threads, a block or a warp, each by itself.
template <uint32_t TEAM>
__device__ GRAVEL_NOINLINE void resolve_updates(const gravel_t& g, const message_row& row, const unit* at,
                                                uint64_t from) {
  const uint32_t words = row.kind.words, end = static_cast<uint32_t>(row.units());
  const uint64_t one = one_of(static_cast<value_type>(row.kind.type));
  for (uint32_t first = threadIdx.x % TEAM * 4; first < row.messages; first += TEAM * 4) {
    const uint32_t unit_at = first / 4 * words, last = end - 1;
    // Behind the row's end the last unit is read again, and not used.
    const unit a = load_unit(at + unit_at), b = load_unit(at + (unit_at + 1 < end ? unit_at + 1 : last)),
               c = load_unit(at + (unit_at + 2 < end ? unit_at + 2 : last));
    const uint64_t w[6] = {a.word[0], a.word[1], b.word[0], b.word[1], c.word[0], c.word[1]};
    const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
    const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
    four_updates m;
    if (words == 1) m = {{low(w[0]), high(w[0]), low(w[1]), high(w[1])}, {one, one, one, one}};
    else if (words == 2)
      m = {{low(w[0]), low(w[1]), low(w[2]), low(w[3])}, {w[0] >> 32, w[1] >> 32, w[2] >> 32, w[3] >> 32}};
    else
      m = {{low(w[0]), high(w[1]), low(w[3]), high(w[4])},
           {w[0] >> 32 | w[1] << 32, w[2], w[3] >> 32 | w[4] << 32, w[5]}};
    apply_four(g, row.kind, m, row.messages - first < 4 ? row.messages - first : 4, from);
  }
}

/// Applies a compact row. Thread scope: TEAM threads, each by itself.
template <class Handlers, uint32_t TEAM>
__device__ __forceinline__ void resolve_compact(const gravel_t& g, const message_row& row, const unit* at,
                                                uint64_t from) {
  if (row.kind.operation != op::am) return resolve_updates<TEAM>(g, row, at, from);
#if GRAVEL_CUDA
  const bool known = Handlers::dispatch_row(g, row.kind, words_at(at), threadIdx.x % TEAM, TEAM, row.messages);
#else
  const bool known = dispatch_row_on_host<Handlers>(g, row.kind, words_at(at), threadIdx.x % TEAM, TEAM, row.messages);
#endif
  if (!known && threadIdx.x % TEAM == 0)
    report_error(g, message_fault::bad_handler, op::am, g.my_pe, row.kind.handler, 0, from);
}

/// Applies a row of one-unit messages. Several loads are under way before the first message is used. TEAM: threads that
/// work on the row together, a block or a warp.
template <class Handlers, uint32_t TEAM, uint32_t BATCH>
__device__ __forceinline__ void resolve_small(const gravel_t& g, const unit* at, uint32_t messages, uint64_t from) {
  for (uint32_t first = threadIdx.x % TEAM; first < messages; first += BATCH * TEAM) {
    unit held[BATCH];
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < BATCH; ++b)
      if (first + b * TEAM < messages) held[b] = load_unit(at + first + b * TEAM);
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < BATCH; ++b)
      if (first + b * TEAM < messages) resolve_unit<Handlers>(g, held[b], from);
  }
}

template <class Handlers, uint32_t TEAM>
__device__ __forceinline__ void resolve_large(const gravel_t& g, const unit* at, uint32_t messages, uint32_t units,
                                              uint64_t from) {
  for (uint32_t i = threadIdx.x % TEAM; i < messages; i += TEAM) {
    unit held[max_small_units];
    if (units > max_small_units) {  // arguments of a handler; on a GPU it reads them where they lie
#if GRAVEL_ON_GPU
      resolve_one<Handlers>(g, at + i * units, units, from);
#else
      unit whole[max_am_units];  // may_hold() has refused longer messages
      copy_once(whole, at + i * units, units * sizeof(unit));
      resolve_one<Handlers>(g, whole, units, from);
#endif
      continue;
    }
    for (uint32_t u = 0; u < units; ++u) held[u] = load_unit(at + i * units + u);
    resolve_one<Handlers>(g, held, units, from);
  }
}

#if GRAVEL_CUDA
/// Applies a row that is one bulk message, the `number`-th row of its packet. Messages that fit a slot of a warp are
/// copied by a warp each, so that those of a packet do not wait for each other. Thread scope: block, converged at
/// messages that the block copies together.
__device__ __noinline__ inline void resolve_bulk(const gravel_t& g, const unit* at, const message_row& row,
                                                 uint32_t number, uint64_t from) {
  constexpr uint32_t most_of_warp = 32 * max_small_units;
  const unit head[2] = {load_unit(at), load_unit(at + 1)};
  const uint32_t units = row.kind.units(), warp = threadIdx.x / 32;
  const message_fault fault =
      row.messages == 1 ? check_message(head, units, g.heap_bytes, g.n_pes, g.n_cells) : message_fault::bad_size;
  if (fault != message_fault::fine) {
    if (threadIdx.x == 0) reject(g, head[0], fault, from);
    return;
  }
  const op o = op_of(head[0].word[0]);
  if (o == op::get_bulk || o == op::get_pieces) {  // each warp sends other answers
    const copy_team team = copy_team::whole_warp();
    const uint32_t first = (warp + number) % resolver_warps;
    const message_fault of_answers = o == op::get_bulk ? answer_get_bulk(g, team, head, first, resolver_warps)
                                                       : answer_get_pieces(g, team, head, at, first, resolver_warps);
    if (of_answers != message_fault::fine) reject(g, head[0], of_answers, from);
  } else if (units > most_of_warp) {
    finish_bulk(g, copy_team::block_of<resolver_threads>(), head, at);
  } else if (warp == number % resolver_warps) {
    finish_bulk(g, copy_team::whole_warp(), head, at);
  }
}
#endif

}  // namespace gravel::detail
