// Endpoints: the ends of links. An endpoint is the device or the host of a PE. Several virtual endpoints may lie on one
// device; a number distinguishes them.
//
// All calls of this file:
// @param pe 0 to gravel_n_pes() - 1
// @param number distinguishes several endpoints on one device
// @return a value; the call opens nothing
// @scope any host thread
// @completion on return
// @errors none: links and routers check their endpoints
// @source Groute, section 3
#pragma once
#include <cstdint>
#include <string>

/// Where a link begins or ends. Plain data, the same at all PEs.
struct gravel_endpoint {
  enum kind_type : uint8_t { device, host };
  int pe = 0;
  kind_type kind = device;  ///< device: segments lie in the PE's device memory; host: in its host memory
  uint32_t number = 0;      ///< distinguishes virtual endpoints of one device or host
  uint32_t router = 0;      ///< from gravel_router::as_input: the router whose segments arrive here; 0: none

  /// Returns whether both are the same place, whether or not a router feeds it.
  bool operator==(const gravel_endpoint& other) const {
    return pe == other.pe && kind == other.kind && number == other.number;
  }
};
/// The device of a PE as an end of a link.
inline gravel_endpoint gravel_device(int pe, uint32_t number = 0) { return {pe, gravel_endpoint::device, number}; }
/// The host of a PE as an end of a link.
inline gravel_endpoint gravel_host(int pe, uint32_t number = 0) { return {pe, gravel_endpoint::host, number}; }

namespace gravel::detail {

/// A text for messages, such as "device 0 of PE 1".
inline std::string text_of(const gravel_endpoint& e) {
  return (e.kind == gravel_endpoint::device ? "device " : "host ") + std::to_string(e.number) + " of PE " +
         std::to_string(e.pe);
}
inline std::string text_of(const gravel_endpoint& source, const gravel_endpoint& destination) {
  return "the link from " + text_of(source) + " to " + text_of(destination);
}

}  // namespace gravel::detail
