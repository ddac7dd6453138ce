#include "examples/facts.hpp"

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

}  // namespace gravel
