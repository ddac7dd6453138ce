// Helpers of tests that make and read rows.
#pragma once
#include "lib/base/row.hpp"

namespace gravel::detail {

constexpr op update_ops[] = {op::inc, op::put, op::add, op::bit_and, op::bit_or, op::bit_xor, op::min, op::max};
constexpr value_type value_types[] = {value_type::u8,  value_type::u16, value_type::u32, value_type::u64,
                                      value_type::i32, value_type::i64, value_type::f32, value_type::f64};

/// Calls f(units, how many) for each message of a row that begins at `at`, in its wide form.
template <class F>
void each_message(const message_row& row, const unit* at, F f) {
  for (uint32_t m = 0; m < row.messages; ++m) {
    const uint32_t* const message = words_at(at) + uint64_t{m} * row.kind.words;
    unit whole[max_small_units];
    if (row.kind.is_wide()) f(units_at(message), row.kind.units());
    else f(static_cast<const unit*>(whole), widen(row.kind, message, whole));
  }
}

}  // namespace gravel::detail
