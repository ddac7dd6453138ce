// The kernel that sends a segment for the host: to one output, to several, to each its share, or packet by packet to
// who has room.
#pragma once
#include "lib/link/event.cuh"
#include "lib/link/packet_ring.cuh"

namespace gravel::detail {

constexpr uint32_t most_outputs = 64;

/// Which of the outputs that may be chosen get the packets of a segment.
enum class send_way : uint8_t {
  all,     ///< every one all of them
  shares,  ///< every one a share, one behind the other
  one,     ///< one all of them: that which has room first
  any      ///< each packet one: that which has room first
};

/// Of one input, in its PE's memory; written by the kernels that send for it, which come one after the other.
struct alignas(64) send_state {
  static constexpr uint32_t decisions = 8;
  uint64_t blocks_done;         ///< of the kernel that runs
  uint64_t turn;                ///< the output that is asked first
  uint64_t decided[decisions];  ///< number of the packet in the segment, + 1
  uint64_t choice[decisions];   ///< its output << 48 | its number there
  uint64_t read[decisions];     ///< blocks that have read it, of all packets here
};

/// Plain data for kernels.
struct send_end {
  gravel_t g;
  const packet_ring* rings;  ///< [n_outputs], in device memory
  uint32_t n_outputs;
  send_state* state;
};
struct send_job {
  const char* from;
  uint64_t bytes, metadata;
  uint64_t outputs;  ///< bits: those that may be chosen
  send_way way;
  bool goes_on;  ///< its last packet is not the last of a segment
  gravel_event after, done;
};

/// Of one segment, cut into packets.
struct segment_cut {
  uint64_t bytes, packet_bytes;
  GRAVEL_BOTH uint64_t packets() const { return bytes ? (bytes + packet_bytes - 1) / packet_bytes : 1; }
  GRAVEL_BOTH uint64_t begin(uint64_t packet) const { return packet * packet_bytes; }
  GRAVEL_BOTH uint64_t size(uint64_t packet) const {
    const uint64_t rest = bytes - begin(packet);
    return rest < packet_bytes ? rest : packet_bytes;
  }
};

/// What the blocks of a kernel share about its outputs.
struct send_outputs {
  uint64_t next[most_outputs];  ///< of each output: the number of the next packet there
  uint64_t chosen;              ///< of the packet at hand
};

/// Block 0 chooses an output for packet `p`, and says so to the others. Thread scope: block.
GRAVEL_DEVICE uint64_t choose_output(const send_end& e, const send_job& job, send_outputs& out, uint64_t p) {
  send_state& s = *e.state;
  const uint32_t at = static_cast<uint32_t>(p % send_state::decisions);
  __syncthreads();  // `chosen` of the packet before has been read
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) {
      uint32_t output = static_cast<uint32_t>(s.turn % e.n_outputs);
      for (watched_wait wait;;) {
        bool found = false;
        for (uint32_t i = 0; i < e.n_outputs && !found; ++i) {
          output = (output + 1) % e.n_outputs;
          found = (job.outputs >> output & 1) && has_credit(e.rings[output], out.next[output]);
        }
        if (found) break;
        wait.attentively(e.g, [&] { return wait_subject{.what = awaited::outputs, .wanted = e.n_outputs}; });
      }
      s.turn = output;
      out.chosen = uint64_t{output} << 48 | out.next[output];
      if (gridDim.x > 1) {
        const uint64_t readers = uint64_t{gridDim.x - 1} * (p / send_state::decisions);
        for (relax wait; load_acquire<scope::device>(&s.read[at]) < readers; wait.attentively()) {
        }
        store_relaxed<scope::device>(&s.choice[at], out.chosen);
        store_release<scope::device>(&s.decided[at], p + 1);  // [L7]
      }
    } else {
      for (relax wait; load_acquire<scope::device>(&s.decided[at]) != p + 1; wait.attentively()) {  // [L7]
      }
      out.chosen = load_relaxed<scope::device>(&s.choice[at]);
      fetch_add_release<scope::device>(&s.read[at], uint64_t{1});
    }
  }
  __syncthreads();
  return out.chosen;
}

/// Packet p of the segment to one output. Thread scope: block; every block of the grid does so.
template <class There>
GRAVEL_DEVICE void send_packet_to(const send_end& e, const send_job& job, uint32_t output, uint64_t number,
                                  const segment_cut& cut, uint64_t p, bool is_last) {
  const packet_ring& r = e.rings[output];
  const There there = There::of(e.g, r.destination);
  if (threadIdx.x == 0) await_credit(e.g, r, number);
  __syncthreads();
  if (gridDim.x == 1)
    put_packet(e.g, r, there, number, r.data(number), job.from + cut.begin(p), cut.size(p), is_last, job.metadata);
  else
    put_packet_part(e.g, r, there, number, job.from + cut.begin(p), cut.size(p), is_last, job.metadata, blockIdx.x,
                    gridDim.x);
}

/// Packets [begin, end) that an output gets of a segment, where that is known beforehand.
struct packet_share {
  uint64_t begin, end;
  GRAVEL_BOTH static packet_share of(const send_job& job, uint32_t output, uint32_t n_outputs, uint64_t packets) {
    if (!(job.outputs >> output & 1)) return {0, 0};
    if (job.way == send_way::all) return {0, packets};
    return {(output * packets + n_outputs - 1) / n_outputs, ((output + 1) * packets + n_outputs - 1) / n_outputs};
  }
};

/// Thread 0 of each block counts in `out` what has been sent; others read only `chosen`. Thread scope: block.
template <class There>
GRAVEL_DEVICE void send_packets(const send_end& e, const send_job& job, send_outputs& out) {
  const segment_cut cut{job.bytes, e.rings[0].packet_bytes};
  const uint64_t packets = cut.packets();
  if (job.way == send_way::any || job.way == send_way::one) {
    uint64_t chosen = 0;
    for (uint64_t p = 0; p < packets; ++p) {
      chosen = p == 0 || job.way == send_way::any ? choose_output(e, job, out, p) : chosen + 1;
      const auto output = static_cast<uint32_t>(chosen >> 48);
      // Of packets that may go to different outputs each is a segment there.
      send_packet_to<There>(e, job, output, chosen & ((1ull << 48) - 1), cut, p,
                            job.way == send_way::any || p + 1 == packets);
      if (threadIdx.x == 0) ++out.next[output];
    }
    return;
  }
  // Of several outputs each gets its packets in turn, so that none waits for another's whole share.
  for (uint64_t p = 0; p < packets; ++p)
    for (uint32_t output = 0; output < e.n_outputs; ++output) {
      const packet_share share = packet_share::of(job, output, e.n_outputs, packets);
      if (share.begin + p < share.end)
        send_packet_to<There>(e, job, output, out.next[output] + p, cut, share.begin + p,
                              share.begin + p + 1 == share.end && !job.goes_on);
    }
  __syncthreads();  // all have read `next`
  for (uint32_t output = threadIdx.x; output < e.n_outputs; output += blockDim.x) {
    const packet_share share = packet_share::of(job, output, e.n_outputs, packets);
    out.next[output] += share.end - share.begin;
  }
}

/// A grid of any number of blocks, cooperative if there are several. Kernels of one input follow each other. There:
/// stored_heap, where all outputs are mapped.
template <class There>
__global__ void __launch_bounds__(512)
    send_segment(const __grid_constant__ send_end e, const __grid_constant__ send_job job) {
  __shared__ send_outputs out;
  if (threadIdx.x == 0) await_event(e.g, job.after);
  for (uint32_t i = threadIdx.x; i < e.n_outputs; i += blockDim.x) out.next[i] = e.rings[i].origin()->sent;
  __syncthreads();
  send_packets<There>(e, job, out);
  __syncthreads();
  if (threadIdx.x != 0) return;
  // The last block: the others have read what it now changes.
  if (fetch_add_acq_rel<scope::device>(&e.state->blocks_done, uint64_t{1}) + 1 != gridDim.x) return;
  e.state->blocks_done = 0;
  for (uint32_t i = 0; i < send_state::decisions; ++i) e.state->decided[i] = e.state->read[i] = 0;
  for (uint32_t i = 0; i < e.n_outputs; ++i) e.rings[i].origin()->sent = out.next[i];
  raise_event(job.done);
}

/// What is between two copies of a copy engine: the packet that has been copied is told, and the next one's buffer
/// waited for. Thread scope: lane.
struct copied_packet {
  const packet_ring* ring;  ///< in device memory; nullptr: there is none
  uint64_t number, metadata;
  packet_word word;
};
template <int = 0>
__global__ void __launch_bounds__(32)
    between_copies(const __grid_constant__ gravel_t g, const __grid_constant__ copied_packet copied,
                   const __grid_constant__ copied_packet next, gravel_event after, gravel_event done) {
  if (threadIdx.x != 0) return;
  await_event(g, after);
  if (copied.ring) {
    const packet_ring& r = *copied.ring;
    const stored_heap there = stored_heap::of(g, r.destination);
    if (copied.metadata) there.at(r.arrival(copied.number))->metadata = copied.metadata;
    notify_packet(g, r, there, copied.number, copied.word);
    r.origin()->sent = copied.number + 1;
  }
  if (next.ring) await_credit(g, *next.ring, next.number);
  raise_event(done);
}

/// Nothing comes behind what was sent into these rings.
template <int = 0>
__global__ void __launch_bounds__(32) end_rings(const __grid_constant__ gravel_t g, const packet_ring* rings,
                                                uint32_t n, gravel_event after, gravel_event done) {
  if (threadIdx.x == 0) await_event(g, after);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
    if (!rings[i].origin()->closed)
      notify_end(g, rings[i], far_heap::of(g, rings[i].destination), rings[i].origin()->sent);
  __syncthreads();
  if (threadIdx.x == 0) raise_event(done);
}

}  // namespace gravel::detail
