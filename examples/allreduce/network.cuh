// A network of full layers with rectifiers, and a softmax behind the last one: what its kernels do to a PE's share of a
// batch.
//
// A batch is a number of shards. A gradient is summed shard by shard. As fixed-point numbers sums of shards do not
// depend on their order, so that any number of PEs gets the same bits; as float they are equal but for rounding.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <gravel/gravel.cuh>
#include "examples/allreduce/digits.hpp"

namespace app {
using gravel::fetch_add_release;
using gravel::load_acquire;
using gravel::relax;
using gravel::scope;

/// Output o is row o of the weights, its bias the last in the row.
struct layer_shape {
  uint32_t in, out;
  GRAVEL_BOTH uint64_t weights() const { return uint64_t{in + 1} * out; }
};

/// How gradients are added.
template <class G>
GRAVEL_BOTH G gradient_of(float sum) {
  if constexpr (std::is_same_v<G, float>) return sum;
  else return static_cast<G>(std::rint(static_cast<double>(sum) * 0x1p36));
}
template <class G>
GRAVEL_BOTH float value_of(G gradient) {
  if constexpr (std::is_same_v<G, float>) return gradient;
  else return static_cast<float>(static_cast<double>(gradient) * 0x1p-36);
}

constexpr uint32_t network_threads = GRAVEL_CUDA ? 128 : 32;

GRAVEL_DEVICE uint64_t first_item() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
GRAVEL_DEVICE uint64_t item_step() { return uint64_t{gridDim.x} * blockDim.x; }

static __global__ void draw_digits(float* x, uint32_t* labels, uint64_t seed, uint64_t first, uint32_t samples) {
  for (uint64_t i = first_item(); i < uint64_t{samples} * drawn_digit::pixels; i += item_step()) {
    const drawn_digit digit(seed, first + i / drawn_digit::pixels);
    x[i] = digit.pixel(static_cast<uint32_t>(i % drawn_digit::pixels));
    if (i % drawn_digit::pixels == 0) labels[i / drawn_digit::pixels] = digit.digit();
  }
}
static __global__ void forward(layer_shape l, const float* weights, const float* in, float* out, uint32_t samples,
                               bool rectifies) {
  for (uint64_t i = first_item(); i < uint64_t{samples} * l.out; i += item_step()) {
    const float* const row = weights + i % l.out * (l.in + 1);
    const float* const of = in + i / l.out * l.in;
    float sum = row[l.in];
    for (uint32_t k = 0; k < l.in; ++k) sum += row[k] * of[k];
    out[i] = rectifies && sum < 0 ? 0 : sum;
  }
}
/// Of the outputs of the last layer: how they should change, times `scale`; and for each sample its loss, and 1 if the
/// digit was recognized.
static __global__ void judge(const float* outputs, const uint32_t* labels, float* delta, float* judged, uint32_t n,
                             uint32_t samples, float scale) {
  for (uint64_t s = first_item(); s < samples; s += item_step()) {
    const float* const of = outputs + s * n;
    uint32_t best = 0;
    for (uint32_t k = 1; k < n; ++k)
      if (of[k] > of[best]) best = k;
    float sum = 0;
    for (uint32_t k = 0; k < n; ++k) sum += std::exp(of[k] - of[best]);
    for (uint32_t k = 0; k < n; ++k)
      delta[s * n + k] = scale * (std::exp(of[k] - of[best]) / sum - (k == labels[s] ? 1.0f : 0.0f));
    judged[2 * s] = std::log(sum) + of[best] - of[labels[s]];
    judged[2 * s + 1] = best == labels[s] ? 1.0f : 0.0f;
  }
}
/// How the layer's inputs should change: where they were rectified, not.
static __global__ void backward(layer_shape l, const float* weights, const float* delta, const float* in,
                                float* delta_in, uint32_t samples) {
  for (uint64_t i = first_item(); i < uint64_t{samples} * l.in; i += item_step()) {
    const float* const of = delta + i / l.in * l.out;
    float sum = 0;
    for (uint32_t k = 0; k < l.out; ++k) sum += weights[uint64_t{k} * (l.in + 1) + i % l.in] * of[k];
    delta_in[i] = in[i] > 0 ? sum : 0;
  }
}
/// The gradient of the layer's weights over this PE's samples; behind it, if `judged`, their loss and how many were
/// recognized. `ready` rises by one for each block when all is written.
template <class G>
__global__ void sum_gradient(layer_shape l, const float* delta, const float* in, const float* judged, G* gradient,
                             uint32_t samples, uint32_t shard, uint64_t* ready) {
  const uint64_t weights = l.weights(), all = weights + (judged ? 2 : 0);
  for (uint64_t i = first_item(); i < all; i += item_step()) {
    const auto row = static_cast<uint32_t>(i / (l.in + 1)), column = static_cast<uint32_t>(i % (l.in + 1));
    G sum{};
    for (uint32_t first = 0; first < samples; first += shard) {
      float part = 0;
      for (uint32_t s = first; s < first + shard; ++s) {
        if (i >= weights) part += judged[2 * s + (i - weights)];
        else part += delta[uint64_t{s} * l.out + row] * (column < l.in ? in[uint64_t{s} * l.in + column] : 1.0f);
      }
      sum += gradient_of<G>(part);
    }
    gradient[i] = sum;
  }
  __syncthreads();  // what the others of the block wrote, this release covers
  if (threadIdx.x == 0) fetch_add_release<scope::device>(ready, uint64_t{1});  // the reduction's kernel waits for it
}
/// history: where the loss and the hits of this step go, of the last layer.
template <class G>
__global__ void change_weights(float* weights, const G* gradient, uint64_t n, float rate, float* history) {
  for (uint64_t i = first_item(); i < n; i += item_step()) weights[i] -= rate * value_of(gradient[i]);
  if (history && first_item() < 2) history[first_item()] = value_of(gradient[n + first_item()]);
}
/// Lets the stream's next kernels wait for a signal.
static __global__ void await(const uint64_t* signal, uint64_t value) {
  for (relax wait; load_acquire(signal) < value; wait.attentively()) {
  }
}

}  // namespace app
