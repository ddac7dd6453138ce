// The gradient of one step, by one processor, in double: what the PEs' gradients are compared with.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "examples/allreduce/digits.hpp"

namespace app {

struct serial_step {
  std::vector<std::vector<double>> gradient;  ///< of each layer
  double loss = 0;                            ///< mean
};

/// widths[l], widths[l + 1]: inputs and outputs of layer l. weights[l]: as layer_shape says.
inline serial_step step_of(const std::vector<uint32_t>& widths, const std::vector<std::vector<float>>& weights,
                           uint64_t seed, uint64_t first, uint32_t samples) {
  const size_t layers = weights.size();
  serial_step result;
  for (const auto& w : weights) result.gradient.emplace_back(w.size());
  for (uint32_t s = 0; s < samples; ++s) {
    const drawn_digit digit(seed, first + s);
    std::vector<std::vector<double>> a(layers + 1), delta(layers + 1);
    for (uint32_t p = 0; p < drawn_digit::pixels; ++p) a[0].push_back(digit.pixel(p));
    for (size_t l = 0; l < layers; ++l)
      for (uint32_t o = 0; o < widths[l + 1]; ++o) {
        const float* const row = &weights[l][o * size_t{widths[l] + 1}];
        double sum = row[widths[l]];
        for (uint32_t i = 0; i < widths[l]; ++i) sum += row[i] * a[l][i];
        a[l + 1].push_back(l + 1 < layers ? std::max(sum, 0.0) : sum);
      }
    const double most = *std::max_element(a[layers].begin(), a[layers].end());
    double sum = 0;
    for (const double x : a[layers]) sum += std::exp(x - most);
    result.loss += (std::log(sum) + most - a[layers][digit.digit()]) / samples;
    for (uint32_t o = 0; o < widths[layers]; ++o)
      delta[layers].push_back((std::exp(a[layers][o] - most) / sum - (o == digit.digit() ? 1.0 : 0.0)) / samples);
    for (size_t l = layers; l-- > 0;) {
      delta[l].resize(widths[l]);
      for (uint32_t o = 0; o < widths[l + 1]; ++o) {
        const size_t row = o * size_t{widths[l] + 1};
        for (uint32_t i = 0; i < widths[l]; ++i) {
          result.gradient[l][row + i] += delta[l + 1][o] * a[l][i];
          delta[l][i] += a[l][i] > 0 ? delta[l + 1][o] * weights[l][row + i] : 0;
        }
        result.gradient[l][row + widths[l]] += delta[l + 1][o];
      }
    }
  }
  return result;
}

}  // namespace app
