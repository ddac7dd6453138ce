// Transfers between PEs: a warp stores some elements at once in the memory of another PE, with that PE's credit.
//
// Problem. Elements must travel between PEs without a handler, and without a place being overwritten before it is read.
// Solution. Each PE has one place for the transfer from each other PE. It grants credits, one at a time: a credit is
// the right to send one transfer. The receiver polls a word of its own memory. At most one transfer of a pair of PEs is
// in flight in each direction.
//
//   PE p, to q                                              PE q, from p
//                                                           request_credit(): granted[q] at p = 1 + transfers taken so
//                                                           far, when it wants one more
//   granted[q] > sent: elements into place[p] at q,
//     behind them arrived[p] at q = ++sent                  arrived[p] > taken: reads the elements; ++taken
//
// Invariants
// - Each word has one writer, and the numbers only grow.
// - A place is not overwritten before it has been read: the credit, a signal, leaves after the elements were read.
// - No two messages of a pair overtake each other: each one leaves only after the one before it, in the other
//   direction, has been seen. So the protocol needs no order of messages, on any route.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/bulk.cuh"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// The memory of one transfer: up to MOST elements.
template <class T, uint32_t MOST>
struct transfer {
  static constexpr uint32_t most = MOST;
  uint32_t count;
  alignas(16) T element[most];
};

/// The transfers of one type of elements between all PEs. Plain data; all memory is zero initially. Only one warp of
/// each PE uses it.
template <class T, uint32_t MOST>
struct transfers {
  using transfer = gravel::detail::transfer<T, MOST>;
  // Symmetric; other PEs write it.
  transfer* place;    ///< [PE] the transfer from that PE
  uint64_t* arrived;  ///< [PE] number of transfers from that PE that have arrived in its place
  uint64_t* granted;  ///< [PE] number of transfers to that PE for which there has been a credit
  // This PE's own.
  transfer* staging;    ///< memory in which the next transfer is put together
  uint64_t* sent;       ///< [PE] number of transfers that have been sent to that PE
  uint64_t* taken;      ///< [PE] number of transfers from that PE that have been taken
  uint64_t* requested;  ///< [PE] number of transfers from that PE for which this one has granted a credit

  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  GRAVEL_BOTH static constexpr uint64_t symmetric_bytes(uint32_t n_pes) {
    return n_pes * line(sizeof(transfer)) + 2 * line(n_pes * 8);
  }
  GRAVEL_BOTH static constexpr uint64_t own_bytes(uint32_t n_pes) {
    return line(sizeof(transfer)) + 3 * line(n_pes * 8);
  }
  /// A view of two pieces of zeroed memory, both aligned to 128 bytes.
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

  // ---- polls. Thread scope: lane. If the answer is yes, the warp calls sync() before its next step.

  /// Is there a credit for a transfer to that PE?
  GRAVEL_BOTH bool may_send(uint32_t pe) const { return load_acquire<scope::system>(&granted[pe]) > sent[pe]; }
  /// Has a transfer from that PE arrived?
  GRAVEL_BOTH bool has_arrived(uint32_t pe) const { return load_acquire<scope::system>(&arrived[pe]) > taken[pe]; }
  /// Has that PE a credit that it has not used, or whose transfer has not been taken?
  GRAVEL_BOTH bool has_requested(uint32_t pe) const { return requested[pe] > taken[pe]; }

  // ---- steps. Thread scope: the warp, converged.

  /// Sends n elements, up to MOST: element(i), called by one lane each. Only if may_send().
  template <class Group, class Element>
  GRAVEL_BOTH void send(const gravel_t& g, const Group& warp, uint32_t pe, uint32_t n, Element element) const {
    const uint64_t number = sent[pe] + 1;
    for (uint32_t i = warp.rank(); i < n; i += warp.size()) staging->element[i] = element(i);
    warp.sync();  // all lanes have read `sent`
    if (warp.is_leader()) {
      staging->count = n;
      sent[pe] = number;
    }
    warp.sync();
    gravel_put_signal_warp(g, &place[g.my_pe], staging, offsetof(transfer, element) + n * sizeof(T), &arrived[g.my_pe],
                           number, GRAVEL_SIGNAL_SET, static_cast<int>(pe));
  }
  /// Takes the transfer of that PE. It stays as it is until request_credit(). Only if has_arrived().
  template <class Group>
  GRAVEL_BOTH const transfer& take(const Group& warp, uint32_t pe) const {
    warp.sync();  // all lanes have polled
    if (warp.is_leader()) ++taken[pe];
    warp.sync();
    return place[pe];
  }
  /// Grants that PE a credit for one more transfer. Only if not has_requested().
  template <class Group>
  GRAVEL_BOTH void request_credit(const gravel_t& g, const Group& warp, uint32_t pe) const {
    const uint64_t number = taken[pe] + 1;
    warp.sync();
    if (warp.is_leader()) requested[pe] = number;
    warp.sync();
    gravel_put_signal_warp(g, nullptr, nullptr, 0, &granted[g.my_pe], number, GRAVEL_SIGNAL_SET, static_cast<int>(pe));
  }
};

}  // namespace gravel::detail
