// Chains: a task that sends further tasks when it has ended. Its command holds the stages of the chain.
//
// Words of a stage:
//   [0]    id << 32 | blocks << 16 | start << 8 | words of arguments
//   [1]    bytes << 32 | PE of the signal << 16 | PE
//   [2]    source, offset in the heap of the PE where the previous task has run
//   [3]    target, offset in the heap
//   [4]    signal, offset in the heap
//   [5..]  arguments
//
// All calls of this file:
// @param queue from gravel_task_queue::handle() or host_handle()
// @param t the gravel_task_t that the running task received
// @param pe 0 to gravel_n_pes(g) - 1
// @param target symmetric address that the task gets
// @param payload memory of the sender and its size
// @param source memory of the sender and its size
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
  /// The most words of arguments, for a chain with one stage.
  static constexpr uint32_t most_arguments = task_words::most_chain - arguments;
};

/// The first words of a command, with their fields.
struct task_head {
  uint64_t names, sizes, target, signal, places;

  GRAVEL_BOTH uint32_t id() const { return static_cast<uint32_t>(names >> 32); }
  GRAVEL_BOTH uint32_t sender_pe() const { return static_cast<uint32_t>(names); }
  GRAVEL_BOTH uint32_t bytes() const { return static_cast<uint32_t>(sizes >> 32); }
  GRAVEL_BOTH uint32_t argument_words() const { return sizes & 0xff; }
  GRAVEL_BOTH uint32_t chain_words() const { return sizes >> 8 & 0xff; }
  GRAVEL_BOTH uint32_t pe() const { return places & 0xffff; }
  GRAVEL_BOTH uint32_t signal_pe() const { return places >> 16 & 0xffff; }
  GRAVEL_BOTH uint32_t counted() const { return static_cast<uint32_t>(places >> 32); }
  GRAVEL_BOTH bool inlined() const { return chain_words() == 0 && bytes() <= task_words::most_payload; }
};
/// The task that a block runs; in shared memory.
struct open_task {
  alignas(16) uint64_t words[task_words::all];
  uint64_t tag, ticket;
  task_slot* slot;
  uint32_t ring;
  uint32_t rank;        ///< of this worker among the workers that the task concerns
  uint32_t sends_next;  ///< the task has ended and the next stage of its chain is sent
  uint64_t next;        ///< what the block does next: the task with this tag, which is never 0, or `stop`
  static constexpr uint64_t stop = 0;

  /// Callers read it once: the compiler would read it again after each store that may change it.
  GRAVEL_BOTH task_head head() const {
    return {words[task_words::names], words[task_words::sizes], words[task_words::target], words[task_words::signal],
            words[task_words::places]};
  }
};

/// Sends the first stage of a task's chain, with the other stages, from the PE where the task has run. Thread scope:
/// the team.
__host__ __device__ GRAVEL_NOINLINE inline void send_next(const gravel_task_handle& q, const copy_team& team,
                                                          const open_task& task) {
  const task_head head = task.head();
  const uint64_t* const stage = task.words + task_words::payload;
  const uint32_t n = stage[chain_words::names] & 0xff, used = chain_words::arguments + n, all = head.chain_words();
  const uint64_t bytes = stage[chain_words::places] >> 32, source = stage[chain_words::source],
                 target = stage[chain_words::target], signal = stage[chain_words::signal];
  const uint32_t id = static_cast<uint32_t>(stage[chain_words::names] >> 32), pe = stage[chain_words::places] & 0xffff,
                 signal_pe = stage[chain_words::places] >> 16 & 0xffff;
  if (n > task_words::most_arguments || used > all || (bytes != 0 && !lies_in_heap(source, bytes, q.g.heap_bytes))) {
    if (team.is_leader()) report_error(q.g, message_fault::task_words, op::none, head.sender_pe(), id, all);
    return;
  }
  if (!check_order(q, team, id, static_cast<int>(pe), target, bytes, signal, static_cast<int>(signal_pe))) return;
  const uint32_t rest = all - used;
  const auto start = static_cast<uint8_t>(stage[chain_words::names] >> 8 & 0xff);
  task_order o;
  o.words[0] = 0;
  o.words[task_words::names] = uint64_t{id} << 32 | q.g.my_pe;
  o.words[task_words::sizes] = bytes << 32 | uint64_t{start} << 16 | rest << 8 | n;
  o.words[task_words::target] = target;
  o.words[task_words::signal] = signal;
  o.words[task_words::places] = uint64_t{signal_pe} << 16 | pe;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < task_words::most_arguments; ++i)
    o.words[task_words::arguments + i] = i < n ? stage[chain_words::arguments + i] : 0;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < task_words::most_chain; ++i)
    o.words[task_words::payload + i] = i < rest ? stage[used + i] : 0;
  o.n_words = rest ? task_words::payload + rest : task_words::arguments + n;
  o.payload = {{q.g.heap + (bytes ? source : 0), bytes}, {}};
  o.blocks = stage[chain_words::names] >> 16 & 0xffff;
  o.start = static_cast<task_start>(start);
  send_from_task(q, team, o, pe, true);
}

}  // namespace gravel::detail

/// A task and the tasks that follow it, from gravel_make_task. All threads that send it hold the same chain.
template <bool IN_TASK>
class gravel_task_chain {
 public:
  /// Adds a task after the last one of the chain. Its payload comes from the symmetric heap of the PE where the
  /// previous task has run, and that task may have written it. A chain has 12 words (task_words::most_chain): 5 for
  /// each `then`, and the words of its arguments.
  template <class Task, class... A>
  GRAVEL_BOTH gravel_task_chain& then(int pe, typename gravel::detail::task_check<Task>::call::target* target,
                                      const gravel_task_source& source, const gravel_signal& done,
                                      const A&... arguments) {
    using namespace gravel::detail;
    using call = typename task_check<Task>::call;
    static_assert(call::template takes<A...>, "then: the task takes another number of arguments");
    static_assert(chain_words::most_arguments == 7 && task_words::most_chain == 12,
                  "the next lines and the comment above say these numbers");
    static_assert(call::words <= chain_words::most_arguments,
                  "then: a task of a chain takes up to 7 words of arguments");
    constexpr uint32_t id = handler_id<Task>::value, n = chain_words::arguments + call::words;
    const uint64_t from = offset_in_heap(q_.g, source.data), to = offset_in_heap(q_.g, target), signal = done.offset;
    const int signal_pe = done.pe < 0 || signal == task_words::none ? pe : done.pe;
    if (!good_ || !check_order(q_, team_, id, pe, to, source.bytes, signal, signal_pe)) {
      good_ = false;
      return *this;
    }
    if (used_ + n > task_words::most_chain ||
        (source.bytes != 0 && !lies_in_heap(from, source.bytes, q_.g.heap_bytes))) {
      if (team_.is_leader())
        report_error(q_.g, used_ + n > task_words::most_chain ? message_fault::task_chain : message_fault::task_address,
                     op::none, q_.g.my_pe, used_ + n > task_words::most_chain ? used_ + n : from,
                     used_ + n > task_words::most_chain ? task_words::most_chain : q_.g.heap_bytes, id);
      good_ = false;
      return *this;
    }
    uint64_t* const stage = order_.words + task_words::payload + used_;
    stage[chain_words::names] = uint64_t{id} << 32 | uint64_t{task_check<Task>::shape.blocks} << 16 |
                                uint64_t{static_cast<uint8_t>(start_of<Task>(task_start::shaped))} << 8 | call::words;
    stage[chain_words::places] =
        source.bytes << 32 | static_cast<uint64_t>(signal_pe) << 16 | static_cast<uint32_t>(pe);
    stage[chain_words::source] = from;
    stage[chain_words::target] = to;
    stage[chain_words::signal] = signal;
    call::pack(stage + chain_words::arguments, arguments...);
    used_ += n;
    order_.words[task_words::sizes] = (order_.words[task_words::sizes] & ~uint64_t{0xff00}) | used_ << 8;
    order_.n_words = task_words::payload + used_;
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
    if constexpr (IN_TASK) gravel::detail::send_from_task(q_, team_, order_, pe, true);
    else gravel::detail::send_order(q_, team_, order_, pe);
  }

  /// @internal
  GRAVEL_BOTH gravel_task_chain(const gravel_task_handle& q, const gravel::detail::copy_team& team)
      : q_(q), team_(team) {}
  gravel::detail::task_order order_{};
  bool good_ = true;

 private:
  const gravel_task_handle& q_;
  gravel::detail::copy_team team_;
  uint32_t used_ = 0;
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
