// The warps of the resolver kernel that serve a ring of another GPU, and how a resolver that has ended is woken. The
// ring itself is that of ring.pml: a chunk is published, and applied, in one step here.
//
//   step here       in the code
//   claim           claim_chunk: ticket = tickets++; wait until done[ticket - chunks]
//   ring            ring_doorbell: a time stamp, when a chunk is not free, in end(), in quiet
//   pass on         peer_doorbells::pass_on: for a new stamp the destination's peer_doorbell grows by one (on another
//                   node behind a message, which receive() takes)
//   start           cuda_backend::receive, launch_resolver: when peer_doorbell != seen_doorbell_ or left_over; first
//                   seen_doorbell_ = peer_doorbell, left_over = 0
//   poll            ring_watch::poll: the ticket that each lane has drawn
//   apply, done     resolve_chunk; mark_done
//   stop            serve_landing, block 0: idle or the quantum is over, at any moment here
//   last poll       end of serve_rings; the last warp to leave notifies the host
//   quiet           peers::quiet, flush_peers: until everything is applied
//
// Stamps and counts never repeat and are compared for equality only: a flag for "differs" says the same. A waiting
// party does not ring where no poll would find anything or a warp is awake, but for IDLE_RINGS times: so every loop
// waits for a change, and a run that goes on for ever would show as an invalid end state.
//
// Claims: each chunk is applied exactly once, quiet returns only when all are applied, and it does return.
//
// END=1: end() rings, and quiet does not. END=0: the other way round. Each has to be enough.
//
// BROKEN=1: warps leave without a last poll.
// BROKEN=2: seen_doorbell_ is set when the kernel has ended, not before it starts.
// BROKEN=3: a warp that waits for a chunk does not ring.
// BROKEN=4: end() rings before it publishes.
// BROKEN=5: the aggregator stores the stamp that it finds after it has passed on the one before.
// BROKEN=6: a warp does not keep its ticket from one kernel to the next.
// BROKEN=7: left_over is cleared after the start.
// BROKEN=8: a warp that must stop leaves before its first poll, and no warp polls a last time either.
// BROKEN=9: quiet trusts the newest chunk of the ring to be the last one applied.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef WARPS
#define WARPS 2
#endif
#ifndef SENDS
#define SENDS 3       /* chunks of each of the two senders */
#endif
#ifndef END
#define END 1
#endif
#ifndef IDLE_RINGS
#define IDLE_RINGS 0
#endif
#define TICKETS (2 * SENDS)

/* The ring. */
byte published[CHUNKS], done[CHUNKS];
byte tickets;
byte drawn;              /* tickets that warps have drawn, or begun with */
bool applied[TICKETS];   /* ghost */
byte n_applied, n_ended;

#define IN(t) ((t) % CHUNKS)
#define FREE(t) ((t) < CHUNKS || done[IN(t)] == (t) - CHUNKS + 1)
#define ARRIVED(t) (published[IN(t)] == (t) + 1)

/* Waking. */
bool rung;          /* the source's stamp differs from what the aggregator saw last */
bool doorbell;          /* peer_doorbell != seen_doorbell_ */
bool left_over_seen;       /* left_over as the host sees it */
bool running, stop, left_over;
bool serving[WARPS];
byte leaving;
byte idle_rings;

/* Is there something to take that nobody is about to look at? */
#define LIES(t) ((t) < tickets && ARRIVED(t) && !applied[t])
#if SENDS == 2
#define ANY_LIES (LIES(0) || LIES(1) || LIES(2) || LIES(3))
#else
#define ANY_LIES (LIES(0) || LIES(1) || LIES(2) || LIES(3) || LIES(4) || LIES(5))
#endif
#define WAKES (!running && !rung && !doorbell && !left_over_seen && ANY_LIES)

proctype sender(byte me) {
  byte n, ticket;
  do
  :: n == SENDS -> break
  :: else ->
     d_step { ticket = tickets; tickets++ };
     do
     :: FREE(ticket) -> break
#if BROKEN != 3
     :: !FREE(ticket) && WAKES -> rung = true
     :: !FREE(ticket) && idle_rings < IDLE_RINGS -> d_step { rung = true; idle_rings++ }
#endif
     od;
#if BROKEN == 4
     if
     :: n == SENDS - 1 -> rung = true
     :: else
     fi;
#endif
     published[IN(ticket)] = ticket + 1;
     d_step { ticket = 0; n++ }
  od;
#if END && BROKEN != 4
  rung = true;
#endif
  n_ended++
}

#if BROKEN == 9
#define ALL_APPLIED (done[IN(TICKETS - 1)] == TICKETS)
#elif CHUNKS == 2
#define ALL_APPLIED (done[0] >= TICKETS - 1 && done[1] >= TICKETS - 1 && (done[0] >= TICKETS || done[1] >= TICKETS))
#else
#define ALL_APPLIED (done[0] + done[1] + done[2] + done[3] == 4 * TICKETS - 6)
#endif

proctype quiet() {
  n_ended == 2;
  do
  :: ALL_APPLIED -> break
#if !END
  :: !ALL_APPLIED && WAKES -> rung = true
  :: !ALL_APPLIED && idle_rings < IDLE_RINGS -> d_step { rung = true; idle_rings++ }
#endif
  od;
  assert(n_applied == TICKETS)
}

proctype aggregator() {
end:
  do
  :: rung ->
#if BROKEN == 5
     doorbell = true;
     rung = false
#else
     atomic { rung = false; doorbell = true }
#endif
  od
}

/* receive() of the destination's host; the first kernel is started by start_receiver. */
proctype host() {
  bool first = true;
end:
  do
  :: !running && (first || doorbell || left_over_seen) ->
#if BROKEN != 2
     doorbell = false;
#endif
     atomic {
#if BROKEN != 7
       left_over_seen = false;  /* nobody else writes it while no kernel runs */
#endif
       first = false;
       stop = false; left_over = false; leaving = 0;
       serving[0] = true;
#if WARPS == 2
       serving[1] = true;
#endif
       running = true
     };
#if BROKEN == 7
     left_over_seen = false;
#endif
#if BROKEN == 2
     !running;
     doorbell = false
#endif
  od
}

proctype block0() {
end:
  do
  :: running && !stop -> stop = true
  od
}

inline apply(t) {
  d_step {
    assert(t < TICKETS && !applied[t]);
    applied[t] = true;
    n_applied++
  }
}

/* One lane for each warp. */
proctype warp(byte w) {
  byte ticket = w;
  bool looked;
end:
  do
  :: serving[w] ->
     do
#if BROKEN == 8
     :: stop -> break
#else
     :: stop && looked -> break  /* nothing there in the last look, or 64 rounds are over */
     :: !looked && !ARRIVED(ticket) -> looked = true
#endif
     :: atomic { ARRIVED(ticket) -> apply(ticket) };
        done[IN(ticket)] = ticket + 1;
        d_step { ticket = drawn; drawn++; looked = true }
     od;
#if BROKEN != 1 && BROKEN != 8
     if
     :: ARRIVED(ticket) -> left_over = true
     :: else
     fi;
#endif
#if BROKEN == 6
     d_step { ticket = drawn; drawn++ };
#endif
     atomic {
       serving[w] = false;
       looked = false;
       leaving++;
       if
       :: leaving == WARPS -> left_over_seen = left_over; running = false
       :: else
       fi
     }
  od
}

init {
  atomic {
    drawn = WARPS;
    run sender(0); run sender(1); run quiet(); run aggregator(); run host(); run block0();
    run warp(0);
#if WARPS == 2
    run warp(1)
#endif
  }
}
