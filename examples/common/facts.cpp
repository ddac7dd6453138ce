#include "examples/common/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace app {

void write_json(const std::string& path, const fact_list& facts) {
  nlohmann::ordered_json all;
  for (const auto& [name, value] : facts) std::visit([&, &key = name](const auto& v) { all[key] = v; }, value);
  write_file(path, all.dump(2) + '\n');
}

void write_columns(const std::string& path, const std::vector<column>& columns) {
  output_file out(path);
  const auto line = [&](const auto& text_of) {
    for (size_t c = 0; c < columns.size(); ++c) out.write((c ? "," : "") + text_of(columns[c]));
    out.write("\n");
  };
  line([](const column& c) { return c.name; });
  const size_t rows = std::max(columns.front().values.size(), columns.front().numbers.size());
  for (size_t row = 0; row < rows; ++row)
    line([&](const column& c) {
      return c.numbers.empty() ? fmt::format("{}", c.values[row]) : fmt::format("{}", c.numbers[row]);
    });
  out.finish();
}

}  // namespace app
