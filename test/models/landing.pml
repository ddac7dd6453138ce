// Packets, notices and credits: host/aggregator/outbound.*, inbound.*, lib/base/landing.hpp and the receiver. The
// landing slots of a stream are a ring (ring.pml): [P1] [P2]. New here is `arrivals`, one word for several streams.
//
//   MODE 0  net: a packet is built in staging memory of one node, travels by a put and a notice or inside a message,
//           lands in a ring of another node, and credits go back.
//   MODE 1  same node: two planes build packets in the landing slots of their streams.
//   MODE 2  two hops: packets land in transit slots; the node in the middle appends their messages to its own packets.
//
//   step here         in the code                                                              label
//   append            outbound::append; a packet may be opened while sequence - freed < packets
//   close             outbound::close: published = sequence + 1 [P1], then arrivals += 1       [L1] release
//                     or link.send (small packets), or link.put_and_notify (others)
//   nic               the put reads staging memory and writes the landing slot, word by word; then the notice is sent
//   arrive            inbound::on_packet, on_notice; publish                                   [L1] release
//   claim, apply      resolver.cuh or receiver.hpp: arrivals, published == sequence + 1        [L1] acquire
//   done              landing::mark_done                                                       [P2] release
//   poll, report      outbound::poll_done, inbound::report: done words in order                [P2] acquire
//   credit            plane_message::credit: freed and applied
//   take over         plane::forward, inbound::forwarded, report_transit
//   flush             plane_source::step_flushes: close, then applied >= until
//
// A packet holds one or two messages; its two words are the number of the first message and their count. Claims: every
// packet is read as it was closed, every message is applied exactly once, applied <= freed <= sequence <= freed +
// packets, a flush returns after all messages appended before it are applied, and it does return. There is no deadlock:
// waits wait for a change, and every change makes some count larger, so there is no run without end either.
//
// Messages of one endpoint keep their order. A put has none: if a small packet is sent inside a message while the put
// of an earlier packet is under way, it arrives before the notice of that packet.
// BROKEN=1: the receiver insists on the order of sequences all the same.
// BROKEN=2: the notice is sent before the put is complete.
// BROKEN=3: packets are opened without a credit.
// BROKEN=4: the highest done packet is taken for all before it.
// BROKEN=5 (MODE 2): packets that are taken over count as applied.
// BROKEN=6: a flush does not close the open packet.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef MODE
#define MODE 0
#endif
#define PACKETS 2
#ifndef MESSAGES
#define MESSAGES 4  /* of each sending plane */
#endif
#ifndef AGE
#define AGE 1       /* packets may leave before they are full; without it only flushes see to that */
#endif
#ifndef FLUSHES
#define FLUSHES 1   /* besides the last one */
#endif
#ifndef RESOLVERS
#define RESOLVERS 2 /* blocks of the resolver kernel: packets of one stream may be done out of order */
#endif
#if MODE == 1
#define STREAMS 2
#else
#define STREAMS 1
#endif

#define AT(c, s) ((c) * PACKETS + (s) % PACKETS)
#define ID(c, m) ((c) * MESSAGES + (m))

/* The landing ring. */
byte first[STREAMS * PACKETS], count[STREAMS * PACKETS], published[STREAMS * PACKETS];  /* sender's side */
byte done[STREAMS * PACKETS];                                                             /* receiver */
byte arrivals;
byte claimed[STREAMS], taken;  /* the resolver's own words */
bool applied_message[STREAMS * MESSAGES];
/* ghost: the packets as they were closed, by stream and sequence */
byte made_first[STREAMS * (MESSAGES + 1)], made_count[STREAMS * (MESSAGES + 1)];

#define MADE(c, s) ((c) * (MESSAGES + 1) + (s))

#if MODE != 1
/* Staging memory of the sending plane, and what is under way between the nodes. */
byte staged_first[PACKETS], staged_count[PACKETS];
bool putting[PACKETS];
byte put_sequence[PACKETS];
mtype = { packet, notice };
chan to_receiver = [2 * PACKETS] of { mtype, byte, byte, byte };  /* word, sequence, first, count */
chan to_sender = [4] of { byte, byte };                            /* credit: freed, applied */
#endif
#if MODE == 2
byte transit_first[PACKETS], transit_count[PACKETS];
byte sent_first[MESSAGES + 1], sent_count[MESSAGES + 1];  /* ghost: packets of the first hop */
#endif

/* --- outbound: the plane that sends ---------------------------------------------------------------------------- */

#define INVARIANT assert(applied <= freed && freed <= sequence && sequence <= freed + PACKETS)
#if BROKEN == 3
#define CAN_OPEN true
#else
#define CAN_OPEN (sequence - freed < PACKETS)
#endif

#if MODE == 1

inline put_message(c) {
  if
  :: open == 0 -> first[AT(c, sequence)] = appended; open = 1
  :: else -> open++
  fi;
  appended++
}
inline close(c) {
  atomic {
    count[AT(c, sequence)] = open;
    made_first[MADE(c, sequence)] = appended - open;
    made_count[MADE(c, sequence)] = open
  };
  published[AT(c, sequence)] = sequence + 1;  /* [P1] release */
  arrivals++;  /* [L1] release */
  atomic { sequence++; open = 0; INVARIANT }
}

#else

inline put_message(c) {
  if
  :: open == 0 -> staged_first[sequence % PACKETS] = appended; open = 1
  :: else -> open++
  fi;
  appended++
}
/* Small packets go inside a message, others are put: the model tries both for each. */
inline close(c) {
  atomic {
    staged_count[sequence % PACKETS] = open;
#if MODE == 2
    sent_first[sequence] = appended - open;
    sent_count[sequence] = open;
#else
    made_first[MADE(0, sequence)] = appended - open;
    made_count[MADE(0, sequence)] = open;
#endif
    if
    :: to_receiver!packet,sequence,appended - open,open
    :: putting[sequence % PACKETS] = true; put_sequence[sequence % PACKETS] = sequence;
#if BROKEN == 2
       to_receiver!notice,sequence,0,0
#endif
    fi;
    sequence++;
    open = 0;
    INVARIANT
  }
}

#endif

proctype outbound(byte c) {
  byte sequence, freed, applied, open, appended, flushes, i;
  byte until, flushed;  /* a flush under way: sequence it waits for, messages it covers; 0: none */
  do
  :: atomic { appended < MESSAGES && (open == 1 || (open == 0 && CAN_OPEN)) -> put_message(c) }
#if AGE
  :: open > 0 -> close(c)  /* full, or old */
#else
  :: open == 2 -> close(c)  /* full */
#endif
  /* flush: what is appended by now shall leave */
  :: flushed == 0 && appended > 0 && (appended == MESSAGES || flushes < FLUSHES) && (open == 0 || CAN_OPEN) ->
     flushes++;
#if BROKEN != 6
     if
     :: open != 0 -> close(c)
     :: else
     fi;
#endif
     atomic { flushed = appended; until = sequence }
  :: flushed != 0 && applied >= until ->
     atomic {
       i = 0;
       do
       :: i < flushed -> assert(applied_message[ID(c, i)]); i++
       :: else -> break
       od;
       i = 0;
       if
       :: flushed == MESSAGES -> goto all_flushed
       :: else -> flushed = 0; until = 0
       fi
     }
#if MODE == 1
  /* poll_done [P2] acquire */
  :: atomic { applied < sequence && done[AT(c, applied)] >= applied + 1 -> applied++; freed = applied; INVARIANT }
#if BROKEN == 4
  :: atomic { applied + 1 < sequence && done[AT(c, sequence - 1)] >= sequence -> applied = sequence; freed = applied }
#endif
#else
  :: atomic { to_sender?freed,applied -> INVARIANT }
#endif
  od;
all_flushed:
  assert(appended == MESSAGES && open == 0)
}

#if MODE != 1
/* Puts: the adapter reads staging memory when it likes, and puts pass each other. */
proctype nic() {
  byte s;
end:
  do
  :: putting[0] -> s = 0;
#if PACKETS > 1
     goto copy
  :: putting[1] -> s = 1;
#endif
copy:
#if MODE == 2
     transit_first[s] = staged_first[s];
     transit_count[s] = staged_count[s];
#else
     first[s] = staged_first[s];
     count[s] = staged_count[s];
#endif
     atomic {
       putting[s] = false;
#if BROKEN != 2
       to_receiver!notice,put_sequence[s],0,0;
#endif
       s = 0
     }
  od
}

/* --- inbound: the plane of the other node */

proctype inbound() {
  byte expected, freed, applied, reported_freed, reported_applied, number, f, n;
  bool here[PACKETS];
#if MODE == 2
  byte at;                                     /* messages of the packet at hand already taken over */
  byte sequence, out_applied, open, appended;  /* this node's own outbound, to the landing ring */
  byte until[PACKETS];                         /* of packets applied .. freed - 1 */
#define out_freed out_applied
#endif
end:
  do
  :: to_receiver?packet,number,f,n ->
     atomic {
#if BROKEN == 1
       assert(number == expected);
#endif
       assert(number >= expected && number - freed < PACKETS && !here[number % PACKETS]);
#if MODE == 2
       transit_first[number % PACKETS] = f; transit_count[number % PACKETS] = n;
#else
       first[number % PACKETS] = f; count[number % PACKETS] = n;
#endif
       here[number % PACKETS] = true;
       number = 0; f = 0; n = 0
     }
  :: to_receiver?notice,number,f,n ->
     atomic {
#if BROKEN == 1
       assert(number == expected);
#endif
       assert(number >= expected && number - freed < PACKETS && !here[number % PACKETS]);
       here[number % PACKETS] = true;
       number = 0
     }
#if MODE == 0
  :: here[expected % PACKETS] ->
     atomic { here[expected % PACKETS] = false; published[expected % PACKETS] = expected + 1 };  /* [P1] release */
     atomic { arrivals++; expected++ }
  /* report [P2] acquire */
  :: atomic { applied < expected && done[applied % PACKETS] >= applied + 1 -> applied++; freed = applied }
#if BROKEN == 4
  :: atomic { applied + 1 < expected && done[(expected - 1) % PACKETS] >= expected ->
       applied = expected; freed = applied
     }
#endif
#else
  :: atomic { here[expected % PACKETS] -> here[expected % PACKETS] = false; expected++ }
  /* take over: one message at a time, as room comes */
  :: atomic { freed < expected && at < transit_count[freed % PACKETS] &&
              (open == 1 || (open == 0 && sequence - out_freed < PACKETS)) ->
       assert(transit_first[freed % PACKETS] == sent_first[freed]);
       assert(transit_count[freed % PACKETS] == sent_count[freed]);
       if
       :: open == 0 -> first[sequence % PACKETS] = appended; open = 1
       :: else -> open++
       fi;
       appended++; at++
     }
  :: atomic { freed < expected && at == transit_count[freed % PACKETS] ->
       until[freed % PACKETS] = sequence + (open > 0);
       freed++; at = 0
     }
  :: open > 0 ->  /* its packets leave when full or old: at any time */
     atomic { count[sequence % PACKETS] = open; made_first[sequence] = appended - open; made_count[sequence] = open };
     published[sequence % PACKETS] = sequence + 1;  /* [P1] release */
     atomic { arrivals++; sequence++; open = 0 }
  :: atomic { out_applied < sequence && done[out_applied % PACKETS] >= out_applied + 1 -> out_applied++ }
#if BROKEN == 5
  :: atomic { applied < freed -> applied++ }
#else
  :: atomic { applied < freed && out_applied >= until[applied % PACKETS] -> applied++ }
#endif
#endif
  :: atomic { freed != reported_freed || applied != reported_applied ->
       reported_freed = freed; reported_applied = applied;
       assert(applied <= freed && freed <= expected);
       to_sender!freed,applied
     }
  od
}
#endif

/* --- receiver */

proctype resolver() {
  byte c, s, i, n;
end:
  do
#if MODE == 1
  :: atomic { taken != arrivals && published[AT(0, claimed[0])] == claimed[0] + 1 ->
       c = 0; s = claimed[0]; claimed[0]++
     };
     goto mine
  :: atomic { taken != arrivals && published[AT(1, claimed[1])] == claimed[1] + 1 ->
       c = 1; s = claimed[1]; claimed[1]++
     };
#else
  :: atomic { taken != arrivals && published[AT(0, claimed[0])] == claimed[0] + 1 ->  /* [L1] acquire */
       s = claimed[0]; claimed[0]++
     };
#endif
mine:
     taken++;
     /* Streams differ only in the ghosts: what was closed is what is read. */
     i = first[AT(c, s)];
     n = count[AT(c, s)];
     atomic {
       assert(i == made_first[MADE(c, s)] && n == made_count[MADE(c, s)] && n > 0);
       do
       :: n > 0 -> n--; assert(!applied_message[ID(c, i + n)]); applied_message[ID(c, i + n)] = true
       :: else -> break
       od;
       i = 0
     };
     done[AT(c, s)] = s + 1;  /* [P2] release */
     atomic { c = 0; s = 0 }
  od
}

init {
  atomic {
    run outbound(0);
#if MODE == 1
    run outbound(1);
#else
    run nic();
    run inbound();
#endif
    run resolver();
#if RESOLVERS > 1
    run resolver()
#endif
  }
}
