// zipf: random ranks with frequencies of Zipf's law.
#pragma once
#include <cmath>
#include <cstdint>

#include "examples/common/mix.hpp"

namespace app {

/// Ranks 1 ... n with probabilities in proportion to rank ^ -exponent, by rejection-inversion (Hörmann and Derflinger,
/// 1996): no tables. Exponent 0: all alike.
class zipf {
 public:
  GRAVEL_BOTH zipf(uint64_t n, double exponent) : n_(static_cast<double>(n)), s_(exponent) {
    lower_ = area(1.5) - 1;
    upper_ = area(n_ + 0.5);
    sure_ = 2 - inverse(area(2.5) - density(2));
  }
  /// `seed`: another for each draw.
  GRAVEL_BOTH uint64_t draw(uint64_t seed) const {
    for (;; seed = mix(seed + 1)) {
      const double u = upper_ + static_cast<double>(mix(seed) >> 11) * 0x1p-53 * (lower_ - upper_), x = inverse(u);
      double k = floor(x + 0.5);
      if (k < 1) k = 1;
      else if (k > n_) k = n_;
      if (k - x <= sure_ || u >= area(k + 0.5) - density(k)) return static_cast<uint64_t>(k);
    }
  }

 private:
  GRAVEL_BOTH double density(double x) const { return exp(-s_ * log(x)); }
  /// The integral of the density.
  GRAVEL_BOTH double area(double x) const { return s_ == 1 ? log(x) : expm1((1 - s_) * log(x)) / (1 - s_); }
  GRAVEL_BOTH double inverse(double a) const { return s_ == 1 ? exp(a) : exp(log1p(a * (1 - s_)) / (1 - s_)); }
  double n_, s_, lower_, upper_, sure_;
};

}  // namespace app
