// The coprocessor model (Gravel paper, section 3.1): kernels do not use the network. They write messages into a queue
// for each PE, in device memory. When a kernel has ended the host has the queues sent in bulk, waits for those of the
// others, and starts a kernel that applies what came. A queue cannot be emptied before that, so a launch handles no
// more than surely fits.
#pragma once
#include <memory>
#include <vector>

#include <gravel/device_array.hpp>
#include "bench/rivals/model_lists.hpp"
#include "device/resolver_apply.cuh"

namespace app {
using gravel::compare_swap_acquire;
using gravel::device_array;
using gravel::fetch_add;
using gravel::load_relaxed;
using gravel::scope;
using gravel::detail::bytes_of;
using gravel::detail::handler_list;
using gravel::detail::landing;
using gravel::detail::message_row;
using gravel::detail::pe_of_sink;
using gravel::detail::resolve_compact;
using gravel::detail::row_kind;
using gravel::detail::sink_kind;
using gravel::detail::sink_of;
using gravel::detail::sorted_messages;
using gravel::detail::unit;
using gravel::detail::units_for;
using gravel::detail::words_at;

/// In front of a queue's messages, which are all of one kind and lie as in a row. Written by the lanes that add lists,
/// then by none until all is sent.
struct alignas(64) queue_head {
  uint64_t kind;  ///< row_kind::bits; 0: there are no messages
  uint64_t messages;
  uint64_t spare[6];
};
static_assert(sizeof(queue_head) == 64);

/// A queue for each PE, or from each PE, of `bytes` bytes each.
struct queue_set {
  char* memory;
  uint64_t bytes;
  uint32_t n_pes;

  GRAVEL_BOTH queue_head* of(uint32_t pe) const { return reinterpret_cast<queue_head*>(memory + pe * bytes); }
  GRAVEL_BOTH uint64_t room(uint64_t message_bytes) const { return (bytes - sizeof(queue_head)) / message_bytes; }

  /// Copies a list behind what is in the queue to its PE. Thread scope: block, converged.
  GRAVEL_DEVICE void add(const sorted_messages& list, uint64_t* place, uint32_t* misuse) const {
    const row_kind kind = list.kind_of_row(0);
    queue_head* const queue = of(pe_of_sink(list.sink_of_row(0)));
    const uint32_t n = list.n_messages, words = kind.words;
    if (threadIdx.x == 0) {
      *place = fetch_add<scope::device>(&queue->messages, uint64_t{n});
      if (*place + n > room(bytes_of(kind))) report_misuse(misuse, model_misuse::many_of_queue);
      if (!compare_swap_acquire<scope::device>(&queue->kind, uint64_t{0}, kind.bits()) &&
          load_relaxed<scope::device>(&queue->kind) != kind.bits())
        report_misuse(misuse, model_misuse::kinds);
    }
    __syncthreads();
    const uint64_t at = *place;
    uint32_t* const to = reinterpret_cast<uint32_t*>(queue + 1) + at * words;
    for (uint32_t w = threadIdx.x; at + n <= room(bytes_of(kind)) && w < n * words; w += lanes_of_block)
      to[w] = words_at(&list.buffer[list.order[w / words]])[w % words];
    __syncthreads();
  }
};

/// Bytes of a queue that a block sends at once.
constexpr uint64_t sent_at_once = 15 << 10;

/// Sends each queue of `full` to its PE, where it lies in the place of this PE.
static __global__ void send_queues(gravel_t g, queue_set full, queue_set there) {
  const uint32_t pieces = gridDim.x / g.n_pes, piece = blockIdx.x % pieces,
                 pe = (g.my_pe + 1 + blockIdx.x / pieces) % g.n_pes;
  const queue_head* const queue = full.of(pe);
  const uint64_t end = sizeof(queue_head) + queue->messages * bytes_of(row_kind::of_bits(queue->kind));
  const uint64_t at = piece * sent_at_once, rest = (end < full.bytes ? end : full.bytes) - at;
  if (at >= end) return;
  gravel_put_bulk(g, reinterpret_cast<char*>(there.of(g.my_pe)) + at, reinterpret_cast<const char*>(queue) + at,
                  rest < sent_at_once ? rest : sent_at_once, static_cast<int>(pe));
}

/// Applies the queues that came, and empties those that were sent. Blocks are warps. `contexts`: of Handlers.
template <class Handlers>
__global__ void apply_queues(gravel_t g, queue_set came, queue_set sent, void* const* contexts) {
  constexpr uint32_t at_once = 256;  // messages; a row may begin there
  g.contexts = contexts;
  if (blockIdx.x == 0)
    for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += 32) *sent.of(pe) = {};
  for (uint32_t source = 0; source < g.n_pes; ++source) {
    const queue_head* const queue = came.of((g.my_pe + source) % g.n_pes);
    const row_kind kind = row_kind::of_bits(queue->kind);
    const uint64_t room = came.room(kind.words ? bytes_of(kind) : 4),
                   n = queue->messages < room ? queue->messages : room;
    for (uint64_t first = uint64_t{blockIdx.x} * at_once; first < n; first += uint64_t{gridDim.x} * at_once) {
      const message_row row{kind, sink_of(g.my_pe, sink_kind::device),
                            static_cast<uint32_t>(n - first < at_once ? n - first : at_once)};
      resolve_compact<Handlers, 32>(g, row, reinterpret_cast<const unit*>(queue + 1) + units_for(kind, first), 0);
    }
  }
}

/// The host's side. Collective: all PEs make the same rounds.
class coprocessor {
 public:
  /// `sets`: 1, or 2, of which one is filled while the other travels.
  coprocessor(uint64_t bytes, unsigned sets)
      : bytes_(bytes), sets_(sets), queues_(std::vector<char>(sets * bytes * static_cast<uint64_t>(gravel_n_pes()))) {
    // There are always two to land in: the others may send the next round while this PE still applies the last.
    landing_ = gravel_malloc<char>(2 * bytes * static_cast<uint64_t>(gravel_n_pes()));
  }
  /// Active messages that come run this handler, with this context in device memory.
  template <class Handler>
  void receive(typename Handler::context* context) {
    apply_ = apply_queues<handler_list<Handler>>;
    contexts_ = std::make_unique<device_array<void*>>(std::vector<void*>{context});
  }
  uint64_t room(uint64_t message_bytes) const { return set(0).room(message_bytes); }

  /// Calls fill(round, queues), which launches a kernel, `rounds` times, and has what it leaves in the queues sent and
  /// applied. All is applied when the PE's kernels have ended.
  template <class Fill>
  void run(uint64_t rounds, Fill&& fill) {
    for (uint64_t round = 0; round < rounds; ++round, ++done_) {
      if (round == 0 || sets_ == 1) fill(round, set(done_));
      launch_send();
      if (sets_ > 1 && round + 1 < rounds) fill(round + 1, set(done_ + 1));
      gravel_barrier_all();
      // Sets of this round are used again two rounds later, behind a barrier that waits for this kernel.
      gravel_launch(apply_, 2 * blocks_to_fill_device(), 32, gravel_handle(), landing(), set(done_),
                    contexts_ ? static_cast<void* const*>(contexts_->data()) : nullptr);
    }
  }

 private:
  queue_set at(char* memory) const { return {memory, bytes_, static_cast<uint32_t>(gravel_n_pes())}; }
  queue_set set(uint64_t round) const {
    return at(const_cast<char*>(queues_.data()) + round % sets_ * bytes_ * static_cast<uint64_t>(gravel_n_pes()));
  }
  queue_set landing() const { return at(landing_ + done_ % 2 * bytes_ * static_cast<uint64_t>(gravel_n_pes())); }
  void launch_send() {
    const auto pieces = static_cast<unsigned>((bytes_ + sent_at_once - 1) / sent_at_once);
    gravel_launch(send_queues, static_cast<unsigned>(gravel_n_pes()) * pieces, lanes_of_block, gravel_handle(),
                  set(done_), landing());
  }

  uint64_t bytes_, done_ = 0;
  unsigned sets_;
  device_array<char> queues_;
  char* landing_;
  std::unique_ptr<device_array<void*>> contexts_;
  void (*apply_)(gravel_t, queue_set, queue_set, void* const*) = apply_queues<handler_list<>>;
};

}  // namespace app
