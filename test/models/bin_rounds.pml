// Groups of lanes that send to several bins at once (device/peer_bins.cuh, add_together). In each round the lanes that
// have room write, full halves are pushed, and the other lanes try again. One bin alone, its orders and its wrap are
// the matter of peer_bins.pml.
//
//   step here   in add_together                                          label
//   reserve     block_add_relaxed, once for the lanes of a bin
//   a round     goes: holds[which] == generation                         [B4] acquire
//   write       store_message, group.sync
//   count       block_add of the lanes of a part that wrote              [B3]
//   push        push: written = 0, holds = generation + 2                [B4] release
//
// Claims: no place is written before its last content is pushed; a half is pushed when all its places are written; no
// group waits for ever (a state in which no process can take a step is an error). The lanes of a part may read
// different words, as they read one after the other: SPLIT=1 lets one of two lanes go although both could.
//
// BROKEN=1: a group waits until all its lanes can go.
// BROKEN=2: all lanes of a part are counted when one of them went.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef SENDS
#define SENDS 2
#endif
#define HALF 2
#define BINS 2

byte reserved[BINS];
byte written[4];   /* [bin * 2 + which] */
byte holds[4];
bit filled[8];     /* [(bin * 2 + which) * HALF + place] */
byte pushed, left, done;

#define HALF_OF(l) (bin[l] * 2 + (place[l] / HALF) % 2)
#define CAN(l) (waits[l] && holds[HALF_OF(l)] == place[l] / HALF)
#define SAME_PART (bin[0] == bin[1] && place[0] / HALF == place[1] / HALF)

inline write(l) {
  assert(!filled[HALF_OF(l) * HALF + place[l] % HALF]);
  filled[HALF_OF(l) * HALF + place[l] % HALF] = 1
}
inline push_if_full(l) {
  if
  :: complete[l] -> atomic {
     assert(filled[HALF_OF(l) * HALF] && filled[HALF_OF(l) * HALF + 1]);
     filled[HALF_OF(l) * HALF] = 0;
     filled[HALF_OF(l) * HALF + 1] = 0;
     pushed = pushed + HALF;
     written[HALF_OF(l)] = 0;
     holds[HALF_OF(l)] = holds[HALF_OF(l)] + 2;
     complete[l] = false }
  :: else -> skip
  fi
}
inline count(l, n) {
  atomic {
    written[HALF_OF(l)] = written[HALF_OF(l)] + n;
    complete[l] = written[HALF_OF(l)] == HALF
  }
}

proctype group() {
  byte sent, bin[2], place[2], n;
  bool waits[2], goes[2], complete[2];
  do
  :: sent == SENDS -> break
  :: else ->
     atomic {
       if :: bin[0] = 0 :: bin[0] = 1 fi;
       if :: bin[1] = 0 :: bin[1] = 1 fi
     }
     atomic {
       place[0] = reserved[bin[0]];
       reserved[bin[0]]++;
       if :: bin[1] == bin[0] -> place[1] = reserved[bin[1]]; reserved[bin[1]]++ :: else -> skip fi
     }
     if :: bin[1] != bin[0] -> atomic { place[1] = reserved[bin[1]]; reserved[bin[1]]++ } :: else -> skip fi;
     waits[0] = true; waits[1] = true;
     do
     :: !waits[0] && !waits[1] -> break
#if BROKEN == 1
     :: (!waits[0] || CAN(0)) && (!waits[1] || CAN(1)) && (waits[0] || waits[1]) ->
#else
     :: CAN(0) || CAN(1) ->
#endif
        atomic {  // in which order memory sees this is peer_bins.pml's matter
        goes[0] = CAN(0);
        goes[1] = CAN(1);
#if SPLIT
        if :: goes[0] && goes[1] -> if :: goes[0] = false :: goes[1] = false :: skip fi :: else -> skip fi;
#endif
        if :: goes[0] -> write(0) :: else -> skip fi;
        if :: goes[1] -> write(1) :: else -> skip fi;
        n = goes[0] + goes[1]
        };
#if BROKEN == 2
        if :: SAME_PART && waits[0] && waits[1] -> n = 2 :: else -> skip fi;
#endif
        if
        :: SAME_PART && goes[0] -> count(0, n)
        :: SAME_PART && !goes[0] && goes[1] -> count(1, n)
        :: !SAME_PART && goes[0] -> count(0, 1); if :: goes[1] -> count(1, 1) :: else -> skip fi
        :: !SAME_PART && !goes[0] && goes[1] -> count(1, 1)
        :: else -> skip
        fi;
        push_if_full(0);
        push_if_full(1);
        waits[0] = waits[0] && !goes[0];
        waits[1] = waits[1] && !goes[1]
     od;
     sent++
  od;
  done++
}

init {
  byte i;
  atomic {
    holds[1] = 1;
    holds[3] = 1;
    do
    :: i == GROUPS -> break
    :: else -> run group(); i++
    od
  }
  (done == GROUPS);
  for (i : 0 .. 7) { left = left + filled[i] }
  assert(pushed + left == GROUPS * SENDS * 2)
}
