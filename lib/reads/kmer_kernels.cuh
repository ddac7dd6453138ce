// Kernels that count the k-mers of reads.
//
// Problem. A k-mer that is counted in a table of all k-mers costs a random access to device memory, and a message if
// the table is another PE's.
//
// Solution. Neighbouring k-mers of a read that have the same minimizer form a super-k-mer. It goes to the PE that owns
// the minimizer, into one of many lists. All k-mers of a minimizer are in one list. A list is so short that its
// different k-mers fit a table in the shared memory of a block.
//
// Protocol of a round, all in the stream of each PE:
//
//   kernel               what it does
//   count_super_kmers    counts the super-k-mers of each bin: of all reads of the round, or of a sample of them
//   deal_super_kmers     stores super-k-mers into bins at their owners
//   notify_bin_owners    stores at each owner where its bins begin, and how many super-k-mers they have
//   wait_for_others      rendezvous: all super-k-mers have come
//   count_list_sizes     counts the super-k-mers of each list of a bin
//   place_lists          decides where each list begins
//   fill_lists           deals bins to lists
//   wait_for_others      rendezvous: all have read their bins
//
// Where memory of other PEs is not mapped, send_super_kmers and a handler do what deal_super_kmers does. After the last
// round, count_lists counts the k-mers of each list.
//
// Invariants.
// - Nothing is lost. A bin has as much room as a sample says, and deal_super_kmers counts beyond the room. If a bin was
//   too small, the host repeats the kernel with rooms that are known to suffice, or with fewer reads. Lists have exact
//   sizes.
// - A k-mer is counted in one pass over one list: in all its super-k-mers it has the same minimizer.
// - If a list has more different k-mers than the table has room for, the pass is given up and divided into two by a bit
//   of the k-mer's hash. The hash is a bijection, so divided passes become small enough.
#pragma once
#include "host/mapped_sender.cuh"
#include "lib/reads/super_kmer.cuh"
#include "lib/table/map_kernels.cuh"
#include "lib/table/map_tile.cuh"

namespace gravel::detail {

/// Shapes of the kernels.
struct kmer_kernel_shape {
  static constexpr uint32_t lanes = GRAVEL_CUDA ? 512 : 64;        ///< of a block that deals
  static constexpr uint32_t send_lanes = GRAVEL_CUDA ? 128 : 64;   ///< of a block that sends
  static constexpr uint32_t rows = GRAVEL_CUDA ? 8 : 4;            ///< a warp looks at so many times 32 bases at once
  static constexpr uint32_t positions = lanes * rows;              ///< of a block at once
  static constexpr uint32_t most_places = GRAVEL_CUDA ? 512 : 16;  ///< bins of all PEs
  static constexpr uint32_t most_list_bits = GRAVEL_CUDA ? 8 : 4;  ///< logarithm of the lists of a bin
  static constexpr uint32_t most_lists = 1u << most_list_bits;
  static constexpr uint32_t count_lanes = GRAVEL_CUDA ? 256 : 64;  ///< of a block that counts a list
  static constexpr uint32_t scan_lanes = GRAVEL_CUDA ? 1024 : 64;  ///< of the block that places lists
};
static_assert(kmer_kernel_shape::rows * 32 <= 256);  // kmer_rows::place has 8 bits
static_assert(kmer_kernel_shape::most_list_bits <= super_kmer::most_list_bits);
using super_kmer_tile = map_tile<super_kmer, kmer_kernel_shape::lanes>;

/// Bins and lists, and their memory. Plain data; the layout is the same at all PEs. A place is a bin of a PE.
struct kmer_lists {
  minimizer_shape shape;
  uint32_t n_pes, bin_bits, list_bits;  ///< logarithms: of the bins of a PE, of the lists of a bin
  uint32_t sources;                     ///< regions of an inbox: one for each PE that deals, or one for all of them
  uint64_t region;                      ///< super-k-mers for which a region has room
  super_kmer* inbox;                    ///< symmetric [source][region], if memory is mapped
  uint32_t* begins;                     ///< [place]: where a bin begins in this PE's region at its owner
  uint32_t* rooms;                      ///< [place]: super-k-mers of a bin
  uint32_t* tails;                      ///< [place]: super-k-mers that this PE has for the bin, even beyond the room
  uint32_t* arrived_begins;             ///< symmetric [source][bin]: as begins, of this PE's bins
  uint32_t* arrived;                    ///< symmetric [source][bin]: super-k-mers that have come

  GRAVEL_BOTH uint32_t bins() const { return 1u << bin_bits; }
  GRAVEL_BOTH uint32_t places() const { return n_pes << bin_bits; }
  GRAVEL_BOTH uint32_t lists() const { return 1u << (bin_bits + list_bits); }
};

/// Bases of a warp, in words of 32 bases with one word before them; and its super-k-mers.
struct kmer_rows {
  static constexpr uint32_t rows = kmer_kernel_shape::rows, first = 1, words = first + rows + 2;
  uint32_t low[words], high[words];  ///< planes
  uint32_t gap[words];               ///< no base
  uint32_t edge[words];              ///< a super-k-mer cannot go on: the next one begins, or a gap comes
  uint32_t minimizer[rows * 32];     ///< of each super-k-mer
  uint8_t place[rows * 32];          ///< of its first base

  /// Returns 64 bits from bit `lane` of word `at` on.
  GRAVEL_DEVICE static uint64_t bits_from(const uint32_t* word, uint32_t at, uint32_t lane) {
    const uint64_t two = uint64_t{word[at + 1]} << 32 | word[at];
    return two >> lane | (uint64_t{word[at + 2]} << 32 << (32 - lane));
  }
  /// Returns the bit before bit `lane` of word `at`.
  GRAVEL_DEVICE static uint32_t bit_before(const uint32_t* word, uint32_t at, uint32_t lane) {
    return lane ? word[at] >> (lane - 1) & 1 : word[at - 1] >> 31;
  }
  GRAVEL_DEVICE uint32_t code_before(uint32_t at, uint32_t lane) const {
    return bit_before(gap, at, lane) ? no_base : bit_before(low, at, lane) | bit_before(high, at, lane) << 1;
  }
};

/// Finds the super-k-mers whose first base is one of the kmer_rows::rows * 32 codes from `begin` on. No super-k-mer
/// begins before `begin` and goes on behind it. Thread scope: warp, converged.
/// @param rows in shared memory, of this warp
/// @param reserve reserve(n) is called by all lanes with the number of super-k-mers; the same result in all of them
/// @param emit emit(number, place, super-k-mer) is called in some lane for each of them, with the numbers from the
///   result of reserve on
template <class Reserve, class Emit>
GRAVEL_DEVICE void find_super_kmers(kmer_rows& rows, const kmer_lists& lists, const uint8_t* codes, uint64_t size,
                                    uint64_t begin, const Reserve& reserve, const Emit& emit) {
  constexpr uint32_t n_rows = kmer_rows::rows, first = kmer_rows::first;
  const uint32_t lane = threadIdx.x % 32, window = lists.shape.window(), k = lists.shape.k;
  uint32_t code[n_rows + 1];  // all are requested before the first one is used
  GRAVEL_UNROLL
  for (uint32_t r = 0; r <= n_rows; ++r) {
    const uint64_t at = begin + r * 32 + lane;
    code[r] = at < size ? codes[at] : no_base;
  }
  const uint32_t before = begin != 0 && begin <= size ? codes[begin - 1] : no_base;
  __syncwarp();
  GRAVEL_UNROLL
  for (uint32_t r = 0; r <= n_rows; ++r) {
    const uint32_t low = __ballot_sync(~0u, code[r] & 1), high = __ballot_sync(~0u, code[r] & 2),
                   gap = __ballot_sync(~0u, code[r] == no_base);
    if (lane != 0) continue;
    rows.low[first + r] = low;
    rows.high[first + r] = high;
    rows.gap[first + r] = gap;
  }
  if (lane == 0) {
    rows.low[0] = before << 31;
    rows.high[0] = (before & 2) << 30;
    rows.gap[0] = before == no_base ? 1u << 31 : 0;
    rows.low[first + n_rows + 1] = rows.high[first + n_rows + 1] = rows.gap[first + n_rows + 1] = 0;
    rows.edge[first + n_rows] = ~0u;
  }
  __syncwarp();
  // The minimizer of the k-mer at each place: the least hash of a window, by windows that double.
  uint32_t least[n_rows + 1];
  const auto bits = [&](const uint32_t* word, uint32_t r) {
    return static_cast<uint32_t>((uint64_t{word[first + r + 1]} << 32 | word[first + r]) >> lane);
  };
  GRAVEL_UNROLL
  for (uint32_t r = 0; r <= n_rows; ++r) least[r] = lists.shape.hash(bits(rows.low, r), bits(rows.high, r));
  const auto widen = [&](uint32_t by) {
    const auto smaller = [](uint32_t a, uint32_t b) { return a < b ? a : b; };
    GRAVEL_UNROLL
    for (uint32_t r = 0; r <= n_rows; ++r) {
      // Lanes that reach beyond the last row get a value of that row, and no window needs theirs.
      const uint32_t next = least[r < n_rows ? r + 1 : r], other = lane < by ? next : least[r];
      least[r] = smaller(least[r], __shfl_sync(~0u, other, static_cast<int>(lane + by)));
    }
  };
  uint32_t covered = 1;
  for (; 2 * covered <= window; covered *= 2) widen(covered);
  if (covered < window) widen(window - covered);
  // Where super-k-mers begin.
  const uint64_t all = (uint64_t{1} << k) - 1;
  uint32_t total = 0, valid_before = 0, since = 0;  // since: places from the last begin to the row
  GRAVEL_UNROLL
  for (uint32_t r = 0; r < n_rows; ++r) {
    const uint64_t gaps = (uint64_t{rows.gap[first + r + 1]} << 32 | rows.gap[first + r]) >> lane;
    const uint32_t valid = __ballot_sync(~0u, (gaps & all) == 0);
    const uint32_t last = least[r > 0 ? r - 1 : 0];
    const uint32_t previous = __shfl_sync(~0u, lane == 31 && r > 0 ? last : least[r], static_cast<int>(lane + 31));
    const bool is_valid = valid >> lane & 1;
    const bool follows = (valid << 1 | valid_before) >> lane & 1;
    uint32_t begins = __ballot_sync(~0u, is_valid && (!follows || previous != least[r]));
    // A super-k-mer has at most `window` k-mers.
    const uint32_t here = begins & ((2u << lane) - 1);
    const uint32_t distance = here ? lane - (31 - static_cast<uint32_t>(__clz(static_cast<int>(here)))) : since + lane;
    const bool is_cut = is_valid && distance >= window && distance % window == 0;
    since = begins ? 1 + static_cast<uint32_t>(__clz(static_cast<int>(begins))) : since + 32;
    begins |= __ballot_sync(~0u, is_cut);
    valid_before = valid >> 31;
    if (begins >> lane & 1) {
      const uint32_t number = total + static_cast<uint32_t>(__popc(begins & ((1u << lane) - 1)));
      rows.minimizer[number] = least[r];
      rows.place[number] = static_cast<uint8_t>(r * 32 + lane);
    }
    total += static_cast<uint32_t>(__popc(begins));
    if (lane == 0) rows.edge[first + r] = begins | ~valid;
  }
  __syncwarp();
  if (total == 0) return;
  // Few lanes have begins in one row. So lanes take super-k-mers of all rows.
  const uint32_t number = reserve(total);
  for (uint32_t i = lane; i < total; i += 32) {
    const uint32_t bit = rows.place[i] % 32, word = first + rows.place[i] / 32;
    const uint64_t edges = (uint64_t{rows.edge[word + 1]} << 32 | rows.edge[word]) >> bit;
    const auto kmers = static_cast<uint32_t>(__ffsll(static_cast<long long>(edges >> 1)));
    const uint64_t low = kmer_rows::bits_from(rows.low, word, bit), high = kmer_rows::bits_from(rows.high, word, bit),
                   gap = kmer_rows::bits_from(rows.gap, word, bit);
    const uint32_t bases = kmers + k - 1;
    const uint32_t next = (static_cast<uint32_t>(low >> bases) & 1) | (static_cast<uint32_t>(high >> bases) & 1) << 1;
    const uint32_t after = gap >> bases & 1 ? no_base : next;
    const minimizer_place to = minimizer_place::of(rows.minimizer[i], lists.n_pes, lists.bin_bits, lists.list_bits);
    const uint32_t place = to.pe << lists.bin_bits | to.bin;
    emit(number + i, place,
         super_kmer::make(low, high, bases, kmers, rows.code_before(word, bit), after, place, to.list));
  }
}

template <int = 0>
__global__ void __launch_bounds__(map_lanes) clear_words(uint32_t* words, uint64_t count) {
  each_of_lane(count, [&](uint64_t i) { words[i] = 0; });
}

/// Counts the super-k-mers of each bin in `tiles` tiles from `begin` on, of which it looks at each step-th.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::lanes, 2)
    count_super_kmers(const __grid_constant__ kmer_lists lists, const uint8_t* codes, uint64_t size, uint64_t begin,
                      uint64_t tiles, uint64_t step) {
  using shape = kmer_kernel_shape;
  __shared__ kmer_rows rows[shape::lanes / 32];
  __shared__ uint32_t counts[super_kmer::most_bins];
  for (uint32_t place = threadIdx.x; place < lists.places(); place += shape::lanes) counts[place] = 0;
  __syncthreads();
  for (uint64_t tile = blockIdx.x * step; tile < tiles; tile += gridDim.x * step)
    find_super_kmers(
        rows[threadIdx.x / 32], lists, codes, size,
        begin + tile * shape::positions + threadIdx.x / 32 * (shape::rows * 32), [](uint32_t) { return 0u; },
        [&](uint32_t, uint32_t place, const super_kmer&) { fetch_add<scope::shared>(&counts[place], 1u); });
  __syncthreads();
  for (uint32_t place = threadIdx.x; place < lists.places(); place += shape::lanes)
    if (counts[place] != 0) fetch_add<scope::device>(&lists.tails[place], counts[place]);
}

/// Stores super-k-mers into the bins of their owners. A block collects them in shared memory, until a tile is full.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::lanes, 2)
    deal_super_kmers(const __grid_constant__ gravel_t g, const __grid_constant__ kmer_lists lists, const uint8_t* codes,
                     uint64_t size, uint64_t begin, uint64_t tiles) {
  using shape = kmer_kernel_shape;
  using tile_type = super_kmer_tile;
  constexpr uint32_t room = tile_type::room;
  static_assert(tile_type::items == room);
  __shared__ kmer_rows rows[shape::lanes / 32];
  __shared__ mapped_sender others;
  __shared__ uint32_t collected;
  const tile_type dealer(gravel_dynamic_shared(), lists.places());
  // The dealer writes its items when each lane has read its own, so they may lie at the same addresses.
  auto* const collection = reinterpret_cast<super_kmer*>(gravel_dynamic_shared());
  if (threadIdx.x == 0) collected = 0;
  others.begin(g);
  const auto list_of = [&](uint32_t place) {
    super_kmer* const region = lists.inbox + uint64_t{g.my_pe} * lists.region;
    return others.at(region + lists.begins[place], static_cast<int>(place >> lists.bin_bits));
  };
  const auto room_of = [&](uint32_t place) { return lists.rooms[place]; };
  uint32_t before = 0, rounds = 1;  // the warps come together after so many rounds
  for (uint64_t tile = blockIdx.x; tile < tiles;) {
    for (uint32_t round = 0; round < rounds && tile < tiles; ++round, tile += gridDim.x)
      find_super_kmers(
          rows[threadIdx.x / 32], lists, codes, size,
          begin + tile * shape::positions + threadIdx.x / 32 * (shape::rows * 32),
          [&](uint32_t n) {
            uint32_t at = 0;
            if (threadIdx.x % 32 == 0) at = fetch_add<scope::shared>(&collected, n);
            return __shfl_sync(~0u, at, 0);
          },
          [&](uint32_t number, uint32_t place, const super_kmer& item) {
            if (number < room) {
              collection[number] = item;
              return;
            }
            const uint32_t at = fetch_add<scope::device>(&lists.tails[place], 1u);
            if (at < room_of(place)) list_of(place)[at] = item;
          });
    __syncthreads();
    const uint32_t now = collected, of_round = (now - before) / rounds + 1;
    __syncthreads();
    const uint32_t left = now < room ? room - now : 0;
    rounds = left / 5 * 4 / of_round;
    before = now;
    if (rounds != 0 && tile < tiles) continue;
    rounds = room / 5 * 4 / of_round;
    if (rounds == 0) rounds = 1;
    before = 0;
    if (threadIdx.x == 0) collected = 0;
    super_kmer mine[tile_type::per_lane];
    uint32_t place[tile_type::per_lane];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < tile_type::per_lane; ++i) {
      const uint32_t at = i * shape::lanes + threadIdx.x;
      place[i] = tile_type::none;
      if (at >= now) continue;
      mine[i] = collection[at];
      place[i] = mine[i].bin();
    }
    dealer.deal(mine, place, lists.tails, room_of, list_of, [](uint32_t, const super_kmer&) {});
  }
}

/// Stores at each owner where this PE's bins begin there, and how many super-k-mers they have.
template <int = 0>
__global__ void __launch_bounds__(map_lanes)
    notify_bin_owners(const __grid_constant__ gravel_t g, const __grid_constant__ kmer_lists lists) {
  __shared__ mapped_sender others;
  others.begin(g);
  each_of_lane(lists.places(), [&](uint64_t place) {
    const auto pe = static_cast<int>(place >> lists.bin_bits);
    const uint64_t at = (uint64_t{g.my_pe} << lists.bin_bits) + (place & (lists.bins() - 1));
    others.put(&lists.arrived_begins[at], lists.begins[place], pe);
    others.put(&lists.arrived[at], lists.tails[place], pe);
  });
}

/// Takes super-k-mers of PEs whose memory is not mapped: into the only region, which has exact rooms.
struct take_super_kmer {
  static constexpr const char* name = "gravel_take_super_kmer";
  using context = kmer_lists;
  GRAVEL_DEVICE void operator()(const gravel_t&, kmer_lists* mine, uint64_t low, uint64_t high) const {
    const super_kmer item{low, high};
    const uint32_t bin = item.bin() & (mine->bins() - 1);
    const uint32_t at = fetch_add<scope::device>(&mine->arrived[bin], 1u);
    mine->inbox[mine->arrived_begins[bin] + at] = item;
  }
};

/// Sends super-k-mers to their owners.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::send_lanes)
    send_super_kmers(gravel_t g, kmer_lists lists, const uint8_t* codes, uint64_t size, uint64_t begin,
                     uint64_t tiles) {
  using shape = kmer_kernel_shape;
  constexpr uint32_t warps = shape::send_lanes / 32, of_warp = shape::rows * 32;
  __shared__ gravel_block_sender<shape::send_lanes> sender;
  __shared__ kmer_rows rows[warps];
  sender.begin(g);
  const uint64_t pieces = tiles * (shape::positions / of_warp);
  for (uint64_t piece = blockIdx.x * warps + threadIdx.x / 32; piece < pieces; piece += gridDim.x * warps)
    find_super_kmers(
        rows[threadIdx.x / 32], lists, codes, size, begin + piece * of_warp, [](uint32_t) { return 0u; },
        [&](uint32_t, uint32_t place, const super_kmer& item) {
          sender.template am<take_super_kmer>(static_cast<int>(place >> lists.bin_bits), item.low, item.high);
        });
  sender.end();
}

/// Calls work(bin, items, count) for pieces of the bins, each of up to super_kmer_tile::items.
/// @param most items of the largest bin of a source
template <class Work>
GRAVEL_DEVICE void each_piece_of_bins(const kmer_lists& lists, uint32_t most, const Work& work) {
  constexpr uint32_t piece = super_kmer_tile::items;
  const uint32_t bins = lists.sources << lists.bin_bits;
  const uint64_t pieces = (uint64_t{most} + piece - 1) / piece * bins;
  for (uint64_t number = blockIdx.x; number < pieces; number += gridDim.x) {
    const auto which = static_cast<uint32_t>(number % bins);
    const uint64_t first = number / bins * piece, size = lists.arrived[which];
    if (first >= size) continue;
    const super_kmer* const items =
        lists.inbox + (which >> lists.bin_bits) * lists.region + lists.arrived_begins[which] + first;
    work(which & (lists.bins() - 1), items, static_cast<uint32_t>(size - first < piece ? size - first : piece));
  }
}

/// Counts the super-k-mers of each list.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::lanes)
    count_list_sizes(const __grid_constant__ kmer_lists lists, uint32_t most, uint32_t* sizes) {
  using shape = kmer_kernel_shape;
  __shared__ uint32_t counts[shape::most_lists];
  each_piece_of_bins(lists, most, [&](uint32_t bin, const super_kmer* items, uint32_t count) {
    for (uint32_t l = threadIdx.x; l < shape::most_lists; l += shape::lanes) counts[l] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += shape::lanes) fetch_add<scope::shared>(&counts[items[i].list()], 1u);
    __syncthreads();
    for (uint32_t l = threadIdx.x; l >> lists.list_bits == 0; l += shape::lanes)
      if (counts[l] != 0) fetch_add<scope::device>(&sizes[bin << lists.list_bits | l], counts[l]);
    __syncthreads();
  });
}

/// Replaces the sizes of lists by their first places. One block.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::scan_lanes) place_lists(uint32_t* sizes, uint32_t count) {
  constexpr uint32_t lanes = kmer_kernel_shape::scan_lanes;
  __shared__ uint32_t sums[lanes];
  const uint32_t stretch = (count + lanes - 1) / lanes;
  const uint32_t begin = threadIdx.x * stretch < count ? threadIdx.x * stretch : count;
  const uint32_t end = begin + stretch < count ? begin + stretch : count;
  uint32_t mine = 0;
  for (uint32_t i = begin; i < end; ++i) mine += sizes[i];
  sums[threadIdx.x] = mine;
  for (uint32_t step = 1; step < lanes; step *= 2) {
    __syncthreads();
    const uint32_t other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
  }
  uint32_t next = sums[threadIdx.x] - mine;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t size = sizes[i];
    sizes[i] = next;
    next += size;
  }
}

/// Deals the super-k-mers of bins to lists. Afterwards ends[list] is the place behind the list.
template <int = 0>
__global__ void __launch_bounds__(kmer_kernel_shape::lanes, 2)
    fill_lists(const __grid_constant__ kmer_lists lists, uint32_t most, super_kmer* to, uint32_t* ends) {
  using tile_type = super_kmer_tile;
  const tile_type dealer(gravel_dynamic_shared(), 1u << lists.list_bits);
  each_piece_of_bins(lists, most, [&](uint32_t bin, const super_kmer* items, uint32_t count) {
    super_kmer mine[tile_type::per_lane];
    uint32_t list[tile_type::per_lane];
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < tile_type::per_lane; ++i) {
      const uint32_t at = i * tile_type::lanes + threadIdx.x;
      list[i] = tile_type::none;
      if (at >= count) continue;
      mine[i] = items[at];
      list[i] = mine[i].list();
    }
    // Places count from the begin of the memory, which has room for all.
    dealer.deal(
        mine, list, ends + (bin << lists.list_bits), ~0u, [&](uint32_t) { return to; },
        [](uint32_t, const super_kmer&) {});
  });
}

/// The lists of a round.
struct kmer_round {
  const super_kmer* items;
  const uint32_t* ends;  ///< [list]: the place behind the list; it begins where the one before ends
};

/// Where the result goes. What finds no room is only counted in `size`.
struct kmer_result {
  uint64_t* kmers;  ///< canonical
  uint32_t* counts;
  uint64_t *before, *after;  ///< four counters of 16 bits of the bases beside the canonical form, or nullptr
  uint64_t* size;
  uint64_t room;
  uint32_t* too_long;  ///< becomes 1 if a list has so many k-mers that a count may not fit 32 bits
};

/// A table of k-mers in shared memory.
template <bool NEIGHBOURS>
struct kmer_slots {
  static constexpr uint64_t free = ~uint64_t{0};  ///< no k-mer: planes have 31 bits at most
  uint32_t bits;   ///< logarithm of the slots; may become smaller while the table is not in use
  uint64_t* keys;  ///< planes of the smaller form
  uint32_t* counts;
  uint32_t* adjacent;  ///< [side][base / 2][slot]: two counters of 16 bits

  static constexpr uint64_t bytes(uint32_t log2) { return (NEIGHBOURS ? 28 : 12) << log2; }
  GRAVEL_DEVICE kmer_slots(char* shared, uint32_t log2)
      : bits(log2),
        keys(reinterpret_cast<uint64_t*>(shared)),
        counts(reinterpret_cast<uint32_t*>(keys + (1u << log2))),
        adjacent(counts + (1u << log2)) {}
  GRAVEL_DEVICE uint32_t size() const { return 1u << bits; }
  /// Thread scope: block.
  GRAVEL_DEVICE void clear() const {
    for (uint32_t i = threadIdx.x; i < size(); i += blockDim.x) keys[i] = free;
    for (uint32_t i = threadIdx.x; i < size(); i += blockDim.x) counts[i] = 0;
    if constexpr (NEIGHBOURS)
      for (uint32_t i = threadIdx.x; i < 4 * size(); i += blockDim.x) adjacent[i] = 0;
  }
  /// Finds or makes the slot of a key; size(): there is none. `overflows` becomes 1 if the table is too crowded.
  GRAVEL_DEVICE uint32_t find(uint64_t key, uint64_t hash, uint32_t* distinct, uint32_t* overflows) const {
    auto slot = static_cast<uint32_t>(hash >> (64 - bits));
    for (uint32_t probe = 0; probe < size(); ++probe) {
      uint64_t here = load_relaxed<scope::shared>(&keys[slot]);
      if (here == free) {
        here = swap_acquire<scope::shared>(&keys[slot], uint64_t{free}, key);
        if (here == free) {
          if (fetch_add<scope::shared>(distinct, 1u) >= size() / 8 * 7) store_relaxed<scope::shared>(overflows, 1u);
          return slot;
        }
      }
      if (here == key) return slot;
      slot = (slot + 1) & (size() - 1);
    }
    store_relaxed<scope::shared>(overflows, 1u);
    return size();
  }
  /// Counts a base beside the k-mer of a slot. If counters may come to 65535, they stop there.
  GRAVEL_DEVICE void add_neighbour(uint32_t slot, uint32_t side, uint32_t base, bool may_be_full) const {
    uint32_t* const word = &adjacent[(side << 1 | base >> 1) << bits | slot];
    const uint32_t shift = 16 * (base & 1), one = 1u << shift;
    if (!may_be_full) {
      fetch_add<scope::shared>(word, one);
      return;
    }
    for (uint32_t old = load_relaxed<scope::shared>(word); (old >> shift & 0xffff) != 0xffff;) {
      const uint32_t seen = swap_acquire<scope::shared>(word, old, old + one);
      if (seen == old) break;
      old = seen;
    }
  }
  GRAVEL_DEVICE uint64_t neighbours(uint32_t slot, uint32_t side) const {
    return uint64_t{adjacent[(side << 1 | 1) << bits | slot]} << 32 | adjacent[side << 1 << bits | slot];
  }
};

/// Calls work(super-k-mer, number) for each k-mer of the super-k-mers that the lanes have, evenly by all lanes. Thread
/// scope: warp, converged.
/// @param n k-mers of `mine`; 0 in lanes that have none, which are behind the others
template <class Work>
GRAVEL_DEVICE void each_kmer_of_warp(const super_kmer& mine, uint32_t n, const Work& work) {
  const uint32_t lane = threadIdx.x % 32, not_above = (2u << lane) - 1;
  uint32_t sum = n;
  GRAVEL_UNROLL
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  const uint32_t begin = sum - n, total = __shfl_sync(~0u, sum, 31);
  uint32_t passed = 0;  // super-k-mers that begin before the next 32 k-mers
  for (uint32_t first = 0; first < total; first += 32) {
    const bool begins_here = n != 0 && begin / 32 == first / 32;
    const uint32_t begins = __reduce_or_sync(~0u, begins_here ? 1u << begin % 32 : 0u);
    const uint32_t source = passed + static_cast<uint32_t>(__popc(begins & not_above)) - 1;
    passed += static_cast<uint32_t>(__popc(begins));
    const auto from = static_cast<int>(source);
    const uint32_t its_begin = __shfl_sync(~0u, begin, from);
    const super_kmer item{__shfl_sync(~0u, mine.low, from), __shfl_sync(~0u, mine.high, from)};
    if (first + lane < total) work(item, first + lane - its_begin);
  }
}

/// Counts the k-mers of lists: a block takes one list after the other.
template <bool NEIGHBOURS>
__global__ void __launch_bounds__(kmer_kernel_shape::count_lanes, 4)
    count_lists(const __grid_constant__ kmer_lists lists, const kmer_round* rounds, uint32_t n_rounds,
                uint32_t slot_bits, const __grid_constant__ kmer_result result, uint32_t* next_list) {
  constexpr uint32_t lanes = kmer_kernel_shape::count_lanes, warps = lanes / 32;
  __shared__ uint32_t list, overflows, distinct, written;
  __shared__ uint64_t place;
  constexpr uint32_t least_slot_bits = GRAVEL_CUDA ? 8 : 5;
  kmer_slots<NEIGHBOURS> table(gravel_dynamic_shared(), slot_bits);
  const uint32_t lane = threadIdx.x % 32, k = lists.shape.k, mask = static_cast<uint32_t>((uint64_t{1} << k) - 1);
  uint64_t last_distinct = 0, last_records = 1;  // of the last list
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) list = fetch_add<scope::device>(next_list, 1u);
    __syncthreads();
    const uint32_t number = list;
    if (number >= lists.lists()) return;
    const auto begin_of = [&](const kmer_round& round) { return number ? round.ends[number - 1] : 0; };
    uint64_t records = 0;
    for (uint32_t r = 0; r < n_rounds; ++r) records += rounds[r].ends[number] - begin_of(rounds[r]);
    if (records == 0) continue;
    if (records * lists.shape.window() > ~uint32_t{0}) *result.too_long = 1;
    const bool may_be_full = records * lists.shape.window() >= 0xffff;
    // A pass counts the k-mers whose hash has `bits` first bits that are `pass`. A list like the last one has as many
    // different k-mers. A pass that is given up has read little of the list, so to divide too late costs little. A
    // small table takes less time to clear and to read.
    const bool is_alike = records / 2 <= last_records;
    const uint64_t expected = is_alike ? records * last_distinct / last_records : 0;
    uint32_t least_bits = 0;
    while (expected >> least_bits > (3u << slot_bits) / 4) ++least_bits;
    table.bits = slot_bits;
    while (expected != 0 && table.bits > least_slot_bits && expected * 4 < table.size() / 2) --table.bits;
    uint64_t found = 0, pass = 0;
    for (uint32_t bits = least_bits; pass >> bits == 0;) {
      table.clear();
      if (threadIdx.x == 0) {
        overflows = 0;
        distinct = 0;
        written = 0;
      }
      __syncthreads();
      for (uint32_t r = 0; r < n_rounds; ++r) {
        const uint32_t end = rounds[r].ends[number];
        // Each warp takes a share of the list, and requests its next super-k-mers before it counts the last ones.
        const uint32_t begin = begin_of(rounds[r]), share = (end - begin + warps - 1) / warps;
        const uint32_t from = begin + threadIdx.x / 32 * share, behind = from + share < end ? from + share : end;
        const super_kmer* const items = rounds[r].items;
        const auto item_at = [&](uint32_t i) { return i < behind ? items[i] : super_kmer{0, 0}; };
        super_kmer next = item_at(from + lane);
        for (uint32_t first = from; first < behind; first += 32) {
          if (__shfl_sync(~0u, load_relaxed<scope::shared>(&overflows), 0)) break;
          const bool has = first + lane < behind;
          const super_kmer mine = next;
          next = item_at(first + 32 + lane);
          each_kmer_of_warp(mine, has ? mine.kmers() : 0, [&](const super_kmer& item, uint32_t i) {
            const base_planes here{static_cast<uint32_t>(item.low >> i) & mask,
                                   static_cast<uint32_t>(item.high >> i) & mask},
                back = here.reverse_complement(k);
            const bool turned = back.word() < here.word();
            const uint64_t key = turned ? back.word() : here.word(), hash = key * 0x9e3779b97f4a7c15u;
            if (bits != 0 && hash >> (64 - bits) != pass) return;
            const uint32_t slot = table.find(key, hash << bits, &distinct, &overflows);
            if (slot == table.size()) return;
            fetch_add<scope::shared>(&table.counts[slot], 1u);
            if constexpr (NEIGHBOURS) {
              const uint32_t before = i != 0 ? item.base(i - 1) : item.before(),
                             after = i + 1 < item.kmers() ? item.base(i + k) : item.after();
              const uint32_t flip = turned ? 3 : 0;
              if (before != no_base) table.add_neighbour(slot, turned, before ^ flip, may_be_full);
              if (after != no_base) table.add_neighbour(slot, !turned, after ^ flip, may_be_full);
            }
          });
        }
      }
      __syncthreads();
      const bool is_too_much = overflows != 0;
      const uint32_t here = distinct;
      if (!is_too_much && threadIdx.x == 0) place = fetch_add<scope::device>(result.size, uint64_t{here});
      __syncthreads();
      if (is_too_much && table.bits < slot_bits) {
        table.bits = slot_bits;
        continue;
      }
      if (is_too_much) {
        ++bits;
        pass *= 2;
        continue;
      }
      for (uint32_t slot = threadIdx.x; slot < table.size(); slot += lanes) {
        const uint64_t key = table.keys[slot];
        const uint32_t used = __ballot_sync(~0u, key != table.free);
        uint32_t at = 0;
        if (lane == 0 && used != 0) at = fetch_add<scope::shared>(&written, static_cast<uint32_t>(__popc(used)));
        at = __shfl_sync(~0u, at, 0) + static_cast<uint32_t>(__popc(used & ((1u << lane) - 1)));
        const uint64_t to = place + at;
        if (key == table.free || to >= result.room) continue;
        // A k-mer has its first base in the highest bits: its bits are those of reversed planes. The planes of the
        // reverse complement are reversed, and complemented. The first base that differs says which form is smaller.
        const base_planes form{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
            other = form.reverse_complement(k);
        const uint32_t low = form.low ^ other.low, high = form.high ^ other.high,
                       first = (low | high) & (0 - (low | high));
        const bool turned = high & first ? form.high & first : form.low & first;
        const base_planes back = turned ? form : other;
        result.kmers[to] = spread_bits(~back.low & mask) | spread_bits(~back.high & mask) << 1;
        result.counts[to] = table.counts[slot];
        if constexpr (NEIGHBOURS) {
          const auto complement = [](uint64_t counts) {
            return counts << 48 | (counts & 0xffff0000u) << 16 | (counts >> 16 & 0xffff0000u) | counts >> 48;
          };
          const uint64_t before = table.neighbours(slot, 0), after = table.neighbours(slot, 1);
          result.before[to] = turned ? complement(after) : before;
          result.after[to] = turned ? complement(before) : after;
        }
      }
      found += here;
      ++pass;
      for (; bits > least_bits && pass % 2 == 0; pass /= 2) --bits;
      __syncthreads();
    }
    last_distinct = found;
    last_records = records;
  }
}

}  // namespace gravel::detail
