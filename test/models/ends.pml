// gravel_wait_quiescent among PEs that reach each other's memory (wait_for_end in device/settle.cuh). It works in
// rounds. In each round a PE waits until all its messages are applied, and reports to all others whether it has sent
// anything since the round before.
//
//   step here    in the code                                                                        label
//   count        part_of_tickets, compared with the round before
//   target       flush_peers, flush_all, services: the tickets that are taken now
//   applied      done words, flush_done, service_block::applied                                     [P2]
//   report       theirs[rank].round[number % 2] = 2 * number + sent, in any order                   [S3] release
//   see          until all words here are of this round                                             [S3] acquire
//   handle       a handler or a service block: its messages have tickets before its own message is done
//
// Messages go through a ring or, as the handler chooses, through the queue of handlers; each PE handles HANDLERS of
// them at a time, however slowly. PE 0 and perhaps the others begin each call with a message whose handler sends
// another, GENERATIONS deep, anywhere.
//
// Claims: when a PE returns, nothing is in flight. All PEs return from every call: if one does not, that shows as an
// invalid end state.
//
// BROKEN=1: the first round in which all is applied is enough.
// BROKEN=2: tickets are counted after the wait for them.
// BROKEN=3: one word for all rounds.
// BROKEN=4: a message is done before the messages of its handler have tickets.
// BROKEN=5: tickets of the queue are not counted.
// BROKEN=6: a PE reports to the others without having waited.
// BROKEN=7: a PE that has sent nothing itself returns.
// BROKEN=8: the queue is not waited for.
// BROKEN=9: rounds begin at 1 again with each call.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef GENERATIONS
#define GENERATIONS 2
#endif
#ifndef BEGIN
#define BEGIN 1  /* PEs that begin a call with a message */
#endif
#ifndef HANDLERS
#define HANDLERS 2
#endif
#ifndef CALLS
#define CALLS 1
#endif

#define RING 0
#define QUEUE 1
#define WAYS 2
byte tickets[PES * WAYS];
byte done[PES * WAYS];     /* a bit for each ticket */
byte word[PES * PES * 2];  /* [at][of][parity] */
byte in_flight;            /* ghost */
byte arrived;              /* calls that a PE has come to: messages of the next one begin later */
chan ring[PES] = [4] of { byte, byte, byte, byte };  /* generations, source, way, ticket */

#define AT(at, of) word[((at) * PES + (of)) * 2 + parity]
#define BELOW(n) ((1 << (n)) - 1)
#define APPLIED(way) ((done[me * WAYS + way] & BELOW(target[way])) == BELOW(target[way]))

/* A ticket, then the message: two steps. */
inline claim(who, way, ticket) {
  atomic { ticket = tickets[(who) * WAYS + way]; tickets[(who) * WAYS + way]++; in_flight++ }
}

proctype pe(byte me) {
  byte number, call, i, sum, before, ticket, seen, parity;
  byte target[WAYS];
  bool sent, some, first;
  do
  :: call == CALLS -> break
  :: else ->
     if
     :: me < BEGIN -> claim(me, RING, ticket); ring[(me + 1) % PES]!GENERATIONS,me,RING,ticket
     :: else
     fi;
     first = true;
#if BROKEN == 9
     number = 0;
#endif
     do
     :: true ->
        number++;
#if BROKEN == 3
        parity = 0;
#else
        parity = number % 2;
#endif
#if BROKEN != 2
        sum = tickets[me * WAYS + RING];
#if BROKEN != 5
        sum = sum + tickets[me * WAYS + QUEUE];
#endif
#endif
        target[RING] = tickets[me * WAYS + RING];
        target[QUEUE] = tickets[me * WAYS + QUEUE];
#if BROKEN != 6
        APPLIED(RING);
#if BROKEN != 8
        APPLIED(QUEUE);
#endif
#endif
#if BROKEN == 2
        sum = tickets[me * WAYS + RING];
        sum = sum + tickets[me * WAYS + QUEUE];
#endif
        d_step {
          sent = first || sum != before;
          before = sum;
          first = false;
          target[RING] = 0; target[QUEUE] = 0;
          i = 0
        };
        do
        :: i == PES -> break
        :: else -> AT(i, me) = 2 * number + sent; i++
        od;
        i = 0;
        some = false;
        do
        :: i == PES -> break
        :: i < PES && AT(me, i) / 2 >= number -> atomic { some = some || AT(me, i) % 2; i++ }
        od;
#if BROKEN == 1
        some = false;
#endif
#if BROKEN == 7
        some = sent;
#endif
        if
        :: !some -> break
        :: else
        fi
     od;
     assert(in_flight == 0);
     /* Nobody sends for the next call before all have returned from this one: here that is the program's matter. */
     atomic { arrived++; call++; sum = 0; before = 0; seen = 0; ticket = 0 };
     arrived >= call * PES
  od
}

proctype receiver(byte me) {
  byte g, from, way, ticket, to, next, mine;
end:
  do
  :: ring[me]?g,from,way,ticket ->
#if BROKEN == 4
     done[from * WAYS + way] = done[from * WAYS + way] | (1 << ticket);
#endif
     if
     :: g > 0 ->
        if :: next = RING :: next = QUEUE fi;
        claim(me, next, mine);
        to = 0;
        do
        :: to + 1 < PES -> to++
        :: break
        od;
        ring[to]!g - 1,me,next,mine
     :: else
     fi;
#if BROKEN == 4
     atomic { in_flight--; g = 0; from = 0; way = 0; ticket = 0; to = 0; next = 0; mine = 0 }
#else
     atomic {
       in_flight--;
       done[from * WAYS + way] = done[from * WAYS + way] | (1 << ticket);
       g = 0; from = 0; way = 0; ticket = 0; to = 0; next = 0; mine = 0
     }
#endif
  od
}

init {
  byte i;
  atomic {
    do
    :: i == PES -> break
    :: else ->
       run pe(i); run receiver(i);
#if HANDLERS > 1
       run receiver(i);
#endif
       i++
    od
  }
}
