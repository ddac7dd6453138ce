// Steps of sparse optimizers: the kernel of gravel::row_optimizer, and of embedding tables in Python.
//
// Problem. PEs have gradients for rows of a table that lie anywhere, several of them for one row. The step of an
// optimizer is not linear in the gradient, so a row needs the sum of all its gradients first, and then one step.
//
// Solution. Beside the table lie a table of gradients and one of marks, dealt alike. PEs add to both. When all these
// messages are applied, each PE makes the step for its rows that have a mark, and sets their gradients and marks to 0.
//
// A block looks at the marks of some rows at once, and lists those that have one. Then its lanes share the list.
#pragma once
#include <cmath>
#include <cstdint>

#include "host/launch_alone.cuh"
#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

/// Optimizers. g: the gradient of an element; w: the element; m and s: its state; mean: of all elements of a row.
///
///   sgd              w -= rate * g
///   adagrad          s += g * g;  w -= rate * g / (sqrt(s) + eps)
///   rowwise_adagrad  the same with one s for each row: s += mean(g * g)
///   adam             m = beta1 * m + (1 - beta1) * g;  s = beta2 * s + (1 - beta2) * g * g;  t: number of the step
///                    w -= rate * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + eps)
///   rowwise_adam     the same with one s for each row: s = beta2 * s + (1 - beta2) * mean(g * g)
enum class optimizer : uint32_t { sgd, adagrad, rowwise_adagrad, adam, rowwise_adam };

GRAVEL_BOTH constexpr bool has_moment(optimizer how) {
  return how == optimizer::adam || how == optimizer::rowwise_adam;
}
GRAVEL_BOTH constexpr bool is_rowwise(optimizer how) {
  return how == optimizer::rowwise_adagrad || how == optimizer::rowwise_adam;
}

/// What a step of an optimizer uses.
/// @source PyTorch: torch.optim.Adam
struct optimizer_settings {
  double learning_rate = 0.01;
  double eps = 1e-8;                  ///< what is added to the divisor
  double beta1 = 0.9, beta2 = 0.999;  ///< how much of m and s a step of Adam keeps
};

/// The tables of an optimizer at one PE. Row r of each is at place r.
template <class T>
struct step_memory {
  T* rows;          ///< [count][width]
  T* gradients;     ///< [count][width]
  uint32_t* marks;  ///< [count]: not 0 if the row has a gradient
  T* moments;       ///< [count][width]: m; nullptr without
  T* squares;       ///< [count][width], or [count] if the optimizer is row-wise: s; nullptr without
  uint64_t count, width;
};
/// The numbers of one step, in the type of the elements.
template <class T>
struct step_numbers {
  T rate, eps, beta1, beta2;
  T share1, share2;  ///< 1 - beta1, 1 - beta2, computed in double: the difference in float has few bits
  T moment_weight = 1, squares_weight = 1;  ///< 1 - beta1^t, 1 - beta2^t

  /// `step`: t, from 1.
  step_numbers(const optimizer_settings& by, uint64_t step)
      : rate(static_cast<T>(by.learning_rate)),
        eps(static_cast<T>(by.eps)),
        beta1(static_cast<T>(by.beta1)),
        beta2(static_cast<T>(by.beta2)),
        share1(static_cast<T>(1 - by.beta1)),
        share2(static_cast<T>(1 - by.beta2)),
        moment_weight(static_cast<T>(1 - std::pow(by.beta1, static_cast<double>(step)))),
        squares_weight(static_cast<T>(1 - std::pow(by.beta2, static_cast<double>(step)))) {}
};

/// Lanes that share a row. On the CPU backend one thread runs all lanes of a block.
constexpr uint32_t lanes_of_step = GRAVEL_CUDA ? 32 : 1;
/// Marks that a lane reads at once.
constexpr uint32_t marks_of_lane = 4;

/// Returns s behind the step, where `square` is g * g or its mean.
template <optimizer HOW, class T>
GRAVEL_DEVICE T next_squares(const step_numbers<T>& by, T squares, T square) {
  if constexpr (has_moment(HOW)) return by.beta2 * squares + by.share2 * square;
  else return squares + square;
}
/// Returns the divisor of the step.
template <optimizer HOW, class T>
GRAVEL_DEVICE T step_divisor(const step_numbers<T>& by, T squares) {
  if constexpr (has_moment(HOW)) return std::sqrt(squares / by.squares_weight) + by.eps;
  else return std::sqrt(squares) + by.eps;
}
/// Changes s of a row that has one, and returns the divisor of its step. Thread scope: the lanes that share the row.
template <optimizer HOW, class T>
GRAVEL_DEVICE T step_squares_of_row(const step_memory<T>& at, const step_numbers<T>& by, uint64_t row, uint32_t lane) {
  const T* const gradient = at.gradients + row * at.width;
  T sum = 0;
  for (uint64_t i = lane; i < at.width; i += lanes_of_step) sum += gradient[i] * gradient[i];
  for (uint32_t step = lanes_of_step / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, static_cast<int>(step));
  T found = 0;
  if (lane == 0) {
    const T squares = next_squares<HOW>(by, at.squares[row], sum / static_cast<T>(at.width));
    at.squares[row] = squares;
    found = step_divisor<HOW>(by, squares);
  }
  if constexpr (lanes_of_step > 1) found = __shfl_sync(~0u, found, 0);
  return found;
}
/// Makes the step of a row. Thread scope: the lanes that share the row.
template <optimizer HOW, class T>
GRAVEL_DEVICE void step_row(const step_memory<T>& at, const step_numbers<T>& by, uint64_t row) {
  const uint32_t lane = threadIdx.x % lanes_of_step;
  T by_row = 1;
  if constexpr (is_rowwise(HOW)) by_row = step_squares_of_row<HOW>(at, by, row, lane);
  for (uint64_t i = row * at.width + lane; i < (row + 1) * at.width; i += lanes_of_step) {
    const T gradient = at.gradients[i];
    at.gradients[i] = 0;
    T change = gradient, divided_by = by_row;
    if constexpr (has_moment(HOW)) {
      const T moment = by.beta1 * at.moments[i] + by.share1 * gradient;
      at.moments[i] = moment;
      change = moment / by.moment_weight;
    }
    if constexpr (HOW == optimizer::adagrad || HOW == optimizer::adam) {
      const T squares = next_squares<HOW>(by, at.squares[i], gradient * gradient);
      at.squares[i] = squares;
      divided_by = step_divisor<HOW>(by, squares);
    }
    if constexpr (HOW != optimizer::sgd) change /= divided_by;
    at.rows[i] -= by.rate * change;
  }
}

/// Makes the step of all rows that have a mark.
template <optimizer HOW, class T>
__global__ void __launch_bounds__(row_lanes) step_rows(step_memory<T> at, step_numbers<T> by) {
  constexpr uint64_t rows_of_block = uint64_t{row_lanes} * marks_of_lane;
  __shared__ uint32_t listed, list[rows_of_block];
  for (uint64_t first = blockIdx.x * rows_of_block; first < at.count; first += gridDim.x * rows_of_block) {
    if (threadIdx.x == 0) store_relaxed<scope::shared>(&listed, 0u);
    __syncthreads();
    uint32_t mark[marks_of_lane] = {};
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < marks_of_lane; ++k) {
      const uint64_t row = first + k * row_lanes + threadIdx.x;
      if (row < at.count) mark[k] = at.marks[row];
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < marks_of_lane; ++k) {
      if (!mark[k]) continue;
      const uint32_t place = k * row_lanes + threadIdx.x;
      at.marks[first + place] = 0;
      list[fetch_add<scope::shared>(&listed, 1u)] = place;
    }
    __syncthreads();
    const uint32_t rows = load_relaxed<scope::shared>(&listed);
    for (uint32_t i = threadIdx.x / lanes_of_step; i < rows; i += row_lanes / lanes_of_step)
      step_row<HOW>(at, by, first + list[i]);
    __syncthreads();  // all lanes have read the list
  }
}

/// Starts the step of this PE's rows.
template <class T>
void start_step(optimizer how, const step_memory<T>& at, const step_numbers<T>& by, gravel_stream_t stream) {
  if (at.count == 0) return;
  constexpr uint64_t rows_of_block = uint64_t{row_lanes} * marks_of_lane;
  const uint64_t blocks = (at.count + rows_of_block - 1) / rows_of_block;
  gravel_launch_config shape{static_cast<unsigned>(std::min(blocks, most_row_blocks())), row_lanes};
  shape.stream = stream;
  switch (how) {
    case optimizer::sgd: return launch_alone(step_rows<optimizer::sgd, T>, shape, at, by);
    case optimizer::adagrad: return launch_alone(step_rows<optimizer::adagrad, T>, shape, at, by);
    case optimizer::rowwise_adagrad: return launch_alone(step_rows<optimizer::rowwise_adagrad, T>, shape, at, by);
    case optimizer::adam: return launch_alone(step_rows<optimizer::adam, T>, shape, at, by);
    case optimizer::rowwise_adam: return launch_alone(step_rows<optimizer::rowwise_adam, T>, shape, at, by);
  }
}

}  // namespace gravel::detail
