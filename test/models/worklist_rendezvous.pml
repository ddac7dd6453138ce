// The rendezvous of blocks that work many rounds in one kernel (lib/worklist/fused.cuh). Each block has a number of
// entries. Expanding an entry makes new ones: near ones in the block's own memory, or far ones in a list of all blocks.
// When no block has any, the limit moves on and the far list is split anew.
//
//   step here          in the code                                                            label
//   report             rendezvous_of_blocks: least, then size, flags and epoch                [W1] release
//   see                rendezvous_of_blocks: the reports of all blocks with this epoch        [W1] acquire
//   far_size           run_rounds: read when no block has anything, reset after the next rendezvous
//   far list, turn     scan_far: from the list that was current into the other one
//   leave              a block whose own list is full puts entries into near_size, sets its flag, and all blocks leave
//                      after the same rendezvous
//
// Two launches follow each other; epochs go on. A launch ends when no block has anything, or when blocks leave: then
// all remaining entries lie in near_size or in a block's own memory, and go to the next launch.
//
// Claims: all blocks draw the same conclusion from each rendezvous; no block waits for ever; of ENTRIES entries each is
// expanded once, far entries after they became near; the far list is never written while a block may read its length.
//
// BROKEN=1: one report of each block, not two by parity.
// BROKEN=2: epochs begin anew with each launch.
// BROKEN=3: no second rendezvous when nothing became near: the other list is filled before all have seen its size.
// BROKEN=4: far_size is reset before the rendezvous that follows the scan of the list.
// BROKEN=5: a block that is full leaves by itself.
// BROKEN=6: the far list does not change its turn.
// BROKEN=7: a block decides by far_size and its own list, not by the rendezvous.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef ROOM
#define ROOM 2 /* entries of a block's own memory */
#endif
#ifndef ENTRIES
#define ENTRIES 4 /* in all */
#endif
#ifndef STEPS
#define STEPS 2 /* limits to pass until the farthest is near */
#endif
#define LAUNCHES 2
#if BROKEN == 1
#define PARITY(e) 0
#else
#define PARITY(e) ((e) % 2)
#endif
#define REPORT(b, e) ((b) * 2 + PARITY(e))

/* A report is one word: epoch, size, leave. */
byte said_epoch[BLOCKS * 2], said_size[BLOCKS * 2];
bool said_leave[BLOCKS * 2];
byte own[BLOCKS];        /* entries in a block's own memory */
byte spilled;            /* near_size of the other list */
byte far_size[2];
byte far_of[2 * STEPS];  /* [turn][steps that it is away] entries; those of the list in words at vertices */
byte first_epoch, first_turn;
byte made, expanded, running;
byte total_of[64];       /* by epoch: what the first block to see all reports concluded */
bool leaves_of[64], seen_of[64];

inline put_near(fresh) {
  /* Fresh entries for this block; what finds no room is spilled. */
  atomic {
    own[me] = own[me] + fresh;
    if
    :: own[me] > ROOM -> spilled = spilled + own[me] - ROOM; own[me] = ROOM; leave = true
    :: else
    fi
  }
}

inline rendezvous_of_blocks() {
  epoch++;
  atomic {
    said_epoch[REPORT(me, epoch)] = epoch; said_size[REPORT(me, epoch)] = own[me]; said_leave[REPORT(me, epoch)] = leave
  };
  total = 0; leaves = false;
  i = 0;
  do
  :: i == BLOCKS -> break
  :: i < BLOCKS && said_epoch[REPORT(i, epoch)] == epoch ->
     atomic { total = total + said_size[REPORT(i, epoch)]; leaves = leaves || said_leave[REPORT(i, epoch)]; i++ }
#if BROKEN == 5
  :: i < BLOCKS && leave -> leaves = true; i = BLOCKS
#endif
  od;
  atomic {
    if
    :: seen_of[epoch] -> assert(total_of[epoch] == total && leaves_of[epoch] == leaves)
    :: else -> seen_of[epoch] = true; total_of[epoch] = total; leaves_of[epoch] = leaves
    fi
  }
}

proctype block(byte me) {
  byte epoch = first_epoch, turn = first_turn, total, waiting, i, n, k;
  bool leave, leaves;
  rendezvous_of_blocks();
  do
  :: leaves -> break
#if BROKEN == 7
  :: !leaves && own[me] == 0 ->
#else
  :: !leaves && total == 0 ->
#endif
     waiting = far_size[turn];
     if
     :: waiting == 0 -> break
     :: else
     fi;
#if BROKEN != 6
     turn = 1 - turn;
#endif
#if BROKEN == 4
     if
     :: me == 0 -> far_size[1 - turn] = 0
     :: else
     fi;
#endif
     /* Each block takes its part of the list, one entry at a time, until the list is empty or others have the rest. */
     k = 0;
     do
     :: k == STEPS -> break
     :: k < STEPS && far_of[(1 - turn) * STEPS + k] == 0 -> k++
     :: k < STEPS ->
        atomic {
          if
          :: far_of[(1 - turn) * STEPS + k] > 0 ->
             far_of[(1 - turn) * STEPS + k]--;
             if
             :: k == 0 -> put_near(1)
             :: else -> far_of[turn * STEPS + k - 1]++; far_size[turn]++
             fi
          :: else
          fi
        }
     od;
     rendezvous_of_blocks();
#if BROKEN != 4
     if
     :: me == 0 -> far_size[1 - turn] = 0
     :: else
     fi;
#endif
#if BROKEN != 3
     if
     :: total == 0 -> rendezvous_of_blocks()
     :: else
     fi
#endif
#if BROKEN == 7
  :: !leaves && own[me] > 0 ->
#else
  :: !leaves && total > 0 ->
#endif
     /* The round: all own entries are expanded; each makes entries as long as there are any. */
     n = own[me];
     atomic { own[me] = 0; expanded = expanded + n };
     do
     :: n == 0 -> break
     :: n > 0 && made == ENTRIES -> n--
     :: n > 0 && made < ENTRIES ->
        atomic {
          if
          :: made < ENTRIES ->
             made++;
             if
             :: put_near(1)
             :: far_of[turn * STEPS]++; far_size[turn]++
             :: STEPS > 1 -> far_of[turn * STEPS + STEPS - 1]++; far_size[turn]++
             :: made < ENTRIES -> made++; put_near(2)
             fi
          :: else
          fi
        };
        if
        :: n--
        :: skip
        fi
     od;
     rendezvous_of_blocks()
  od;
  atomic {
    if
    :: me == 0 -> first_turn = turn;
#if BROKEN != 2
       first_epoch = epoch
#endif
    :: else
    fi;
    running--
  }
}

init {
  byte launches = 0, b, left;
  own[0] = 1; made = 1;
  do
  :: launches == LAUNCHES -> break
  :: launches < LAUNCHES ->
     atomic {
       b = 0; running = BLOCKS;
       do
       :: b == BLOCKS -> break
       :: else -> run block(b); b++
       od
     };
     (running == 0);
     atomic {
       /* What is left goes to the next launch, dealt out; the grid takes what it can. */
       left = spilled; spilled = 0;
       b = 0;
       do
       :: b == BLOCKS -> break
       :: else -> left = left + own[b]; own[b] = 0; b++
       od;
       if
       :: left == 0 ->
          /* The end: nothing waits. */
          assert(far_size[first_turn] == 0);
          b = 0;
          do
          :: b == 2 * STEPS -> break
          :: else -> assert(far_of[b] == 0); b++
          od;
          assert(expanded == made)
       :: else ->
          assert(expanded + left <= made);
          do
          :: left <= BLOCKS * ROOM -> break
          :: else -> left--; expanded++ /* by the grid */
          od;
          b = 0;
          do
          :: left == 0 -> break
          :: else -> own[b] = own[b] + 1; left--; b = (b + 1) % BLOCKS
          od
       fi;
#if BROKEN == 2
       b = 0;
       do
       :: b == 64 -> break
       :: else -> seen_of[b] = false; b++
       od;
#endif
       launches++
     }
  od
}
