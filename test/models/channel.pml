// A channel (lib/channel/channel.cuh): producers and consumers that share its words, at the smallest size at which
// rounds and chunks interact: chunks of two tickets instead of 32. Each atomic access is a step; the elements are their
// tickets.
//
//   step here       in the code
//   take_room       slots::take_room, with refresh where there is too little: [K1]
//   draw            slots::draw: [K2]
//   write, commit   channel::write, commit: ready_set::add sets the bits [K4], one chunk after the other, and counts [K7]
//   claim           ready_set::claim: [K7]
//   clear           ready_set::clear: a chunk after the other [K4]; the bits behind a gap are set again
//   find            ready_set::find: any place whose bit is set, wherever; it may be gone when it is cleared.
//                   GIVES_UP=1: it may also find none where it looks, and returns its claim
//   read, free      channel::read, free: [K3]; the elements of one consumer may lie in two chunks
//   closer          channel::close, with CLOSES=1: takes all room [K1], then says so [K8]. A producer that finds no room
//                   then ends; a consumer ends when channel::has_ended()
//
// Claims: no lane touches a slot that another one holds; each element is read as it was written and taken once, and all
// are taken; elements that are reserved and not done are never more than the capacity; who has claimed an element finds
// one if it looks everywhere; in the end all room is back. With CLOSES=1: all consumers end, and when the first one ends
// all that was reserved is done, and nothing will be reserved.
//
// ORDERED=1, for one producer and one consumer: count_order::kept. Elements are taken in the order of their tickets.
// LAG=1: a producer's count is seen before its bits, as others on a GPU may see it.
//
// BROKEN=1: commits before it writes.
// BROKEN=2: frees before it reads.
// BROKEN=3: a producer sets bits by load and store.
// BROKEN=4: as many slots as the capacity: no spare chunk.
// BROKEN=5: a consumer clears bits by load and store.
// BROKEN=6: takes room that it saw a moment ago, and that may be gone.
// BROKEN=7: does not set the bits behind a gap again.
// BROKEN=8: room comes back for all that are done, whether those of an older chunk are or not.
// BROKEN=9: takes elements that it saw unclaimed a moment ago, and that may be gone.
// BROKEN=10: does not return what it claimed too much.
// BROKEN=11: takes what lies behind a gap without reading it.
// BROKEN=12: returns its whole claim although it has taken a part.
// BROKEN=13: does not return the claim for which it has found nothing.
// BROKEN=14: a consumer ends when the channel is closed and no element is unclaimed.
// BROKEN=15: closing takes no room; a producer looks at the word before it takes room, and a consumer ends when all room
//            is back.
// BROKEN=16: with ORDERED=1 a producer's count is seen before its bits, as with count_order::none.
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
#define TAKE 2        /* that a consumer takes at once: up to 3 */
#endif
#ifndef LAG
#define LAG (BROKEN == 16)
#endif
#ifndef ORDERED
#define ORDERED 0
#endif
#ifndef GIVES_UP
#define GIVES_UP 0
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#if BROKEN == 15
#define CLOSING_ROOM 0
#else
#define CLOSING_ROOM (CLOSES * 100)
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

byte tail, freed;
short unclaimed;             /* below 0 while one who was too late has not given back what he claimed */
byte cursor;                 /* claimed so far */
short room = CAPACITY;       /* below 0 while one who was too late has not given back what he took */
bool ready[ROWS];            /* the bits */
byte done[CHUNKS];
byte element[ROWS];          /* ticket + 1 */
byte holder[ROWS];           /* ghost: ticket + 1 of who may touch it */
bool taken[TOTAL];           /* ghost */
byte n_taken, live;          /* ghost */
byte closing;                /* 1: all room has been taken, and this is about to be said; 2: it has been said */
byte producing = PRODUCERS, consuming = CONSUMERS;  /* ghost; consuming < CONSUMERS: one has found the end */
#define COLLECTABLE (START(freed) + (done[WORD(freed)] - BEFORE(freed) < CHUNK -> done[WORD(freed)] - BEFORE(freed) : CHUNK) > freed)

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

/* The bits of what a producer has written. t, want, k: the caller's. */
inline set_bits() {
#if BROKEN == 3
  k = ready[ROW(START(t))] + 2 * ready[ROW(START(t) + 1)];  /* the whole word */
  atomic {
    ready[ROW(START(t))] = (k % 2 == 1 || t == START(t));
    ready[ROW(START(t) + 1)] = (k / 2 == 1 || t != START(t) || want == 2);
    k = 0 };
  if
  :: want == 2 && START(t) != START(t + 1) -> ready[ROW(t + 1)] = true
  :: else
  fi
#else
  if
  :: want == 2 && START(t) == START(t + 1) ->
     d_step { assert(!ready[ROW(t)] && !ready[ROW(t + 1)]); ready[ROW(t)] = true; ready[ROW(t + 1)] = true }  /* [K4] */
  :: want == 2 && START(t) != START(t + 1) ->
     d_step { assert(!ready[ROW(t)]); ready[ROW(t)] = true };
     d_step { assert(!ready[ROW(t + 1)]); ready[ROW(t + 1)] = true }
  :: want == 1 -> d_step { assert(!ready[ROW(t)]); ready[ROW(t)] = true }
  fi
#endif
}

proctype producer() {
  byte left = EACH, want, t, k, f, n, e, gained;
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
#if BROKEN == 15
        if
        :: closing == 2 -> goto refused
        :: else
        fi;
#endif
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
           if
           :: closing != 0 && room < want -> goto refused  /* or it asks again: another one may return what it took */
           :: closing != 2 && (room >= want || tail != freed || more || closing == 1)
           fi
        fi
     od;
     atomic { seen = 0; more = false; assert(consuming == CONSUMERS);
       t = tail; tail = tail + want;  /* [K2] */
       live = live + want;
       assert(live <= CAPACITY)
     };
     k = 0;
#if BROKEN == 1
     set_bits();
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
#if LAG
     unclaimed = unclaimed + want;  /* [K7] */
     set_bits();
#else
#if BROKEN != 1
     set_bits();
#endif
     unclaimed = unclaimed + want;  /* [K7] */
#endif
     atomic { left = left - want; want = 0; t = 0; k = 0; n = 0; e = 0 }
  od;
refused:
  producing--
}

proctype closer() {
  closing = 1;
  room = room - CLOSING_ROOM;  /* [K1] */
  closing = 2                  /* [K8] */
}

/* Clears the bits of the places p to p + n - 1. g: which were set; k: of the last place. p, n, k, g: the caller's. */
inline clear() {
  k = 0;
  do
  :: k == n -> break
  :: else ->
#if BROKEN == 5
     g[k] = ready[ROW(p + k)];
     if
     :: g[k] -> ready[ROW(p + k)] = false
     :: else
     fi;
     k++
#else
     atomic {  /* [K4] */
       do
       :: g[k] = ready[ROW(p + k)];
          ready[ROW(p + k)] = false;
          k++;
          if
          :: k == n || (p + k) % CHUNK == 0 -> break
          :: else
          fi
       od }
#endif
  od
}

proctype consumer() {
  byte n, p, k, c, e, first, f, gained;
  bool g[3], more;
  short seen;
#if !CLOSES
end:
#endif
  do
#if CLOSES
#if BROKEN == 14
  :: closing == 2 && unclaimed <= 0 -> break
#endif
  :: closing == 2 && COLLECTABLE -> refresh(); more = false
  :: closing == 2 && room == CAPACITY - CLOSING_ROOM -> break
#endif
  :: unclaimed > 0 ->
     seen = unclaimed;
     if
     :: seen > 0 ->
        n = (seen < TAKE -> seen : TAKE);
#if BROKEN == 9
        d_step { p = cursor; unclaimed = unclaimed - n; cursor = cursor + n };
        seen = n;
#else
        d_step { seen = unclaimed; p = cursor; unclaimed = unclaimed - n; cursor = cursor + n };  /* [K7] */
#endif
        seen = (seen < 0 -> 0 : (seen < n -> seen : n));
        if
#if BROKEN != 10
        :: seen < n -> d_step { unclaimed = unclaimed + n - seen; cursor = cursor - (n - seen) }  /* [K7] */
#endif
        :: else
        fi;
        n = seen
     :: else -> n = 0
     fi;
     seen = 0;
     if
     :: n > 0 ->
        clear();
        do
        :: g[0] || g[1] || g[2] -> break
        :: else ->
           if
#if GIVES_UP
           :: break  /* none where it has looked */
#endif
           :: ready[0] -> p = 0
           :: ready[1] -> p = 1
#if ROWS > 2
           :: ready[2] -> p = 2
           :: ready[3] -> p = 3
#endif
#if ROWS > 4
           :: ready[4] -> p = 4
           :: ready[5] -> p = 5
#endif
           fi;
           clear()
        od;
        if
        :: !(g[0] || g[1] || g[2]) ->
#if BROKEN != 13
           d_step { unclaimed = unclaimed + n; cursor = cursor - n };  /* [K7] */
#endif
           goto claimed_in_vain
        :: else
        fi;
        atomic {  /* the first row of neighbours */
          first = (g[0] -> p : (g[1] -> p + 1 : p + 2));
          c = 1;
          c = 1 + (g[1] && (g[0] || g[2])) + (g[0] && g[1] && g[2]);
          k = (g[0] && !g[1] && g[2]) };
        if
        :: k == 1 ->
#if BROKEN == 11
           c = 3
#elif BROKEN != 7
           d_step { assert(!ready[ROW(p + 2)]); ready[ROW(p + 2)] = true }  /* [K4] */
#endif
        :: else
        fi;
#if BROKEN == 12
        d_step { unclaimed = unclaimed + n; cursor = cursor - n };
#else
        if
        :: n > c -> d_step { unclaimed = unclaimed + n - c; cursor = cursor - (n - c) }  /* [K7] */
        :: else
        fi;
#endif
        atomic { g[0] = false; g[1] = false; g[2] = false; e = first + c; n = 0; p = 0 };
#if BROKEN == 2
        d_step { k = first; do :: k == e -> break :: else -> done[WORD(k)]++; k++ od; live = live - c };
#endif
        k = first;
        do
        :: k == e -> break
        :: else -> atomic {
             n = element[ROW(k)];
             assert(n > 0 && holder[ROW(k)] == n);
             holder[ROW(k)] = 0;
             assert(!taken[n - 1] && (!ORDERED || n == n_taken + 1));
             taken[n - 1] = true;
             n = 0;
             n_taken++;
             k++ }
        od;
#if BROKEN != 2
        k = first;
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
claimed_in_vain:
     atomic { first = 0; e = 0; k = 0; n = 0; c = 0; p = 0 }
  od;
  atomic { assert(n_taken == tail && live == 0); consuming-- }
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
    od;
    if
    :: CLOSES -> run closer()
    :: else
    fi
  };
  producing == 0 && (!CLOSES || consuming == 0) && closing == 2 * CLOSES && n_taken == tail && (CLOSES || n_taken == TOTAL) && live == 0 && unclaimed == 0 && cursor == tail;  /* nobody is between taking too much and giving it back */
  refresh();
  assert(room == CAPACITY - CLOSING_ROOM && freed == tail && !ready[0] && !ready[1])
}
