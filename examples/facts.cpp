#include "examples/facts.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"

namespace gravel {

void write_json(const std::string& path, const fact_list& facts) {
  nlohmann::ordered_json all;
  for (const auto& [name, value] : facts) std::visit([&, &key = name](const auto& v) { all[key] = v; }, value);
  std::ofstream out(path);
  if (!(out << all.dump(2) << '\n') || !out.flush()) fail_errno(path);
}

void write_columns(const std::string& path, const std::vector<column>& columns) {
  std::ofstream out(path);
  const auto line = [&](const auto& text_of) {
    for (size_t c = 0; c < columns.size(); ++c) out << (c ? "," : "") << text_of(columns[c]);
    out << '\n';
  };
  line([](const column& c) { return c.name; });
  for (size_t row = 0; row < columns.front().values.size(); ++row) line([&](const column& c) { return fmt::format("{}", c.values[row]); });
  if (!out.flush()) fail_errno(path);
}

}  // namespace gravel
