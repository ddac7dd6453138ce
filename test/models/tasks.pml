// Tasks between PEs (lib/remote_task/task_slot.hpp).
//
// FLOOD=0: the slots of one ring. Sources take tickets and write commands of two words, in any order. Workers read only
// tags to find out which tasks concern them: of three tasks the second has two blocks, the others have one. A worker
// passes over tickets that cannot concern it, whatever the task is: of three workers each passes over one of three
// tickets.
//
//   step here        in the code                                                 label
//   wait for done    wait_for_slot                                               [T2] acquire
//   head, body       open_order::write (task_put.pml has its fences)             [T1]
//   pass over        resident_worker::go_to
//   compare the tag  resident_worker::poll, workers_of
//   wait for body    read_words; words that were read along with the tags of slots are taken by their own tags   [T1]
//   ended, done      run_open, free_slot                                         [T2] release
//
// Claims: each block of each task runs once, with its own command, and no source writes into a slot that a block still
// reads.
//
// BROKEN=1: the first block to end frees the slot.
// BROKEN=2: a worker takes a newer tag for that of its ticket.
// BROKEN=3: a worker reads words without their tags.
// BROKEN=4: a source does not wait for the slot.
// BROKEN=5: the slot is freed before its count of ended blocks is reset.
// BROKEN=8: a worker passes over one ticket too many.
//
// FLOOD=1: two PEs whose tasks send a task to the other one until their depth is used up. A ring has SLOTS places. A
// task that finds no place is kept in the own ring, of OWN places, and sent on later. A worker polls both rings in
// turn.
//
// Claim: all tasks run: no worker waits for ever.
//
// BROKEN=6: a worker waits for room.
// BROKEN=7: a worker whose own ring has tasks polls no other ring.
//
// CROWD=1: the own ring of one PE with several workers. WALKS tasks, each of which sends one to another PE and comes
// back from there, find its SLOTS taken by other tasks at any time.
//
// Claim: an own ring with a slot more than there are walks always has room.
//
// BROKEN=9: the workers take turns at the own ring, by tickets.
// BROKEN=10: the own ring has as many slots as there are walks.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef FLOOD
#define FLOOD 0
#endif
#ifndef SLOTS
#define SLOTS 2
#endif

#if defined(CROWD)
#ifndef WALKS
#define WALKS 3
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#if BROKEN == 10
#define OWN WALKS
#else
#define OWN (WALKS + 1)
#endif
#if BROKEN == 9
#define TURNS WORKERS
#else
#define TURNS 1
#endif
#define ALL (OWN * TURNS) /* tickets are counted to this, and again from 0 */

byte here = WALKS, there;  /* walks that are to run here, and at the other PE */
byte others;               /* other tasks in the slots there */
byte tickets;
byte kept[OWN];            /* a ticket + 1; 0: the slot is free */

proctype worker(byte me) {
  byte next = me;
end:
  do
  :: atomic { here > 0 -> here-- };
     if
     :: atomic { there + others < SLOTS -> there++ }
     :: atomic {
          there + others >= SLOTS ->
          assert(kept[tickets % OWN] == 0);
          kept[tickets % OWN] = tickets + 1;
          tickets = (tickets + 1) % ALL
        }
     fi
  :: me < TURNS && kept[next % OWN] == next + 1 ->
     if
     :: atomic { there + others < SLOTS -> there++ };
        kept[next % OWN] = 0;
        next = (next + TURNS) % ALL
     :: there + others >= SLOTS -> skip
     fi
  od
}

proctype other_pe() {
end:
  do
  :: atomic { there > 0 -> there--; here++ }
  :: atomic { others > 0 -> others-- }
  :: atomic { there + others < SLOTS -> others++ }
  od
}

init {
  byte i;
  atomic {
    run other_pe();
    do :: i == WORKERS -> break :: else -> run worker(i); i++ od
  }
}
#elif FLOOD == 0
#ifndef SOURCES
#define SOURCES 2
#endif
#ifndef SENDS
#define SENDS 3
#endif
#define ALL (SOURCES * SENDS)
#ifndef WORKERS
#define WORKERS 2
#endif
#define BLOCKS(ticket) (1 + ((ticket) % 3 == 1))
#define MOST_BLOCKS 2
/* Of a worker among those that a ticket may concern; and what it finds out from a tag. */
#define RANK(worker, ticket) ((worker + ALL * WORKERS - (ticket)) % WORKERS)
#define CONCERNS(worker, ticket, tag) (RANK(worker, ticket) < BLOCKS(tag - 1))

byte tickets, finished;
byte head[SLOTS], body[SLOTS], freed[SLOTS], ended[SLOTS];  /* the first three: a ticket + 1 */
byte ran[ALL];

proctype source() {
  byte sent, ticket;
  do
  :: sent == SENDS -> break
  :: else ->
     atomic { ticket = tickets; tickets++ };
#if BROKEN != 4
     (ticket < SLOTS || freed[ticket % SLOTS] == ticket - SLOTS + 1);
#endif
     assert(ticket < SLOTS || ran[ticket - SLOTS] == BLOCKS(ticket - SLOTS));
     if
     :: head[ticket % SLOTS] = ticket + 1; body[ticket % SLOTS] = ticket + 1
     :: body[ticket % SLOTS] = ticket + 1; head[ticket % SLOTS] = ticket + 1
     fi;
     sent++
  od
}

proctype worker(byte me) {
  byte next, tag, count, slot;
  do
  :: next == ALL -> break
#if BROKEN == 8
  :: next < ALL && RANK(me, next) >= MOST_BLOCKS - 1 -> next++
#else
  :: next < ALL && RANK(me, next) >= MOST_BLOCKS -> next++
#endif
  :: else ->
     slot = next % SLOTS;
     (head[slot] > next);
     tag = head[slot];
     if
#if BROKEN == 2
     :: CONCERNS(me, next, tag) ->
#else
     :: tag == next + 1 && CONCERNS(me, next, tag) ->
#endif
#if BROKEN != 3
        (body[slot] >= next + 1);
#endif
        assert(body[slot] == next + 1);
        ran[next]++;
        assert(ran[next] <= BLOCKS(next));
        atomic { ended[slot]++; count = ended[slot] };
#if BROKEN == 1
        if :: count == 1 ->
#else
        if :: count == BLOCKS(next) ->
#endif
#if BROKEN == 5
           freed[slot] = next + 1; ended[slot] = 0;
#else
           ended[slot] = 0; freed[slot] = next + 1;
#endif
           finished++
        :: else -> skip
        fi
     :: else -> assert(!CONCERNS(me, next, next + 1))
     fi;
     next++
  od
}

init {
  byte i;
  atomic {
    do :: i == WORKERS -> break :: else -> run worker(i); i++ od;
    i = 0;
    do :: i == SOURCES -> break :: else -> run source(); i++ od
  };
  (finished == ALL)
}
#else

#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef BEGIN
#define BEGIN 3
#endif
#ifndef OWN
#define OWN 6
#endif
/* Tasks by their depth; a ring of messages keeps the order, and a slot is free when its task has ended. */
chan to[2] = [SLOTS] of { byte };
chan own[2] = [OWN] of { byte };
byte used[2];  /* slots of the ring to this PE */
byte left = 2 * BEGIN * (DEPTH + 1);

proctype kernel(byte me) {
  byte sent;
  do
  :: sent == BEGIN -> break
  :: else -> atomic { used[1 - me] < SLOTS -> used[1 - me]++ }; to[1 - me] ! DEPTH; sent++
  od
}

proctype worker(byte me) {
  byte depth;
  do
  :: left == 0 -> break
#if BROKEN == 7
  :: nempty(to[me]) && empty(own[me]) ->
#else
  :: nempty(to[me]) ->
#endif
     to[me] ? depth;
     if
     :: depth == 0 -> skip
     :: else ->
#if BROKEN == 6
        atomic { used[1 - me] < SLOTS -> used[1 - me]++ }; to[1 - me] ! depth - 1
#else
        if
        :: atomic { used[1 - me] < SLOTS -> used[1 - me]++ }; to[1 - me] ! depth - 1
        :: atomic { used[1 - me] >= SLOTS -> assert(nfull(own[me])); own[me] ! depth - 1 }
        fi
#endif
     fi;
     atomic { used[me]--; left-- }
  :: nempty(own[me]) && used[1 - me] < SLOTS ->
     if
     :: atomic { used[1 - me] < SLOTS -> used[1 - me]++ }; own[me] ? depth; to[1 - me] ! depth
     :: used[1 - me] >= SLOTS -> skip
     fi
  od
}

init {
  atomic { run worker(0); run worker(1); run kernel(0); run kernel(1) };
  (left == 0)
}
#endif
