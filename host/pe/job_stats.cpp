#include "host/pe/job_stats.hpp"

#include <cstdio>
#include <fstream>

#include "host/node/stats.hpp"
#include "lib/base/log.hpp"

namespace gravel {

void report_stats(const membership& job, const pe_segment& segment, const pe_memory& memory, collective_member::call& call) {
  stats_row mine;
  if (job.is_leader())
    for (uint32_t p = 0; p < segment.shape().n_planes; ++p)
      for (uint32_t i = 0; i < n_stats; ++i) mine.value[i] += load_relaxed(&segment.control()->stats[p][i]);
  const device_counters counters = memory.read_device_counters();
  mine[stat::messages_in_place] = counters.in_place() + memory.host_counters().in_place();
  mine[stat::messages_to_peers] = counters.to_peers();
  stats_row all;
  for (uint32_t i = 0; i < n_stats; i += 4) {
    collective_words words{};
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) words.sum[j] = mine.value[i + j];
    const collective_words sums = call.combine(words);
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) all.value[i + j] = sums.sum[j];
  }
  if (job.pe != 0) return;
  if (job.values.stats) std::fputs(stats_text(all, job.nodes.n_pes(), job.nodes.n_nodes()).c_str(), stderr);
  if (const std::string& path = job.values.stats_json; !path.empty()) {
    std::ofstream out(path);
    if (!(out << stats_json(all, job.nodes.n_pes(), job.nodes.n_nodes())) || !out.flush())
      log_warning("GRAVEL_STATS_JSON: '{}' could not be written", path);
  }
}

}  // namespace gravel
