#include "host/aggregator/fault.hpp"

#include <charconv>
#include <string_view>

#include "lib/base/error.hpp"

namespace gravel {

injected_fault::injected_fault(const std::string& setting) {
  if (setting.empty()) return;
  constexpr std::string_view kind = "corrupt-packet:";
  const char* const end = setting.data() + setting.size();
  int64_t count = 0;
  bool sound = setting.starts_with(kind);
  if (sound) {
    const auto pe = std::from_chars(setting.data() + kind.size(), end, pe_);
    sound = pe.ec == std::errc{} && pe.ptr != end && *pe.ptr == ':';
    if (sound) {
      const auto number = std::from_chars(pe.ptr + 1, end, count);
      sound = number.ec == std::errc{} && number.ptr == end && count > 0;
    }
  }
  if (!sound) fail("GRAVEL_FAULT: '{}' is not corrupt-packet:PE:COUNT", setting);
  left_ = count;
  active_ = true;
}

}  // namespace gravel
