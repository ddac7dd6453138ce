// Teams of any PEs by ids (host/team_join.cuh, lib/base/join_rendezvous.hpp). PE 0 is the root of two ids: of a team
// with PE 1, and of one with PE 2. Each team is made ROUNDS times with the same id; PE 0 makes them in turn.
//
//   step here   in the code
//   say         put_with_tag: what the member says into its place at the root, then the tag
//   collect     await_joins: all places have the tag; they are read, then the tags are cleared
//   answer      put_with_tag: the answer into the memory of each member, then the tag
//   hear        join_members: the own answer has the tag; it is read, then the tag is cleared
//
// A team is made by two such rendezvous. What is said and answered has the round in which it was said, so that an old
// one shows. Claims: the root reads what was said in this round, a member reads the answer of this round; when a member
// returns, all have cleared the team's memory; all return.
//
// FAULT=1: the root refuses each team, so there are first rendezvous alone.
//
// BROKEN=1: tags are not cleared.
// BROKEN=2: the tag is written before what it stands for.
// BROKEN=3: one rendezvous alone.
// BROKEN=4: both rendezvous have the same tag, and tags are not cleared.
// BROKEN=5: both ids have the same tag, and so PE 0 takes what PE 2 says for what PE 1 says.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#if BROKEN == 4
#define TAG(id, second) (id * 2)
#elif BROKEN == 5
#define TAG(id, second) (2 + second)
#else
#define TAG(id, second) (id * 2 + second)
#endif
#if BROKEN == 1 || BROKEN == 4
#define CLEAR(tag) skip
#else
#define CLEAR(tag) tag = 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
#if BROKEN == 3 || FAULT
#define RENDEZVOUS 1
#else
#define RENDEZVOUS 2
#endif
#define STAMP(round, second) (round * 2 + second)

// By PE: its place at the root, and the answer in its own memory.
byte join_tag[3], join_said[3], join_id[3], answer_tag[3], answer_said[3];
// The round in which a PE has cleared the memory of its team: of PEs 1 and 2, and of PE 0 by the id.
byte is_ready[3], root_ready[3];

inline write(tag, value, with, said) {
#if BROKEN == 2
  tag = value;
  with = said;
#else
  with = said;
  tag = value;
#endif
}

// One rendezvous of PE `me` for `id`: PEs 0 and `id` are the members.
inline join_members(me, id, round, second) {
  join_id[me] = id;
  write(join_tag[me], TAG(id, second), join_said[me], STAMP(round, second));
  if
  :: me == 0 ->
     // Which PEs come, the root does not know.
     from = 0;
     do
     :: from == 0 && join_tag[1] == TAG(id, second) -> from = 1
     :: from == 0 && join_tag[2] == TAG(id, second) -> from = 2
     :: from != 0 -> break
     od;
     assert(join_id[from] == id);
     assert(join_said[from] == STAMP(round, second));
     assert(join_tag[0] == TAG(id, second));
     CLEAR(join_tag[from]);
     CLEAR(join_tag[0]);
     write(answer_tag[from], TAG(id, second), answer_said[from], STAMP(round, second));
     write(answer_tag[0], TAG(id, second), answer_said[0], STAMP(round, second))
  :: else
  fi;
  answer_tag[me] == TAG(id, second);
  assert(answer_said[me] == STAMP(round, second));
  CLEAR(answer_tag[me])
}
inline make(who, team, turn) {
  join_members(who, team, turn, 0);
  if
  :: who == 0 -> root_ready[team] = turn
  :: else -> is_ready[who] = turn
  fi;
#if RENDEZVOUS == 2
  join_members(who, team, turn, 1);
#endif
#if FAULT
  skip
#else
  assert(root_ready[team] >= turn && is_ready[team] >= turn)
#endif
}

active proctype root() {
  byte r = 1, from;
  do
  :: r > ROUNDS -> break
  :: else ->
     make(0, 1, r);
     make(0, 2, r);
     r++
  od
}
proctype member(byte pe) {
  byte r = 1, from;
  do
  :: r > ROUNDS -> break
  :: else -> make(pe, pe, r); r++
  od
}
init {
  run member(1);
  run member(2)
}
