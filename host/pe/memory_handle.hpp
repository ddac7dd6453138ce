// Handles by which other processes map memory of a device, and the choice between their kinds. Nothing here needs CUDA.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

/// What another process needs to map memory. It has one of the two, or none: then no other process can map the memory.
struct memory_handle {
  memory_handle() = default;
  memory_handle(owned_descriptor of) : descriptor(std::move(of)) {}
  explicit operator bool() const { return descriptor || !fabric.empty(); }

  owned_descriptor descriptor;  ///< for processes of this host; a Unix socket carries it
  std::string fabric;           ///< for processes of the NVLink domain: fabric_bytes bytes, which any message carries
  static constexpr size_t fabric_bytes = 64;
};

enum class handle_kind : uint8_t { descriptor, fabric };

/// How the PEs of a job share memory of their devices.
struct handle_choice {
  std::optional<handle_kind> kind;  ///< nullopt: memory has no extents, and cudaIpc shares whole allocations
  std::string why_fixed;            ///< why there are no extents; empty: there are
};

/// Makes the choice. `wanted`: GRAVEL_HANDLE_TYPE. `refuse` says why memory of this device cannot be shared by handles
/// of a kind; empty: it can. It is asked only about kinds that are needed, as a call of the driver that fails is an
/// error for compute-sanitizer. Throws gravel::error if GRAVEL_HANDLE_TYPE insists on a kind that is refused.
inline handle_choice choose_handles(const std::string& wanted, const std::function<std::string(handle_kind)>& refuse) {
  if (wanted == "ipc") return {std::nullopt, "GRAVEL_HANDLE_TYPE=ipc"};
  std::string why;
  // Within a host both kinds reach the same processes, and descriptors need no daemon.
  if (wanted != "fabric") {
    why = refuse(handle_kind::descriptor);
    if (why.empty()) return {handle_kind::descriptor, {}};
    if (wanted == "descriptor") fail_text("GRAVEL_HANDLE_TYPE=descriptor: " + why);
  }
  const std::string no_fabric = refuse(handle_kind::fabric);
  if (no_fabric.empty()) return {handle_kind::fabric, {}};
  if (wanted == "fabric") fail_text("GRAVEL_HANDLE_TYPE=fabric: " + no_fabric);
  return {std::nullopt, why + "; fabric handles: " + no_fabric};
}

/// The choice as a text for the log.
inline std::string describe(const handle_choice& c) {
  if (!c.kind) return "shared by cudaIpc: " + c.why_fixed;
  if (c.kind == handle_kind::fabric) return "shared by fabric handles";
  return "shared by POSIX file descriptors";
}

}  // namespace gravel::detail
