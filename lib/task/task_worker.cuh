// Resident workers: each block looks at the next slot of each ring of its PE, and works on the tasks that concern it.
//
// Of W workers the task of a ticket concerns those of numbers ticket % W, ticket % W + 1, ..., as many as it has blocks; with more blocks than workers each
// runs several. So nobody hands tasks out; the first tag says all that is needed.
#pragma once
#include "device/service_kernel.cuh"
#include "lib/task/task_run.cuh"

namespace gravel {

/// What workers and the host share beside the queue's symmetric memory.
struct task_place {
  task_letter* letters;  ///< pinned; memory.shape.letters()
};

/// A worker's block: its place in each ring, and the next task.
template <class... Tasks>
class resident_worker {
 public:
  static constexpr uint32_t most_rings = 512;
  struct state {
    uint64_t next[most_rings];  ///< tickets
    uint64_t taken;             ///< tasks that this worker has begun
    open_task task;
  };

  GRAVEL_DEVICE resident_worker(const gravel_task_handle& q, const task_place& place, service_server& here, state& s)
      : q_(q), place_(place), here_(here), s_(s) {}

  GRAVEL_DEVICE void begin() {
    for (uint32_t r = threadIdx.x; r < rings(); r += blockDim.x) s_.next[r] = *cursor(r);
    if (threadIdx.x == 0) tell_all(0), s_.taken = here_.near_done;
    __syncthreads();
  }
  /// Behind the last look of the block.
  GRAVEL_DEVICE void leave(const service_view& view) {
    __syncthreads();
    for (uint32_t r = threadIdx.x; r < rings(); r += blockDim.x) *cursor(r) = s_.next[r];
    if (threadIdx.x != 0) return;
    tell_all(1);
    full_fence();
    for (uint32_t r = 0; r < rings(); ++r)
      if (task_tag::compare(first_tag(r), s_.next[r]) >= 0) return ring_for_workers(view.mail);
  }

  /// Looks once. True: a task is open. Thread scope: the first warp.
  GRAVEL_DEVICE bool look(uint32_t lane) {
    // The words of the ring that was served last are read along with the tags: mostly the next task comes from there.
    const uint32_t likely = base_ + last_;
    const uint64_t next = s_.next[likely];
    tagged_word word{};
    if (lane < task_words::all) word = load_tagged(&slot_at(q_, likely, next)->words[lane]);  // [T1]
    for (uint32_t base = 0; base < rings(); base += 32) {
      const uint32_t r = base + lane;
      uint64_t tag = 0;
      bool mine = false;
      if (r < rings()) {
        tag = first_tag(r);
        const int32_t age = task_tag::compare(tag, s_.next[r]);
        mine = age == 0 && concerns_me(tag, s_.next[r]);
        if (age >= 0 && !mine) ++s_.next[r];
      }
      const uint32_t some = __ballot_sync(~0u, mine);
      if (some == 0) continue;
      // Another lane first at each look, so that no ring waits for ever.
      const uint32_t turned = some & ~((2u << last_) - 1u),
                     from = static_cast<uint32_t>(__ffs(static_cast<int>(turned ? turned : some))) - 1;
      last_ = from, base_ = base;
      const uint64_t its_tag = __shfl_sync(~0u, tag, static_cast<int>(from));
      const uint32_t ring = base + from;
      const uint64_t ticket = s_.next[ring];
      if (ring != likely) word.tag = ~task_tag::make(ticket, task_start::shaped, 0, 0);  // of another ring
      read_words(s_.task, slot_at(q_, ring, ticket), ticket, its_tag, lane, word);
      if (lane == 0) s_.task.ring = ring;
      __syncwarp();
      return true;
    }
    return false;
  }
#if !GRAVEL_CUDA
  /// CPU backend: until there is something to see, or the kernel is to end. Where one lane waits, the thread may sleep.
  void wait_alone(const service_life* life, uint32_t lane) {
    const auto some = [&] {
      for (uint32_t r = 0; r < rings(); ++r)
        if (task_tag::compare(first_tag(r), s_.next[r]) >= 0) return true;
      return false;
    };
    if (lane == 0)
      for (relax wait; load_relaxed(&life->stop) == 0 && !some(); wait.attentively()) {
      }
    __syncwarp();
  }
#endif

  /// Whether the first warp can do it without the rest of the block. Thread scope: the first warp.
  GRAVEL_DEVICE bool is_for_warp() const { return task_tag::start(s_.task.tag) == task_start::warp; }

  /// All of this worker's blocks of the open task. Thread scope: the team, which is the block or its first warp.
  GRAVEL_DEVICE void run(const copy_team& team) {
    open_task& task = s_.task;
    const task_start start = task_tag::start(task.tag);
    if (start == task_start::forward) return forward(team, slot_at(q_, task.ring, task.ticket));
    if (start == task_start::launch || start == task_start::on_host) return hand_to_host(team);
    if (team.is_leader()) store_relaxed<scope::device>(&here_.near.tickets, ++s_.taken);  // for the watchdog of services
    run_open<Tasks...>(q_, team, task, rank_of(task.ticket), gridDim.x);
    if (team.is_leader()) {
      store_behind_fence<scope::device>(&here_.near_done, s_.taken);
      ++s_.next[task.ring];
    }
    team.sync();
  }

 private:
  GRAVEL_DEVICE uint32_t rings() const { return q_.memory.shape.rings(); }
  GRAVEL_DEVICE uint64_t* word(uint64_t offset) const { return reinterpret_cast<uint64_t*>(q_.g.heap + offset); }
  GRAVEL_DEVICE uint64_t* cursor(uint32_t ring) const { return word(q_.memory.cursor(blockIdx.x, ring)); }
  /// Whether the workers of this PE sleep.
  GRAVEL_DEVICE void tell_all(uint64_t asleep) const {
    for (uint32_t pe = 0; pe < q_.g.n_pes; ++pe)
      if (char* const heap = pe == q_.g.my_pe ? q_.g.heap : peer_heap(q_.g, static_cast<int>(pe)))
        store_relaxed(reinterpret_cast<uint64_t*>(heap + q_.memory.asleep(q_.g.my_pe)), asleep);
  }
  GRAVEL_DEVICE uint64_t first_tag(uint32_t ring) const {
    return load_acquire(&slot_at(q_, ring, s_.next[ring])->words[0].tag);  // [T1]
  }
  /// Among the workers that a task concerns.
  GRAVEL_DEVICE uint32_t rank_of(uint64_t ticket) const {
    const uint32_t first = static_cast<uint32_t>(ticket % gridDim.x);
    return blockIdx.x >= first ? blockIdx.x - first : blockIdx.x + gridDim.x - first;
  }
  GRAVEL_DEVICE bool concerns_me(uint64_t tag, uint64_t ticket) const {
    const task_start start = task_tag::start(tag);
    const uint32_t blocks = start == task_start::warp || start == task_start::workers ? task_tag::blocks(tag) : 1;
    return rank_of(ticket) < blocks;
  }

  /// What found no room: sent now if there is some, else looked at again later. Its new ticket is counted before its old one has ended.
  GRAVEL_DEVICE void forward(const copy_team& team, task_slot* slot) {
    open_task& task = s_.task;
    task_order o;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < task_words::all; ++i) o.words[i] = i < task_tag::words(task.tag) ? task.words[i] : 0;
    const bool in_words = task.inlined();
    o.n_words = in_words && task.bytes() ? task_words::payload : task_tag::words(task.tag);
    o.payload = {{in_words ? static_cast<const void*>(task.words + task_words::payload) : slot->payload(), task.bytes()}, {}};
    o.blocks = task_tag::blocks(task.tag);
    o.start = static_cast<task_start>(task.words[task_words::sizes] >> 16 & 0xff);
    const bool sent = send_from_task(q_, team, o, task.pe(), false);
    team.sync();
    if (!sent) return idle_();
    idle_.reset();
    if (team.is_leader()) {
      thread_fence();
      free_slot(q_, task.ring, task.ticket);
      count_ended(q_);
      ++s_.next[task.ring];
    }
    team.sync();
  }

  /// A letter for the host, which ends the task. There are as many as slots, so there is always room.
  GRAVEL_DEVICE void hand_to_host(const copy_team& team) {
    if (team.is_leader()) {
      const open_task& task = s_.task;
      const uint64_t number = fetch_add<scope::device>(word(q_.memory.line(task_memory::letters)), uint64_t{1});
      task_letter& letter = place_.letters[number % q_.memory.shape.letters()];
      letter.ring = task.ring, letter.id = task.id(), letter.ticket = task.ticket, letter.tag = task.tag;
      store_release(&letter.number, number + 1);  // [T4]
      ++s_.next[task.ring];
    }
    team.sync();
  }

  const gravel_task_handle& q_;
  const task_place& place_;
  service_server& here_;
  state& s_;
  uint32_t last_ = 0, base_ = 0;  ///< ring served last: base_ + last_
  relax idle_;                    ///< while what waits to be forwarded finds no room
};

/// Grid: the workers. `number`: of this launch, which the last block to start writes for the host, as that of a service does [V3].
template <uint32_t THREADS, class... Tasks>
__global__ void __launch_bounds__(THREADS) work(const __grid_constant__ gravel_task_handle queue, const __grid_constant__ task_place place,
                                                const __grid_constant__ service_view view, service_life* life, uint64_t number) {
  if (number == 0) return;  // it was started to be loaded
  __shared__ typename resident_worker<Tasks...>::state state;
  const uint32_t lane = threadIdx.x % 32;
  const bool looks = threadIdx.x < 32;
  resident_worker<Tasks...> worker(queue, place, view.server(blockIdx.x), state);
  worker.begin();
  service_end end;
  if (threadIdx.x == 0 && fetch_add_acq_rel<scope::device>(&life->resident, uint64_t{1}) + 1 == gridDim.x)
    store_release(&view.mail->resident, number);  // [V3]
  for (;;) {
    if (looks) {
      uint32_t next = open_task::stop;
      for (;;) {  // on a GPU without a pause: what comes is to be seen at once
#if !GRAVEL_CUDA
        worker.wait_alone(life, lane);
#endif
        const bool told = lane == 0 && end.has_come(view.mail, life);  // used behind the look, so that loads overlap
        const bool some = worker.look(lane);
        if (__any_sync(~0u, told)) break;  // a task that is open is looked at again
        if (!some) continue;
        if (!worker.is_for_warp()) {
          next = open_task::run;
          break;
        }
        worker.run(copy_team::warp(queue.g, ~0u));
      }
      if (lane == 0) state.task.next = next;
    }
    __syncthreads();
    if (state.task.next == open_task::stop) break;
    worker.run(copy_team::block(queue.g));
  }
  worker.leave(view);
}

}  // namespace gravel
