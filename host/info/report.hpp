// The reports of gravel-info, as text and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "host/info/check.hpp"

namespace gravel::detail {

std::string report_text(const findings&);
std::string check_text(const findings&);
nlohmann::json report_json(const findings&);
nlohmann::json check_json(const findings&);

}  // namespace gravel::detail
