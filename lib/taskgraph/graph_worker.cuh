// Workers of a task graph: warps that take batches of tasks and run them until the graph has ended.
//
// Problem. Tasks lie in many channels, one for each type and depth. Workers must find batches that are large enough,
// and idle workers must not slow down those that work.
// Solution. Each worker polls these places in this order:
//   1. its own shared memory, for full batches: continuations whose inputs have come, then the lowest level that has 32
//      tasks and room for their children. If there is no full batch: the tasks of the highest level, if that is 3 or
//      more, since they have the most descendants.
//   2. the channels, for batches that fill the width: the deepest channel first, if admission lets the batch start
//      (task_admission.cuh). This is the predicate of the paper (Channels, ISCA 2014).
//   3. its own shared memory, for tasks in any number
//   4. the channels, for tasks in any number: the deepest channel first
//
// Polling. One warp of a block polls the channels at a time, until it has found something (block_poller.cuh). It
// releases the turn as soon as it has claimed tasks, before it knows which ones, so that the next warp can poll. Blocks
// begin at different ones of the deepest four channels. While some block polls in vain (`idle_blocks`), workers leave
// tasks of the upper half of the local levels in the channels, so that their children spread over the blocks.
//
// Continuations. The warp that delivers the last input of a continuation runs the continuation next, if it may start;
// the continuation then needs no channel. Only tasks that 32 lanes run do so: of a batch of 32 tasks several may
// deliver a last input.
//
// Schedulers. If the graph has schedulers, the first warps to arrive become schedulers: they alone poll the channels,
// and hand the batches that they take to idle workers, through the workers' mailboxes. A scheduler runs a batch itself
// if no worker is idle, so a single warp suffices.
//
//   worker                                                scheduler
//   its number into the channel of idle ones  [K4]        takes a batch; takes a number                [K4]
//   waits until posted changes                [K6]        first, channel, count, promised; posted += 1 [K6] release
//
// The end. `live` counts an element before the element can be seen. It stops counting it when the element is finished
// and, for an element that a worker has moved into its shared memory, all its descendants there are finished too. The
// graph has ended when `live` is 0 after the host has stopped pushing (`held`, which is read before `live`). A worker
// that finds this leaves, and notifies the other warps of its block.
//
// No warp waits for a certain worker, so the graph ends with any number of resident workers.
#pragma once
#include <cstdint>

#include "lib/base/relax.hpp"
#include "lib/channel/block_poller.cuh"
#include "lib/taskgraph/local_worker.cuh"
#include "lib/taskgraph/task_admission.cuh"

namespace gravel::detail {

/// States of a worker towards the channels, what it may call in each, and which states may follow:
///
///   state       what holds                               may call                   next
///   working     it has no part in polling                may_poll()                 all but idle
///   waiting     the block counts it as waiting           may_poll()                 polling, handed_off, ended
///   handed_off  found_ is one task of a channel          run_found()                working
///   polling     it holds the block's lock                choose(), go_idle()        working, idle, ended
///   idle        as polling; and its block counts in      choose()                   working, ended
///               `idle_blocks`
///   scheduling  a scheduler, from its start to its end   choose(), hand_out()       ended
///   ended       no task is left, or a task has reported  may_poll()                 ended
///               a fault
///
/// - `handed_off`: another warp has claimed the task for this one, or this one has claimed it by a hint.
/// - `polling`: choose() releases the lock as soon as it has claimed a batch.
/// - `idle`: the poller has found all channels empty.
/// - `scheduling`: a scheduler polls without the block's lock.
/// - `ended`: a warp that held the lock has notified its block.
enum class worker_state : uint32_t { working, waiting, handed_off, polling, idle, scheduling, ended };

/// True if `to` may follow `from`: the last column of the table.
GRAVEL_BOTH constexpr bool may_follow(worker_state from, worker_state to) {
  using s = worker_state;
  switch (from) {
    case s::working: return to != s::working && to != s::idle;
    case s::waiting: return to == s::polling || to == s::handed_off || to == s::ended;
    case s::handed_off: return to == s::working;
    case s::polling: return to == s::working || to == s::idle || to == s::ended;
    case s::idle: return to == s::working || to == s::ended;
    case s::scheduling:
    case s::ended: return to == s::ended;
    default: return false;
  }
}

/// A worker, or a scheduler. `SCHEDULED`: the graph has schedulers. Thread scope of all calls: the warp, converged.
template <class View, bool SCHEDULED>
class task_worker {
  using types = typename View::types;
  using store = typename View::store;
  template <class U>
  using facts = task_facts<U>;
  using state = worker_state;

 public:
  /// `counts`: the warp's counts, in shared memory. `block`: the block's poller.
  GRAVEL_DEVICE task_worker(const View& view, const store& own, work_counts<uint32_t>* counts, block_poller* block,
                            const lane_group& warp)
      : view_(view), own_store_(own), warp_(warp), counts_(*counts), own_(view, own, *counts, warp), block_(block) {
    if (warp.is_leader()) counts_ = {};
    warp.sync();
  }
  task_worker(const task_worker&) = delete;

  /// Works until the graph has ended, or until it has taken `batches` batches out of channels and their descendants in
  /// shared memory are done.
  GRAVEL_DEVICE void work(uint32_t batches) {
    relax idle;
    for (bool small = false;; small = !small) {  // alternately: large batches only, and batches of any size
      while (own_.run(small ? 0 : 3)) {
        small = false;
        idle.reset();
      }
      if (small) {
        own_.settle();
        if (batches == 0) break;
        if (!may_poll() && state_ != state::ended) {
          change_to(state::waiting);
          do warp_.wait_together([&] { idle(); });  // its own shared memory is empty: work comes from channels only
          while (!may_poll() && state_ != state::ended);
          small = false;
        }
        if (state_ == state::ended) break;
      }
      if (batches != 0 && may_poll()) {
        // After a poll that found the channels empty, polls again when something has arrived, and every 16th time.
        bool polls = !queue_empty_, has_state = false;
        run_state now{0, false};
        if (!polls && state_ != state::handed_off) {
          now = live_now();
          has_state = true;
          const auto arrivals = static_cast<uint32_t>(now.live / graph_words::arrival);
          polls = arrivals != arrivals_seen_ || ++polls_skipped_ == 16;
          if (polls) {
            arrivals_seen_ = arrivals;
            polls_skipped_ = 0;
          }
        }
        if (state_ == state::handed_off || (polls && !now.faulty && choose(small ? 1 : view_.width))) {
          if (state_ == state::handed_off) change_to(state::working);
          if (!is_scheduler() || !hand_out()) run_found();
          --batches;
          small = true;
          idle.reset();
          continue;
        }
        if (!has_state) now = live_now();
        if (now.faulty || (small && (now.live & graph_words::live_mask) == 0)) {
          change_to(state::ended);
          break;
        }
        if (small && queue_empty_) go_idle();
        if (small && !queue_empty_) report_stall(now.live);
      }
      // While the channels are empty, one warp of the block polls one word: it may wait for a shorter time.
      if (small) {
        warp_.wait_together([&] {
          if (queue_empty_) idle.closely();
          else idle();
        });
      }
    }
    stop_polling();
  }

  /// Works until the graph has ended, as a scheduler or as a worker that gets its batches from schedulers.
  GRAVEL_DEVICE void work_scheduled() {
    uint32_t number = 0;
    if (warp_.is_leader()) number = static_cast<uint32_t>(fetch_add<scope::device>(&view_.words->arrived, uint64_t{1}));
    number = warp_.from_leader(number);
    if (number < view_.schedulers) {
      change_to(state::scheduling);
      return work(~0u);
    }
    const uint32_t me = number - view_.schedulers;
    worker_mailbox* const mailbox = &view_.mailboxes[me];
    for (uint32_t posted = posted_to(mailbox);; ++posted) {
      channel_reservation r = view_.idle.reserve(warp_, warp_.is_leader());
      // There is room as soon as a scheduler that has taken a number has read it.
      for (relax wait; !r.granted; wait()) r = view_.idle.reserve(warp_, warp_.is_leader());
      if (warp_.is_leader()) view_.idle.write(r.mine, me);
      view_.idle.commit(warp_, r);
      relax wait;
      while (posted_to(mailbox) == posted) {
        const run_state now = live_now();
        if ((now.live & graph_words::live_mask) == 0 || now.faulty) return;
        wait();
      }
      warp_.sync();  // what the leader has acquired, all lanes have acquired
      found_ = {mailbox->channel, mailbox->promised, {mailbox->first, mailbox->count}, false};
      run_found();
      while (own_.run(0)) {
      }
      own_.settle();
    }
  }

 private:
  GRAVEL_DEVICE uint32_t posted_to(const worker_mailbox* mailbox) const {
    return warp_.from_leader(warp_.is_leader() ? load_acquire<scope::device>(&mailbox->posted) : 0);  // [K6]
  }
  struct run_state {
    uint64_t live;  ///< graph_words::live; not 0 as long as the host may still push
    bool faulty;
  };
  GRAVEL_DEVICE run_state live_now() const {
    uint64_t live = 0, fault = 0;
    if (warp_.is_leader()) {
      fault = load_relaxed<scope::device>(&view_.words->fault);
      live = load_relaxed<scope::device>(&view_.words->live);
      if ((live & graph_words::live_mask) == 0) {
        const uint64_t held = load_acquire<scope::device>(&view_.words->held);  // before `live`
        live = load_relaxed<scope::device>(&view_.words->live) | (held ? 1 : 0);
      }
    }
    return {warp_.from_leader(live), warp_.from_leader(static_cast<uint32_t>(fault)) != 0};
  }

  GRAVEL_DEVICE bool is_scheduler() const { return SCHEDULED && state_ == state::scheduling; }
  GRAVEL_DEVICE bool has_lock() const { return state_ == state::polling || state_ == state::idle; }

  /// The only function that changes the state, with all that others see of it: whether the block counts this warp as
  /// waiting, who holds the block's lock, and whether the block counts as idle. A poller that goes to `working` leaves
  /// `handoffs` tickets of the channel that is found_, from `first` on. The CPU backend checks that the state may
  /// follow.
  GRAVEL_DEVICE void change_to(state next, uint32_t handoffs = 0, uint64_t first = 0) {
#if !GRAVEL_CUDA
    if (!may_follow(state_, next))
      fail_text("task graph: a worker goes from state " + std::to_string(static_cast<uint32_t>(state_)) + " to state " +
                std::to_string(static_cast<uint32_t>(next)));
#endif
    if (warp_.is_leader()) {
      if (next == state::waiting) block_->count_as_waiting();
      if (next == state::idle) fetch_add<scope::device>(&view_.words->idle_blocks, uint64_t{1});
      if (state_ == state::idle) fetch_add<scope::device>(&view_.words->idle_blocks, ~uint64_t{0});
      if (has_lock() && next == state::working) block_->release(handoffs, found_.channel, first);
      if (has_lock() && next == state::ended) block_->end();
    }
    state_ = next;
  }

  /// Tries to become the block's poller, or to get a task that another warp has claimed or seen. False: another warp
  /// polls, or all is done (`ended`).
  GRAVEL_DEVICE bool may_poll() {
    using turn = block_poller::turn;
    if (has_lock() || state_ == state::handed_off || is_scheduler()) return true;
    block_poller::answer a{turn::none, 0, 0};
    if (warp_.is_leader()) {
      a = block_->try_acquire(state_ == state::waiting);
      if constexpr (leaves != 0)
        if (a.kind == turn::none && state_ != state::waiting) a = take_by_hint();
    }
    const auto kind = static_cast<turn>(warp_.from_leader(static_cast<uint32_t>(a.kind)));
    if (kind == turn::none) return false;
    if (kind == turn::ended) {
      change_to(state::ended);
      return false;
    }
    if (kind == turn::polls) {
      change_to(state::polling);
      queue_empty_ = false;  // the last poller released the lock because it had found something
    } else {
      change_to(state::handed_off);
      warp_.sync();
      found_ = {warp_.from_leader(a.channel), 1, {warp_.from_leader(a.ticket), 1}, false};
    }
    return true;
  }
  /// While another warp polls: takes a leaf of the channel that the hint names. `only`: only if it is this channel.
  /// Thread scope: lane.
  GRAVEL_DEVICE block_poller::answer take_by_hint(uint32_t only = ~0u) const {
    using turn = block_poller::turn;
    const uint32_t hint = load_relaxed<scope::shared>(&block_->hint);  // read once: it may change at any time
    if (hint == 0 || (only != ~0u && hint != only + 1)) return {turn::none, 0, 0};
    char* const memory = view_.channel_at((hint - 1) / View::n_types, (hint - 1) % View::n_types);
    const ready_set<> leaf = channel<uint32_t>::in(memory, view_.capacity, view_.task_chunks).ready;
    if (const channel_batch b = leaf.take(lone_lane{}, leaf.claim(1)); b.count != 0)
      return {turn::has_handoff, hint - 1, b.first};
    store_relaxed<scope::shared>(&block_->hint, 0u);
    return {turn::none, 0, 0};
  }
  /// The poller releases the lock; a scheduler has none. It leaves `handoffs` tickets of the channel that it has found,
  /// from `first` on.
  GRAVEL_DEVICE void stop_polling(uint32_t handoffs = 0, uint64_t first = 0) {
    if (has_lock()) change_to(state::working, handoffs, first);
  }
  /// Does some block of the GPU poll in vain?
  GRAVEL_DEVICE bool has_idle_blocks() const {
    return warp_.from_leader(warp_.is_leader() ? load_relaxed<scope::device>(&view_.words->idle_blocks) : 0) != 0;
  }
  /// Counts the block as one that polls in vain, until stop_polling().
  GRAVEL_DEVICE void go_idle() {
    if (state_ == state::polling) change_to(state::idle);
  }

  /// Leaves are the tasks that come last. A batch of leaves waits for no other task, and it needs no room.
  template <class T>
  static constexpr bool is_leaf = facts<T>::comes_last;
  /// A bit for each type, by its number: is it a leaf?
  template <class... T>
  static constexpr uint32_t leaves_of(gravel_types<T...>*) {
    return ((is_leaf<T> ? 1u << types::template index<T> : 0) | ...);
  }
  /// A bit for each type, by its number: is one task a whole batch?
  template <class... T>
  static constexpr uint32_t wide_of(gravel_types<T...>*) {
    return ((facts<T>::lanes == 32 ? 1u << types::template index<T> : 0) | ...);
  }
  /// `wide` matters only if there are leaves.
  static constexpr uint32_t leaves = leaves_of(static_cast<types*>(nullptr)),
                            wide = leaves ? wide_of(static_cast<types*>(nullptr)) : 0;

  /// A bit for each type, by its number: has it a predicate?
  template <class... T>
  static constexpr uint32_t guarded_of(gravel_types<T...>*) {
    return ((inner::has_predicate<T> ? 1u << types::template index<T> : 0) | ...);
  }
  static constexpr uint32_t guarded = guarded_of(static_cast<types*>(nullptr));
  /// May tasks of a type with a predicate start? Thread scope: lane.
  template <class... T>
  GRAVEL_DEVICE bool predicate_of(gravel_types<T...>*, uint32_t type, const gravel_channel_load& load) const {
    return ((type == types::template index<T> && passes<T>(load)) || ...);
  }
  template <class T>
  GRAVEL_DEVICE bool passes(const gravel_channel_load& load) const {
    if constexpr (inner::has_predicate<T>) return T::may_start(load, view_.constants);
    else return true;
  }
  /// Reports a fault if no task may start for ever: because of a predicate, or because the channels of a cycle are
  /// full. That is so if all live elements wait in channels and the host pushes no more. Many polls must find this, so
  /// that what the last task has written is visible to the predicates.
  GRAVEL_DEVICE void report_stall(uint64_t live) {
    if (guarded == 0 && !view_.cycles) return;
    const uint32_t waiting = warp_.sum(waiting_seen_), first = warp_.ballot(waiting_seen_ != 0);
    const bool stalls = (live & graph_words::live_mask) == waiting && live == live_seen_;
    live_seen_ = live;
    polls_stalled_ = stalls ? polls_stalled_ + 1 : 0;
    if (polls_stalled_ < 64 || first == 0) return;
    const uint32_t type = warp_.from_lane(type_seen_, lane_group::lowest(first));
    if (warp_.is_leader() && load_acquire<scope::device>(&view_.words->held) == 0)
      view_.report(task_fault::stalled, type, waiting);
    polls_stalled_ = 0;
  }

  /// Takes a batch, from the deepest channel that has at least `width` elements and whose tasks may start. Leaves come
  /// after all other tasks, those of the least depth first: more tasks depend on them. False: there is no such batch,
  /// or a task has reported a fault.
  GRAVEL_DEVICE bool choose(uint32_t width) {
    const uint32_t all = view_.depths * View::n_types;
    queue_empty_ = true;
    waiting_seen_ = 0;
    // This load is under way together with those below.
    const uint64_t fault = warp_.is_leader() ? load_relaxed<scope::device>(&view_.words->fault) : 0;
    // Loads the words of 128 channels at once, four by each lane, to wait for memory only once.
    for (uint32_t end = (all + 31) / 32 * 32; end != 0; end -= end < 128 ? end : 128) {
      const uint32_t begin = end < 128 ? 0 : end - 128;
      uint32_t waiting[4];
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t k = begin + i * 32 + warp_.rank();
        waiting[i] = 0;
        if (k >= end || k >= all) continue;
        const auto* words =
            reinterpret_cast<const channel_words*>(view_.channel_at(k / View::n_types, k % View::n_types));
        const int32_t n = ready_count{load_relaxed<scope::device>(&words->ready)}.unclaimed();
        waiting[i] = n < 0 ? 0 : static_cast<uint32_t>(n);
        if (guarded == 0 && !view_.cycles) continue;
        waiting_seen_ += waiting[i];
        if (waiting[i] != 0) type_seen_ = k % View::n_types;
      }
      if (warp_.ballot(fault != 0) != 0) return false;
      // There is only one call of choose_of() here: what is inlined into it is most of the kernel.
      for (uint32_t w = width;; w = 1) {
        for (uint32_t step = 0; step != (leaves ? 8 : 4); ++step) {
          const uint32_t i = step < 4 ? 3 - step : step - 4;
          if (choose_of(begin + i * 32, one_of(waiting, i), w, step >= 4)) return true;
        }
        // With tasks in shared memory, work() runs those of any number before it takes small batches out of channels.
        if (w == 1 || view_.local_levels != 0) break;
      }
    }
    return false;
  }
  /// four[i], with constant indices, so that the array stays in registers.
  GRAVEL_DEVICE static uint32_t one_of(const uint32_t (&four)[4], uint32_t i) {
    const uint32_t low = i == 0 ? four[0] : four[1], high = i == 2 ? four[2] : four[3];
    return i < 2 ? low : high;
  }
  /// Takes a batch from one of 32 channels. Lane i describes channel begin + i: how many elements wait in it.
  /// `of_leaves`: only leaves, the least depth first; else only other tasks, the deepest first.
  GRAVEL_DEVICE bool choose_of(uint32_t begin, uint32_t waiting, uint32_t width, bool of_leaves) {
    const uint32_t type = (begin + warp_.rank()) % View::n_types;
    if (warp_.ballot(waiting != 0)) queue_empty_ = false;
    bool starts = waiting >= (wide >> type & 1 ? 1 : width);
    if constexpr (guarded != 0)
      if (guarded >> type & 1) {
        const gravel_channel_load load{waiting, (begin + warp_.rank()) / View::n_types, width == 1};
        starts = waiting != 0 && predicate_of(static_cast<types*>(nullptr), type, load);
      }
    uint32_t some = warp_.ballot(starts && (leaves >> type & 1) == of_leaves), first = some;
    // Blocks begin at different ones of the deepest four channels, so that they do not all take from the same one.
    for (uint32_t i = of_leaves ? 0 : blockIdx.x % 4; i != 0 && (first & (first - 1)) != 0; --i)
      first &= ~(1u << highest_of(first));
    for (; some != 0; first = some) {
      const uint32_t next = of_leaves ? lane_group::lowest(first) : highest_of(first);
      some &= ~(1u << next);
      found_ = {begin + next, 0, {}, false};
      if (take(static_cast<types*>(nullptr), warp_.from_lane(waiting, next))) return true;
    }
    return false;
  }

  /// Takes a batch out of the channel that is found_, if there is room for its children. False: none was taken.
  template <class... T>
  GRAVEL_DEVICE bool take(gravel_types<T...>*, uint32_t waiting) {
    const uint32_t type = found_.channel % View::n_types;
    return ((type == types::template index<T> && take_batch<T>(waiting)) || ...);
  }
  template <class T>
  GRAVEL_DEVICE bool take_batch(uint32_t waiting) {
    const uint32_t depth = found_.channel / View::n_types, most = waiting < facts<T>::batch ? waiting : facts<T>::batch;
    const task_admission<View, T> admission{view_, view_.below(depth)};
    // A task that spawns nothing may always start. So the lock can be released before the batch is claimed; or, if
    // there are many tasks, this warp claims hand-offs for the waiting warps of the block too.
    uint32_t handoffs = 0;
    if constexpr (facts<T>::spawns == 0) {
      if (facts<T>::batch == 1 && has_lock()) {
        handoffs = handoffs_for(waiting);
        if (is_leaf<T> && !inner::has_predicate<T> && warp_.is_leader())
          store_relaxed<scope::shared>(&block_->hint, waiting >= 2 * gridDim.x ? found_.channel + 1 : 0);
      }
      if (handoffs == 0 && waiting > most) stop_polling();
    }
    const bool refused = !admission.promise(warp_, most, room_was_short_);
    room_was_short_ = refused;
    if (refused) {
      count(&counts_.refusals, 1);
      return false;
    }
    const auto from = view_.template channel_of<T>(depth);
    const channel_claim mine = from.claim(warp_, most + handoffs);
    found_.promised = most;
    if (mine.n != 0 && mine.n <= most) stop_polling();  // the next poller need not wait for the elements
    found_.batch = from.ready.take(warp_, mine);
    if (found_.batch.count == 0) {
      polls_stalled_ = 0;  // other warps were faster, or it has not found them yet
      if (warp_.is_leader()) admission.return_promise(most);
      return false;
    }
    if (mine.n > most) {
      const uint32_t left = found_.batch.count > most ? found_.batch.count - most : 0;
      found_.batch.count -= left;
      stop_polling(left, found_.batch.first + most);
    }
    return true;
  }
  /// Number of hand-offs to claim out of `tasks` tasks: one for each waiting warp, but no more than the block's share.
  GRAVEL_DEVICE uint32_t handoffs_for(uint32_t tasks) const {
    const uint32_t share = tasks / gridDim.x,
                   waiting = warp_.from_leader(warp_.is_leader() ? block_->waiting_warps() : 0);
    return share < waiting ? share : waiting;
  }

  /// A scheduler hands the batch that is found_ to an idle worker. False: no worker is idle.
  GRAVEL_DEVICE bool hand_out() {
    const channel_batch to = view_.idle.take(warp_, 1);
    if (to.count == 0) return false;
    uint32_t number = 0;
    if (warp_.is_leader()) number = view_.idle.read(to.first);
    view_.idle.free(warp_, to);
    if (warp_.is_leader()) {
      worker_mailbox* const mailbox = &view_.mailboxes[number];
      mailbox->first = found_.batch.first;
      mailbox->count = found_.batch.count;
      mailbox->channel = found_.channel;
      mailbox->promised = found_.promised;
      store_release<scope::device>(&mailbox->posted, load_relaxed<scope::device>(&mailbox->posted) + 1);  // [K6]
    }
    count(&counts_.handed_out, 1);
    return true;
  }

  /// Runs the batch that is found_. If it has delivered the last input of a continuation, runs that too, if it may
  /// start.
  GRAVEL_DEVICE void run_found() {
    do {
      next_type_ = none;
      run(static_cast<types*>(nullptr));
    } while (next_type_ != none && start_next(static_cast<types*>(nullptr)));
  }
  template <class... T>
  GRAVEL_DEVICE void run(gravel_types<T...>*) {
    const uint32_t type = found_.channel % View::n_types;
    (run_if<T>(type == types::template index<T>), ...);
  }
  template <class T>
  GRAVEL_DEVICE void run_if(bool is_type) {
    if (is_type) run_batch<T>();
  }
  template <class... T>
  GRAVEL_DEVICE bool start_next(gravel_types<T...>*) {
    return ((next_type_ == types::template index<T> && start_frame<T>()) || ...);
  }
  /// Makes the continuation in frame next_row_ the batch that is found_. False: there is no room for its children; then
  /// the frame goes into the channel of continuations that are ready.
  template <class C>
  GRAVEL_DEVICE bool start_frame() {
    if constexpr (facts<C>::is_continuation) {
      const uint32_t depth = next_row_ >> view_.frame_shift;
      found_ = {depth * View::n_types + types::template index<C>, 1, {next_row_, 1}, true};
      // These loads are under way together with those of the admission.
      const auto arguments = as_words<C>::from(view_.template frames_of<C>(depth).arguments.load(row_of(next_row_)));
      GRAVEL_UNROLL
      for (uint32_t w = 0; w < as_words<C>::count; ++w) arguments_[w] = arguments.word[w];
      if (task_admission<View, C>{view_, view_.below(depth)}.promise(warp_, 1, false)) return true;
      count(&counts_.refusals, 1);
      if (warp_.is_leader()) {
        view_.template put_ready<C>(next_row_);
        fetch_add<scope::device>(&view_.words->live, ~uint64_t{0});  // put_ready() has counted it again
      }
      warp_.sync();
    }
    return false;
  }

  /// Runs a leaf. As long as the hint names the channel of the leaf, it runs the next leaf of that channel, only a few
  /// instructions later.
  template <class T>
  GRAVEL_DEVICE void run_leaves() {
    do {  // only the number of the channel is kept in registers from one leaf to the next
      const uint32_t depth = found_.channel / View::n_types;
      const auto from = view_.template channel_of<T>(depth);
      const T task = from.read(found_.batch.first);
      warp_.sync();
      if (warp_.is_leader()) from.space.free(found_.batch.first, 1);  // [K3]
      task_here<View, T, false> here(view_, own_store_, depth, view_.levels_below(depth), warp_.rank());
      if constexpr (inner::has_level<T>) here.set_level(task.level());
      task(here);
      warp_.sync();
      if (warp_.is_leader()) fetch_add<scope::device>(&view_.words->live, ~uint64_t{0});
      count(&counts_.tasks, 1);
      count(&counts_.batches, 1);
      next_type_ = warp_.from_leader(here.next_type());
      next_row_ = warp_.from_leader(here.next_row());
    } while (next_type_ == none && take_next_leaf());
  }
  GRAVEL_DEVICE bool take_next_leaf() {
    block_poller::answer a{block_poller::turn::none, 0, 0};
    if (warp_.is_leader() && !is_scheduler()) a = take_by_hint(found_.channel);
    if (warp_.from_leader(static_cast<uint32_t>(a.kind)) == 0) return false;
    warp_.sync();  // what the leader has acquired, all lanes have acquired
    found_.batch.first = warp_.from_leader(a.ticket);
    return true;
  }

  /// Runs the batch that is found_, which admission has promised room for. Tasks that fit move into shared memory
  /// instead, and run later.
  template <class T>
  GRAVEL_DEVICE void run_batch() {
    if constexpr (is_leaf<T>) return run_leaves<T>();
    const uint32_t depth = found_.channel / View::n_types, promised = found_.promised;
    const channel_batch batch = found_.batch;
    const uint32_t rank = facts<T>::lanes == 1 ? warp_.rank() : 0,
                   rank_in_task = facts<T>::lanes == 1 ? 0 : warp_.rank();
    const bool has = rank < batch.count;
    typename View::template element<T> element{};
    if constexpr (facts<T>::is_continuation)
      if (found_.is_frame) element = static_cast<uint32_t>(batch.first);
    if (!found_.is_frame) {
      const auto from = view_.template channel_of<T>(depth);
      if (has) element = from.read(batch.first + rank);
      from.free(warp_, batch);
    }
    // While other blocks are idle, only tasks of the lower levels move into shared memory.
    const uint32_t levels = store::possible && has_idle_blocks() ? (view_.local_levels + 1) / 2 : view_.local_levels;
    const bool moved = own_.template move_in<T>(depth, has, element, levels);
    const uint32_t n = batch.count - lane_group::popcount(warp_.ballot(moved));
    task_here<View, T, false> here(view_, own_store_, depth, view_.levels_below(depth), rank_in_task);
    if constexpr (facts<T>::is_continuation) {
      if (has) run_continuation<T>(here, depth, element);
      count(&counts_.continuations, n);
    } else if (has && !moved) {
      if constexpr (inner::has_level<T>) here.set_level(element.level());
      element(here);
    }
    warp_.sync();
    const uint32_t begun = task_admission<View, T>{view_, view_.below(depth)}.settle(warp_, here, promised, n);
    if constexpr (facts<T>::continuations::count != 0) count(&counts_.begun, begun);
    // Frames are freed last: all lanes have read them, and what waits for the results need not wait for this.
    if constexpr (facts<T>::is_continuation)
      if (has && rank_in_task == 0) view_.template frames_of<T>(depth).space.free(row_of(element), 1);  // [K3]
    count(&counts_.tasks, n);
    count(&counts_.batches, 1);
    if constexpr (facts<T>::lanes == 32) {
      next_type_ = warp_.from_leader(here.next_type());
      next_row_ = warp_.from_leader(here.next_row());
    }
  }
  /// The row in a `depth and row` word.
  GRAVEL_DEVICE uint32_t row_of(uint32_t depth_row) const { return depth_row & ((1u << view_.frame_shift) - 1); }
  template <class C, class Here>
  GRAVEL_DEVICE void run_continuation(Here& here, uint32_t depth, uint32_t depth_row) {
    const frames<C> in = view_.template frames_of<C>(depth);
    const uint32_t row = row_of(depth_row);
    const auto input = [&](uint32_t i) { return in.input[i * in.arguments.rows + row]; };
    as_words<C> arguments;
    if (found_.is_frame) {
      GRAVEL_UNROLL
      for (uint32_t w = 0; w < as_words<C>::count; ++w) arguments.word[w] = arguments_[w];
    } else {
      arguments = as_words<C>::from(in.arguments.load(row));
    }
    run_with_inputs<C>(here, arguments.value(), input);
  }

  /// Counts in shared memory: no lane waits for it, and no register holds it while a task runs.
  GRAVEL_DEVICE void count(uint32_t* of, uint32_t n) const {
    if (warp_.is_leader()) fetch_add<scope::shared>(of, n);
  }

  static constexpr uint32_t none = ~0u;
  /// A batch that was taken out of a channel, or a frame whose inputs have come.
  struct found {
    uint32_t channel;     ///< depth * types + type
    uint32_t promised;    ///< number of tasks for whose children admission has promised room
    channel_batch batch;  ///< of a frame: `first` is its depth and row
    bool is_frame;
  };

  const View& view_;
  const store own_store_;
  const lane_group warp_;
  work_counts<uint32_t>& counts_;  ///< in shared memory
  local_worker<View> own_;
  found found_{};
  uint32_t next_type_ = none, next_row_ = 0;
  uint32_t arguments_[View::most_words] = {};  ///< arguments of the frame that is found_
  block_poller* const block_;
  state state_ = state::working;
  bool room_was_short_ = false;  ///< the last batch was refused: so admission polls for room before it takes room
  bool queue_empty_ = false;     ///< the channels were empty at the last poll
  uint32_t arrivals_seen_ = 0;   ///< number of arrivals at the last poll
  uint32_t polls_skipped_ = 0;
  // Of a graph with predicates or cycles: what this lane saw at the last poll, and for how many polls nothing changed.
  uint32_t waiting_seen_ = 0, type_seen_ = 0, polls_stalled_ = 0;
  uint64_t live_seen_ = 0;
};

}  // namespace gravel::detail
