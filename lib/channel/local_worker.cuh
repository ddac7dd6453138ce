// What a worker does with the tasks in its shared memory (lib/channel/local_store.cuh). Thread scope of all: the warp.
#pragma once
#include <cstdint>

#include "lib/channel/task_view.cuh"

namespace gravel {

template <class View>
class local_worker {
  using types = typename View::types;
  using store = typename View::store;
  template <class U>
  using facts = task_facts<U>;

 public:
  GRAVEL_DEVICE local_worker(const View& view, store* own, const lane_group& warp) : view_(view), store_(own), warp_(warp) {
    if (view_.local_levels) store_->begin(warp_);
  }

  /// Takes the lane's task into shared memory, if all that comes of it fits there, and its level has room for 32 more.
  template <class T>
  GRAVEL_DEVICE bool move_in(uint32_t depth, bool has, const typename View::template element<T>& task) {
    if constexpr (store::levels == 0 || facts<T>::is_continuation) {
      return false;
    } else {
      uint32_t level = view_.depths - 1 - depth;
      if constexpr (detail::has_level<T>) {
        if (has) level = task.level();
      }
      auto& to = store_->template of<T>();
      const bool moves = has && level < view_.local_levels && to.count[level] + 32 <= store::room;
      warp_.sync();  // all have looked
      if (moves) to.at(level).store(checked_place<store::room>(atomicAdd(&to.count[level], 1u)), task);
      warp_.sync();
      owed_ += lane_group::popcount(warp_.ballot(moves));
      return moves;
    }
  }

  /// Runs a batch of its own: a full one, or any. False: there is none.
  GRAVEL_DEVICE bool run(bool full) {
    if constexpr (store::levels == 0) return false;
    else return view_.local_levels != 0 && run_one(static_cast<types*>(nullptr), full);
  }
  /// All that came of the tasks that were taken into shared memory is done.
  GRAVEL_DEVICE void settle() {
    if (owed_ && warp_.is_leader()) fetch_add<scope::device>(&view_.words->live, uint64_t{0} - owed_);
    owed_ = 0;
  }

  GRAVEL_DEVICE const work_counts<uint32_t>& counts() const { return counts_; }

 private:
  template <class... T>
  GRAVEL_DEVICE bool run_one(gravel_types<T...>*, bool full) {
    const uint32_t least = full ? 32 : 1;
    if ((run_continuations<T>(least) || ...)) return true;
    const uint32_t startable = warp_.ballot(may_start(static_cast<types*>(nullptr)));
    // Levels of all types together: the lowest full one, or the highest.
    uint32_t level = 0, type = View::n_types;
    (look_at<T>(startable, least, &level, &type), ...);
    if (type == View::n_types) return false;
    ((type == types::template index<T> ? run_tasks_of<T>(level) : void()), ...);
    return true;
  }
  /// For the level of this lane: are there frames enough?
  template <class... T>
  GRAVEL_DEVICE bool may_start(gravel_types<T...>*) {
    return warp_.rank() < store::places && (has_frames<T>() && ...);
  }
  template <class T>
  GRAVEL_DEVICE bool has_frames() {
    if constexpr (facts<T>::is_continuation) return store_->template of<T>().n_free >= warp_.rank() * 32;
    else return true;
  }
  template <class T>
  GRAVEL_DEVICE void look_at(uint32_t startable, uint32_t least, uint32_t* level, uint32_t* type) {
    if constexpr (!facts<T>::is_continuation) {
      const uint32_t mine = warp_.rank() < store::places ? store_->template of<T>().count[warp_.rank()] : 0;
      const uint32_t some = warp_.ballot(mine >= least) & startable;
      if (some == 0) return;
      const uint32_t found = least == 32 ? lane_group::lowest(some) : highest_of(some);
      if (*type != View::n_types && (least == 32 ? found >= *level : found <= *level)) return;
      *level = found;
      *type = types::template index<T>;
    }
  }

  template <class T>
  GRAVEL_DEVICE void run_tasks_of(uint32_t level) {
    if constexpr (store::levels != 0 && !facts<T>::is_continuation) {
      auto& from = store_->template of<T>();
      const uint32_t count = from.count[level], n = count < 32 ? count : 32;
      const bool runs = warp_.rank() < n;
      T task{};
      if (runs) task = from.at(level).load(count - n + warp_.rank());
      warp_.sync();
      if (warp_.is_leader()) from.count[level] = count - n;
      task_here<View, T, true> here(view_, store_, 0, level, 0);
      if (runs) task(here);
      warp_.sync();
      count_frames<T>(static_cast<typename facts<T>::continuations*>(nullptr), here);
      counts_.tasks += n, counts_.local_tasks += n;
      ++counts_.batches, ++counts_.local_batches;
    }
  }
  template <class T, class... C>
  GRAVEL_DEVICE void count_frames(gravel_types<C...>*, [[maybe_unused]] const task_here<View, T, true>& here) {
    ((counts_.unfinished += lane_group::popcount(warp_.ballot(here.template framed<C>()))), ...);
  }
  template <class C>
  GRAVEL_DEVICE bool run_continuations(uint32_t least) {
    if constexpr (store::levels == 0 || !facts<C>::is_continuation) {
      return false;
    } else {
      auto& in = store_->template of<C>();
      const uint32_t ready = in.n_ready;
      if (ready < least) return false;
      const uint32_t n = ready < 32 ? ready : 32;
      const bool runs = warp_.rank() < n;
      const uint32_t row = runs ? in.ready[ready - n + warp_.rank()] : 0;
      warp_.sync();
      if (warp_.is_leader()) in.n_ready = ready - n;
      warp_.sync();
      task_here<View, C, true> here(view_, store_, 0, 0, 0);
      if (runs) run_with_inputs<C>(here, in.arguments().load(row), [&](uint32_t i) { return in.input[i * store::n_frames + row]; });
      warp_.sync();
      // Nobody takes frames meanwhile.
      const uint32_t free = in.n_free;
      warp_.sync();
      if (runs) in.free[free + warp_.rank()] = static_cast<uint16_t>(row);
      if (warp_.is_leader()) in.n_free = free + n;
      warp_.sync();
      counts_.tasks += n, counts_.local_tasks += n, counts_.continuations += n, counts_.unfinished -= n;
      ++counts_.batches, ++counts_.local_batches;
      return true;
    }
  }

  const View& view_;
  store* const store_;
  const lane_group warp_;
  work_counts<uint32_t> counts_{};
  uint32_t owed_ = 0;  ///< elements of channels that are here, or whose descendants are
};

}  // namespace gravel
