// Reductions in one shot (lib/allreduce/one_shot.cuh): blocks of all PEs write words into each other's staging, without
// a barrier between calls. A block has two threads; thread t has word t of a call, if the call has words: all PEs know.
//
//   step here   in the code                                                     label
//   begin       __syncthreads in reduce_as_grid
//   send        flagged_words::store, then the header by one thread             [A3] [A1]
//   see         header and words of this call of every other PE                 [A1] [A3]
//   clear       next_call: when the flags begin anew                            [A2]
//
// Claims: a thread that sees a word with this call's flag sees this call's data; no word is overwritten before it was
// read; every thread leaves every call.
//
// BROKEN=1: even and odd calls share their staging.
// BROKEN=2: there are no headers: a call without words is no call.
// BROKEN=3: a thread waits for the header alone, not for its word.
// BROKEN=4: threads do not wait for each other between calls.
// BROKEN=5: words are not cleared when flags begin anew.
// BROKEN=6: words are cleared, but no PE waits until all have done so.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef CALLS
#define CALLS 5
#endif
#ifndef FLAGS
#define FLAGS 3 /* how many flags there are, of which 0 is none of a call */
#endif
#define THREADS 2
#if BROKEN == 1
#define PARITY(k) 0
#else
#define PARITY(k) ((k) % 2)
#endif
#define STAGED(at, of, k, t) staged[(((at) * PES + (of)) * 2 + PARITY(k)) * THREADS + (t)]
#define HEADER(at, of, k) header[((at) * PES + (of)) * 2 + PARITY(k)]
#define READ(at, of, t) read[((at) * PES + (of)) * THREADS + (t)]

byte words[CALLS + 1];
byte staged[PES * PES * 2 * THREADS];   /* the call whose data it is; its flag is that number modulo FLAGS */
byte header[PES * PES * 2];
byte read[PES * PES * THREADS];         /* the last call of which this word was read */
byte cleared[PES * PES];                /* [at][of] number of the call */
byte arrived[PES], generation[PES];

inline begin_together() {
#if BROKEN == 4
  skip
#else
  atomic {
    mine = generation[me];
    arrived[me]++;
    if
    :: arrived[me] == THREADS -> arrived[me] = 0; generation[me]++
    :: else
    fi
  }
  atomic { generation[me] != mine -> mine = 0 }
#endif
}

proctype thread(byte me, t) {
  byte k = 1, q, mine;
  do
  :: k > CALLS -> break
  :: k <= CALLS && k % FLAGS == 0 ->
     begin_together();
#if BROKEN != 5
     q = 0;
     do
     :: q == PES -> break
     :: else ->
        atomic {
          STAGED(me, q, 0, t) = 0;
          STAGED(me, q, 1, t) = 0;
          if
          :: t == 0 -> HEADER(me, q, 0) = 0; HEADER(me, q, 1) = 0
          :: else
          fi;
          q++
        }
     od;
     begin_together();
     if
     :: t == 0 ->
        q = 0;
        do
        :: q == PES -> break
        :: else -> cleared[q * PES + me] = k; q++
        od;
#if BROKEN != 6
        q = 0;
        do
        :: q == PES -> break
        :: q < PES && cleared[me * PES + q] >= k -> q++
        od
#endif
     :: else
     fi;
#endif
     k++
  :: k <= CALLS && k % FLAGS != 0 ->
     begin_together();
     q = 0;
     do
     :: q == PES -> break
     :: q < PES && (q == me || t >= words[k]) -> q++
     :: q < PES && q != me && t < words[k] ->
        atomic {
          assert(STAGED(q, me, k, t) <= READ(q, me, t));
          STAGED(q, me, k, t) = k;
          q++
        }
     od;
#if BROKEN != 2
     if
     :: t == 0 ->
        q = 0;
        do
        :: q == PES -> break
        :: q == me -> q++
        :: q < PES && q != me -> HEADER(q, me, k) = k; q++
        od;
        q = 0;
        do
        :: q == PES -> break
        :: q == me -> q++
        :: q < PES && q != me && HEADER(me, q, k) % FLAGS == k % FLAGS -> assert(HEADER(me, q, k) == k); q++
        od
     :: else
     fi;
#endif
     q = 0;
     do
     :: q == PES -> break
     :: q < PES && (q == me || t >= words[k]) -> q++
#if BROKEN == 3
     :: q < PES && q != me && t < words[k] ->
#else
     :: q < PES && q != me && t < words[k] && STAGED(me, q, k, t) % FLAGS == k % FLAGS ->
#endif
        atomic {
          assert(STAGED(me, q, k, t) == k);
          READ(me, q, t) = k;
          q++
        }
     od;
     k++
  od
}

init {
  byte i = 1;
  do
  :: i > CALLS -> break
  :: else ->
     if
     :: words[i] = 0
     :: words[i] = THREADS
     fi;
     i++
  od;
  i = 0;
  atomic {
    do
    :: i == PES -> break
    :: else -> run thread(i, 0); run thread(i, 1); i++
    od
  }
}
