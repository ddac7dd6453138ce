// What gravel-info prints, for people and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "host/info/check.hpp"
#include "host/info/software.hpp"

namespace gravel {

/// `ipc`: why CUDA IPC does not work; "": it works, or there is no GPU.
std::string report_text(const software_report&, const findings&, const std::string& ipc);
std::string check_text(const findings&);
nlohmann::json report_json(const software_report&, const findings&, const std::string& ipc);
nlohmann::json check_json(const findings&);

}  // namespace gravel
