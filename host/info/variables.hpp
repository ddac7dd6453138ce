// The table of GRAVEL_* variables as text, as Markdown and as JSON.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gravel::detail {

/// Finds the value of a variable; nullptr: not set.
using variable_lookup = std::function<const char*(const char*)>;

/// Every variable with value, default, unit and meaning; those that are set are marked, and what cannot be used.
std::string variables_text(const variable_lookup&);
/// The table of docs/configuration.md. Knows nothing of the environment.
std::string variables_markdown();
nlohmann::json variables_json(const variable_lookup&);

}  // namespace gravel::detail
