// Who of a block's warps looks at the channels, and what it leaves for those that wait (lib/channel/block_poller.cuh). Channels are a number of
// tickets here, of which who looks takes one for itself and up to SHARE for others; the channel is the number of the look. A warp goes when it has run BATCHES
// tickets, or when all are done.
//
//   step here      in the code
//   looks          block_poller::ask: nobody -> somebody     [K10]; others()
//   given          block_poller::ask: left -= 1              [K10], [K11]
//   waits          block_poller::wait
//   leaves         block_poller::leave, end                  [K11]
//   by itself      what a warp finds without a turn: only who is not counted may
//
// Claims: each ticket that was taken is run once, as one of the look that took it. All warps go: if one does not, that shows as an invalid end state.
//
// BROKEN=1: what is left is read by who has counted himself out.         BROKEN=2: who has got something is counted a while longer.
// BROKEN=3: who looks is one of those that it counts.                    BROKEN=4: one looks while something is left.
// BROKEN=5: who is counted takes something by itself, too.               BROKEN=6: `left` is told before it is written which.
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

bool somebody, all_done;  /* these and the next two are one word: `state` */
byte left, reading;
byte waiting, first, look;
byte next, looks, finished;
byte ran[TICKETS], of_poll[TICKETS];
byte gone;

#define UNCOUNT if :: counted -> waiting--; counted = false :: else fi
#if BROKEN == 4
#define FREE (!somebody && !all_done && reading == 0)
#else
#define FREE (!somebody && !all_done && left == 0 && reading == 0)
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
     :: atomic { FREE -> somebody = true };
#if BROKEN == 3
        n = waiting; UNCOUNT;
#else
        UNCOUNT; n = waiting;
#endif
        if
        :: next == TICKETS ->
           finished == TICKETS;  /* it goes on looking */
           atomic { somebody = false; all_done = true };
           break
        :: else
        fi;
        atomic {  /* claims */
          if
          :: next == TICKETS -> n = 0; its = 0; ticket = TICKETS  /* another block or warp was faster */
          :: else ->
             n = (n > SHARE -> SHARE : n);
             n = (n > TICKETS - next - 1 -> TICKETS - next - 1 : n);
             looks++;
             its = looks;
             ticket = next;
             do
             :: next <= ticket + n -> of_poll[next] = its; next++
             :: else -> break
             od
          fi
        };
#if BROKEN == 6
        atomic { somebody = false; left = n };
        if :: n != 0 -> look = its; first = ticket + 1 :: else fi;
#else
        if :: n != 0 -> look = its; first = ticket + 1 :: else fi;
        atomic { somebody = false; left = n };
#endif
        if
        :: ticket != TICKETS -> run_it(ticket, its); done++
        :: else
        fi
#if BROKEN == 1
     :: atomic { left != 0 && !somebody -> n = left; left-- };
        its = look; ticket = first + n - 1; UNCOUNT;
#elif BROKEN == 2
     :: atomic { left != 0 && !somebody -> n = left; left--; reading++ };
        its = look; ticket = first + n - 1; reading--; UNCOUNT;
#else
     :: atomic { left != 0 && !somebody -> n = left; left--; reading++ };
        its = look; ticket = first + n - 1; UNCOUNT;
        reading--;
#endif
        run_it(ticket, its); done++
     :: all_done -> break
     :: atomic { somebody && !counted -> waiting++; counted = true }
#if BROKEN == 5
     :: atomic { somebody && next < TICKETS ->
#else
     :: atomic { somebody && !counted && next < TICKETS ->
#endif
          looks++; its = looks; of_poll[next] = its; ticket = next; next++ };
        UNCOUNT;
        run_it(ticket, its); done++
     fi;
     n = 0; its = 0; ticket = 0
  od;
  atomic {
    gone++;
    if
    :: gone == WARPS ->  /* nothing has stayed behind */
       assert(all_done || left == 0);
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
