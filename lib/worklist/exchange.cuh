// Exchange by messages: a PE sends the best values that it has for vertices of other PEs.
//
// Offers along edges end at the ghost, which lies at this PE, so of many edges to one vertex few become messages.
// Ghosts with a new value are in a list, and a block sender sends each ghost once. At the owner a handler offers the
// value to the vertex, for all messages of a warp at once.
#pragma once
#include <gravel/gravel.cuh>
#include "lib/worklist/asynchronous.cuh"

/// The handler that offers values of other PEs to this PE's vertices. Programs pass it to gravel_init.
template <class Program>
struct gravel_worklist_delivery {
  static constexpr const char* name = Program::name;
  static constexpr bool batch = true;
  using context = gravel::detail::worklist_inbox<Program>;
  using value = typename gravel::detail::worklist_view<Program>::value;

  GRAVEL_HANDLER void operator()(const gravel_t&, [[maybe_unused]] context* inbox,
                                 [[maybe_unused]] const gravel_batch& lanes, [[maybe_unused]] uint32_t v,
                                 [[maybe_unused]] value offer) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    using namespace gravel::detail;
    const worklist_view<Program>* const w = &inbox->w;
    worklist_words& words = *w->words;
    if (words.asynchronous) {
      const listing found = ranked_lists<Program>{inbox->w, inbox->a}.offer(v, offer);
      put_ranked(inbox->w, inbox->a, lanes, found != listing::none, v);
      lanes.sync();
      if (lanes.is_leader())
        fetch_add_release<scope::device>(&inbox->a.words->received, uint64_t{lanes.size()});  // [W2]
      return;
    }
    const listing found = w->program.vertices.offer(v, offer, words.limit);
    const uint32_t near_turn = words.near_turn, far_turn = words.far_turn;
    append_by(lanes, w->near[near_turn], &words.near_size[near_turn], found == listing::near, v, ~0u);
    append_by(lanes, w->far[far_turn], &words.far_size[far_turn], found == listing::far, v, ~0u);
#endif
  }
};

namespace gravel::detail {

/// Sends the values of the ghosts in the remote list to their owners. Thread scope: all blocks.
template <class Program, class Sender>
GRAVEL_DEVICE void send_ghosts(const gravel_t& g, const worklist_view<Program>& w, Sender& sender) {
  sender.begin(g);
  const uint32_t size = w.words->remote_size;
  uint32_t sent = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    typename worklist_view<Program>::value value;
    const uint32_t v = w.remote[i];
    if (!w.program.vertices.take(v, &value)) continue;
    const uint32_t code = w.graph.ghosts[v - w.graph.own];
    sender.template am<gravel_worklist_delivery<Program>>(w.graph.codes.owner(code), w.graph.codes.place(code), value);
    ++sent;
  }
  if (sent) fetch_add<scope::device>(&w.words->sent, uint64_t{sent});
  sender.end();
}
template <class Program, class Sender>
__global__ void send_remote(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w) {
  __shared__ Sender sender;
  send_ghosts(g, w, sender);
}

/// Runs after send_remote, and before messages of other PEs may arrive for the next round. One thread.
template <class Program>
__global__ void forget_remote(const __grid_constant__ worklist_view<Program> w) {
  forget_ghosts(*w.words);
}

}  // namespace gravel::detail
