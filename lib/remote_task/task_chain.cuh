// Chains: a task that sends further tasks when it has ended. Its command holds the steps of a short chain. Those of a
// long one (steps_in) lie at the end of the task's slot, and each task sends those behind it on.
//
// Words of a step:
//   [0]    id << 32 | blocks << 16 | start << 8 | has_place | words of arguments
//   [1]    bytes << 32 | PE of the signal << 16 | PE
//   [2]    source, offset in the heap of the PE where the previous task has run
//   [3]    target, offset in the heap
//   [4]    signal, offset in the heap
//   [5]    with has_place: place in a registered buffer, where the payload goes
//   then   arguments
//
// A chain ends: each task sends fewer words of steps than came with it. What arrives is checked before anything of it
// is used, and a step again by the PE that sends its task.
//
// All calls of this file:
// @param queue from gravel_task_queue::handle() or host_handle()
// @param t the gravel_task_t that the running task received
// @param pe 0 to gravel_n_pes(g) - 1
// @param target symmetric address that the task gets
// @param payload memory of the sender and its size
// @param source payload in the heap of the PE where the task before has run
// @param memory of the sender, which all threads that send the chain read; may be used again when put() returns
// @param words number of words of 8 bytes of `memory`
// @param done signal at `pe` that rises by 1 when the task has ended; {}: none
// @param arguments of the task, trivially copyable
// @scope block: every thread, with the same arguments; a host thread
// @completion put() sends the chain; each task has ended when its `done` has risen, or at gravel_task_queue::wait()
// @errors as of gravel_task_put
// @source XTQ (SC 2016)
#pragma once
#include "lib/remote_task/task_put.cuh"

namespace gravel::detail {

struct chain_words {
  static constexpr uint32_t names = 0, places = 1, source = 2, target = 3, signal = 4, arguments = 5;
  static constexpr uint32_t has_place = 0x80;  ///< bit of `names`: the first word of the arguments is a buffer_place
  /// The most words of arguments, for a chain with one step in a command.
  static constexpr uint32_t most_arguments = task_words::most_chain - arguments;
  /// The most words of steps that lie in a slot.
  static constexpr uint32_t most_steps = 0xffff;
};

/// The first words of a command, with their fields.
struct task_head {
  uint64_t place, names, sizes, target, signal, places;

  GRAVEL_BOTH uint32_t id() const { return static_cast<uint32_t>(names >> 32); }
  GRAVEL_BOTH uint32_t sender_pe() const { return names & 0xffff; }
  GRAVEL_BOTH uint32_t step_words() const { return names >> 16 & 0xffff; }
  GRAVEL_BOTH uint32_t bytes() const { return static_cast<uint32_t>(sizes >> 32); }
  GRAVEL_BOTH uint32_t argument_words() const { return sizes & 0xff; }
  GRAVEL_BOTH uint32_t chain_words() const { return sizes >> 8 & 0xff; }
  GRAVEL_BOTH uint32_t pe() const { return places & 0xffff; }
  GRAVEL_BOTH uint32_t signal_pe() const { return places >> 16 & 0xffff; }
  GRAVEL_BOTH uint32_t counted() const { return static_cast<uint32_t>(places >> 32); }
  GRAVEL_BOTH bool inlined() const {
    return chain_words() == 0 && step_words() == 0 && place == 0 && bytes() <= task_words::most_payload;
  }
};
/// The task that a block runs; in shared memory.
struct open_task {
  alignas(16) uint64_t words[task_words::all];
  uint64_t tag, ticket;
  task_slot* slot;
  uint32_t ring;
  uint32_t rank;        ///< of this worker among the workers that the task concerns
  uint32_t sends_next;  ///< the task has ended and the next step of its chain is sent
  uint64_t next;        ///< what the block does next: the task with this tag, which is never 0, or `stop`
  static constexpr uint64_t stop = 0;

  /// Callers read it once: the compiler would read it again after each store that may change it.
  GRAVEL_BOTH task_head head() const {
    return {words[task_words::place],  words[task_words::names],  words[task_words::sizes],
            words[task_words::target], words[task_words::signal], words[task_words::places]};
  }
};

/// Returns the steps of a long chain, at the end of the task's slot.
GRAVEL_BOTH const uint64_t* steps_at(const gravel_task_handle& q, task_slot* slot, uint32_t words) {
  return reinterpret_cast<const uint64_t*>(reinterpret_cast<char*>(slot) + q.memory.slot_bytes) - words;
}
/// Returns the place of a registered buffer as this PE's table has it; without bytes if there is no such buffer.
GRAVEL_BOTH gravel_task_buffer find_buffer(const gravel_task_handle& q, uint64_t place) {
  const uint32_t number = buffer_place::number(place);
  if (number == 0 || number > buffer_place::most_buffers) return {0, 0, 0, number};
  const auto* const entry = reinterpret_cast<const task_buffer_entry*>(q.g.heap + q.memory.buffer(number));
#if GRAVEL_ON_GPU
  // Both loads are in flight together. The host wrote the entry before any PE could name it, so they need not acquire.
  const task_buffer_entry found{load_relaxed(&entry->offset), load_relaxed(&entry->bytes)};
#else
  const task_buffer_entry found{poll_word(q.g, &entry->offset), poll_word(q.g, &entry->bytes)};
#endif
  return {found.offset, found.bytes, buffer_place::first(place), number};
}

/// Returns whether a step that has arrived may start a task in this way.
GRAVEL_BOTH bool is_start_of_step(uint32_t start) {
  return start >= static_cast<uint32_t>(task_start::warp) && start <= static_cast<uint32_t>(task_start::on_host);
}

/// Sends the first step of a task's chain, with the steps behind it, from the PE where the task has run. `slot`: the
/// task's; `steps`: its steps, if they lie in the slot. Thread scope: the team.
__host__ __device__ GRAVEL_NOINLINE inline void send_next(const gravel_task_handle& q, const copy_team& team,
                                                          const open_task& task, const uint64_t* steps) {
  const task_head head = task.head();
  const bool in_slot = head.step_words() != 0;
  const uint64_t* const step = in_slot ? steps : task.words + task_words::payload;
  const uint32_t all = in_slot ? head.step_words() : head.chain_words();
  const uint64_t names = all >= chain_words::arguments ? step[chain_words::names] : 0;
  const uint32_t id = static_cast<uint32_t>(names >> 32), blocks = names >> 16 & 0xffff,
                 start = static_cast<uint32_t>(names >> 8 & 0xff), n = names & (chain_words::has_place - 1),
                 place_words = (names & chain_words::has_place) != 0, used = chain_words::arguments + place_words + n;
  const bool is_step = n <= task_words::most_arguments && used <= all && blocks != 0 && is_start_of_step(start);
  const uint64_t bytes = is_step ? step[chain_words::places] >> 32 : 0;
  if (!is_step || (bytes != 0 && !is_for_tasks(q, step[chain_words::source], bytes))) {
    if (team.is_leader()) report_error(q.g, message_fault::task_words, op::none, head.sender_pe(), id, all);
    return;
  }
  const uint64_t source = step[chain_words::source], target = step[chain_words::target],
                 signal = step[chain_words::signal], place = place_words ? step[chain_words::arguments] : 0;
  const uint32_t pe = step[chain_words::places] & 0xffff, signal_pe = step[chain_words::places] >> 16 & 0xffff;
  const gravel_task_buffer into = place_words ? find_buffer(q, place) : gravel_task_buffer{};
  const uint32_t rest = all - used, in_words = in_slot ? 0 : rest;
  if (!check_order(q, team, id,
                   {target, signal, static_cast<int>(pe), static_cast<int>(signal_pe), bytes, into,
                    in_slot ? uint64_t{rest} * sizeof(uint64_t) : 0, false}))
    return;
  const uint64_t* const arguments = step + chain_words::arguments + place_words;
  task_order o;
  o.words[task_words::place] = place;
  o.words[task_words::names] = uint64_t{id} << 32 | uint64_t{in_slot ? rest : 0} << 16 | q.g.my_pe;
  o.words[task_words::sizes] = bytes << 32 | uint64_t{start} << 16 | in_words << 8 | n;
  o.words[task_words::target] = target;
  o.words[task_words::signal] = signal;
  o.words[task_words::places] = uint64_t{signal_pe} << 16 | pe;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < task_words::most_arguments; ++i)
    o.words[task_words::arguments + i] = i < n ? arguments[i] : 0;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < task_words::most_chain; ++i)
    o.words[task_words::payload + i] = i < in_words ? step[used + i] : 0;
  o.n_words = in_words ? task_words::payload + in_words : task_words::arguments + n;
  o.payload = {{q.g.heap + (bytes ? source : 0), bytes}, {}, into};
  o.steps = in_slot ? step + used : nullptr;
  o.step_words = in_slot ? rest : 0;
  o.blocks = blocks;
  o.start = static_cast<task_start>(start);
  send_from_task(q, team, o, pe, true);
}

}  // namespace gravel::detail

/// A task and the tasks that follow it, from gravel_make_task. All threads that send it hold the same chain. IN_MEMORY:
/// its steps lie in memory of the sender (steps_in), not in the command.
template <bool IN_TASK, bool IN_MEMORY = false>
class gravel_task_chain {
 public:
  /// Makes the chain long: its steps lie in this memory of the sender, up to 65535 words, and travel in the slots of
  /// the tasks. With the payload of a task the steps behind it must fit payload_bytes.
  /// @return the chain, to which then() adds steps
  GRAVEL_BOTH gravel_task_chain<IN_TASK, true> steps_in(uint64_t* memory, uint32_t words) const {
    static_assert(!IN_MEMORY, "steps_in is called once");
    gravel_task_chain<IN_TASK, true> chain(q_, team_);
    chain.order_ = order_;
    chain.good_ = good_ && used_ == 0;
    chain.memory_ = memory;
    chain.most_ = words < gravel::detail::chain_words::most_steps ? words : gravel::detail::chain_words::most_steps;
    if (good_ && used_ != 0 && team_.is_leader())
      report_error(q_.g, gravel::detail::message_fault::task_steps, gravel::detail::op::none, q_.g.my_pe, used_, 0);
    return chain;
  }
  /// Adds a task after the last one of the chain. Its payload comes from the symmetric heap of the PE where the
  /// previous task has run, and that task may have written it. A step has 5 words, one more if its payload goes into a
  /// registered buffer, and the words of its arguments. A chain without steps_in has up to 12 words
  /// (task_words::most_chain).
  template <class Task, class... A>
  GRAVEL_BOTH gravel_task_chain& then(int pe, typename gravel::detail::task_check<Task>::call::target* target,
                                      const gravel_step_source& source, const gravel_signal& done,
                                      const A&... arguments) {
    using namespace gravel::detail;
    using call = typename task_check<Task>::call;
    static_assert(call::template takes<A...>, "then: the task takes another number of arguments");
    static_assert(chain_words::most_arguments == 7 && task_words::most_chain == 12,
                  "the next lines and the comment above say these numbers");
    static_assert(IN_MEMORY || call::words <= chain_words::most_arguments,
                  "then: a task of a chain takes up to 7 words of arguments; with steps_in() as many as other tasks");
    constexpr uint32_t id = handler_id<Task>::value;
    const uint32_t place_words = source.into.number != 0, first = chain_words::arguments + place_words,
                   n = first + call::words;
    const uint64_t from = offset_in_heap(q_.g, source.data), to = offset_in_heap(q_.g, target), signal = done.offset;
    const int signal_pe = done.pe < 0 || signal == task_words::none ? pe : done.pe;
    if (!good_ || !check_order(q_, team_, id, {to, signal, pe, signal_pe, source.bytes, source.into, 0, true})) {
      good_ = false;
      return *this;
    }
    const bool is_long = used_ + n > most_;
    if (is_long || (source.bytes != 0 && !is_for_tasks(q_, from, source.bytes))) {
      if (team_.is_leader())
        report_error(q_.g, is_long ? message_fault::task_chain : message_fault::task_address, op::none, q_.g.my_pe,
                     is_long ? used_ + n : from, is_long ? most_ : q_.g.heap_bytes, id);
      good_ = false;
      return *this;
    }
    uint64_t step[chain_words::arguments + 1 + call::words];
    step[chain_words::names] = uint64_t{id} << 32 | uint64_t{task_check<Task>::shape.blocks} << 16 |
                               uint64_t{static_cast<uint8_t>(start_of<Task>(task_start::shaped))} << 8 |
                               (place_words ? chain_words::has_place : 0) | call::words;
    step[chain_words::places] = source.bytes << 32 | static_cast<uint64_t>(signal_pe) << 16 | static_cast<uint32_t>(pe);
    step[chain_words::source] = from;
    step[chain_words::target] = to;
    step[chain_words::signal] = signal;
    step[chain_words::arguments] = buffer_place::make(source.into.number, source.into.first);
    call::pack(step + first, arguments...);
    if constexpr (IN_MEMORY) {
      if (team_.is_leader())
        for (uint32_t i = 0; i < n; ++i) memory_[used_ + i] = step[i];
    } else {
      uint64_t* const to_words = order_.words + task_words::payload + used_;
      for (uint32_t i = 0; i < n; ++i) to_words[i] = step[i];
    }
    used_ += n;
    if constexpr (IN_MEMORY) {
      order_.words[task_words::names] = (order_.words[task_words::names] & ~uint64_t{0xffff0000}) | uint64_t{used_}
                                                                                                        << 16;
      order_.steps = memory_;
      order_.step_words = used_;
    } else {
      order_.words[task_words::sizes] = (order_.words[task_words::sizes] & ~uint64_t{0xff00}) | used_ << 8;
      order_.n_words = task_words::payload + used_;
    }
    return *this;
  }
  /// Sends the chain.
  GRAVEL_BOTH void put() const {
    const uint32_t pe = order_.words[gravel::detail::task_words::places] & 0xffff;
    if (!gravel::detail::enter_team(
            q_.g, IN_TASK ? gravel::detail::team_call::task_put_in_task : gravel::detail::team_call::task_chain, team_,
            pe, order_.words[gravel::detail::task_words::target], order_.words[gravel::detail::task_words::sizes],
            order_.words[gravel::detail::task_words::signal]))
      return;
    if (!good_) return;
    if constexpr (IN_MEMORY) {
      using namespace gravel::detail;
      const gravel_task_buffer& into = order_.payload.into;
      const uint64_t bytes = order_.step_bytes() + (into.number == 0 || IN_TASK ? order_.payload.bytes() : 0);
      if (bytes > q_.memory.shape.payload_bytes) {
        if (team_.is_leader())
          report_error(q_.g, message_fault::task_payload, op::none, q_.g.my_pe, bytes, q_.memory.shape.payload_bytes,
                       static_cast<uint32_t>(order_.words[task_words::names] >> 32));
        return;
      }
    }
    if constexpr (IN_TASK) gravel::detail::send_from_task(q_, team_, order_, pe, true);
    else gravel::detail::send_order(q_, team_, order_, pe);
  }

  /// @internal
  GRAVEL_BOTH gravel_task_chain(const gravel_task_handle& q, const gravel::detail::copy_team& team)
      : q_(q), team_(team) {}
  gravel::detail::task_order order_{};
  bool good_ = true;

 private:
  template <bool, bool>
  friend class gravel_task_chain;

  const gravel_task_handle& q_;
  gravel::detail::copy_team team_;
  uint32_t used_ = 0;                                       ///< words of steps
  uint32_t most_ = gravel::detail::task_words::most_chain;  ///< that there is room for
  uint64_t* memory_ = nullptr;                              ///< of the steps, with IN_MEMORY
};

/// Makes a task to which then() adds further tasks; put() sends them.
/// @return the chain
template <class Task, class... A>
GRAVEL_BOTH gravel_task_chain<false> gravel_make_task(const gravel_task_handle& queue, int pe,
                                                      typename gravel::detail::task_check<Task>::call::target* target,
                                                      const gravel_payload& payload, const gravel_signal& done,
                                                      const A&... arguments) {
  gravel_task_chain<false> chain(queue, gravel::detail::copy_team::block(queue.g));
  chain.good_ =
      gravel::detail::make_order<Task>(chain.order_, queue, gravel::detail::copy_team::block(queue.g),
                                       gravel::detail::task_start::shaped, pe, target, payload, done, arguments...);
  return chain;
}
/// Makes a task from a running task; then() adds further tasks, put() sends them.
/// @return the chain
template <class Task, class... A>
GRAVEL_BOTH gravel_task_chain<true> gravel_make_task(const gravel_task_t& t, int pe,
                                                     typename gravel::detail::task_check<Task>::call::target* target,
                                                     const gravel_payload& payload, const gravel_signal& done,
                                                     const A&... arguments) {
  gravel_task_chain<true> chain(t.queue, t.team);
  chain.good_ = gravel::detail::make_order<Task>(chain.order_, t.queue, t.team, gravel::detail::task_start::shaped, pe,
                                                 target, payload, done, arguments...);
  return chain;
}
