// Tasks of one type that travel: from a PE that has some to one that asks, and their results back. A warp of each PE,
// in a kernel of its own beside the workers, exchanges transfers with the other PEs (lib/taskgraph/transfers.cuh) until
// nothing is left anywhere. Workers know nothing of it: to them it is one who pushes.
//
//   PE p                                                    PE q
//                                                           some block finds nothing to do: has_requested tasks of the
//                                                           others, once
//   is invited: takes tasks of the least depth,
//   exported += n, credits -= n, live -= n; a transfer of tasks   as soon as there is room into the graph, behind a
//   frame of `returned`
//                                                           in place of the task's own return
//                                                           that frame has its input: into p's outbox, from there a
//                                                           transfer of results
//   adds the results where they belong (live grows),
//   credits += n, exported -= n; has_requested results again
//
// Credits. p may have capacity / PEs tasks at q at once, from when it sends one until it has taken the result. So at q
// all that others have there is at most the capacity, and what waits there for p has room in p's outbox: nobody waits
// for another PE but for its result.
//
// Frames. A frame that waits for a task elsewhere is one for which no room comes back, and neither does it for those
// begun behind it, until the result is here. Such a task holds at most one frame of each depth, its ancestors'. So
// there are as many more frames as tasks may be exported, and what was said of admission holds without them. What has
// no room waits for tasks of greater depth, at whichever PE, and the deepest need no frames: so there is always
// something that can go on. A task that has come waits for room at its own depth, which others of this depth have that
// are in the graph already; those that wait have no order, so none is held up by another.
//
// The end. A PE has finished when none of its own tasks is left, here or elsewhere: `live` and `exported` are 0. What
// it has of others keeps those from finishing. What is exported is counted in `exported` before it is uncounted in
// `live`, and a result is in `live` again before `exported` lets it go; one warp does both and then looks at `live`.
// When all have finished nothing is left anywhere: whatever were left would come of some PE's own task, and that PE
// would not have finished. The model is test/models/shared_tasks.pml.
#pragma once
#include <cstdint>
#include <utility>

#include "lib/base/relax.hpp"
#include "lib/taskgraph/task_view.cuh"
#include "lib/taskgraph/transfers.cuh"

namespace gravel::detail {

template <class Root>
struct travelling_task {
  Root task;
  uint32_t from, depth;
};
template <class V>
struct travelling_result {
  gravel_return<V> to;
  V value;
};
namespace inner {
template <class V>
V value_returned(gravel_return<V>);
}
/// The type of what a task returns.
template <class Root>
using result_of = decltype(inner::value_returned(std::declval<Root>().to));

/// So many go at once: enough to give something to all workers of a PE, as what each of them gets grows only step by
/// step.
template <class Root>
using task_transfers = transfers<travelling_task<Root>, 1024>;
template <class Root>
using result_transfers = transfers<travelling_result<result_of<Root>>, 256>;

/// The graph's constants, and for each other PE a channel in which its results wait for the next transfer.
template <class Constants, class V>
struct shared_constants : Constants {
  char* outboxes;
  uint32_t credits;
  GRAVEL_BOTH channel<travelling_result<V>> outbox(uint32_t pe) const {
    return channel<travelling_result<V>>::in(outboxes + pe * channel<travelling_result<V>>::bytes(credits), credits);
  }
};

/// The continuation of a task of another PE.
template <class V>
struct returned {
  static constexpr const char* name = "returned";
  static constexpr uint32_t inputs = 1;
  using value = V;
  uint32_t pe;
  gravel_return<V> to;
  template <class Here>
  __device__ void operator()(Here& here, const V (&x)[1]) const {
    const auto outbox = here.constants().outbox(pe);
    const lane_group at_once = lane_group::active();
    const lane_group group = at_once.part(at_once.match(pe));  // those for the same channel
    channel_reservation r = outbox.reserve(group, 1);
    for (relax wait; !r.granted; wait())
      r = outbox.reserve(group, 1);  // there is room; that it has come back may not have been seen yet
    outbox.write(r.mine, {to, x[0]});
    outbox.commit(group, r);
  }
};

struct shared_words {
  uint64_t begun;                   ///< the run that is under way here
  uint32_t exported;                ///< tasks of this PE that are elsewhere
  uint32_t waiting;                 ///< of others, that have found no room in the graph yet
  uint32_t imported;                ///< of others, in the graph
  uint32_t open;                    ///< transfers of tasks that were requested for and have not come
  uint32_t sent, taken, requested;  ///< in this run: tasks to others and from them; transfers that were requested for
  uint32_t most;                    ///< tasks that came at once
};

/// What the exchange works on; plain data. One warp touches it, but for what other PEs write.
template <class Root>
struct shared_state {
  gravel_t g;
  task_transfers<Root> tasks;
  result_transfers<Root> results;
  shared_words* words;
  travelling_task<Root>* waiting;  ///< [words->waiting]
  uint32_t* credits;               ///< [PE]
  uint64_t *finished,
      *stopped;  ///< [PE] the last run whose own tasks are all done there; in which a task there did something wrong;
                 ///< symmetric
};

template <class View, class Root>
class task_exchange {
  using V = result_of<Root>;
  using proxy = returned<V>;

 public:
  GRAVEL_DEVICE task_exchange(const View& view, const shared_state<Root>& s, uint64_t run)
      : view_(view), s_(s), run_(run), warp_(lane_group::converged_warp(threadIdx.x, 32)) {}

  GRAVEL_DEVICE void begin() const {
    if (warp_.is_leader()) {
      s_.words->sent = s_.words->taken = s_.words->requested = s_.words->most = 0;
      store_release<scope::system>(&s_.words->begun, run_);
    }
    for_each_pe([&](uint32_t pe) { return !s_.results.has_requested(pe); },
                [&](uint32_t pe) { s_.results.request_credit(s_.g, warp_, pe); });
  }
  /// Looks, at all at once, and does what there is to do. False: nothing was.
  GRAVEL_DEVICE bool exchange() {
    if (!anything()) return false;
    moved_ = false;
    take_results();
    take_tasks();
    send_results();
    export_tasks();
    ask();
    poll_end();
    return moved_ || ended_;
  }
  /// Nothing is left at any PE, or a task has done something wrong at one. Then workers leave.
  GRAVEL_DEVICE bool has_ended() const { return ended_; }
  GRAVEL_DEVICE const lane_group& warp() const { return warp_; }

 private:
  /// A lane for each PE, one for each depth, and the leader for this PE itself: what they read comes in one trip to
  /// memory.
  GRAVEL_DEVICE bool anything() const {
    bool any = false, wanted = false, ample = false, all_finished = finished_;
    for (uint32_t pe = warp_.rank(); pe < s_.g.n_pes; pe += 32) {
      if (pe == s_.g.my_pe) continue;
      any |= s_.results.has_come(pe) || s_.tasks.has_come(pe) || has_stopped(pe) || has_results_for(pe);
      wanted |= wants_tasks(pe);
      all_finished &= has_finished(pe);
    }
    for (uint32_t depth = warp_.rank(); depth < view_.depths; depth += 32)
      ample |= view_.template channel_of<Root>(depth).waiting() >= 2;
    if (warp_.is_leader())
      any |= is_faulty() || (!finished_ && is_done()) || s_.words->waiting != 0 ||
             (wants() && s_.words->open != s_.g.n_pes - 1);
    return warp_.ballot(any) != 0 || (finished_ && warp_.ballot(!all_finished) == 0) ||
           (warp_.ballot(wanted) != 0 && warp_.ballot(ample) != 0);
  }

  // ---- questions: a lane, of a PE
  GRAVEL_DEVICE bool has_stopped(uint32_t pe) const { return load_acquire<scope::system>(&s_.stopped[pe]) == run_; }
  GRAVEL_DEVICE bool has_finished(uint32_t pe) const { return load_acquire<scope::system>(&s_.finished[pe]) >= run_; }
  GRAVEL_DEVICE bool has_results_for(uint32_t pe) const {
    return view_.constants.outbox(pe).waiting() != 0 && s_.results.may_send(pe);
  }
  GRAVEL_DEVICE bool wants_tasks(uint32_t pe) const { return s_.credits[pe] != 0 && s_.tasks.may_send(pe); }
  // ---- of this one
  GRAVEL_DEVICE bool is_faulty() const { return load_relaxed<scope::device>(&view_.words->fault) != 0; }
  GRAVEL_DEVICE bool is_done() const {
    return (load_acquire<scope::device>(&view_.words->live) & graph_words::live_mask) == 0 && s_.words->exported == 0;
  }
  /// Some block finds nothing to do. Not all must be idle: by the time that something comes, more of them are.
  GRAVEL_DEVICE bool wants() const {
    return load_relaxed<scope::device>(&view_.words->idle_blocks) != 0 && s_.words->waiting == 0;
  }

  /// For the other PEs of which it is true; `is` is requested by one lane, `f` called by the warp.
  template <class Is, class F>
  GRAVEL_DEVICE void for_each_pe(Is is, F f) const {
    for (uint32_t first = 0; first < s_.g.n_pes; first += 32) {
      const uint32_t pe = first + warp_.rank();
      uint32_t some = warp_.ballot(pe < s_.g.n_pes && pe != s_.g.my_pe && is(pe));
      warp_.sync();  // what one lane has acquired, all have
      for (; some != 0; some &= some - 1) f(first + lane_group::lowest(some));
    }
  }
  template <class Is>
  GRAVEL_DEVICE bool any_pe(Is is) const {
    bool any = false;
    for_each_pe(is, [&](uint32_t) { any = true; });
    return any;
  }
  /// The number of this run into that word of this PE, at all others.
  GRAVEL_DEVICE void tell(uint64_t* word) const {
    for_each_pe([](uint32_t) { return true; },
                [&](uint32_t pe) {
                  gravel_put_signal_warp(s_.g, nullptr, nullptr, 0, &word[s_.g.my_pe], run_, GRAVEL_SIGNAL_SET,
                                         static_cast<int>(pe));
                });
  }

  GRAVEL_DEVICE void take_results() {
    for_each_pe([&](uint32_t pe) { return s_.results.has_come(pe); },
                [&](uint32_t pe) {
                  const auto& come = s_.results.take(warp_, pe);
                  const uint32_t n = come.count;
                  for (uint32_t i = warp_.rank(); i < n; i += 32)
                    bring(static_cast<typename View::types*>(nullptr), come.element[i]);
                  warp_.sync();
                  s_.results.request_credit(s_.g, warp_, pe);
                  if (warp_.is_leader()) {
                    s_.credits[pe] += n;
                    s_.words->exported -= n;
                  }
                  warp_.sync();
                  moved_ = true;
                });
  }

  GRAVEL_DEVICE void take_tasks() {
    for_each_pe([&](uint32_t pe) { return s_.tasks.has_come(pe); },
                [&](uint32_t pe) {
                  const auto& come = s_.tasks.take(warp_, pe);
                  const uint32_t n = come.count, before = warp_.from_leader(s_.words->waiting);
                  const bool placed = place_together(come.element, n);
                  for (uint32_t i = warp_.rank(); i < n && !placed; i += 32) s_.waiting[before + i] = come.element[i];
                  warp_.sync();
                  if (warp_.is_leader()) {
                    (placed ? s_.words->imported : s_.words->waiting) += n;
                    s_.words->taken += n;
                    --s_.words->open;
                    if (n > s_.words->most) s_.words->most = n;
                  }
                  warp_.sync();
                  moved_ = true;
                });
    place_tasks();
  }

  GRAVEL_DEVICE void send_results() {
    for_each_pe([&](uint32_t pe) { return has_results_for(pe); },
                [&](uint32_t pe) {
                  const auto outbox = view_.constants.outbox(pe);
                  const channel_batch b = outbox.take(warp_, result_transfers<Root>::transfer::most);
                  if (b.count == 0) return;
                  s_.results.send(s_.g, warp_, pe, b.count, [&](uint32_t i) { return outbox.read(b.first + i); });
                  outbox.free(warp_, b);
                  if (warp_.is_leader()) s_.words->imported -= b.count;
                  moved_ = true;
                });
  }

  GRAVEL_DEVICE void export_tasks() {
    for_each_pe([&](uint32_t pe) { return wants_tasks(pe); }, [&](uint32_t pe) { export_to(pe); });
  }

  /// Those whom it has not requested.
  GRAVEL_DEVICE void ask() const {
    if (warp_.from_leader(static_cast<uint32_t>(warp_.is_leader() && wants())) == 0) return;
    for_each_pe([&](uint32_t pe) { return !s_.tasks.has_requested(pe); },
                [&](uint32_t pe) {
                  s_.tasks.request_credit(s_.g, warp_, pe);
                  if (warp_.is_leader()) {
                    ++s_.words->open;
                    ++s_.words->requested;
                  }
                });
    warp_.sync();
  }

  GRAVEL_DEVICE void poll_end() {
    enum : uint32_t { nothing, fault, done };
    uint32_t here = nothing;
    if (warp_.is_leader()) here = is_faulty() ? fault : !finished_ && is_done() ? done : nothing;
    here = warp_.from_leader(here);
    if (here == fault) {  // also if its own are done: it was another one's task
      tell(s_.stopped);
      ended_ = true;
    } else if (any_pe([&](uint32_t pe) { return has_stopped(pe); })) {
      if (warp_.is_leader()) view_.report(task_fault::elsewhere, 0, 0);
      ended_ = true;
    } else {
      if (here == done) {
        finished_ = true;
        tell(s_.finished);
      }
      ended_ = finished_ && !any_pe([&](uint32_t pe) { return !has_finished(pe); });
      if (ended_ && warp_.is_leader()) store_release<scope::device>(&view_.words->held, uint64_t{0});
    }
  }

  /// Adds the result to what its task would have brought it to: a word of the host, or an input of a continuation with
  /// values of this type.
  template <class... C>
  GRAVEL_DEVICE void bring(gravel_types<C...>*, const travelling_result<V>& r) const {
    if (r.to.type() == gravel_return<V>::of_host)
      return View::template deliver_value<true>(reinterpret_cast<V*>(&view_.results[r.to.row()]), r.value);
    (
        [&] {
          if constexpr (std::is_same_v<typename task_facts<C>::value, V>)
            if (r.to.type() == View::types::template index<C>)
              view_.template deliver_to<C, true>(r.to.row(), r.to.input(), r.value);
        }(),
        ...);
  }

  GRAVEL_DEVICE void place_tasks() {
    const uint32_t n = warp_.from_leader(s_.words->waiting);
    if (n == 0) return;
    uint32_t left = 0;
    for (uint32_t first = 0; first < n; first += 32) {
      const bool has = first + warp_.rank() < n;
      travelling_task<Root> t{};
      if (has) t = s_.waiting[first + warp_.rank()];
      const bool stays = has && !place(t);
      warp_.sync();
      const uint32_t all = warp_.ballot(stays);
      if (stays) s_.waiting[left + warp_.rank_in(all)] = t;
      left += lane_group::popcount(all);
      warp_.sync();
    }
    if (warp_.is_leader()) {
      s_.words->waiting = left;
      s_.words->imported += n - left;
    }
    warp_.sync();
    moved_ |= left != n;
  }
  /// All of a transfer, which are of one depth; or, if there is no room for all at once, none.
  GRAVEL_DEVICE bool place_together(const travelling_task<Root>* t, uint32_t n) const {
    const uint32_t depth = t[0].depth;
    const auto to = view_.template channel_of<Root>(depth);
    const frames<proxy> in = view_.template frames_of<proxy>(depth);
    if (!to.space.take_room(warp_, n)) return false;
    if (!in.space.take_room(warp_, n)) {
      if (warp_.is_leader()) to.return_room(n);
      return false;
    }
    uint64_t drawn = 0;  // by lane 0 the frames, by lane 1 the places
    if (warp_.rank() < 2) drawn = (warp_.rank() == 0 ? in.space : to.space).draw(n);
    const uint64_t frame = warp_.from_lane(drawn, 0), first = warp_.from_lane(drawn, 1);
    for (uint32_t i = warp_.rank(); i < n; i += 32) to.write(first + i, begin_proxy(in, in.space.row(frame + i), t[i]));
    if (warp_.is_leader()) {
      fetch_add<scope::device>(&view_.words->live, graph_words::arrival + n);
      fetch_add<scope::device>(&view_.words->counts.begun, uint64_t{n});
    }
    if (!to.commit_and_offer(warp_, {first, first, n, true})) to.publish(warp_);
    return true;
  }
  /// The task with a frame of `returned` in place of its own return.
  GRAVEL_DEVICE Root begin_proxy(const frames<proxy>& in, uint32_t row, const travelling_task<Root>& t) const {
    in.begin(row, {t.from, t.task.to}, 1);
    Root task = t.task;
    task.to = gravel_return<V>::to(false, View::types::template index<proxy>, 0, t.depth << view_.frame_shift | row);
    return task;
  }
  GRAVEL_DEVICE bool place(const travelling_task<Root>& t) const {
    const auto to = view_.template channel_of<Root>(t.depth);
    const frames<proxy> in = view_.template frames_of<proxy>(t.depth);
    if (!to.take_room(1)) return false;
    if (!in.space.take_room(1)) {
      to.return_room(1);
      return false;
    }
    const Root task = begin_proxy(in, in.space.row(in.space.draw(1)), t);
    fetch_add<scope::device>(&view_.words->live, graph_words::arrival + 1);
    fetch_add<scope::device>(&view_.words->counts.begun, uint64_t{1});
    const lane_group alone = lane_group::of(1u << warp_.lane());
    const channel_reservation r = to.draw(alone, 1);
    to.write(r.mine, task);
    to.commit(alone, r);
    return true;
  }

  /// Half of the tasks of the least depth that has two.
  GRAVEL_DEVICE void export_to(uint32_t pe) {
    uint32_t depth = view_.depths, waiting = 0;
    for (uint32_t first = 0; first < view_.depths && depth == view_.depths; first += 32) {
      waiting =
          first + warp_.rank() < view_.depths ? view_.template channel_of<Root>(first + warp_.rank()).waiting() : 0;
      if (const uint32_t some = warp_.ballot(waiting >= 2)) {
        depth = first + lane_group::lowest(some);
        waiting = warp_.from_lane(waiting, lane_group::lowest(some));
      }
    }
    if (depth == view_.depths) return;
    const auto from = view_.template channel_of<Root>(depth);
    constexpr uint32_t most = task_transfers<Root>::transfer::most;
    const uint32_t half = waiting / 2 < most ? waiting / 2 : most, credits = warp_.from_leader(s_.credits[pe]);
    const channel_batch b = from.take(warp_, half < credits ? half : credits);
    if (b.count == 0) return;  // workers were faster
    if (warp_.is_leader()) {
      s_.words->exported += b.count;
      s_.words->sent += b.count;
      s_.credits[pe] -= b.count;
      fetch_add<scope::device>(&view_.words->live, uint64_t{0} - b.count);
    }
    s_.tasks.send(s_.g, warp_, pe, b.count, [&](uint32_t i) {
      return travelling_task<Root>{from.read(b.first + i), s_.g.my_pe, depth};
    });
    from.free(warp_, b);
    moved_ = true;
  }

  const View& view_;
  const shared_state<Root>& s_;
  const uint64_t run_;
  const lane_group warp_;
  bool moved_ = false;
  bool finished_ = false;  ///< this PE
  bool ended_ = false;
};

/// One warp, beside the workers.
template <class View, class Root>
__global__ void exchange_tasks(const View view, const shared_state<Root> s, uint64_t run) {
  task_exchange<View, Root> exchange(view, s, run);
  exchange.begin();
  for (relax idle; !exchange.has_ended();) {
    if (exchange.exchange()) idle.reset();
    else exchange.warp().wait_together([&] { idle.attentively(); });
  }
}

}  // namespace gravel::detail
