// Exchange by stores, if all PEs have each other's memory mapped.
//
// Problem. A message for each value costs more than the value, and kernels that send messages need the resolver beside
// them.
// Solution. Each PE has an inbox for each other PE, in its symmetric heap, with room for all values that the other may
// have for its vertices. A sender finds a place in the inbox by a counter of its own, stores the value there, and
// stores the number of values at the end. After a barrier the owner offers the values to its vertices.
//
// Invariants. A ghost is in the remote list at most once, so an inbox never overflows. An inbox is written between two
// barriers, and read between the second and the next first one.
#pragma once
#include <algorithm>
#include <vector>

#include "host/device_array.hpp"
#include "host/mapped_sender.cuh"
#include "lib/worklist/list_kernels.cuh"

namespace gravel::detail {

template <class Value>
struct alignas(2 * sizeof(Value)) posted_value {
  Value value;
  uint32_t place;  ///< number of the vertex at its owner
};

/// The inboxes as kernels see them. Plain data. If `posted` is null there are none: values are sent as messages.
template <class Value>
struct worklist_inboxes {
  posted_value<Value>* posted;  ///< symmetric: values that arrived; the inboxes of all PEs in order
  uint32_t* arrived;            ///< symmetric [PEs]: number of values that arrived from each
  const uint32_t* first;        ///< [PEs] where in `posted` the inbox for each PE begins
  const uint32_t* there;        ///< [PEs] where this PE's inbox begins at each PE
  uint32_t* counters;           ///< [PEs] number of values stored for each PE
};

/// Stores the values of ghosts in the remote list into their owners' inboxes. Thread scope: all blocks, of whole warps.
template <class Program>
GRAVEL_DEVICE void post_ghosts(const gravel_t& g, const worklist_view<Program>& w,
                               const worklist_inboxes<typename worklist_view<Program>::value>& in,
                               mapped_sender& others) {
  others.begin(g);
  const uint32_t size = w.words->remote_size, lane = threadIdx.x % 32, below = (1u << lane) - 1;
  uint32_t sent = 0;
  for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
       of_warp += gridDim.x * blockDim.x) {
    posted_value<typename worklist_view<Program>::value> post{};
    int owner = -1;
    if (of_warp + lane < size) {
      const uint32_t v = w.remote[of_warp + lane];
      if (w.program.vertices.take(v, &post.value)) {
        const uint32_t code = w.graph.ghosts[v - w.graph.own];
        owner = w.graph.codes.owner(code);
        post.place = w.graph.codes.place(code);
      }
    }
    const unsigned same = __match_any_sync(~0u, owner);
    const int leader = __ffs(static_cast<int>(same)) - 1;
    uint32_t at = 0;
    if (owner >= 0 && static_cast<int>(lane) == leader)
      at = atomicAdd(&in.counters[owner], static_cast<uint32_t>(__popc(same)));
    at = __shfl_sync(~0u, at, leader) + static_cast<uint32_t>(__popc(same & below));
    if (owner < 0) continue;
    *others.at(&in.posted[in.there[owner] + at], owner) = post;
    ++sent;
  }
  sent = __reduce_add_sync(~0u, sent);
  if (lane == 0 && sent) fetch_add<scope::device>(&w.words->sent, uint64_t{sent});
}
/// Notifies the owners of how many values there are, after post_ghosts. Thread scope: one lane.
template <class Program>
GRAVEL_DEVICE void notify_posted(const gravel_t& g, const worklist_view<Program>& w,
                                 const worklist_inboxes<typename worklist_view<Program>::value>& in,
                                 const mapped_sender& others) {
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
    others.put(&in.arrived[g.my_pe], in.counters[pe], static_cast<int>(pe));
    in.counters[pe] = 0;
  }
  forget_ghosts(*w.words);
}
/// Offers the values that have arrived to this PE's vertices. Thread scope: all blocks, of whole warps.
template <class Program>
GRAVEL_DEVICE void take_posted(const gravel_t& g, const worklist_view<Program>& w,
                               const worklist_inboxes<typename worklist_view<Program>::value>& in) {
  const device_lists<Program> lists{w, w.words->near_turn, w.words->far_turn, w.words->limit};
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
    const uint32_t size = load_relaxed<scope::system>(&in.arrived[pe]);
    for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
         of_warp += gridDim.x * blockDim.x) {
      uint32_t v = 0;
      listing found = listing::none;
      if (of_warp + lane < size) {
        const auto post = in.posted[in.first[pe] + of_warp + lane];
        v = post.place;
        found = lists.offer(v, post.value);
      }
      lists.near(found == listing::near, v);
      lists.far(found == listing::far, v);
    }
  }
}

template <class Program>
__global__ void post_remote(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                            const __grid_constant__ worklist_inboxes<typename worklist_view<Program>::value> in) {
  __shared__ mapped_sender others;
  post_ghosts(g, w, in, others);
}
template <class Program>
__global__ void notify_remote(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                              const __grid_constant__ worklist_inboxes<typename worklist_view<Program>::value> in) {
  __shared__ mapped_sender others;
  others.begin(g);
  if (threadIdx.x == 0) notify_posted(g, w, in, others);
}
template <class Program>
__global__ void take_remote(const __grid_constant__ gravel_t g, const __grid_constant__ worklist_view<Program> w,
                            const __grid_constant__ worklist_inboxes<typename worklist_view<Program>::value> in) {
  take_posted(g, w, in);
}
/// Counts the ghosts that each PE owns.
template <int = 0>
__global__ void count_ghosts(const __grid_constant__ worklist_graph graph, uint32_t* owned) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < graph.n_ghosts;
       of_warp += lanes) {
    const int owner = of_warp + lane < graph.n_ghosts ? graph.codes.owner(graph.ghosts[of_warp + lane]) : -1;
    const unsigned same = __match_any_sync(~0u, owner);
    if (owner >= 0 && (same & ((1u << lane) - 1)) == 0) atomicAdd(&owned[owner], static_cast<uint32_t>(__popc(same)));
  }
}

/// Memory of a worklist's inboxes: at each PE a place for each ghost that other PEs have of its vertices, where that is
/// most. There are none if that number has more than 32 bits. Constructor and release() are collective. If an exception
/// passes, gravel_finalize frees the memory.
template <class Value>
class inbox_memory {
 public:
  inbox_memory() = default;
  explicit inbox_memory(const worklist_graph& graph) {
    const auto n = static_cast<size_t>(gravel_n_pes()), me = static_cast<size_t>(gravel_my_pe());
    device_array<uint32_t> owned(std::vector<uint32_t>(n, 0));
    launch_alone(count_ghosts<>, {.grid = vertex_blocks(graph.n_ghosts), .block = vertex_threads}, graph, owned.data());
    gravel_synchronize();
    std::vector<uint32_t> mine(n), all(n * n), first(n, 0), there(n, 0);
    gravel_copy(mine.data(), owned.data(), n * sizeof(uint32_t));
    gravel_allgather(all.data(), mine.data(), n);
    uint64_t most = 1;
    for (size_t owner = 0; owner < n; ++owner) {
      uint64_t before = 0;
      for (size_t from = 0; from < n; ++from) {
        if (owner == me) first[from] = static_cast<uint32_t>(before);
        if (from == me) there[owner] = static_cast<uint32_t>(before);
        before += all[from * n + owner];
      }
      most = std::max(most, before);
    }
    // With many PEs a vertex has many ghosts. The places of values have 32 bits.
    if (most > ~uint32_t{0}) return;
    first_ = device_array<uint32_t>(first);
    there_ = device_array<uint32_t>(there);
    counters_ = device_array<uint32_t>(std::vector<uint32_t>(n, 0));
    view_ = {gravel_malloc<posted_value<Value>>(most * sizeof(posted_value<Value>)),
             gravel_malloc<uint32_t>(n * sizeof(uint32_t)), first_.data(), there_.data(), counters_.data()};
  }
  void release() {
    if (!view_.posted) return;
    gravel_free(view_.arrived);
    gravel_free(view_.posted);
    view_ = {};
  }
  explicit operator bool() const { return view_.posted != nullptr; }
  const worklist_inboxes<Value>& view() const { return view_; }

 private:
  device_array<uint32_t> first_, there_, counters_;
  worklist_inboxes<Value> view_{};
};

}  // namespace gravel::detail
