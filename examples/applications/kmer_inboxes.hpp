// Counting k-mers where all PEs have each other's memory mapped: those of other PEs go into inboxes there, one for each
// sender, and their owner counts them behind a rendezvous. Who writes into an inbox hands out its places, so no word is
// changed from afar.
//
// A block gathers some k-mers of each of its lanes, orders them by owner in shared memory, and takes places for all of
// an owner at once. Lanes beside each other then store beside each other, and all lanes that count do so together. If
// each lane did at once what is to be done with its k-mer, in a warp those that count and those that send would wait
// for each other: each step would take as long as both.
#pragma once
#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include <gravel/mapped_sender.cuh>
#include "bench/rivals/model.hpp"
#include "examples/applications/kmer_reader.hpp"
#include "examples/applications/kmer_table.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/together.hpp"

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::kmer_shape;
using gravel::lane_group;
using gravel::launch_alone;
using gravel::mapped_sender;
using gravel::scope;

/// K-mers of a lane that its block sends together.
constexpr unsigned kmers_of_turn = 8;
/// Places of the reads in a row that a lane looks at.
constexpr uint64_t inbox_stretch = 64;
/// Of all inboxes of a PE together.
constexpr uint64_t inbox_bytes = GRAVEL_CUDA ? 256 << 20 : 1 << 18;

struct kmer_inboxes {
  uint64_t* kmers;   ///< symmetric: [sender][room]
  uint8_t* around;   ///< symmetric, the same: what stands before (low half) and after
  uint64_t* counts;  ///< symmetric: [sender]
  uint64_t* taken;   ///< [owner]: of this PE's inbox there
  uint64_t room;

  /// A PE has none of its own: its inboxes are those of the PEs behind it, in turn.
  GRAVEL_BOTH static uint32_t number(uint32_t sender, uint32_t owner, uint32_t n_pes) {
    return (sender + n_pes - owner - 1) % n_pes;
  }
};

/// K-mers of a block, in shared memory.
struct kmer_batch {
  static constexpr unsigned room = kmers_of_turn * lanes_of_block;
  static constexpr uint32_t most_pes = lanes_of_block;  ///< a lane adds up the k-mers of each
  uint32_t count[most_pes];                             ///< by owner
  uint32_t first[most_pes + 1];                         ///< where each one's begin in `kmers`
  uint64_t place[most_pes];                             ///< where they go in the inbox there
  uint64_t kmers[room];
  uint8_t around[room];
};
static_assert(kmer_batch::most_pes <= 256);  // an owner has eight bits in send_to_inboxes

/// Of stretches first ... first + count.
static __global__ void send_to_inboxes(gravel_t g, table_part own, kmer_inboxes boxes, kmer_shape shape,
                                       const uint8_t* codes, uint64_t size, uint64_t first, uint64_t count) {
  __shared__ mapped_sender others;
  __shared__ kmer_batch batch;
  others.begin(g);
  const uint32_t lane = threadIdx.x;
  if (lane < g.n_pes) batch.count[lane] = 0;
  __syncthreads();
  for (uint64_t of_block = uint64_t{blockIdx.x} * blockDim.x; of_block < count;
       of_block += uint64_t{gridDim.x} * blockDim.x) {
    const uint64_t begin = (first + of_block + lane) * inbox_stretch;
    kmer_reader reader(shape, codes, size, begin, of_block + lane < count ? begin + inbox_stretch : begin);
    for (uint64_t turn = 0; turn < inbox_stretch; turn += kmers_of_turn) {
      read_kmer mine[kmers_of_turn];
      uint32_t where[kmers_of_turn];  // owner, and above it the place among its k-mers; none: nothing
      constexpr uint32_t none = ~0u;
      GRAVEL_UNROLL
      for (unsigned j = 0; j < kmers_of_turn; ++j) {
        where[j] = none;
        if (!reader.next(mine[j])) continue;
        const auto owner = static_cast<uint32_t>(kmer_table::owner(mine[j].kmer, g.n_pes));
        const lane_group all = lane_group::active(), group = all.part(all.match(owner));
        uint32_t at = 0;
        if (group.is_leader()) at = gravel::detail::block_add_relaxed(&batch.count[owner], group.size());
        where[j] = owner | (group.from_leader(at) + group.rank()) << 8;
      }
      __syncthreads();
      if (lane < g.n_pes) {
        uint32_t before = 0;
        for (uint32_t pe = 0; pe < lane; ++pe) before += batch.count[pe];
        const uint32_t here = batch.count[lane];
        batch.first[lane] = before;
        if (lane + 1 == g.n_pes) batch.first[g.n_pes] = before + here;
        if (lane != g.my_pe && here) batch.place[lane] = fetch_add<scope::device>(&boxes.taken[lane], uint64_t{here});
      }
      __syncthreads();
      if (lane < g.n_pes) batch.count[lane] = 0;
      GRAVEL_UNROLL
      for (unsigned j = 0; j < kmers_of_turn; ++j) {
        if (where[j] == none) continue;
        const uint32_t at = batch.first[where[j] & 255] + (where[j] >> 8);
        batch.kmers[at] = mine[j].kmer;
        batch.around[at] = static_cast<uint8_t>(mine[j].before | mine[j].after << 4);
      }
      __syncthreads();
      uint32_t pe = 0;
      for (uint32_t i = lane; i < batch.first[g.n_pes]; i += blockDim.x) {
        while (i >= batch.first[pe + 1]) ++pe;
        if (pe == g.my_pe) {
          own.count_one(batch.kmers[i], batch.around[i] & 15, batch.around[i] >> 4);
          continue;
        }
        const uint64_t at =
            kmer_inboxes::number(g.my_pe, pe, g.n_pes) * boxes.room + batch.place[pe] + i - batch.first[pe];
        others.put(&boxes.kmers[at], batch.kmers[i], static_cast<int>(pe));
        others.put(&boxes.around[at], batch.around[i], static_cast<int>(pe));
      }
    }
  }
}

/// Stores at the owners how much this PE has put into their inboxes. One block.
static __global__ void notify_owners(gravel_t g, kmer_inboxes boxes) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += blockDim.x) {
    if (pe != g.my_pe)
      others.put(&boxes.counts[kmer_inboxes::number(g.my_pe, pe, g.n_pes)], boxes.taken[pe], static_cast<int>(pe));
    boxes.taken[pe] = 0;
  }
}

static __global__ void count_inboxes(kmer_inboxes boxes, table_part own, uint32_t n_boxes) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint32_t box = 0; box < n_boxes; ++box)
    for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < boxes.counts[box]; i += lanes) {
      const uint64_t at = box * boxes.room + i;
      own.count_one(boxes.kmers[at], boxes.around[at] & 15, boxes.around[at] >> 4);
    }
}

/// Counts the k-mers of `codes`. As many of the reads at a time as fit an inbox, should all k-mers go to one.
/// Collective.
inline void count_by_inboxes(const kmer_shape& shape, const uint8_t* codes, uint64_t size, network_model& net,
                             const table_part& own) {
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), n_boxes = n_pes - 1;
  const uint64_t stretches = inbox_bytes / 9 / n_boxes / inbox_stretch, room = stretches * inbox_stretch;
  device_array<uint64_t> taken(std::vector<uint64_t>(n_pes, 0));
  const kmer_inboxes boxes{gravel_malloc<uint64_t>(n_boxes * room * sizeof(uint64_t)),
                           gravel_malloc<uint8_t>(n_boxes * room), gravel_malloc<uint64_t>(n_boxes * sizeof(uint64_t)),
                           taken.data(), room};
  const uint64_t rounds = gravel_max_all((size + room - 1) / room);
  progress report("phase 1", gravel_my_pe() == 0);
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint64_t left = size > round * room ? (size - round * room + inbox_stretch - 1) / inbox_stretch : 0,
                   count = std::min(left, stretches);
    launch_alone(send_to_inboxes, {.grid = static_cast<unsigned>(count / lanes_of_block + 1), .block = lanes_of_block},
                 gravel_handle(), own, boxes, shape, codes, size, round * stretches, count);
    launch_alone(notify_owners, {.grid = 1, .block = 32}, gravel_handle(), boxes);
    net.rendezvous().round();  // all has come
    launch_alone(count_inboxes, {.grid = 8 * blocks_to_fill_device(), .block = lanes_of_block}, boxes, own, n_boxes);
    net.rendezvous().round();  // all have read their inboxes
    report.at(round + 1, rounds);
  }
  gravel_barrier_all();
  gravel_free(boxes.counts);
  gravel_free(boxes.around);
  gravel_free(boxes.kmers);
}

}  // namespace app
