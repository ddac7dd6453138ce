// Keys drawn from a Zipf distribution, in an array on the device: drawing them costs more than many a critical section.
#pragma once
#include <cmath>
#include <cstdint>

#include <gravel/gravel.cuh>
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

/// What keys a PE calls for.
struct key_source {
  uint64_t keys;
  double exponent;
  uint64_t seed;
  uint32_t n_pes, my_pe;
  bool own;  ///< of this PE alone

  GRAVEL_BOTH uint32_t key(const zipf& ranks, uint64_t i) const {
    const uint64_t rank = ranks.draw(mix(seed ^ mix(i))) - 1;
    const uint64_t n = among();
    const uint64_t number = rank * 0x9e3779b1u % n;  // keys that are often drawn do not lie together
    return static_cast<uint32_t>(own ? number * n_pes + my_pe : number);
  }
  GRAVEL_BOTH uint64_t among() const { return own ? (keys - my_pe + n_pes - 1) / n_pes : keys; }
};

template <class Source>
__global__ void draw_keys(Source from, uint32_t* keys, uint64_t n) {
  const zipf ranks(from.among(), from.exponent);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) keys[i] = from.key(ranks, i);
}

}  // namespace app
