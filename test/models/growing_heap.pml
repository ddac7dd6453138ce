// Heaps that grow (host/pe/symmetric_heap.hpp, host/pe/extent_exchange.hpp, host/pe/peers.cpp). The PEs of a node
// allocate and free one object, again and again. Each time it needs an extent, which may fail to be committed, or to be
// mapped, at any PE. A PE sends messages to the object at the others, which are applied some time later.
//
//   step here            in the code
//   commit               heap_memory::cover
//   COLLECTIVE(1)        symmetric_heap::allocate: the first agree
//   send, receive        extent_exchange::exchange
//   map                  peers::share
//   COLLECTIVE(2)        symmetric_heap::allocate: the second agree
//   undo                 symmetric_heap::take_away
//   quiet                gravel_free: completion::quiet
//   COLLECTIVE(3)        symmetric_heap::release
//   take away            symmetric_heap::take_away
//
// gravel_register takes the same steps, with heap_memory::fill in the place of cover. The collective before them only
// ends the call where memory of one PE cannot be shared: nothing is committed or sent before it. The extents of its PEs
// may be divided in different ways, which the model does not see: it has one extent. gravel_unregister is as gravel_free.
//
// Memory has a number, that of the allocation; 0: there is none.
//
// Claims: an extent is committed, or mapped, only where nothing is; all PEs agree whether an allocation has succeeded; a
// message finds the memory for which it was meant; descriptors belong to the exchange in which they are read; all PEs
// end, with nothing left.
//
// BROKEN=1: no second collective: a PE goes on when it has mapped all itself.
// BROKEN=2: a PE that has committed passes its descriptor on, although another PE has failed.
// BROKEN=3: after a failure a PE keeps what it has mapped.
// BROKEN=4: after a failure only the PE that has failed takes its extent away.
// BROKEN=5: gravel_free does not wait for this PE's messages.
// BROKEN=6: gravel_free takes the extent away before the collective.
// BROKEN=7: a PE receives before it sends.
// BROKEN=8: gravel_free does not unmap the other PEs' extents.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define AT(pe, other) ((pe) * PES + (other))

byte own[PES];          /* the memory behind the extent of each PE */
byte maps[PES * PES];   /* [PE][other]: the memory that the PE has mapped for the other */
byte flight[PES * PES]; /* [to][from]: the memory for which the message is meant; 0: no message */
chan listener[PES] = [PES] of { byte, byte, byte };  /* PE, exchange, memory */
byte arrived[3 * ROUNDS + 1], failed[3 * ROUNDS + 1];
byte ended, succeeded[ROUNDS + 1], gave_up[ROUNDS + 1];  /* ghosts */

/* All PEs call collective number `k` of this round, and learn how many of them have failed. */
#define COLLECTIVE(k, fails)                                                \
  atomic { failed[3 * round + k - 3] = failed[3 * round + k - 3] + fails;   \
           arrived[3 * round + k - 3]++ };                                  \
  arrived[3 * round + k - 3] == PES

inline take_away() {
  own[me] = 0;
  other = 0;
  do
  :: other == PES -> break
  :: else ->
#if BROKEN == 3
     if :: undoes -> skip :: else -> maps[AT(me, other)] = 0 fi;
#elif BROKEN == 8
     if :: undoes -> maps[AT(me, other)] = 0 :: else -> skip fi;
#else
     maps[AT(me, other)] = 0;
#endif
     other++
  od
}

inline send() {
  other = 0;
  do
  :: other == PES -> break
  :: other != me && other < PES -> listener[other] ! me, round, own[me]; other++
  :: other == me -> other++
  od
}

proctype pe(byte me) {
  byte round = 1, other, from, number, memory, n;
  bool fails, undoes, maps_all;
  do
  :: round > ROUNDS -> break
  :: else ->
     undoes = false;
     maps_all = true;
     assert(own[me] == 0);
     if :: own[me] = round; fails = false :: fails = true fi;  /* commit */
     COLLECTIVE(1, fails);
#if BROKEN == 2
     if :: fails -> undoes = true :: else -> skip fi;
#else
     undoes = failed[3 * round - 2] != 0;
#endif
     if
     :: undoes -> skip
     :: else ->
#if BROKEN != 7
        send();
#endif
        n = 1;
        do
        :: n == PES -> break
        :: else ->
           listener[me] ? from, number, memory;
           assert(number == round && memory == round);
           if
           :: maps_all ->
              if
              :: true -> assert(maps[AT(me, from)] == 0); maps[AT(me, from)] = memory
              :: true -> maps_all = false  /* it cannot be mapped: the rest is received, and not mapped */
              fi
           :: else -> skip
           fi;
           n++
        od;
#if BROKEN == 7
        send();
#endif
#if BROKEN == 1
        undoes = !maps_all
#else
        COLLECTIVE(2, !maps_all);
        undoes = failed[3 * round - 1] != 0
#endif
     fi;
     if
     :: undoes ->
        gave_up[round]++;
        assert(succeeded[round] == 0);
#if BROKEN == 4
        if :: fails || !maps_all -> take_away() :: else -> skip fi
#else
        take_away()
#endif
     :: else ->
        succeeded[round]++;
        assert(gave_up[round] == 0);
        /* The object is used: a message to each other PE, or none. */
        other = 0;
        do
        :: other == PES -> break
        :: other == me -> other++
        :: other != me && other < PES ->
           if
           :: assert(maps[AT(me, other)] == round && own[other] == round); flight[AT(other, me)] = round
           :: skip
           fi;
           other++
        od;
#if BROKEN != 5
        other = 0;  /* quiet */
        do
        :: other == PES -> break
        :: else -> flight[AT(other, me)] == 0; other++
        od;
#endif
#if BROKEN == 6
        take_away();
#endif
        COLLECTIVE(3, 0);
#if BROKEN != 6
        take_away()
#endif
     fi;
     round++
  od;
  ended++
}

/* Applies messages to the memory of a PE. */
#define APPLY(from)                                  \
  :: atomic {                                        \
       flight[AT(me, from)] != 0 ->                  \
       assert(own[me] == flight[AT(me, from)]);      \
       flight[AT(me, from)] = 0                      \
     }
proctype receiver(byte me) {
  do
  APPLY(0)
  APPLY(1)
#if PES == 3
  APPLY(2)
#endif
  :: ended == PES -> break
  od
}

init {
  byte i, j;
  atomic {
    do :: i == PES -> break :: else -> run pe(i); run receiver(i); i++ od
  };
  ended == PES;
  d_step {
    i = 0;
    do
    :: i == PES -> break
    :: else ->
       assert(own[i] == 0 && len(listener[i]) == 0);
       j = 0;
       do
       :: j == PES -> break
       :: else -> assert(maps[AT(i, j)] == 0); j++
       od;
       i++
    od
  }
}
