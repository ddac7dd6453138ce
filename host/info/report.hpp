// What gravel-info prints, for people and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "host/info/check.hpp"
#include "host/info/software.hpp"

namespace gravel {

std::string report_text(const software_report&, const findings&);
std::string check_text(const findings&);
nlohmann::json report_json(const software_report&, const findings&);
nlohmann::json check_json(const findings&);

}  // namespace gravel
