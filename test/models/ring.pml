// The ring (lib/base/ring.hpp): sources take tickets, fill slots and publish them; takers read the slots and free them.
//
//   step here      in the code                                                                     label
//   claim          a ticket: of a counter that all sources share; then wait until its slot is free  [P2] acquire
//   fill           the content of the slot: two words here, so that half a slot can be seen
//   publish        ring::publish: published = ticket + 1                                            [P1] release
//   take           ring::arrived: published == ticket + 1; then read                                [P1] acquire
//   done           ring::mark_done                                                                  [P2] release
//
// Which tickets a taker gets, and how it says what is done:
//   TAKE 0  planes of the queue: taker i of T takes tickets i, i+T, ... in order; `done` is one count for each taker. A
//           source reads the lowest count of all, which is remembered for all sources (queue_state::consumed_below).
//   TAKE 1  rings in GPU memory: each taker draws its next ticket (ring_place); `done` is a word for each slot
//   TAKE 2  landing ring: takers claim packets in order (stream_state::next); a word for each slot
//
// Tickets run to several times the number of slots: the ring wraps. Claims: a slot is read as it was written, each
// ticket once; no slot is overwritten before it is read; all end. Every wait of the model waits for a change, so a loop
// that would spin for ever shows as an invalid end state.
//
// Orders of memory: a release store becomes visible after the stores before it. Without release either may be first.
// BROKEN=1: publish without release [P1].
// BROKEN=2: a taker reads the slot before it sees it published (no acquire).
// BROKEN=3: done without release [P2]: the slot is freed while it is read.
// BROKEN=4: a source does not wait until its slot is free.
// BROKEN=5 (TAKE 0): a source reads the count of one plane only.
// BROKEN=6 (TAKE 1): a taker waits for the ticket after its own and draws none.
// BROKEN=7 (TAKE 2): takers read which packet is next, and claim it later.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef TAKE
#define TAKE 0
#endif
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef SOURCES
#define SOURCES 2
#endif
#ifndef SENDS
#define SENDS 3
#endif
#define SLOTS 2
#define TICKETS (SOURCES * SENDS)

/* The sources' words. */
byte tickets, done_below;
/* Slots, written by sources. */
byte published[SLOTS], head[SLOTS], tail[SLOTS];
/* Written by takers: a count for each taker (TAKE 0), else ticket + 1 for each slot. */
byte done_word[3];
/* The takers' own. */
byte drawn;
byte holder[SLOTS];   /* ghost: ticket + 1 of who may write the slot */
bool read[TICKETS];   /* ghost */
byte n_read;

#define NEXT(i, taken) ((taken) * TAKERS + (i))
#define SLOT(t) ((t) % SLOTS)
#define IS_FREE(t, below) ((t) < (below) + SLOTS)

#if TAKE == 0
inline read_done(to) {
  to = 255;
  k = 0;
  do
#if BROKEN == 5
  :: k < 1 ->
#else
  :: k < TAKERS ->
#endif
     /* one taker after the other: the minimum may be old, never too high */
     atomic { to = (NEXT(k, done_word[k]) < to -> NEXT(k, done_word[k]) : to); k++ }
  :: else -> k = 0; break
  od
}
/* Was anything done since `lowest` was read? Spares the model the rounds that see what they saw before. */
#if TAKERS == 1 || BROKEN == 5
#define CHANGED (NEXT(0, done_word[0]) > lowest)
#elif TAKERS == 2
#define CHANGED (NEXT(0, done_word[0]) > lowest && NEXT(1, done_word[1]) > lowest)
#else
#define CHANGED (NEXT(0, done_word[0]) > lowest && NEXT(1, done_word[1]) > lowest && NEXT(2, done_word[2]) > lowest)
#endif
inline wait_until_free(t) {
  do
  :: IS_FREE(t, done_below) -> break
  :: else ->
     read_done(lowest);
     atomic { lowest = (lowest > done_below -> lowest : done_below); done_below = lowest };  /* raise_to */
     if
     :: IS_FREE(t, lowest) -> break
     :: else -> CHANGED
     fi
  od
}
#else
inline wait_until_free(t) { (t) < SLOTS || done_word[SLOT(t)] == (t) - SLOTS + 1 }
#endif

proctype source() {
  byte ticket, lowest, k, n;
  do
  :: n == SENDS -> break
  :: else ->
     d_step { ticket = tickets; tickets++ };
#if BROKEN != 4
     wait_until_free(ticket);
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
     published[SLOT(ticket)] = ticket + 1;  /* [P1] release */
#endif
     d_step { ticket = 0; n++ }
  od
}

#if TAKE == 0
#define FIRST me
#define SAY_DONE(t) done_word[me] = (t) / TAKERS + 1
#define NEXT_TICKET ticket = ticket + TAKERS
#elif TAKE == 1
#define FIRST me
#define SAY_DONE(t) done_word[SLOT(t)] = (t) + 1
#if BROKEN == 6
#define NEXT_TICKET ticket = ticket + 1
#else
#define NEXT_TICKET ticket = drawn; drawn++
#endif
#else
#define FIRST 0
#define SAY_DONE(t) done_word[SLOT(t)] = (t) + 1
#define NEXT_TICKET ticket = 0
#endif
#define ARRIVED(t) ((t) < TICKETS && published[SLOT(t)] == (t) + 1)

proctype taker(byte me) {
  byte ticket = FIRST, got;
end:
  do
#if TAKE == 2
#if BROKEN == 7
  :: ARRIVED(drawn) -> ticket = drawn; drawn++;
#else
  :: atomic { ARRIVED(drawn) -> ticket = drawn; drawn++ };  /* [P1] acquire */
#endif
#elif BROKEN == 2
  :: ticket < TICKETS -> got = tail[SLOT(ticket)]; ARRIVED(ticket);
#else
  :: ARRIVED(ticket) ->  /* [P1] acquire */
#endif
#if BROKEN == 3
     SAY_DONE(ticket);
     holder[SLOT(ticket)] = 0;
#endif
     assert(head[SLOT(ticket)] == ticket + 1);
#if BROKEN != 2
     got = tail[SLOT(ticket)];
#endif
     assert(got == ticket + 1);
     d_step {
       got = 0;
       assert(!read[ticket]);
       read[ticket] = true;
       n_read++;
#if BROKEN != 3
       assert(holder[SLOT(ticket)] == ticket + 1);
       holder[SLOT(ticket)] = 0;
       SAY_DONE(ticket);  /* [P2] release */
#endif
       NEXT_TICKET
     }
  od
}

init {
  byte i;
  atomic {
    drawn = (TAKE == 1 -> TAKERS : 0);
    i = 0;
    do
    :: i < SOURCES -> run source(); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < TAKERS -> run taker(i); i++
    :: else -> break
    od
  };
  n_read == TICKETS
}
