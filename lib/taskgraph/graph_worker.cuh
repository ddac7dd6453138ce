// Workers of a task graph: warps that stay until the end. Nobody waits for a certain worker, so it does not matter how many of them a GPU has
// room for.
//
// A worker that serves itself polls for a batch in this order:
//   1. its own shared memory, full batches: continuations whose inputs have come, then the lowest level that has 32 tasks and may start; or
//      the highest level, if it is not so low that little will come of it: so it widens
//   2. the channels, those that fill the width (the predicate of the paper): deepest first, if it is admitted (task_admission.cuh)
//   3. its own shared memory, what there is
//   4. the channels, what there is: deepest first
//
// Of a block only one warp polls at the channels, which it goes on doing until it has found something: those who look hold up those who
// work, by the words of the channels and by the multiprocessor's instructions. What it waits for there, those wait for that want to look next; so
// it leaves as soon as it has claimed some, before it knows which. Blocks begin at different ones of the deepest four. While a
// block polls in vain (`idle_blocks`), tasks of the upper half of the local levels stay in the channels, to be split.
//
// The warp that brings a continuation its last result goes on with it at once, if it may start, and without a trip through the channel; with
// one that is run by 32 lanes only those whose tasks are, too: of a batch of 32 tasks several may be the last for something.
//
// With schedulers, the first workers to begin look at the channels alone, and hand what they take to those that wait for their mailbox;
// what nobody waits for they run themselves, so that one worker is enough.
//
//   worker                                                scheduler
//   its number into the channel of idle ones  [K4]        takes a batch; takes a number                       [K4]
//   waits until posted changes                [K6]        first, channel, count, promised; posted += 1        [K6] release
//
// The end. `live` counts before an element can be seen, and uncounts when it and, for what a worker took into its shared memory, all that
// came of it there is finished. Who finds it 0, and the host done with pushing (read before it), leaves, and tells the warps of its block.
#pragma once
#include <cstdint>

#include "lib/base/relax.hpp"
#include "lib/channel/block_poller.cuh"
#include "lib/taskgraph/local_worker.cuh"
#include "lib/taskgraph/task_admission.cuh"

namespace gravel::detail {

/// Thread scope of all: the warp.
template <class View>
class task_worker {
  using types = typename View::types;
  using store = typename View::store;
  template <class U>
  using facts = task_facts<U>;

 public:
  /// `counts`: of the warp, in shared memory.
  GRAVEL_DEVICE task_worker(const View& view, const store& own, work_counts<uint32_t>* counts, block_poller* block,
                            const lane_group& warp)
      : view_(view), own_store_(own), warp_(warp), counts_(*counts), own_(view, own, *counts, warp), block_(block) {
    if (warp.is_leader()) counts_ = {};
    warp.sync();
  }
  task_worker(const task_worker&) = delete;

  /// Until the end, or until `batches` have been taken out of channels and what came of them in shared memory is done.
  GRAVEL_DEVICE void work(uint32_t batches) {
    relax idle;
    for (bool small = false;; small = !small) {  // first what is large, then what there is
      while (own_.run(small ? 0 : 3)) {
        small = false;
        idle.reset();
      }
      if (small) {
        own_.settle();
        if (batches == 0) break;
        if (!may_poll() && !ended_) {
          if (warp_.is_leader()) block_->count_as_waiting();
          do warp_.wait_together([&] { idle(); });  // nothing can come but from the channels
          while (!may_poll(true) && !ended_);
          small = false;
        }
        if (ended_) break;
      }
      if (batches != 0 && may_poll()) {
        // Who found the channels empty polls again when something has come, and now and then; others look at once.
        bool polls = !queue_empty_, asked = false;
        run_state now{0, false};
        if (!polls && !has_handoff_) {
          asked = true;
          now = live_now();
          const auto arrivals = static_cast<uint32_t>(now.live / graph_words::arrival);
          polls = arrivals != seen_ || ++skipped_ == 16;
          if (polls) {
            seen_ = arrivals;
            skipped_ = 0;
          }
        }
        if (has_handoff_ || (polls && !now.faulty && choose(small ? 1 : view_.width))) {
          has_handoff_ = false;
          if (!hands_out_ || !hand_out()) run_found();
          --batches;
          small = true;
          idle.reset();
          continue;
        }
        if (!asked) now = live_now();
        if (now.faulty) ended_ = true;
        if (small && (now.live & graph_words::live_mask) == 0) ended_ = true;
        if (ended_) break;
        if (small && queue_empty_ && !hands_out_) go_idle();
      }
      // One warp of the block, which polls at one word; else at many.
      if (small) warp_.wait_together([&] { queue_empty_ ? idle.closely() : idle(); });
    }
    stop_polling();
  }

  /// As one of those that wait for a scheduler, or as a scheduler.
  GRAVEL_DEVICE void work_scheduled() {
    uint32_t number = 0;
    if (warp_.is_leader()) number = static_cast<uint32_t>(fetch_add<scope::device>(&view_.words->arrived, uint64_t{1}));
    number = warp_.from_leader(number);
    if (number < view_.schedulers) {
      hands_out_ = polls_ = true;
      return work(~0u);
    }
    const uint32_t me = number - view_.schedulers;
    worker_mailbox* const mailbox = &view_.mailboxes[me];
    for (uint32_t posted = posted_to(mailbox);; ++posted) {
      channel_reservation r = view_.idle.reserve(warp_, warp_.is_leader());
      for (relax wait; !r.granted; wait())
        r = view_.idle.reserve(warp_, warp_.is_leader());  // until one who took a number has read it
      if (warp_.is_leader()) view_.idle.write(r.mine, me);
      view_.idle.commit(warp_, r);
      relax wait;
      while (posted_to(mailbox) == posted) {
        const run_state now = live_now();
        if ((now.live & graph_words::live_mask) == 0 || now.faulty) return;
        wait();
      }
      warp_.sync();  // the leader has acquired for all
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
    uint64_t live;  ///< as it was when the host had nothing to push any more; until then it is never 0
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

  /// Of a block one warp at a time polls at the channels, until it has found something. Or it was given what another
  /// one has left, or takes what that one has seen. `counted`: it waits already.
  GRAVEL_DEVICE bool may_poll(bool counted = false) {
    using turn = block_poller::turn;
    if (polls_ || has_handoff_) return true;
    block_poller::answer a{turn::none, 0, 0};
    if (warp_.is_leader()) {
      a = block_->try_acquire(counted);
      if constexpr (leaves != 0)
        if (a.kind == turn::none && !counted) a = take_by_hint();
    }
    const auto is = static_cast<turn>(warp_.from_leader(static_cast<uint32_t>(a.kind)));
    if (is == turn::none) return false;
    polls_ = is == turn::polls;
    ended_ = is == turn::ended;
    has_handoff_ = is == turn::has_handoff;
    if (polls_) queue_empty_ = false;  // who left it found something
    if (has_handoff_) {
      warp_.sync();
      found_ = {warp_.from_leader(a.channel), 1, {warp_.from_leader(a.ticket), 1}, false};
    }
    return polls_ || has_handoff_;
  }
  /// While another one polls: a leaf of where there were many; `only`: if it is this channel. Thread scope: lane.
  GRAVEL_DEVICE block_poller::answer take_by_hint(uint32_t only = ~0u) const {
    using turn = block_poller::turn;
    const uint32_t channel =
        load_relaxed<scope::shared>(&block_->hint);  // read once: the next moment it may be another one
    if (channel == 0 || (only != ~0u && channel != only + 1)) return {turn::none, 0, 0};
    auto& words = *reinterpret_cast<channel_words*>(
        view_.channel_at((channel - 1) / View::n_types, (channel - 1) % View::n_types));
    if (words.claim_offered(1) != 0) return {turn::has_handoff, channel - 1, words.take_claimed(1)};
    store_relaxed<scope::shared>(&block_->hint, 0u);
    return {turn::none, 0, 0};
  }
  /// `left`: so many others of the block go on with tickets from `first` on.
  GRAVEL_DEVICE void stop_polling(uint32_t left = 0, uint64_t first = 0) {
    if (!polls_) return;
    if (warp_.is_leader()) {
      if (is_idle_) fetch_add<scope::device>(&view_.words->idle_blocks, ~uint64_t{0});
      if (ended_) block_->end();  // those who wait for their turn need not see for themselves that all is done
      else block_->release(left, found_.channel, first);
    }
    polls_ = is_idle_ = false;
  }
  GRAVEL_DEVICE bool idle_blocks() const {
    return warp_.from_leader(warp_.is_leader() ? load_relaxed<scope::device>(&view_.words->idle_blocks) : 0) != 0;
  }
  GRAVEL_DEVICE void go_idle() {
    if (is_idle_) return;
    if (warp_.is_leader()) fetch_add<scope::device>(&view_.words->idle_blocks, uint64_t{1});
    is_idle_ = true;
  }

  /// Leaves are the tasks that come last: no batch of them waits for others, nor for room.
  template <class T>
  static constexpr bool is_leaf = facts<T>::comes_last;
  /// Bits of types, by their number: leaves; if there are any, those for which one is a whole batch.
  template <class... T>
  static constexpr uint32_t leaves_of(gravel_types<T...>*) {
    return ((is_leaf<T> ? 1u << types::template index<T> : 0) | ...);
  }
  template <class... T>
  static constexpr uint32_t wide_of(gravel_types<T...>*) {
    return ((facts<T>::lanes == 32 ? 1u << types::template index<T> : 0) | ...);
  }
  static constexpr uint32_t leaves = leaves_of(static_cast<types*>(nullptr)),
                            wide = leaves ? wide_of(static_cast<types*>(nullptr)) : 0;

  /// Takes a batch: of the deepest channel that has at least `width` elements and may start. Leaves come last, and of
  /// them those of the least depth first: what waits for them has more to do. None, if a task has done something wrong.
  GRAVEL_DEVICE bool choose(uint32_t width) {
    const uint32_t all = view_.depths * View::n_types;
    queue_empty_ = true;
    const uint64_t fault =
        warp_.is_leader() ? load_relaxed<scope::device>(&view_.words->fault) : 0;  // comes with what follows
    for (uint32_t end = (all + 31) / 32 * 32; end != 0;
         end -= end < 128 ? end : 128) {  // 128 at once: they come from far
      const uint32_t begin = end < 128 ? 0 : end - 128;
      uint32_t waiting[4], offered[4];
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t k = begin + i * 32 + warp_.rank();
        waiting[i] = offered[i] = 0;
        if (k >= end || k >= all) continue;
        const auto* state =
            reinterpret_cast<const channel_words*>(view_.channel_at(k / View::n_types, k % View::n_types));
        const uint64_t head = load_relaxed<scope::device>(&state->head),
                       tail = load_relaxed<scope::device>(&state->tail);
        offered[i] = load_relaxed<scope::device>(&state->offered);
        waiting[i] = static_cast<uint32_t>(tail - head);
      }
      if (warp_.ballot(fault != 0) != 0) return false;
      // One place that starts batches: what is inlined there is most of the kernel.
      for (uint32_t w = width;; w = 1) {
        for (uint32_t step = 0; step != (leaves ? 8 : 4); ++step) {
          const uint32_t i = step < 4 ? 3 - step : step - 4;
          if (choose_of(begin + i * 32, one_of(waiting, i), one_of(offered, i), w, step >= 4)) return true;
        }
        if (w == 1 || view_.local_levels != 0)
          break;  // without shared memory nothing comes between what is large and what there is
      }
    }
    return false;
  }
  GRAVEL_DEVICE static uint32_t one_of(const uint32_t (&four)[4], uint32_t i) {
    return i < 2 ? (i == 0 ? four[0] : four[1]) : (i == 2 ? four[2] : four[3]);
  }
  /// Of 32 channels, one for each lane: of leaves from the least depth on, of others from the deepest.
  GRAVEL_DEVICE bool choose_of(uint32_t begin, uint32_t waiting, uint32_t offered, uint32_t width, bool of_leaves) {
    const uint32_t type = (begin + warp_.rank()) % View::n_types;
    if (warp_.ballot(waiting != 0)) queue_empty_ = false;
    uint32_t some = warp_.ballot(waiting >= (wide >> type & 1 ? 1 : width) && (leaves >> type & 1) == of_leaves),
             first = some;
    // Blocks begin at different ones of the deepest four, so that they do not all take from the same.
    for (uint32_t i = of_leaves ? 0 : blockIdx.x % 4; i != 0 && (first & (first - 1)) != 0; --i)
      first &= ~(1u << highest_of(first));
    for (; some != 0; first = some) {
      const uint32_t next = of_leaves ? lane_group::lowest(first) : highest_of(first);
      some &= ~(1u << next);
      found_ = {begin + next, 0, {}, false};
      if (take(static_cast<types*>(nullptr), warp_.from_lane(waiting, next), warp_.from_lane(offered, next)))
        return true;
    }
    return false;
  }

  /// Of the channel that is found_: a batch for which there is room.
  template <class... T>
  GRAVEL_DEVICE bool take(gravel_types<T...>*, uint32_t waiting, uint32_t offered) {
    const uint32_t type = found_.channel % View::n_types;
    bool taken = false;
    ((type == types::template index<T> ? void(taken = take_batch<T>(waiting, offered)) : void()), ...);
    return taken;
  }
  template <class T>
  GRAVEL_DEVICE bool take_batch(uint32_t waiting, uint32_t offered) {
    const uint32_t depth = found_.channel / View::n_types, most = waiting < facts<T>::batch ? waiting : facts<T>::batch;
    const task_admission<View, T> admission{view_, depth + 1};
    // Tasks that spawn nothing always may start; while one is taken, another warp of the block can look for the next.
    // Or, if there are many, those that wait get theirs by the same look.
    uint32_t others = 0;
    if constexpr (facts<T>::spawns == 0) {
      if (facts<T>::batch == 1 && polls_ && !hands_out_) {
        others = others_that_wait(waiting);
        if (is_leaf<T> && warp_.is_leader())
          store_relaxed<scope::shared>(&block_->hint, waiting >= 2 * gridDim.x ? found_.channel + 1 : 0);
      }
      if (others == 0 && waiting > most && !hands_out_) stop_polling();
    }
    const bool refused = !admission.promise(warp_, most, room_was_short_);
    room_was_short_ = refused;
    if (refused) {
      count(&counts_.refusals, 1);
      return false;
    }
    const auto from = view_.template channel_of<T>(depth);
    const uint32_t n = from.claim(warp_, most + others, offered);
    found_.promised = most;
    if (n == 0) {
      if (warp_.is_leader()) admission.give_back(most);
      return false;
    }
    if (!hands_out_ && n <= most) stop_polling();  // the next one need not wait for the tickets
    found_.batch = from.take_claimed(warp_, n);
    if (n > most) {
      found_.batch.count = most;
      stop_polling(n - most, found_.batch.first + most);
    }
    return true;
  }
  /// To how many a share of so many tasks goes, where each block gets as many.
  GRAVEL_DEVICE uint32_t others_that_wait(uint32_t tasks) const {
    const uint32_t share = tasks / gridDim.x, wait = warp_.from_leader(warp_.is_leader() ? block_->waiting_warps() : 0);
    return share < wait ? share : wait;
  }

  /// To a worker that waits; false: nobody does.
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

  /// Runs what is found_, and then the continuation to which it brought the last result, if that may start.
  GRAVEL_DEVICE void run_found() {
    do {
      next_type_ = none;
      run(static_cast<types*>(nullptr));
    } while (next_type_ != none && start_next(static_cast<types*>(nullptr)));
  }
  template <class... T>
  GRAVEL_DEVICE void run(gravel_types<T...>*) {
    const uint32_t type = found_.channel % View::n_types;
    ((type == types::template index<T> ? run_batch<T>() : void()), ...);
  }
  template <class... T>
  GRAVEL_DEVICE bool start_next(gravel_types<T...>*) {
    bool started = false;
    ((next_type_ == types::template index<T> ? void(started = start_frame<T>()) : void()), ...);
    return started;
  }
  template <class C>
  GRAVEL_DEVICE bool start_frame() {
    if constexpr (facts<C>::is_continuation) {
      const uint32_t depth = next_row_ >> view_.frame_shift;
      found_ = {depth * View::n_types + types::template index<C>, 1, {next_row_, 1}, true};
      const auto arguments = as_words<C>::from(
          view_.template frames_of<C>(depth).arguments.load(row_of(next_row_)));  // come with the room
      GRAVEL_UNROLL
      for (uint32_t w = 0; w < as_words<C>::count; ++w) arguments_[w] = arguments.word[w];
      if (task_admission<View, C>{view_, depth + 1}.promise(warp_, 1, false)) return true;
      count(&counts_.refusals, 1);
      if (warp_.is_leader()) {
        view_.template put_ready<C>(next_row_);
        fetch_add<scope::device>(&view_.words->live, ~uint64_t{0});  // it was counted before
      }
      warp_.sync();
    }
    return false;
  }

  /// A leaf, and while it is known that many lie where it was, the next one from there: so it is but a few instructions
  /// from one to the next.
  template <class T>
  GRAVEL_DEVICE void run_leaves() {
    do {  // no register keeps anything from one to the next but of which channel they are
      const uint32_t depth = found_.channel / View::n_types;
      const auto from = view_.template channel_of<T>(depth);
      const T task = from.read(found_.batch.first);
      warp_.sync();
      if (warp_.is_leader()) from.space.free(found_.batch.first, 1);  // [K3]
      task_here<View, T, false> here(view_, own_store_, depth, view_.depths - 1 - depth, warp_.rank());
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
    if (warp_.is_leader() && !hands_out_) a = take_by_hint(found_.channel);
    if (warp_.from_leader(static_cast<uint32_t>(a.kind)) == 0) return false;
    warp_.sync();  // the leader has acquired for all
    found_.batch.first = warp_.from_leader(a.ticket);
    return true;
  }

  /// Runs what was taken, room for the children of as many tasks as were promised having been promised; what fits goes
  /// into shared memory instead.
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
    // While others find nothing, only small tasks stay here whole.
    const uint32_t levels = store::possible && idle_blocks() ? (view_.local_levels + 1) / 2 : view_.local_levels;
    const bool moved = own_.template move_in<T>(depth, has, element, levels);
    const uint32_t n = batch.count - lane_group::popcount(warp_.ballot(moved));
    task_here<View, T, false> here(view_, own_store_, depth, view_.depths - 1 - depth, rank_in_task);
    if constexpr (facts<T>::is_continuation) {
      if (has) run_continuation<T>(here, depth, element);
      count(&counts_.continuations, n);
    } else if (has && !moved) {
      if constexpr (inner::has_level<T>) here.set_level(element.level());
      element(here);
    }
    warp_.sync();
    const uint32_t begun = task_admission<View, T>{view_, depth + 1}.settle(warp_, here, promised, n);
    if constexpr (facts<T>::continuations::count != 0) count(&counts_.begun, begun);
    if constexpr (facts<T>::is_continuation)  // all have read, and nobody who waits for what it brought has to wait for
                                              // this
      if (has && rank_in_task == 0) view_.template frames_of<T>(depth).space.free(row_of(element), 1);  // [K3]
    count(&counts_.tasks, n);
    count(&counts_.batches, 1);
    if constexpr (facts<T>::lanes == 32) {
      next_type_ = warp_.from_leader(here.next_type());
      next_row_ = warp_.from_leader(here.next_row());
    }
  }
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

  /// Nobody waits for it, and no register keeps it while a task runs.
  GRAVEL_DEVICE void count(uint32_t* of, uint32_t n) const {
    if (warp_.is_leader()) fetch_add<scope::shared>(of, n);
  }

  static constexpr uint32_t none = ~0u;
  /// A batch that was taken out of a channel, or one frame whose inputs have come.
  struct found {
    uint32_t channel, promised;  ///< depth * types + type; tasks for whose children there is room
    channel_batch batch;         ///< of a frame: its depth and row
    bool is_frame;
  };

  const View& view_;
  const store own_store_;
  const lane_group warp_;
  work_counts<uint32_t>& counts_;  ///< in shared memory
  local_worker<View> own_;
  found found_{};
  uint32_t next_type_ = none, next_row_ = 0;
  uint32_t arguments_[View::most_words] = {};  ///< of the frame that is found_
  block_poller* const block_;
  bool polls_ = false;        ///< this one is who polls
  bool has_handoff_ = false;  ///< found_ is what another one has left
  bool ended_ = false;        ///< nothing is left, or a task has done something wrong
  bool is_idle_ = false;      ///< and it is counted as one that found nothing
  bool hands_out_ = false;    ///< a scheduler
  bool room_was_short_ =
      false;                  ///< for the last that was to start: so the next one polls for room before it takes some
  bool queue_empty_ = false;  ///< when the channels were last looked at
  uint32_t seen_ = 0;         ///< arrivals, then
  uint32_t skipped_ = 0;
};

}  // namespace gravel::detail
