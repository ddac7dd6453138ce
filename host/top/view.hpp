// What gravel-top shows: text or JSON of two samples of a job.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "host/top/jobs.hpp"

namespace gravel::detail {

/// A PE that waits, in words. `for_pes`: those for which it waits; empty: not known.
struct wait {
  uint32_t pe;
  std::string text;
  std::vector<uint32_t> for_pes;
};
/// Who waits for whom, as far as the samples show it.
std::vector<wait> find_waits(const watched_job&);

/// `before`: the samples of the same nodes some time ago; rates are of the time between.
std::string view_text(const watched_job& before, const watched_job& now, const std::vector<uint32_t>& silent);
nlohmann::ordered_json view_json(const watched_job& before, const watched_job& now,
                                 const std::vector<uint32_t>& silent);

}  // namespace gravel::detail
