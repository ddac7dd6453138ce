// Work in slices: threads make the pieces of a result, which are put together in their order. So the result is that of
// one thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

/// Calls make(slice, piece) once for each slice from 0 to slices - 1, in up to `threads` threads (this one among them),
/// each of which has a Piece that it uses again, and after it append(piece): of slice after slice, one at a time.
/// Slices should be many and small: whose turn has not come waits with its piece. What either of them throws is thrown
/// here, when all threads have ended.
template <class Piece, class Make, class Append>
void in_slices(uint64_t slices, int threads, Make make, Append append) {
  std::atomic<uint64_t> next{0};
  std::mutex mutex;  // of all below
  std::condition_variable turn;
  uint64_t appended = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Piece piece;
      for (uint64_t slice = next++; slice < slices; slice = next++) {
        make(slice, piece);
        std::unique_lock lock(mutex);
        turn.wait(lock, [&] { return appended == slice || failure; });
        if (failure) return;
        append(piece);
        ++appended;
        turn.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      turn.notify_all();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < threads && static_cast<uint64_t>(i) < slices; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {  // fewer then: who is there does all
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

/// Makes room for one part's share of so many edges, and some more, as shares differ; what stays empty takes no memory.
inline void reserve_share(edge_list& list, uint64_t edges, int parts) {
  const uint64_t share = edges / static_cast<uint64_t>(parts);
  list.edges.reserve(parts == 1 ? share : share + share / 8);
}

/// Fills `list`, whose number of vertices is known, with what a share keeps of the edges of items 0 to items - 1:
/// make(keeper, begin, end) adds those of some items to an edge_keeper, in share.threads threads. The order is that of
/// the items.
template <class Make>
void keep_in_slices(edge_list& list, const graph_share& share, uint64_t items, uint64_t items_of_slice, Make make) {
  in_slices<edge_list>((items + items_of_slice - 1) / items_of_slice, share.threads,
                       [&](uint64_t slice, edge_list& piece) {
                         piece.vertices = list.vertices;
                         piece.total_edges = 0;
                         piece.edges.clear();
                         edge_keeper keeper(piece, share);
                         make(keeper, slice * items_of_slice, std::min(items, (slice + 1) * items_of_slice));
                       },
                       [&](const edge_list& piece) {
                         list.total_edges += piece.total_edges;
                         list.edges.insert(list.edges.end(), piece.edges.begin(), piece.edges.end());
                       });
}

}  // namespace gravel::detail
