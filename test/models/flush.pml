// Flushes of the queue (lib/base/queue.hpp) and its planes (host/aggregator/plane.cpp): a flush returns once every
// message with a ticket below its target is applied. The queue's slots are a ring (ring.pml): here a ticket is taken,
// and published some time later.
//
//   step here          in the code
//   ask                request_flush, once: raise `requested`, store, read it again; a store may overwrite a higher target
//   take               plane::take_from: tickets of its class, in order
//   notice             notice_flush_target: the highest target seen
//   start, finish      step_flushes: packets are closed; flush_done once they are applied
//   network            applies the content of closed packets
//
// Claims: flush(target) returns after all messages with a ticket below target are applied, and it does return. Every
// wait of the model waits for a change, so a loop that would spin for ever shows as an invalid end state.
//
// BROKEN=1: a party that asks for a flush does not read `requested` again.
// BROKEN=2: flush_done before the packets are applied.
// BROKEN=3: a flush starts before all tickets below its target are taken.
// BROKEN=4: a flush is requested in the aggregator's word first, and then in the producers'.
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
#define TICKETS (PRODUCERS * SENDS)

/* The producers' words. */
byte tickets, requested;
bool published[TICKETS];
byte flush_target;
/* The planes' words. */
byte flush_done[PLANES];
/* Packets of each plane: slots in closed ones, and those applied. */
byte closed[PLANES], applied[PLANES];
byte finished;

#define NEXT(p, taken) ((taken) * PLANES + (p))
/* Ticket t is applied when its plane has applied more than t / PLANES slots. */
#define APPLIED(t) (applied[(t) % PLANES] > (t) / PLANES)
#if PLANES == 1
#define FLUSHED(t) (flush_done[0] >= (t))
#elif PLANES == 2
#define FLUSHED(t) (flush_done[0] >= (t) && flush_done[1] >= (t))
#else
#define FLUSHED(t) (flush_done[0] >= (t) && flush_done[1] >= (t) && flush_done[2] >= (t))
#endif

proctype producer(byte me) {
  byte ticket, k, n, last, target;
  do
  :: n == SENDS -> break
  :: else ->
     d_step { ticket = tickets; tickets++ };
     d_step { published[ticket] = true; last = ticket; ticket = 0; n++ }
  od;
  /* flush_all(): a lane's own tickets are below the target */
  target = tickets;
  if
  :: requested >= target  /* who raised it sees to it */
  :: else ->
#if BROKEN == 4
     flush_target = target;
#endif
     atomic { requested = (requested > target -> requested : target); k = requested };  /* raise_to */
#if BROKEN != 4
     flush_target = k;
#endif
#if BROKEN != 1
     do  /* behind a fence */
     :: requested == k -> break
     :: requested != k -> k = requested; flush_target = k
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
  byte taken, seen, started;
  byte target, until, target2, until2;  /* flushes under way: 0 or the target, and how many slots must be applied */
end:
  do
  :: NEXT(me, taken) < TICKETS && published[NEXT(me, taken)] ->
     d_step {
       taken = taken + 1;
       /* a packet of two slots is full and leaves by itself */
       closed[me] = (taken - closed[me] >= 2 -> taken : closed[me])
     }
  :: flush_target > seen -> seen = flush_target  /* notice */
#if BROKEN == 3
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
#if BROKEN == 2
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
    run network()
  };
  finished == PRODUCERS;
  assert(tickets == TICKETS)
}
