// Critical sections of several keys at service blocks (lib/critical/key_service.cuh). A call visits the owners of its
// keys in ascending order and holds all keys but the last. If a key is held, the call is parked there, in the room that
// its caller has reserved. How messages travel is the matter of ring.pml and service.pml; here they arrive at some
// time. Each key has a service block of its own. A section adds 1 to each of its records; their values travel with the
// call.
//
//   step here            in the code                                              label
//   tickets++, wait      section_call::reserve                                    [U2] acquire
//   run                  key_service::visit, run_if
//   park                 key_service::park
//   RETURN               key_service::advance
//   complete[place]++    key_service::complete                                    [U2] release
//
// Claims: no two parked calls use one room; no update is lost; all calls end, and then no key is held and no call is
// parked.
//
// BROKEN=1: some calls visit in descending order.
// BROKEN=2: a caller does not wait for its room.
// BROKEN=3: a call releases its room when it leaves the park list.
// BROKEN=4: a key is released, and no call that waits for it is run.
// BROKEN=5: all parked calls are run, though one holds the key.
// BROKEN=6: a section of one key runs though its key is held.
// BROKEN=7: the last owner runs the section though another call has its key.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef CALLERS
#define CALLERS 3
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef KEYS
#define KEYS 3
#endif
#ifndef ROOMS
#define ROOMS 2
#endif
#define ALL (CALLERS * CALLS)

mtype = {CALL, RETURN};
chan ring[KEYS] = [2 * ALL] of {mtype, byte, byte, byte, byte, byte, bit}; /* kind, room, keys, values, descending */
chan waiting[KEYS] = [ALL] of {byte};                                       /* rooms, in the order in which they came */
byte tickets, complete[ROOMS], finished, returning;
byte record[KEYS], expected[KEYS];
bool held[KEYS];
bool used[ROOMS];
byte room_keys[ROOMS], room_a[ROOMS], room_b[ROOMS], room_c[ROOMS];
bit room_down[ROOMS];

#define HAS(keys, k) ((keys >> (k)) & 1)

/* The key that is visited after `k`; KEYS: there is none. */
inline find_next(keys, k, down, next) {
  next = KEYS;
  if
  :: !down -> i = KEYS; do :: i == k + 1 -> break :: else -> i--; if :: HAS(keys, i) -> next = i :: else -> skip fi od
  :: else -> i = 0; do :: i == k -> break :: else -> if :: HAS(keys, i) -> next = i :: else -> skip fi; i++ od
  fi
}

/* The call has come to key k, which no call holds. */
inline run_call(k) {
  find_next(keys, k, down, next);
  if
  :: next < KEYS ->
     v[k] = record[k];
     held[k] = true;
     ring[next]!CALL, room, keys, v[0], v[1], v[2], down
  :: else ->
     record[k]++;
     i = 0;
     do
     :: i == KEYS -> break
     :: else ->
        if
        :: HAS(keys, i) && i != k -> returning++; v[i]++; ring[i]!RETURN, room, 0, v[0], v[1], v[2], 0
        :: else -> skip
        fi;
        i++
     od;
#if BROKEN == 3
     if :: was_parked -> skip :: else -> complete[room]++ fi;
#else
     complete[room]++;
#endif
     finished++
  fi
}

proctype service_block(byte k) {
  byte room, keys, next, i;
  byte v[3];
  bit down;
  bool was_parked;
  mtype kind;
end:
  do
  :: atomic {
       ring[k]?kind, room, keys, v[0], v[1], v[2], down ->
       was_parked = false;
       find_next(keys, k, down, next);
       if
       :: kind == RETURN ->
          record[k] = v[k];
          held[k] = false;
          returning--;
#if BROKEN != 4
          do
          :: len(waiting[k]) == 0 -> break
#if BROKEN != 5
          :: held[k] -> break
          :: len(waiting[k]) > 0 && !held[k] ->
#else
          :: len(waiting[k]) > 0 ->
#endif
             waiting[k]?room;
             assert(used[room]);
             used[room] = false;
             keys = room_keys[room]; down = room_down[room];
             v[0] = room_a[room]; v[1] = room_b[room]; v[2] = room_c[room];
             was_parked = true;
#if BROKEN == 3
             complete[room]++;
#endif
             run_call(k)
          od
#else
          skip
#endif
#if BROKEN == 6
       :: kind == CALL && held[k] && keys != 1 << k ->
#elif BROKEN == 7
       :: kind == CALL && held[k] && next < KEYS ->
#else
       :: kind == CALL && held[k] ->
#endif
          assert(!used[room]);
          used[room] = true;
          room_keys[room] = keys; room_a[room] = v[0]; room_b[room] = v[1]; room_c[room] = v[2]; room_down[room] = down;
          waiting[k]!room
       :: else -> run_call(k)
       fi
     }
  od
}

proctype caller(byte me) {
  byte sent, ticket, keys, i, first;
  bit down;
  do
  :: sent == CALLS -> break
  :: else ->
     atomic { ticket = tickets; tickets++ };
#if BROKEN != 2
     (complete[ticket % ROOMS] == ticket / ROOMS);
#endif
     atomic {
       select(keys : 1 .. ((1 << KEYS) - 1));
#if BROKEN == 1
       down = me & 1;
#endif
       i = 0;
       first = KEYS;
       do
       :: i == KEYS -> break
       :: else ->
          if
          :: HAS(keys, i) -> expected[i]++; if :: first == KEYS || down -> first = i :: else -> skip fi
          :: else -> skip
          fi;
          i++
       od;
       ring[first]!CALL, ticket % ROOMS, keys, 0, 0, 0, down;
       sent++
     }
  od
}

/* Not an end state before all calls have ended: one that never does is found as a deadlock. */
proctype monitor() {
  byte i;
  (finished == ALL && returning == 0);
  do
  :: i == KEYS -> break
  :: else -> assert(record[i] == expected[i]); assert(!held[i]); assert(len(waiting[i]) == 0); i++
  od
}

init {
  byte i;
  atomic {
    run monitor();
    do :: i == KEYS -> break :: else -> run service_block(i); i++ od;
    i = 0;
    do :: i == CALLERS -> break :: else -> run caller(i); i++ od
  }
}
