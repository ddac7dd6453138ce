// Admission: the rule by which a batch of tasks may start.
//
// Problem. Channels and frames are bounded. If running tasks could fill them, all workers would wait for room that only
// other tasks can free: a deadlock.
// Solution. A batch of n tasks at depth d starts only if depth d + 1 promises room for all that the batch may spawn:
// room in each channel of its children, and a frame for each continuation of each task. When the batch ends, what it
// has not used is returned.
// Invariant: there is always a batch that may start. Tasks of the greatest depth spawn nothing, so they may always
// start; when they are done, the depth above has all the room below it; and so on. So any tree fits into channels of
// the least legal capacity. (In the paper, Channels, ISCA 2014, section 5.3, wavefronts yield instead.)
#pragma once
#include <cstdint>

#include "lib/taskgraph/task_view.cuh"

namespace gravel::detail {

/// Admission of tasks of type T whose children are at depth `depth`.
template <class View, class T>
struct task_admission {
  using facts = task_facts<T>;
  const View& view;
  uint32_t depth;

  /// Promises room for the children and continuations of n tasks, all or nothing. Promised children count as live, so
  /// that no worker sees the end too early. `polls`: checks whether there is room before it takes any. Thread scope:
  /// the warp.
  GRAVEL_DEVICE bool promise(const lane_group& warp, uint32_t n, bool polls = true) const {
    if (!deepest() && !promise_all(children(), continuations(), warp, n, polls)) return false;
    if (facts::spawns && warp.is_leader()) fetch_add<scope::device>(&view.words->live, uint64_t{n} * facts::spawns);
    return true;
  }
  /// Returns the promise for n tasks, of which none has run. Thread scope: lane.
  GRAVEL_DEVICE void return_promise(uint32_t n) const {
    if (!deepest()) {
      return_children(children(), n * facts::spawns);
      return_frames(continuations(), n);
    }
    if (facts::spawns) fetch_add<scope::device>(&view.words->live, uint64_t{0} - uint64_t{n} * facts::spawns);
  }

  /// Ends a batch: returns the promised room that its tasks did not use.
  /// `here` is what each lane did; `promised` and `finished` count tasks. Returns the number of frames that were begun.
  /// Thread scope: the warp.
  template <class Here>
  GRAVEL_DEVICE uint32_t settle(const lane_group& warp, const Here& here, uint32_t promised, uint32_t finished) const {
    const uint32_t spawned = settle_children(children(), warp, here, promised * facts::spawns);
    const uint32_t frames = settle_frames(continuations(), warp, here, promised);
    if (warp.is_leader()) {
      const uint64_t change = uint64_t{spawned} - uint64_t{promised} * facts::spawns - finished;
      if (change) {
        const bool has_arrivals = spawned && !here.has_reported();  // idle workers are not notified of all children yet
        fetch_add<scope::device>(&view.words->live, has_arrivals ? change + graph_words::arrival : change);
      }
    }
    return frames;
  }

 private:
  using children_type = typename facts::children;
  using continuations_type = typename facts::continuations;
  GRAVEL_DEVICE static children_type* children() { return nullptr; }
  GRAVEL_DEVICE static continuations_type* continuations() { return nullptr; }
  /// Tasks of this type are at the greatest depth, where they may spawn nothing.
  GRAVEL_DEVICE bool deepest() const { return depth >= view.depths; }

  /// The demand of one lane in promise_all(): `amount` of the room of a channel or of a buffer of frames.
  struct demand {
    slots<> space;
    uint32_t amount;
  };
  /// Makes room for the children of type U the demand of the lane whose number is the place of U in `children`.
  template <class U>
  GRAVEL_DEVICE void demand_children(uint32_t lane, uint32_t tasks, demand* mine) const {
    if (lane != children_type::template index<U>) return;
    mine->space = view.template channel_of<U>(depth).space;
    mine->amount = tasks * facts::spawns;
  }
  /// Does this for frames of type C: the lanes behind those for children.
  template <class C>
  GRAVEL_DEVICE void demand_frames(uint32_t lane, uint32_t tasks, demand* mine) const {
    if (lane != children_type::count + continuations_type::template index<C>) return;
    mine->space = view.template frames_of<C>(depth).space;
    mine->amount = tasks;
  }

  /// Takes all the room that n tasks may need, or none. Each lane takes one demand: the first lanes those of the
  /// children U, the next ones those of the continuations C. All lanes poll at once, and take at once. If another warp
  /// was faster in one of them, all return their room, and the lanes take it one after the other: otherwise two warps
  /// could each get what the other one lacks, again and again.
  template <class... U, class... C>
  GRAVEL_DEVICE bool promise_all(gravel_types<U...>*, gravel_types<C...>*, const lane_group& warp,
                                 [[maybe_unused]] uint32_t n, [[maybe_unused]] bool polls) const {
    constexpr uint32_t demands = children_type::count + continuations_type::count;
    if constexpr (demands == 0) return true;
    demand mine{};
    (demand_children<U>(warp.rank(), n, &mine), ...);
    (demand_frames<C>(warp.rank(), n, &mine), ...);
    for (;; polls = true) {
      if (polls && warp.ballot(!mine.space.has_room(mine.amount)) != 0) return false;
      const bool took = mine.space.take_room_now(mine.amount);
      if (warp.ballot(!took) == 0) {
        warp.sync();  // what these lanes have acquired, each lane that draws tickets has acquired
        return true;
      }
      if (took) mine.space.return_room(mine.amount);
      if (polls) break;
    }
    if constexpr (demands == 1) {
      return false;
    } else {
      for (uint32_t i = 0; i != demands; ++i) {
        const bool failed = warp.rank() == i && !mine.space.take_room_now(mine.amount);
        if (warp.ballot(failed) == 0) continue;
        if (warp.rank() < i) mine.space.return_room(mine.amount);
        return false;
      }
      warp.sync();
      return true;
    }
  }
  template <class... U>
  GRAVEL_DEVICE void return_children(gravel_types<U...>*, [[maybe_unused]] uint32_t n) const {
    (view.template channel_of<U>(depth).return_room(n), ...);
  }
  template <class... C>
  GRAVEL_DEVICE void return_frames(gravel_types<C...>*, [[maybe_unused]] uint32_t n) const {
    (view.template frames_of<C>(depth).space.return_room(n), ...);
  }
  /// Ends the batch for all types of children. Returns how many children were spawned.
  template <class... U, class Here>
  GRAVEL_DEVICE uint32_t settle_children(gravel_types<U...>*, [[maybe_unused]] const lane_group& warp,
                                         [[maybe_unused]] const Here& here, [[maybe_unused]] uint32_t promised) const {
    uint32_t spawned = 0;
    ((spawned += settle_child<U>(warp, here, promised)), ...);
    return spawned;
  }
  template <class U, class Here>
  GRAVEL_DEVICE uint32_t settle_child(const lane_group& warp, const Here& here, uint32_t promised) const {
    const uint32_t spawned = group_sum::of(warp, here.template spawned<U>()).total;
    if (!deepest()) {
      const auto to = view.template channel_of<U>(depth);
      if (warp.is_leader()) to.return_room(promised - spawned);
    }
    return spawned;
  }
  /// Ends the batch for all types of continuations. Returns how many frames were begun.
  template <class... C, class Here>
  GRAVEL_DEVICE uint32_t settle_frames(gravel_types<C...>*, [[maybe_unused]] const lane_group& warp,
                                       [[maybe_unused]] const Here& here, [[maybe_unused]] uint32_t promised) const {
    uint32_t begun = 0;
    ((begun += settle_frame<C>(warp, here, promised)), ...);
    return begun;
  }
  template <class C, class Here>
  GRAVEL_DEVICE uint32_t settle_frame(const lane_group& warp, const Here& here, uint32_t promised) const {
    const uint32_t begun = lane_group::popcount(warp.ballot(here.template framed<C>()));
    if (warp.is_leader() && !deepest()) view.template frames_of<C>(depth).space.return_room(promised - begun);
    return begun;
  }
};

}  // namespace gravel::detail
