// Parcels between PEs: some elements at once, which a warp puts into a place of its own in the memory of another PE,
// once that one has invited it. No handler: who looks finds them. Of each pair of PEs at most one transfer is under way
// in each direction.
//
//   PE p, to q                                              PE q, from p
//                                                           invited[q] at p = 1 + transfers taken so far, when it wants
//                                                           one (more)
//   invited[q] > sent: elements into place[p] at q,
//     behind them come[p] at q = ++sent                     come[p] > taken: reads the elements; ++taken
//
// Each word has one writer, and numbers only grow. Nothing is overwritten before it has been read: the invitation, a
// signal, leaves behind the reading. No two messages of a pair can overtake each other, as each leaves only when the
// one before it, in the other direction, has been seen; so no order of messages is needed, on whatever route.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/bulk.cuh"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// Up to MOST elements.
template <class T, uint32_t MOST>
struct transfer {
  static constexpr uint32_t most = MOST;
  uint32_t count;
  alignas(16) T element[most];
};

/// Those of one kind of elements, from and to all PEs. Plain data; all memory zeroed to begin with. One warp of each PE
/// uses it.
template <class T, uint32_t MOST>
struct transfers {
  using transfer = gravel::detail::transfer<T, MOST>;
  // Symmetric, written by others.
  transfer* place;    ///< [PE] from that one
  uint64_t* come;     ///< [PE] transfers that lie, or lay, in its place
  uint64_t* invited;  ///< [PE] that so many transfers may be sent to
  // This PE's own.
  transfer* staging;   ///< one, where the next one is packed
  uint64_t* sent;      ///< [PE]
  uint64_t* taken;     ///< [PE]
  uint64_t* inviting;  ///< [PE] of which so many are wanted

  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  GRAVEL_BOTH static constexpr uint64_t symmetric_bytes(uint32_t n_pes) {
    return n_pes * line(sizeof(transfer)) + 2 * line(n_pes * 8);
  }
  GRAVEL_BOTH static constexpr uint64_t own_bytes(uint32_t n_pes) {
    return line(sizeof(transfer)) + 3 * line(n_pes * 8);
  }
  /// Views of zeroed memory, both aligned to 128 bytes.
  static transfers in(char* symmetric, char* own, uint32_t n_pes) {
    const uint64_t words = line(n_pes * 8), places = n_pes * line(sizeof(transfer)), first = line(sizeof(transfer));
    const auto at = [](char* memory) { return reinterpret_cast<uint64_t*>(memory); };
    return {reinterpret_cast<transfer*>(symmetric),
            at(symmetric + places),
            at(symmetric + places + words),
            reinterpret_cast<transfer*>(own),
            at(own + first),
            at(own + first + words),
            at(own + first + 2 * words)};
  }

  // ---- questions: thread scope lane. What follows a yes: behind a sync() of the warp.

  GRAVEL_BOTH bool may_send(uint32_t pe) const { return load_acquire<scope::system>(&invited[pe]) > sent[pe]; }
  GRAVEL_BOTH bool has_come(uint32_t pe) const { return load_acquire<scope::system>(&come[pe]) > taken[pe]; }
  GRAVEL_BOTH bool has_requested(uint32_t pe) const { return inviting[pe] > taken[pe]; }

  // ---- steps: thread scope the warp, converged

  /// n elements, up to MOST: element(i), each of which one lane makes. Only if it may_send().
  template <class Group, class Element>
  GRAVEL_BOTH void send(const gravel_t& g, const Group& warp, uint32_t pe, uint32_t n, Element element) const {
    const uint64_t number = sent[pe] + 1;
    for (uint32_t i = warp.rank(); i < n; i += warp.size()) staging->element[i] = element(i);
    warp.sync();  // all have read `sent`
    if (warp.is_leader()) {
      staging->count = n;
      sent[pe] = number;
    }
    warp.sync();
    gravel_put_signal_warp(g, &place[g.my_pe], staging, offsetof(transfer, element) + n * sizeof(T), &come[g.my_pe],
                           number, GRAVEL_SIGNAL_SET, static_cast<int>(pe));
  }
  /// What has come of that PE, and stays as it is until the next one is invited. Only if it has_come().
  template <class Group>
  GRAVEL_BOTH const transfer& take(const Group& warp, uint32_t pe) const {
    warp.sync();  // all know that it has come
    if (warp.is_leader()) ++taken[pe];
    warp.sync();
    return place[pe];
  }
  /// From now on one more transfer of that PE may come. Only if it is not invited already.
  template <class Group>
  GRAVEL_BOTH void request_credit(const gravel_t& g, const Group& warp, uint32_t pe) const {
    const uint64_t number = taken[pe] + 1;
    warp.sync();
    if (warp.is_leader()) inviting[pe] = number;
    warp.sync();
    gravel_put_signal_warp(g, nullptr, nullptr, 0, &invited[g.my_pe], number, GRAVEL_SIGNAL_SET, static_cast<int>(pe));
  }
};

}  // namespace gravel::detail
