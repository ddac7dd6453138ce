// Calls of one key that a block makes become one call (lib/critical/call_table.cuh). Lanes put calls into a table of
// few places: a lane adds its call to the one that is there, or takes its place. Every call says 1. The block begins
// and ends twice.
//
//   step here                        in the code                                     label
//   lock                             call_table::visit, one of some tries            [U3]
//   worth, key, value, one by one    call_table::change
//   unlock                           the same                                        [U3]
//   go on                            the lane makes the call that it has             (critical_sender::make)
//   empty                            the barrier of critical_sender::end, then call_table::empty
//
// Claims: the calls of each key add up to the number that was made; a place never belongs to two lanes at once; all
// end.
//
// BROKEN=1: a place is changed without its lock.
// BROKEN=2: the lock is released before the value is written.
// BROKEN=3: a lane that takes the place of another call goes on with its own.
// BROKEN=4: calls are added without comparing the key.
// BROKEN=5: the table is emptied while lanes call.
// BROKEN=6: emptied calls are still there when the block begins again.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef PLACES
#define PLACES 1
#endif
#define KEYS 2
#define ROUNDS 2
#define FIRST 1
#define MOST 2

byte lock[PLACES], worth[PLACES], key[PLACES], value[PLACES], inside[PLACES];
byte wanted[KEYS], made[KEYS];
byte round, done;

proctype lane() {
  byte r, i, k, v, at, w, other, its;
  bit goes_on;
  do
  :: r == ROUNDS -> break
  :: else ->
     (round == r);
     i = 0;
     do
     :: i == CALLS -> break
     :: else ->
        i++;
        select(k : 0 .. KEYS - 1);
        atomic { wanted[k]++; v = 1; at = k % PLACES; goes_on = 1 };
        if
#if BROKEN == 1
        :: skip ->
#else
        :: atomic { lock[at] == 0 -> lock[at] = 1 };
           atomic { inside[at]++; assert(inside[at] == 1) };
#endif
           w = worth[at];
           other = key[at];
           its = value[at];
           if
           :: w == 0 -> key[at] = k; worth[at] = FIRST; value[at] = v; goes_on = 0
#if BROKEN == 4
           :: w > 0 ->
#else
           :: w > 0 && other == k ->
#endif
              worth[at] = (w < MOST -> w + 1 : MOST);
#if BROKEN == 2
              atomic { inside[at]--; lock[at] = 0 };
#endif
              value[at] = its + v;
              goes_on = 0
#if BROKEN != 4
           :: w > 1 && other != k -> worth[at] = w - 1
           :: w == 1 && other != k ->
              key[at] = k; worth[at] = FIRST; value[at] = v;
#if BROKEN != 3
              k = other;
              v = its
#endif
#endif
           fi;
#if BROKEN == 2
           if
           :: w > 0 && other == k && goes_on == 0 -> skip
           :: else -> atomic { inside[at]--; lock[at] = 0 }
           fi
#elif BROKEN != 1
           atomic { inside[at]--; lock[at] = 0 }
#endif
        :: lock[at] == 1 -> skip  // has tried often enough
        fi;
        if
        :: goes_on -> made[k] = made[k] + v
        :: else -> skip
        fi;
        v = 0; w = 0; other = 0; its = 0; goes_on = 0
     od;
     r++;
     done++
  od
}

proctype block() {
  byte p;
  do
  :: round == ROUNDS -> break
  :: else ->
#if BROKEN != 5
     (done == LANES);
#endif
     p = 0;
     do
     :: p == PLACES -> break
     :: else ->
        if
        :: worth[p] > 0 -> atomic {
           made[key[p]] = made[key[p]] + value[p];
#if BROKEN != 6
           worth[p] = 0
#endif
           }
        :: else -> skip
        fi;
        p++
     od;
     atomic { (done == LANES); done = 0; round++ }
  od;
  p = 0;
  do
  :: p == KEYS -> break
  :: else -> assert(made[p] == wanted[p]); p++
  od
}

init {
  byte i;
  atomic {
    run block();
    do :: i == LANES -> break :: else -> run lane(); i++ od
  }
}
