// The hold: how the host knows that a resident kernel stays while kernels run that need it (host/pe/launcher_cuda.cuh and
// device/resolver_state.cuh [H1]; host/pe/residency_cuda.cuh and device/service_kernel.cuh [V4]). Without a hold the kernel ends when its time is
// over, so that what waits for all kernels returns; a host that finds it ended starts it again.
//
//   step here       in the code                                                     label
//   hold = number   launcher: a new number for each hold; all_resident: tell        [H1] [V4]
//   seen = hold     decide(), service_end::has_come: release                        [H1] [V4]
//   seen == hold?   the host, acquire; the kernels that need it start now           [H1] [V4]
//   stop            the same functions, when hold is 0 and the time is over
//
// Claims: while kernels run that need it, it neither has ended nor has decided to; and the host is not kept waiting for ever (a state in which
// nobody can go on is an error).
//
// BROKEN=1: a hold has no number of its own.   BROKEN=2: the kernel may end during a hold that it has answered.
// BROKEN=3: the host does not start again what has ended.   BROKEN=4: the kernel answers what it read before it decided to end.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef HOLDS
#define HOLDS 3
#endif

byte hold, seen;
bool runs, stop, needed, finished;

proctype kernel() {
  byte read, mine;
  do
  :: finished && !runs -> break
  :: runs ->
     mine = 0;
     do
     :: stop -> break
     :: else ->
        read = hold;
        if
        :: read == 0 -> if :: true -> stop = true :: true -> skip fi   /* is the time over? */
#if BROKEN == 2
        :: read != 0 && read == mine -> stop = true
#endif
        :: read != 0 && read != mine ->
#if BROKEN == 4
           if :: true -> stop = true :: true -> skip fi;
#endif
           mine = read;
           seen = read
        :: else -> skip
        fi
     od;
     assert(!needed);
     runs = false
  od
}

proctype host() {
  byte n;
  do
  :: n == HOLDS -> break
  :: else ->
     n++;
#if BROKEN == 1
     hold = 1;
#else
     hold = n;
#endif
     do
     :: seen == hold -> break
#if BROKEN != 3
     :: seen != hold && !runs -> stop = false; runs = true
#endif
     od;
     needed = true;
     assert(runs && !stop);
     needed = false;
     hold = 0
  od;
  finished = true
}

init {
  atomic { run kernel(); run host() }
}
