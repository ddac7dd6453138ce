// One put over the route `peer` (lib/remote_task/task_order.cuh): when what its threads wrote is visible to who sees the command, and who calls workers that sleep.
// What a thread stores waits at first, and becomes visible at any time, in any order. A fence makes visible what its thread knows of: what it has stored itself,
// and what those had stored whom it has met since.
//
//   step here         in the code                                            label
//   payload           open_order::stage, or the program before the put
//   they meet         team.sync()
//   fence             open_order::fence of the leader: in send behind what it staged, else in prepare, before the ticket is waited for
//   word 0, word 1    store_tagged; word 0, which is looked at first, is the leader's   [T1]
//   full fence        behind its word, before it looks at `asleep`
//   worker            resident_worker::poll, leave; the acquire is load_tagged of word 0
//
// Claims: who sees word 0 sees the payload of both threads, and word 1 when its tag is there; the task runs, whenever the workers go to sleep.
//
// BROKEN=1: the leader's fence is before the threads meet.   BROKEN=2: word 0 is the other thread's.   BROKEN=3: there is no fence.
// BROKEN=4: no full fence before the look at `asleep`.       BROKEN=5: a worker that says that it sleeps does not look again.
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
