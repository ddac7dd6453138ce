// A slot of a gravel::map (lib/table/map_slots.cuh): lanes that add and erase keys claim, publish and erase slots at
// the same time. There are few slots, and all keys of the model have the same hash, so that they probe the same slots
// and only the key itself tells them apart.
//
//   step here    in the code                                          label
//   look         put, erase: the state, and the key if it is readable [D1]
//   claim        put: compare_swap_acquire, free or erased            [D2]
//   publish      put: key and value, then the state                   [D1]
//   mark         erase: compare_swap_acq_rel                          [D2]
//
// Claims: no key has two slots; a key that is read is complete; no addition is lost where nobody erases; each call
// ends.
//
// BROKEN=1: the state is published before the key.
// BROKEN=2: a lane that finds a slot claimed probes the next one.
// BROKEN=3: a slot is claimed without a comparison.
// BROKEN=4: an erased slot becomes free for other keys.
// BROKEN=5: the state is published before the value.
// BROKEN=6: a key that is there keeps its value, and the addition is lost.
// BROKEN=7: a lane does not look again when the exchange has failed.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef LANES
#define LANES 3
#endif
#ifndef STEPS
#define STEPS 2 /* calls of a lane */
#endif
#ifndef KEYS
#define KEYS 2
#endif
#ifndef ERASES
#define ERASES 1 /* whether lanes erase */
#endif
#define SLOTS 3
#define FREE 0
#define CLAIMED 1
#define PRESENT 2
#define ERASED 3

byte state[SLOTS], key[SLOTS], value[SLOTS]; /* key 0: none is written yet */
byte added[KEYS + 1];                        /* additions to each key */
byte ended;

/* One lane: some calls, each of any key. */
proctype lane() {
  byte step = 0, at, seen, k;
  bool done, adds;
  do
  :: step == STEPS -> break
  :: else ->
     select(k : 1 .. KEYS);
     if
     :: adds = true
#if ERASES
     :: adds = false
#endif
     fi;
     at = 0;
     done = false;
     do
     :: done || at == SLOTS -> break
     :: !done && at < SLOTS ->
        seen = state[at];
        if
        :: seen == FREE && !adds -> done = true
        :: (seen == FREE && adds) || (seen == ERASED && key[at] == k && adds) ->
           /* claim */
           atomic {
             if
#if BROKEN == 3
             :: true ->
#else
             :: state[at] == seen ->
#endif
                state[at] = CLAIMED; done = true
#if BROKEN == 7
             :: state[at] != seen -> at++
#else
             :: else
#endif
             fi
           };
           if
           :: done ->
#if BROKEN == 1
              state[at] = PRESENT;
              if
              :: seen == FREE -> key[at] = k
              :: else
              fi;
              atomic { value[at] = 1; added[k]++ }
#else
              if
              :: seen == FREE -> key[at] = k
              :: else
              fi;
#if BROKEN == 5
              state[at] = PRESENT;
#endif
              atomic { value[at] = 1; added[k]++ };
              state[at] = PRESENT
#endif
           :: else
           fi
        :: seen == CLAIMED ->
#if BROKEN == 2
           at++
#else
           state[at] != CLAIMED
#endif
        :: (seen == PRESENT || seen == ERASED) && key[at] != k -> assert(key[at] != 0); at++
        :: seen == ERASED && key[at] == k && !adds -> done = true
        :: seen == PRESENT && key[at] == k && adds ->
           atomic {
#if BROKEN != 6
             value[at]++;
#endif
             added[k]++;
             done = true
           }
        :: seen == PRESENT && key[at] == k && !adds ->
           atomic {
             if
             :: state[at] == PRESENT ->
#if BROKEN == 4
                state[at] = FREE;
#else
                state[at] = ERASED;
#endif
                done = true
             :: else
             fi
           }
        fi
     od;
     assert(done);
     step++
  od;
  ended++
}

init {
  byte i = 0, k = 1, n, sum; /* n: slots of key k */
  atomic {
    do
    :: i == LANES -> break
    :: else -> run lane(); i++
    od
  };
  ended == LANES;
  atomic {
    do
    :: k > KEYS -> break
    :: else ->
       n = 0;
       sum = 0;
       i = 0;
       do
       :: i == SLOTS -> break
       :: else ->
          assert(state[i] != CLAIMED);
          if
          :: state[i] != FREE && key[i] == k -> n++; sum = value[i]
          :: else
          fi;
          i++
       od;
       assert(n <= 1);
#if ERASES == 0
       assert(sum == added[k]);
#endif
       k++
    od
  }
}
