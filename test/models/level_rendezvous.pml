// The rendezvous of all blocks of all PEs between the levels of a search (lib/worklist/level_rendezvous.cuh). A block
// has one or two threads. Thread 0 stores the block's word at every PE, and its threads poll the words of all blocks in
// turn, and add up the reports.
//
//   step here   in the code                                                                       label
//   data        what the block has written, at any PE, before the call
//   store       store_behind_fence of the block's word into table k % 2 of each PE                [W8] release
//   see         wait_for: the word has number k                                                   [W8] acquire
//   add         atomicAdd_block to totals[k % 2]; thread 0 clears the totals of the next rendezvous
//   number      thread 0 counts on behind the last barrier, all read it behind the first
//
// Two kernels follow each other, and numbers continue. Words have the low part of the number (k modulo NUMBERS).
//
// Claims: a block that has seen a word of rendezvous k sees the report of k, and all that its block wrote before it;
// all threads return the sum of all reports of k; every thread leaves every rendezvous.
//
// BROKEN=1: one table, not two by parity.
// BROKEN=2: numbers begin anew with each kernel.
// BROKEN=3: a block stores its words before its data.
// BROKEN=4: a block waits for the blocks of its own PE only.
// BROKEN=5: words have one bit of the number.
// BROKEN=6: threads do not wait for each other at the beginning.
// BROKEN=7: totals are not cleared for the rendezvous after the next.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef BLOCKS
#define BLOCKS 1 /* of each PE */
#endif
#ifndef LEVELS
#define LEVELS 2 /* of each kernel */
#endif
#ifndef THREADS
#define THREADS 2 /* of each block */
#endif
#define KERNELS 2
#define ALL (PES * BLOCKS)
#if BROKEN == 5
#define NUMBERS 2
#else
#define NUMBERS 4
#endif
#if BROKEN == 1
#define TABLE(k) 0
#else
#define TABLE(k) ((k) % 2)
#endif
/* The word of block `of` in table TABLE(k) of PE `at`: the rendezvous whose report it has; its number is that modulo
   NUMBERS. */
#define WORD(at, of, k) word[((at) * 2 + TABLE(k)) * ALL + (of)]
#define REPORT(of, k) ((of) + 1 + (k))
#define TOTAL(b, k) totals[(b) * 2 + (k) % 2]

byte word[PES * 2 * ALL];
byte data[ALL];             /* the last rendezvous before which the block wrote */
byte totals[ALL * 2];
byte number[ALL];
byte stored_number[PES];    /* from one kernel to the next */
byte arrived[ALL], generation[ALL];
byte ended[PES];            /* threads that have ended their kernels */

inline sync_threads() {
  atomic {
    mine = generation[b];
    arrived[b]++;
    if
    :: arrived[b] == THREADS -> arrived[b] = 0; generation[b]++
    :: else
    fi
  }
  atomic { generation[b] != mine -> mine = 0 }
}

proctype thread(byte pe, b, t) {
  byte k, q, i, mine, level, kernel, sum, real;
  do
  :: kernel == KERNELS -> break
  :: else ->
     if
     :: t == 0 ->
        atomic {
#if BROKEN == 2
          number[b] = 0;
#else
          number[b] = stored_number[pe];
#endif
          TOTAL(b, 0) = 0;
          TOTAL(b, 1) = 0
        }
     :: else
     fi;
     level = 0;
     do
     :: level == LEVELS -> break
     :: else ->
        real = kernel * LEVELS + level + 1;
#if BROKEN != 3
        if
        :: t == 0 -> data[b] = real
        :: else
        fi;
#endif
#if BROKEN != 6
        sync_threads();
#endif
        k = number[b] + 1;
        if
        :: t == 0 ->
           q = 0;
           do
           :: q == PES -> break
           :: else -> WORD(q, b, k) = k; q++
           od;
#if BROKEN == 3
           data[b] = real
#endif
        :: else
        fi;
        i = t;
        do
        :: i >= ALL -> break
#if BROKEN == 4
        :: i < ALL && i / BLOCKS != pe -> i = i + THREADS
        :: i < ALL && i / BLOCKS == pe && WORD(pe, i, k) % NUMBERS == k % NUMBERS && WORD(pe, i, k) != 0 ->
#else
        :: i < ALL && WORD(pe, i, k) % NUMBERS == k % NUMBERS && WORD(pe, i, k) != 0 ->
#endif
           atomic {
             assert(WORD(pe, i, k) == k);
             assert(data[i] >= real);
             TOTAL(b, k) = TOTAL(b, k) + REPORT(i, WORD(pe, i, k));
             i = i + THREADS
           }
        od;
#if BROKEN != 7
        if
        :: t == 0 -> TOTAL(b, k + 1) = 0
        :: else
        fi;
#endif
        sync_threads();
        if
        :: t == 0 -> number[b] = k
        :: else
        fi;
        atomic {
          i = 0;
          sum = 0;
          do
          :: i == ALL -> break
          :: else -> sum = sum + REPORT(i, k); i++
          od;
          assert(TOTAL(b, k) == sum);
          i = 0
        }
        level++
     od;
     atomic {
       if
       :: t == 0 && b % BLOCKS == 0 -> stored_number[pe] = number[b]
       :: else
       fi;
       ended[pe]++
     }
     kernel++;
     /* The next kernel of this PE starts behind this one. Other PEs need not have ended theirs. */
     ended[pe] >= kernel * BLOCKS * THREADS
  od
}

init {
  byte i;
  atomic {
    do
    :: i == ALL -> break
    :: else ->
       run thread(i / BLOCKS, i, 0);
#if THREADS == 2
       run thread(i / BLOCKS, i, 1);
#endif
       i++
    od
  }
}
