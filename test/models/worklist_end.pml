// The end of an asynchronous worklist (lib/worklist/ranked_channels.cuh): pending entries, messages sent and received,
// and the waves in which the watches of all PEs compare them. How messages travel is the matter of other models; here
// they are a number on their way to each PE.
//
//   step here       in the code
//   expand          expand_taken or item_worker::work, and the decrement of `pending` after it in work_off
//   handle          gravel_worklist_delivery; gravel_item_delivery, which may pass items on
//   watch           keep_watch: received [A1], pending [A2], sent; its words at all PEs; all words of a wave
//
// Claims: when a watch finds the end, nothing is pending anywhere and nothing in flight. All watches find it, in the
// same wave: if one does not, that shows as an invalid end state.
//
// BROKEN=1: an entry is done before its messages and new entries are counted.
// BROKEN=2: messages are counted as received before they are listed.
// BROKEN=3: received and sent of one wave are compared.
// BROKEN=4: a watch does not wait until nothing is pending.
// BROKEN=5: `received` is compared with what had been sent a wave before.
// BROKEN=6: one set of words.
// BROKEN=7: a message that a handler passes on is counted as sent after its arrival was counted as received.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef PES
#define PES 2
#endif
#ifndef SENDS
#define SENDS 2 /* messages in all */
#endif
#ifndef BEGIN
#define BEGIN 1 /* entries of PE 0 */
#endif
#define TAGS 4 /* waves are told apart by their number modulo this; 256 in the code */

byte pending[PES], sent[PES], received[PES], coming[PES], handling[PES];
byte sends; /* so far */
byte ends;  /* watches that have found the end */
byte last_wave;
/* At (p, q, set): the words that PE p has sent to PE q. */
byte reported_received[PES * PES * 2], reported_sent[PES * PES * 2];
byte tag_received[PES * PES * 2], tag_sent[PES * PES * 2];
#if BROKEN == 6
#define SET(wave) 0
#else
#define SET(wave) ((wave) % 2)
#endif
#define AT(p, q, wave) (((p) * PES + (q)) * 2 + SET(wave))

/* Takes an entry; it may send messages, then it is done. */
proctype worker(byte me) {
  byte to;
  do
  :: atomic { pending[me] > 0 && ends < PES ->
#if BROKEN == 1
       pending[me]--
#endif
     }
     do
     :: atomic { sends < SENDS -> sends++ }
        select (to : 0 .. PES - 1);
        if
        :: to == me -> pending[me]++
        :: else -> sent[me]++; coming[to]++
        fi
     :: break
     od;
#if BROKEN != 1
     pending[me]--
#endif
  :: ends == PES -> break
  od
}

proctype handler(byte me) {
  byte to;
  do
  :: atomic { coming[me] > 0 -> coming[me]--; handling[me]++ };
#if BROKEN == 2
     received[me]++;
#endif
     if
     :: pending[me]++
     :: true /* no better than what is there, or dropped */
     fi;
#if BROKEN == 7
     received[me]++;
#endif
     if
     :: atomic { sends < SENDS -> sends++ } /* passed on */
        select (to : 0 .. PES - 1);
        sent[me]++;
        coming[to]++
     :: true
     fi;
#if BROKEN == 2 || BROKEN == 7
     handling[me]--
#else
     d_step { received[me]++; handling[me]-- }
#endif
  :: ends == PES -> break
  od
}

proctype watch(byte me) {
  byte wave = 1, r, s, i, all_r, all_s, before = 255, s_before = 255;
  bool complete;
  do
  :: true ->
     do /* until there is a moment without anything pending */
#if BROKEN == 4
     :: r = received[me] -> break
#else
     :: r = received[me]; if :: pending[me] == 0 -> break :: else fi
#endif
     od;
     s = sent[me];
     i = 0;
     do
     :: i < PES ->
        d_step { reported_received[AT(me, i, wave)] = r; tag_received[AT(me, i, wave)] = wave % TAGS };
        d_step { reported_sent[AT(me, i, wave)] = s; tag_sent[AT(me, i, wave)] = wave % TAGS };
        i++
     :: else -> break
     od;
     /* all words of this wave */
     i = 0; all_r = 0; all_s = 0;
     do
     :: i < PES ->
        atomic { tag_received[AT(i, me, wave)] == wave % TAGS -> all_r = all_r + reported_received[AT(i, me, wave)] };
        atomic { tag_sent[AT(i, me, wave)] == wave % TAGS -> all_s = all_s + reported_sent[AT(i, me, wave)] };
        i++
     :: else -> break
     od;
     if
#if BROKEN == 3
     :: all_r == all_s -> break
#elif BROKEN == 5
     :: all_r == s_before -> break
#else
     :: all_s == before -> break
#endif
     :: else -> before = all_r; s_before = all_s; wave = (wave + 1) % TAGS
     fi
  od;
  skip;
  d_step {
    i = 0;
    do
    :: i < PES -> assert(pending[i] == 0 && coming[i] == 0 && handling[i] == 0); i++
    :: else -> break
    od;
    assert(ends == 0 || last_wave == wave);
    last_wave = wave;
    i = 0;
    ends++
  }
}

init {
  byte p = 0;
  atomic {
    pending[0] = BEGIN;
    do
    :: p < PES -> run worker(p); run handler(p); run watch(p); p++
    :: else -> break
    od
  }
}
