// The block poller: which of a block's warps polls the channels, and the hand-offs that it leaves for waiting warps
// (lib/channel/block_poller.cuh). The channels are a number of tickets here. A poller takes one ticket for itself and
// up to SHARE for other warps; the number of the poll stands for the channel. A warp ends when it has run BATCHES
// tickets, or when all tickets are done.
//
//   step here      in the code
//   polls          block_poller::try_acquire: free -> polling       [K10]; waiting_warps()
//   takes          block_poller::try_acquire: handoffs -= 1         [K10], [K11]
//   waits          block_poller::count_as_waiting
//   leaves         block_poller::release, end                       [K11]
//   by itself      a warp claims by the hint, without a turn; only a warp that is not counted may do so
//
// Claims: each ticket that was taken is run once, as a ticket of the poll that took it. All warps end: if one does not,
// that shows as an invalid end state.
//
// BROKEN=1: a warp is not counted as a reader while it reads its hand-off.
// BROKEN=2: a warp that has its hand-off stays counted as waiting for a while.
// BROKEN=3: the poller counts itself among the waiting warps.
// BROKEN=4: a warp polls while hand-offs are left.
// BROKEN=5: a warp that is counted as waiting claims by the hint, too.
// BROKEN=6: the number of hand-offs is published before their tickets are written.
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef WARPS
#define WARPS 3
#endif
#ifndef TICKETS
#define TICKETS 5
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef SHARE
#define SHARE 2
#endif

bool polling, ended;  /* these and the next two are one word: `state` */
byte handoffs, readers;
byte waiting, first, poll;
byte next, polls, finished;
byte ran[TICKETS], of_poll[TICKETS];
byte gone;

#define UNCOUNT if :: counted -> waiting--; counted = false :: else fi
#if BROKEN == 4
#define FREE (!polling && !ended && readers == 0)
#else
#define FREE (!polling && !ended && handoffs == 0 && readers == 0)
#endif

inline run_it(ticket, its_poll) {
  atomic {
    assert(ticket < TICKETS && of_poll[ticket] == its_poll);
    ran[ticket]++;
    assert(ran[ticket] == 1);
    finished++
  }
}

proctype warp() {
  byte done, ticket, its, n;
  bool counted;
  do
  :: done == BATCHES -> break
  :: else ->
     if
     :: atomic { FREE -> polling = true };
#if BROKEN == 3
        n = waiting; UNCOUNT;
#else
        UNCOUNT; n = waiting;
#endif
        if
        :: next == TICKETS ->
           finished == TICKETS;  /* it goes on polling */
           atomic { polling = false; ended = true };
           break
        :: else
        fi;
        atomic {  /* claims */
          if
          :: next == TICKETS -> n = 0; its = 0; ticket = TICKETS  /* another block or warp was faster */
          :: else ->
             n = (n > SHARE -> SHARE : n);
             n = (n > TICKETS - next - 1 -> TICKETS - next - 1 : n);
             polls++;
             its = polls;
             ticket = next;
             do
             :: next <= ticket + n -> of_poll[next] = its; next++
             :: else -> break
             od
          fi
        };
#if BROKEN == 6
        atomic { polling = false; handoffs = n };
        if :: n != 0 -> poll = its; first = ticket + 1 :: else fi;
#else
        if :: n != 0 -> poll = its; first = ticket + 1 :: else fi;
        atomic { polling = false; handoffs = n };
#endif
        if
        :: ticket != TICKETS -> run_it(ticket, its); done++
        :: else
        fi
#if BROKEN == 1
     :: atomic { handoffs != 0 && !polling -> n = handoffs; handoffs-- };
        its = poll; ticket = first + n - 1; UNCOUNT;
#elif BROKEN == 2
     :: atomic { handoffs != 0 && !polling -> n = handoffs; handoffs--; readers++ };
        its = poll; ticket = first + n - 1; readers--; UNCOUNT;
#else
     :: atomic { handoffs != 0 && !polling -> n = handoffs; handoffs--; readers++ };
        its = poll; ticket = first + n - 1; UNCOUNT;
        readers--;
#endif
        run_it(ticket, its); done++
     :: ended -> break
     :: atomic { polling && !counted -> waiting++; counted = true }
#if BROKEN == 5
     :: atomic { polling && next < TICKETS ->
#else
     :: atomic { polling && !counted && next < TICKETS ->
#endif
          polls++; its = polls; of_poll[next] = its; ticket = next; next++ };
        UNCOUNT;
        run_it(ticket, its); done++
     fi;
     n = 0; its = 0; ticket = 0
  od;
  atomic {
    gone++;
    if
    :: gone == WARPS ->  /* nothing was left behind */
       assert(ended || handoffs == 0);
       assert(finished == next)
    :: else
    fi
  }
}

init {
  byte i;
  atomic {
    do
    :: i == WARPS -> break
    :: else -> run warp(); i++
    od
  }
}
