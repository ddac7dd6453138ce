// Record and lock in one word (lib/server/slot_word.cuh, table.cuh): clients that run sections in place, and the server of the key. Every section adds 1 to
// the record; a word is read, swapped or written in one step.
//
//   step here              in the code                                               label
//   read; swap             section_call::run_on_word, a section that is pure
//   read; swap; write      the same, of one that is not: nobody else is in it        [K1]
//   take; read             key_server::open_word: only the lock is compared           [K1]
//   write                  key_server::close
//   SEND                   a client whose key is not free, or that has failed often
//
// Claims: no update is lost; two are never inside at once; all calls end, and then the key is nobody's.
//
// BROKEN=1: the server goes on with what it read before it took the key.    BROKEN=2: a client's swap compares the lock alone.
// BROKEN=3: a client does not look whether the key is free.                 BROKEN=4: the server writes lock and record one after the other.
// BROKEN=5: who is not pure swaps in the record at once and runs then.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#define ALL (CLIENTS * CALLS)
#define FREE 0
#define CLIENT 1
#define SERVER 2

byte record, lock, inside, finished;
chan ring = [ALL] of {bit};

proctype client() {
  byte sent, seen, seen_lock, tries;
  bit pure, ok;
  do
  :: sent == CALLS -> break
  :: else ->
     sent++;
     select(pure : 0 .. 1);
     tries = 0;
     atomic { seen = record; seen_lock = lock };
     do
#if BROKEN != 3
     :: seen_lock != FREE || tries == 2 -> ring!0; break
     :: seen_lock == FREE && tries < 2 ->
#else
     :: tries == 2 -> ring!0; break
     :: tries < 2 ->
#endif
        tries++;
        atomic {
#if BROKEN == 2
          ok = (lock == seen_lock);
#else
          ok = (lock == seen_lock && record == seen);
#endif
          if
          :: ok && pure -> record = seen + 1; lock = FREE; finished++
#if BROKEN == 5
          :: ok && !pure -> inside++; assert(inside == 1)
#else
          :: ok && !pure -> lock = CLIENT; inside++; assert(inside == 1)
#endif
          :: !ok -> seen = record; seen_lock = lock
          fi
        };
        if
        :: ok && !pure -> atomic { inside--; record = seen + 1; lock = FREE; finished++ }; break
        :: ok && pure -> break
        :: else -> skip
        fi
     od
  od
}

proctype server() {
  byte kept, seen_lock;
  bit taken, contended;
end:
  do
  :: ring?_ ->
     atomic { kept = record; seen_lock = lock };
     do
     :: seen_lock == SERVER -> break
     :: else ->
        atomic {
          taken = (seen_lock == FREE && lock == FREE);
          if :: taken -> lock = SERVER :: else -> skip fi
        };
#if BROKEN == 1
        if :: taken -> break :: else -> skip fi;
#endif
        atomic { kept = record; seen_lock = lock };
        if :: taken -> break :: else -> skip fi
     od;
     atomic { inside++; assert(inside == 1) };
     select(contended : 0 .. 1);
     if
     :: len(ring) == 0 -> contended = 0
     :: else -> skip
     fi;
#if BROKEN == 4
     atomic { inside--; lock = (contended -> SERVER : FREE) };
     atomic { record = kept + 1; finished++ }
#else
     atomic { inside--; record = kept + 1; lock = (contended -> SERVER : FREE); finished++ }
#endif
  od
}

proctype monitor() {
  (finished == ALL);
  assert(record == ALL);
  assert(inside == 0);
  assert(lock != CLIENT)
}

init {
  byte i;
  atomic {
    run monitor();
    run server();
    do :: i == CLIENTS -> break :: else -> run client(); i++ od
  }
}
