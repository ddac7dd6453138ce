// Barriers that are decided on the devices (device/settle.cuh): each PE has a word at every PE; one kernel for each
// barrier.
//
//   step here    in the code                                                    label
//   settled      gravel_quiet in the kernel
//   notify       all.theirs[rank] = number, in any order                        [S1] release
//   see          until all words here are at least `number`                     [S1] acquire
//   returned     the host goes on: it may begin the next barrier at once        [S2]
//
// Claims: no PE leaves barrier k before all have come to it with everything settled; every PE leaves every barrier.
//
// BROKEN=1: a PE notifies the others before its messages are settled.
// BROKEN=2: words are compared for equality: the word of a PE that is a barrier ahead is not seen.
// BROKEN=3: words are reset after each barrier instead of counted up.
// BROKEN=4: a PE waits for one of the others only.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 3
#endif
#ifndef BARRIERS
#define BARRIERS 2
#endif

byte word[PES * PES];   /* [at][of] */
byte settled[PES];
#define AT(at, of) word[(at) * PES + (of)]
#if BROKEN == 2
#define SEEN(me, of) (AT(me, of) == k)
#elif BROKEN == 3
#define SEEN(me, of) (AT(me, of) != 0)
#else
#define SEEN(me, of) (AT(me, of) >= k)
#endif

proctype pe(byte me) {
  byte k = 1, i;
  do
  :: k > BARRIERS -> break
  :: else ->
#if BROKEN != 1
     settled[me] = k;
#endif
     i = 0;
     do
     :: i == PES -> break
     :: else -> AT(i, me) = k; i++
     od;
#if BROKEN == 1
     settled[me] = k;
#endif
#if BROKEN == 4
     SEEN(me, (me + 1) % PES);
#else
     i = 0;
     do
     :: i == PES -> break
     :: i < PES && SEEN(me, i) -> i++
     od;
#endif
     i = 0;
     do
     :: i == PES -> break
     :: else -> assert(settled[i] >= k); i++
     od;
#if BROKEN == 3
     i = 0;
     do
     :: i == PES -> break
     :: else -> AT(me, i) = 0; i++
     od;
#endif
     k++
  od
}

init {
  byte i;
  atomic {
    do
    :: i == PES -> break
    :: else -> run pe(i); i++
    od
  }
}
