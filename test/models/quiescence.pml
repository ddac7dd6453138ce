// gravel_wait_quiescent (host/pe/runtime.cpp) over collectives (host/collective.*): it returns only when nothing is in
// flight anywhere, though handlers send, and the handlers of their messages send again.
//
//   step here      in the code                                                                 label
//   sample         completion::take_sample: acked, consumed, taken, tickets, one after the other
//   contribute     collective_member: words, then collective_in.sequence                       [C1] release
//   collect        collective::step, deliver: all contributions,                               [C1] acquire
//                  then collective_out.sequence                                                [C2] release
//   compare        the result [C2] acquire: taken == acked, tickets == consumed, the same as last time
//   take           plane::take_from: taken is published before consumed
//   hop            plane::forward: the node in the middle counts the packets that it takes over, then sends the credit
//   apply          the receiver: the messages of a handler have tickets before `done` is written
//   credit         done words and credits make the sender's `acked` grow, some time later
//
// Each PE is a node of its own; one or both begin with a message whose handler sends another, GENERATIONS deep,
// anywhere, in one hop or two. Claim: when a PE returns, nothing is in flight. Deadlock: a round that could only repeat
// the last one is not begun, so a call that stops too late, or never, would show as an invalid end state.
//
// BROKEN=1: one balanced sample is enough.
// BROKEN=2: consumed is published before taken.
// BROKEN=3: done is written before the handler's messages have tickets.
// BROKEN=4: the credit is sent before the packets that are taken over are counted.
// BROKEN=5: [C1] without release.
// BROKEN=6: [C2] without release.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef GENERATIONS
#define GENERATIONS 1
#endif
#ifndef BEGIN
#define BEGIN 1  /* PEs that begin with a message */
#endif
#ifndef HOPS
#define HOPS 1
#endif

byte tickets[2], consumed[2], taken[2], acked[2];  /* as other processes see them */
byte credits[2];                                   /* on their way to the plane of this node */
chan queue[2] = [4] of { byte };                   /* slots: generations to go */
chan transit[2] = [4] of { byte, byte };           /* at the intermediate node: generations, source */
chan wire[2] = [4] of { byte, byte };              /* landed: generations, source of the packet */
byte in_flight;                                    /* ghost */

/* Collectives. Sequences are compared for equality only: one bit is enough. */
bit in_sequence[2], out_sequence[2];
byte in_acked[2], in_taken[2], in_consumed[2], in_tickets[2];
byte out_acked[2], out_taken[2], out_consumed[2], out_tickets[2];

#define BALANCED (out_acked[me] == out_taken[me] && out_consumed[me] == out_tickets[me])
#if BROKEN == 1
#define STABLE true
#else
#define STABLE \
  (have_before && out_acked[me] == b_acked && out_taken[me] == b_taken && out_consumed[me] == b_consumed && \
   out_tickets[me] == b_tickets)
#endif
#define NOW_DIFFERS \
  (acked[0] + acked[1] != b_acked || taken[0] + taken[1] != b_taken || consumed[0] + consumed[1] != b_consumed || \
   tickets[0] + tickets[1] != b_tickets)

proctype pe(byte me) {
  bit sequence;
  bool have_before;
  byte b_acked, b_taken, b_consumed, b_tickets;
  do
  :: sequence = 1 - sequence;
#if BROKEN == 5
     in_sequence[me] = sequence;
#endif
     in_acked[me] = acked[me];  /* read and written in one step: the collector looks only behind [C1] */
     in_consumed[me] = consumed[me];
     in_taken[me] = taken[me];
#if BROKEN == 5
     in_tickets[me] = tickets[me];
#else
     atomic { in_tickets[me] = tickets[me]; in_sequence[me] = sequence };  /* [C1] release */
#endif
     atomic { out_sequence[me] == sequence ->  /* [C2] acquire */
       if
       :: BALANCED && STABLE -> assert(in_flight == 0); break
       :: else ->
          have_before = true;
          b_acked = out_acked[me]; b_taken = out_taken[me]; b_consumed = out_consumed[me]; b_tickets = out_tickets[me]
       fi
     };
     if
     :: b_acked == b_taken && b_consumed == b_tickets
     :: NOW_DIFFERS
     fi
  od
}

/* The aggregator's side of collectives, of both nodes together. */
proctype collector() {
  bit next = 1;
  byte s_acked, s_taken, s_consumed, s_tickets;
end:
  do
  :: in_sequence[0] == next && in_sequence[1] == next ->  /* [C1] acquire */
     d_step {
       s_acked = in_acked[0] + in_acked[1]; s_taken = in_taken[0] + in_taken[1];
       s_consumed = in_consumed[0] + in_consumed[1]; s_tickets = in_tickets[0] + in_tickets[1]
     };
#if BROKEN == 6
     out_sequence[0] = next;
     out_sequence[1] = next;
#endif
     d_step {
       out_acked[0] = s_acked; out_taken[0] = s_taken; out_consumed[0] = s_consumed; out_tickets[0] = s_tickets;
       out_sequence[0] = next  /* [C2] release */
     };
     d_step {
       out_acked[1] = s_acked; out_taken[1] = s_taken; out_consumed[1] = s_consumed; out_tickets[1] = s_tickets;
       out_sequence[1] = next
     };
     d_step { next = 1 - next; s_acked = 0; s_taken = 0; s_consumed = 0; s_tickets = 0 }
  od
}

proctype plane(byte me) {
  byte g, from;
end:
  do
  :: queue[me]?g ->
#if BROKEN == 2
     consumed[me]++;
     taken[me]++;
#else
     taken[me]++;
     consumed[me]++;
#endif
     atomic {
       if
       :: wire[0]!g,me
       :: wire[1]!g,me
#if HOPS
       :: transit[1 - me]!g,me
#endif
       fi;
       g = 0
     }
#if HOPS
  :: transit[me]?g,from ->
#if BROKEN == 4
     credits[from]++;
     taken[me]++;
#else
     taken[me]++;
     credits[from]++;
#endif
     atomic { wire[me]!g,me; g = 0; from = 0 }
#endif
  :: atomic { credits[me] > 0 -> credits[me]--; acked[me]++ }
  od
}

proctype receiver(byte me) {
  byte g, from;
end:
  do
  :: wire[me]?g,from ->
#if BROKEN == 3
     credits[from]++;
#endif
     if
     :: g > 0 -> atomic { in_flight++; tickets[me]++ }; queue[me]!g - 1
     :: else
     fi;
#if BROKEN == 3
     atomic { in_flight--; g = 0; from = 0 }
#else
     atomic { in_flight--; credits[from]++; g = 0; from = 0 }
#endif
  od
}

init {
  atomic {
    queue[0]!GENERATIONS; tickets[0] = 1; in_flight = 1;
#if BEGIN == 2
    queue[1]!GENERATIONS; tickets[1] = 1; in_flight = 2;
#endif
    run pe(0); run pe(1); run collector();
    run plane(0); run plane(1);
    run receiver(0); run receiver(1)
  }
}
