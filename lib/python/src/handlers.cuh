// How a process joins the job: the handlers of the package, and behind them those of the program (gr.Kernels). The
// package is compiled with this file, and so is each library of gr.Kernels that has handlers.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include <gravel/kmers.cuh>
#include <gravel/map.cuh>
#include <gravel/table.cuh>

namespace gravel::python {

// Where the owners' memory is mapped, gather() reads it (lib/table). Elsewhere it sends a request for each element, in
// large packets, and the owner's handler replies with the value. (Each gravel_get would be a slot of its own on the CPU
// backend, where a lane is a warp.) Replies arrive in the staging memory: the first word counts them, and the values
// follow.
constexpr uint64_t values_at = 32;  ///< words in front of the values

template <class T>
struct gather_reply {
  static constexpr const char* name = sizeof(T) == 4 ? "python_gather_reply_4" : "python_gather_reply_8";
  using context = uint64_t;  // the staging memory
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t* words, T value, uint32_t position) const {
    gravel::store_relaxed(reinterpret_cast<T*>(words + values_at) + position, value);
    gravel::fetch_add_release(words, uint64_t{1});  // gather_words() waits for the count
  }
};
template <class T>
struct gather_request {
  static constexpr const char* name = sizeof(T) == 4 ? "python_gather_request_4" : "python_gather_request_8";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t offset, uint32_t position, uint32_t from) const {
    const T value = gravel::load_relaxed(reinterpret_cast<const T*>(g.heap + offset));
    gravel_am<gather_reply<T>>(g, static_cast<int>(from), value, position);
  }
};

/// Joins the job of a launcher, or that of the group.
template <class... Handlers>
void join(std::optional<gravel_process_group> group) {
  using detail::map_delivery;  // those of keys and values of 4, 8 and 16 bytes
  const auto init = [](auto... of) {
    gravel_init<gather_request<uint32_t>, gather_request<uint64_t>, gather_reply<uint32_t>, gather_reply<uint64_t>,
                gravel::pair_updates, map_delivery<4, 4>, map_delivery<4, 8>, map_delivery<4, 16>, map_delivery<8, 4>,
                map_delivery<8, 8>, map_delivery<8, 16>, map_delivery<16, 4>, map_delivery<16, 8>, map_delivery<16, 16>,
                gravel::kmer_counter<>::delivery, gravel::breadth_first_search::delivery,
                gravel::shortest_paths::delivery, gravel::page_rank::delivery, Handlers...>(std::move(of)...);
  };
  if (group) init(std::move(*group));
  else init();
}

}  // namespace gravel::python
