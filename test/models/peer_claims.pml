// Teams of lanes that have several runs of messages to hand over, each to another peer (device/hand_over.cuh,
// hand_over_to_peers; device/peer_bins.cuh, finish): one ring for each of two peers, whose receivers are always awake
// and never wait.
//
//   step here     in the code
//   claim         claim_chunk: ticket = tickets++, then wait until the chunk is free
//   publish       after the copying
//
// The lowest unpublished ticket of a ring has a free chunk as soon as the chunks before it are applied. The question is
// whether the team that holds it then goes on. Claim: all teams end.
//
// TOGETHER=0: a team claims and publishes one run after the other. This is what the code does.
// TOGETHER=1: a team claims for all its runs, and publishes each when its own chunk is free.
// TOGETHER=2: a team publishes nothing before all its chunks are free. Faulty: of two teams each may hold the chunk in
//   one ring for which the other one waits. It takes `chunks` claims between those of the two, in one ring after the
//   one team's, in the other ring after the other's.
#ifndef TOGETHER
#define TOGETHER 1
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef TEAMS
#define TEAMS 3
#endif
#define RINGS 2

byte tickets[RINGS], applied[RINGS];  /* a receiver applies in order: all below `applied` */
bool published[RINGS * TEAMS];        /* by ring and ticket */
byte n_ended;

/* Each team has one run for each ring. */
#define FREE(r) (ticket[r] < CHUNKS || applied[r] > ticket[r] - CHUNKS)

inline claim(r) { d_step { ticket[r] = tickets[r]; tickets[r]++; claimed[r] = true } }
inline publish(r) { d_step { published[r * TEAMS + ticket[r]] = true; gone[r] = true } }

proctype team() {
  byte ticket[RINGS];
  bool claimed[RINGS], gone[RINGS];
  do
  :: gone[0] && gone[1] -> break
#if TOGETHER == 0
  :: !claimed[0] && claimed[1] == gone[1] -> claim(0)
  :: !claimed[1] && claimed[0] == gone[0] -> claim(1)
#else
  :: !claimed[0] -> claim(0)
  :: !claimed[1] -> claim(1)
#endif
#if TOGETHER == 2
  :: claimed[0] && claimed[1] && !gone[0] && FREE(0) && (gone[1] || FREE(1)) -> publish(0)
  :: claimed[0] && claimed[1] && !gone[1] && FREE(1) && (gone[0] || FREE(0)) -> publish(1)
#else
  :: claimed[0] && !gone[0] && FREE(0) -> publish(0)
  :: claimed[1] && !gone[1] && FREE(1) -> publish(1)
#endif
  od;
  n_ended++
}

proctype receiver(byte r) {
end:
  do
  :: applied[r] < TEAMS && published[r * TEAMS + applied[r]] -> applied[r]++
  od
}

init {
  byte i;
  atomic {
    do
    :: i < TEAMS -> run team(); i++
    :: else -> break
    od;
    run receiver(0); run receiver(1)
  };
  n_ended == TEAMS
}
