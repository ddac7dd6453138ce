// Entries of one type in channels by rank, and the kernel that works them off without rounds. The asynchronous
// execution of worklists of vertices (lib/worklist/asynchronous.cuh) and worklists of items (lib/worklist/items.cuh)
// use it.
//
// Problem. In rounds, every PE waits for the slowest one. Without rounds, work must be ordered roughly by priority, and
// all PEs must find out when nothing is left.
// Solution. The warps of one resident kernel take entries from channels (lib/channel) ordered by rank, work on them,
// and put new entries in. Handlers put in entries for which other PEs have sent messages.
//
// Ranks are hints. Channel r % n holds entries of rank r; the lowest rank that may have entries is `base`. A warp that
// finds lower channels empty moves `base` on. An entry whose rank is below `base` goes into the first channel, or, if
// ranks fall, moves `base` back. An entry whose rank is beyond the last channel goes into the last one. All channels
// are polled, so nothing is lost if `base` is wrong. PEs report their lowest ranks to each other, and do not take
// entries whose rank is too far beyond the lowest rank of all PEs.
//
// The end is found by four counters (Mattern 1987). `pending` counts entries of this PE, from before other warps can
// see them until the work on them is done. `sent` counts messages before they leave. `received` counts messages when
// their entries have been put in, and what a handler passes on has been counted as sent. One warp of each PE, the
// watch, repeats waves, which have the same numbers at all PEs:
//
//   this PE                                                                             every other PE
//   reads received [W2] acquire, then sees pending == 0 [W3] acquire, then reads sent
//   puts its words, with the number of the wave, to each PE                             sees all words of that wave
//
// The watch ends when the number of messages received in the previous wave equals the number sent in this wave. Proof:
// R(k-1) <= received when wave k-1 ended <= sent when wave k-1 ended <= S(k). If R(k-1) equals S(k), no message was in
// flight when wave k-1 ended. A PE that was idle in wave k-1 and has entries now would have received a message since,
// so S(k) would be larger. All PEs see the same words, and so decide alike in each wave.
//
// A PE may be one wave ahead of a PE that has not read its words yet, but not two. So there are two sets of words, used
// in turn, and each word carries the number of its wave.
//
// Entries that move, if the program allows it. A PE whose lowest rank is no_rank is idle. The watch of a PE that has
// entries to spare grants some of them to an idle PE, by a word that this PE's warps read. The warp that claims a part
// of the grant sends half of the batch that it has taken, by the messages by which all items travel. So the end is
// found by the same counters, and items move on any route. Each report of an idle PE is answered by one grant; a PE
// that is still idle after it has received something reports again.
//
// Model of the end: test/models/worklist_end.pml.
#pragma once
#include <gravel/gravel.cuh>
#include "device/lane_group.cuh"
#include "device/watched_wait.cuh"
#include "lib/channel/channel.cuh"

namespace gravel::detail {

/// A count that carries the number of its wave. The count has 56 bits.
struct wave_word {
  GRAVEL_BOTH static uint64_t of(uint64_t wave, uint64_t count) { return count << 8 | (wave & 0xff); }
  GRAVEL_BOTH static bool is_of(uint64_t word, uint64_t wave) { return (word & 0xff) == (wave & 0xff); }
  GRAVEL_BOTH static uint64_t count(uint64_t word) { return word >> 8; }
};
/// The lowest rank of which a PE may have entries; no_rank: the PE is idle. Puts may overtake each other, also puts to
/// one word. So reports are numbered, the later one is the larger number, and gravel_max carries it.
constexpr uint32_t no_rank = ~0u;
struct lowest_word {
  GRAVEL_BOTH static uint64_t of(uint32_t number, uint32_t rank) { return uint64_t{number} << 32 | rank; }
  GRAVEL_BOTH static uint32_t rank(uint64_t word) { return static_cast<uint32_t>(word); }
  GRAVEL_BOTH static uint32_t number(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
};
/// A grant: so many batches of which a half goes to PE `to`. The watch writes a grant when none is left; warps count it
/// down.
struct grant_word {
  GRAVEL_BOTH static uint64_t of(uint32_t to, uint32_t batches) { return uint64_t{to} << 32 | batches; }
  GRAVEL_BOTH static uint32_t to(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  GRAVEL_BOTH static uint32_t batches(uint64_t word) { return static_cast<uint32_t>(word); }
};
/// The report of one PE, which the PE writes at each other PE. Symmetric.
struct wave_report {
  uint64_t received[2],
      sent[2];      ///< [even and odd waves] a word of wave k + 2 is sent when all PEs have seen that of wave k
  uint64_t lowest;  ///< 0 when a run begins
};

struct asynchronous_words {
  alignas(128) uint64_t pending;   ///< entries that are not done
  alignas(128) uint64_t sent;      ///< messages that have left, or are about to leave
  alignas(128) uint64_t received;  ///< messages whose entries have been put in
  alignas(128) uint32_t base;
  uint32_t allowed;  ///< vertices of higher ranks are not taken yet
  uint32_t ended;
  uint32_t overflows;  ///< not 0: an entry found no room
  uint64_t wave;       ///< number of the last wave; continues from run to run
  uint64_t grant;      ///< entries that a PE gets (grant_word)
};

constexpr uint32_t most_ranks = 32;

/// Entries by rank, as kernels and handlers see them. Plain data. A copy lies in device memory, for handlers. ITEMS:
/// entries of a rank below `base` may come often, and entries may move.
template <class Entry, bool ITEMS = false>
struct ranked_channels {
  using entry = Entry;
  asynchronous_words* words;
  char* memory;  ///< memory of the channels
  uint64_t stride;
  uint32_t n_ranks, capacity;
  uint32_t slack;        ///< a PE takes so many ranks beyond the lowest of all PEs
  wave_report* reports;  ///< [PEs] symmetric; includes this PE's own report
  uint32_t* answered;    ///< [PEs] the last report of each idle PE that got a grant; null: entries do not move

  GRAVEL_BOTH bool entries_move() const { return ITEMS && answered != nullptr; }
  GRAVEL_BOTH channel<Entry> of(uint32_t rank) const {
    return channel<Entry>::in(memory + rank % n_ranks * stride, capacity);
  }
  /// Returns the rank of the channel for an entry of this rank.
  GRAVEL_DEVICE uint32_t place_for(uint32_t rank) const {
    const uint32_t base = load_relaxed<scope::device>(&words->base);
    if (rank < base) return ITEMS ? rank : base;
    return rank - base >= n_ranks ? base + n_ranks - 1 : rank;
  }

  /// Puts in the entry of each lane with `have`. Thread scope: the group, converged; also in handlers.
  template <class Group>
  GRAVEL_DEVICE void put(const Group& group, bool have, uint32_t entry_rank, const Entry& what) const {
    uint32_t rest = group.ballot(have);
    if (rest == 0) return;
    const uint32_t rank = have ? place_for(entry_rank) : 0;
    while (rest != 0) {
      const uint32_t now = group.from_lane(rank, lane_group::lowest(rest));
      const bool mine = have && rank == now;
      // An entry that finds no room goes into the next channel. Any channel is correct.
      uint32_t further = 0;
      channel<Entry> to = of(now);
      channel_reservation r = to.reserve(group, mine ? 1 : 0);
      while (!r.granted && ++further < n_ranks) {
        to = of(now + further);
        r = to.reserve(group, mine ? 1 : 0);
      }
      if (group.is_leader()) {
        if (r.granted) fetch_add<scope::device>(&words->pending, uint64_t{r.total});  // before other warps can see them
        else store_relaxed<scope::device>(&words->overflows, 1u);
      }
      group.sync();
      if (r.granted && mine) to.write(r.mine, what);
      to.commit(group, r);
      if constexpr (ITEMS) {
        if (group.is_leader() && now < load_relaxed<scope::device>(&words->base)) atomicMin(&words->base, now);
      }
      rest &= ~group.ballot(mine);
    }
  }
};

/// Grants entries to an idle PE, if this PE has some to spare and no grant is open. Thread scope: the watch, converged.
template <class Channels>
GRAVEL_DEVICE void grant_entries(const gravel_t& g, const Channels& a, bool is_idle) {
  const uint32_t lane = threadIdx.x;
  if (is_idle) {
    // A grant that no warp has claimed is withdrawn, and the PE for which it was must get one later.
    if (lane == 0) store_relaxed<scope::device>(&a.words->grant, uint64_t{0});
    for (uint32_t pe = lane; pe < g.n_pes; pe += 32) a.answered[pe] = 0;
    return;
  }
  const uint64_t open = __shfl_sync(~0u, load_relaxed<scope::device>(&a.words->grant), 0);
  if (grant_word::batches(open) != 0) return;
  const uint32_t waiting = __reduce_add_sync(~0u, lane < a.n_ranks ? a.of(lane).waiting() : 0u);
  if (waiting < 2) return;
  uint32_t distance = g.n_pes, number = 0;  // PEs begin with the one behind them
  for (uint32_t pe = lane; pe < g.n_pes; pe += 32) {
    const uint64_t theirs = poll_word(g, &a.reports[pe].lowest);
    const uint32_t from_here = (pe + g.n_pes - g.my_pe) % g.n_pes;
    if (lowest_word::rank(theirs) != no_rank || lowest_word::number(theirs) == a.answered[pe]) continue;
    if (from_here == 0 || from_here >= distance) continue;
    distance = from_here;
    number = lowest_word::number(theirs);
  }
  const uint32_t nearest = __reduce_min_sync(~0u, distance);
  if (nearest == g.n_pes) return;
  const uint32_t to = (g.my_pe + nearest) % g.n_pes;
  if (distance == nearest) {
    a.answered[to] = number;
    store_relaxed<scope::device>(&a.words->grant, grant_word::of(to, waiting / 32 + 1));
  }
  __syncwarp();
}

/// The watch: reports this PE's lowest rank to all PEs, and finds the end. Thread scope: the first warp of the first
/// block.
template <class Channels>
GRAVEL_DEVICE void keep_watch(const gravel_t& g, const Channels& a) {
  asynchronous_words& words = *a.words;
  const uint32_t lane = threadIdx.x;
  uint64_t wave = words.wave + 1, received_before = ~uint64_t{0}, received_at_report = 0;
  uint32_t last_lowest = no_rank - 1, lowest_reports = 0;
  bool reported = false;
  uint32_t late = g.n_pes;  // a PE whose words of this wave have not come; n_pes: this lane misses none
  const auto late_pe = [&] { return wait_subject{.what = awaited::worklist, .pe = late}; };
  for (watched_wait wait;; wait.attentively(g, reported && late < g.n_pes, late_pe)) {
    const uint64_t received = load_acquire<scope::device>(&words.received);        // [W2]
    const bool idle = load_acquire<scope::device>(&words.pending) == uint64_t{0};  // [W3]
    if (g.n_pes == 1) {
      if (__ballot_sync(~0u, idle) == ~0u) break;
      continue;
    }
    const uint32_t lowest = __shfl_sync(~0u, idle ? no_rank : load_relaxed<scope::device>(&words.base), 0);
    const uint64_t received_here = __shfl_sync(~0u, received, 0);
    const bool wants_more = a.entries_move() && lowest == no_rank && received_here != received_at_report;
    if (lowest != last_lowest || wants_more) {
      last_lowest = lowest;
      received_at_report = received_here;
      const uint64_t word = lowest_word::of(++lowest_reports, lowest);
      for (uint32_t pe = lane; pe < g.n_pes; pe += 32)
        gravel_max(g, &a.reports[g.my_pe].lowest, word, static_cast<int>(pe));
    }
    if (!reported && __shfl_sync(~0u, idle, 0)) {
      const uint64_t r = received_here, s = __shfl_sync(~0u, load_relaxed<scope::device>(&words.sent), 0);
      for (uint32_t pe = lane; pe < g.n_pes; pe += 32) {
        gravel_put(g, &a.reports[g.my_pe].received[wave % 2], wave_word::of(wave, r), static_cast<int>(pe));
        gravel_put(g, &a.reports[g.my_pe].sent[wave % 2], wave_word::of(wave, s), static_cast<int>(pe));
      }
      if (lane == 0) gravel_flush(g);
      reported = true;
    }
    late = g.n_pes;
    uint64_t r = 0, s = 0;
    uint32_t least = no_rank;
    for (uint32_t pe = lane; pe < g.n_pes; pe += 32) {
      const uint64_t theirs = poll_word(g, &a.reports[pe].received[wave % 2]),
                     out = poll_word(g, &a.reports[pe].sent[wave % 2]);
      if (!wave_word::is_of(theirs, wave) || !wave_word::is_of(out, wave)) late = pe;
      r += wave_word::count(theirs);
      s += wave_word::count(out);
      const uint32_t rank = lowest_word::rank(poll_word(g, &a.reports[pe].lowest));
      least = rank < least ? rank : least;
    }
    least = __reduce_min_sync(~0u, least);
    if (lane == 0) store_relaxed<scope::device>(&words.allowed, least > no_rank - a.slack ? no_rank : least + a.slack);
    if (a.entries_move()) grant_entries(g, a, lowest == no_rank);
    if (!reported || __ballot_sync(~0u, late < g.n_pes) != 0) continue;
    for (int step = 16; step; step /= 2) {
      r += __shfl_xor_sync(~0u, r, step);
      s += __shfl_xor_sync(~0u, s, step);
    }
    if (s == received_before) break;
    received_before = r;
    ++wave;
    reported = false;
    wait.reset();
  }
  __syncwarp();
  if (lane == 0) {
    words.wave = wave;
    store_release<scope::device>(&words.ended, 1u);  // [W4]
  }
}

/// Takes entries, lowest rank first, and gives them to `worker` until nothing is left at any PE. The worker has
///   bool work_first()                                     works on what goes before all entries; false: there was none
///   void work(bool have, const Entry& entry, uint32_t n)  works on the entries of the n lanes that have one
/// Thread scope: warp, converged; all warps but the watch.
template <class Channels, class Worker>
GRAVEL_DEVICE void work_off(const Channels& a, Worker& worker) {
  using entry = typename Channels::entry;
  const lane_group warp = lane_group::of(~0u);
  const uint32_t lane = threadIdx.x % 32;
  relax wait;
  while (true) {
    const uint32_t over = __shfl_sync(~0u, load_acquire<scope::device>(&a.words->ended), 0);  // [W4]
    if (over != 0) break;
    if (worker.work_first()) {
      wait.reset();
      continue;
    }
    const uint32_t base = __shfl_sync(~0u, load_relaxed<scope::device>(&a.words->base), 0),
                   allowed = __shfl_sync(~0u, load_relaxed<scope::device>(&a.words->allowed), 0);
    // Each lane polls one channel; the warp takes from the lowest that is not empty. Entries that are reserved and not
    // yet written count, so that no warp passes over a rank whose entries are about to come: it would do later work too
    // early, and move `base` beyond them.
    const uint32_t some = __ballot_sync(~0u, lane < a.n_ranks && a.of(base + lane).reserved() != 0);
    const uint32_t rank = some ? base + lane_group::lowest(some) : base;
    // Also if the warp may not take this rank: the rank that is reported to other PEs must follow the lowest that this
    // PE has.
    if (rank != base && lane == 0) atomicMax(&a.words->base, rank);
    if (some == 0 || rank > allowed) {
      wait();
      continue;
    }
    const channel<entry> from = a.of(rank);
    const channel_batch batch = from.take(warp, 32);
    if (batch.count == 0) {
      wait();
      continue;
    }
    wait.reset();
    const bool have = lane < batch.count;
    entry mine{};
    if (have) mine = from.read(batch.first + lane);
    from.free(warp, batch);
    worker.work(have, mine, batch.count);
    __syncwarp();
    if (lane == 0) fetch_add_release<scope::device>(&a.words->pending, ~uint64_t{batch.count} + 1);  // [W3]
  }
}

}  // namespace gravel::detail
