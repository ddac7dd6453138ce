// Strassen's multiplication of square matrices: seven products of half the size, whose leaves are some ten thousand
// instructions of a warp ("Fine-grain Task Aggregation and Coordination on GPUs", ISCA 2014, section 6). The program
// runs it as a task graph on channels (strassen_tasks.cuh), and by hand with persistent warps
// (bench/rivals/strassen_threads.cuh). Elements are -1, 0 and 1, so that all sums are exact. The oracle is the product
// by definition, or, for more than 512 rows, its products with some vectors.
#include <algorithm>
#include <cmath>

#include <gravel/device_array.hpp>
#include "bench/rivals/strassen_threads.cuh"
#include "examples/common/mix.hpp"
#include "examples/taskgraph/strassen_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;
using gravel::device_array;

constexpr const char* program_name = "strassen";

std::vector<float> random_matrix(uint32_t n, uint64_t seed) {
  std::vector<float> m(uint64_t{n} * n);
  for (uint64_t i = 0; i < m.size(); ++i) m[i] = static_cast<float>(pick(mix(seed << 40 | i), 3)) - 1;
  return m;
}
/// The first rows and columns of a matrix, `to` of them each; behind the matrix are zeroes.
std::vector<float> resized(const std::vector<float>& m, uint64_t from, uint64_t to) {
  std::vector<float> result(to * to);
  for (uint64_t i = 0; i < std::min(from, to); ++i)
    std::copy_n(m.begin() + static_cast<std::ptrdiff_t>(i * from), std::min(from, to),
                result.begin() + static_cast<std::ptrdiff_t>(i * to));
  return result;
}

/// What a product must be. Exactly: all sums of the recursion are integers below 2^24.
class oracle {
 public:
  oracle(uint32_t n, const std::vector<float>& a, const std::vector<float>& b) : n_(n) {
    if (n_ <= 512) {
      product_.resize(a.size());
      for (uint64_t i = 0; i < n; ++i)
        for (uint64_t k = 0; k < n; ++k)
          for (uint64_t j = 0; j < n; ++j) product_[i * n + j] += a[i * n + k] * b[k * n + j];
    } else {
      vectors_.resize(uint64_t{n_} * columns);
      for (uint64_t i = 0; i < vectors_.size(); ++i) vectors_[i] = static_cast<int64_t>(mix(i) >> 50);
      expected_ = times(a, times(b, vectors_));
    }
  }
  /// Nothing, if it is right. One that is wrong passes as the product with vectors of random factors once in 2^56.
  std::string mistake_in(const std::vector<float>& c) const {
    for (float f : c)
      if (!(std::abs(f) < 1 << 24) || f != std::trunc(f)) return "an element is no integer below 2^24";
    const bool is_right = n_ <= 512 ? c == product_ : times(c, vectors_) == expected_;
    return is_right ? "" : "the product is another one";
  }

 private:
  static constexpr uint64_t columns = 4;
  std::vector<int64_t> times(const std::vector<float>& m, const std::vector<int64_t>& x) const {
    std::vector<int64_t> y(x.size());
    for (uint64_t i = 0; i < n_; ++i)
      for (uint64_t k = 0; k < n_; ++k)
        for (uint64_t j = 0; j < columns; ++j)
          y[i * columns + j] += static_cast<int64_t>(m[i * n_ + k]) * x[k * columns + j];
    return y;
  }

  uint64_t n_;
  std::vector<float> product_;
  std::vector<int64_t> vectors_, expected_;
};

struct strassen_options : task_graph_program_options {
  uint32_t n = GRAVEL_CUDA ? 512 : 128, seed = 1;
  uint32_t padded = 0;  ///< rows and columns with zeroes: a leaf's, doubled
  strassen_matrices all{};
  uint64_t below = 0;  ///< elements of all matrices below the root

  strassen_options() {
    all.leaf = GRAVEL_CUDA ? 64 : 32;
    all.piece = 1024;
    graph.capacity = GRAVEL_CUDA ? 262113 : 4065;
    graph.local_levels = 0;
  }
  void add_options(command_line& line) {
    line.add_option("--n", n, "Rows and columns; zeroes are added up to the next power of two times the leaf's")
        .range(1u, 16384u)
        .capture_default_str();
    line.add_option("--leaf", all.leaf,
                    "The base case, which a warp multiplies as it is defined: 16 (as in the paper), 32, 64, 128 or 256 "
                    "rows and columns")
        .one_of({16u, 32u, 64u, 128u, 256u})
        .capture_default_str();
    line.add_option("--piece", all.piece, "Elements of a quadrant that a warp adds at once")
        .range(32u, 1u << 24)
        .capture_default_str();
    line.add_option("--seed", seed, "Of the matrices").capture_default_str();
    add_common_options(line);
  }
  void check(const command_line& line) {
    uint32_t levels = 0;  // above the leaves
    for (padded = all.leaf; padded < n; padded *= 2) ++levels;
    if (levels > most_levels) fail_text("--n: a leaf's rows and columns doubled up to 8 times: choose a larger --leaf");
    uint64_t nodes = 1;
    for (uint32_t level = 0, rows = padded; level < levels; ++level, nodes *= 7, rows /= 2) {
      all.first[level] = below;
      below += nodes * 21 * (rows / 2) * (rows / 2);
    }
    // The parts and the children of a node are two levels deeper, so fewer channels are polled.
    if (line.count("--max-depth") == 0) graph.max_depth = 2 * levels + 1;
  }
};

bool run(const strassen_options& o, fact_list& facts) {
  facts = {
      {"program", program_name}, {"backend", gravel_backend()}, {"n", uint64_t{o.n}}, {"leaf", uint64_t{o.all.leaf}}};
  bool right = true;
  if (gravel_my_pe() == 0)
    std::printf("matrices of %u x %u, with zeroes %u x %u, leaves of %u, %s backend\n", o.n, o.n, o.padded, o.padded,
                o.all.leaf, gravel_backend());
  all_succeed(program_name, [&] {
    const std::vector<float> a = random_matrix(o.n, o.seed), b = random_matrix(o.n, o.seed + 1);
    const oracle expected(o.n, a, b);
    std::vector<float> found(uint64_t{o.padded} * o.padded);
    const device_array<float> on_device_a(resized(a, o.n, o.padded)), on_device_b(resized(b, o.n, o.padded));
    device_array<float> c(found.size()), temporaries(o.below + 1);
    strassen_matrices all = o.all;
    all.root = {on_device_a.data(), on_device_b.data(), c.data(), o.padded};
    all.below = temporaries.data();
    const std::vector<float> poison(found.size(), 0.5f);
    const auto prepare = [&] { gravel_copy(c.data(), poison.data(), poison.size() * 4); };
    const auto check = [&] {
      gravel_copy(found.data(), c.data(), found.size() * 4);
      return expected.mistake_in(resized(found, o.padded, o.n));
    };
    if (o.has("tasks")) {
      strassen_tasks::graph graph(all, o.graph);
      right &= run_and_report(
          o, "tasks", facts, prepare, [&] { strassen_tasks::run(graph, all.is_leaf(0)); }, check);
      report_counts(graph, facts);
    }
    if (o.has("threads")) {
      strassen_threads::program by_hand(all);
      right &= run_and_report(
          o, "threads", facts, prepare, [&] { by_hand.run(o.blocks_by_hand(), o.threads); }, check);
    }
  });
  return end_of_run(right, facts);
}

int main(int argc, char** argv) {
  return run_application(
      {program_name,
       "Strassen's multiplication of square matrices, each call, each leaf and each piece of a sum a task."},
      argc, argv, strassen_options{}, run);
}
