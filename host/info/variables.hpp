// The table of GRAVEL_* variables as text, as Markdown and as JSON.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gravel::detail {

/// Returns the value of a variable; nullptr: it is not set.
using variable_lookup = std::function<const char*(const char*)>;

/// All variables with value, default, unit and meaning. Marks those that are set, and reports those that cannot be
/// used.
std::string variables_text(const variable_lookup&);
/// The table of docs/configuration.md. It does not depend on the environment.
std::string variables_markdown();
nlohmann::json variables_json(const variable_lookup&);

}  // namespace gravel::detail
