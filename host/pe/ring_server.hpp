// Serves the rings of the route `peer` on the CPU backend, with the code of the resolver kernel
// (device/resolver_rings.cuh), in launches of one block on the receiver thread. A launch ends when no more chunks have
// arrived, or after some rounds, so that packets get their turn.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "device/resolver_rings.cuh"
#include "host/pe/backend.hpp"

namespace gravel::detail {

/// Ends the launch when the warps have nothing to do, or have had their turn, as decide() does on a GPU. In a round
/// each lane runs only to the next place where it waits. A warp passes several such places before it reports that it is
/// busy. If the launch ended sooner, it might end each time before the warps come to the second chunk. Thread scope:
/// one lane.
inline void decide_end(const peer_rings& rings, resolver_state* state) {
  constexpr uint32_t longest_rounds = 1024, idle_rounds = 16;
  uint64_t seen = 0;
  relax wait;
  for (uint32_t round = 0, idle = 0; round < longest_rounds && idle < idle_rounds; ++round) {
    wait();
    uint64_t drawn = 0;
    bool busy = false;
    for (uint32_t source = 0; source < rings.n; ++source) drawn += load_relaxed<scope::device>(&rings.drawn[source]);
    for (uint32_t warp = 0; warp < resolver_warps; ++warp)
      busy |= load_relaxed<scope::device>(&rings.deferred[warp].busy) != 0;
    idle = busy || drawn != seen ? 0 : idle + 1;
    seen = drawn;
  }
  store_release<scope::device>(&state->stop, 1u);
}

/// The kernel: warps that serve rings, and a lane that decides when they end.
template <class Handlers>
void serve_what_arrived(const gravel_t& g, const peer_rings& rings, resolver_state* state) {
  if (threadIdx.x == 0) releases_of_block().begin();
  __syncthreads();
  if (threadIdx.x == resolver_threads) return decide_end(rings, state);
  const uint32_t lane = threadIdx.x % 32;
  outbox_of_warp().begin(g, rings.deferred + threadIdx.x / 32, lane);
  __syncwarp();
  serve_rings<Handlers>(g, rings, state);
  __syncwarp();
  outbox_of_warp().end(lane);
}

/// Thread scope: one thread.
class ring_server {
 public:
  /// `options`: seed and stack of the launches.
  ring_server(const receiver_setup& setup, const simt::launch_options& options)
      : handle_(setup.device_handle),
        options_(options),
        drawn_(setup.n_peer_sources),
        places_(resolver_threads * ring_watch::groups_for(setup.n_peer_sources)),
        deferred_(resolver_warps) {
    rings_ = {setup.peer_sources, drawn_.data(),    places_.data(), setup.n_peer_sources, 1,
              setup.own_source,   deferred_.data(), nullptr};
    options_.threads = 1;
    options_.shared_bytes = resolver_shared_bytes;
  }

  /// One launch, if there is work. True if a chunk was applied.
  template <class Handlers>
  bool serve() {
    if (rings_.n == 0 || !has_work()) return false;
    const std::vector<uint64_t> before = drawn_;
    served_ = true;
    state_->stop = 0;
    if (options_.seed)
      options_.seed = std::max(options_.seed + 0x9e3779b97f4a7c15u, uint64_t{1});  // another order each time
    simt::launch(1, resolver_threads + 1, options_,
                 [this] { serve_what_arrived<Handlers>(handle_, rings_, state_.get()); });
    return drawn_ != before;  // a lane that has applied its ticket has drawn another
  }

 private:
  /// True if there is a chunk for a lane that waits for it, or a ticket that its warp has to publish.
  bool has_work() const {
    if (!served_) return true;  // lanes draw their first tickets
    const uint32_t width = ring_watch::width_for(rings_.n), groups = ring_watch::groups_for(rings_.n);
    for (uint32_t source = 0; source < rings_.n; ++source)
      if (drawn_[source] == 0 && rings_.of_source[source].slots) return true;  // no warp has come to its group yet
    for (uint32_t i = 0; i < places_.size(); ++i) {
      const uint64_t ticket = places_[i].ticket;
      const uint32_t source = i / 32 % groups * 32 + i % 32 % width;
      if (ticket != ring_place::none && rings_.of_source[source].arrived(ticket)) return true;
    }
    return std::any_of(deferred_.begin(), deferred_.end(),
                       [](const deferred_tickets& warp) { return !warp.ranks.is_empty(); });
  }

  gravel_t handle_;
  simt::launch_options options_;
  std::vector<uint64_t> drawn_;
  std::vector<ring_place> places_;
  std::vector<deferred_tickets> deferred_;
  std::unique_ptr<resolver_state> state_ = std::make_unique<resolver_state>();
  peer_rings rings_{};
  bool served_ = false;
};

}  // namespace gravel::detail
