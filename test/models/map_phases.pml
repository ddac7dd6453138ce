// Collective insertions into a gravel::map by phases (lib/table/map_phase_kernels.cuh). Each PE has one part of its
// table, with one slot, and the slots behind the part. Lists have room for few items.
//
//   step here      in the code
//   rendezvous     wait_for_others (test/models/mapped_rendezvous.pml)
//   deal           deal_items: into the owner's list, or by the slots' protocol if it is full
//   notify         notify_owners
//   copy, insert   insert_parts: a copy of the part, the items, the copy back
//   left           insert_left: items whose keys are not in the full part
//
// An insertion by the slots' protocol is one step here: test/models/map_slot.pml has its steps.
//
// Claims: each item is counted once, and none is lost; no key has two slots; all PEs end.
//
// BROKEN=1: no rendezvous behind the own phase.
// BROKEN=2: no rendezvous between dealing and the own phase.
// BROKEN=3: an item whose list is full is forgotten.
// BROKEN=4: insert_left inserts all items of a full part.
// BROKEN=5: insert_left is missing.
// BROKEN=6: an item goes behind the part although the part has its key.
// BROKEN=7: lists are not emptied for the next chunk.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef ITEMS
#define ITEMS 2 /* of a PE in a chunk */
#endif
#ifndef ROOM
#define ROOM 1 /* items of a list */
#endif
#define PES 2
#define KEYS 2
#define LIST(owner, from) (owner * PES + from)

byte came[PES];               /* the last rendezvous of each */
byte list[PES * PES * ROOM];  /* keys */
byte arrived[PES * PES];      /* places taken in each list, as the owner sees it */
byte key[PES], sum[PES];      /* the slot of each part; key 0: it is free */
byte behind[PES * (KEYS + 1)]; /* sums of the keys that have a slot behind the part */
byte dealt[PES * (KEYS + 1)];
byte ended;

/* An insertion by the slots' protocol. */
inline put(pe, k) {
  atomic {
    if
    :: key[pe] == 0 || key[pe] == k -> key[pe] = k; sum[pe]++
#if BROKEN == 6
    :: else -> behind[pe * (KEYS + 1) + k]++
    :: key[pe] == k -> behind[pe * (KEYS + 1) + k]++
#else
    :: else -> behind[pe * (KEYS + 1) + k]++
#endif
    fi
  }
}
inline rendezvous() {
  number++;
  came[me] = number;
  came[1 - me] >= number
}

proctype pe(byte me) {
  byte chunk, number, i, from, k, owner, copy_key, copy_sum;
  byte tails[PES];
  bool is_full;
  rendezvous();
  do
  :: chunk == CHUNKS -> break
  :: else ->
#if BROKEN != 7
     tails[0] = 0;
     tails[1] = 0;
#endif
     i = 0;
     do
     :: i == ITEMS -> break
     :: else ->
        select(k : 1 .. KEYS);
        select(owner : 0 .. 1);
        dealt[owner * (KEYS + 1) + k]++;
        if
        :: tails[owner] < ROOM -> list[LIST(owner, me) * ROOM + tails[owner]] = k
#if BROKEN == 3
        :: else
#else
        :: else -> put(owner, k)
#endif
        fi;
        tails[owner]++;
        i++
     od;
     arrived[LIST(0, me)] = tails[0];
     arrived[LIST(1, me)] = tails[1];
#if BROKEN != 2
     rendezvous();
#endif
     is_full = false;
     atomic { copy_key = key[me]; copy_sum = sum[me] };
     from = 0;
     do
     :: from == PES -> break
     :: else ->
        i = 0;
        do
        :: i == ROOM || i >= arrived[LIST(me, from)] -> break
        :: else ->
           k = list[LIST(me, from) * ROOM + i];
           if
           :: copy_key == 0 || copy_key == k -> copy_key = k; copy_sum++
           :: else -> is_full = true
           fi;
           i++
        od;
        from++
     od;
     atomic { key[me] = copy_key; sum[me] = copy_sum };
#if BROKEN != 5
     from = 0;
     do
     :: from == PES || !is_full -> break
     :: else ->
        i = 0;
        do
        :: i == ROOM || i >= arrived[LIST(me, from)] -> break
        :: else ->
           k = list[LIST(me, from) * ROOM + i];
           if
#if BROKEN == 4
           :: true -> put(me, k)
#else
           :: key[me] != k -> put(me, k)
           :: else
#endif
           fi;
           i++
        od;
        from++
     od;
#endif
#if BROKEN != 1
     rendezvous();
#endif
     chunk++
  od;
  ended++
}

init {
  byte p = 0, k, slot, counted;
  atomic {
    run pe(0);
    run pe(1)
  };
  ended == PES;
  atomic {
    do
    :: p == PES -> break
    :: else ->
       k = 1;
       do
       :: k > KEYS -> break
       :: else ->
          slot = (key[p] == k -> sum[p] : 0);
          counted = slot + behind[p * (KEYS + 1) + k];
          assert(slot == 0 || behind[p * (KEYS + 1) + k] == 0);
          assert(counted == dealt[p * (KEYS + 1) + k]);
          k++
       od;
       p++
    od
  }
}
