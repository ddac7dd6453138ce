#include "bench/rivals/model_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "lib/base/error.hpp"
#include "lib/base/settings.hpp"

namespace app {
using gravel::detail::current_settings;
using gravel::detail::settings;
namespace {

constexpr std::initializer_list<const char*> names = {"coprocessor", "coprocessor-buffered", "message-per-lane",
                                                      "coalesced",   "coalesced-aggregated", "gravel"};
constexpr uint64_t large_queue = 1 << 20;       ///< the paper's extra buffering
constexpr uint64_t small_queue = 3 * 64 << 10;  ///< Gravel's packets to one PE, if no setting says otherwise

}  // namespace

void model_options::add_options(command_line& app) {
  app.add_option("--model", name, "Networking model: gravel, or a rival of it (docs/applications.md)")
      .one_of(names)
      .capture_default_str();
  app.add_option("--model-queue", queue_bytes,
                 "Of the coprocessor models: bytes of a queue to one PE; 0: as much as Gravel's packets to it, or 1 "
                 "MiB if buffered")
      .range_or_0(uint64_t{4096}, uint64_t{1} << 30)
      .capture_default_str();
}

networking model_options::model() const {
  return static_cast<networking>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

void model_options::prepare() const {
  const networking model = this->model();
  const bool by_lane = model == networking::message_per_lane, by_list = model == networking::coalesced;
  if (!by_lane && !by_list) return;
  // A network card has hundreds of small messages under way. So has a destination here, in packets as small as they
  // need to be.
  setenv("GRAVEL_AGGREGATION", by_lane ? "messages" : "rows", 1);
  setenv("GRAVEL_PACKET_SIZE", by_lane ? "4K" : "16K", 0);
  setenv("GRAVEL_PACKETS_PER_DESTINATION", by_lane ? "256" : "64", 0);
}

uint64_t model_options::queue_size() const {
  if (queue_bytes) return queue_bytes / 64 * 64;
  const settings& s = current_settings();
  return model() == networking::coprocessor_buffered ? large_queue : s.packets_per_destination * s.packet_size;
}

uint64_t model_options::symmetric_bytes() const {
  const networking model = this->model();
  if (model != networking::coprocessor && model != networking::coprocessor_buffered) return 0;
  return uint64_t{2} * 16 * std::max(queue_bytes, model == networking::coprocessor ? small_queue : large_queue);
}

}  // namespace app
