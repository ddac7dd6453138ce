// Ends of links: a device or a host of some PE. Several virtual ones may lie on the same device, told apart by a
// number. Source: Groute, section 3 (endpoints are GPUs, hosts and routers; a router here is known by its endpoints).
//
// What all calls of this file have in common:
// @param pe 0 to gravel_n_pes() - 1
// @param number tells several endpoints on one device apart
// @return a value: nothing is opened
// @scope any host thread
// @completion on return
// @errors none: links and routers check their ends
// @source Groute, section 3
#pragma once
#include <cstdint>
#include <string>

/// Where a link begins or ends. Plain data, the same at all PEs.
struct gravel_endpoint {
  enum kind_type : uint8_t { device, host };
  int pe = 0;
  kind_type kind = device;  ///< device: segments lie in the PE's device memory; host: in its host memory
  uint32_t number = 0;      ///< of several virtual endpoints of one device, or one host

  bool operator==(const gravel_endpoint& other) const {
    return pe == other.pe && kind == other.kind && number == other.number;
  }
};
/// The device of a PE as an end of a link.
inline gravel_endpoint gravel_device(int pe, uint32_t number = 0) { return {pe, gravel_endpoint::device, number}; }
/// The host of a PE as an end of a link.
inline gravel_endpoint gravel_host(int pe, uint32_t number = 0) { return {pe, gravel_endpoint::host, number}; }

namespace gravel::detail {

/// "device 0 of PE 1".
inline std::string text_of(const gravel_endpoint& e) {
  return (e.kind == gravel_endpoint::device ? "device " : "host ") + std::to_string(e.number) + " of PE " +
         std::to_string(e.pe);
}
inline std::string text_of(const gravel_endpoint& source, const gravel_endpoint& destination) {
  return "the link from " + text_of(source) + " to " + text_of(destination);
}

}  // namespace gravel::detail
