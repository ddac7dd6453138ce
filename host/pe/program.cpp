#include "host/pe/program.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

#include "lib/base/error.hpp"
#include "lib/base/version.hpp"

namespace gravel::detail {
namespace {

constexpr struct {
  const char* name;
  uint64_t settings::*value;
} common_settings[] = {{"GRAVEL_SYMMETRIC_SIZE", &settings::symmetric_size},
                       {"GRAVEL_PACKET_SIZE", &settings::packet_size},
                       {"GRAVEL_PACKETS_PER_DESTINATION", &settings::packets_per_destination},
                       {"GRAVEL_AGGREGATOR_THREADS", &settings::aggregator_threads},
                       {"GRAVEL_TWO_HOP_NODES", &settings::two_hop_nodes},
                       {"GRAVEL_REPLY_CELLS", &settings::reply_cells},
                       {"GRAVEL_NODES", &settings::nodes}};

}  // namespace

program_description describe_program(const backend& device, const settings& values) {
  program_description mine{GRAVEL_VERSION, device.name(), {}, {}};
  for (const auto& setting : common_settings) mine.settings.push_back(values.*setting.value);
  for (const handler_info& h : device.handlers()) mine.handlers.push_back({h.name, h.bytes, h.on_host});
  return mine;
}

std::string difference(const program_description& here, const program_description& there) {
  if (here.version != there.version)
    return fmt::format("the version of Gravel differs: '{}' here, '{}' at PE 0", here.version, there.version);
  if (here.backend != there.backend)
    return fmt::format("the backend differs: '{}' here, '{}' at PE 0", here.backend, there.backend);
  if (here.settings.size() != there.settings.size()) return "this PE and PE 0 have different versions of Gravel";
  for (size_t i = 0; i < std::min(here.settings.size(), std::size(common_settings)); ++i)
    if (here.settings[i] != there.settings[i])
      return fmt::format("{} differs: {} here, {} at PE 0", common_settings[i].name, here.settings[i],
                         there.settings[i]);
  const program_description::handler none{"(none)", 0, false};
  for (size_t i = 0; i < std::max(here.handlers.size(), there.handlers.size()); ++i) {
    const auto& a = i < here.handlers.size() ? here.handlers[i] : none;
    const auto& b = i < there.handlers.size() ? there.handlers[i] : none;
    if (a.name != b.name)
      return fmt::format("handler {} differs: '{}' here, '{}' at PE 0; all PEs must register the same handlers", i,
                         a.name, b.name);
    if (a != b)
      return fmt::format("handler '{}' differs: {} bytes of arguments{} here, {}{} at PE 0", a.name, a.bytes,
                         a.on_host ? " on the host" : "", b.bytes, b.on_host ? " on the host" : "");
  }
  return {};
}

}  // namespace gravel::detail
