// One sender for all rivals of Gravel's networking model, with the interface of gravel_block_sender: a kernel is
// compiled for Gravel and once more for this one. Which rival it is, is known when the kernel runs.
#pragma once
#include "bench/rivals/model_queues.hpp"

namespace app {
using gravel::fetch_add;
using gravel::scope;
using gravel::detail::am_message;
using gravel::detail::apply_mapped;
using gravel::detail::fits_index;
using gravel::detail::message_key;
using gravel::detail::op;
using gravel::detail::ring_doorbells;
using gravel::detail::row_kind;
using gravel::detail::same;
using gravel::detail::sorted_messages;
using gravel::detail::update_message;

/// What a kernel is given instead of gravel_t.
struct model_handle : gravel_t {
  bool by_lane;  ///< message-per-lane: each message is sent where it is made
  uint32_t
      own_shared;  ///< bytes of dynamic shared memory that are the kernel's own; block_lists lie behind, except by lane
  queue_set queues;  ///< coprocessor: where lists go; memory is nullptr: to the network
  uint32_t* misuse;
};

class model_sender {
 public:
  /// Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const model_handle& handle) {
    if (threadIdx.x == 0) g = handle;
    __syncthreads();
    if (!g.by_lane) lists().begin();
  }
  /// Hands over the block's messages. Thread scope: block, converged.
  GRAVEL_DEVICE void end() {
    if (g.by_lane) return;
    block_lists& mine = lists();
    mine.each_list(message_key::of_pes(g.n_pes), [&](const sorted_messages& list) {
      if (g.queues.memory) g.queues.add(list, &mine.ticket, g.misuse);
      else put_list(g, list, &mine.ticket);
    });
    if (threadIdx.x == 0) {
      if (mine.in_place) fetch_add<scope::device>(&g.counters->here().in_place, uint64_t{mine.in_place});
      ring_doorbells(g);
    }
  }

  // Thread scope: lane, divergent.
  template <class T>
  GRAVEL_DEVICE void put(T* dest, same<T> value, int pe) {
    one_sided<op::put>(dest, value, pe);
  }
  template <class T>
  GRAVEL_DEVICE void add(T* dest, same<T> value, int pe) {
    one_sided<op::add>(dest, value, pe);
  }
  template <class T>
  GRAVEL_DEVICE void inc(T* dest, int pe) {
    one_sided<op::inc>(dest, T{1}, pe);
  }
  template <class T>
  GRAVEL_DEVICE void bit_xor(T* dest, same<T> value, int pe) {
    one_sided<op::bit_xor>(dest, value, pe);
  }
  template <class T>
  GRAVEL_DEVICE void min(T* dest, same<T> value, int pe) {
    one_sided<op::min>(dest, value, pe);
  }
  template <class Handler, class... A>
  GRAVEL_DEVICE void am(int pe, A... arguments) {
    if (g.by_lane) return gravel_am<Handler>(g, pe, arguments...);
    am_message<Handler> message;
    message.fill(arguments...);
    gather<message.kind>(pe, message.data);
  }

 private:
  template <op O, class T>
  GRAVEL_DEVICE void one_sided(T* dest, T value, int pe) {
    using message = update_message<O, T>;
    if (g.by_lane) return gravel::detail::one_sided<O>(g, dest, value, pe);
    if (static_cast<uint32_t>(pe) == g.my_pe) {
      apply_mapped(message::operation, dest, value);
      return lists().count_in_place();
    }
    const auto offset = static_cast<uint64_t>(reinterpret_cast<const char*>(dest) - g.heap);
    if (!fits_index(offset + sizeof(T), sizeof(T))) return report_misuse(g.misuse, model_misuse::far_away);
    gather<message::kind>(pe, message(offset, value).word);
  }
  template <row_kind KIND, uint32_t N>
  GRAVEL_DEVICE void gather(int pe, const uint32_t (&message)[N]) {
    if (!lists().add<KIND>(message_key::of_pes(g.n_pes), static_cast<uint32_t>(pe), message))
      report_misuse(g.misuse, model_misuse::many_of_block);
  }
  GRAVEL_DEVICE block_lists& lists() const {
    return *reinterpret_cast<block_lists*>(gravel_dynamic_shared() + g.own_shared);
  }

  model_handle g;
};

}  // namespace app
