#include "transport/ucx_run/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace gravel {

std::vector<std::string> job_variables(const run_options& options) {
  std::vector<std::string> result;
  if (options.nodes) result.push_back(fmt::format("GRAVEL_NODES={}", options.nodes));
  if (options.stats) result.push_back("GRAVEL_STATS=1");
  if (!options.stats_json.empty()) result.push_back("GRAVEL_STATS_JSON=" + options.stats_json);
  for (const auto& [name, value] : options.exports)
    if (value) result.push_back(name + "=" + *value);
  return result;
}

std::vector<std::string> job_environment(const run_options& options) {
  std::vector<std::string> base;
  for (char** entry = environ; *entry; ++entry) base.emplace_back(*entry);
  for (const auto& variable : job_variables(options)) {
    const std::string with_equals = variable.substr(0, variable.find('=') + 1);
    std::erase_if(base, [&](const std::string& entry) { return entry.starts_with(with_equals); });
    base.push_back(variable);
  }
  // Gravel needs it, and a program that uses CUDA before gravel_init would fix it otherwise.
  constexpr const char* loading = "CUDA_MODULE_LOADING=";
  if (std::none_of(base.begin(), base.end(), [&](const std::string& entry) { return entry.starts_with(loading); }))
    base.push_back(std::string(loading) + "EAGER");
  return base;
}

}  // namespace gravel
