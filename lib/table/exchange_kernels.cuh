// Kernels of an exchange of rows (row_exchange.cuh).
//
// Problem. Each PE has rows for other PEs, and only its device knows how many for each. The rows that come shall lie
// one behind the other, ordered by PE.
//
// Solution. The rows are sorted by the PE to which they go, in this PE's memory. The PEs exchange how many they have
// for each other. From that each PE computes where its rows go, and sends them as runs, each by bulk puts to its final
// place.
//
// Protocol of exchange k, all in the stream of the caller:
//
//   kernel            what it does
//   count_rows        counts the rows for each PE, for each warp: `parts`           (unless the rows are sorted)
//   sum_parts         sums the counts up: `counts_to`, and the first place of each warp        (as above)
//   exchange_counts   sends the counts to each PE: its row of `table`. A rendezvous: all have come to exchange k.
//                     Computes `runs`, `counts`, `firsts`
//   pack_rows         copies the rows to `packed`, by PE; those of one PE stay in their order  (as count_rows)
//   send_runs         puts runs of rows into `rows` of each PE
//   end_exchange      a rendezvous: all rows have come
//
// In a rendezvous a PE waits until what it has sent is applied, puts a number into its word of `came` at each PE, and
// waits for the words of the others. Numbers rise: 2k and 2k + 1.
//
// Invariants. A PE leaves the first rendezvous of exchange k when all PEs have come there, behind the kernels that read
// the result of exchange k - 1: so it may write `rows` anywhere. It leaves the second one when no PE reads `table` or
// `runs` of exchange k any more.
#pragma once
#include <type_traits>

#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

constexpr uint32_t rendezvous_lanes = 32;  // of the one block

/// Rows for one PE.
struct row_run {
  uint64_t from, to;  ///< index of the first row, in the sorted rows here, and in the rows that come there
  uint64_t count;
};

struct exchange_memory {
  static constexpr uint32_t nowhere = ~0u;
  uint64_t row_bytes, room;
  char* rows;       ///< symmetric [room][row_bytes]: what has come
  uint64_t* table;  ///< symmetric [from PE][to PE]: rows; each PE writes its row
  uint64_t* came;   ///< symmetric [PE]: the last rendezvous to which each PE has come; that PE writes it
  // Device memory of this PE:
  uint64_t* counts;     ///< [PE]: rows that have come from each
  uint64_t* firsts;     ///< [PE + 1]: index of the first one of each; the last: of all
  row_run* runs;        ///< [PE]
  uint64_t* counts_to;  ///< [PE]: rows for each, where they are counted here
  uint64_t* parts;      ///< [PE][warp]: rows of a warp's part for that PE, then the place of its next one among them
};

/// Waits until the kernels of all PEs are here, and what they have sent is applied. Thread scope: block, the only one.
GRAVEL_DEVICE void await_others(const gravel_t& g, uint64_t* came, uint64_t number) {
  gravel_quiet(g);
  __syncthreads();
  for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += blockDim.x)
    if (pe != g.my_pe) gravel_put(g, &came[g.my_pe], number, static_cast<int>(pe));
  gravel_flush(g);
  for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += blockDim.x)
    if (pe != g.my_pe) gravel_wait_until(g, &came[pe], GRAVEL_GE, number);
  __syncthreads();
}
template <int = 0>
__global__ void end_exchange(gravel_t g, uint64_t* came, uint64_t number) {
  await_others(g, came, number);
}

/// Sends counts[0 .. PEs), and learns those of all. One block.
template <int = 0>
__global__ void exchange_counts(gravel_t g, exchange_memory m, const uint64_t* counts, uint64_t number) {
  __shared__ uint32_t refused;
  const uint32_t n = g.n_pes, me = g.my_pe;
  if (threadIdx.x == 0) store_relaxed<scope::shared>(&refused, 0u);
  for (uint32_t pe = threadIdx.x; pe < n; pe += blockDim.x)
    gravel_put_bulk_lane(g, m.table + uint64_t{me} * n, counts, n * sizeof(uint64_t), static_cast<int>(pe));
  await_others(g, m.came, number);
  const auto sent = [&](uint32_t from, uint32_t to) { return load_relaxed(&m.table[uint64_t{from} * n + to]); };
  for (uint32_t pe = threadIdx.x; pe < n; pe += blockDim.x) {
    row_run run{0, 0, sent(me, pe)};
    for (uint32_t to = 0; to < pe; ++to) run.from += sent(me, to);
    uint64_t all = 0;
    bool fits = true;
    for (uint32_t from = 0; from < n; ++from) {
      const uint64_t count = sent(from, pe);
      if (from < me) run.to += count;
      all += count;
      fits &= count <= m.room && all <= m.room;
    }
    if (!fits) store_relaxed<scope::shared>(&refused, 1u);
    if (!fits && pe == me) report_error(g, message_fault::exchange_room, op::none, me, all, m.room);
    m.runs[pe] = run;
    m.counts[pe] = sent(pe, me);
  }
  __syncthreads();
  // Nothing is sent if one PE has too little room. All PEs come to the same conclusion, and the job ends.
  const bool is_refused = load_relaxed<scope::shared>(&refused) != 0;
  for (uint32_t pe = threadIdx.x; pe <= n; pe += blockDim.x) {
    uint64_t first = 0;
    for (uint32_t from = 0; from < pe; ++from) first += sent(from, me);
    m.firsts[pe] = is_refused ? 0 : first;
    if (is_refused && pe < n) m.runs[pe].count = m.counts[pe] = 0;
  }
}

/// Puts the runs into the rows of each PE, one PE after the other, beginning behind this one. A block sends pieces.
template <int = 0>
__global__ void __launch_bounds__(row_lanes) send_runs(gravel_t g, exchange_memory m, const char* rows) {
  constexpr uint64_t piece_bytes = uint64_t{1} << 15;
  uint64_t before = 0;  // pieces for PEs that came before
  for (uint32_t k = 1; k <= g.n_pes; ++k) {
    const uint32_t pe = (g.my_pe + k) % g.n_pes;
    const row_run run = m.runs[pe];
    const uint64_t bytes = run.count * m.row_bytes, pieces = (bytes + piece_bytes - 1) / piece_bytes;
    const uint64_t first = (blockIdx.x + gridDim.x - before % gridDim.x) % gridDim.x;
    for (uint64_t piece = first; piece < pieces; piece += gridDim.x) {
      const uint64_t at = piece * piece_bytes, now = bytes - at < piece_bytes ? bytes - at : piece_bytes;
      gravel_put_bulk(g, m.rows + run.to * m.row_bytes + at, rows + run.from * m.row_bytes + at, now,
                      static_cast<int>(pe));
    }
    before += pieces;
  }
}

/// Calls visit(row, pe, peers) for the rows of each warp's part, 32 at a time, by all lanes of the warp: each lane has
/// one row. `pe`: where it goes; nowhere: the lane has no row, or there is no such PE. `peers`: lanes with the same PE.
template <class Pe, class F>
GRAVEL_DEVICE void for_rows_of_warp(const gravel_t& g, const Pe* to, uint64_t n, uint64_t part, F visit) {
  const uint64_t warp = uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32;
  const uint64_t begin = warp * part, end = begin + part < n ? begin + part : n;
  for (uint64_t first = begin; first < end; first += 32) {
    const uint64_t row = first + threadIdx.x % 32;
    uint32_t pe = exchange_memory::nowhere;
    if (row < end && static_cast<uint64_t>(to[row]) < g.n_pes) pe = static_cast<uint32_t>(to[row]);
    visit(row, pe, __match_any_sync(~0u, pe));
  }
}
/// Adds the lanes of `peers` to a word of the warp, which no other warp uses. Thread scope: warp.
GRAVEL_DEVICE void count_peers(uint64_t* word, uint32_t pe, uint32_t peers) {
  __syncwarp();
  if (pe != exchange_memory::nowhere && (peers & ((1u << threadIdx.x % 32) - 1)) == 0)
    *word += static_cast<uint64_t>(__popc(peers));
  __syncwarp();
}

/// parts[PE][warp] = rows for that PE in each warp's part.
template <class Pe>
__global__ void __launch_bounds__(row_lanes)
    count_rows(gravel_t g, exchange_memory m, const Pe* to, uint64_t n, uint64_t part) {
  const uint64_t warps = uint64_t{gridDim.x} * warps_of_rows;
  uint64_t* const mine = m.parts + uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32;
  for (uint32_t pe = threadIdx.x % 32; pe < g.n_pes; pe += 32) mine[pe * warps] = 0;
  for_rows_of_warp(g, to, n, part, [&](uint64_t row, uint32_t pe, uint32_t peers) {
    if (row < n && pe == exchange_memory::nowhere) {
      const uint64_t shown = row < ~0u ? row : ~0u;
      report_error(g, message_fault::bad_target, op::none, static_cast<uint32_t>(shown), static_cast<uint64_t>(to[row]),
                   g.n_pes);
    }
    count_peers(mine + pe * warps, pe, peers);
  });
}

/// Replaces parts[PE][warp] by the sum of those before it, and counts_to[PE] by the sum of all. A block for each PE.
template <int = 0>
__global__ void __launch_bounds__(row_lanes) sum_parts(exchange_memory m, uint64_t warps) {
  __shared__ uint64_t sums[row_lanes];
  uint64_t* const parts = m.parts + blockIdx.x * warps;
  const uint64_t each = (warps + row_lanes - 1) / row_lanes, begin = threadIdx.x * each;
  const uint64_t end = begin + each < warps ? begin + each : warps;
  uint64_t mine = 0;
  for (uint64_t i = begin; i < end; ++i) mine += parts[i];
  sums[threadIdx.x] = mine;
  __syncthreads();
  uint64_t before = 0;
  for (uint32_t i = 0; i < threadIdx.x; ++i) before += sums[i];
  if (threadIdx.x + 1 == row_lanes) m.counts_to[blockIdx.x] = before + mine;
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t here = parts[i];
    parts[i] = before;
    before += here;
  }
}

/// Copies the rows to `packed`, ordered by PE. Several lanes copy a row: `lanes_of_row`, a power of 2 up to 32.
template <class Unit, class Pe>
__global__ void __launch_bounds__(row_lanes) pack_rows(gravel_t g, exchange_memory m, Unit* packed, const Unit* rows,
                                                       const Pe* to, uint64_t n, uint64_t part, uint32_t lanes_of_row) {
  const uint64_t warps = uint64_t{gridDim.x} * warps_of_rows, units = m.row_bytes / sizeof(Unit);
  uint64_t* const mine = m.parts + uint64_t{blockIdx.x} * warps_of_rows + threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32, rows_at_once = 32 / lanes_of_row;
  for_rows_of_warp(g, to, n, part, [&](uint64_t row, uint32_t pe, uint32_t peers) {
    constexpr unsigned long long no_place = ~0ull;
    unsigned long long place = no_place;
    if (pe != exchange_memory::nowhere)
      place = m.runs[pe].from + mine[pe * warps] + static_cast<uint64_t>(__popc(peers & ((1u << lane) - 1)));
    count_peers(mine + pe * warps, pe, peers);
    const uint64_t first = row - lane;
    for (uint32_t begin = 0; begin < 32; begin += rows_at_once) {
      const uint32_t which = begin + lane / lanes_of_row;
      const uint64_t at = __shfl_sync(~0u, place, static_cast<int>(which));
      if (at == no_place) continue;
      for (uint64_t unit = lane % lanes_of_row; unit < units; unit += lanes_of_row)
        packed[at * units + unit] = rows[(first + which) * units + unit];
    }
  });
}

}  // namespace gravel::detail
