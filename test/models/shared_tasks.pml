// Tasks that travel between PEs (lib/taskgraph/shared_tasks.cuh) in transfers (lib/taskgraph/transfers.cuh): credits, results, and the end. Workers run
// all the while. What comes of one task of another PE is a tree here, whose result goes back when nothing of it is left, here or elsewhere. A
// tree is the number of its tasks; a task that runs may spawn one more. A transfer has one element. Of each pair of PEs a flag `invited`
// stands for invited > sent, `come` for come > taken. How signals travel is other models' matter.
//
//   step here         in the code
//   worker            a batch; the continuation `returned`
//   begin             task_exchange::begin: has_requested results, the first time
//   result            task_exchange::take_results
//   task              task_exchange::take_tasks
//   send              task_exchange::send_results
//   give              task_exchange::export_to
//   ask               task_exchange::ask, at any time
//   tell, leave       task_exchange::poll_end
//
// Claims: a place is free when something is put there; an outbox has room for whatever comes; when a PE leaves, nothing is left anywhere, and all
// credits are back. All PEs leave all runs: if one does not, that shows as an invalid end state.
//
// BROKEN=1: who has exported tasks may have finished.          BROKEN=2: nobody looks at credits.
// BROKEN=3: a tree has a result though it has exported some.   BROKEN=4: who has finished leaves.
// BROKEN=5: tasks are sent uninvited.                      BROKEN=6: who takes results has_requested before it has read.
// BROKEN=7: it is not told of which run the own tasks are finished.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef GUESTS
#define GUESTS 2
#endif
#ifndef OWN
#define OWN 2 /* tasks of PE 0 to begin with; of the others 1 less, each, down to 0; in later runs PE 0 has 1 */
#endif
#ifndef SPAWNS
#define SPAWNS 1
#endif
#ifndef GIFTS
#define GIFTS 2
#endif
#ifndef RUNS
#define RUNS 1
#endif
#define TREES (PES + GIFTS)
#define CREDITS (GUESTS / PES)
#define PAIR(p, q) ((p) * PES + (q))

chan outbox[PES * PES] = [CREDITS] of { byte };  /* at p for q: trees at q */
byte task_place[PES * PES], result_place[PES * PES];  /* at p from q: a tree at q; one at p */
bool task_come[PES * PES], result_come[PES * PES];
bool task_requested[PES * PES], result_requested[PES * PES];  /* p by q */
bool inviting[PES * PES];  /* p has invited tasks of q, and none has come */
byte at[TREES], home[TREES], parent[TREES], here[TREES], away[TREES];
bool open[TREES];
byte trees = PES, spawned, gifts, left;
byte live[PES], exported[PES], credits[PES * PES], finished[PES * PES];

#if BROKEN == 1
#define DONE(p) (live[p] == 0)
#else
#define DONE(p) (live[p] == 0 && exported[p] == 0)
#endif
#if BROKEN == 7
#define OF_RUN(f) ((f) != 0)
#else
#define OF_RUN(f) ((f) >= run_)
#endif

/* A tree of this PE with a task that waits. */
#define FIND(t) \
  t = 0; \
  do \
  :: at[t] == me && here[t] != 0 -> break \
  :: else -> t++ \
  od

proctype worker(byte me) {
  byte t;
end:
  do
  :: atomic { live[me] != 0 ->
       FIND(t);
       if
       :: spawned < SPAWNS -> spawned++; here[t]++; live[me]++
       :: here[t]-- ;
#if BROKEN == 3
          if
          :: open[t] && here[t] == 0 ->
#else
          if
          :: open[t] && here[t] == 0 && away[t] == 0 ->
#endif
             open[t] = false;
             assert(nfull(outbox[PAIR(me, home[t])]));
             outbox[PAIR(me, home[t])]!parent[t]
          :: else
          fi;
          goto ran
       fi;
       t = 0 };
     goto end;
ran:
     atomic { live[me]--; t = 0 }
  od
}

#if BROKEN == 2
#define HAS_CREDIT(q) true
#else
#define HAS_CREDIT(q) (credits[PAIR(me, q)] != 0)
#endif
#if BROKEN == 5
#define MAY_GIVE(q) true
#else
#define MAY_GIVE(q) task_requested[PAIR(me, q)]
#endif

/* What there is to do with PE q. */
#if BROKEN == 6
#define RESULT(q) \
  :: (q) != me && result_come[PAIR(me, q)] -> \
     result_requested[PAIR(q, me)] = true; \
     atomic { t = result_place[PAIR(me, q)]; result_come[PAIR(me, q)] = false; };
#else
#define RESULT(q) \
  :: (q) != me && result_come[PAIR(me, q)] -> \
     atomic { t = result_place[PAIR(me, q)]; result_come[PAIR(me, q)] = false; }; \
     result_requested[PAIR(q, me)] = true;
#endif
#define WITH(q) \
  RESULT(q) \
     atomic { away[t]--; here[t]++; live[me]++ };  /* its continuation has come */ \
     atomic { credits[PAIR(me, q)]++; exported[me]--; t = 0 } \
  :: (q) != me && task_come[PAIR(me, q)] -> \
     atomic { \
       at[trees] = me; home[trees] = q; parent[trees] = task_place[PAIR(me, q)]; here[trees] = 1; open[trees] = true; \
       trees++; \
       live[me]++; \
       task_come[PAIR(me, q)] = false; \
       inviting[PAIR(me, q)] = false \
     } \
  :: (q) != me && nempty(outbox[PAIR(me, q)]) && result_requested[PAIR(me, q)] -> \
     atomic { \
       outbox[PAIR(me, q)]?t; \
       result_requested[PAIR(me, q)] = false; \
       assert(!result_come[PAIR(q, me)]); \
       result_place[PAIR(q, me)] = t; result_come[PAIR(q, me)] = true; \
       t = 0 \
     } \
  :: atomic { (q) != me && MAY_GIVE(q) && HAS_CREDIT(q) && live[me] > 1 && gifts < GIFTS && WAITS -> \
       gifts++; \
       FIND(t); \
       here[t]--; away[t]++; exported[me]++; live[me]--; \
       credits[PAIR(me, q)]-- \
     }; \
     atomic { \
       task_requested[PAIR(me, q)] = false; \
       assert(!task_come[PAIR(q, me)]); \
       task_place[PAIR(q, me)] = t; task_come[PAIR(q, me)] = true; \
       t = 0 \
     } \
  :: (q) != me && !inviting[PAIR(me, q)] -> \
     atomic { inviting[PAIR(me, q)] = true; task_requested[PAIR(q, me)] = true }

/* At least two tasks of this PE lie in channels: a task that a worker has finished is in `live` a moment longer. */
#define WAITS (sum_here(me) > 1)
#if PES == 2
#define sum_here(me) (SUM(0) + SUM(1) + SUM_GIFTS)
#else
#define sum_here(me) (SUM(0) + SUM(1) + SUM(2) + SUM_GIFTS)
#endif
#define SUM(t) (at[t] == me -> here[t] : 0)
#if GIFTS == 1
#define SUM_GIFTS SUM(PES)
#elif GIFTS == 2
#define SUM_GIFTS SUM(PES) + SUM(PES + 1)
#else
#define SUM_GIFTS SUM(PES) + SUM(PES + 1) + SUM(PES + 2)
#endif

#define ALL_FINISHED (OF_RUN(finished[PAIR(me, 0)]) && OF_RUN(finished[PAIR(me, 1)]) && OF_RUN(finished[PAIR(me, PES - 1)]))

proctype exchange(byte me) {
  byte t, i, run_ = 0;
  bool told;
  do
  :: run_ < RUNS ->
     atomic {
       left >= run_ * PES ->  /* the host's sum_all behind the run before */
       run_++;
       told = false;
       if
       :: run_ > 1 && me == 0 -> here[0]++; live[0]++
       :: else
       fi
     };
     /* begin */
     if
     :: run_ == 1 ->
        i = 0;
        do
        :: i == PES -> i = 0; break
        :: i != PES && i != me -> result_requested[PAIR(i, me)] = true; i++
        :: i == me -> i++
        od
     :: else
     fi;
     do
     WITH(0)
     WITH(1)
#if PES == 3
     WITH(2)
#endif
     /* tell: one after the other */
     :: !told && DONE(me) ->
        told = true;
        do
        :: i == PES -> i = 0; break
        :: else -> finished[PAIR(i, me)] = run_; i++
        od
     /* leave */
#if BROKEN == 4
     :: told -> break
#else
     :: told && ALL_FINISHED -> break
#endif
     od;
     skip;
     d_step {
       do
       :: i == TREES -> i = 0; break
       :: else -> assert(here[i] == 0 && away[i] == 0 && !open[i]); i++
       od;
       do
       :: i == PES * PES -> i = 0; break
       :: else -> assert(credits[i] == CREDITS && !task_come[i] && !result_come[i] && empty(outbox[i])); i++
       od;
       left++
     }
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    do
    :: i == PES * PES -> break
    :: else -> credits[i] = CREDITS; i++
    od;
    i = 0;
    do
    :: i == PES -> break
    :: else ->
       at[i] = i;
       here[i] = (OWN > i -> OWN - i : 0);
       live[i] = here[i];
       i++
    od;
    i = 0;
    do
    :: i == PES -> break
    :: else -> run worker(i); run exchange(i); i++
    od
  }
}
