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
// With ITEMS=1 they are worklists of items (lib/worklist/item_rounds.cuh): items are sent while others are processed,
// handlers put them into the list of the next round, and may pass on up to PASSES of them. The barrier does not wait
// for those.
//
//   process            process_round
//   await_passed_on    await_passed_on: how many messages all have received, then how many all have sent
//   turn over          turn_near_over, behind [W5] and before [W6]
//
// Claims: when a PE finds the end, all entries that were ever made have been expanded, at all PEs; all PEs find it. If
// one does not, that shows as an invalid end state. Items of a round are listed for the next one, also by handlers.
//
// BROKEN=1: the reports leave out ghosts.
// BROKEN=2: ghosts are sent without [W5] before.
// BROKEN=3: lists are turned over after [W5].
// BROKEN=4: [W6] does not wait until all messages are applied.
// BROKEN=5: no [W7] before the least is read.
// BROKEN=6: the reports leave out near entries.
// BROKEN=7: items; lists are turned over behind [W6].
// BROKEN=8: items; nobody waits for those that handlers pass on.
// BROKEN=9: items; lists are turned over before [W5].
// BROKEN=10: items; messages are counted as received before those that their handlers pass on are counted as sent.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef ONCE
#define ONCE 0
#endif
#ifndef ITEMS
#define ITEMS 0
#endif
#ifndef PASSES
#define PASSES 2 /* items that handlers pass on, in all */
#endif
#ifndef PES
#define PES 2
#endif
#ifndef MAKES
#define MAKES 4 /* entries, the first of PE 0 among them */
#endif

byte near[PES * 2], turn[PES], far[PES], remote[PES]; /* of one PE; near: two lists */
byte coming[PES], unapplied[PES], from_whom[PES * PES]; /* to PE p; of PE p; at (p, q) on their way from q to p */
byte reported[4 * PES * PES];             /* at (p, q): the report of q to p, of each kind */
#define SOME 0
#define LEAST (PES * PES)
#define RECEIVED (2 * PES * PES)
#define SENT (3 * PES * PES)
byte arrived[PES], made = 1, expanded, ends;

inline report(what, value) {
  i = 0;
  do
  :: i < PES -> reported[what + i * PES + me] = value; i++
  :: else -> break
  od
}
inline barrier() {
  atomic { unapplied[me] == 0 -> arrived[me] = (arrived[me] + 1) % 4 }
  arrive()
}
inline arrive() {
  i = 0;
  do
  :: i < PES -> (arrived[i] != (arrived[me] + 3) % 4); i++ /* a PE is at most one barrier behind */
  :: else -> break
  od
}
inline add_up_all(what) {
  i = 0; sum = 0;
  do
  :: i < PES -> sum = sum + reported[what + me * PES + i]; i++
  :: else -> break
  od
}
inline add_up() {
  add_up_all(SOME)
}
inline turn_over() {
  d_step { near[me * 2 + turn[me]] = 0; turn[me] = 1 - turn[me] }
}

#if !ITEMS
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
        arrived[me] = (arrived[me] + 1) % 4;
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
        add_up_all(LEAST);
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

#else
byte received[PES], sent[PES], passes;
/* Items on their way to PE p, of an odd or an even round: those that kernels of PE q send, and those passed on. */
byte items[PES * PES * 2], passed[PES * 2];
bool odd[PES]; /* the round that each PE is in */

inline choose_other() {
  to = (me + 1) % PES;
#if PES > 2
  if
  :: to = (me + 2) % PES
  :: true
  fi
#endif
}
inline await_passed_on() {
  do
  :: true ->
     n = received[me];
     report(RECEIVED, n);
     barrier();
     add_up_all(RECEIVED);
     n = sum;
     to = sent[me];
     report(SENT, to);
     barrier();
     add_up_all(SENT);
     if
     :: n == sum -> break
     :: else
     fi
  od
}

proctype pe(byte me) {
  byte i, n, sum, to;
#if BROKEN == 7
  bool ended_round;
#endif
  do
  :: true ->
#if BROKEN == 7
     if
     :: ended_round -> report(SOME, near[me * 2 + 1 - turn[me]])
     :: else -> report(SOME, near[me * 2 + turn[me]])
     fi;
#else
     report(SOME, near[me * 2 + turn[me]]);
#endif
     barrier(); /* [W6] */
#if BROKEN == 7
     if
     :: ended_round -> d_step { turn_over(); odd[me] = 1 - odd[me]; ended_round = false }
     :: else
     fi;
#endif
     add_up();
     if
     :: sum > 0 ->
        n = near[me * 2 + turn[me]];
        do
        :: n > 0 ->
           do
           :: atomic { made < MAKES -> made++; near[me * 2 + 1 - turn[me]]++ }
           :: atomic { made < MAKES -> made++; far[me]++ }
           :: atomic { made < MAKES -> made++; sent[me]++ };
              choose_other();
              atomic { unapplied[me]++; coming[to]++; items[(to * PES + me) * 2 + odd[me]]++ }
           :: break
           od;
           n--; expanded++
        :: else -> break
        od;
#if BROKEN == 9
        d_step { turn_over(); odd[me] = 1 - odd[me] };
#endif
        barrier(); /* [W5] */
#if BROKEN != 8
        await_passed_on();
#endif
#if BROKEN == 7
        ended_round = true
#elif BROKEN != 9
        d_step { turn_over(); odd[me] = 1 - odd[me] }
#endif
     :: else ->
        report(LEAST, far[me] > 0);
        barrier(); /* [W7] */
        add_up_all(LEAST);
        if
        :: sum == 0 -> break
        :: else -> near[me * 2 + turn[me]] = near[me * 2 + turn[me]] + far[me]; far[me] = 0
        fi
     fi
  od;
  assert(expanded == made);
  ends++
}

proctype handler(byte me) {
  byte which, k, who, to;
  bool of_odd, was_passed;
  do
  :: atomic { passed[me * 2] > 0 -> passed[me * 2]--; of_odd = false; was_passed = true }; goto take
  :: atomic { passed[me * 2 + 1] > 0 -> passed[me * 2 + 1]--; of_odd = true; was_passed = true }; goto take
  :: atomic { coming[me] > 0 -> coming[me]--; k = 0;
       do
       :: items[me * PES * 2 + k] > 0 -> break
       :: else -> k++
       od;
       items[me * PES * 2 + k]--; who = k / 2; of_odd = k % 2; was_passed = false; k = 0
     }
take:
     which = 1 - turn[me];
#if BROKEN == 10
     received[me]++;
#endif
     if
     :: d_step { assert(odd[me] == of_odd); near[me * 2 + which]++ }
     :: d_step { assert(odd[me] == of_odd); far[me]++ }
     :: expanded++ /* dropped */
     :: atomic { passes < PASSES -> passes++; sent[me]++ };
        choose_other();
        passed[to * 2 + of_odd]++
     fi;
#if BROKEN != 10
     received[me]++;
#endif
     if
     :: was_passed
     :: else -> unapplied[who]--
     fi
  :: ends == PES -> break
  od
}
#endif

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
