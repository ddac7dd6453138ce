// Parallel work in portions: threads make the pieces of a result, which are put together in order. So the result is
// that of one thread.
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

/// Calls make(portion, piece) once for each portion from 0 to portions - 1, in up to `threads` threads, including this
/// one. Each thread has one Piece, which it uses again and again. After each make, the thread calls append(piece), in
/// the order of portions, one at a time. Portions should be many and small: a thread waits with its piece until its
/// turn. An exception from either function is thrown here when all threads have ended.
template <class Piece, class Make, class Append>
void in_portions(uint64_t portions, int threads, Make make, Append append) {
  std::atomic<uint64_t> next{0};
  std::mutex mutex;  // protects all variables below
  std::condition_variable turn;
  uint64_t appended = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Piece piece;
      for (uint64_t portion = next++; portion < portions; portion = next++) {
        make(portion, piece);
        std::unique_lock lock(mutex);
        turn.wait(lock, [&] { return appended == portion || failure; });
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
      for (int i = 1; i < threads && static_cast<uint64_t>(i) < portions; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {  // then fewer threads do all the work
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

/// Reserves room for one part's share of so many edges, and some more, as shares differ. Unused room takes no memory.
inline void reserve_share(edge_list& list, uint64_t edges, int parts) {
  const uint64_t share = edges / static_cast<uint64_t>(parts);
  list.edges.reserve(parts == 1 ? share : share + share / 8);
}

/// Fills `list`, whose number of vertices is set, with the edges that a share keeps of items 0 to items - 1:
/// make(keeper, begin, end) adds the edges of some items to an edge_keeper, in share.threads threads. The order is that
/// of the items.
template <class Make>
void keep_in_portions(edge_list& list, const graph_share& share, uint64_t items, uint64_t items_of_portion, Make make) {
  in_portions<edge_list>((items + items_of_portion - 1) / items_of_portion, share.threads,
                         [&](uint64_t portion, edge_list& piece) {
                           piece.vertices = list.vertices;
                           piece.total_edges = 0;
                           piece.edges.clear();
                           edge_keeper keeper(piece, share);
                           make(keeper, portion * items_of_portion, std::min(items, (portion + 1) * items_of_portion));
                         },
                         [&](const edge_list& piece) {
                           list.total_edges += piece.total_edges;
                           list.edges.insert(list.edges.end(), piece.edges.begin(), piece.edges.end());
                         });
}

}  // namespace gravel::detail
