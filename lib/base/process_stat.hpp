// Reads /proc/PID/stat.
#pragma once
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace gravel::detail {

/// The fields of /proc/PID/stat, field n of proc(5) as [n - 1]; none if there is no such process, or /proc does not
/// show it.
inline std::vector<std::string> stat_of_process(uint64_t pid) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(pid) + "/stat").rdbuf();
  const std::string line = text.str();
  // The second field, the name in parentheses, may contain anything.
  const size_t begin = line.find('('), end = line.rfind(')');
  if (end == std::string::npos) return {};
  std::vector<std::string> fields{line.substr(0, begin), line.substr(begin + 1, end - begin - 1)};
  std::istringstream rest(line.substr(end + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

}  // namespace gravel::detail
