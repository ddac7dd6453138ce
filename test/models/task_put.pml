// One put over the route `peer` (lib/remote_task/task_order.cuh): when the payload that its threads wrote is visible to
// a worker that sees the command, and which thread wakes workers that sleep. A store of a thread becomes visible at any
// time, in any order. A fence makes visible the stores that its thread knows of: its own, and those of the threads with
// which it has shared a barrier since.
//
//   step here         in the code                                            label
//   payload           open_order::stage, into the slot or a registered buffer; or the program before the put
//   barrier           team.sync()
//   fence             open_order::fence of the leader: in send after staging, else in prepare, before the wait for the
//                     ticket
//   word 0, word 1    store_tagged; word 0, which is polled first, is the leader's      [T1]
//   full fence        after its word, before it reads `asleep`
//   worker            resident_worker::poll, leave; the acquire is load_tagged of word 0
//
// Claims: a worker that sees word 0 sees the payload of both threads, and word 1 when its tag is there; the task runs,
// whenever the workers go to sleep.
//
// BROKEN=1: the fence of the leader is before the barrier.
// BROKEN=2: word 0 is the other thread's.
// BROKEN=3: there is no fence.
// BROKEN=4: no full fence before `asleep` is read.
// BROKEN=5: a worker that says that it sleeps does not poll again.
// BROKEN=6: a worker reads word 1 without its tag.
#ifndef BROKEN
#define BROKEN 0
#endif

bit payload_waits[2], word_waits[2];  /* stored, not visible */
bit payload[2], word[2], asleep;      /* visible */
bit has_stored[2], called, ran;

inline become_visible(waits, it) { if :: waits -> waits = 0; it = 1 :: else fi }

active proctype memory() {
end:
  do
  :: payload_waits[0] -> atomic { become_visible(payload_waits[0], payload[0]) }
  :: payload_waits[1] -> atomic { become_visible(payload_waits[1], payload[1]) }
  :: word_waits[0] -> atomic { become_visible(word_waits[0], word[0]) }
  :: word_waits[1] -> atomic { become_visible(word_waits[1], word[1]) }
  od
}

#define FENCE atomic { become_visible(payload_waits[0], payload[0]); become_visible(payload_waits[1], payload[1]) }

active [2] proctype thread() {
  byte me = _pid - 1;
  byte mine;
#if BROKEN == 2
  mine = 1 - me;
#else
  mine = me;
#endif
  payload_waits[me] = 1;
#if BROKEN == 1
  if :: me == 0 -> FENCE :: else fi;
#endif
  has_stored[me] = 1;
  (has_stored[1 - me]);
#if BROKEN != 1 && BROKEN != 3
  if :: me == 0 -> FENCE :: else fi;
#endif
  word_waits[mine] = 1;
  if
  :: me == 0 ->
#if BROKEN != 4
     atomic { become_visible(word_waits[mine], word[mine]) };
#endif
     if :: asleep -> called = 1 :: else fi
  :: else
  fi
}

active proctype worker() {
  do
  :: word[0] -> break
  :: true ->  /* its quantum is over */
     asleep = 1;  /* and a full fence */
#if BROKEN != 5
     if :: word[0] -> break :: else fi;
#endif
     (called);
     asleep = 0
  od;
#if BROKEN != 6
  (word[1]);
#endif
  assert(word[1] && payload[0] && payload[1]);
  ran = 1
}

init { (ran) }
