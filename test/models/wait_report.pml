// Reports of long waits (lib/base/wait_report.hpp, host/pe/wait_reports.hpp): lanes write them into a ring of one slot,
// the monitor of the PE reads them. A lane polls a few times during its wait and may report each time; it goes on if it
// cannot. The turn of lanes (lib/base/turn.hpp) is not in the model: it bounds how often they poll, and two lanes may
// have it at once. The monitor may stop at any time, as it does when the job ends.
//
//   step here              in the code                                               label
//   read claimed, read     note_lane_wait: the ticket, and whether its slot is free  [P2]
//   claim                  note_lane_wait: the ticket is compared and swapped
//   subject, place         note_lane_wait: the fields, one by one
//   publish                note_lane_wait                                            [P1]
//   ARRIVED                wait_reports::poll                                        [P1]
//   read the fields        wait_reports::poll, one by one
//   mark as read           wait_reports::poll                                        [P2]
//
// Counters have 8 bits here and wrap. FIRST is their first value.
//
// Claims: the fields that the monitor reads belong to one report; it reads each report once; no lane writes while a
// report is unread; all lanes end, even if the monitor has stopped; if it has not, it has read all reports in the end.
//
// BROKEN=1: a lane publishes before it has written all fields.
// BROKEN=2: a lane does not check whether the report before has been read.
// BROKEN=3: a lane takes its ticket without comparing: two lanes may have the same one.
// BROKEN=4: the monitor marks the report as read before it reads the fields.
// BROKEN=5: the monitor reads a field before it checks whether the report is published.
// BROKEN=6: the monitor does not compare the report's ticket with what it has read.
// BROKEN=7: a lane whose report has no room waits for the monitor.
// BROKEN=8: a lane takes a ticket first, and gives up if its slot is not free.
// BROKEN=9: tickets are compared as if they never wrapped.
// BROKEN=10: the monitor does not mark a report that it does not print.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef POLLS
#define POLLS 2
#endif
#ifndef FIRST
#define FIRST 0
#endif
#define NUMBERS 256
#define NEXT(t) (((t) + 1) % NUMBERS)
#define MINUS(a, b) (((a) + NUMBERS - (b)) % NUMBERS)
#if BROKEN == 9
#define IS_FREE(t, done) ((t) <= (done))
#else
#define IS_FREE(t, done) (MINUS(t, done) < 1 || MINUS(t, done) >= NUMBERS / 2)  /* the difference has a sign */
#endif

byte claimed = FIRST;             /* of the lanes */
byte published = FIRST;           /* of the report, written by lanes */
byte subject, place;
byte read = FIRST;                /* written by the monitor */
byte unread;                      /* ghost: the report that is claimed and not read; 0: none */
bool was_read[LANES * POLLS + 1]; /* ghost */
bool stops;                       /* whether the monitor may stop early */
byte n_claimed, n_read, ended;    /* ghosts */

proctype lane(byte me) {
  byte i, ticket, done, mine;
  bool has;
  do
  :: i == POLLS -> break
  :: else ->
     atomic { i++; mine = me * POLLS + i; has = false };
#if BROKEN == 8
     atomic { ticket = claimed; claimed = NEXT(claimed) };
     done = read;  /* [P2] acquire */
     if
     :: IS_FREE(ticket, done) -> atomic { has = true; assert(unread == 0); unread = mine; n_claimed++ }
     :: else -> skip
     fi;
#else
     ticket = claimed;
#if BROKEN == 2
     done = ticket;
#elif BROKEN == 7
     atomic { IS_FREE(ticket, read) -> done = read };
#else
     done = read;  /* [P2] acquire */
#endif
     if
     :: !IS_FREE(ticket, done) -> skip
     :: else ->
        atomic {
          if
#if BROKEN == 3
          :: true ->
#else
          :: claimed == ticket ->
#endif
             claimed = NEXT(ticket);
             has = true;
             assert(unread == 0);
             unread = mine;
             n_claimed++
          :: else -> skip
          fi
        }
     fi;
#endif
     if
     :: has ->
        subject = mine;
#if BROKEN == 1
        published = NEXT(ticket);
        place = mine
#else
        place = mine;
        published = NEXT(ticket)  /* [P1] release */
#endif
     :: else -> skip
     fi;
     d_step { ticket = 0; done = 0; mine = 0; has = false }
  od;
  ended++
}

#if BROKEN == 6
#define ARRIVED (published != FIRST)
#else
#define ARRIVED (published == NEXT(read))
#endif

proctype monitor() {
  byte s, p;
again:
  do
  :: stops -> break  /* the job ends */
  :: ended == LANES && read == claimed ->
     assert(published == read && n_read == n_claimed && unread == 0);
     break
#if BROKEN == 5
  :: s = subject;
     if :: ARRIVED -> skip :: else -> goto again fi;
#else
  :: ARRIVED ->  /* [P1] acquire */
#endif
#if BROKEN == 4
     atomic { read = NEXT(read); unread = 0 };
#endif
#if BROKEN != 5
     s = subject;
#endif
     p = place;
     d_step {
       assert(s == p && s != 0);
       assert(!was_read[s]);
       was_read[s] = true;
       n_read++
     };
#if BROKEN == 10
     if :: skip :: atomic { unread = 0; read = NEXT(read) } fi;
#elif BROKEN != 4
     atomic { unread = 0; read = NEXT(read) };  /* [P2] release */
#endif
     d_step { s = 0; p = 0 }
  od
}

init {
  byte i;
  atomic {
    if :: stops = true :: skip fi;
    run monitor();
    do :: i == LANES -> break :: else -> run lane(i); i++ od
  }
}
