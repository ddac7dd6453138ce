// The exchange by slots of a team's collectives in kernels (device/collective.cuh, lib/base/block_scratch.hpp). A
// member is one process: the block, warp or lane that calls for it. What it puts is applied before it notifies others:
// it has a quiet, or fences and stores.
//
//   step here   in the code
//   put         exchange_by_slots: into this member's slot at each other one, in the set of the epoch
//   notify      await_members: the epoch into flag[k] of the member 2^k further on
//   await       await_members: until the own flag[k] is at least the epoch
//   read        `take` of exchange_by_slots
//
// Claims: after a rendezvous a member reads what each member has put in it, also while others are ahead; no member
// leaves a rendezvous before all have begun it (the direct ways write results only then); all leave.
//
// BROKEN=1: one set of slots instead of two.
// BROKEN=2: a member notifies before it has put.
// BROKEN=3: one round alone.
// BROKEN=4: a member waits until its flag is the epoch, not at least the epoch.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 3
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#if BROKEN == 1
#define SET(e) 0
#else
#define SET(e) (e % 2)
#endif
#if BROKEN == 3
#define LIMIT 2
#else
#define LIMIT PES
#endif
#define ROUNDS 2
#define SLOT(at, e, from) slots[((at) * 2 + SET(e)) * PES + from]
#define FLAG(at, k) flags[(at) * ROUNDS + k]

byte slots[PES * 2 * PES];
byte flags[PES * ROUNDS];
byte began[PES];

inline put_all() {
  q = 0;
  do
  :: q == PES -> break
  :: else -> SLOT(q, e, me) = e; q++
  od
}

proctype member(byte me) {
  byte e = 1, q, k, distance;
  do
  :: e > EPOCHS -> break
  :: else ->
     began[me] = e;
#if BROKEN != 2
     put_all();
#endif
     k = 0;
     distance = 1;
     do
     :: distance >= LIMIT -> break
     :: else ->
        FLAG((me + distance) % PES, k) = e;
#if BROKEN == 4
        FLAG(me, k) == e;
#else
        FLAG(me, k) >= e;
#endif
        k++;
        distance = distance * 2
     od;
#if BROKEN == 2
     put_all();
#endif
     q = 0;
     do
     :: q == PES -> break
     :: else ->
        atomic {
          assert(began[q] >= e);
          assert(SLOT(me, e, q) == e);
          q++
        }
     od;
     e++
  od
}

init {
  byte i = 0;
  atomic {
    do
    :: i == PES -> break
    :: else -> run member(i); i++
    od
  }
}
