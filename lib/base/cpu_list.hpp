// Lists of processors, as users write them and as taskset and /proc show them: "0-3,8".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gravel {

/// Processors by the operating system's numbers, ascending, each once.
using cpu_list = std::vector<uint32_t>;

/// Throws gravel::error on anything that is no such list.
cpu_list parse_cpu_list(std::string_view text);
std::string text_of(const cpu_list&);

}  // namespace gravel
