#include "lib/base/wait_report.hpp"

#include <fmt/format.h>
#include <cstring>

#include "lib/base/error.hpp"
#include "lib/base/message.hpp"

namespace gravel::detail {

namespace {
std::string text_of_value(value_type type, uint64_t bits) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, &bits, sizeof(value));
    return fmt::format("{}", value);
  };
  switch (type) {
    case value_type::i32: return as(int32_t{});
    case value_type::i64: return as(int64_t{});
    case value_type::f32: return as(float{});
    case value_type::f64: return as(double{});
    default: return as(uint64_t{});
  }
}
}  // namespace

std::string text_of(const wait_subject& s) {
  static constexpr const char* texts[] = {GRAVEL_AWAITED(GRAVEL_TEXT)};
  static constexpr const char* comparisons[] = {"==", "!=", ">", ">=", "<", "<="};
  if (s.what >= awaited::count || s.compare >= comparison::count) return "something: its report is damaged";
  const auto type = static_cast<value_type>(s.type);
  const std::string place = s.offset == wait_subject::none
                                ? "a word outside the symmetric heap"
                                : fmt::format("the word at offset {:#x} of the symmetric heap", s.offset);
  return fmt::format(fmt::runtime(texts[static_cast<size_t>(s.what)]), fmt::arg("place", place), fmt::arg("pe", s.pe),
                     fmt::arg("compare", comparisons[static_cast<size_t>(s.compare)]),
                     fmt::arg("wanted", text_of_value(type, s.wanted)),
                     fmt::arg("found", text_of_value(type, s.found)));
}

}  // namespace gravel::detail
