// Local worker: what a worker does with the tasks in its shared memory (local_store.cuh).
#pragma once
#include <cstdint>

#include "lib/taskgraph/task_view.cuh"

namespace gravel::detail {

/// Thread scope of all calls: the warp, converged.
template <class View>
class local_worker {
  using types = typename View::types;
  using store = typename View::store;
  template <class U>
  using facts = task_facts<U>;

 public:
  /// `counts`: the warp's counts, in shared memory.
  GRAVEL_DEVICE local_worker(const View& view, const store& own, work_counts<uint32_t>& counts, const lane_group& warp)
      : view_(view), store_(own), warp_(warp), counts_(counts) {
    if constexpr (store::possible)
      if (store_.levels) store_.begin(warp_);
  }

  /// Moves the lane's task into shared memory, if its level is below `levels` and has room for 32 more tasks. `has`:
  /// the lane has a task.
  template <class T>
  GRAVEL_DEVICE bool move_in(uint32_t depth, bool has, const typename View::template element<T>& task,
                             uint32_t levels) {
    if constexpr (!store::possible || facts<T>::is_continuation) {
      return false;
    } else {
      if (levels == 0) return false;
      uint32_t level = view_.depths - 1 - depth;
      if constexpr (inner::has_level<T>) {
        if (has) level = task.level();
      }
      const auto to = store_.template of<T>();
      const bool moves = has && level < levels && to.count[level] + 32 <= store::room;
      warp_.sync();  // all lanes have read the counts
      if (moves) to.at(level).store(checked_place(atomicAdd(&to.count[level], 1u), store::room), task);
      warp_.sync();
      deferred_ += lane_group::popcount(warp_.ballot(moves));
      return moves;
    }
  }

  /// Runs one batch: a full one, or, if there is none, the tasks of the highest level, if that is `lowest` or higher.
  /// False: there is no such batch.
  GRAVEL_DEVICE bool run(uint32_t lowest) {
    if constexpr (!store::possible) return false;
    else return store_.levels != 0 && run_one(static_cast<types*>(nullptr), lowest);
  }
  /// Stops counting as live the tasks that were moved into shared memory: they and their descendants here are done.
  GRAVEL_DEVICE void settle() {
    if (deferred_ && warp_.is_leader()) fetch_add<scope::device>(&view_.words->live, uint64_t{0} - deferred_);
    deferred_ = 0;
  }

 private:
  template <class... T>
  GRAVEL_DEVICE bool run_one(gravel_types<T...>*, uint32_t lowest) {
    // The full batch that comes first, and the partial batch that comes last, in the order of priority. Each is
    // (place in the order) * 8 + type.
    uint32_t full = none, some = 0;
    const uint32_t startable = warp_.ballot(warp_.rank() < store_.levels && (has_frames<T>() && ...));
    (poll_type<T>(startable, lowest, &full, &some), ...);
    const uint32_t found = full != none ? full : some, type = found % 8, level = found / 8 - 1;
    if (full == none && some == 0) return false;
    (run_batch_if<T>(type, level), ...);
    return true;
  }
  /// Runs a batch of type T if that is the type with this number.
  template <class T>
  GRAVEL_DEVICE void run_batch_if(uint32_t type, uint32_t level) {
    if (type == types::template index<T>) run_batch_of<T>(level);
  }
  /// Are there enough frames for a batch of this lane's level?
  template <class T>
  GRAVEL_DEVICE bool has_frames() const {
    if constexpr (store::template has_frames<T>) return *store_.template of<T>().n_free >= warp_.rank() * 32;
    else return true;
  }
  /// Updates *full and *some with the batches of type T. `startable`: a bit for each level.
  template <class T>
  GRAVEL_DEVICE void poll_type(uint32_t startable, uint32_t lowest, uint32_t* full, uint32_t* some) const {
    constexpr uint32_t type = types::template index<T>;
    if constexpr (facts<T>::is_continuation && !store::template has_frames<T>) {
      return;
    } else if constexpr (facts<T>::is_continuation) {  // comes before all tasks
      const uint32_t ready = *store_.template of<T>().n_ready;
      if (ready >= 32 && type < *full) *full = 8 * 0 + type;
      if (ready != 0 && lowest == 0) *some = 8 * 64 + type;
    } else {
      const uint32_t count = store_.template of<T>().count[warp_.rank()];
      const uint32_t of_full = warp_.ballot(count >= 32) & startable,
                     of_some = warp_.ballot(count != 0) & startable & (~0u << lowest);
      const uint32_t first = 8 * (lane_group::lowest(of_full | 1u << 31) + 1) + type,
                     last = 8 * (highest_of(of_some | 1u) + 1) + type;
      if (of_full != 0 && first < *full) *full = first;
      if (of_some != 0 && last > *some) *some = last;
    }
  }

  template <class T>
  GRAVEL_DEVICE void run_batch_of(uint32_t level) {
    if constexpr (facts<T>::is_continuation) {
      if constexpr (store::template has_frames<T>) run_continuations<T>();
    } else {
      const auto from = store_.template of<T>();
      const uint32_t count = from.count[level], n = count < 32 ? count : 32;
      const bool runs = warp_.rank() < n;
      T task{};
      if (runs) task = from.at(level).load(count - n + warp_.rank());
      warp_.sync();
      if (warp_.is_leader()) from.count[level] = count - n;
      task_here<View, T, true> here(view_, store_, level, warp_.rank());
      if (runs) task(here);
      warp_.sync();
      place_frames<T>(static_cast<typename facts<T>::continuations*>(nullptr), here, n);
      place_children<T>(here);
      place_ready(static_cast<types*>(nullptr), here.ready());
      count_batch(n);
    }
  }

  // ---- After a batch the whole warp stores what the lanes have spawned, begun and made ready.

  template <class T, class Here>
  GRAVEL_DEVICE void place_children(const Here& here) {
    if constexpr (facts<T>::spawns <= 4) {
      GRAVEL_UNROLL
      for (uint32_t k = 0; k != facts<T>::spawns; ++k)
        place_child(static_cast<typename facts<T>::children*>(nullptr), here, k);
    } else {
      for (uint32_t k = 0; k != facts<T>::spawns; ++k)
        place_child(static_cast<typename facts<T>::children*>(nullptr), here, k);
    }
  }
  /// Stores child k of each lane. Mostly all of them have one type and level, and one round suffices.
  template <class... U, class Here>
  GRAVEL_DEVICE void place_child(gravel_types<U...>*, const Here& here, uint32_t k) {
    const uint32_t tag = here.child_tag(k);
    for (uint32_t left = warp_.ballot(tag != Here::none); left != 0;) {
      const uint32_t first = warp_.from_lane(tag, lane_group::lowest(left)), same = warp_.ballot(tag == first);
      (place_if<U>(first % 8 == types::template index<U>, first / 8, tag == first, same, here, k), ...);
      left &= ~same;
    }
  }
  template <class U, class Here>
  GRAVEL_DEVICE void place_if(bool is_type, uint32_t level, bool mine, uint32_t all, const Here& here, uint32_t k) {
    if (is_type) place<U>(level, mine, all, here.template child<U>(k));
  }
  /// Stores children of one type and level. `mine`: this lane has one; `all`: the lanes that have one.
  template <class U>
  GRAVEL_DEVICE void place(uint32_t level, bool mine, uint32_t all, const U& child) {
    const auto to = store_.template of<U>();
    const uint32_t count = to.count[level];
    if (mine) to.at(level).store(checked_place(count + warp_.rank_in(all), store::room), child);
    warp_.sync();
    if (warp_.is_leader()) to.count[level] = count + lane_group::popcount(all);
    warp_.sync();
  }
  /// Removes the frames that the batch has begun from `free`. Lane i of the first n lanes could take row i from its
  /// end; the rows that were not taken stay there.
  template <class T, class... C, class Here>
  GRAVEL_DEVICE void place_frames(gravel_types<C...>*, [[maybe_unused]] const Here& here, [[maybe_unused]] uint32_t n) {
    (place_frames_of<C>(here, n), ...);
  }
  template <class C, class Here>
  GRAVEL_DEVICE void place_frames_of(const Here& here, uint32_t n) {
    const uint32_t used = warp_.ballot(here.template framed<C>()), used_count = lane_group::popcount(used);
    if (used_count == 0) return;
    const auto in = store_.template of<C>();
    const uint32_t free = *in.n_free;
    const bool back = warp_.rank() < n && !here.template framed<C>();
    const uint32_t row = back ? in.free[free - 1 - warp_.rank()] : 0;
    warp_.sync();
    if (back) in.free[free - n + warp_.rank() - warp_.rank_in(used)] = static_cast<uint16_t>(row);
    if (warp_.is_leader()) *in.n_free = free - used_count;
    count(&counts_.begun, used_count);
  }
  /// Stores the frames that are ready. `ready`: row * 8 + type of this lane's, or `none`.
  template <class... C>
  GRAVEL_DEVICE void place_ready(gravel_types<C...>*, uint32_t ready) {
    (place_ready_of<C>(ready), ...);
    warp_.sync();
  }
  template <class C>
  GRAVEL_DEVICE void place_ready_of(uint32_t ready) {
    if constexpr (store::template has_frames<C>) {
      const bool mine = ready != none && ready % 8 == types::template index<C>;
      const uint32_t all = warp_.ballot(mine);
      if (all == 0) return;
      const auto in = store_.template of<C>();
      const uint32_t count = *in.n_ready;
      if (mine) in.ready[count + warp_.rank_in(all)] = static_cast<uint16_t>(ready / 8);
      warp_.sync();
      if (warp_.is_leader()) *in.n_ready = count + lane_group::popcount(all);
    }
  }

  template <class C>
  GRAVEL_DEVICE void run_continuations() {
    const auto in = store_.template of<C>();
    const uint32_t ready = *in.n_ready, n = ready < 32 ? ready : 32;
    const bool runs = warp_.rank() < n;
    const uint32_t row = runs ? in.ready[ready - n + warp_.rank()] : 0;
    warp_.sync();
    if (warp_.is_leader()) *in.n_ready = ready - n;
    warp_.sync();
    task_here<View, C, true> here(view_, store_, 0, warp_.rank());
    if (runs) run_with_inputs<C>(here, in.arguments.load(row), [&](uint32_t i) { return in.input[i * in.rows + row]; });
    warp_.sync();
    // No lane takes frames meanwhile.
    const uint32_t free = *in.n_free;
    warp_.sync();
    if (runs) in.free[free + warp_.rank()] = static_cast<uint16_t>(row);
    if (warp_.is_leader()) *in.n_free = free + n;
    place_ready(static_cast<types*>(nullptr), here.ready());
    count(&counts_.continuations, n);
    count_batch(n);
  }

  GRAVEL_DEVICE void count_batch(uint32_t n) const {
    count(&counts_.local_tasks, n);
    count(&counts_.local_batches, 1);
  }
  GRAVEL_DEVICE void count(uint32_t* of, uint32_t n) const {
    if (warp_.is_leader()) fetch_add<scope::shared>(of, n);
  }

  static constexpr uint32_t none = ~0u;

  const View& view_;
  const store store_;
  const lane_group warp_;
  work_counts<uint32_t>& counts_;
  uint32_t deferred_ = 0;  ///< elements of channels that were moved here and still count as live
};

}  // namespace gravel::detail
