// The ring of a PE to itself (lib/base/peer_ring.hpp, device/outbox.cuh). Handlers that the warps of the resolver run
// send into the ring that these warps serve. The kernel may end at any moment between two chunks, and warps leave one
// after the other. The ring itself is that of ring.pml: a chunk is published in one step here.
//
//   step here     in the code
//   send          outbox::claim: the deferred ticket, or a new one. If its chunk is not free, the ticket is deferred
//                 and the message takes the queue.
//   retire        outbox::flush, serve_others: an empty chunk for the deferred ticket, once it is free
//   done          mark_done, then ring_line::applied += 1
//   end           outbox::end: a warp with a deferred ticket leaves it to the next kernel: left_over
//   last leaver   end of resolver(): tickets != applied, or a warp saw something: left_over
//   start         cuda_backend::receive: when left_over, or when the doorbell has rung
//   sample        completion::take_sample: applied, then tickets, twice
//
// Claims: every message is applied, by some kernel; two equal samples with tickets = applied are taken only when
// nothing is left.
//
// BROKEN=1: the last warp to leave does not compare; each warp only polls a last time itself.
// BROKEN=2: a chunk is marked as done and counted before the messages of its handlers have tickets.
// BROKEN=3: a claim does not check whether the chunk is free.
// BROKEN=4: tickets are sampled before applied, and only once.
// BROKEN=5: a warp with a deferred ticket that finds another ticket free forgets the deferred one.
// BROKEN=6: a deferred ticket is used by the next message only; no empty chunk is published.
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
#define NONE 255

byte published[CHUNKS], done_word[CHUNKS], tickets, applied, drawn;
bool is_empty[CHUNKS];
bool taken[3 * SENDS];    /* ghost: applied, by ticket; some are empty */
byte n_created, n_gone;   /* ghost: messages that exist; those applied, or handed to the queue */
byte ticket[WARPS];       /* that each warp waits for */
byte deferred[WARPS];
bool doorbell, left_over_seen, running, stop, left_over, quiet_seen;
bool serving[WARPS];
byte leaving;

#define IN(t) ((t) % CHUNKS)
#define FREE(t) ((t) < CHUNKS || done_word[IN(t)] == (t) - CHUNKS + 1)
#define ARRIVED(t) (published[IN(t)] == (t) + 1)
/* There is work for a kernel. Without work none is started: it would be the next in a run without end. */
#if BROKEN == 6
#define CAN_DO(w) ARRIVED(ticket[w])
#else
#define CAN_DO(w) (ARRIVED(ticket[w]) || (deferred[w] != NONE && FREE(deferred[w])))
#endif
#if WARPS == 2
#define WORK (CAN_DO(0) || CAN_DO(1))
#else
#define WORK CAN_DO(0)
#endif

/* A handler sends up to two messages. One: of those that are left, or none. */
inline send() {
  if
  :: atomic { n_created < SENDS ->
       n_created++;
       if
#if BROKEN != 5
       :: deferred[w] != NONE -> mine = deferred[w]
#endif
       :: else -> mine = tickets; tickets++
       fi };
     if
#if BROKEN == 3
     :: true ->
#else
     :: FREE(mine) ->
#endif
        atomic {
          assert(mine < CHUNKS || taken[mine - CHUNKS]);
          deferred[w] = NONE;
          is_empty[IN(mine)] = false;
          published[IN(mine)] = mine + 1
        }
#if BROKEN != 3
     :: else -> atomic { deferred[w] = mine; n_gone++ }  /* by the queue */
#endif
     fi;
     mine = 0
  :: true
  fi
}

proctype warp(byte w) {
  byte mine;
  bit handles;
end:
  do
  :: serving[w] ->
     do
     :: stop -> break
     :: ARRIVED(ticket[w]) ->
        atomic {
          assert(!taken[ticket[w]]);
          taken[ticket[w]] = true;
          handles = !is_empty[IN(ticket[w])];
          n_gone = n_gone + handles
        };
#if BROKEN == 2
        done_word[IN(ticket[w])] = ticket[w] + 1;
        applied++;
#endif
        if
        :: handles -> send(); send()
        :: else
        fi;
#if BROKEN != 2
        done_word[IN(ticket[w])] = ticket[w] + 1;
        applied++;
#endif
        d_step { ticket[w] = drawn; drawn++; handles = 0 }
#if BROKEN != 6
     :: deferred[w] != NONE && FREE(deferred[w]) ->
        d_step {
          is_empty[IN(deferred[w])] = true;
          published[IN(deferred[w])] = deferred[w] + 1;
          deferred[w] = NONE
        }
#endif
     od;
     if
     :: deferred[w] != NONE -> left_over = true
     :: else
     fi;
     if
     :: ARRIVED(ticket[w]) -> left_over = true
     :: else
     fi;
     atomic {
       serving[w] = false;
       leaving++;
       if
       :: leaving == WARPS ->
#if BROKEN == 1
          left_over_seen = left_over;
#else
          left_over_seen = left_over || tickets != applied;
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
  :: atomic { !running && (doorbell || left_over_seen && WORK) ->
       doorbell = false; left_over_seen = false; stop = false; left_over = false; leaving = 0;
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
    ticket[0] = 0; deferred[0] = NONE;
#if WARPS == 2
    ticket[1] = 1; deferred[1] = NONE;
#endif
    n_created = 1; tickets = 1; drawn = WARPS; published[0] = 1; doorbell = true;
    run host(); run block0(); run quiescence(); run all_applied();
    run warp(0);
#if WARPS == 2
    run warp(1)
#endif
  }
}
