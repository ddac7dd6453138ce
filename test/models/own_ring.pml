// The ring of a PE to itself (lib/base/peer_ring.hpp, device/outbox.cuh): handlers that the warps of the resolver run send into the
// ring that these warps serve. The kernel may end at any moment between two chunks, and warps leave one after the other.
//
//   step here     in the code                                                                     label
//   claim         try_claim_chunk: only while the chunk is free; else the message takes the queue  [P2] acquire
//   publish       outbox::flush, behind the handlers                                               [P1] release
//   done          mark_done, then ring_line::applied += 1                                          [P2] release
//   last leaver   end of resolver(): tickets != applied, or a warp saw something: left_over
//   start         cuda_backend::receive: when left_over, or when the bell has rung
//   sample        completion::take_sample: applied, then tickets, twice
//
// Claims: every message is applied, by some kernel; two equal samples with tickets = applied are taken only when nothing is left.
//
// BROKEN=1: the last warp to leave does not compare; each warp only looks a last time itself.
// BROKEN=2: a chunk is marked as done and counted before what its handlers sent is ticketed.
// BROKEN=3: a claim does not look whether the chunk is free.
// BROKEN=4: tickets are sampled before applied, and only once.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef WARPS
#define WARPS 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef SENDS
#define SENDS 4       /* messages in all; the kernel sends the first */
#endif

byte published[CHUNKS], done_word[CHUNKS], tickets, applied, drawn;
bool taken[SENDS];        /* ghost: applied, by ticket */
byte n_created, n_gone;   /* ghost: messages that exist; those applied, or handed to the queue */
bool bell, mailbox, running, stop, left_over, quiet_seen;
bool serving[WARPS];
byte leaving;

#define IN(t) ((t) % CHUNKS)
#define FREE(t) ((t) < CHUNKS || done_word[IN(t)] == (t) - CHUNKS + 1)
#define ARRIVED(t) (published[IN(t)] == (t) + 1)

/* A handler sends up to two messages. One: of those that are left, or none. */
inline send() {
  claimed = 0;
  if
  :: atomic { n_created < SENDS ->
       n_created++;
       if
#if BROKEN == 3
       :: true
#else
       :: FREE(tickets)
#endif
          -> assert(tickets < CHUNKS || taken[tickets - CHUNKS]); mine = tickets; tickets++; claimed = 1
#if BROKEN != 3
       :: else -> n_gone++  /* by the queue */
#endif
       fi }
  :: true
  fi;
  if
  :: claimed -> published[IN(mine)] = mine + 1
  :: else
  fi
}

proctype warp(byte w) {
  byte ticket = w, mine;
  bit claimed;
end:
  do
  :: serving[w] ->
     do
     :: stop -> break
     :: ARRIVED(ticket) ->
        atomic { assert(!taken[ticket]); taken[ticket] = true; n_gone++ };
#if BROKEN == 2
        done_word[IN(ticket)] = ticket + 1;
        applied++;
        send(); send();
#else
        send(); send();
        done_word[IN(ticket)] = ticket + 1;
        applied++;
#endif
        d_step { ticket = drawn; drawn++; mine = 0 }
     od;
     if
     :: ARRIVED(ticket) -> left_over = true
     :: else
     fi;
     atomic {
       serving[w] = false;
       leaving++;
       if
       :: leaving == WARPS ->
#if BROKEN == 1
          mailbox = left_over;
#else
          mailbox = left_over || tickets != applied;
#endif
          running = false
       :: else
       fi
     }
  od
}

proctype host() {
end:
  do
  :: atomic { !running && (bell || mailbox) ->
       bell = false; mailbox = false; stop = false; left_over = false; leaving = 0;
       serving[0] = true;
#if WARPS == 2
       serving[1] = true;
#endif
       running = true }
  od
}

proctype block0() {
end:
  do
  :: running && !stop -> stop = true
  od
}

proctype quiescence() {
  byte a1, t1, a2, t2;
  do
#if BROKEN == 4
  :: t1 = tickets; a1 = applied; a2 = a1; t2 = t1;
#else
  :: a1 = applied; t1 = tickets; a2 = applied; t2 = tickets;
#endif
     if
     :: a1 == t1 && a2 == t2 && a1 == a2 -> break
     :: else -> applied == tickets  /* looks again */
     fi
  od;
  /* What the queue has taken over is counted there. */
  assert(n_gone == n_created)
}

proctype all_applied() { n_gone == n_created && applied == tickets && !running }

init {
  atomic {
    /* The program's kernel has sent, and rung. */
    n_created = 1; tickets = 1; drawn = WARPS; published[0] = 1; bell = true;
    run host(); run block0(); run quiescence(); run all_applied();
    run warp(0);
#if WARPS == 2
    run warp(1)
#endif
  }
}
