// Residency lease: how the host knows that a resident kernel stays while kernels that need it run
// (host/pe/launcher_cuda.cuh and device/resolver_state.cuh [H1]; host/pe/residency_cuda.cuh and
// device/service_kernel.cuh [V4]). Without a lease the kernel ends when its quantum is over, so that calls that wait
// for all kernels return. A host that finds the kernel ended starts it again.
//
//   step here        in the code                                                     label
//   lease = number   launcher: a new number for each lease; all_resident             [H1] [V4]
//   seen = lease     decide(), service_end::has_come: release                        [H1] [V4]
//   seen == lease?   the host, acquire; the kernels that need it start now           [H1] [V4]
//   stop             the same functions, when there is no lease and the quantum is over
//   order, answered  settle_by_order and serve_orders (device/settle_orders.cuh)     [Q1] [Q2]
//
// One warp of the kernel obeys the orders that the host gives under a lease.
//
// Claims: while kernels that need it run, the resident kernel has not ended and has not decided to end. The host does
// not wait for ever (a state in which no process can take a step is an error). No kernel ends before an order is
// obeyed, and each is obeyed once.
//
// BROKEN=1: a lease has no number of its own.
// BROKEN=2: the kernel may end under a lease that it has acknowledged.
// BROKEN=3: the host does not start an ended kernel again.
// BROKEN=4: the kernel acknowledges what it read before it decided to end.
// BROKEN=5: the host gives an order before the kernel has acknowledged the lease.
// BROKEN=6: the warp of a new kernel does not know which order was answered last.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef LEASES
#define LEASES 3
#endif

byte lease, seen, order, answered;
bool runs, obeys, stop, needed, finished;

proctype warp() {
  byte done, last;
  do
  :: finished && !runs -> break
  :: obeys ->
#if BROKEN == 6
     done = 0;
#else
     done = answered;
#endif
     do
     :: order != done ->
        assert(order > last);
        last = order;
        done = order;
        answered = order
     :: order == done && stop -> break
     od;
     obeys = false
  od
}

proctype kernel() {
  byte read, mine;
  do
  :: finished && !runs -> break
  :: runs ->
     mine = 0;
     do
     :: stop -> break
     :: else ->
        read = lease;
        if
        :: read == 0 -> if :: true -> stop = true :: true -> skip fi   /* is the quantum over? */
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
     !obeys;
     assert(order == answered);
     runs = false
  od
}

proctype host() {
  byte n;
  do
  :: n == LEASES -> break
  :: else ->
     n++;
#if BROKEN == 1
     lease = 1;
#else
     lease = n;
#endif
     do
     :: seen == lease -> break
#if BROKEN != 3
     :: seen != lease && !runs -> atomic { stop = false; obeys = true; runs = true }
#endif
#if BROKEN == 5
     :: order != n -> order = n; answered == n
#endif
     od;
     needed = true;
     assert(runs && !stop);
#if BROKEN != 5
     order = n;
     answered == n;
#endif
     needed = false;
     lease = 0
  od;
  finished = true
}

init {
  atomic { run kernel(); run warp(); run host() }
}
