// Receiver-initiated work sharing between PEs: an idle PE requests tasks of the other PEs.
//
// Problem. Some PEs have many tasks and others have none.
// Solution. A PE with an idle block grants each other PE a credit for one transfer of tasks (transfers.cuh). A PE that
// has tasks and a credit exports half of those of its least depth that has two. The importing PE runs them, and sends
// the results back in transfers. On each PE one warp does all of this, in a kernel of its own beside the workers, until
// no task is left at any PE. To the workers it is one more producer of tasks.
//
//   PE p                                                    PE q
//                                                           some block is idle: requests tasks of the other PEs, once
//   has a credit: takes tasks of the least depth,
//   exported += n, credits -= n, live -= n; sends them      as soon as there is room: puts each task into the graph,
//                                                           behind a frame of `returned`, to which the task returns
//                                                           when that frame has its input: the result goes into p's
//                                                           outbox, and leaves with the next transfer of results
//   adds the results where they belong (live grows),
//   credits += n, exported -= n; requests results again
//
// Words. Exported tasks belong to this PE and run at another one. Imported tasks belong to another PE and are in the
// graph here. Pending tasks have arrived from another PE and have found no room in the graph yet. A request is
// outstanding until its transfer has arrived.
//
// Invariants
// - Credits for tasks. p may have capacity / PEs tasks at q at once: from the time when it sends a task until it has
//   taken its result. So all tasks that other PEs have at q are at most `capacity`, and p's outbox at q has room for
//   all results. No PE waits for another PE, except for the result of a task.
// - Frames. The frame of an exported task's parent is not free until the result is here, and so its room and the room
//   of the frames begun behind it do not come back. Such a task keeps at most one frame of each depth, that of its
//   ancestor. So there are as many additional frames as tasks may be exported, and admission (task_admission.cuh) holds
//   without them. A task without room waits for tasks of greater depth, at some PE, and the deepest tasks need no
//   frames: so some task can always run. A pending task waits for room at its own depth, which tasks of this depth have
//   that are in the graph already. Pending tasks are not ordered, so none of them blocks another one.
// - The end. A PE has finished when none of its own tasks is left, here or elsewhere: `live` and `exported` are 0.
//   Imported tasks keep their own PEs from finishing. A task is counted in `exported` before `live` stops counting it,
//   and a result is counted in `live` before `exported` stops counting its task; one warp does both, and polls `live`
//   afterwards. When all PEs have finished, no task is left anywhere: it would descend from an own task of some PE, and
//   that PE would not have finished.
//
// The model is test/models/shared_tasks.pml.
#pragma once
#include <cstdint>
#include <utility>

#include "device/watched_wait.cuh"
#include "lib/base/relax.hpp"
#include "lib/taskgraph/task_view.cuh"
#include "lib/taskgraph/transfers.cuh"

namespace gravel::detail {

/// A task on its way to another PE.
template <class Root>
struct travelling_task {
  Root task;
  uint32_t from;  ///< its own PE
  uint32_t depth;
};
/// A result on its way to the task's own PE.
template <class V>
struct travelling_result {
  gravel_return<V> to;
  V value;
};
namespace inner {
template <class V>
V value_returned(gravel_return<V>);
}
/// The type of the result of a task.
template <class Root>
using result_of = decltype(inner::value_returned(std::declval<Root>().to));

/// A transfer holds enough tasks for all workers of a PE: each worker's share grows only step by step.
template <class Root>
using task_transfers = transfers<travelling_task<Root>, 1024>;
template <class Root>
using result_transfers = transfers<travelling_result<result_of<Root>>, 256>;

/// The graph's constants, and for each other PE an outbox: a channel in which its results wait for the next transfer.
template <class Constants, class V>
struct shared_constants : Constants {
  char* outboxes;
  uint32_t credits;
  GRAVEL_BOTH channel<travelling_result<V>> outbox(uint32_t pe) const {
    return channel<travelling_result<V>>::in(outboxes + pe * channel<travelling_result<V>>::bytes(credits), credits);
  }
};

/// The continuation of an imported task: it puts the result into the outbox of the task's own PE.
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
    const lane_group group = at_once.part(at_once.match(pe));  // the lanes with the same outbox
    channel_reservation r = outbox.reserve(group, 1);
    // There is room by the credits. It may have come back a moment ago and not be seen yet.
    for (relax wait; !r.granted; wait()) r = outbox.reserve(group, 1);
    outbox.write(r.mine, {to, x[0]});
    outbox.commit(group, r);
  }
};

/// Counts of the exchange of one PE.
struct shared_words {
  uint64_t begun;        ///< the number of the run that is in progress
  uint32_t exported;     ///< tasks of this PE that are at other PEs
  uint32_t pending;      ///< tasks of other PEs that have found no room in the graph yet
  uint32_t imported;     ///< tasks of other PEs in the graph
  uint32_t outstanding;  ///< requests for tasks whose transfer has not arrived
  // In this run.
  uint32_t sent;       ///< tasks that were exported
  uint32_t taken;      ///< tasks that arrived
  uint32_t requested;  ///< requests for tasks
  uint32_t most;       ///< largest number of tasks in one transfer that arrived
};

/// State of the exchange; plain data. One warp uses it; other PEs write only its symmetric parts.
template <class Root>
struct shared_state {
  gravel_t g;
  task_transfers<Root> tasks;
  result_transfers<Root> results;
  shared_words* words;
  travelling_task<Root>* pending;  ///< [words->pending]
  uint32_t* credits;               ///< [PE] number of tasks that may still be exported to that PE
  uint64_t* finished;              ///< [PE] the last run in which that PE has finished; symmetric
  uint64_t* stopped;               ///< [PE] the last run in which a task reported a fault at that PE; symmetric
};

/// The warp that exchanges tasks and results with the other PEs. Thread scope of all calls, where nothing else is said:
/// the warp, converged.
template <class View, class Root>
class task_exchange {
  using V = result_of<Root>;
  using proxy = returned<V>;

 public:
  GRAVEL_DEVICE task_exchange(const View& view, const shared_state<Root>& s, uint64_t run)
      : view_(view), s_(s), run_(run), warp_(lane_group::converged_warp(threadIdx.x, 32)) {}

  /// Begins a run: requests results of all PEs.
  GRAVEL_DEVICE void begin() const {
    if (warp_.is_leader()) {
      s_.words->sent = 0;
      s_.words->taken = 0;
      s_.words->requested = 0;
      s_.words->most = 0;
      store_release<scope::system>(&s_.words->begun, run_);
    }
    for_each_pe([&](uint32_t pe) { return !s_.results.has_requested(pe); },
                [&](uint32_t pe) { s_.results.request_credit(s_.g, warp_, pe); });
  }
  /// One round: polls everything at once, and takes the steps that are possible. False: there were none.
  GRAVEL_DEVICE bool exchange() {
    if (!has_work()) return false;
    moved_ = false;
    take_results();
    take_tasks();
    send_results();
    export_tasks();
    request_tasks();
    poll_end();
    return moved_ || ended_;
  }
  /// No task is left at any PE, or a task has reported a fault at one. Then the workers leave.
  GRAVEL_DEVICE bool has_ended() const { return ended_; }
  GRAVEL_DEVICE const lane_group& warp() const { return warp_; }
  /// This PE has finished, and others may not have.
  GRAVEL_DEVICE bool has_finished_here() const { return finished_; }
  /// The first PE that has not finished. Thread scope: lane.
  GRAVEL_DEVICE uint32_t late_pe() const {
    uint32_t pe = 0;
    while (pe + 1 < s_.g.n_pes && (pe == s_.g.my_pe || has_finished(pe))) ++pe;
    return pe;
  }

 private:
  /// Is there a step to take? A lane polls for each PE and for each depth, and the leader for this PE itself, so that
  /// the warp waits for memory only once.
  GRAVEL_DEVICE bool has_work() const {
    bool any = false, may_export = false, has_tasks = false, all_finished = finished_;
    for (uint32_t pe = warp_.rank(); pe < s_.g.n_pes; pe += 32) {
      if (pe == s_.g.my_pe) continue;
      any |= s_.results.has_arrived(pe) || s_.tasks.has_arrived(pe) || has_stopped(pe) || has_results_for(pe);
      may_export |= may_export_to(pe);
      all_finished &= has_finished(pe);
    }
    for (uint32_t depth = warp_.rank(); depth < view_.depths; depth += 32)
      has_tasks |= view_.template channel_of<Root>(depth).waiting() >= 2;
    if (warp_.is_leader())
      any |= is_faulty() || (!finished_ && is_done()) || s_.words->pending != 0 ||
             (needs_tasks() && s_.words->outstanding != s_.g.n_pes - 1);
    return warp_.ballot(any) != 0 || (finished_ && warp_.ballot(!all_finished) == 0) ||
           (warp_.ballot(may_export) != 0 && warp_.ballot(has_tasks) != 0);
  }

  // ---- polls of another PE. Thread scope: lane.
  GRAVEL_DEVICE bool has_stopped(uint32_t pe) const { return load_acquire<scope::system>(&s_.stopped[pe]) == run_; }
  GRAVEL_DEVICE bool has_finished(uint32_t pe) const { return load_acquire<scope::system>(&s_.finished[pe]) >= run_; }
  GRAVEL_DEVICE bool has_results_for(uint32_t pe) const {
    return view_.constants.outbox(pe).waiting() != 0 && s_.results.may_send(pe);
  }
  GRAVEL_DEVICE bool may_export_to(uint32_t pe) const { return s_.credits[pe] != 0 && s_.tasks.may_send(pe); }
  // ---- polls of this PE. Thread scope: lane.
  GRAVEL_DEVICE bool is_faulty() const { return load_relaxed<scope::device>(&view_.words->fault) != 0; }
  GRAVEL_DEVICE bool is_done() const {
    return (load_acquire<scope::device>(&view_.words->live) & graph_words::live_mask) == 0 && s_.words->exported == 0;
  }
  /// Some block is idle, and no task is pending. One idle block suffices: more blocks are idle when tasks arrive.
  GRAVEL_DEVICE bool needs_tasks() const {
    return load_relaxed<scope::device>(&view_.words->idle_blocks) != 0 && s_.words->pending == 0;
  }

  /// Calls f(pe) for each other PE for which is(pe) is true. One lane calls `is`; the warp calls `f`.
  template <class Is, class F>
  GRAVEL_DEVICE void for_each_pe(Is is, F f) const {
    for (uint32_t first = 0; first < s_.g.n_pes; first += 32) {
      const uint32_t pe = first + warp_.rank();
      uint32_t some = warp_.ballot(pe < s_.g.n_pes && pe != s_.g.my_pe && is(pe));
      warp_.sync();  // what one lane has acquired, all lanes have acquired
      for (; some != 0; some &= some - 1) f(first + lane_group::lowest(some));
    }
  }
  template <class Is>
  GRAVEL_DEVICE bool any_pe(Is is) const {
    bool any = false;
    for_each_pe(is, [&](uint32_t) { any = true; });
    return any;
  }
  /// Writes the number of this run into this PE's word of that array, at all other PEs.
  GRAVEL_DEVICE void notify(uint64_t* word) const {
    for_each_pe([](uint32_t) { return true; },
                [&](uint32_t pe) {
                  gravel_put_signal_warp(s_.g, nullptr, nullptr, 0, &word[s_.g.my_pe], run_, GRAVEL_SIGNAL_SET,
                                         static_cast<int>(pe));
                });
  }

  GRAVEL_DEVICE void take_results() {
    for_each_pe([&](uint32_t pe) { return s_.results.has_arrived(pe); },
                [&](uint32_t pe) {
                  const auto& arrived = s_.results.take(warp_, pe);
                  const uint32_t n = arrived.count;
                  for (uint32_t i = warp_.rank(); i < n; i += 32)
                    deliver(static_cast<typename View::types*>(nullptr), arrived.element[i]);
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
    for_each_pe([&](uint32_t pe) { return s_.tasks.has_arrived(pe); },
                [&](uint32_t pe) {
                  const auto& arrived = s_.tasks.take(warp_, pe);
                  const uint32_t n = arrived.count, before = warp_.from_leader(s_.words->pending);
                  const bool placed = place_together(arrived.element, n);
                  for (uint32_t i = warp_.rank(); i < n && !placed; i += 32)
                    s_.pending[before + i] = arrived.element[i];
                  warp_.sync();
                  if (warp_.is_leader()) {
                    if (placed) s_.words->imported += n;
                    else s_.words->pending += n;
                    s_.words->taken += n;
                    --s_.words->outstanding;
                    if (n > s_.words->most) s_.words->most = n;
                  }
                  warp_.sync();
                  moved_ = true;
                });
    place_pending();
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
    for_each_pe([&](uint32_t pe) { return may_export_to(pe); }, [&](uint32_t pe) { export_to(pe); });
  }

  /// Requests tasks of the PEs of which no request is outstanding, if this PE needs tasks.
  GRAVEL_DEVICE void request_tasks() const {
    if (warp_.from_leader(static_cast<uint32_t>(warp_.is_leader() && needs_tasks())) == 0) return;
    for_each_pe([&](uint32_t pe) { return !s_.tasks.has_requested(pe); },
                [&](uint32_t pe) {
                  s_.tasks.request_credit(s_.g, warp_, pe);
                  if (warp_.is_leader()) {
                    ++s_.words->outstanding;
                    ++s_.words->requested;
                  }
                });
    warp_.sync();
  }

  /// Notifies the other PEs when this one has finished, or has a fault, and polls whether all have finished or one has
  /// a fault.
  GRAVEL_DEVICE void poll_end() {
    enum : uint32_t { nothing, fault, done };
    uint32_t here = nothing;
    if (warp_.is_leader()) {
      if (is_faulty()) here = fault;
      else if (!finished_ && is_done()) here = done;
    }
    here = warp_.from_leader(here);
    if (here == fault) {  // also if this PE has finished: the fault may be an imported task's
      notify(s_.stopped);
      ended_ = true;
    } else if (any_pe([&](uint32_t pe) { return has_stopped(pe); })) {
      if (warp_.is_leader()) view_.report(task_fault::elsewhere, 0, 0);
      ended_ = true;
    } else {
      if (here == done) {
        finished_ = true;
        notify(s_.finished);
      }
      ended_ = finished_ && !any_pe([&](uint32_t pe) { return !has_finished(pe); });
      if (ended_ && warp_.is_leader()) store_release<scope::device>(&view_.words->held, uint64_t{0});
    }
  }

  /// Adds a result where its task would have delivered it: to a word of the host, or to an input of a continuation with
  /// inputs of this type.
  template <class... C>
  GRAVEL_DEVICE void deliver(gravel_types<C...>*, const travelling_result<V>& r) const {
    if (r.to.type() == gravel_return<V>::of_host)
      return View::template deliver_value<true>(reinterpret_cast<V*>(&view_.results[r.to.row()]), r.value);
    (deliver_if<C>(r.to.type() == View::types::template index<C>, r), ...);
  }
  template <class C>
  GRAVEL_DEVICE void deliver_if([[maybe_unused]] bool is_type, [[maybe_unused]] const travelling_result<V>& r) const {
    if constexpr (std::is_same_v<typename task_facts<C>::value, V>)
      if (is_type) view_.template deliver_to<C, true>(r.to.row(), r.to.input(), r.value);
  }

  /// Puts those pending tasks into the graph for which there is room now.
  GRAVEL_DEVICE void place_pending() {
    const uint32_t n = warp_.from_leader(s_.words->pending);
    if (n == 0) return;
    uint32_t left = 0;
    for (uint32_t first = 0; first < n; first += 32) {
      const bool has = first + warp_.rank() < n;
      travelling_task<Root> t{};
      if (has) t = s_.pending[first + warp_.rank()];
      const bool stays = has && !place(t);
      warp_.sync();
      const uint32_t all = warp_.ballot(stays);
      if (stays) s_.pending[left + warp_.rank_in(all)] = t;
      left += lane_group::popcount(all);
      warp_.sync();
    }
    if (warp_.is_leader()) {
      s_.words->pending = left;
      s_.words->imported += n - left;
    }
    warp_.sync();
    moved_ |= left != n;
  }
  /// Puts all tasks of a transfer, which have one depth, into the graph. False: there is no room for all of them, and
  /// none was put there.
  GRAVEL_DEVICE bool place_together(const travelling_task<Root>* t, uint32_t n) const {
    const uint32_t depth = t[0].depth;
    const auto to = view_.template channel_of<Root>(depth);
    const frames<proxy> in = view_.template frames_of<proxy>(depth);
    if (!to.space.take_room(warp_, n)) return false;
    if (!in.space.take_room(warp_, n)) {
      if (warp_.is_leader()) to.return_room(n);
      return false;
    }
    uint64_t drawn = 0;  // lane 0 draws the frames, lane 1 the tickets
    if (warp_.rank() < 2) drawn = (warp_.rank() == 0 ? in.space : to.space).draw(n);
    const uint64_t frame = warp_.from_lane(drawn, 0), first = warp_.from_lane(drawn, 1);
    for (uint32_t i = warp_.rank(); i < n; i += 32) to.write(first + i, begin_proxy(in, in.space.row(frame + i), t[i]));
    if (warp_.is_leader()) {
      fetch_add<scope::device>(&view_.words->live, graph_words::arrival + n);
      fetch_add<scope::device>(&view_.words->counts.begun, uint64_t{n});
    }
    to.commit(warp_, {first, first, n, true});
    return true;
  }
  /// Begins a frame of `returned` for a task. Returns the task, which now returns to that frame.
  GRAVEL_DEVICE Root begin_proxy(const frames<proxy>& in, uint32_t row, const travelling_task<Root>& t) const {
    in.begin(row, {t.from, t.task.to}, 1);
    Root task = t.task;
    task.to = gravel_return<V>::to(false, View::types::template index<proxy>, 0, t.depth << view_.frame_shift | row);
    return task;
  }
  /// Puts one task into the graph. False: there is no room. Thread scope: lane.
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

  /// Exports half of the tasks of the least depth that has two, up to the credits.
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
  bool moved_ = false;     ///< this round has taken a step
  bool finished_ = false;  ///< this PE has finished
  bool ended_ = false;     ///< all PEs have finished, or a task has reported a fault
};

/// The kernel of the exchange: one warp, beside the workers.
template <class View, class Root>
__global__ void exchange_tasks(const View view, const shared_state<Root> s, uint64_t run) {
  task_exchange<View, Root> exchange(view, s, run);
  exchange.begin();
  const auto late_pe = [&] { return wait_subject{.what = awaited::tasks, .pe = exchange.late_pe()}; };
  for (watched_wait idle; !exchange.has_ended();) {
    if (exchange.exchange()) {
      idle.reset();
      continue;
    }
    const bool waits = exchange.has_finished_here() && exchange.warp().is_leader();
    exchange.warp().wait_together([&] { idle.attentively(s.g, waits, late_pe); });
  }
}

}  // namespace gravel::detail
