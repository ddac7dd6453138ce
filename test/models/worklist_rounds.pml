// Rounds of all PEs in one kernel (lib/worklist/rounds_of_all.cuh): which PE has entries, when ghosts are sent, when
// the lists may be turned over, and the end. A PE is one process: its blocks join as in gravel_barrier. Lists are
// numbers of entries; far entries become near when the limit moves.
//
//   step here        in the code
//   expand           expand_near_list, and turn_near_over after it
//   report, barrier  report_to_all, gravel_barrier [W5] [W6] [W7]: the messages of this PE are applied, all are here
//   handle           gravel_worklist_delivery: reads which list is current, then appends
//
// With ONCE=1 a PE expands its near list once between two exchanges, as worklists of sums do.
//
// Claims: when a PE finds the end, all entries that were ever made have been expanded, at all PEs; all PEs find it. If
// one does not, that shows as an invalid end state.
//
// BROKEN=1: the reports leave out ghosts.
// BROKEN=2: ghosts are sent without [W5] before.
// BROKEN=3: lists are turned over after [W5].
// BROKEN=4: [W6] does not wait until all messages are applied.
// BROKEN=5: no [W7] before the least is read.
// BROKEN=6: the reports leave out near entries.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef ONCE
#define ONCE 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef MAKES
#define MAKES 4 /* entries, the first of PE 0 among them */
#endif

byte near[PES * 2], turn[PES], far[PES], remote[PES]; /* of one PE; near: two lists */
byte coming[PES], unapplied[PES], from_whom[PES * PES]; /* to PE p; of PE p; at (p, q) on their way from q to p */
byte reported[2 * PES * PES];             /* at (p, q): the report of q to p; SOME and LEAST */
#define SOME 0
#define LEAST (PES * PES)
byte arrived[PES], made = 1, expanded, ends;

inline report(what, value) {
  i = 0;
  do
  :: i < PES -> reported[what + i * PES + me] = value; i++
  :: else -> break
  od
}
inline barrier() {
  atomic { unapplied[me] == 0 -> arrived[me]++ }
  arrive()
}
inline arrive() {
  i = 0;
  do
  :: i < PES -> (arrived[i] >= arrived[me]); i++
  :: else -> break
  od
}
inline add_up() {
  i = 0; sum = 0;
  do
  :: i < PES -> sum = sum + reported[SOME + me * PES + i]; i++
  :: else -> break
  od
}
inline turn_over() {
  d_step { near[me * 2 + turn[me]] = 0; turn[me] = 1 - turn[me] }
}

proctype pe(byte me) {
  byte i, n, sum, to;
  do
  :: true ->
     do
     :: near[me * 2 + turn[me]] > 0 ->
        n = near[me * 2 + turn[me]];
        do
        :: n > 0 ->
           do
           :: atomic { made < MAKES -> made++; near[me * 2 + 1 - turn[me]]++ }
           :: atomic { made < MAKES -> made++; far[me]++ }
           :: atomic { made < MAKES -> made++; remote[me]++ }
           :: break
           od;
           n--; expanded++
        :: else -> break
        od;
#if BROKEN == 3
        break
#else
        turn_over();
#if ONCE
        break
#endif
#endif
     :: else -> break
     od;
#if BROKEN == 1
     report(SOME, near[me * 2 + turn[me]]);
#elif BROKEN == 6
     report(SOME, remote[me]);
#elif BROKEN == 3
     report(SOME, near[me * 2 + 1 - turn[me]] + remote[me]);
#else
     report(SOME, near[me * 2 + turn[me]] + remote[me]);
#endif
#if BROKEN != 2
     barrier(); /* [W5] */
#endif
#if BROKEN == 3
     turn_over();
#endif
#if BROKEN != 2
     add_up();
#endif
     if
#if BROKEN == 2
     :: true ->
#else
     :: sum > 0 ->
#endif
        do
        :: remote[me] > 0 ->
           to = (me + 1) % PES;
#if PES > 2
           if
           :: to = (me + 2) % PES
           :: true
           fi;
#endif
           atomic { remote[me]--; unapplied[me]++; coming[to]++; from_whom[to * PES + me]++ }
        :: else -> break
        od;
#if BROKEN == 4
        arrived[me]++;
        arrive();
#else
        barrier(); /* [W6] */
#endif
#if BROKEN == 2
        add_up();
        if
        :: sum == 0 -> break
        :: else
        fi
#endif
#if BROKEN != 2
     :: else ->
        report(LEAST, far[me] > 0);
#if BROKEN == 5
        skip;
#else
        barrier(); /* [W7] */
#endif
        i = 0; sum = 0;
        do
        :: i < PES -> sum = sum + reported[LEAST + me * PES + i]; i++
        :: else -> break
        od;
        if
        :: sum == 0 -> break
        :: else -> near[me * 2 + turn[me]] = near[me * 2 + turn[me]] + far[me]; far[me] = 0
        fi
#endif
     fi
  od;
  assert(expanded == made);
  ends++
}

proctype handler(byte me) {
  byte which, who;
  do
  :: atomic { coming[me] > 0 -> coming[me]--; who = 0;
       do
       :: from_whom[me * PES + who] > 0 -> break
       :: else -> who++
       od;
       from_whom[me * PES + who]--;
     }
     which = turn[me];
     if
     :: near[me * 2 + which]++
     :: far[me]++
     :: atomic { expanded++; } /* no better than what is there */
     fi;
     unapplied[who]--
  :: ends == PES -> break
  od
}

init {
  byte p = 0;
  atomic {
    near[0] = 1;
    do
    :: p < PES -> run pe(p); run handler(p); p++
    :: else -> break
    od
  }
}
