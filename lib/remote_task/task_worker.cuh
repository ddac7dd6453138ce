// Resident workers: each block polls the next slot of each ring of its PE, and runs its part of the tasks that concern
// it.
//
// With W workers, the task of a ticket concerns the workers ticket % W, (ticket + 1) % W, ..., as many as the task has
// blocks. If it has more blocks than there are workers, each worker runs several. So nothing distributes the tasks: the
// tag of the first word is enough.
//
// Worker 0 alone serves the own ring, whose tasks it forwards in their order. So a slot of that ring is taken only by a
// task that waits.
#pragma once
#include <algorithm>

#include "device/service_kernel.cuh"
#include "lib/remote_task/task_run.cuh"

namespace gravel::detail {

/// Memory that workers and the host share, in addition to the queue's symmetric memory.
struct task_place {
  task_descriptor* descriptors;  ///< pinned; memory.shape.descriptors()
};

/// Sends a task that is kept in the own ring, if there is room for it now. Thread scope: the team.
__device__ GRAVEL_NOINLINE inline bool send_kept(const gravel_task_handle& q, copy_team team, const open_task& task) {
  const task_head head = task.head();
  task_order o;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < task_words::all; ++i) o.words[i] = i < task_tag::words(task.tag) ? task.words[i] : 0;
  const bool in_words = head.inlined();
  o.n_words = in_words && head.bytes() ? task_words::payload : task_tag::words(task.tag);
  // A payload for a mapped buffer is there already (open_order::keep_here).
  const bool is_there = head.place != 0 && mapped_heap(q.g, static_cast<int>(head.pe()));
  o.payload = {{in_words ? static_cast<const void*>(task.words + task_words::payload) : task.slot->payload(),
                is_there ? 0 : head.bytes()},
               {},
               head.place ? find_buffer(q, head.place) : gravel_task_buffer{}};
  o.steps = steps_at(q, task.slot, head.step_words());
  o.step_words = head.step_words();
  o.blocks = task_tag::blocks(task.tag);
  o.start = static_cast<task_start>(task.words[task_words::sizes] >> 16 & 0xff);
  return send_from_task(q, team, o, head.pe(), false);
}

/// A worker, in its block: its place in each ring, and the next task.
template <class... Tasks>
class resident_worker {
 public:
  static constexpr uint32_t most_rings = 512;
  static constexpr uint32_t most_blocks = std::max({shape_of<Tasks>().blocks...});  ///< of a task
  /// The next ticket of a ring for which the worker polls, and its slot.
  struct alignas(16) ring_cursor {
    uint64_t next;
    task_slot* slot;
  };
  struct state {
    ring_cursor at[most_rings];
    uint32_t rank[most_rings];  ///< of this worker among the workers that the ticket may concern
    uint32_t first_ring;        ///< of the rings that are polled next; 0 if there are no more than 32
    open_task task;
  };

  GRAVEL_DEVICE resident_worker(const gravel_task_handle& q, const task_place& place, service_block& here, state& s)
      : q_(q), place_(place), here_(here), s_(s) {}

  GRAVEL_DEVICE void begin() {
    for (uint32_t r = threadIdx.x; r < rings(); r += blockDim.x) {
      const uint64_t next = *cursor(r);
      const bool is_own = r == own_ring(q_);
      go_to(r, next, is_own ? 0 : static_cast<uint32_t>((blockIdx.x + gridDim.x - next % gridDim.x) % gridDim.x));
    }
    taken_ = here_.near_done;
    if (threadIdx.x == 0) {
      notify_all(0);
      s_.first_ring = 0;
    }
    __syncthreads();
  }
  /// Ends the worker, after the last poll of the block.
  GRAVEL_DEVICE void leave(const service_view& view) {
    __syncthreads();
    for (uint32_t r = threadIdx.x; r < rings(); r += blockDim.x) *cursor(r) = s_.at[r].next;
    if (threadIdx.x != 0) return;
    notify_all(1);
    full_fence();
    if (sees_any()) ring_for_workers(view.control);
  }

  /// Polls up to 32 rings once. Returns the tag of the task that is open now, or 0 if there is none. Thread scope: the
  /// first warp.
  GRAVEL_DEVICE uint64_t poll(uint32_t lane) {
    // Reads the first tags of the rings, and all words of the ring that was served last: mostly the next task comes
    // from there, and then the whole command has been read. The lane of that ring reads its first word. Its load is
    // last and acquires, so on a GPU all loads take one round trip to memory.
    const uint32_t first = rings() > 32 ? s_.first_ring : 0, ring = first + lane, which = (lane - last_) % 32;
    const bool is_ring = ring < rings();
    ring_cursor at{};
    uint32_t rank = 0;
    uint64_t tag = 0;
    if (is_ring) {
      at = s_.at[ring];
      rank = s_.rank[ring];
      if (ring != last_) tag = load_relaxed(&at.slot->words[0].tag);
    }
    const ring_cursor likely = s_.at[last_];
    tagged_word word{};
    if (which < task_words::all) word = load_tagged(&likely.slot->words[which]);  // [T1]
    if (ring == last_) tag = word.tag;
    const int32_t age = task_tag::compare(tag, at.next);
    const bool mine = is_ring && age == 0 && rank < workers_of(tag);
    if (is_ring && age >= 0 && !mine) advance(ring);
    const uint32_t some = __ballot_sync(~0u, mine);
    if (rings() > 32 && lane == 0) s_.first_ring = first + 32 < rings() ? first + 32 : 0;
    if (some == 0) {
      __syncwarp();  // the next poll reads what advance() has written
      return 0;
    }
    // Each poll begins at another lane, so that no ring waits for ever.
    const uint32_t turned = some & ~((2u << last_ % 32) - 1u);
    const uint32_t from = static_cast<uint32_t>(__ffs(static_cast<int>(turned ? turned : some))) - 1,
                   found = first + from;
    tag = __shfl_sync(~0u, tag, static_cast<int>(from));
    rank = s_.rank[found];
    if (found == last_) {
      at = likely;
      read_words(s_.task, at.slot, at.next, tag, which, word);
    } else {
      at = s_.at[found];
      read_words(s_.task, at.slot, at.next, tag, lane, {0, ~tag});
      last_ = found;
    }
    if (lane == 0) {
      s_.task.tag = tag;
      s_.task.ticket = at.next;
      s_.task.slot = at.slot;
      s_.task.ring = found;
      s_.task.rank = rank;
    }
    __syncwarp();
    return tag;
  }
#if !GRAVEL_CUDA
  /// CPU backend: waits until a ring has a task, or the kernel is to end. Since one lane waits, the thread may sleep.
  void wait_alone(const service_life* life, uint32_t lane) {
    if (lane == 0)
      for (relax wait; load_relaxed(&life->stop) == 0 && !sees_any(); wait.attentively()) {
      }
    __syncwarp();
  }
#endif

  /// Runs this worker's blocks of the open task, which has this tag. Thread scope: the team, which is the block or its
  /// first warp.
  GRAVEL_DEVICE void run(const copy_team& team, uint64_t tag) {
    open_task& task = s_.task;
    const task_start start = task_tag::start(tag);
    if (start == task_start::forward) return forward(team);
    if (start == task_start::launch || start == task_start::on_host) return hand_to_host(team);
    if (team.is_leader()) store_relaxed<scope::device>(&here_.near.tickets, ++taken_);  // for the watchdog of services
    run_open<Tasks...>(q_, team, task, tag, task.rank, gridDim.x);
    if (team.is_leader()) {
      store_behind_fence<scope::device>(&here_.near_done, taken_);
      advance(task.ring);
    }
    team.sync();
  }

 private:
  /// Returns the number of rings that this worker serves: the own ring is the last one.
  GRAVEL_DEVICE uint32_t rings() const { return blockIdx.x == 0 ? q_.memory.shape.rings() : own_ring(q_); }
  GRAVEL_DEVICE uint64_t* word(uint64_t offset) const { return reinterpret_cast<uint64_t*>(q_.g.heap + offset); }
  GRAVEL_DEVICE uint64_t* cursor(uint32_t ring) const { return word(q_.memory.cursor(blockIdx.x, ring)); }
  /// Notifies all PEs of whether this PE's workers sleep.
  GRAVEL_DEVICE void notify_all(uint64_t asleep) const {
    for (uint32_t pe = 0; pe < q_.g.n_pes; ++pe)
      if (char* const heap = pe == q_.g.my_pe ? q_.g.heap : peer_heap(q_.g, static_cast<int>(pe)))
        store_relaxed(reinterpret_cast<uint64_t*>(heap + q_.memory.asleep(q_.g.my_pe)), asleep);
  }
  GRAVEL_DEVICE bool sees_any() const {
    for (uint32_t r = 0; r < rings(); ++r)
      if (task_tag::compare(load_relaxed(&s_.at[r].slot->words[0].tag), s_.at[r].next) >= 0) return true;
    return false;
  }
  /// Moves to the first ticket of a ring, from `next` on, that may concern this worker, whose rank for `next` is
  /// `rank`. The tickets in between cannot concern it, since no task has so many blocks; they are not polled.
  GRAVEL_DEVICE void go_to(uint32_t ring, uint64_t next, uint32_t rank) {
    const uint32_t skipped = rank < most_blocks ? 0 : rank - (most_blocks - 1);
    s_.at[ring] = {next + skipped, slot_at(q_, ring, next + skipped)};
    s_.rank[ring] = rank - skipped;
  }
  GRAVEL_DEVICE void advance(uint32_t ring) {
    uint32_t rank = s_.rank[ring];
    if (rank != 0) --rank;
    else if (ring != own_ring(q_)) rank = gridDim.x - 1;
    go_to(ring, s_.at[ring].next + 1, rank);
  }
  /// Returns how many workers a task concerns.
  GRAVEL_DEVICE static uint32_t workers_of(uint64_t tag) {
    const task_start start = task_tag::start(tag);
    return start == task_start::warp || start == task_start::workers ? task_tag::blocks(tag) : 1;
  }

  /// Sends a task that found no room, if there is room now; otherwise a later poll tries again. The new ticket is
  /// counted before the old one has ended.
  GRAVEL_DEVICE void forward(const copy_team& team) {
    open_task& task = s_.task;
    const bool sent = send_kept(q_, team, task);
    team.sync();
    if (!sent) return idle_();
    idle_.reset();
    if (team.is_leader()) {
      thread_fence();
      free_slot(q_, task.ring, task.ticket);
      count_ended(q_);
      advance(task.ring);
    }
    team.sync();
  }

  /// Writes a descriptor for the host, which ends the task. There are as many descriptors as slots, so there is always
  /// room.
  GRAVEL_DEVICE void hand_to_host(const copy_team& team) {
    if (team.is_leader()) {
      const open_task& task = s_.task;
      const uint64_t number = fetch_add<scope::device>(word(q_.memory.line(task_memory::descriptors)), uint64_t{1});
      task_descriptor& descriptor = place_.descriptors[number % q_.memory.shape.descriptors()];
      descriptor.ring = task.ring;
      descriptor.id = task.head().id();
      descriptor.ticket = task.ticket;
      descriptor.tag = task.tag;
      store_release(&descriptor.number, number + 1);  // [T4]
      advance(task.ring);
    }
    team.sync();
  }

  const gravel_task_handle& q_;
  const task_place& place_;
  service_block& here_;
  state& s_;
  uint64_t taken_ = 0;  ///< tasks that this worker has begun; the leader counts
  uint32_t last_ = 0;   ///< ring that was served last
  relax idle_;          ///< for waits while a task in the own ring finds no room
};

/// The kernel of the workers. Grid: the workers. `number`: of this launch; the last block to start writes it for the
/// host, as in a service [V3].
template <uint32_t THREADS, class... Tasks>
__global__ void __launch_bounds__(THREADS, 1)
    work(const __grid_constant__ gravel_task_handle queue, const __grid_constant__ task_place place,
         const __grid_constant__ service_view view, service_life* life, uint64_t number) {
  if (number == 0) return;  // launched only to load the kernel
  __shared__ typename resident_worker<Tasks...>::state state;
  const uint32_t lane = threadIdx.x % 32;
  const bool polls = threadIdx.x < 32;
  resident_worker<Tasks...> worker(queue, place, view.block(blockIdx.x), state);
  worker.begin();
  service_end end;
  if (threadIdx.x == 0 && fetch_add_acq_rel<scope::device>(&life->resident, uint64_t{1}) + 1 == gridDim.x)
    store_release(&view.control->resident, number);  // [V3]
  for (;;) {
    if (polls) {
      uint64_t next = open_task::stop;
      for (;;) {  // on a GPU without a pause: a new task must be seen at once
#if !GRAVEL_CUDA
        worker.wait_alone(life, lane);
#endif
        if (lane == 0) end.poll_host(view.control, life);
        const uint64_t stop = service_end::word(life);  // used after the poll, so that loads overlap
        const uint64_t tag = worker.poll(lane);
        if (__any_sync(~0u, stop != 0)) break;  // an open task is found again
        if (tag == 0) continue;
        if (task_tag::start(tag) != task_start::warp) {
          next = tag;
          break;
        }
        worker.run(copy_team::whole_warp(), tag);
      }
      if (lane == 0) state.task.next = next;
    }
    __syncthreads();
    const uint64_t tag = state.task.next;
    if (tag == open_task::stop) break;
    worker.run(copy_team::block_of<THREADS>(), tag);
  }
  worker.leave(view);
}

}  // namespace gravel::detail
