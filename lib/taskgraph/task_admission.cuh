// Admission: a batch of n tasks at depth d starts only if depth d + 1 promises room for all that they may spawn, in
// each channel that they may spawn into, and a frame for each continuation; what was not needed goes back at its end.
// The deepest tasks always may start once nothing is under way: below them all is empty. So channels of the least legal
// size are enough, whatever the tree is (paper 002, section 5.3, where waves yield instead).
#pragma once
#include <cstdint>

#include "lib/taskgraph/task_view.cuh"

namespace gravel::detail {

/// For tasks of type T whose children are of depth `depth`.
template <class View, class T>
struct task_admission {
  using facts = task_facts<T>;
  const View& view;
  uint32_t depth;

  /// For n tasks, all or nothing; counted as live, so that nobody takes the end to have come. `looks`: whether there is
  /// room, before it takes some. Thread scope: the warp.
  GRAVEL_DEVICE bool promise(const lane_group& warp, uint32_t n, bool looks = true) const {
    if (!deepest() && !promise_all(children(), continuations(), warp, n, looks)) return false;
    if (facts::spawns && warp.is_leader()) fetch_add<scope::device>(&view.words->live, uint64_t{n} * facts::spawns);
    return true;
  }
  /// Thread scope: lane.
  GRAVEL_DEVICE void give_back(uint32_t n) const {
    if (!deepest()) {
      return_children(children(), n * facts::spawns);
      return_frames(continuations(), n);
    }
    if (facts::spawns) fetch_add<scope::device>(&view.words->live, uint64_t{0} - uint64_t{n} * facts::spawns);
  }

  /// After `here` has run in the lanes that had one of `finished` tasks: what they spawned is offered, and what was
  /// promised and not used goes back. Returns how many frames were begun. Thread scope: the warp.
  template <class Here>
  GRAVEL_DEVICE uint32_t settle(const lane_group& warp, const Here& here, uint32_t promised, uint32_t finished) const {
    const uint32_t spawned = settle_children(children(), warp, here, promised * facts::spawns);
    const uint32_t frames = settle_frames(continuations(), warp, here, promised);
    if (warp.is_leader()) {
      const uint64_t change = uint64_t{spawned} - uint64_t{promised} * facts::spawns - finished;
      if (change)
        fetch_add<scope::device>(&view.words->live, spawned && !here.told() ? change + graph_words::arrival : change);
    }
    return frames;
  }

 private:
  using children_type = typename facts::children;
  using continuations_type = typename facts::continuations;
  GRAVEL_DEVICE static children_type* children() { return nullptr; }
  GRAVEL_DEVICE static continuations_type* continuations() { return nullptr; }
  /// Its tasks may spawn nothing.
  GRAVEL_DEVICE bool deepest() const { return depth >= view.depths; }

  /// A lane for each thing of which there must be enough. All look at once, and take at once. If others were faster
  /// with one of them, all go back, and are taken one after the other: so two who ask do not go on each getting what
  /// the other one lacks.
  template <class... U, class... C>
  GRAVEL_DEVICE bool promise_all(gravel_types<U...>*, gravel_types<C...>*, const lane_group& warp,
                                 [[maybe_unused]] uint32_t n, [[maybe_unused]] bool looks) const {
    constexpr uint32_t things = sizeof...(U) + sizeof...(C);
    if constexpr (things == 0) return true;
    [[maybe_unused]] uint32_t lane = 0;
    slots<> of{};
    uint32_t wanted = 0;
    ((warp.rank() == lane++ ? void((of = view.template channel_of<U>(depth).space, wanted = n * facts::spawns))
                            : void()),
     ...);
    ((warp.rank() == lane++ ? void((of = view.template frames_of<C>(depth).space, wanted = n)) : void()), ...);
    for (;; looks = true) {
      if (looks && warp.ballot(!of.has_room(wanted)) != 0) return false;
      const bool took = of.take_room_now(wanted);
      if (warp.ballot(!took) == 0) {
        warp.sync();  // whichever lane draws: it has acquired what these have
        return true;
      }
      if (took) of.return_room(wanted);
      if (looks) break;
    }
    if constexpr (things == 1) {
      return false;
    } else {
      for (uint32_t i = 0; i != things; ++i) {
        const bool failed = warp.rank() == i && !of.take_room_now(wanted);
        if (warp.ballot(failed) == 0) continue;
        if (warp.rank() < i) of.return_room(wanted);
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
  template <class... U, class Here>
  GRAVEL_DEVICE uint32_t settle_children(gravel_types<U...>*, [[maybe_unused]] const lane_group& warp,
                                         [[maybe_unused]] const Here& here, [[maybe_unused]] uint32_t promised) const {
    uint32_t sum = 0;
    (
        [&] {
          const uint32_t n = group_sum::of(warp, here.template spawned<U>()).total;
          if (!deepest()) {
            const auto to = view.template channel_of<U>(depth);
            if (warp.is_leader()) to.return_room(promised - n);
            if (warp.ballot(here.template unoffered<U>()) != 0) to.publish(warp);
          }
          sum += n;
        }(),
        ...);
    return sum;
  }
  template <class... C, class Here>
  GRAVEL_DEVICE uint32_t settle_frames(gravel_types<C...>*, [[maybe_unused]] const lane_group& warp,
                                       [[maybe_unused]] const Here& here, [[maybe_unused]] uint32_t promised) const {
    uint32_t sum = 0;
    (
        [&] {
          const uint32_t n = lane_group::popcount(warp.ballot(here.template framed<C>()));
          if (warp.is_leader() && !deepest()) view.template frames_of<C>(depth).space.return_room(promised - n);
          sum += n;
        }(),
        ...);
    return sum;
  }
};

}  // namespace gravel::detail
