// Matrices of the recursion, and what a warp does with some of their elements at once: the leaves, which both versions
// have in common. Strassen's seven products of quadrants:
//   0: (A11 + A22)(B11 + B22)   1: (A21 + A22) B11   2: A11 (B12 - B22)   3: A22 (B21 - B11)
//   4: (A11 + A12) B22          5: (A21 - A11)(B11 + B12)                 6: (A12 - A22)(B21 + B22)
//   C11 = 0 + 3 - 4 + 6   C12 = 2 + 4   C21 = 1 + 3   C22 = 0 - 1 + 2 + 5
#pragma once
#include <cstdint>

#include <gravel/gravel.cuh>

constexpr uint32_t most_levels = 8, most_parts = GRAVEL_CUDA ? 1024 : 32;

/// Square and row by row: factors and product of one node.
struct strassen_node {
  const float *a, *b;
  float* c;
  uint32_t n;
};

/// Node `index` of level l, from 0 to 7^l - 1, multiplies matrices of n >> l; seven others are below it. What they have
/// lies together.
struct strassen_matrices {
  strassen_node root;
  float* below;                 ///< factors and products of levels 1 and up
  uint64_t first[most_levels];  ///< of each level, where in `below` those of its nodes' children begin
  uint32_t leaf;                ///< matrices that a warp multiplies at once: a power of two, at least 16
  uint32_t piece;               ///< elements of a quadrant that a warp adds at once

  /// The seven of one node: 7 first factors, 7 second ones, 7 products.
  GRAVEL_BOTH float* children_of(uint32_t level, uint32_t index) const {
    const uint64_t quadrant = uint64_t{root.n >> (level + 1)} * (root.n >> (level + 1));
    return below + first[level] + index * 21 * quadrant;
  }
  GRAVEL_BOTH strassen_node node(uint32_t level, uint32_t index) const {
    if (level == 0) return root;
    const uint32_t n = root.n >> level;
    float* const at = children_of(level - 1, index / 7) + uint64_t{index % 7} * n * n;
    return {at, at + uint64_t{7} * n * n, at + uint64_t{14} * n * n, n};
  }
  GRAVEL_BOTH bool is_leaf(uint32_t level) const { return root.n >> level <= leaf; }
  /// Elements of a quadrant.
  GRAVEL_BOTH uint32_t quadrant(uint32_t level) const { return (root.n >> (level + 1)) * (root.n >> (level + 1)); }

  /// Parts into which the sums of a node go as tasks, and the first element of one.
  GRAVEL_BOTH uint32_t parts(uint32_t level) const {
    const uint32_t n = (quadrant(level) + piece - 1) / piece;
    return n < most_parts ? n : most_parts;
  }
  GRAVEL_BOTH uint32_t part_begin(uint32_t level, uint32_t number) const {
    return static_cast<uint32_t>(uint64_t{quadrant(level)} * number / parts(level));
  }

  /// The factors of the seven products, elements `begin` to `end` of each. Thread scope: warp.
  GRAVEL_DEVICE void divide(uint32_t level, uint32_t index, uint32_t begin, uint32_t end) const {
    const strassen_node self = node(level, index);
    const uint32_t h = self.n / 2, size = h * h;
    float* const to = children_of(level, index);
    for (uint32_t e = begin + threadIdx.x % 32; e < end; e += 32) {
      const uint32_t upper = e / h * self.n + e % h, lower = upper + h * self.n;
      const float a11 = self.a[upper], a12 = self.a[upper + h], a21 = self.a[lower], a22 = self.a[lower + h];
      const float b11 = self.b[upper], b12 = self.b[upper + h], b21 = self.b[lower], b22 = self.b[lower + h];
      const float factor[14] = {a11 + a22, a21 + a22, a11,       a22,       a11 + a12, a21 - a11, a12 - a22,
                                b11 + b22, b11,       b12 - b22, b21 - b11, b22,       b11 + b12, b21 + b22};
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 14; ++i) to[uint64_t{i} * size + e] = factor[i];
    }
  }
  /// The product, elements `begin` to `end` of each quadrant, out of the seven. Thread scope: warp.
  GRAVEL_DEVICE void combine(uint32_t level, uint32_t index, uint32_t begin, uint32_t end) const {
    const strassen_node self = node(level, index);
    const uint32_t h = self.n / 2, size = h * h;
    const float* const products = children_of(level, index) + uint64_t{14} * size;
    for (uint32_t e = begin + threadIdx.x % 32; e < end; e += 32) {
      float p[7];
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 7; ++i) p[i] = products[uint64_t{i} * size + e];
      const uint32_t upper = e / h * self.n + e % h, lower = upper + h * self.n;
      self.c[upper] = p[0] + p[3] - p[4] + p[6];
      self.c[upper + h] = p[2] + p[4];
      self.c[lower] = p[1] + p[3];
      self.c[lower + h] = p[0] - p[1] + p[2] + p[5];
    }
  }
  /// The product of a leaf, as it is defined: 32 x 32 elements at once, of which each lane has 4 x 8. Thread scope:
  /// warp.
  GRAVEL_DEVICE void multiply(uint32_t level, uint32_t index) const {
    const strassen_node self = node(level, index);
    if (self.n == 16) return multiply_16(self);
    const uint32_t row_of_lane = threadIdx.x % 32 / 4 * 4, column_of_lane = threadIdx.x % 4 * 8;
    for (uint32_t block = 0; block < self.n / 32 * (self.n / 32); ++block) {
      const uint32_t row = block / (self.n / 32) * 32 + row_of_lane,
                     column = block % (self.n / 32) * 32 + column_of_lane;
      float sum[4][8] = {};
      for (uint32_t k = 0; k < self.n; k += 4) {
        four a[4], b[4][2];
        GRAVEL_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          a[i] = *reinterpret_cast<const four*>(&self.a[(row + i) * self.n + k]);
          const auto* const from = reinterpret_cast<const four*>(&self.b[(k + i) * self.n + column]);
          b[i][0] = from[0];
          b[i][1] = from[1];
        }
#if GRAVEL_ON_GPU
        __syncwarp();  // all are on their way before the first is waited for, however many registers nvcc would save
#endif
        GRAVEL_UNROLL
        for (uint32_t i = 0; i < 4; ++i) GRAVEL_UNROLL
        for (uint32_t r = 0; r < 4; ++r) GRAVEL_UNROLL
        for (uint32_t c = 0; c < 8; ++c) sum[r][c] += a[r].at[i] * b[i][c / 4].at[c % 4];
      }
      GRAVEL_UNROLL
      for (uint32_t r = 0; r < 4; ++r) GRAVEL_UNROLL
      for (uint32_t c = 0; c < 8; ++c) self.c[(row + r) * self.n + column + c] = sum[r][c];
    }
  }

 private:
  struct alignas(16) four {
    float at[4];
  };
  /// The base case of the paper: of 16 x 16 elements each lane has 1 x 8. Thread scope: warp.
  GRAVEL_DEVICE static void multiply_16(const strassen_node& self) {
    const uint32_t row = threadIdx.x % 32 / 2, column = threadIdx.x % 2 * 8;
    float sum[8] = {};
    for (uint32_t k = 0; k < 16; k += 4) {
      const four a = *reinterpret_cast<const four*>(&self.a[row * 16 + k]);
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const auto* const b = reinterpret_cast<const four*>(&self.b[(k + i) * 16 + column]);
        GRAVEL_UNROLL
        for (uint32_t c = 0; c < 8; ++c) sum[c] += a.at[i] * b[c / 4].at[c % 4];
      }
    }
    GRAVEL_UNROLL
    for (uint32_t c = 0; c < 8; ++c) self.c[row * 16 + column + c] = sum[c];
  }
};
