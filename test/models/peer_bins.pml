// The bins of device/peer_bins.cuh. Groups of lanes reserve places in an endless sequence that runs through two halves
// in turn; the part that completes a half pushes it. One process is one group. If the places of a group of two lanes
// end one half and begin the next, the group goes on as two parts, each for itself.
//
//   step here     in peer_bins                                                            label
//   reserve       add: at = block_add(&reserved, size)
//   wait          add: holds[which] == generation                                         [B4] acquire
//   write         add: store_unit by every lane, then written[which] += size of the part  [B3]
//   complete      add: the part that makes written[which] == half pushes
//   copy          push: messages of the half go into the ring
//   release       push: written[which] = 0, then holds[which] = generation + 2            [B4] release
//   rest          finish: after a __syncthreads() the block pushes the rest
//
// Places are 32 bits wide in the code and wrap; here they wrap at PLACES, which is more than groups can be apart.
// Claims: each message is pushed exactly once, no place is written before its last content is pushed, exactly one part
// pushes a generation, the halves of a bin are pushed by one part each at a time, and there is no deadlock. Every loop
// of the model waits for a change.
//
// BROKEN=1: the half is released before it is copied.
// BROKEN=2: the part with the last place of a half pushes it, whatever `written` says.
// BROKEN=3: the half is released for generation + 1.
// BROKEN=4: `written` is not reset.
// BROKEN=5: `written` grows before the message is there ([B3] without order).
// BROKEN=6: `written` is reset after the release ([B4] without order).
// BROKEN=7: a part does not wait until the half holds its generation.
// BROKEN=8: generations do not wrap where places do.
// BROKEN=9: a group that is split counts all its lanes where its first lane writes.
// BROKEN=10: `written` grows by a load and a store.
#ifndef BROKEN
#define BROKEN 0
#endif
#define HALF 2
#define PLACES 12  /* a multiple of 2 * HALF, as in the code */
#define GENERATIONS (PLACES / HALF)
#ifndef PAIRS
#define PAIRS 1       /* groups of two lanes; the others have one */
#endif
#define GROUPS 3
#ifndef SENDS
#define SENDS 4       /* messages of each lane */
#endif
#define LANES (GROUPS + PAIRS)
#define MESSAGES (LANES * SENDS)  /* ids: lane * SENDS + number, + 1 in a place; 0 is a place that may be written */

byte reserved, written[2], holds[2];
byte memory[2 * HALF];
bool pushed[MESSAGES];
byte n_pushed, n_done;
byte pushing[2];                    /* ghost: parts that push this half */
bool open[GENERATIONS];             /* ghost: the generation has been completed once and its half not released */
/* To the second lane of a group of two, when it goes on as a part of its own: place and message. */
chan to_second[2] = [0] of { byte, byte };
chan from_second[2] = [0] of { bit };

/* The message in a place is pushed. */
inline copy_one(at_) {
  assert(memory[at_] != 0);
  assert(!pushed[memory[at_] - 1]);
  pushed[memory[at_] - 1] = true;
  n_pushed++;
  memory[at_] = 0
}

#if BROKEN == 3
#define NEXT ((generation + 1) % GENERATIONS)
#elif BROKEN == 8
#define NEXT (generation + 2)
#else
#define NEXT ((generation + 2) % GENERATIONS)
#endif

/* A part of n lanes with the places from `place` on; lane0's message is `id`, that of the next SENDS above it.
   `counted` is what it adds to `written`: n. */
inline part_goes_on(place, n, id, counted) {
  generation = place / HALF;
  which = generation % 2;
#if BROKEN != 7
  holds[which] == generation;  /* [B4] acquire */
#endif
#if BROKEN == 5
  d_step { written[which] = written[which] + counted; now = written[which] };
#endif
  d_step {
    assert(memory[which * HALF + place % HALF] == 0);
    memory[which * HALF + place % HALF] = id + 1;
    if
    :: n == 2 ->
       assert(memory[which * HALF + place % HALF + 1] == 0);
       memory[which * HALF + place % HALF + 1] = id + SENDS + 1
    :: else
    fi
  };
#if BROKEN == 10
  now = written[which] + counted;
  written[which] = now;
#elif BROKEN != 5
  d_step { written[which] = written[which] + counted; now = written[which] };  /* [B3] */
#endif
  if
#if BROKEN == 2
  :: (place + n) % HALF == 0 ->
#else
  :: now == HALF ->
#endif
     d_step { pushing[which]++; assert(pushing[which] == 1); assert(!open[generation]); open[generation] = true };
#if BROKEN == 1
     d_step { pushing[which]--; open[generation] = false; written[which] = 0 };
     holds[which] = NEXT;
#endif
     d_step { copy_one(which * HALF) };
     d_step { copy_one(which * HALF + 1) };
#if BROKEN != 1
     d_step { pushing[which]--; open[generation] = false };
#if BROKEN == 6
     holds[which] = NEXT;
     written[which] = 0;
#else
#if BROKEN != 4
     written[which] = 0;
#endif
     holds[which] = NEXT  /* [B4] release */
#endif
#endif
  :: else
  fi;
  d_step { now = 0; generation = 0; which = 0 }
}

/* `first`: number of its first lane. */
proctype group(byte me; byte lanes; byte first) {
  byte next, at, generation, which, now;
  do
  :: next == SENDS -> break
  :: else ->
     d_step { at = reserved; reserved = (reserved + lanes) % PLACES };
     if
     :: lanes == 2 && at % HALF == HALF - 1 ->
        to_second[me]!(at + 1) % PLACES,(first + 1) * SENDS + next;
#if BROKEN == 9
        part_goes_on(at, 1, first * SENDS + next, 2);
#else
        part_goes_on(at, 1, first * SENDS + next, 1);
#endif
        from_second[me]?_
     :: else -> part_goes_on(at, lanes, first * SENDS + next, lanes)
     fi;
     d_step { at = 0; next++ }
  od;
  n_done++
}

proctype second(byte me) {
  byte at, id, generation, which, now;
end:
  do
  :: to_second[me]?at,id ->
#if BROKEN == 9
     part_goes_on(at, 1, id, 0);
#else
     part_goes_on(at, 1, id, 1);
#endif
     d_step { at = 0; id = 0 };
     from_second[me]!0
  od
}

/* finish(): the whole block. */
proctype block_end() {
  byte i;
  n_done == GROUPS;
  d_step {
    i = reserved / HALF % 2;  /* the half that is not complete */
    assert(written[i] == reserved % HALF && written[1 - i] == 0);
    assert(holds[i] == reserved / HALF && holds[1 - i] == (reserved / HALF + 1) % GENERATIONS);
    if
    :: reserved % HALF == 1 -> copy_one(i * HALF)
    :: else
    fi;
    assert(n_pushed == MESSAGES)
  }
}

init {
  atomic {
    holds[1] = 1;
#if PAIRS == 0
    run group(0, 1, 0); run group(1, 1, 1); run group(2, 1, 2);
#elif PAIRS == 1
    run group(0, 2, 0); run second(0); run group(1, 1, 2); run group(2, 1, 3);
#else
    run group(0, 2, 0); run second(0); run group(1, 2, 2); run second(1); run group(2, 1, 4);
#endif
    run block_end()
  }
}
