// One put over the route `peer` (lib/task/task_order.cuh): how its payload, what its threads wrote before, and its words become visible, and who calls workers
// that sleep. Stores wait in the buffer of their thread, and leave it in any order; a fence of a thread lets all leave that it knows of: its own, and those of the
// threads that it has met since.
//
//   step here       in the code                                   label
//   before[i] = 1   what thread i wrote before the put
//   payload[i] = 1  open_order::stage, or in the words
//   met             team.sync()
//   fence           thread_fence() of the leader
//   head, body      store_tagged; the leader's word is the head   [T1]
//   full fence      full_fence() of the leader, before it looks at `asleep`
//   looks           resident_worker::look, leave
//
// Claims: who has seen the head sees the payload and what was written before; the task runs, though the workers may go to sleep at any time.
//
// BROKEN=1: each thread fences before the threads meet, and so not the payload.  BROKEN=2: the other thread writes the head.
// BROKEN=3: no fence.              BROKEN=4: who sends looks at `asleep` without a full fence.
// BROKEN=5: a worker does not look again when it has said that it sleeps.     BROKEN=6: a worker does not wait for the body.
#ifndef BROKEN
#define BROKEN 0
#endif

/* Visible to all; and stored, but in a buffer still. */
bit payload[2], before[2], head, body, asleep;
bit payload_waits[2], head_waits, body_waits, asleep_waits;
bit has_written[2], leader_is_done, called, ran;

/* What has been stored becomes visible at some time. */
active proctype memory() {
end:
  do
  :: payload_waits[0] -> atomic { payload[0] = 1; payload_waits[0] = 0 }
  :: payload_waits[1] -> atomic { payload[1] = 1; payload_waits[1] = 0 }
  :: head_waits -> atomic { head = 1; head_waits = 0 }
  :: body_waits -> atomic { body = 1; body_waits = 0 }
  :: asleep_waits -> atomic { asleep = 1; asleep_waits = 0 }
  od
}

#define VISIBLE(x) x##_waits = 0; x = 1
inline drain(i) {
  if :: payload_waits[i] -> payload_waits[i] = 0; payload[i] = 1 :: else fi
}

proctype thread(byte me) {
#if BROKEN == 1
  atomic { drain(me) };
#endif
  payload_waits[me] = 1;
  has_written[me] = 1;
  (has_written[0] && has_written[1]);  /* they have met */
  if
  :: me == 0 ->
#if BROKEN != 1 && BROKEN != 3
     atomic { drain(0); drain(1) };
#endif
#if BROKEN == 2
     body_waits = 1;
#else
     head_waits = 1;
#endif
#if BROKEN != 4
     /* The leader's own stores. */
     atomic { if :: head_waits -> head_waits = 0; head = 1 :: else fi; if :: BROKEN == 2 && body_waits -> body_waits = 0; body = 1 :: else fi };
#endif
     if :: asleep -> called = 1 :: else fi;
     leader_is_done = 1
  :: else ->
#if BROKEN == 2
     head_waits = 1
#else
     body_waits = 1
#endif
  fi
}

proctype worker() {
  bit sleeps;
again:
  do
  :: head -> break
  :: !sleeps ->
     /* The quantum is over: it says so, and looks once more. */
     asleep_waits = 1;
     atomic { if :: asleep_waits -> asleep_waits = 0 :: else fi; asleep = 1 };
     sleeps = 1;
#if BROKEN != 5
     if :: head -> break :: else fi;
#endif
     (called);
     sleeps = 0; asleep = 0
  od;
#if BROKEN != 6
  (body);
#endif
  assert(body && payload[0] && payload[1]);
  ran = 1
}

init {
  atomic { run thread(0); run thread(1); run worker() };
  (ran)
}
