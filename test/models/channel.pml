// A channel (lib/channel/channel.cuh): producers and consumers that share its words, at the smallest size at which
// rounds and chunks interact: chunks of two tickets instead of 32. Each atomic access is a step; the elements are their
// tickets.
//
//   step here       in the code
//   take_room       slots::take_room, with refresh where there is too little: [K1]
//   draw            slots::draw: [K2]
//   write, commit   channel::write, commit: [K4]; a producer of two elements commits its chunks one after the other
//   claim           channel::claim_offered: [K7]
//   offer           channel::offer, by one lane: the count, the tail, the compare and swap of `ready`; [K7]
//   publish         channel::publish: a producer's offer, of which it takes nothing
//   offer_own       channel::commit_and_offer: after one fence the counts [K4], the compare and swap of `ready` [K9],
//                   and then [K7]; on the GPU others may see the counts later than the rest
//   head            channel::take_claimed: [K8], and then [K9]
//   read, free      channel::read, free: [K3]; the elements of one consumer may lie in two chunks
//
// Claims: no lane touches a slot that another one holds; each element is read as it was written and taken once, and all
// are taken; elements that are reserved and not done are never more than the capacity; tickets are taken only as far as
// `ready` has got, so that [K9] waits for no other lane; in the end all room is back.
//
// LAG=1: a new value of `ready` is seen some time later, as by loads on a GPU; the compare and swap knows it. A lane
// that reads a slot must have seen that it is ready.
//
// BROKEN=1: commits before it writes.
// BROKEN=2: frees before it reads.
// BROKEN=3: reads the tail before the count of commits.
// BROKEN=4: as many slots as the capacity: no spare chunk.
// BROKEN=5: offers without compare and swap: ready is read, then written.
// BROKEN=6: takes room that it saw a moment ago, and that may be gone.
// BROKEN=7: a chunk that is partly committed is offered up to its count, whatever the tail is.
// BROKEN=8: room comes back for all that are done, whether those of an older chunk are or not.
// BROKEN=9: takes elements that it saw offered a moment ago, and that may be gone.
// BROKEN=10: does not return what it took too much.
// BROKEN=11: the offer includes the elements that the offering lane takes itself.
// BROKEN=12: a producer offers up to its last commit, whether the elements before are committed or not.
// BROKEN=13: a producer offers its commits and does not move `ready`: others offer them again.
// BROKEN=14: a producer offers its own, and moves `ready` behind them, whether the elements before are ready or not.
// BROKEN=15: reads before it has seen that `ready` has got there.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef EACH
#define EACH 3        /* elements of a producer */
#endif
#ifndef MOST
#define MOST 2        /* that a producer reserves at once */
#endif
#ifndef TAKE
#define TAKE 2        /* that a consumer takes at once */
#endif
#ifndef PUBLISH
#define PUBLISH 0     /* 1: producers do; 2: they offer their own */
#endif
#ifndef LAG
#define LAG 0
#endif
#define CHUNK 2
#ifndef CHUNKS
#define CHUNKS 2
#endif
#define ROWS (CHUNK * CHUNKS)
#if BROKEN == 4
#define CAPACITY ROWS
#else
#define CAPACITY (ROWS - CHUNK + 1)
#endif
#define TOTAL (PRODUCERS * EACH)
#define ROW(t) ((t) % ROWS)
#define WORD(t) (((t) / CHUNK) % CHUNKS)
#define BEFORE(t) (((t) / ROWS) * CHUNK)
#define START(t) (((t) / CHUNK) * CHUNK)

byte tail, head, ready, freed;
#if LAG
byte shown;                  /* what is seen of ready */
active proctype sight() {
end:
  do
  :: shown != ready -> shown = ready
  od
}
#else
#define shown ready
#endif
short offered;               /* below 0 while one who was too late has not given back what he took */
short room = CAPACITY;       /* below 0 while one who was too late has not given back what he took */
byte committed[CHUNKS], done[CHUNKS];
byte element[ROWS];          /* ticket + 1 */
byte holder[ROWS];           /* ghost: ticket + 1 of who may touch it */
bool taken[TOTAL];           /* ghost */
byte n_taken, live;          /* ghost */

inline refresh() {
  /* f, n, e: the caller's */
  more = false;
  f = freed;
  do
  :: true ->
     n = done[WORD(f)] - BEFORE(f);  /* [K3] */
#if BROKEN == 8
     /* all that are done, wherever */
     e = done[0] + done[1];
#else
     e = START(f) + (n < CHUNK -> n : CHUNK);
#endif
     if
     :: e <= f -> break
     :: else
     fi;
     atomic {
       if
       :: freed == f -> freed = e; gained = e - f; f = e
       :: else -> gained = 0; f = freed
       fi };
     more = true;
     if
     :: gained > 0 -> d_step { room = room + gained; gained = 0 }  /* [K1] */
     :: else
     fi
  od;
  atomic { e = 0; n = 0; f = 0 }
}

/* Offers the elements that have become ready, except `most`, which the caller gets. h, n, e, t, got: the caller's, so
   changes of them need no step of their own. */
inline offer(most) {
  h = shown;
#if BROKEN == 3
  t = tail;
  atomic { n = committed[WORD(h)] - BEFORE(h); e = START(h) + n };
#else
  n = committed[WORD(h)] - BEFORE(h);  /* [K4] */
  atomic { t = tail; e = START(h) + n };
#endif
  if
#if BROKEN == 7
  :: n <= CHUNK && e > h ->
#else
  :: n <= CHUNK && e > h && (n == CHUNK || t == e) ->
#endif
     if
#if BROKEN == 5
     :: atomic { true -> ready = e; got = (e - h < most -> e - h : most) };
#else
     :: atomic { ready == h -> ready = e; got = (e - h < most -> e - h : most) };
#endif
#if BROKEN == 11
        offered = offered + e - h  /* [K7] */
#else
        if
        :: e - h > got -> offered = offered + e - h - got  /* [K7] */
        :: else
        fi
#endif
     :: ready != h
     fi
  :: else
  fi
}

/* What a producer has written. t, want, got: the caller's. */
inline count_own() {
  if
  :: want == 2 && START(t) == START(t + 1) -> d_step { committed[WORD(t)] = committed[WORD(t)] + 2 }  /* [K4] */
  :: want == 2 && START(t) != START(t + 1) -> committed[WORD(t)]++; committed[WORD(t + 1)]++
  :: want == 1 -> committed[WORD(t)]++
  fi
}
inline offer_own() {
#if BROKEN == 14
  atomic { ready = (t + want > ready -> t + want : ready); got = 1 };
#else
  atomic {
    if
    :: ready == t -> ready = t + want; got = 1  /* [K9] */
    :: else
    fi };
#endif
  if
  :: got == 1 -> offered = offered + want; got = 0  /* [K7] */
  :: else
  fi
}

proctype producer() {
  byte left = EACH, want, t, k, f, n, e, h, got, gained;
  short seen;
  bool more;
  do
  :: left == 0 -> break
  :: left > 0 ->
     if
     :: want = 1
     :: left >= MOST -> want = MOST
     fi;
     /* take_room: no room is an answer; here it asks again when something has changed. */
     do
     :: true ->
        seen = room;
        if
        :: seen >= want ->
#if BROKEN == 6
           room = room - want; break
#else
           atomic { seen = room; room = room - want };  /* [K1] */
           if
           :: seen >= want -> break
           :: else -> room = room + want
           fi
#endif
        :: else ->
           refresh();
           (room >= want || head != freed || more)
        fi
     od;
     atomic { seen = 0; more = false;
       t = tail; tail = tail + want;  /* [K2] */
       live = live + want;
       assert(live <= CAPACITY)
     };
     k = 0;
#if BROKEN == 1
     do
     :: k == want -> break
     :: else -> d_step { committed[WORD(t + k)]++; k++ }
     od;
     k = 0;
#endif
     do
     :: k == want -> break
     :: else -> atomic {
          assert(holder[ROW(t + k)] == 0);
          holder[ROW(t + k)] = t + k + 1;
          element[ROW(t + k)] = t + k + 1;
          k++ }
     od;
#if PUBLISH == 2
     if
     :: count_own(); offer_own()
     :: offer_own(); count_own()
     fi;
#elif BROKEN != 1
     count_own();
#endif
#if PUBLISH == 1
#if BROKEN == 12
     h = ready;
     e = t + want;
     if
     :: e > h ->
        if
        :: atomic { ready == h -> ready = e } -> offered = offered + e - h
        :: ready != h
        fi
     :: else
     fi;
#elif BROKEN == 13
     offered = offered + want;
#else
     offer(0);
#endif
#endif
     atomic { left = left - want; want = 0; t = 0; k = 0; h = 0; n = 0; e = 0; got = 0 }
  od
}

proctype consumer() {
  byte h, n, e, k, t, got;
  short seen;
end:
  do
  :: head < tail ->
     seen = offered;
     if
     :: seen > 0 ->
        seen = (seen < TAKE -> seen : TAKE);
#if BROKEN == 9
        got = seen; offered = offered - seen;
#else
        d_step { n = seen; seen = offered; offered = offered - n };  /* [K7] */
        d_step { got = (seen <= 0 -> 0 : (seen < n -> seen : n)); seen = 0 };
        if
        :: got < n ->
#if BROKEN == 10
           got = n
#else
           offered = offered + n - got  /* [K7] */
#endif
        :: else
        fi
#endif
     :: else
     fi;
     if
     :: got == 0 ->
        offer(TAKE)
     :: else
     fi;
     atomic { h = 0; n = 0; e = 0; t = 0; seen = 0 };
     if
     :: got > 0 ->
        atomic { h = head; head = head + got; e = h + got; assert(e <= ready) };  /* [K8] */
#if LAG && BROKEN != 15
        e <= shown;  /* [K9] */
#endif
#if BROKEN == 2
        d_step { k = h; do :: k == e -> break :: else -> done[WORD(k)]++; k++ od; live = live - got };
#endif
        k = h;
        do
        :: k == e -> break
        :: else -> atomic {
             assert(element[ROW(k)] == k + 1 && holder[ROW(k)] == k + 1 && k < shown);
             holder[ROW(k)] = 0;
             assert(!taken[k]);
             taken[k] = true;
             n_taken++;
             k++ }
        od;
#if BROKEN != 2
        k = h;
        do
        :: k == e -> break
        :: else -> atomic {
             n = (START(k) + CHUNK < e -> START(k) + CHUNK : e);
             done[WORD(k)] = done[WORD(k)] + n - k;  /* [K3] */
             live = live - (n - k);
             k = n; n = 0 }
        od
#endif
     :: else
     fi;
     atomic { h = 0; e = 0; k = 0; got = 0; n = 0 }
  od
}

init {
  byte i, f, n, e, gained;
  bool more;
  atomic {
    i = 0;
    do
    :: i < PRODUCERS -> run producer(); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CONSUMERS -> run consumer(); i++
    :: else -> break
    od
  };
  n_taken == TOTAL && live == 0 && offered == 0;  /* nobody is between taking too much and giving it back */
  refresh();
  assert(room == CAPACITY && freed == tail && head == tail && ready == tail)
}
