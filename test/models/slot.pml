// The slot protocol of lib/base/queue.hpp with its consumers (host/aggregator/plane.cpp): producers claim tickets, planes take every
// P-th slot, and a flush returns once everything with a ticket below its target is applied.
//
//   step here          in the code                                                             label
//   claim              queue::claim: fetch_add(tickets); fast path by the cached consumed_below
//   read_consumed      the minimum over all planes, word by word; raise_to(consumed_below)     [Q2] acquire
//   fill               runs and payload: two words here, so that half a slot can be seen
//   publish            published = ticket + 1                                                  [Q1] release
//   take               plane::take_from: published == ticket + 1, then read                    [Q1] acquire
//   consumed           consumed += 1                                                           [Q2] release
//   ask                ask_flush, once: raise `asked`, store, look at `asked` again; a store may overwrite a higher target
//   notice             notice_flush_target: the highest target seen
//   start, finish      finish_flushes: packets are closed; flush_done once they are applied
//   network            applies what lies in closed packets
//
// Tickets run to several times the number of slots: the ring wraps. Claims: a slot is read as it was written, each
// ticket once, in the order of its plane; flush(target) returns after the producer's messages are applied, and does
// return. Every wait of the model waits for a change, so what would spin forever shows as an invalid end state.
//
// Orders of memory: a release store is one that comes behind the stores before it. Without it either may come first:
// BROKEN=1: publish without release [Q1]. BROKEN=2: the plane reads the slot before it sees it published (no acquire).
// BROKEN=3: consumed without release [Q2]: the slot is given back while it is read.
// BROKEN=4: a producer does not wait until its slot is free. BROKEN=5: it looks at one plane only.
// BROKEN=6: who asked for a flush does not look again. BROKEN=7: flush_done before the packets are applied.
// BROKEN=8: a flush starts before all tickets below its target are taken. BROKEN=9: a flush is asked for in the aggregator's
// word first, and in the producers' then.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PLANES
#define PLANES 2
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef SENDS
#define SENDS 3
#endif
#define SLOTS 2
#define TICKETS (PRODUCERS * SENDS)

/* The producers' words. */
byte tickets, consumed_below, asked;
/* Slots: written by producers. */
byte published[SLOTS], head[SLOTS], tail[SLOTS];
byte flush_target;
/* The planes' words. */
byte consumed[PLANES], flush_done[PLANES];
/* Packets of each plane: slots in closed ones, and those applied. */
byte closed[PLANES], applied[PLANES];
byte holder[SLOTS];  /* ghost: ticket + 1 of who may write the slot */
byte finished;

#define NEXT(p, taken) ((taken) * PLANES + (p))
#define SLOT(t) ((t) % SLOTS)
#define IS_FREE(t, below) ((t) < (below) + SLOTS)
/* Ticket t is applied when its plane has applied more than t / PLANES slots. */
#define APPLIED(t) (applied[(t) % PLANES] > (t) / PLANES)

inline read_consumed(to) {
  to = 255;
  k = 0;
  do
#if BROKEN == 5
  :: k < 1 ->
#else
  :: k < PLANES ->
#endif
     /* [Q2] acquire, one plane after the other: the minimum may be old, never too high */
     atomic { to = (NEXT(k, consumed[k]) < to -> NEXT(k, consumed[k]) : to); k++ }
  :: else -> k = 0; break
  od
}

/* Was anything consumed since `lowest` was read? Spares the model the rounds that see what they saw before. */
inline wait_for_consumed() {
#if BROKEN == 5
  NEXT(0, consumed[0]) > lowest
#elif PLANES == 1
  NEXT(0, consumed[0]) > lowest
#elif PLANES == 2
  NEXT(0, consumed[0]) > lowest && NEXT(1, consumed[1]) > lowest
#else
  NEXT(0, consumed[0]) > lowest && NEXT(1, consumed[1]) > lowest && NEXT(2, consumed[2]) > lowest
#endif
}

#if PLANES == 1
#define FLUSHED(t) (flush_done[0] >= (t))
#elif PLANES == 2
#define FLUSHED(t) (flush_done[0] >= (t) && flush_done[1] >= (t))
#else
#define FLUSHED(t) (flush_done[0] >= (t) && flush_done[1] >= (t) && flush_done[2] >= (t))
#endif

proctype producer(byte me) {
  byte ticket, lowest, k, n, last, target;
  do
  :: n == SENDS -> break
  :: else ->
     d_step { ticket = tickets; tickets++ };  /* claim */
#if BROKEN != 4
     do
     :: IS_FREE(ticket, consumed_below) -> break
     :: else ->
        read_consumed(lowest);
        atomic {  /* raise_to, which returns the larger */
          lowest = (lowest > consumed_below -> lowest : consumed_below);
          consumed_below = lowest
        };
        if
        :: IS_FREE(ticket, lowest) -> break
        :: else -> wait_for_consumed()
        fi
     od;
#endif
     atomic {
       lowest = 0;
       assert(holder[SLOT(ticket)] == 0);
       holder[SLOT(ticket)] = ticket + 1;
       head[SLOT(ticket)] = ticket + 1
     };
#if BROKEN == 1
     if
     :: published[SLOT(ticket)] = ticket + 1; tail[SLOT(ticket)] = ticket + 1
     :: tail[SLOT(ticket)] = ticket + 1; published[SLOT(ticket)] = ticket + 1
     fi;
#else
     tail[SLOT(ticket)] = ticket + 1;
     published[SLOT(ticket)] = ticket + 1;  /* [Q1] release */
#endif
     d_step { last = ticket; ticket = 0; n++ }
  od;
  /* flush_all(): a lane's own tickets are below the target */
  target = tickets;
  if
  :: asked >= target  /* who raised it sees to it */
  :: else ->
#if BROKEN == 9
     flush_target = target;
#endif
     atomic { asked = (asked > target -> asked : target); k = asked };  /* raise_to */
#if BROKEN != 9
     flush_target = k;
#endif
#if BROKEN != 6
     do  /* behind a fence */
     :: asked == k -> break
     :: asked != k -> k = asked; flush_target = k
     od
#endif
  fi;
  FLUSHED(target);
  assert(APPLIED(last));
  /* All planes have finished: nothing below the target is missing. */
  d_step {
    k = 0;
    do
    :: k < target -> assert(APPLIED(k)); k++
    :: else -> break
    od;
    k = 0;
    finished++
  }
}

proctype plane(byte me) {
  byte taken, seen, started, got;
  byte target, until, target2, until2;  /* flushes under way: 0 or the target, and how many slots must be applied */
end:
  do
#if BROKEN == 2
  :: NEXT(me, taken) < TICKETS && got == 0 -> got = tail[SLOT(NEXT(me, taken))] + 100
  :: NEXT(me, taken) < TICKETS && got != 0 && published[SLOT(NEXT(me, taken))] == NEXT(me, taken) + 1 ->
     assert(head[SLOT(NEXT(me, taken))] == NEXT(me, taken) + 1);
     got = got - 100;
#else
  :: NEXT(me, taken) < TICKETS && published[SLOT(NEXT(me, taken))] == NEXT(me, taken) + 1 ->  /* [Q1] acquire */
#if BROKEN == 3
     consumed[me] = taken + 1;
     holder[SLOT(NEXT(me, taken))] = 0;
#endif
     assert(head[SLOT(NEXT(me, taken))] == NEXT(me, taken) + 1);
     got = tail[SLOT(NEXT(me, taken))];
#endif
     assert(got == NEXT(me, taken) + 1);
     d_step {
       got = 0;
#if BROKEN != 3
       assert(holder[SLOT(NEXT(me, taken))] == NEXT(me, taken) + 1);
       holder[SLOT(NEXT(me, taken))] = 0;
       consumed[me] = taken + 1;  /* [Q2] release */
#endif
       taken = taken + 1;
       /* a packet of two slots is full and leaves by itself */
       closed[me] = (taken - closed[me] >= 2 -> taken : closed[me])
     }
  :: flush_target > seen -> seen = flush_target  /* notice */
#if BROKEN == 8
  :: seen > started && target2 == 0 ->
#else
  :: seen > started && target2 == 0 && NEXT(me, taken) >= seen ->  /* start */
#endif
     d_step {
       started = seen;
       closed[me] = taken;
       if
       :: target == 0 -> target = seen; until = taken
       :: else -> target2 = seen; until2 = taken
       fi
     }
#if BROKEN == 7
  :: target != 0 ->
#else
  :: target != 0 && applied[me] >= until ->  /* finish, in order */
#endif
     d_step {
       flush_done[me] = target;
       target = target2; until = until2;
       target2 = 0; until2 = 0
     }
  od
}

/* Packets of one plane and destination are applied in order. */
proctype network() {
end:
  do
  :: applied[0] < closed[0] -> applied[0] = closed[0]
#if PLANES > 1
  :: applied[1] < closed[1] -> applied[1] = closed[1]
#endif
#if PLANES > 2
  :: applied[2] < closed[2] -> applied[2] = closed[2]
#endif
  od
}

init {
  byte i;
  atomic {
    i = 0;
    do
    :: i < PRODUCERS -> run producer(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < PLANES -> run plane(i); i++
    :: else -> break
    od;
    i = 0;
    run network()
  };
  finished == PRODUCERS;
  assert(tickets == TICKETS)
}
