// The far ring of a service and its sleep (lib/base/service_rings.hpp): handlers that never wait, one server, and the host that starts its kernel.
// That a chunk is seen as written once it is published is ring.pml's matter. A handler that finds no room tries again when there may be some: it
// stands for the message that is kept.
//
//   step here    in the code                                                        label
//   room--       claim_far: take room, give it back if there was none               [V1] acquire
//   publish      fill_chunk                                                         [P1]
//   wake         wake_server: who finds the server asleep calls, once               [V2]
//   apply, room++  service_reader::free                                             [V1] release
//   asleep, look   service_reader::leave                                            [V2]
//   seen = bell  residency_cuda::start, before the kernel starts
//
// Claims: nobody writes into a chunk that is not free; all messages are applied, though the host tells the server to leave at any time (STOPS
// times) and starts it again only when it has been called.
//
// BROKEN=1: the server does not look again once it has said that it sleeps.   BROKEN=2: it looks before it says so.
// BROKEN=3: a handler looks whether the server sleeps before it publishes.    BROKEN=4: the host takes calls for heard when the kernel has ended.
// BROKEN=5: a handler takes a chunk although there was no room.               BROKEN=6: room is counted before the chunk is read.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef HANDLERS
#define HANDLERS 2
#endif
#ifndef SENDS
#define SENDS 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef STOPS
#define STOPS 2
#endif
#define ALL (HANDLERS * SENDS)

mtype = {asleep, awake, called};
mtype state = asleep;
short room = CHUNKS;
byte tickets, next, applied, bell, seen;
byte published[CHUNKS];   /* ticket + 1 */
bool unread[CHUNKS];        /* what lies there has not been read */
bool runs, stop;

inline call_if_asleep(mine) {
  mine = false;
  if
  :: state == asleep -> atomic { if :: state == asleep -> state = called; mine = true :: else -> skip fi }
  :: else -> skip
  fi;
  if :: mine -> bell++ :: else -> skip fi
}

proctype handler() {
  byte sent, ticket;
  short before;
  bool mine;
  do
  :: sent == SENDS -> break
  :: else ->
     atomic { before = room; room-- };
#if BROKEN == 5
     if
     :: true ->
#else
     if
     :: before <= 0 -> room++; (room > 0)
     :: else ->
#endif
        atomic { ticket = tickets; tickets++ };
        assert(!unread[ticket % CHUNKS]);
        unread[ticket % CHUNKS] = true;
#if BROKEN == 3
        call_if_asleep(mine);
#endif
        published[ticket % CHUNKS] = ticket + 1;
#if BROKEN != 3
        call_if_asleep(mine);
#endif
        sent++
     fi
  od
}

#define ARRIVED (published[next % CHUNKS] == next + 1)

proctype server() {
  bool mine, some;
  do
  :: applied == ALL -> break
  :: runs ->
     state = awake;
     do
     :: stop -> break
     :: applied == ALL -> break
     :: !stop && ARRIVED ->
#if BROKEN == 6
        room++;
#endif
        unread[next % CHUNKS] = false;
        next++;
        applied++;
#if BROKEN != 6
        room++
#else
        skip
#endif
     od;
#if BROKEN == 2
     some = ARRIVED;
     state = asleep;
#else
     state = asleep;
     some = ARRIVED;
#endif
#if BROKEN == 1
     some = false;
#endif
     if :: some -> call_if_asleep(mine) :: else -> skip fi;
#if BROKEN == 4
     seen = bell;
#endif
     runs = false
  od
}

proctype host() {
  byte stops;
  runs = true;
  do
  :: applied == ALL -> break
  :: runs && !stop && stops < STOPS -> stop = true; stops++
  :: !runs && bell != seen -> seen = bell; stop = false; runs = true
  od
}

init {
  byte i;
  atomic {
    run host();
    run server();
    do
    :: i == HANDLERS -> break
    :: else -> run handler(); i++
    od
  }
}
