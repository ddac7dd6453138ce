// A rendezvous of PEs between kernels, by a kernel (host/mapped_rendezvous.cuh). A PE is one process: its kernels
// follow each other, and its host starts the next rendezvous when it has read the words of the last one.
//
//   step here      in the code
//   say, arrive    wait_for_others: words into each PE's table, then the number of the rendezvous there [Y1]
//   await          wait_for_others: until all have arrived [Y1]
//   read           mapped_rendezvous::gather, of the host; or a kernel that is started after mapped_rendezvous::say
//
// Claims: a PE that has left a rendezvous reads the words that each PE said in it; no PE leaves before all have
// arrived; all leave.
//
// BROKEN=1: one table instead of two.
// BROKEN=2: the number is written before the words.
// BROKEN=3: a PE waits for the next PE alone.
// BROKEN=4: the next rendezvous begins before the table is read.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif
#if BROKEN == 1
#define TABLE(k) 0
#else
#define TABLE(k) (k % 2)
#endif
#define WORD(pe, k, from) words[(pe * 2 + TABLE(k)) * PES + from]

byte words[PES * 2 * PES]; /* at each PE, of each table, from each */
byte came[PES * PES];      /* at (p, q): the last rendezvous at which q has arrived, as p sees it */
byte began[PES];

proctype pe(byte me) {
  byte k = 1, q;
  do
  :: k > ROUNDS -> break
  :: else ->
     began[me] = k;
     q = 0;
     do
     :: q == PES -> break
     :: else ->
#if BROKEN == 2
        came[q * PES + me] = k;
        WORD(q, k, me) = k;
#else
        WORD(q, k, me) = k;
        came[q * PES + me] = k; /* [Y1] */
#endif
        q++
     od;
#if BROKEN == 3
     came[me * PES + (me + 1) % PES] >= k;
#else
     q = 0;
     do
     :: q == PES -> break
     :: else -> came[me * PES + q] >= k; q++ /* [Y1] */
     od;
#endif
     q = 0;
     do
     :: q == PES -> break
     :: else ->
        atomic {
          assert(began[q] >= k);
#if BROKEN == 4
          if
          :: k > 1 -> assert(WORD(me, (k - 1), q) == k - 1)
          :: else
          fi;
#else
          assert(WORD(me, k, q) == k);
#endif
          q++
        }
     od;
     k++
  od
}

init {
  byte i = 0;
  atomic {
    do
    :: i == PES -> break
    :: else -> run pe(i); i++
    od
  }
}
