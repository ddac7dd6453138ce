// A task graph as its kernels see it (task_view), and the interface of a running task (task_here).
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device/lane_group.cuh"
#include "device/team_check.cuh"
#include "lib/taskgraph/frames.cuh"
#include "lib/taskgraph/graph_types.hpp"
#include "lib/taskgraph/local_store.cuh"

namespace gravel::detail {

/// Counts of a worker; with a wider type, of all workers. It has no other members, as it is added up as an array.
template <class Count>
struct work_counts {
  Count tasks, local_tasks;      ///< tasks that ran, out of channels and out of shared memory
  Count begun, continuations;    ///< frames that were begun, and frames that have run
  Count batches, local_batches;  ///< batches of these tasks
  Count refusals;                ///< batches that did not start because a channel had no room
  Count handed_out;              ///< batches that a scheduler has handed to a worker
};

/// Words of a run, each on a cache line of its own.
struct graph_words {
  /// Low 40 bits: elements in channels, promised elements, and elements that workers have moved into shared memory and
  /// whose descendants there are not finished. A task that adds to it is counted itself, so it becomes 0 only once,
  /// when all is done. High bits: arrivals, which change when elements have come into a channel. A worker that has
  /// found all channels empty polls this word, not the channels. Arrivals need not be exact: a worker that puts
  /// elements into a channel polls the channels itself.
  alignas(128) uint64_t live;
  static constexpr uint64_t arrival = uint64_t{1} << 40, live_mask = arrival - 1;
  alignas(128) uint64_t idle_blocks;          ///< blocks of workers that poll and find no batch
  alignas(128) uint64_t held;                 ///< not 0: the host may still push tasks; written by the host
  alignas(128) uint64_t fault;                ///< the first fault: task_fault | type << 8 | number << 32
  alignas(128) uint64_t arrived;              ///< workers that have begun
  alignas(128) work_counts<uint64_t> counts;  ///< of all workers; each block adds once, at its end
};

/// The number of the highest bit that is set.
GRAVEL_DEVICE uint32_t highest_of(uint32_t bits) { return 31 - static_cast<uint32_t>(__clz(static_cast<int>(bits))); }

/// Runs a continuation with its inputs. input(i) returns input i.
template <class C, class Here, class Input>
GRAVEL_DEVICE void run_with_inputs(Here& here, const C& continuation, Input input) {
  if constexpr (task_facts<C>::inputs != 0) {
    typename task_facts<C>::value x[task_facts<C>::inputs];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < task_facts<C>::inputs; ++i) x[i] = input(i);
    continuation(here, x);
  } else {
    continuation(here);
  }
}

/// How a scheduler hands a batch to a worker. Only the scheduler that has taken the worker out of the channel of idle
/// workers writes it.
struct alignas(64) worker_mailbox {
  uint64_t first;           ///< first ticket of the batch
  uint32_t channel, count;  ///< depth * types + type; number of elements in the batch
  uint32_t promised;        ///< number of tasks for whose children admission has promised room
  uint32_t posted;          ///< number of batches so far, release [K6]
};

/// The memory and the sizes of a task graph: plain data, passed to kernels by value.
template <class Constants, class... T>
struct task_view {
  using types = gravel_types<T...>;
  using store = local_store<types>;
  static constexpr uint32_t n_types = sizeof...(T);
  static_assert(n_types >= 1 && n_types <= 7, "a task graph has 1 to 7 types");
  static constexpr uint32_t most_words = std::max({as_words<T>::count...});

  Constants constants;
  char* channel_memory;              ///< a channel for each depth and type, of tasks or of rows of ready frames
  uint64_t depth_stride;             ///< bytes from one depth to the next
  uint64_t channel_offset[n_types];  ///< from the beginning of a depth to the channel of a type
  char* frame_memory[n_types];
  uint64_t frame_stride[n_types];  ///< bytes of one depth
  graph_words* words;
  worker_mailbox* mailboxes;  ///< [workers]
  channel<uint32_t> idle;     ///< workers that wait for their mailbox
  uint64_t* results;
  uint32_t schedulers;  ///< number of schedulers; 0: each worker serves itself
  uint32_t depths, width, local_levels, capacity, frame_capacity;
  uint32_t frame_shift;                ///< frames of one depth have 1 << frame_shift rows
  uint32_t task_chunks, ready_chunks;  ///< chunks of a channel of tasks, and of a channel of ready rows
  bool cycles;                         ///< children of tasks at the last depth are at that depth, too

  /// The depth of the children of tasks at this depth. Without cycles it may be one that does not exist.
  GRAVEL_BOTH uint32_t below(uint32_t depth) const { return cycles && depth + 1 == depths ? depth : depth + 1; }
  /// How many levels of spawns there may be below a task at this depth; with cycles no number limits them.
  GRAVEL_BOTH uint32_t levels_below(uint32_t depth) const { return cycles ? ~0u - 1 : depths - 1 - depth; }

  /// What the channels of type U hold: tasks, or rows of frames.
  template <class U>
  using element = std::conditional_t<task_facts<U>::is_continuation, uint32_t, U>;
  GRAVEL_BOTH char* channel_at(uint32_t depth, uint32_t type) const {
    return channel_memory + depth * depth_stride + channel_offset[type];
  }
  /// Capacity of the channels of type U. A channel of rows always has room for one more: it holds all rows that can be
  /// ready, and as many that were taken and are not freed yet.
  template <class U>
  GRAVEL_BOTH uint32_t capacity_of() const {
    return task_facts<U>::is_continuation ? 2 * frame_capacity : capacity;
  }
  template <class U>
  GRAVEL_BOTH channel<element<U>> channel_of(uint32_t depth) const {
    return channel<element<U>>::in(channel_at(depth, types::template index<U>), capacity_of<U>(),
                                   task_facts<U>::is_continuation ? ready_chunks : task_chunks);
  }
  template <class C>
  GRAVEL_BOTH frames<C> frames_of(uint32_t depth) const {
    constexpr uint32_t type = types::template index<C>;
    return frames<C>::in(frame_memory[type] + depth * frame_stride[type], frame_capacity, 1u << frame_shift);
  }

  /// Reports a fault. The first one stays.
  GRAVEL_DEVICE void report(task_fault fault, uint32_t type, uint32_t number) const {
    report_at(&words->fault, static_cast<uint64_t>(fault) | uint64_t{type} << 8 | uint64_t{number} << 32);
  }
  /// Not inlined: it is hardly ever called, and would be copied into the code of each task.
  [[gnu::noinline]] __device__ static void report_at(uint64_t* word, uint64_t fault) {
    compare_swap_acquire<scope::device>(word, uint64_t{0}, fault);
  }

  /// Stores an input, or adds to it. True: it was the last input that the frame waits for. Thread scope: lane,
  /// divergent.
  template <class C, bool ADD, class... V>
  GRAVEL_DEVICE bool completes(uint32_t depth_row, uint32_t input, V... value) const {
    const uint32_t depth = depth_row >> frame_shift, row = depth_row & ((1u << frame_shift) - 1);
    const frames<C> in = frames_of<C>(depth);
    deliver_value<ADD>(&in.input[input * in.arguments.rows + row], value...);
    return fetch_add_acq_rel<scope::device>(&in.missing[row], ~0u) == 1;  // [K5]
  }
  /// Puts a frame whose inputs have come into its channel, and counts it as live.
  template <class C>
  GRAVEL_DEVICE void put_ready(uint32_t depth_row) const {
    put_into_ready(words, channel_of<C>(depth_row >> frame_shift), depth_row);
  }
  [[gnu::noinline]] __device__ static void put_into_ready(graph_words* words, const channel<uint32_t> ready,
                                                          uint32_t depth_row) {
    const lane_group here = lane_group::active();
    const lane_group group = here.part(here.match(reinterpret_cast<uint64_t>(&ready.state())));
    if (group.is_leader()) fetch_add<scope::device>(&words->live, graph_words::arrival + group.size());
    channel_reservation r = ready.reserve(group, 1);
    for (relax wait; !r.granted; wait())
      r = ready.reserve(group, 1);  // until a worker that has taken rows has read them
    ready.write(r.mine, depth_row);
    ready.commit(group, r);
  }
  /// Delivers an input to a frame of C, and puts the frame into its channel if it was the last input. Thread scope:
  /// lane, divergent.
  template <class C, bool ADD, class... V>
  GRAVEL_DEVICE void deliver_to(uint32_t depth_row, uint32_t input, V... value) const {
    if (completes<C, ADD>(depth_row, input, value...)) put_ready<C>(depth_row);
  }
  template <bool ADD, class S>
  GRAVEL_DEVICE static void deliver_value(S*) {}
  template <bool ADD, class S>
  GRAVEL_DEVICE static void deliver_value(S* input, S value) {
    if constexpr (ADD) add_to_input(input, value);
    else *input = value;
  }
};

/// The interface of a running task of type T; one object for each lane. LOCAL: the task runs out of the worker's
/// shared memory. Thread scope of all calls, where nothing else is said: lane, divergent. In a task of 32 lanes only
/// lane 0 calls spawn(), wait_for(), reply() and add().
template <class View, class T, bool LOCAL>
class task_here {
  using types = typename View::types;
  using facts = task_facts<T>;
  template <class U>
  static constexpr uint32_t index = types::template index<U>;

 public:
  GRAVEL_DEVICE task_here(const View& view, const typename View::store& store, uint32_t depth, uint32_t level,
                          uint32_t rank)
      : view_(view), store_(store), depth_(depth), rank_(rank), level_(level) {}
  /// LOCAL: the object of lane `lane` of the warp.
  GRAVEL_DEVICE task_here(const View& view, const typename View::store& store, uint32_t level, uint32_t lane)
      : view_(view), store_(store), depth_(0), rank_(0), level_(level), lane_(lane) {}

  /// The constant arguments of the graph.
  GRAVEL_DEVICE const auto& constants() const { return view_.constants; }
  /// Rank of this lane among the lanes that run this task.
  GRAVEL_DEVICE uint32_t rank() const { return rank_; }
  /// Number of lanes that run this task.
  GRAVEL_DEVICE uint32_t size() const { return facts::lanes; }

  /// Spawns a child. A task spawns at most T::spawns children, of types that T names.
  template <class U>
  GRAVEL_DEVICE void spawn(const U& child) {
    static_assert(facts::children::template has<U>,
                  "a task spawns only types that it names: using children = gravel_types<...>");
    const uint32_t level = level_for(child);
    if constexpr (LOCAL) {
      if (n_spawned_ >= facts::spawns) return view_.report(task_fault::too_many_spawns, index<T>, n_spawned_ + 1);
      // The child is stored when all lanes are done with the batch.
      const auto words = as_words<U>::from(child);
      GRAVEL_UNROLL
      for (uint32_t w = 0; w < as_words<U>::count; ++w) child_[n_spawned_][w] = words.word[w];
      child_tag_[n_spawned_++] = level == none ? none : level * 8 + index<U>;
    } else {
      if (count() >= facts::spawns) return view_.report(task_fault::too_many_spawns, index<T>, count() + 1);
      if (level == none) return;
      ++spawned_[index<U>];
      const lane_group group = lane_group::active();
      const auto to = view_.template channel_of<U>(view_.below(depth_));
      const channel_reservation r = to.draw(group, 1);
      to.write(r.mine, child);
      to.commit(group, r);
      unreported_ = true;
    }
  }

  /// Begins a frame for a continuation, which runs when `expected` results have come. A task may do so once for each
  /// type that T names.
  template <class C>
  GRAVEL_DEVICE waiting_frame<C> wait_for(const C& continuation, uint32_t expected = task_facts<C>::inputs) {
    static_assert(facts::continuations::template has<C>,
                  "a task waits only with types that it names: using continuations = gravel_types<...>");
    if (framed_ >> index<C> & 1) {
      view_.report(task_fault::continuation_twice, index<T>, 2);
      return {gravel_return<void>::to(false, gravel_return<void>::of_host, 0, 0).word};
    }
    if (level_ == 0) {
      view_.report(task_fault::too_deep, index<T>, depth_);
      return {gravel_return<void>::to(false, gravel_return<void>::of_host, 0, 0).word};
    }
    framed_ |= 1u << index<C>;
    if constexpr (LOCAL) {
      const auto in = store_.template of<C>();
      const uint32_t row = in.free[checked_place(*in.n_free - 1 - lane_, in.rows)];
      in.begin(row, continuation, expected);
      return {gravel_return<void>::to(true, index<C>, 0, row).word};
    } else {
      const lane_group group = lane_group::active();
      const frames<C> in = view_.template frames_of<C>(view_.below(depth_));
      uint64_t first = 0;
      if (group.is_leader()) first = in.space.draw(group.size());
      const uint32_t row = in.space.row(group.from_leader(first) + group.rank());
      in.begin(row, continuation, expected);
      return {gravel_return<void>::to(false, index<C>, 0, view_.below(depth_) << view_.frame_shift | row).word};
    }
  }

  /// Spawns like spawn(), for each lane with `has`, in a task of 32 lanes; together at most T::spawns children. Thread
  /// scope: all lanes of the task, converged.
  template <class U>
  GRAVEL_DEVICE void spawn_together(bool has, const U& child) {
    static_assert(facts::lanes == 32 && !LOCAL, "only tasks of 32 lanes spawn together");
    static_assert(facts::children::template has<U>,
                  "a task spawns only types that it names: using children = gravel_types<...>");
    enter_lanes_or_trap(team_call::spawn_together, ~0u);
    const lane_group all = lane_group::of(~0u);
    const uint32_t total = group_sum::of(all, count() + has).total;
    if (total > facts::spawns) return view_.report(task_fault::too_many_spawns, index<T>, total);
    const bool spawns = has && level_for(child) != none;
    spawned_[index<U>] += spawns;
    const auto to = view_.template channel_of<U>(view_.below(depth_));
    const channel_reservation r = to.draw(all, spawns);
    if (spawns) to.write(r.mine, child);
    offer(to, all, r);
  }
  /// Spawns the children child(0) to child(n - 1), in a task of 32 lanes, with one reservation. One lane calls
  /// child(i). Thread scope: all lanes of the task, converged.
  template <class Child>
  GRAVEL_DEVICE void spawn_each(uint32_t n, Child child) {
    using U = decltype(child(0u));
    static_assert(facts::lanes == 32 && !LOCAL, "only tasks of 32 lanes spawn together");
    static_assert(facts::children::template has<U>,
                  "a task spawns only types that it names: using children = gravel_types<...>");
    enter_lanes_or_trap(team_call::spawn_each, ~0u, n);
    const lane_group all = lane_group::of(~0u);
    const uint32_t total = group_sum::of(all, count()).total + n;
    if (total > facts::spawns) return view_.report(task_fault::too_many_spawns, index<T>, total);
    if (level_ == 0) return view_.report(task_fault::too_deep, index<T>, depth_);
    if (rank_ == 0) spawned_[index<U>] += n;
    const auto to = view_.template channel_of<U>(view_.below(depth_));
    const channel_reservation r = to.draw_together(all, n);
    for (uint32_t i = rank_; i < n; i += 32) {
      const U one = child(i);
      level_for(one);  // reports an error
      to.write(r.first + i, one);
    }
    offer(to, all, r);
  }
  /// wait_together() and spawn_each() in one call, for children that deliver results to the frame: child(i, frame). It
  /// draws the frame and the places of the children at the same time. Thread scope: all lanes of the task, converged.
  template <class C, class Child>
  GRAVEL_DEVICE void fork(const C& continuation, uint32_t expected, uint32_t n, Child child) {
    using U = decltype(child(0u, waiting_frame<C>{}));
    static_assert(facts::lanes == 32 && !LOCAL, "only tasks of 32 lanes fork");
    static_assert(facts::continuations::template has<C> && facts::children::template has<U>,
                  "a task waits and spawns only with types that it names: continuations, children = gravel_types<...>");
    enter_lanes_or_trap(team_call::fork, ~0u, n);
    const lane_group all = lane_group::of(~0u);
    const uint32_t total = group_sum::of(all, count()).total + n;
    if (all.ballot(framed<C>()) != 0) return view_.report(task_fault::continuation_twice, index<T>, 2);
    if (total > facts::spawns) return view_.report(task_fault::too_many_spawns, index<T>, total);
    if (level_ == 0) return view_.report(task_fault::too_deep, index<T>, depth_);
    const frames<C> in = view_.template frames_of<C>(view_.below(depth_));
    const auto to = view_.template channel_of<U>(view_.below(depth_));
    uint64_t drawn = 0;  // lane 0 draws the frame, lane 1 the places
    if (rank_ < 2) drawn = (rank_ == 0 ? in.space : to.space).draw(rank_ == 0 ? 1 : n);
    const uint32_t row = in.space.row(all.from_lane(drawn, 0));
    const uint64_t first = all.from_lane(drawn, 1);
    const waiting_frame<C> frame{
        gravel_return<void>::to(false, index<C>, 0, view_.below(depth_) << view_.frame_shift | row).word};
    if (rank_ == 0) {
      framed_ |= 1u << index<C>;
      spawned_[index<U>] += n;
      in.begin(row, continuation, expected);
    }
    for (uint32_t i = rank_; i < n; i += 32) {
      const U one = child(i, frame);
      level_for(one);  // reports an error
      to.write(first + i, one);
    }
    offer(to, all, {first, first, n, true});
  }
  /// Waits like wait_for(), in a task of 32 lanes: all lanes get the frame. Thread scope: all lanes of the task,
  /// converged.
  template <class C>
  GRAVEL_DEVICE waiting_frame<C> wait_together(const C& continuation, uint32_t expected = task_facts<C>::inputs) {
    static_assert(facts::lanes == 32, "only tasks of 32 lanes wait together");
    enter_lanes_or_trap(team_call::wait_together, ~0u);
    const lane_group all = lane_group::of(~0u);
    return {all.from_lane(rank_ == 0 ? wait_for(continuation, expected).word : 0, 0)};
  }

  /// Delivers a result. Each input is delivered once. An input of type void has no value: it only arrives.
  template <class V>
  GRAVEL_DEVICE void reply(gravel_return<V> to, std::type_identity_t<V> value) {
    deliver<false>(to, value);
  }
  GRAVEL_DEVICE void reply(gravel_return<void> to) { deliver<false>(to); }
  /// Delivers like reply(), in a task of 32 lanes, after all lanes have arrived: the continuation sees what they have
  /// written. Thread scope: all lanes of the task, converged.
  template <class V, class... Value>
  GRAVEL_DEVICE void reply_together(gravel_return<V> to, Value... value) {
    static_assert(facts::lanes == 32, "only tasks of 32 lanes reply together");
    enter_lanes_or_trap(team_call::reply_together, ~0u);
    __syncwarp();
    if (rank_ == 0) reply(to, value...);
  }
  /// Adds a result to the input, which is 0 initially. Several tasks may add to it.
  template <class V>
  GRAVEL_DEVICE void add(gravel_return<V> to, std::type_identity_t<V> value) {
    deliver<true>(to, value);
  }

  // ---- for the worker
  /// Sets the level that the task itself returns, except at the last depth.
  GRAVEL_DEVICE void set_level(uint32_t level) { level_ = level_ == 0 || view_.cycles ? level_ : level; }
  template <class U>
  GRAVEL_DEVICE uint32_t spawned() const {
    return spawned_[index<U>];
  }
  /// Have idle workers been notified of all children that it spawned?
  GRAVEL_DEVICE bool has_reported() const { return reported_ && !unreported_; }
  template <class C>
  GRAVEL_DEVICE bool framed() const {
    return framed_ >> index<C> & 1;
  }
  static constexpr uint32_t none = ~0u;
  /// A task of 32 lanes: the frame whose last input it has delivered, which counts as live; its type, or `none`.
  /// Further such frames are in channels already.
  GRAVEL_DEVICE uint32_t next_type() const { return next_type_; }
  GRAVEL_DEVICE uint32_t next_row() const { return next_row_; }
  // LOCAL: what the lane did that the whole warp has to store.
  /// level * 8 + type of child k; `none`: there is no child k.
  GRAVEL_DEVICE uint32_t child_tag(uint32_t k) const { return k < n_spawned_ ? child_tag_[k] : none; }
  template <class U>
  GRAVEL_DEVICE U child(uint32_t k) const {
    as_words<U> words;
    GRAVEL_UNROLL
    for (uint32_t w = 0; w < as_words<U>::count; ++w) words.word[w] = child_[k][w];
    return words.value();
  }
  /// row * 8 + type of a frame whose last input it has delivered; `none`: there is none. Further such frames are in the
  /// stack of ready frames already.
  GRAVEL_DEVICE uint32_t ready() const { return ready_; }

 private:
  /// Commits children of a task of 32 lanes, and notifies idle workers.
  template <class Channel>
  GRAVEL_DEVICE void offer(const Channel& to, const lane_group& all, const channel_reservation& r) {
    to.commit(all, r);
    reported_ = true;
    if (rank_ == 0 && r.total != 0) fetch_add<scope::device>(&view_.words->live, +graph_words::arrival);
  }
  GRAVEL_DEVICE uint32_t count() const {
    uint32_t sum = 0;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < View::n_types; ++i) sum += spawned_[i];
    return sum;
  }
  /// The level of a child. If it is not below the level of this task: reports a fault, and returns `none`.
  template <class U>
  GRAVEL_DEVICE uint32_t level_for(const U& child) {
    if (level_ == 0) {
      view_.report(task_fault::too_deep, index<T>, depth_);
      return none;
    }
    if constexpr (inner::has_level<U>) {
      const uint32_t level = child.level();
      if ((LOCAL || inner::has_level<T>)&&level >= level_) {  // never in a graph with cycles
        view_.report(task_fault::level_does_not_fall, index<T>, level);
        return none;
      }
      return level;
    } else {
      return level_ - 1;
    }
  }
  template <bool ADD, class V, class... Value>
  GRAVEL_DEVICE void deliver(gravel_return<V> to, Value... value) {
    if (to.type() == gravel_return<V>::of_host) {
      if constexpr (!std::is_void_v<V>)
        View::template deliver_value<ADD>(reinterpret_cast<V*>(&view_.results[to.row()]), value...);
      return;
    }
    deliver_to_one_of<ADD, V>(static_cast<types*>(nullptr), to, value...);
  }
  /// Delivers to the continuation of that type; only those with inputs of type V come into question.
  template <bool ADD, class V, class... C, class... Value>
  GRAVEL_DEVICE void deliver_to_one_of(gravel_types<C...>*, gravel_return<V> to, Value... value) {
    constexpr uint32_t candidates =
        ((task_facts<C>::is_continuation && std::is_same_v<typename task_facts<C>::value, V>)+... + 0);
    (deliver_if<C, ADD>(candidates == 1 || to.type() == index<C>, to, value...), ...);
  }
  template <class C, bool ADD, class V, class... Value>
  GRAVEL_DEVICE void deliver_if([[maybe_unused]] bool is_type, [[maybe_unused]] gravel_return<V> to,
                                [[maybe_unused]] Value... value) {
    if constexpr (task_facts<C>::is_continuation && std::is_same_v<typename task_facts<C>::value, V>)
      if (is_type) deliver_to<C, ADD>(to, value...);
  }
  template <class C, bool ADD, class V, class... Value>
  GRAVEL_DEVICE void deliver_to(gravel_return<V> to, Value... value) {
    if constexpr (LOCAL && View::store::template has_frames<C>) {
      if (to.is_local()) {
        const auto in = store_.template of<C>();
        const uint32_t row = to.row();
        View::template deliver_value<ADD>(&in.input[to.input() * in.rows + row], value...);
        if (atomicAdd(&in.missing[row], ~0u) != 1) return;
        if (ready_ == none) ready_ = row * 8 + index<C>;
        else in.ready[atomicAdd(in.n_ready, 1u)] = static_cast<uint16_t>(row);
        return;
      }
    }
    if constexpr (!LOCAL && facts::lanes == 32) {
      if (rank_ == 0 && next_type_ == none) {  // its warp tries to run it next
        if (!view_.template completes<C, ADD>(to.row(), to.input(), value...)) return;
        fetch_add<scope::device>(&view_.words->live, uint64_t{1});
        next_type_ = index<C>;
        next_row_ = to.row();
        return;
      }
    }
    view_.template deliver_to<C, ADD>(to.row(), to.input(), value...);
  }
  const View& view_;
  const typename View::store store_;
  const uint32_t depth_, rank_;
  uint32_t level_;
  uint32_t spawned_[View::n_types] = {};
  uint32_t framed_ = 0;
  bool reported_ = false;    ///< idle workers were notified of children
  bool unreported_ = false;  ///< there are children of which they were not
  uint32_t next_type_ = none, next_row_ = 0;
  // LOCAL
  static constexpr uint32_t kept = LOCAL && facts::spawns ? facts::spawns : 1;
  uint32_t lane_ = 0, n_spawned_ = 0, ready_ = none;
  uint32_t child_tag_[kept] = {}, child_[kept][LOCAL ? View::most_words : 1] = {};
};

}  // namespace gravel::detail
