// Lists of layers that are trained: how many numbers each one's gradient has, and how much is computed for it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/error.hpp"

namespace gravel_bench {
using namespace gravel::detail;

struct training_layer {
  uint64_t elements;  ///< of its gradient
  double products;    ///< multiplications of its forward computation, for each sample; of full layers as many as it has
                      ///< weights
};

struct training_list {
  std::string name;
  uint32_t samples;  ///< at each PE, in a step: so many that computing takes about as long as reducing, where it is
                     ///< hardest to hide
  std::vector<training_layer> layers;  ///< from first to last; gradients come from last to first

  uint64_t elements() const {
    uint64_t all = 0;
    for (const training_layer& l : layers) all += l.elements;
    return all;
  }
  /// Backward: the gradient of the weights, and that of what goes in; two operations for each product.
  double operations(const training_layer& l) const { return 4.0 * samples * l.products; }
};

/// LeNet-300-100: LeCun et al., "Gradient-based learning applied to document recognition", 1998. Weights and biases of
/// a layer are one gradient.
inline training_list digits_network() {
  training_list list{"digits", 128, {}};
  const uint64_t widths[] = {784, 300, 100, 10};
  for (int l = 0; l < 3; ++l)
    list.layers.push_back({(widths[l] + 1) * widths[l + 1], static_cast<double>(widths[l] * widths[l + 1])});
  return list;
}

/// ResNet-50: He et al., "Deep residual learning for image recognition", 2016, table 1, with pictures of 224 x 224: 53
/// convolutions, each with a normalization of two numbers for each channel, and a full layer: 25557032 numbers in all.
inline training_list resnet50() {
  training_list list{"resnet50", 1, {}};
  const auto convolution = [&](uint64_t in, uint64_t out, uint64_t width, uint64_t side) {
    list.layers.push_back({in * out * width * width, static_cast<double>(in * out * width * width * side * side)});
    list.layers.push_back({2 * out, static_cast<double>(out * side * side)});
  };
  convolution(3, 64, 7, 112);
  const uint64_t blocks[] = {3, 4, 6, 3};
  uint64_t in = 64;
  for (uint64_t stage = 0; stage < 4; ++stage) {
    const uint64_t narrow = uint64_t{64} << stage, wide = 4 * narrow, side = 56 >> stage;
    for (uint64_t b = 0; b < blocks[stage]; ++b) {
      const uint64_t side_before = b == 0 && stage > 0 ? 2 * side : side;
      convolution(in, narrow, 1, side_before);
      convolution(narrow, narrow, 3, side);
      convolution(narrow, wide, 1, side);
      if (b == 0) convolution(in, wide, 1, side);
      in = wide;
    }
  }
  list.layers.push_back({2048 * 1000 + 1000, 2048.0 * 1000});
  return list;
}

/// Four of the 24 blocks of BERT large: Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019:
/// width 1024, 4096 inside. A sample is a token. What attention computes besides its four products with weights is left
/// out.
inline training_list transformer() {
  training_list list{"transformer", 128, {}};
  constexpr uint64_t width = 1024, inside = 4096;
  const auto full = [&](uint64_t in, uint64_t out) {
    list.layers.push_back({(in + 1) * out, static_cast<double>(in * out)});
  };
  for (int b = 0; b < 4; ++b) {
    for (int k = 0; k < 4; ++k) full(width, width);  // query, key, value, output
    list.layers.push_back({2 * width, 8.0 * width});
    full(width, inside);
    full(inside, width);
    list.layers.push_back({2 * width, 8.0 * width});
  }
  return list;
}

/// `name`: digits, resnet50, transformer, or LAYERSxBYTES: full layers of one size.
inline training_list training_list_of(const std::string& name) {
  if (name == "digits") return digits_network();
  if (name == "resnet50") return resnet50();
  if (name == "transformer") return transformer();
  const size_t x = name.find('x');
  const auto number = [&](const std::string& text) -> uint64_t {
    if (text.empty() || text.size() > 12 || text.find_first_not_of("0123456789") != text.npos) return 0;
    return std::stoull(text);
  };
  const uint64_t layers = x == name.npos ? 0 : number(name.substr(0, x)),
                 bytes = x == name.npos ? 0 : number(name.substr(x + 1));
  if (layers < 1 || layers > 4096 || bytes < 4)
    fail_text(
        "--lists: '" + name +
        "' is none of digits, resnet50, transformer, and not LAYERSxBYTES with 1 to 4096 layers of 4 bytes or more");
  return {name, 128, std::vector<training_layer>(layers, {bytes / 4, static_cast<double>(bytes) / 4})};
}

}  // namespace gravel_bench
