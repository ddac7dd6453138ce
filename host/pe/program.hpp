// Properties that all PEs of a job must have in common to understand each other's messages.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/pe/backend.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

struct program_description {
  static constexpr wire_kind kind = wire_kind::program;
  static constexpr bool any_values_will_do = true;  // the reader only compares them with its own
  struct handler {
    static constexpr bool any_values_will_do = true;
    std::string name;
    uint32_t bytes;  ///< of arguments
    bool on_host;
    static auto fields(auto& m) { return std::tie(m.name, m.bytes, m.on_host); }
    bool operator==(const handler&) const = default;
  };
  std::string version, backend;
  std::vector<uint64_t> settings;  ///< settings that must be the same everywhere
  std::vector<handler> handlers;
  static auto fields(auto& m) { return std::tie(m.version, m.backend, m.settings, m.handlers); }
};

program_description describe_program(const backend&, const settings&);
/// The difference in words; empty: there is none.
std::string difference(const program_description& here, const program_description& at_pe_0);

}  // namespace gravel::detail
