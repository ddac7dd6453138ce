// Ends of links that kernels drive. Each block of a kernel has a lane of the link for itself.
//
// All calls of this file:
// @scope block, all threads, converged; blocks of kernels of gravel_launch
// @errors a send on a closed link, a lane that does not exist, a receive while all buffers are held: the job ends with
// a message
// @source Groute, sections 3 and 4.1
#pragma once
#include "device/team_check.cuh"
#include "lib/link/link_segment.hpp"

/// The link as kernels see it, from gravel_link::handle(). Plain data.
struct gravel_link_handle {
  gravel_t g;
  const gravel::detail::packet_ring* rings;  ///< [lanes], in device memory
  uint32_t lanes;
};

/// A link packet as a kernel sees it.
struct gravel_packet {
  const char* data = nullptr;  ///< in this PE's memory; valid until the packet is released
  uint64_t bytes = 0, metadata = 0;
  bool is_last = false;   ///< the last packet of its segment
  bool has_come = false;  ///< false: the source has shut down
  gravel::detail::received_packet what{};
};

namespace gravel::detail {
/// Returns `lane` if the link has that lane. Otherwise reports an error and returns 0.
GRAVEL_DEVICE uint32_t checked_lane(const gravel_link_handle& h, uint32_t lane) {
  if (lane < h.lanes) return lane;
  if (threadIdx.x == 0) report_error(h.g, message_fault::link_lane, op::none, h.rings[0].destination, lane, h.lanes, 0);
  return 0;
}
GRAVEL_DEVICE gravel_packet packet_for_block(const gravel_t& g, const packet_ring& r, uint64_t number) {
  const copy_team team = copy_team::block(g);
  __syncthreads();
  uint64_t word = 0;
  if (team.is_leader()) word = await_packet(g, r, number).word.value;
  const received_packet p{number, {team.from_leader(word)}};
  if (p.is_end()) return {};
  return {r.data(number), p.word.bytes(), metadata_of(g, r, p), p.word.is_last(), true, p};
}
}  // namespace gravel::detail

namespace gravel::detail {

/// The sending end of a lane, for a block of a kernel: gravel_packet_sender, gravel_direct_packet_sender.
/// @completion on return the data may be reused; the packet has arrived when the destination's receive() returns it
template <class There>
class basic_packet_sender {
 public:
  /// Takes the sending end of a lane of the link.
  /// @param h from gravel_link::handle()
  /// @param lane number of the lane: 0 to gravel_link_options::lanes - 1
  GRAVEL_DEVICE basic_packet_sender(const gravel_link_handle& h, uint32_t lane)
      : g_(h.g),
        ring_(h.rings[gravel::detail::checked_lane(h, lane)]),
        there_(There::of(h.g, ring_.destination)),
        next_(ring_.origin()->sent),
        closed_(ring_.origin()->closed != 0) {
    enter_block(g_, team_call::packet_sender, lane);
  }
  GRAVEL_DEVICE ~basic_packet_sender() noexcept(false) {
    if (!enter_block(g_, team_call::packet_sender_end)) return;
    __syncthreads();
    if (threadIdx.x == 0) ring_.origin()->sent = next_;
  }
  /// @internal
  basic_packet_sender(const basic_packet_sender&) = delete;
  basic_packet_sender& operator=(const basic_packet_sender&) = delete;

  /// Sends a segment, or a part of one, in packets. Waits for free buffers.
  /// @param data memory that the block can read
  /// @param bytes 0 or more
  /// @param metadata travels with the segment
  /// @param is_last false: the next call sends a further part of the same segment
  GRAVEL_DEVICE void send(const void* data, uint64_t bytes, uint64_t metadata = 0, bool is_last = true) {
    if (!enter_block(g_, team_call::packet_send, bytes, metadata, is_last)) return;
    if (closed_) {
      if (threadIdx.x == 0)
        report_error(g_, message_fault::link_closed, op::none, ring_.destination, ring_.source, bytes);
      return;
    }
    const uint64_t most = ring_.packet_bytes;
    uint64_t at = 0;
    do {
      const uint64_t now = bytes - at < most ? bytes - at : most;
      await_buffer();
      put_packet(g_, ring_, there_, next_, ring_.data(next_), static_cast<const char*>(data) + at, now,
                 is_last && at + now == bytes, metadata);
      ++next_;
      at += now;
    } while (at < bytes);
    __syncthreads();
  }
  /// Ends the lane: the block sends nothing after this call.
  GRAVEL_DEVICE void shutdown() {
    if (!enter_block(g_, team_call::packet_shutdown)) return;
    __syncthreads();
    closed_ = true;
    if (threadIdx.x == 0) notify_end(g_, ring_, there_, next_);
  }

 private:
  GRAVEL_DEVICE void await_buffer() {
    if (threadIdx.x == 0) gravel::detail::await_credit(g_, ring_, next_);
    __syncthreads();
  }
  const gravel_t& g_;
  const gravel::detail::packet_ring ring_;
  const There there_;
  uint64_t next_;
  bool closed_;
};

/// The receiving end of a lane, for a block of a kernel: gravel_packet_receiver, gravel_direct_packet_receiver.
/// @completion on return
template <class There>
class basic_packet_receiver {
 public:
  /// Takes the receiving end of a lane of the link.
  /// @param h from gravel_link::handle()
  /// @param lane number of the lane: 0 to gravel_link_options::lanes - 1
  GRAVEL_DEVICE basic_packet_receiver(const gravel_link_handle& h, uint32_t lane)
      : g_(h.g),
        ring_(h.rings[gravel::detail::checked_lane(h, lane)]),
        back_(There::of(h.g, ring_.source)),
        next_(ring_.sink()->taken) {
    enter_block(g_, team_call::packet_receiver, lane);
  }
  GRAVEL_DEVICE ~basic_packet_receiver() noexcept(false) {
    if (!enter_block(g_, team_call::packet_receiver_end)) return;
    __syncthreads();
    if (threadIdx.x == 0) ring_.sink()->taken = next_;
  }
  /// @internal
  basic_packet_receiver(const basic_packet_receiver&) = delete;
  basic_packet_receiver& operator=(const basic_packet_receiver&) = delete;

  /// Waits for the next packet. Its memory is valid until release(). A block may hold as many packets as the lane has
  /// buffers. If it holds them all, a further receive() could never return: it ends the job with a message.
  GRAVEL_DEVICE gravel_packet receive() {
    if (!enter_block(g_, team_call::packet_receive)) return {};
    if (held_ == ring_.buffers) {
      if (threadIdx.x == 0)
        report_error(g_, message_fault::link_held, op::none, ring_.source, ring_.destination, ring_.buffers);
      return {};
    }
    const gravel_packet p = gravel::detail::packet_for_block(g_, ring_, next_);
    next_ += p.has_come;
    held_ += p.has_come;
    return p;
  }
  /// Returns the buffer of a packet to the source.
  /// @param p what receive() returned
  GRAVEL_DEVICE void release(const gravel_packet& p) {
    if (!enter_block(g_, team_call::packet_release, p.what.number)) return;
    if (!p.has_come) return;
    held_ -= held_ != 0;  // an earlier kernel may have received it
    __syncthreads();
    if (threadIdx.x == 0) gravel::detail::free_packet(g_, ring_, back_, p.what);
  }

 private:
  const gravel_t& g_;
  const gravel::detail::packet_ring ring_;
  const There back_;
  uint64_t next_;
  uint32_t held_ = 0;  ///< packets that this object has received and not released
};

}  // namespace gravel::detail

/// Ends for any link. If a kernel knows that its link is direct (gravel_link::is_direct), it uses the direct types: it
/// then contains no code for messages and has more registers.
using gravel_packet_sender = gravel::detail::basic_packet_sender<gravel::detail::far_heap>;
using gravel_packet_receiver = gravel::detail::basic_packet_receiver<gravel::detail::far_heap>;
using gravel_direct_packet_sender = gravel::detail::basic_packet_sender<gravel::detail::stored_heap>;
using gravel_direct_packet_receiver = gravel::detail::basic_packet_receiver<gravel::detail::stored_heap>;

/// Waits, in a kernel, for a packet that the host has requested by receive().
/// @param a from gravel_pending_segment::handle()
/// @return the packet; without data if the link has been shut down
/// @completion on return: the packet has arrived
GRAVEL_DEVICE gravel_packet gravel_receive(const gravel_arrival& a) {
  if (!gravel::detail::enter_block(a.g, gravel::detail::team_call::receive, a.number)) return {};
  return gravel::detail::packet_for_block(a.g, a.ring, a.number);
}
