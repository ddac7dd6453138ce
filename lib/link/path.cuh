// Paths of links: arrays that are combined from one PE to the next, along a chain, a tree or a ring, and one PE's array
// that is copied to all PEs along a ring.
//
// Each block of a grid has a lane of the path and a part of the arrays for itself. So a block waits only for the blocks
// of the same number at neighbouring PEs. Source: Groute, sections 2.1 (rings, packets that are passed on while others
// arrive) and 5.1.4 (reductions along trees).
#pragma once
#include <type_traits>

#include "lib/link/merge.hpp"
#include "lib/link/packet_ring.cuh"

/// A path as kernels see it, from gravel_router::path(). Plain data.
struct gravel_path_handle {
  gravel_t g;
  const gravel::detail::packet_ring* rings;  ///< [links][lanes], in device memory: link i begins at input i
  uint32_t lanes;                            ///< the most blocks of a grid that calls
  uint32_t n;                                ///< inputs
  uint32_t position;                         ///< of this PE among the inputs
  uint8_t policy;                            ///< gravel_policy
  bool directly;  ///< kernels store over all links of the path; otherwise all packets are messages
};

/// A path over all of whose links kernels store (gravel_router::direct_path). Kernels that use this handle contain no
/// code for messages and have more registers.
struct gravel_direct_path_handle : gravel_path_handle {};

namespace gravel::detail {

template <class Handle>
concept path_like = std::is_base_of_v<gravel_path_handle, Handle>;
/// How kernels reach other PEs, by type of the handle.
template <class Handle>
using reach_of = std::conditional_t<std::is_same_v<Handle, gravel_direct_path_handle>, stored_heap, far_heap>;

constexpr uint32_t path_threads = GRAVEL_CUDA ? 512 : 32;
constexpr uint32_t no_link = ~0u;

/// Elements [begin, end).
struct element_range {
  uint64_t begin, end;
  GRAVEL_BOTH uint64_t size() const { return end - begin; }
  /// Returns part `number` of `of`. Parts begin at multiples of `grain` elements from `begin`.
  GRAVEL_BOTH element_range part(uint64_t number, uint64_t of, uint64_t grain) const {
    const uint64_t grains = (size() + grain - 1) / grain, each = grains / of, more = grains % of;
    const uint64_t first = (number * each + (number < more ? number : more)) * grain,
                   n = (each + (number < more)) * grain;
    const uint64_t from = first < size() ? first : size(), to = first + n < size() ? first + n : size();
    return {begin + from, begin + to};
  }
};

/// Combines words [i, end) of the sources in their order into `to`, and with ALSO into `also`. Returns where the thread
/// stopped. Thread scope: block, each thread for its own words.
template <class T, uint32_t SOURCES, bool ALSO, class Word, class Merge>
GRAVEL_DEVICE uint64_t combine_words(const Merge& merge, Word* to, Word* also, const Word* const (&source)[SOURCES],
                                     uint64_t i, uint64_t end) {
  // Each thread takes MANY of its words together, so that all their loads are in flight at once: 128 bytes of one
  // source, or 64 of each of several.
  constexpr uint32_t most = SOURCES == 1 ? 8 : 4, fit = most * sizeof(unit) / sizeof(Word),
                     fit_at_least_1 = fit ? fit : 1, at_once = fit_at_least_1 < most ? fit_at_least_1 : most;
  const uint64_t step = blockDim.x;
  const auto together = [&]<uint32_t MANY>(std::integral_constant<uint32_t, MANY>) {
    for (; i + (MANY - 1) * step < end; i += MANY * step) {
      Word words[MANY][SOURCES];
      GRAVEL_UNROLL
      for (uint32_t s = 0; s < SOURCES; ++s) {
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < MANY; ++k) words[k][s] = source[s][i + k * step];
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < MANY; ++k) {
        if constexpr (SOURCES > 1) words[k][0] = merge.template merged<T>(words[k]);
        to[i + k * step] = words[k][0];
        if constexpr (ALSO) also[i + k * step] = words[k][0];
      }
    }
  };
  together(std::integral_constant<uint32_t, at_once>{});
  if constexpr (at_once > 2) together(std::integral_constant<uint32_t, 2>{});
  if constexpr (at_once > 1) together(std::integral_constant<uint32_t, 1>{});
  return i;
}
template <class T, uint32_t SOURCES, bool ALSO, class Merge>
GRAVEL_DEVICE void combine_arrays(const Merge& merge, T* to, T* also, const T* const (&source)[SOURCES], uint64_t n) {
  uint64_t mixed = reinterpret_cast<uint64_t>(to) | (ALSO ? reinterpret_cast<uint64_t>(also) : 0);
  for (uint32_t s = 0; s < SOURCES; ++s) mixed |= reinterpret_cast<uint64_t>(source[s]);
  uint64_t done = 0;
  // Units hold whole elements, or are only copied.
  constexpr bool may_use_units = SOURCES == 1 || sizeof(unit) % sizeof(T) == 0;
  if constexpr (may_use_units) {
    if (mixed % sizeof(unit) == 0) {
      const unit* units[SOURCES];
      for (uint32_t s = 0; s < SOURCES; ++s) units[s] = reinterpret_cast<const unit*>(source[s]);
      done = n / element_grain<T> * element_grain<T>;
      combine_words<T, SOURCES, ALSO, unit>(merge, reinterpret_cast<unit*>(to), reinterpret_cast<unit*>(also), units,
                                            threadIdx.x, done * sizeof(T) / sizeof(unit));
    }
  }
  combine_words<T, SOURCES, ALSO, T>(merge, to, also, source, done + threadIdx.x, n);
}

/// The sending end of a path for a block: gravel_packet_sender without segments. Thread scope: block.
template <class There>
class path_sender {
 public:
  GRAVEL_DEVICE path_sender(const gravel_path_handle& h, uint32_t link)
      : g_(h.g),
        is_one_(link != no_link),
        ring_(h.rings[(is_one_ ? link : 0) * h.lanes + blockIdx.x]),
        there_(is_one_ ? There::of(h.g, ring_.destination) : There{}),
        next_(is_one_ ? ring_.origin()->sent : 0) {}
  GRAVEL_DEVICE void close() {
    __syncthreads();
    if (is_one_ && threadIdx.x == 0) ring_.origin()->sent = next_;
  }
  GRAVEL_DEVICE void await_buffer() {
    if (threadIdx.x == 0) await_credit(g_, ring_, next_);
    __syncthreads();
  }
  /// Returns the next buffer in the destination's memory, which must be mapped.
  GRAVEL_DEVICE char* buffer() const { return there_.at(ring_.data(next_)); }
  /// Notifies the destination: what the block has stored in buffer() is a packet.
  GRAVEL_DEVICE void stored(uint64_t bytes) {
    __syncthreads();
    if (threadIdx.x == 0) notify_packet(g_, ring_, there_, next_, packet_word::make(next_, bytes, true, false, false));
    ++next_;
  }
  /// Sends a packet from this PE's memory, by messages. Returns when `from` may be reused.
  GRAVEL_DEVICE void put(const char* from, uint64_t bytes) {
    await_buffer();
    put_packet(g_, ring_, there_, next_, ring_.data(next_), from, bytes, true, 0);
    ++next_;
    __syncthreads();
  }

 private:
  const gravel_t& g_;
  const bool is_one_;
  const packet_ring ring_;
  const There there_;
  uint64_t next_;
};
template <class There>
class path_receiver {
 public:
  GRAVEL_DEVICE path_receiver(const gravel_path_handle& h, uint32_t link)
      : g_(h.g),
        is_one_(link != no_link),
        ring_(h.rings[(is_one_ ? link : 0) * h.lanes + blockIdx.x]),
        back_(is_one_ ? There::of(h.g, ring_.source) : There{}),
        next_(is_one_ ? ring_.sink()->taken : 0) {}
  GRAVEL_DEVICE void close() {
    __syncthreads();
    if (is_one_ && threadIdx.x == 0) ring_.sink()->taken = next_;
  }
  /// Waits for the next packet.
  GRAVEL_DEVICE char* receive() {
    if (threadIdx.x == 0) now_ = await_packet(g_, ring_, next_);
    __syncthreads();
    return ring_.data(next_);
  }
  /// Returns the packet's buffer. All threads have read it.
  GRAVEL_DEVICE void release() {
    __syncthreads();
    if (threadIdx.x == 0) free_packet(g_, ring_, back_, now_);
    ++next_;
  }

 private:
  const gravel_t& g_;
  const bool is_one_;
  const packet_ring ring_;
  const There back_;
  uint64_t next_;
  received_packet now_{};  ///< valid in thread 0
};

constexpr uint64_t packets_of_chunk = 4;
/// How the part of a block is cut into packets. All PEs cut it alike.
struct path_cut {
  element_range part;  ///< the part of this block
  uint64_t packet;     ///< elements
  uint64_t grain;
  template <class T>
  GRAVEL_BOTH static path_cut of(const gravel_path_handle& h, uint64_t count, uint32_t block, uint32_t blocks,
                                 uint32_t chunks) {
    constexpr uint64_t grain = element_grain<T>, of_8_kib = 8192 / sizeof(T) / grain * grain;
    const element_range part = element_range{0, count}.part(block, blocks, grain);
    // Several packets for each chunk, so that one is passed on while others arrive; but packets are not so small that
    // most of the time is waiting.
    const uint64_t fit = h.rings[0].packet_bytes / sizeof(T), most = fit < grain ? fit : fit / grain * grain,
                   least = of_8_kib < grain ? grain : of_8_kib;
    uint64_t packet = (part.size() / chunks / packets_of_chunk + grain - 1) / grain * grain;
    packet = packet < least ? least : packet;
    return {part, packet < most ? packet : most, grain};
  }
  GRAVEL_BOTH uint64_t packets(uint32_t chunks) const {
    const uint64_t largest = part.part(0, chunks, grain).size();
    return (largest + packet - 1) / packet;
  }
  /// Returns the elements of packet q of chunk k. There may be none.
  GRAVEL_BOTH element_range range(uint32_t k, uint32_t chunks, uint64_t q) const {
    const element_range chunk = part.part(k, chunks, grain);
    const uint64_t from = chunk.begin + q * packet;
    const uint64_t end = from + packet < chunk.end ? from + packet : chunk.end;
    return from >= chunk.end ? element_range{chunk.end, chunk.end} : element_range{from, end};
  }
};

/// So many bytes of an array for each block.
constexpr uint64_t path_bytes_of_block = GRAVEL_CUDA ? 16384 : 2048;
GRAVEL_BOTH uint32_t path_blocks(uint64_t bytes, uint32_t most) {
  const uint64_t wanted = (bytes + path_bytes_of_block - 1) / path_bytes_of_block;
  if (wanted < 1) return 1;
  return wanted < most ? static_cast<uint32_t>(wanted) : most;
}

/// Reduces by chain or tree. The PE combines its own array with the packets that arrive from below, in the order of the
/// PEs, and sends the result up, or writes it to `to`.
template <class T, class Merge, class Handle>
GRAVEL_DEVICE void reduce_up(const Handle& h, const Merge& merge, T* to, const T* from, uint64_t count, uint32_t up,
                             uint32_t left, uint32_t right) {
  const auto cut = path_cut::of<T>(h, count, blockIdx.x, gridDim.x, 1);
  path_sender<reach_of<Handle>> sender(h, up);
  path_receiver<reach_of<Handle>> first(h, left), second(h, right);
  for (uint64_t q = 0, packets = cut.packets(1); q < packets; ++q) {
    const element_range r = cut.range(0, 1, q);
    const T* const mine = from + r.begin;
    T* const one = left == no_link ? nullptr : reinterpret_cast<T*>(first.receive());
    const T* const two = right == no_link ? nullptr : reinterpret_cast<const T*>(second.receive());
    const bool stores = up != no_link && (reach_of<Handle>::always || h.directly);
    if (stores) sender.await_buffer();
    // Messages are sent from memory, so the result is combined in the buffer of the packet that arrived.
    T* result = one;
    if (up == no_link) result = to + r.begin;
    else if (stores) result = reinterpret_cast<T*>(sender.buffer());
    if (two) combine_arrays<T, 3, false>(merge, result, nullptr, {one, two, mine}, r.size());
    else if (one) combine_arrays<T, 2, false>(merge, result, nullptr, {one, mine}, r.size());
    else if (result && result != mine) combine_arrays<T, 1, false>(merge, result, nullptr, {mine}, r.size());
    if (stores) sender.stored(r.size() * sizeof(T));
    else if (up != no_link) {
      __syncthreads();
      sender.put(reinterpret_cast<const char*>(one ? one : mine), r.size() * sizeof(T));
    }
    if (one) first.release();
    if (two) second.release();
  }
  sender.close();
  first.close();
  second.close();
}

/// Copies data[0 .. bytes) of the PE at `root` to all PEs of the ring.
template <class Handle>
GRAVEL_DEVICE void broadcast_along(const Handle& h, char* data, uint64_t bytes, uint32_t root) {
  using T = unsigned char;
  const uint32_t distance = (h.position + h.n - root) % h.n;
  const auto cut = path_cut::of<T>(h, bytes, blockIdx.x, gridDim.x, 1);
  const bool sends = distance + 1 < h.n;
  path_sender<reach_of<Handle>> sender(h, sends ? h.position : no_link);
  path_receiver<reach_of<Handle>> receiver(h, distance ? (h.position + h.n - 1) % h.n : no_link);
  for (uint64_t q = 0, packets = cut.packets(1); q < packets; ++q) {
    const element_range r = cut.range(0, 1, q);
    auto* const mine = reinterpret_cast<T*>(data) + r.begin;
    const T* const came = distance ? reinterpret_cast<const T*>(receiver.receive()) : nullptr;
    if (sends && (reach_of<Handle>::always || h.directly)) {
      sender.await_buffer();
      auto* const there = reinterpret_cast<T*>(sender.buffer());
      if (came) combine_arrays<T, 1, true>(no_merge{}, there, mine, {came}, r.size());
      else combine_arrays<T, 1, false>(no_merge{}, there, nullptr, {mine}, r.size());
      sender.stored(r.size());
    } else {
      if (came) combine_arrays<T, 1, false>(no_merge{}, mine, nullptr, {came}, r.size());
      __syncthreads();
      if (sends) sender.put(reinterpret_cast<const char*>(mine), r.size());
    }
    if (came) receiver.release();
  }
  sender.close();
  receiver.close();
}

}  // namespace gravel::detail
