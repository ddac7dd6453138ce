// An allreduce by tasks (lib/remote_task/task_allreduce.cuh): N PEs, a piece of each. What a PE has combined into a piece
// is a set of PEs.
//
//   step here              in the code                                                label
//   entered                gravel_task_allreduce_start, before and behind its wait    [T5]
//   payload, then message  open_order::stage, write (task_put.pml has their order)    [T1]
//   combine, send, done    run_open: the task, send_next, raise_task_signal
//   wait for done          gravel_task_allreduce_wait, after which the program writes `from` and `to` again
//
// Claims: a task combines with the elements of its own call; at the end of a call all pieces are whole, and stay so until
// the program writes them; the signal is exact.
//
// BROKEN=1: a chain begins before all PEs have entered the call.
// BROKEN=2: a task raises its signal before it sends the next step.
// BROKEN=3: a PE waits for one piece less.
// BROKEN=4: a PE counts all calls of the others as one: it waits for N - 1.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef N
#define N 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#define ALL ((1 << N) - 1)
#define PLACE(pe, piece) ((pe) * N + (piece))

byte written[N];        /* call whose elements are in `from`; 0 while the program writes them */
byte entered[N], done[N], finished;
byte to[N * N], partial[N * N];
chan tasks[N] = [2 * N] of { byte, byte, byte };  /* piece, step, call */

inline send(piece, step, call, pe, what) {
  if
  :: step < N -> partial[PLACE(pe, piece)] = what
  :: else -> to[PLACE(pe, piece)] = what
  fi;
  tasks[pe] ! piece, step, call
}

proctype kernel(byte me) {
  byte call = 1, i;
  do
  :: call > CALLS -> break
  :: else ->
     written[me] = call;
     i = 0;
     do
     :: i == N -> break
     :: i == me -> i++
     :: i != me && i < N -> entered[i] = entered[i] + 1; i++
     od;
#if BROKEN == 4
     (entered[me] >= N - 1);
#elif BROKEN != 1
     (entered[me] >= call * (N - 1));
#endif
     send(me, 1, call, (me + 1) % N, 1 << me);
#if BROKEN == 3
     (done[me] >= call * N - 1);
#else
     (done[me] >= call * N);
#endif
     assert(done[me] <= call * N);
     written[me] = 0;
     i = 0;
     do
     :: i == N -> break
     :: else -> d_step { assert(to[PLACE(me, i)] == ALL); to[PLACE(me, i)] = 0; i++ }
     od;
     call++
  od;
  finished++
}

proctype worker(byte me) {
  byte piece, step, call, next;
  bit sends;
end:
  do
  :: tasks[me] ? piece, step, call ->
     if
     :: step < N ->
        assert(written[me] == call);
        to[PLACE(me, piece)] = partial[PLACE(me, piece)] | (1 << me)
     :: else
     fi;
     sends = step < 2 * N - 2;
     next = (me + 1) % N;
#if BROKEN == 2
     if :: step >= N - 1 -> done[me]++ :: else fi;
     if :: sends -> send(piece, step + 1, call, next, to[PLACE(me, piece)]) :: else fi
#else
     if :: sends -> send(piece, step + 1, call, next, to[PLACE(me, piece)]) :: else fi;
     if :: step >= N - 1 -> done[me]++ :: else fi
#endif
  od
}

init {
  byte i;
  atomic {
    do
    :: i == N -> break
    :: else -> run kernel(i); run worker(i); i++
    od
  };
  (finished == N)
}
