// The kernel that sends a segment for the host: to one output, to several outputs, to each output a share, or each
// packet to an output that has a free buffer.
#pragma once
#include "lib/link/event.cuh"
#include "lib/link/packet_ring.cuh"

namespace gravel::detail {

constexpr uint32_t most_outputs = 64;

/// Which of the outputs that may be chosen get the packets of a segment.
enum class send_way : uint8_t {
  all,     ///< every output gets all packets
  shares,  ///< every output gets a share, in order
  one,     ///< one output gets all packets: the one that has a free buffer first
  any      ///< each packet goes to the output that has a free buffer first
};

/// State of one input, in its PE's memory. The kernels that send for the input write it; they run one after the other.
struct alignas(64) send_state {
  static constexpr uint32_t decisions = 8;
  uint64_t blocks_done;         ///< blocks of the running kernel that have ended
  uint64_t turn;                ///< the output that was chosen last; those behind it are polled first
  uint64_t decided[decisions];  ///< number of the packet in the segment, + 1
  uint64_t choice[decisions];   ///< its output << 48 | the packet's number there
  uint64_t read[decisions];     ///< blocks that have read the choice, for all packets of this place
};

/// An input as kernels see it. Plain data.
struct send_end {
  gravel_t g;
  const packet_ring* rings;  ///< [n_outputs], in device memory
  uint32_t n_outputs;
  send_state* state;
};
struct send_job {
  const char* from;
  uint64_t bytes, metadata;
  uint64_t outputs;  ///< bit mask of the outputs that may be chosen
  send_way way;
  bool has_more;   ///< further calls send more of the same segment
  bool continues;  ///< earlier calls have sent some of the same segment
  gravel_event after, done;
};

/// A segment, cut into packets.
struct segment_cut {
  uint64_t bytes, packet_bytes;
  GRAVEL_BOTH uint64_t packets() const { return bytes ? (bytes + packet_bytes - 1) / packet_bytes : 1; }
  GRAVEL_BOTH uint64_t begin(uint64_t packet) const { return packet * packet_bytes; }
  GRAVEL_BOTH uint64_t size(uint64_t packet) const {
    const uint64_t rest = bytes - begin(packet);
    return rest < packet_bytes ? rest : packet_bytes;
  }
};

/// A block's numbers of packets, in shared memory.
struct send_outputs {
  uint64_t next[most_outputs];  ///< for each output: the number of the next packet there
  uint64_t chosen;              ///< the choice for the current packet
};

/// Block 0 chooses an output for packet `p` and notifies the other blocks. Thread scope: block.
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

/// Sends packet p of the segment to one output. Thread scope: block; every block of the grid calls it.
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

/// Packets [begin, end) of a segment that an output gets, where that is known beforehand.
struct packet_share {
  uint64_t begin, end;
  GRAVEL_BOTH static packet_share of(const send_job& job, uint32_t output, uint32_t n_outputs, uint64_t packets) {
    if (!(job.outputs >> output & 1)) return {0, 0};
    if (job.way == send_way::all) return {0, packets};
    return {(output * packets + n_outputs - 1) / n_outputs, ((output + 1) * packets + n_outputs - 1) / n_outputs};
  }
};

/// Sends all packets of a segment. Thread 0 of each block counts sent packets in `out`; other threads read only
/// `chosen`. Thread scope: block.
template <class There>
GRAVEL_DEVICE void send_packets(const send_end& e, const send_job& job, send_outputs& out) {
  const segment_cut cut{job.bytes, e.rings[0].packet_bytes};
  const uint64_t packets = cut.packets();
  if (job.way == send_way::any || job.way == send_way::one) {
    uint64_t chosen = 0;
    for (uint64_t p = 0; p < packets; ++p) {
      if (job.way == send_way::one && p) ++chosen;
      else if (job.way == send_way::one && job.continues) chosen = e.state->turn << 48 | out.next[e.state->turn];
      else chosen = choose_output(e, job, out, p);
      const auto output = static_cast<uint32_t>(chosen >> 48);
      // If packets may go to different outputs, each packet is a segment there.
      send_packet_to<There>(e, job, output, chosen & ((1ull << 48) - 1), cut, p,
                            job.way == send_way::any || (p + 1 == packets && !job.has_more));
      if (threadIdx.x == 0) ++out.next[output];
    }
    return;
  }
  // The outputs get their packets in turn, so that none waits for another's whole share.
  for (uint64_t p = 0; p < packets; ++p)
    for (uint32_t output = 0; output < e.n_outputs; ++output) {
      const packet_share share = packet_share::of(job, output, e.n_outputs, packets);
      if (share.begin + p < share.end)
        send_packet_to<There>(e, job, output, out.next[output] + p, cut, share.begin + p,
                              share.begin + p + 1 == share.end && !job.has_more);
    }
  __syncthreads();  // all have read `next`
  for (uint32_t output = threadIdx.x; output < e.n_outputs; output += blockDim.x) {
    const packet_share share = packet_share::of(job, output, e.n_outputs, packets);
    out.next[output] += share.end - share.begin;
  }
}

/// Sends one segment. A grid of any number of blocks, cooperative if there are several. Kernels of one input run one
/// after the other. There: stored_heap if all outputs are mapped.
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
  // The last block to end: all other blocks have read what it changes now.
  if (fetch_add_acq_rel<scope::device>(&e.state->blocks_done, uint64_t{1}) + 1 != gridDim.x) return;
  e.state->blocks_done = 0;
  for (uint32_t i = 0; i < send_state::decisions; ++i) e.state->decided[i] = e.state->read[i] = 0;
  for (uint32_t i = 0; i < e.n_outputs; ++i) e.rings[i].origin()->sent = out.next[i];
  raise_event(job.done);
}

/// Runs between two copies of a copy engine: notifies the destination of the packet that has been copied, and waits for
/// the buffer of the next packet. Thread scope: lane.
struct copied_packet {
  const packet_ring* ring;  ///< in device memory; nullptr: no packet
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

/// Shuts down these rings: no packet follows those that were sent.
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
