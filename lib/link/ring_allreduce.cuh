// Allreduce along a ring.
//
// Each block's part of the array has one chunk for each PE. A chunk goes around the ring once, and each PE adds its own
// contribution. Then the result goes around once. Packets of a chunk follow each other, so that all links are busy at
// once.
//
// If kernels store over all links of the ring, they store a result directly into the next PE's array, and a counter
// there says how many packets have arrived [L8]. A result needs no buffer: a PE that has the result of a chunk has
// received the next PE's contribution to it, so the next PE has read its array there. One pass receives and passes on:
// it loads the packet and the own array, and stores into the next PE's memory. Source: Groute, section 4.3 (collectives
// on links); rings of packets as in section 2.1.
#pragma once
#include "lib/link/path.cuh"

namespace gravel::detail {

/// Counts results that the previous PE has stored into this PE's array, and those stored at the next PE: words of the
/// rings that only grow. Thread scope: block.
class stored_results {
 public:
  GRAVEL_DEVICE stored_results(const gravel_path_handle& h)
      : g_(h.g),
        out_(h.rings[h.position * h.lanes + blockIdx.x]),
        in_(h.rings[(h.position + h.n - 1) % h.n * h.lanes + blockIdx.x]),
        there_(stored_heap::of(h.g, out_.destination)),
        sent_(out_.origin()->results),
        taken_(in_.sink()->results_taken) {}
  GRAVEL_DEVICE void close() {
    __syncthreads();
    if (threadIdx.x != 0) return;
    out_.origin()->results = sent_;
    in_.sink()->results_taken = taken_;
  }
  template <class T>
  GRAVEL_DEVICE T* at(T* symmetric) const {
    return there_.at(symmetric);
  }
  GRAVEL_DEVICE void stored() {
    __syncthreads();
    ++sent_;
    if (threadIdx.x == 0) store_release(there_.at(&out_.sink()->results), sent_);  // [L8]
  }
  /// Waits for `n` more results.
  GRAVEL_DEVICE void await(uint64_t n) {
    taken_ += n;
    if (threadIdx.x == 0)
      for (watched_wait wait; load_acquire(&in_.sink()->results) < taken_;)  // [L8]
        wait.attentively(g_, [&] { return wait_subject{.what = awaited::path, .pe = in_.source}; });
    __syncthreads();
  }

 private:
  const gravel_t& g_;
  const packet_ring out_, in_;
  const stored_heap there_;
  uint64_t sent_, taken_;
};

template <class T, class Merge>
GRAVEL_DEVICE void allreduce_by_stores(const gravel_path_handle& h, const Merge& merge, T* to, const T* from,
                                       uint64_t count) {
  const uint32_t n = h.n, me = h.position;
  const auto cut = path_cut::of<T>(h, count, blockIdx.x, gridDim.x, n);
  const uint64_t packets = cut.packets(n);
  path_sender<stored_heap> sender(h, me);
  path_receiver<stored_heap> receiver(h, (me + n - 1) % n);
  stored_results results(h);
  const auto send_own = [&](uint64_t q) {
    const element_range r = cut.range(me, n, q);
    sender.await_buffer();
    combine_arrays<T, 1, false>(merge, reinterpret_cast<T*>(sender.buffer()), nullptr, {from + r.begin}, r.size());
    sender.stored(r.size() * sizeof(T));
  };
  // Between two PEs the ring carries contributions only: some go ahead. With more PEs, packets that are passed on come
  // between them.
  uint64_t ahead = 0;
  if (n == 2) ahead = h.rings[0].buffers - 1 < packets ? h.rings[0].buffers - 1 : packets;
  for (uint64_t q = 0; q < ahead; ++q) send_own(q);
  for (uint64_t q = 0; q < packets; ++q) {
    if (q + ahead < packets) send_own(q + ahead);
    for (uint32_t step = 1; step + 1 < n; ++step) {
      const element_range r = cut.range((me + n - step) % n, n, q);
      const T* const came = reinterpret_cast<const T*>(receiver.receive());
      sender.await_buffer();
      combine_arrays<T, 2, false>(merge, reinterpret_cast<T*>(sender.buffer()), nullptr, {came, from + r.begin},
                                  r.size());
      sender.stored(r.size() * sizeof(T));
      receiver.release();
    }
    const element_range whole = cut.range((me + 1) % n, n, q);
    const T* const came = reinterpret_cast<const T*>(receiver.receive());
    combine_arrays<T, 2, true>(merge, results.at(to + whole.begin), to + whole.begin, {came, from + whole.begin},
                               whole.size());
    results.stored();
    receiver.release();
    for (uint32_t step = 1; step + 1 < n; ++step) {
      const element_range r = cut.range((me + 1 + n - step) % n, n, q);
      results.await(1);
      combine_arrays<T, 1, false>(merge, results.at(to + r.begin), nullptr, {to + r.begin}, r.size());
      results.stored();
    }
    if (n > 2) results.await(1);
  }
  if (n == 2) results.await(packets);
  sender.close();
  receiver.close();
  results.close();
}

/// Sends all packets through buffers, in one order.
template <class T, class Merge>
GRAVEL_DEVICE void allreduce_by_messages(const gravel_path_handle& h, const Merge& merge, T* to, const T* from,
                                         uint64_t count) {
  const uint32_t n = h.n, me = h.position;
  const auto cut = path_cut::of<T>(h, count, blockIdx.x, gridDim.x, n);
  path_sender<far_heap> sender(h, me);
  path_receiver<far_heap> receiver(h, (me + n - 1) % n);
  const auto put = [&](const T* array, const element_range& r) {
    __syncthreads();
    sender.put(reinterpret_cast<const char*>(array), r.size() * sizeof(T));
  };
  for (uint64_t q = 0, packets = cut.packets(n); q < packets; ++q) {
    const element_range own = cut.range(me, n, q);
    put(from + own.begin, own);
    for (uint32_t step = 1; step < n; ++step) {
      const element_range r = cut.range((me + n - step) % n, n, q);
      T* const came = reinterpret_cast<T*>(receiver.receive());
      T* const result = step + 1 < n ? came : to + r.begin;
      combine_arrays<T, 2, false>(merge, result, nullptr, {came, from + r.begin}, r.size());
      put(result, r);
      receiver.release();
    }
    for (uint32_t step = 1; step < n; ++step) {
      const element_range r = cut.range((me + 1 + n - step) % n, n, q);
      const T* const came = reinterpret_cast<const T*>(receiver.receive());
      combine_arrays<T, 1, false>(merge, to + r.begin, nullptr, {came}, r.size());
      if (step + 1 < n) put(to + r.begin, r);
      receiver.release();
    }
  }
  sender.close();
  receiver.close();
}

template <class T, class Merge, class Handle>
GRAVEL_DEVICE void allreduce_along(const Handle& h, const Merge& merge, T* to, const T* from, uint64_t count) {
  __syncthreads();  // all threads have written what the block reduces
  if (h.n == 1) {
    const element_range part = element_range{0, count}.part(blockIdx.x, gridDim.x, element_grain<T>);
    if (to != from) combine_arrays<T, 1, false>(merge, to + part.begin, nullptr, {from + part.begin}, part.size());
  } else if constexpr (reach_of<Handle>::always) {
    allreduce_by_stores(h, merge, to, from, count);
  } else if (h.directly) {
    allreduce_by_stores(h, merge, to, from, count);
  } else {
    allreduce_by_messages(h, merge, to, from, count);
  }
  __syncthreads();
}

}  // namespace gravel::detail
