#include "host/aggregator/fault.hpp"

#include <regex>

#include "lib/base/error.hpp"

namespace gravel::detail {

injected_fault::injected_fault(const std::string& setting) {
  if (setting.empty()) return;
  std::smatch number;
  if (!std::regex_match(setting, number, std::regex("corrupt-packet:([0-9]{1,5}):0*([1-9][0-9]{0,17})")))
    fail("GRAVEL_FAULT: '{}' is not corrupt-packet:PE:COUNT", setting);
  pe_ = static_cast<uint32_t>(std::stoul(number[1]));
  left_ = std::stoll(number[2]);
  active_ = true;
}

}  // namespace gravel::detail
