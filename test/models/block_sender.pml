// The protocol of device/block_sender.cuh, gather(). Groups of lanes share a buffer. The group whose reservation
// crosses the end of the buffer empties it; the others go on. One process is one group: its lanes act together, through
// their leader.
//
//   step here            in gather()                                                       label
//   reserve              at = block_add(&reserved, wanted)
//   fill                 buffer[mine] = message, then fetch_add_release(&written)          [B1] release
//   cross                at <= capacity < at + wanted: wait until written == at            [B1] acquire
//   empty                empty_diverged: every message below `at` is copied into slots
//   reopen               written = 0, reserved = 0 (release), emptied += 1                 [B2] release
//   publish              the last slot, while others gather, or even empty the buffer again
//   wait                 at > capacity: wait until emptied != round                        [B2] acquire
//
// Claims: at most one group empties; no message is lost, sent twice, or read before it is written; no deadlock. Every
// loop of the model waits for a change, so a run that goes on for ever would show as an invalid end state.
//
// BROKEN=1: `written` grows before the message is in the buffer ([B1] without release).
// BROKEN=2: `reserved = 0` may be seen before `written = 0` (its store without release).
// BROKEN=3: the group that empties does not wait for earlier reservations ([B1] without the wait).
// BROKEN=4: a reservation that begins exactly at the end is not seen as crossing.
// BROKEN=5: `emptied` grows by a load and a store: two groups that empty consecutive rounds overlap in it.
// BROKEN=6: a waiting group reads `round` after its reservation: it misses an emptying in between.
// BROKEN=7: the buffer is reopened before all of it is copied.
#ifndef BROKEN
#define BROKEN 0
#endif
#define GROUPS 3
#define CAPACITY 3
#define SENDS 4       /* messages of each group; group 0 has two lanes, so it sends two at once */
#define MESSAGES 16   /* ids: group * SENDS + number, + 1 in the buffer; 0 is an empty place */

byte reserved, written, emptied;
byte buffer[CAPACITY];
bool copied[MESSAGES];
byte n_published, n_done;
byte emptying;  /* groups between crossing and reopening */

inline copy(units) {
  i = 0;
  do
  :: i < units ->
     assert(buffer[i] != 0);
     assert(!copied[buffer[i] - 1]);
     copied[buffer[i] - 1] = true;
     buffer[i] = 0;
     i++
  :: else -> break
  od;
  i = 0
}

proctype group(byte me; byte lanes) {
  byte next, round, at, i;
  do
  :: next == SENDS -> break
  :: else ->
#if BROKEN != 6
     round = emptied;  /* [B2] */
#endif
     d_step { at = reserved; reserved = reserved + lanes };
#if BROKEN == 6
     round = emptied;
#endif
     if
     :: at + lanes <= CAPACITY ->
#if BROKEN == 1
        written = written + lanes;
#endif
        d_step {
          i = 0;
          do
          :: i < lanes ->
             assert(buffer[at + i] == 0);
             buffer[at + i] = me * SENDS + next + i + 1;
             i++
          :: else -> break
          od;
          i = 0
        };
#if BROKEN != 1
        written = written + lanes;  /* [B1] release */
#endif
        next = next + lanes
#if BROKEN == 4
     :: at + lanes > CAPACITY && at < CAPACITY ->
#else
     :: at + lanes > CAPACITY && at <= CAPACITY ->
#endif
        emptying++;
        assert(emptying == 1);
#if BROKEN != 3
        written == at;  /* [B1] acquire */
#endif
#if BROKEN != 7
        d_step { copy(at) };
#endif
        emptying--;
#if BROKEN == 2
        if
        :: written = 0; reserved = 0
        :: reserved = 0; written = 0
        fi;
#else
        written = 0;
        reserved = 0;  /* release: what is reserved from now on is added to the new `written` */
#endif
#if BROKEN == 5
        round = emptied;
        emptied = round + 1;
#else
        emptied = emptied + 1;  /* [B2] release */
#endif
#if BROKEN == 7
        d_step { copy(at) };
#endif
        n_published = n_published + at
     :: else -> emptied != round  /* [B2] acquire */
     fi;
     d_step { at = 0; round = 0 }
  od;
  n_done++
}

/* end(): behind a __syncthreads() the whole block hands over what is left. */
proctype block_end() {
  byte i;
  n_done == GROUPS;
  assert(written == reserved && written <= CAPACITY);
  d_step { copy(written) };
  n_published = n_published + written;
  assert(n_published == GROUPS * SENDS)
}

init {
  atomic {
    run group(0, 2);
    run group(1, 1);
    run group(2, 1);
    run block_end()
  }
}
