#include "lib/base/cpu_list.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "lib/base/error.hpp"

namespace gravel {

cpu_list parse_cpu_list(std::string_view text) {
  constexpr uint32_t most = 1 << 16;  // so that a typing error fills no memory
  cpu_list cpus;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&] {
    uint32_t value = 0;
    const auto [behind, code] = std::from_chars(at, end, value);
    if (code != std::errc{} || value >= most) fail("'{}' is not a list of processors (example: 0-3,8)", text);
    at = behind;
    return value;
  };
  const auto next_is = [&](char c) { return at != end && *at == c && ++at; };
  do {
    const uint32_t first = number(), last = next_is('-') ? number() : first;
    if (last < first) fail("'{}' is not a list of processors: {} comes after {}", text, first, last);
    for (uint32_t cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  } while (next_is(','));
  if (at != end) fail("'{}' is not a list of processors (example: 0-3,8)", text);
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string text_of(const cpu_list& cpus) {
  std::string text;
  for (size_t first = 0, last; first < cpus.size(); first = last + 1) {
    for (last = first; last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1;) ++last;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", cpus[first]);
    if (last != first) fmt::format_to(std::back_inserter(text), "-{}", cpus[last]);
  }
  return text;
}

}  // namespace gravel
