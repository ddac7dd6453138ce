// Work sharing between PEs (lib/taskgraph/shared_tasks.cuh) by transfers (lib/taskgraph/transfers.cuh): credits,
// results and the end. Workers run all the while. An imported task and its descendants are a tree here. The result of a
// tree goes back when no task of the tree is left, here or elsewhere. A tree is the number of its tasks; a task that
// runs may spawn one more. A transfer has one element. For each pair of PEs a flag `requested` stands for granted >
// sent, and `arrived` for arrived > taken. Other models check how signals travel.
//
//   step here         in the code
//   worker            a batch; the continuation `returned`
//   begin             task_exchange::begin: requests results, the first time
//   result            task_exchange::take_results
//   task              task_exchange::take_tasks
//   send              task_exchange::send_results
//   export            task_exchange::export_to
//   request           task_exchange::request_tasks, at any time
//   notify, leave     task_exchange::poll_end
//
// Claims: a place is free when something is stored there; an outbox has room for each result; when a PE leaves, no task
// is left anywhere, and all credits are back. All PEs leave all runs: if one does not, that shows as an invalid end
// state.
//
// BROKEN=1: a PE with exported tasks may have finished.        BROKEN=2: credits are ignored.
// BROKEN=3: a tree has a result though it has exported tasks.  BROKEN=4: a PE that has finished leaves.
// BROKEN=5: tasks are sent without a request.
// BROKEN=6: results are requested before the last ones are read.
// BROKEN=7: the notice of the end does not say for which run it is.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef IMPORTED
#define IMPORTED 2
#endif
#ifndef OWN
#define OWN 2 /* tasks of PE 0 in the first run; each further PE has one less, down to 0; in later runs PE 0 has 1 */
#endif
#ifndef SPAWNS
#define SPAWNS 1
#endif
#ifndef EXPORTS
#define EXPORTS 2
#endif
#ifndef RUNS
#define RUNS 1
#endif
#define TREES (PES + EXPORTS)
#define CREDITS (IMPORTED / PES)
#define PAIR(p, q) ((p) * PES + (q))

chan outbox[PES * PES] = [CREDITS] of { byte };  /* at p for q: trees at q */
byte task_place[PES * PES], result_place[PES * PES];  /* at p from q: a tree at q; one at p */
bool task_arrived[PES * PES], result_arrived[PES * PES];
bool task_requested[PES * PES], result_requested[PES * PES];  /* of p by q */
bool outstanding[PES * PES];  /* p has requested tasks of q, and none has arrived */
byte at[TREES], home[TREES], parent[TREES], here[TREES], away[TREES];
bool open[TREES];
byte trees = PES, spawned, exports, left;
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

/* A tree at this PE with a task that has not run. */
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
#define MAY_SEND(q) true
#else
#define MAY_SEND(q) task_requested[PAIR(me, q)]
#endif

/* The steps that concern PE q. */
#if BROKEN == 6
#define RESULT(q) \
  :: (q) != me && result_arrived[PAIR(me, q)] -> \
     result_requested[PAIR(q, me)] = true; \
     atomic { t = result_place[PAIR(me, q)]; result_arrived[PAIR(me, q)] = false; };
#else
#define RESULT(q) \
  :: (q) != me && result_arrived[PAIR(me, q)] -> \
     atomic { t = result_place[PAIR(me, q)]; result_arrived[PAIR(me, q)] = false; }; \
     result_requested[PAIR(q, me)] = true;
#endif
#define WITH(q) \
  RESULT(q) \
     atomic { away[t]--; here[t]++; live[me]++ };  /* its continuation has its input */ \
     atomic { credits[PAIR(me, q)]++; exported[me]--; t = 0 } \
  :: (q) != me && task_arrived[PAIR(me, q)] -> \
     atomic { \
       at[trees] = me; home[trees] = q; parent[trees] = task_place[PAIR(me, q)]; here[trees] = 1; open[trees] = true; \
       trees++; \
       live[me]++; \
       task_arrived[PAIR(me, q)] = false; \
       outstanding[PAIR(me, q)] = false \
     } \
  :: (q) != me && nempty(outbox[PAIR(me, q)]) && result_requested[PAIR(me, q)] -> \
     atomic { \
       outbox[PAIR(me, q)]?t; \
       result_requested[PAIR(me, q)] = false; \
       assert(!result_arrived[PAIR(q, me)]); \
       result_place[PAIR(q, me)] = t; result_arrived[PAIR(q, me)] = true; \
       t = 0 \
     } \
  :: atomic { (q) != me && MAY_SEND(q) && HAS_CREDIT(q) && live[me] > 1 && exports < EXPORTS && HAS_TASKS -> \
       exports++; \
       FIND(t); \
       here[t]--; away[t]++; exported[me]++; live[me]--; \
       credits[PAIR(me, q)]-- \
     }; \
     atomic { \
       task_requested[PAIR(me, q)] = false; \
       assert(!task_arrived[PAIR(q, me)]); \
       task_place[PAIR(q, me)] = t; task_arrived[PAIR(q, me)] = true; \
       t = 0 \
     } \
  :: (q) != me && !outstanding[PAIR(me, q)] -> \
     atomic { outstanding[PAIR(me, q)] = true; task_requested[PAIR(q, me)] = true }

/* At least two tasks of this PE lie in channels. (`live` counts a finished task a moment longer.) */
#define HAS_TASKS (sum_here(me) > 1)
#if PES == 2
#define sum_here(me) (SUM(0) + SUM(1) + SUM_EXPORTS)
#else
#define sum_here(me) (SUM(0) + SUM(1) + SUM(2) + SUM_EXPORTS)
#endif
#define SUM(t) (at[t] == me -> here[t] : 0)
#if EXPORTS == 1
#define SUM_EXPORTS SUM(PES)
#elif EXPORTS == 2
#define SUM_EXPORTS SUM(PES) + SUM(PES + 1)
#else
#define SUM_EXPORTS SUM(PES) + SUM(PES + 1) + SUM(PES + 2)
#endif

#define ALL_FINISHED \
  (OF_RUN(finished[PAIR(me, 0)]) && OF_RUN(finished[PAIR(me, 1)]) && OF_RUN(finished[PAIR(me, PES - 1)]))

proctype exchange(byte me) {
  byte t, i, run_ = 0;
  bool notified;
  do
  :: run_ < RUNS ->
     atomic {
       left >= run_ * PES ->  /* the host's sum_all after the run before */
       run_++;
       notified = false;
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
     /* notify: one PE after the other */
     :: !notified && DONE(me) ->
        notified = true;
        do
        :: i == PES -> i = 0; break
        :: else -> finished[PAIR(i, me)] = run_; i++
        od
     /* leave */
#if BROKEN == 4
     :: notified -> break
#else
     :: notified && ALL_FINISHED -> break
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
       :: else -> assert(credits[i] == CREDITS && !task_arrived[i] && !result_arrived[i] && empty(outbox[i])); i++
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
