#include "lib/graph/formats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/graph/weight.hpp"

namespace gravel::detail {
namespace {

/// Returns, for a decimal number outside the range of double, whether it is too small.
bool is_tiny(std::string_view text) {
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, exponent_at);
  std::string_view exponent_text = text.substr(std::min(exponent_at + 1, text.size()));
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  int64_t exponent = 0;
  if (std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent).ec ==
      std::errc::result_out_of_range)
    return exponent_text.starts_with('-');
  const auto point = static_cast<double>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<double>(std::min(digits.find_first_of("123456789"), digits.size()));
  return static_cast<double>(exponent) + point - first < 0;
}

/// Returns whether the nearest float is exactly the number that these digits say.
bool is_exact(std::string_view digits, double value) {
  char exact[64];  // the largest float has 39 digits
  const auto end =
      std::to_chars(exact, exact + sizeof(exact), static_cast<float>(value + 0.0), std::chars_format::fixed, 0).ptr;
  digits.remove_prefix(std::min(digits.find_first_not_of("+-0"), digits.size() - 1));
  return digits == std::string_view(exact, static_cast<size_t>(end - exact));
}

}  // namespace

bool take_real(std::string_view& rest, written_real& number) {
  number.text = take_word(rest);
  std::string_view text = number.text;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);  // from_chars accepts no plus sign
  std::string c_exponent;
  if (const size_t at = text.find_first_of("dD"); at != text.npos) {
    c_exponent = text;
    c_exponent[at] = 'e';
    text = c_exponent;
  }
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, number.value);
  if (end != last || text.empty()) return false;
  if (code == std::errc{}) return true;
  const bool negative = text[0] == '-';
  if (is_tiny(text)) number.value = negative ? -std::numeric_limits<double>::denorm_min() : 0;
  else number.value = negative ? -HUGE_VAL : HUGE_VAL;
  return true;
}

double checked_weight(const line_reader& reader, const written_real& number) {
  const double value = number.value;
  const bool digits = number.is_digits();
  if (std::isnan(value) || value < 0 ||
      (std::isinf(value) && number.text.find_first_of("0123456789") == std::string_view::npos))
    reader.fail_here("the weight {} is not a finite number from 0 on", number.text.substr(0, 60));
  if (value > largest_weight)
    reader.fail_here("the weight {} is above {}, the largest that a float holds: divide all weights by the same number",
                     number.text.substr(0, 60), largest_weight);
  if (!fits_weight(value) || (digits && !is_exact(number.text, value)))
    reader.fail_here(
        "the weight {} is a whole number that a float (24 bits) does not hold, it would become {}: divide all weights "
        "by the "
        "same number, or round them",
        number.text.substr(0, 60), static_cast<double>(static_cast<float>(value)));
  return value + 0.0;  // of -0: 0
}

}  // namespace gravel::detail
