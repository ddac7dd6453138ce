// Record and lock in one word (lib/critical/slot_word.cuh, table.cuh): clients that run sections in place, and the
// service block of the keys. Every section adds 1 to its records; a word is read, swapped or written in one step.
// NESTED=1: there are two keys, and sections of both.
//
//   step here              in the code                                               label
//   read; swap             section_call::run_on_word, a pure section
//   read; swap; write      the same, of a section that is not pure: it runs alone    [U1]
//   read both; swap both; write both     section_call::run_on_words                  [U1]
//   take; read             record_table::take_from_clients, key_service::open_word: only the lock is compared   [U1]
//   write                  key_service::close
//   SEND                   a client whose key is not free, or that has failed often
//
// Claims: no update is lost; two sections of a key never run at once; all calls end, and then no key is held.
//
// BROKEN=1: the service block uses the value that it read before it took the key.
// BROKEN=2: the swap of a client compares the lock alone.
// BROKEN=3: a client does not check whether the key is free.
// BROKEN=4: the service block writes lock and record one after the other.
// BROKEN=5: a section that is not pure swaps in the record at once and runs then.
// BROKEN=6: the second of two swaps compares the lock alone.
// BROKEN=7: a client that does not get the second key keeps the first.
// BROKEN=8: the second of two words is not taken, only written.
// BROKEN=9: the service block takes the lock for its own although it has only marked it while a client is inside.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef NESTED
#define NESTED 0
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
#define SERVICE 2
#define PURE 0
#define NOT_PURE 1
#define BOTH 2

byte record[2], lock[2], inside[2], expected[2], finished;
chan ring = [ALL] of {byte};  /* a key, or BOTH */

inline enter(k) { inside[k]++; assert(inside[k] == 1) }
inline look(k) { atomic { seen[k] = record[k]; seen_lock[k] = lock[k] } }

proctype client() {
  byte sent, tries, kind, k;
  byte seen[2], seen_lock[2];
  bit ok;
  do
  :: sent == CALLS -> break
  :: else ->
     sent++;
     select(kind : 0 .. 1 + NESTED);
     tries = 0;
     k = 0;
#if NESTED
     if :: kind != BOTH -> select(k : 0 .. 1) :: else -> skip fi;
#endif
     atomic { expected[k]++; if :: kind == BOTH -> expected[1]++ :: else -> skip fi };
     look(k);
     do
#if BROKEN != 3
     :: kind != BOTH && (seen_lock[k] != FREE || tries == 2) -> ring!k; break
     :: kind != BOTH && seen_lock[k] == FREE && tries < 2 ->
#else
     :: kind != BOTH && tries == 2 -> ring!k; break
     :: kind != BOTH && tries < 2 ->
#endif
        tries++;
        atomic {
#if BROKEN == 2
          ok = (lock[k] == seen_lock[k]);
#else
          ok = (lock[k] == seen_lock[k] && record[k] == seen[k]);
#endif
          if
          :: ok && kind == PURE -> record[k] = seen[k] + 1; lock[k] = FREE; finished++
#if BROKEN == 5
          :: ok && kind != PURE -> enter(k)
#else
          :: ok && kind != PURE -> lock[k] = CLIENT; enter(k)
#endif
          :: !ok -> seen[k] = record[k]; seen_lock[k] = lock[k]
          fi
        };
        if
        :: ok && kind != PURE -> atomic { inside[k]--; record[k] = seen[k] + 1; lock[k] = FREE; finished++ }; break
        :: ok && kind == PURE -> break
        :: else -> skip
        fi
     :: kind == BOTH && tries == 2 -> ring!BOTH; break
     :: kind == BOTH && tries < 2 ->
        tries++;
        look(0);
        look(1);
        ok = (seen_lock[0] == FREE && seen_lock[1] == FREE);
        if
        :: ok ->
           atomic {
             ok = (lock[0] == FREE && record[0] == seen[0]);
             if :: ok -> lock[0] = CLIENT; enter(0) :: else -> skip fi
           }
        :: else -> skip
        fi;
        if
        :: !ok -> skip
        :: ok ->
           atomic {
#if BROKEN == 6
             ok = (lock[1] == FREE);
#elif BROKEN != 8
             ok = (lock[1] == FREE && record[1] == seen[1]);
#endif
             if :: ok -> lock[1] = CLIENT; enter(1) :: else -> skip fi
           };
           if
#if BROKEN != 7
           :: !ok -> atomic { inside[0]--; record[0] = seen[0]; lock[0] = FREE }
#else
           :: !ok -> skip
#endif
           :: ok ->
              atomic { inside[0]--; record[0] = seen[0] + 1; lock[0] = FREE };
              atomic { inside[1]--; record[1] = seen[1] + 1; lock[1] = FREE; finished++ };
              break
           fi
        fi
     od
  od
}

/* If a client holds the lock, the block marks it with SERVICE but is not inside yet. It enters from FREE alone, or
   keeps a lock of its own. */
inline take(k) {
  marked = false;
  look(k);
  do
#if BROKEN == 9
  :: seen_lock[k] == SERVICE -> break
#else
  :: seen_lock[k] == SERVICE && !marked -> break
  :: seen_lock[k] == SERVICE && marked -> (lock[k] != SERVICE); look(k)
#endif
  :: seen_lock[k] == CLIENT ->
     atomic { if :: lock[k] == CLIENT -> lock[k] = SERVICE; marked = true :: else -> skip fi };
     look(k)
  :: seen_lock[k] == FREE ->
     atomic {
       taken = (lock[k] == FREE);
       if :: taken -> lock[k] = SERVICE :: else -> skip fi
     };
#if BROKEN == 1
     if :: taken -> break :: else -> skip fi;
#endif
     look(k);
     if :: taken -> break :: else -> skip fi
  od;
  atomic { enter(k) }
}

/* `stays`: the service block keeps the key. */
inline put_back(k, stays) {
#if BROKEN == 4
  atomic { inside[k]--; lock[k] = (stays -> SERVICE : FREE) };
  atomic { record[k] = seen[k] + 1 }
#else
  atomic { inside[k]--; record[k] = seen[k] + 1; lock[k] = (stays -> SERVICE : FREE) }
#endif
}

proctype service_block() {
  byte seen[2], seen_lock[2], which;
  bit taken, marked, contended;
end:
  do
  :: ring?which ->
     if
     :: which == BOTH -> take(0); take(1); put_back(1, false); put_back(0, false)
     :: else ->
        take(which);
        select(contended : 0 .. 1);
        if
        :: len(ring) == 0 || NESTED -> contended = 0
        :: else -> skip
        fi;
        put_back(which, contended)
     fi;
     finished++
  od
}

proctype monitor() {
  (finished == ALL);
  assert(record[0] == expected[0] && record[1] == expected[1]);
  assert(inside[0] == 0 && inside[1] == 0);
  assert(lock[0] != CLIENT && lock[1] == FREE)
}

init {
  byte i;
  atomic {
    run monitor();
    run service_block();
    do :: i == CLIENTS -> break :: else -> run client(); i++ od
  }
}
