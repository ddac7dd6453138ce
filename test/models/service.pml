// The far ring of a service and its sleep (lib/base/service_rings.hpp): handlers that never wait, one service block,
// and the host that starts its kernel. That a published message is seen as it was written is the matter of ring.pml. A
// handler stands for the lanes of a warp, which take places together. A lane that finds no place tries again when there
// may be one: it stands for messages that are kept.
//
//   step here        in the code                                                              label
//   room-=           claim_far: take room if there seems to be some, return what was not there  [V1] acquire
//   publish          deliver: each lane its own                                               [P1]
//   wake             wake_block: one lane for all; if the block sleeps, it calls once         [V2]
//   apply, room++    service_reader::free                                                     [V1] release
//   asleep, poll     service_reader::leave                                                    [V2]
//   seen = doorbell  residency_cuda::start, before the kernel starts
//
// Claims: no handler writes to a place that is not free; all messages are applied, though the host stops the service
// block at any time (STOPS times) and starts it again only when it has been called.
//
// BROKEN=1: the service block does not poll again after it has said that it sleeps.
// BROKEN=2: it polls before it says so.
// BROKEN=3: a handler checks whether the block sleeps before it publishes.
// BROKEN=4: the host takes calls as seen when the kernel has ended.
// BROKEN=5: a handler takes a place although there was no room.
// BROKEN=6: room is counted before the message is read.
// BROKEN=7: room that was taken and not there is not returned.
// BROKEN=8: more room is returned than was missing.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef HANDLERS
#define HANDLERS 2
#endif
#ifndef SENDS
#define SENDS 2
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef STOPS
#define STOPS 2
#endif
#define ALL (HANDLERS * SENDS)

mtype = {asleep, awake, called};
mtype state = asleep;
short room = PLACES;
byte tickets, next, applied, doorbell, seen;
byte published[PLACES];   /* ticket + 1 */
bool unread[PLACES];        /* what lies there has not been read */
bool runs, stop;

inline call_if_asleep(mine) {
  mine = false;
  if
  :: state == asleep -> atomic { if :: state == asleep -> state = called; mine = true :: else -> skip fi }
  :: else -> skip
  fi;
  if :: mine -> doorbell++ :: else -> skip fi
}

#define PLACE(t) ((t) % PLACES)

proctype handler() {
  byte sent, ticket, wants, got, i;
  short before;
  bool mine;
  do
  :: sent == SENDS -> break
  :: else ->
     wants = (SENDS - sent < LANES -> SENDS - sent : LANES);
     room > 0;
     atomic { before = room; room = room - wants };
     got = (before <= 0 -> 0 : (before < wants -> before : wants));
#if BROKEN == 5
     got = wants;
#endif
#if BROKEN == 8
     if :: got < wants -> room = room + wants :: else -> skip fi;
#elif BROKEN != 7
     if :: got < wants -> room = room + wants - got :: else -> skip fi;
#endif
     if
     :: got == 0 -> skip
     :: else ->
        atomic { ticket = tickets; tickets = tickets + got };
        for (i : 0 .. got - 1) {
          assert(!unread[PLACE(ticket + i)]);
          unread[PLACE(ticket + i)] = true
        }
#if BROKEN == 3
        call_if_asleep(mine);
#endif
        /* lanes publish in any order: the last first is the worst */
        for (i : 0 .. got - 1) { published[PLACE(ticket + got - 1 - i)] = ticket + got - i }
#if BROKEN != 3
        call_if_asleep(mine);
#endif
        sent = sent + got
     fi
  od
}

#define ARRIVED (published[next % PLACES] == next + 1)

proctype service_block() {
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
        unread[next % PLACES] = false;
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
     seen = doorbell;
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
  :: !runs && doorbell != seen -> seen = doorbell; stop = false; runs = true
  od
}

init {
  byte i;
  atomic {
    run host();
    run service_block();
    do
    :: i == HANDLERS -> break
    :: else -> run handler(); i++
    od
  }
}
