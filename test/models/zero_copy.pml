// Rows that are put straight from the slots of a queue (host/aggregator/outbound.hpp): when a slot goes back to its
// producers, and when a packet that consists of several puts may be announced. Queue and landing ring themselves are
// ring.pml and landing.pml.
//
//   step here         in the code
//   fill, publish     a producer; its slot is free when ticket < consumed + SLOTS
//   append            outbound::append: a piece is put from the slot (put_piece) or copied into staging memory
//   close             outbound::close: head and copied pieces are put; the notice goes with that put
//   nic               reads a put's source and writes the landing slot, at any time and in any order
//   done              `puts` of its slot is counted down; or, when all puts before are done (a flush), the notice is
//                     sent. (UCX may count down what it has read and not written yet. That is not in the model: here a
//                     put is read when it is written.)
//   give back         plane_source::release_slots: in order, slots that are taken and from which no puts are under way
//   apply             the receiver: in the order of packets; its count is the plane's credit
//
// A slot holds two rows of one word, a packet up to two. Claims: each packet is read as it was made, all rows arrive,
// all slots go back.
//
// BROKEN=1: a slot goes back when it is taken.
// BROKEN=2: the notice is sent when its own put is done, without a flush.
// BROKEN=3: the first slot that is done raises `consumed`, whatever its place.
// BROKEN=4: pieces are put into a landing slot for which there is no credit.
// BROKEN=5: of two puts from a slot only one is counted.
// BROKEN=6: slots go back when their packet is closed.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef TICKETS
#define TICKETS 3
#endif
#ifndef PACKETS
#define PACKETS 2
#endif
#define ROWS (2 * TICKETS)
#define PUTS 12  /* one of each row, and of each packet's head */

/* The queue. */
byte slot_word[2 * SLOTS], published, consumed;
/* The plane. */
byte taken, row, under_way[SLOTS], sequence, freed, n_open, n_puts;
#if BROKEN == 6
bool closed_since[SLOTS];
#endif
byte staged[2 * PACKETS], staged_rows[PACKETS];  /* a word is 0 where a piece was put */
/* Puts: 1 posted, 2 written, 3 done. from: index in slot_word + 1, or 0: a packet's head. */
byte state[PUTS], from[PUTS], to[PUTS];
byte n_written;  /* all puts below this are written: what a flush waits for */
/* The landing slots. */
byte landed[2 * PACKETS], landed_rows[PACKETS], arrived[PACKETS], applied;
/* ghost: rows of each packet that is not applied, as they were appended */
byte made[2 * (PACKETS + 1)], made_rows[PACKETS + 1];
byte n_arrived;

#define SLOT(t) ((t) % SLOTS)
#define AT(s, i) (2 * ((s) % PACKETS) + (i))
#define MADE(s, i) (2 * ((s) % (PACKETS + 1)) + (i))
#if BROKEN == 4
#define CAN_OPEN (sequence - freed < PACKETS + 1)
#else
#define CAN_OPEN (sequence - freed < PACKETS)
#endif

proctype producer() {
  byte t;
  do
  :: t == TICKETS -> break
  :: t < TICKETS && t < consumed + SLOTS ->  /* [P2] acquire */
     slot_word[2 * SLOT(t)] = 2 * t + 1;
     atomic { slot_word[2 * SLOT(t) + 1] = 2 * t + 2; t++; published = t }  /* [P1] release */
  od
}

inline post(source, word) {
  state[n_puts] = 1;
  from[n_puts] = source;
  to[n_puts] = word;
  n_puts++
}

inline close() {
  staged_rows[sequence % PACKETS] = n_open;
  made_rows[sequence % (PACKETS + 1)] = n_open;
  post(0, sequence);
  sequence++;
  n_open = 0;
#if BROKEN == 6
  closed_since[0] = true;
  closed_since[1] = true
#endif
}

inline append() {
  made[MADE(sequence, n_open)] = 2 * taken + row + 1;
  if
  :: staged[AT(sequence, n_open)] = slot_word[2 * SLOT(taken) + row]  /* short: copied */
  :: staged[AT(sequence, n_open)] = 0;  /* long: put */
     post(2 * SLOT(taken) + row + 1, AT(sequence, n_open));
#if BROKEN == 5
     under_way[SLOT(taken)] = 1
#else
     under_way[SLOT(taken)]++
#endif
  fi;
#if BROKEN == 6
  closed_since[SLOT(taken)] = false;
#endif
  n_open++;
  row++;
  if
  :: row == 2 -> row = 0; taken++
  :: else
  fi
}

#if BROKEN == 1
#define IS_DONE(s) true
#elif BROKEN == 6
#define IS_DONE(s) (under_way[s] == 0 || closed_since[s])
#else
#define IS_DONE(s) (under_way[s] == 0)
#endif

proctype plane() {
end:
  do
  :: atomic { taken < published && n_open < 2 && (n_open > 0 || CAN_OPEN) -> append() }
  :: atomic { n_open > 0 -> close() }  /* full, old, or asked for */
  :: atomic { consumed < taken && IS_DONE(SLOT(consumed)) -> consumed++ }  /* [P2] release */
#if BROKEN == 3
  :: atomic { consumed + 1 < taken && IS_DONE(SLOT(consumed + 1)) -> consumed++ }
#endif
  :: atomic { freed < applied -> freed = applied }
  od
}

/* Writes what put n carries. */
inline write(n) {
  if
  :: from[n] != 0 -> landed[to[n]] = slot_word[from[n] - 1]
  :: else ->
     landed_rows[to[n] % PACKETS] = staged_rows[to[n] % PACKETS];
     k = 0;
     do
     :: k == 2 -> break
     :: k < 2 && staged[AT(to[n], k)] != 0 -> landed[AT(to[n], k)] = staged[AT(to[n], k)]; k++
     :: k < 2 && staged[AT(to[n], k)] == 0 -> k++
     od;
     k = 0
  fi;
  state[n] = 2
}

#if BROKEN == 2
#define IS_FLUSHED(n) true
#else
#define IS_FLUSHED(n) (n_written > n)
#endif
inline done(n) {
  if
  :: from[n] != 0 -> under_way[(from[n] - 1) / 2]--
  :: else -> arrived[to[n] % PACKETS] = to[n] + 1
  fi;
  state[n] = 3;
  from[n] = 0;
  to[n] = 0
}

#define NIC(n) \
  :: atomic { state[n] == 1 -> write(n); k = n_written; \
       do :: k < n_puts && state[k] >= 2 -> k++ :: else -> break od; n_written = k; k = 0 } \
  :: atomic { state[n] == 2 && (from[n] != 0 || IS_FLUSHED(n)) -> done(n) }

proctype nic() {
  byte k;
end:
  do
  NIC(0) NIC(1) NIC(2) NIC(3) NIC(4) NIC(5) NIC(6) NIC(7) NIC(8) NIC(9) NIC(10) NIC(11)
  od
}

proctype receiver() {
  byte i;
end:
  do
  :: arrived[applied % PACKETS] == applied + 1 ->
     assert(landed_rows[applied % PACKETS] == made_rows[applied % (PACKETS + 1)]);
     do
     :: i < landed_rows[applied % PACKETS] ->
        atomic { assert(landed[AT(applied, i)] == made[MADE(applied, i)]); i++; n_arrived++ }
     :: else -> break
     od;
     atomic { i = 0; applied++ }
  od
}

init {
  atomic {
    run producer();
    run plane();
    run nic();
    run receiver()
  };
  n_arrived == ROWS && consumed == TICKETS
}
