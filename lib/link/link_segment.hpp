// Segments for the host: what has arrived over a link, and what will arrive.
#pragma once
#include <cstdint>

#include "host/pe/launch_config.hpp"
#include "lib/link/endpoint.hpp"
#include "lib/link/packet_ring.cuh"

class gravel_receiver;

/// Data that has arrived: one link packet of a segment, or a whole segment if it fits one packet. The memory belongs to
/// the link and is valid until gravel_receiver::release.
struct gravel_segment {
  char* data = nullptr;  ///< in device memory; for a host endpoint: in host memory
  uint64_t bytes = 0;
  uint64_t metadata = 0;   ///< from the sender
  gravel_endpoint source;  ///< the endpoint that sent it
  bool is_last = false;    ///< the last packet of what the sender sent at once
  bool has_come = false;   ///< false: the sources have shut down, and nothing more arrives
  size_t input = 0;        ///< number of the source among the receiver's sources
  gravel::detail::received_packet packet{};

  /// Returns whether there is no data: the link has been shut down, and all has been received.
  /// @scope any
  /// @completion on return
  /// @errors none
  /// @source Gravel
  bool empty() const { return !has_come; }
};

/// The data with which a kernel waits for a packet and reads it. Plain data.
struct gravel_arrival {
  gravel_t g;
  gravel::detail::packet_ring ring;
  uint64_t number;
};

/// A segment that will arrive. gravel_receiver::receive() returns it.
/// @scope any host thread
/// @completion on return
/// @errors gravel::error: the link is closed
/// @source Groute, section 4.1 (pending segments)
class gravel_pending_segment {
 public:
  /// @internal
  gravel_pending_segment(gravel_receiver* receiver, uint64_t ticket) : receiver_(receiver), ticket_(ticket) {}
  /// Returns whether the segment has arrived.
  bool is_ready() const;
  /// Waits for the segment and returns it.
  gravel_segment get() const;
  /// Makes a stream wait for the segment.
  /// @param stream work that is put into it from now on begins when the segment has arrived
  /// @completion returns at once
  void wait(gravel_stream_t stream) const;
  /// Returns the argument of gravel_receive(), for a kernel.
  gravel_arrival handle() const;

 private:
  gravel_receiver* receiver_;
  uint64_t ticket_;
};
