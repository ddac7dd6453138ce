// The results of a run in files: facts for --json, and tables for --dump, from which tools/pictures draws.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/output.hpp"

namespace app {
using gravel::detail::output_file;
using gravel::detail::write_file;

using fact_value = std::variant<uint64_t, double, bool, std::string>;
using fact_list = std::vector<std::pair<std::string, fact_value>>;

/// One object with these facts, in this order. Throws gravel::error if the file cannot be written.
void write_json(const std::string& path, const fact_list& facts);

struct column {
  std::string name;
  std::vector<double> values;
  std::vector<uint64_t> numbers = {};  ///< instead of `values`: what double cannot hold, as ids of vertices
};
/// A line of names, then a line for each row, with commas. Columns are of one length. Throws gravel::error if the file
/// cannot be written.
void write_columns(const std::string& path, const std::vector<column>& columns);

}  // namespace app
