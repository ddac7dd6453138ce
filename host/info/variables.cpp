#include "host/info/variables.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/base/settings.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t unbounded = std::numeric_limits<int64_t>::max();

/// A size as text, such as "64K" for 65536.
std::string short_size(uint64_t bytes) {
  size_t power = 0;
  for (; power < 4 && bytes != 0 && bytes % 1024 == 0; ++power) bytes /= 1024;
  return power == 0 ? std::to_string(bytes) : fmt::format("{}{}", bytes, "KMGT"[power - 1]);
}

/// The range of a setting: "4K to 1M bytes", "2 to 1024 packets", "yes or no", "".
std::string range_of(const setting_row& row) {
  if (row.kind == setting_kind::flag) return "yes or no";
  if (row.kind == setting_kind::text) return "";
  const auto number = [&](uint64_t value) {
    return row.kind == setting_kind::size ? short_size(value) : std::to_string(value);
  };
  return row.most == unbounded ? fmt::format("from {}", number(row.least))
                               : fmt::format("{} to {}", number(row.least), number(row.most));
}

/// The fault of this variable's value by itself; "" if there is none.
std::string fault_of(const setting_row& row, const char* value) {
  return text_of_error(
      [&] { read_settings([&](const char* name) { return std::strcmp(name, row.name) == 0 ? value : nullptr; }); });
}

/// A text as a cell of a Markdown table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

}  // namespace

std::string variables_text(const variable_lookup& lookup) {
  std::string text =
      "# Variables of Gravel. '*': set in this environment. Sizes may be written as 65536, 64K or 64KiB.\n\n";
  for (const setting_row& row : setting_table()) {
    const char* found = lookup(row.name);
    const std::string fault = found ? fault_of(row, found) : "", range = range_of(row);
    text += fmt::format("{} {}={}\n", found ? '*' : ' ', row.name, found ? found : row.default_value);
    text += fmt::format("      {}\n      default {}", row.meaning, *row.default_value ? row.default_value : "(empty)");
    if (!range.empty()) text += fmt::format("; {}{}{}", range, *row.unit ? " " : "", row.unit);
    text += '\n';
    if (!fault.empty()) text += fmt::format("      CANNOT BE USED: {}\n", fault);
  }
  // Also finds values that are wrong only in combination.
  const std::string fault = text_of_error([&] { read_settings(lookup); });
  if (!fault.empty()) text += fmt::format("\nCANNOT BE USED: {}\n", fault);
  return text;
}

std::string variables_markdown() {
  std::string text = "| variable | default | range | unit | meaning |\n|---|---|---|---|---|\n";
  for (const setting_row& row : setting_table()) {
    const bool is_flag = row.kind == setting_kind::flag;
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name,
                        *row.default_value ? fmt::format("`{}`", row.default_value) : "", is_flag ? "" : range_of(row),
                        is_flag ? "yes or no" : row.unit, cell(row.meaning));
  }
  return text;
}

nlohmann::json variables_json(const variable_lookup& lookup) {
  nlohmann::json all = nlohmann::json::array();
  for (const setting_row& row : setting_table()) {
    const char* found = lookup(row.name);
    nlohmann::json one = {{"name", row.name},           {"value", found ? found : row.default_value},
                          {"is_set", found != nullptr}, {"default", row.default_value},
                          {"unit", row.unit},           {"meaning", row.meaning}};
    if (row.kind == setting_kind::number || row.kind == setting_kind::size) {
      one["least"] = row.least;
      if (row.most != unbounded) one["most"] = row.most;
    }
    if (const std::string fault = found ? fault_of(row, found) : ""; !fault.empty()) one["fault"] = fault;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace gravel::detail
