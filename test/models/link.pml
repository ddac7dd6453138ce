// A ring of packets between two PEs (lib/link/packet_ring.cuh). Packets travel as messages: pieces, words, credits and
// the end, and each of them may overtake all others. A packet has two pieces; a piece and its share of the counter are
// one message (gravel_put_signal).
//
//   step here      in the code                                            label
//   credit         has_credit, free_packet                                [L5]
//   word           notify_packet, poll_packet                             [L2]
//   piece          put_counted, poll_packet                               [L3]
//   ended          notify_end, poll_packet                                [L4]
//
// STOPS=1: the destination stops in the middle, and frees all buffers for ever (free_for_ever).
//
// Claims: the destination reads every packet once, in order, whole; a packet is not overwritten before it was read; the
// end is seen after the last packet, whatever is in the buffers; both sides end.
//
// BROKEN=1: the word alone says that a packet has arrived.
// BROKEN=2: the source does not wait for a credit.
// BROKEN=3: a buffer is freed before its packet has been read.
// BROKEN=4: `ended` says that there is an end, not after how many packets.
// BROKEN=5: the earlier value of a buffer's counter is forgotten.
// BROKEN=6: a word says that there is a packet, not which.
// BROKEN=7: a destination that stops frees nothing.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif
#ifndef PACKETS
#define PACKETS 4
#endif
#ifndef STOPS
#define STOPS 0
#endif
#define B(n) ((n) % BUFFERS)
#define NONE 255

byte word[BUFFERS];          /* number of the packet + 1 */
byte counter[BUFFERS];       /* pieces that have come, ever */
byte piece[BUFFERS * 2];     /* number of the packet whose piece lies there, + 1 */
byte ended;                  /* packets + 1 */
byte freed[BUFFERS];         /* number of the packet + 1 */
byte done[BUFFERS];          /* of the packet that was read last, + 1: for the claims */
bool stopped;
/* Messages on their way. */
bool flies_piece[PACKETS * 2], flies_word[PACKETS], flies_end, flies_credit[PACKETS], flies_all;
bool source_over, destination_over;

byte pieces, words, credits;  /* how many of them are on their way */

/* Any of them, in any order. */
proctype network() {
  byte n;
  do
  :: atomic {
       pieces > 0 ->
       select(n : 0 .. PACKETS * 2 - 1);
       if
       :: flies_piece[n] ->
          flies_piece[n] = false;
          pieces--;
          assert(stopped || piece[B(n / 2) * 2 + n % 2] <= done[B(n / 2)]);
          piece[B(n / 2) * 2 + n % 2] = n / 2 + 1;
          counter[B(n / 2)]++
       :: else
       fi;
       n = 0
     }
  :: atomic {
       words > 0 ->
       select(n : 0 .. PACKETS - 1);
       if
       :: flies_word[n] -> flies_word[n] = false; words--; word[B(n)] = n + 1
       :: else
       fi;
       n = 0
     }
  :: atomic {
       credits > 0 ->
       select(n : 0 .. PACKETS - 1);
       if
       :: flies_credit[n] && freed[B(n)] != NONE -> flies_credit[n] = false; credits--; freed[B(n)] = n + 1
       :: flies_credit[n] && freed[B(n)] == NONE -> flies_credit[n] = false; credits--
       :: else
       fi;
       n = 0
     }
  :: atomic { flies_end -> flies_end = false; ended = PACKETS + 1 }
  :: atomic {
       flies_all -> flies_all = false;
       do
       :: n == BUFFERS -> break
       :: else -> freed[n] = NONE; n++
       od;
       n = 0
     }
  :: atomic { source_over && destination_over -> break }
  od
}

proctype source() {
  byte n = 0;
  do
  :: n == PACKETS -> break
  :: n < PACKETS ->
#if BROKEN != 2
     n < BUFFERS || freed[B(n)] >= n - BUFFERS + 1;
#endif
     atomic {
       flies_piece[2 * n] = true;
       flies_piece[2 * n + 1] = true;
       pieces = pieces + 2;
       flies_word[n] = true;
       words++;
       n++
     }
  od;
  flies_end = true;
  source_over = true
}

proctype destination() {
  byte n = 0, counted[BUFFERS];
  do
#if STOPS
  :: n > 0 ->
     atomic {
       stopped = true;
#if BROKEN != 7
       flies_all = true
#endif
     }
     break
#endif
#if BROKEN == 6
  :: n < PACKETS && word[B(n)] != 0 &&
#else
  :: n < PACKETS && word[B(n)] == n + 1 &&
#endif
#if BROKEN == 1
     true ->
#elif BROKEN == 5
     counter[B(n)] >= 2 ->
#else
     counter[B(n)] == counted[B(n)] + 2 ->
#endif
#if BROKEN == 3
     atomic { flies_credit[n] = true; credits++ }
#endif
     assert(word[B(n)] == n + 1);  /* which also says the size */
     assert(piece[B(n) * 2] == n + 1);
     atomic { assert(piece[B(n) * 2 + 1] == n + 1); done[B(n)] = n + 1 }
     counted[B(n)] = counted[B(n)] + 2;
#if BROKEN != 3
     atomic { flies_credit[n] = true; credits++ }
#endif
     n++
#if BROKEN == 4
  :: ended != 0 -> assert(n == PACKETS); break
#else
  :: ended != 0 && n >= ended - 1 -> assert(n == PACKETS); break
#endif
  od;
  destination_over = true
}

init {
  atomic {
    run network();
    run source();
    run destination()
  }
}
