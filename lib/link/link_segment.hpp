// Segments as a host sees them: what has come over a link, and what will.
#pragma once
#include <cstdint>

#include "host/pe/launch_config.hpp"
#include "lib/link/endpoint.hpp"
#include "lib/link/packet_ring.cuh"

class gravel_receiver;

/// A piece of memory that has come, its size and metadata: one packet, or less, of what was sent. Its memory is the
/// link's until gravel_receiver::release.
struct gravel_segment {
  char* data = nullptr;  ///< in the PE's device memory; of a host endpoint: in host memory
  uint64_t bytes = 0;
  uint64_t metadata = 0;   ///< what its sender gave
  gravel_endpoint source;  ///< where it was sent
  bool is_last = false;    ///< of a segment that its sender cut into packets
  bool has_come = false;   ///< false: the sources have shut down, and nothing more comes
  size_t input = 0;        ///< which of the receiver's sources
  gravel::detail::received_packet packet{};

  /// Whether there is none: the link has been shut down, and all has been received.
  /// @scope any
  /// @completion on return
  /// @errors none
  /// @source Gravel
  bool empty() const { return !has_come; }
};

/// What a kernel needs to wait for a packet and to read it. Plain data.
struct gravel_arrival {
  gravel_t g;
  gravel::detail::packet_ring ring;
  uint64_t number;
};

/// A segment that will come: what gravel_receiver::receive() returns.
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: the link is closed
/// @source Groute, section 4.1 (pending segments)
class gravel_pending_segment {
 public:
  /// @internal
  gravel_pending_segment(gravel_receiver* receiver, uint64_t ticket) : receiver_(receiver), ticket_(ticket) {}
  /// Whether it has come.
  bool is_ready() const;
  /// Waits for it, and returns it.
  gravel_segment get() const;
  /// Makes a stream wait for it.
  /// @param stream what is put into it from now on begins when the segment is here
  /// @completion returns at once
  void wait(gravel_stream_t stream) const;
  /// For gravel_receive() in a kernel.
  gravel_arrival handle() const;

 private:
  gravel_receiver* receiver_;
  uint64_t ticket_;
};
