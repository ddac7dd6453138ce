// Handles by which other processes map memory of a device, and the choice between their kinds. Nothing here needs CUDA.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
inline const char* name_of(handle_kind kind) {
  return kind == handle_kind::fabric ? "fabric handles" : "POSIX file descriptors";
}

/// How the PEs of a job share memory of their devices.
struct handle_choice {
  std::optional<handle_kind> kind;  ///< nullopt: memory has no extents, and cudaIpc shares whole allocations
  std::string why_fixed;            ///< why there are no extents; empty: there are
  std::string why_not;              ///< why the kind that comes before this one was refused; empty: it is the first one
};

/// Makes the choice. `wanted`: GRAVEL_HANDLE_TYPE. `beyond_host`: fabric handles of this device may reach other hosts.
/// `refuse` says why memory of this device cannot be shared by handles of a kind; empty: it can. It is asked only about
/// kinds that are needed, as a call of the driver that fails is an error for compute-sanitizer. Throws gravel::error if
/// GRAVEL_HANDLE_TYPE insists on a kind that is refused.
inline handle_choice choose_handles(const std::string& wanted, bool beyond_host,
                                    const std::function<std::string(handle_kind)>& refuse) {
  if (wanted == "ipc") return {std::nullopt, "GRAVEL_HANDLE_TYPE=ipc", {}};
  // Within a host both kinds reach the same processes, and descriptors need no daemon.
  std::vector<handle_kind> order{handle_kind::descriptor, handle_kind::fabric};
  if (beyond_host) std::swap(order[0], order[1]);
  if (wanted == "descriptor") order = {handle_kind::descriptor};
  if (wanted == "fabric") order = {handle_kind::fabric};
  std::string why;  // none of the kinds so far
  for (const handle_kind kind : order) {
    const std::string refused = refuse(kind);
    if (refused.empty()) return {kind, {}, why};
    if (wanted != "auto") fail_text("GRAVEL_HANDLE_TYPE=" + wanted + ": " + refused);
    why += (why.empty() ? "" : "; ") + std::string(name_of(kind)) + ": " + refused;
  }
  return {std::nullopt, why, {}};
}

/// The choice as a text for the log.
inline std::string describe(const handle_choice& c) {
  if (!c.kind) return "shared by cudaIpc: " + c.why_fixed;
  return std::string("shared by ") + name_of(*c.kind) + (c.why_not.empty() ? "" : "; " + c.why_not);
}

}  // namespace gravel::detail
