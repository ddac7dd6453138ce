// Tasks that travel between PEs (lib/channel/shared_tasks.cuh): credits, results, and the end (until_the_end in lib/channel/shared_graph.cuh). What
// comes of one task of another PE is a tree here, whose result goes back when nothing of it is left, here or elsewhere. A tree is the number of its
// tasks; a task that runs may spawn one more. How messages travel is other models' matter; here they wait in channels of GUESTS places.
//
//   step here         in the code
//   run               a round of workers
//   take results      task_exchange::take_results
//   take tasks        task_exchange::take_tasks
//   send results      the continuation `returned`, task_exchange::send_results
//   give              task_exchange::give_some
//   ask               task_exchange::ask
//   tell              tell_all(finished), to one PE after the other
//
// Claims: a channel has room for whatever comes; when a PE leaves, nothing is left anywhere, and in the end all credits are back. All PEs leave: if
// one does not, that shows as an invalid end state.
//
// BROKEN=1: who has lent tasks may have finished.          BROKEN=2: nobody looks at credits.
// BROKEN=3: a tree has a result though it has lent some.   BROKEN=4: who has finished leaves.
// BROKEN=5: who has nothing again tells it again.
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
#define OWN 2 /* tasks of PE 0 to begin with; of the others 1 less, each, down to 0 */
#endif
#ifndef SPAWNS
#define SPAWNS 2
#endif
#ifndef GIFTS
#define GIFTS 3
#endif
#define TREES (PES + GIFTS)
#define CREDITS (GUESTS / PES)

chan tasks[PES] = [GUESTS] of { byte, byte };   /* from, its tree there */
chan results[PES] = [GUESTS] of { byte, byte };
byte at[TREES], home[TREES], parent[TREES], here[TREES], away[TREES];
bool open[TREES];
byte trees = PES, spawned, gifts;
byte live[PES], lent[PES], finished[PES], credits[PES * PES];
bool asked[PES * PES], asking[PES * PES];

#define PAIR(p, q) ((p) * PES + (q))
#if BROKEN == 1
#define DONE(p) (live[p] == 0)
#else
#define DONE(p) (live[p] == 0 && lent[p] == 0)
#endif

proctype pe(byte me) {
  byte t, from, tree, i;
  bool told, wants;
  do
  :: true ->
     /* something to do, or the end */
     atomic {
       wants = false;
       i = 0;
       do
       :: i == PES -> break
       :: else -> wants = wants || (i != me && !asking[PAIR(me, i)]); i++
       od;
     }
     live[me] != 0 || nempty(tasks[me]) || nempty(results[me]) || finished[me] >= PES || (!told && DONE(me)) || (wants && live[me] == 0);
#if BROKEN == 4
     if :: told -> break :: else fi;
#endif
     if
     :: finished[me] >= PES -> break
     :: else
     fi;
     /* run: at least one, if there is one */
     atomic {
       do
       :: live[me] == 0 -> break
       :: live[me] != 0 ->
          t = 0;
          do
          :: at[t] == me && here[t] != 0 -> break
          :: else -> t++
          od;
          if
          :: spawned < SPAWNS -> spawned++; here[t]++; live[me]++
          :: here[t]--; live[me]--
          fi;
          if
          :: true -> break
          :: true
          fi
       od
     };
     /* take results */
     atomic {
       do
       :: results[me]?from,tree ->
          away[tree]--;
          lent[me]--;
          credits[PAIR(me, from)]++
       :: empty(results[me]) -> break
       od
     };
     /* take tasks */
     atomic {
       do
       :: tasks[me]?from,tree ->
          at[trees] = me; home[trees] = from; parent[trees] = tree; here[trees] = 1; open[trees] = true;
          trees++;
          live[me]++;
          asking[PAIR(me, from)] = false
       :: empty(tasks[me]) -> break
       od
     };
     /* send results */
     t = PES;
     do
     :: t >= trees -> break
     :: t < trees ->
        atomic {
          if
#if BROKEN == 3
          :: at[t] == me && open[t] && here[t] == 0 ->
#else
          :: at[t] == me && open[t] && here[t] == 0 && away[t] == 0 ->
#endif
             open[t] = false;
             assert(nfull(results[home[t]]));
             results[home[t]]!me,parent[t]
          :: else
          fi;
          t++
        }
     od;
     /* give: some of what there is, at most to the last */
     i = 0;
     do
     :: i == PES -> break
     :: i != PES && !asked[PAIR(me, i)] -> i++
     :: i != PES && asked[PAIR(me, i)] ->
        do
#if BROKEN == 2
        :: atomic { live[me] > 1 && gifts < GIFTS ->
#else
        :: atomic { credits[PAIR(me, i)] != 0 && live[me] > 1 && gifts < GIFTS ->
#endif
             gifts++;
             t = 0;
             do
             :: at[t] == me && here[t] != 0 -> break
             :: else -> t++
             od;
             here[t]--; away[t]++; live[me]--; lent[me]++;
             credits[PAIR(me, i)]--;
             asked[PAIR(me, i)] = false };
           atomic { assert(nfull(tasks[i])); tasks[i]!me,t }
        :: break
        od;
        i++
     od;
     /* ask */
     atomic {
       i = 0;
       do
       :: i == PES -> break
       :: else ->
          if
          :: live[me] == 0 && i != me && !asking[PAIR(me, i)] -> asking[PAIR(me, i)] = true; asked[PAIR(i, me)] = true
          :: else
          fi;
          i++
       od;
       i = 0; t = 0; from = 0; tree = 0
     };
     /* tell */
     if
#if BROKEN == 5
     :: DONE(me) ->
#else
     :: !told && DONE(me) ->
#endif
        told = true;
        i = 0;
        do
        :: i == PES -> break
        :: else -> finished[i]++; i++
        od
     :: else
     fi
  od;
  /* nothing is left anywhere */
  skip;
  d_step {
    i = 0;
    do
    :: i == PES -> break
    :: else ->
       assert(live[i] == 0 && lent[i] == 0 && empty(tasks[i]) && empty(results[i]));
       i++
    od;
    i = 0;
    do
    :: i == PES * PES -> break
    :: else -> assert(credits[i] == CREDITS); i++
    od
  }
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
    :: else -> run pe(i); i++
    od
  }
}
