// Lookups in a memory of n-grams, as language models have them ("Engram"): each token of a step reads the rows that the
// hashes of the last two and three tokens name. The ids do not depend on the model's layers, so the lookups run in a
// side stream, beside the product of matrices that stands for the layers in front of the memory. A kernel behind both
// adds up the rows of each token. Three times are measured: the layers alone, the lookups alone, and both; what both
// take longer than the layers alone is exposed on the critical path. The sums of the last step are checked, and the
// product.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/launch_alone.cuh>
#include <gravel/table.cuh>
#include "examples/common/mix.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/zipf.hpp"

using gravel::device_array;

constexpr const char* program_name = "engram";
constexpr uint32_t row_words = 66;  // 264 bytes: 256 numbers of 8 bits, and their scales
constexpr uint32_t most_order = 3;  // tokens of the longest n-gram

/// Where the rows of a token lie: `heads` hashes of its last two tokens, and as many of its last three.
struct ngram_memory {
  uint64_t rows;
  uint32_t heads;

  GRAVEL_BOTH uint32_t rows_of_token() const { return (most_order - 1) * heads; }
  /// @param last the token; the ones before it lie in front of it
  /// @param which 0 to rows_of_token() - 1
  GRAVEL_BOTH uint32_t row(const uint32_t* last, uint32_t which) const {
    uint64_t hash = app::mix(which);
    for (uint32_t back = 0; back < 2 + which / heads; ++back) hash = app::mix(hash + *(last - back));
    return static_cast<uint32_t>(hash % rows);
  }
};
GRAVEL_BOTH uint32_t word_of(uint64_t row, uint64_t place) {
  return static_cast<uint32_t>(app::mix(row * row_words + place));
}

GRAVEL_DEVICE uint64_t first_item() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
GRAVEL_DEVICE uint64_t item_step() { return uint64_t{gridDim.x} * blockDim.x; }

/// The rows are dealt one by one.
__global__ void fill_rows(uint32_t* own, uint64_t rows, uint64_t me, uint64_t n_pes) {
  for (uint64_t i = first_item(); i < rows * row_words; i += item_step())
    own[i] = word_of(i / row_words * n_pes + me, i % row_words);
}
__global__ void draw_tokens(uint32_t* tokens, uint64_t n, uint64_t vocabulary, double exponent, uint64_t salt) {
  const app::zipf ranks(vocabulary, exponent);
  for (uint64_t i = first_item(); i < n; i += item_step())
    tokens[i] = static_cast<uint32_t>(ranks.draw(app::mix(salt + i)));
}
/// `tokens`: of a step, behind those of the n-grams that reach into the step before.
__global__ void name_rows(ngram_memory memory, const uint32_t* tokens, uint64_t n, uint32_t* ids) {
  const uint32_t each = memory.rows_of_token();
  for (uint64_t i = first_item(); i < n * each; i += item_step())
    ids[i] = memory.row(tokens + i / each, static_cast<uint32_t>(i % each));
}
/// sums[token][word] = sum over the token's rows.
__global__ void add_up_rows(const uint32_t* rows, uint32_t rows_of_token, uint64_t tokens, uint32_t* sums) {
  for (uint64_t i = first_item(); i < tokens * row_words; i += item_step()) {
    const uint32_t* const from = rows + i / row_words * rows_of_token * row_words + i % row_words;
    uint32_t sum = 0;
    for (uint32_t r = 0; r < rows_of_token; ++r) sum += from[uint64_t{r} * row_words];
    sums[i] = sum;
  }
}

// Row i of the first matrix has one value in all columns; column j of the second one in all rows.
GRAVEL_BOTH float first_factor(uint64_t row) { return static_cast<float>(row % 3) - 1; }
GRAVEL_BOTH float second_factor(uint64_t column) { return static_cast<float>(column % 5); }
__global__ void fill_factors(float* a, float* b, uint64_t n) {
  for (uint64_t i = first_item(); i < n * n; i += item_step()) {
    a[i] = first_factor(i / n);
    b[i] = second_factor(i % n);
  }
}
constexpr uint32_t tile = 64, tile_depth = 16, tile_lanes = 256;
/// c = a * b, of n rows and columns, a multiple of `tile`. A block computes a tile of c; each lane 4 by 4 elements.
__global__ void __launch_bounds__(tile_lanes) multiply(const float* a, const float* b, float* c, uint64_t n) {
  __shared__ float left[tile_depth][tile + 1], right[tile_depth][tile];
  const uint32_t x = threadIdx.x % 16, y = threadIdx.x / 16;
  const uint64_t first_row = uint64_t{blockIdx.y} * tile, first_column = uint64_t{blockIdx.x} * tile;
  float sums[4][4] = {};
  for (uint64_t begin = 0; begin < n; begin += tile_depth) {
    for (uint32_t i = threadIdx.x; i < tile * tile_depth; i += tile_lanes) {
      left[i % tile_depth][i / tile_depth] = a[(first_row + i / tile_depth) * n + begin + i % tile_depth];
      right[i / tile][i % tile] = b[(begin + i / tile) * n + first_column + i % tile];
    }
    __syncthreads();
    for (uint32_t k = 0; k < tile_depth; ++k)
      for (uint32_t i = 0; i < 4; ++i)
        for (uint32_t j = 0; j < 4; ++j) sums[i][j] += left[k][y * 4 + i] * right[k][j * 16 + x];
    __syncthreads();
  }
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t j = 0; j < 4; ++j) c[(first_row + y * 4 + i) * n + first_column + j * 16 + x] = sums[i][j];
}

/// The place in a stream for which another one waits.
class stream_mark {
 public:
#if GRAVEL_CUDA
  stream_mark() { cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); }
  ~stream_mark() { cudaEventDestroy(event_); }
  void record(gravel_stream_t stream) { cudaEventRecord(event_, stream); }
  /// What comes into the stream from now on begins when the marked place is reached; nothing was marked: at once.
  void let_wait(gravel_stream_t stream) const { cudaStreamWaitEvent(stream, event_, 0); }
#else
  stream_mark() = default;
  void record(gravel_stream_t stream) { marked_ = stream; }
  void let_wait(gravel_stream_t) const {
    if (marked_) gravel_stream_synchronize(marked_);
  }
#endif
  stream_mark(const stream_mark&) = delete;

 private:
#if GRAVEL_CUDA
  cudaEvent_t event_ = nullptr;
#else
  gravel_stream_t marked_ = nullptr;
#endif
};

struct engram_options {
  uint64_t rows_log2 = GRAVEL_CUDA ? 22 : 10, tokens = GRAVEL_CUDA ? 1024 : 12, side = GRAVEL_CUDA ? 2048 : 64,
           vocabulary = GRAVEL_CUDA ? 129'280 : 500;
  uint32_t heads = GRAVEL_CUDA ? 12 : 2, steps = GRAVEL_CUDA ? 20 : 3, repeat = GRAVEL_CUDA ? 5 : 1;
  double zipf = 1;
  std::string place = "device", json;

  void add_options(app::command_line& line) {
    line.add_option("--rows-log2", rows_log2, "rows of 264 bytes at each PE, log2").range(1, 26).capture_default_str();
    line.add_option("--place", place, "where the rows lie: memory of the devices, or of the hosts")
        .one_of({"device", "host"})
        .capture_default_str();
    line.add_option("--tokens", tokens, "of a step at each PE")
        .range(uint64_t{1}, uint64_t{1} << 20)
        .capture_default_str();
    line.add_option("--heads", heads, "rows of a token for each of its two n-grams")
        .range(1u, 64u)
        .capture_default_str();
    line.add_option("--vocabulary", vocabulary, "number of different tokens")
        .range(uint64_t{2}, uint64_t{1} << 30)
        .capture_default_str();
    line.add_option("--zipf", zipf, "exponent of the tokens' frequencies").range(0.0, 4.0).capture_default_str();
    line.add_option("--side", side, "rows and columns of the matrices, a multiple of 64")
        .range(uint64_t{tile}, uint64_t{1} << 14)
        .capture_default_str();
    line.add_option("--steps", steps, "of a run").range(1u, 1000u).capture_default_str();
    line.add_option("--repeat", repeat, "runs; the median counts").range(1u, 100u).capture_default_str();
  }
  void check() const {
    if (side % tile)
      app::fail_text("--side: " + std::to_string(side) + " is not a multiple of " + std::to_string(tile));
  }
  uint64_t symmetric_bytes() const {
    return (row_words * sizeof(uint32_t) << rows_log2) + (uint64_t{GRAVEL_CUDA ? 128 : 16} << 20);
  }
};

class engram {
 public:
  explicit engram(const engram_options& o)
      : o_(o),
        table_(static_cast<uint64_t>(gravel_n_pes()) << o.rows_log2, row_words * sizeof(uint32_t),
               gravel::dealt::cyclic, o.place == "host" ? gravel::place::host : gravel::place::device),
        memory_{table_.count(), o.heads},
        tokens_(all_tokens()),
        sums_(o.tokens * row_words),
        a_(o.side * o.side),
        b_(o.side * o.side),
        c_(o.side * o.side) {
    for (step_memory& step : memory_of_step_) {
      step.ids = device_array<uint32_t>(lookups());
      step.rows = device_array<uint32_t>(lookups() * row_words);
    }
    start(fill_rows, nullptr, static_cast<uint32_t*>(table_.local()), table_.local_count(), gravel_my_pe(),
          gravel_n_pes());
    start(fill_factors, nullptr, a_.data(), b_.data(), o.side);
    start(draw_tokens, nullptr, tokens_.data(), all_tokens(), o.vocabulary, o.zipf,
          static_cast<uint64_t>(gravel_my_pe()) << 40);
    gravel_barrier_all();
  }
  ~engram() {
    gravel_stream_destroy(side_);
    gravel_stream_destroy(main_);
  }
  engram(const engram&) = delete;

  /// Returns the rows that a PE reads in a step.
  uint64_t lookups() const { return o_.tokens * memory_.rows_of_token(); }
  bool is_mapped() const { return table_.is_mapped(); }

  /// Returns the seconds of a step at the slowest PE: the median of the runs.
  double time_step(bool looks_up, bool multiplies) {
    std::vector<uint64_t> nanoseconds;
    for (uint32_t run = 0; run <= o_.repeat; ++run) {  // the first one is not counted
      app::wait_to_begin_together();
      const double seconds = app::seconds_of([&] {
        for (uint32_t step = 0; step < o_.steps; ++step) {
          step_memory& memory = memory_of_step_[step % 2];
          if (looks_up) look_up(step, memory);
          if (multiplies) compute(memory);
        }
        gravel_stream_synchronize(side_);
        gravel_stream_synchronize(main_);
      });
      if (run) nanoseconds.push_back(gravel_max_all(static_cast<uint64_t>(seconds * 1e9 / o_.steps)));
    }
    std::sort(nanoseconds.begin(), nanoseconds.end());
    return static_cast<double>(nanoseconds[nanoseconds.size() / 2]) / 1e9;
  }

  /// Counts what is wrong behind a run of both: sums of the last step, and elements of the product.
  uint64_t wrong() const {
    std::vector<uint32_t> tokens(o_.tokens + most_order - 1), sums(o_.tokens * row_words);
    gravel_copy(tokens.data(), tokens_.data() + (o_.steps - 1) * o_.tokens, tokens.size() * sizeof(uint32_t));
    gravel_copy(sums.data(), sums_.data(), sums.size() * sizeof(uint32_t));
    uint64_t count = 0;
    for (uint64_t i = 0; i < sums.size(); ++i) {
      uint32_t right = 0;
      for (uint32_t which = 0; which < memory_.rows_of_token(); ++which)
        right += word_of(memory_.row(&tokens[i / row_words + most_order - 1], which), i % row_words);
      count += sums[i] != right;
    }
    std::vector<float> c(o_.side * o_.side);
    gravel_copy(c.data(), c_.data(), c.size() * sizeof(float));
    for (uint64_t i = 0; i < c.size(); ++i)
      count += c[i] != static_cast<float>(o_.side) * first_factor(i / o_.side) * second_factor(i % o_.side);
    return gravel_sum_all(count);
  }

 private:
  uint64_t all_tokens() const { return o_.steps * o_.tokens + most_order - 1; }
  /// What a step has for itself while the next one begins.
  struct step_memory {
    device_array<uint32_t> ids, rows;
    stream_mark are_there, are_used;
  };
  /// The side stream reads the rows of a step when those that lay there are used.
  void look_up(uint32_t step, step_memory& memory) {
    memory.are_used.let_wait(side_);
    const uint32_t* const tokens = tokens_.data() + step * o_.tokens + most_order - 1;
    start(name_rows, side_, memory_, tokens, o_.tokens, memory.ids.data());
    table_.gather(memory.rows.data(), memory.ids.data(), lookups(), side_);
    memory.are_there.record(side_);
  }
  /// The layers in front of the memory, and then the memory's.
  void compute(step_memory& memory) {
    gravel_launch_config how{dim3(static_cast<unsigned>(o_.side / tile), static_cast<unsigned>(o_.side / tile)),
                             tile_lanes};
    how.stream = main_;
    gravel::launch_alone(multiply, how, static_cast<const float*>(a_.data()), static_cast<const float*>(b_.data()),
                         c_.data(), o_.side);
    memory.are_there.let_wait(main_);
    start(add_up_rows, main_, static_cast<const uint32_t*>(memory.rows.data()), memory_.rows_of_token(), o_.tokens,
          sums_.data());
    memory.are_used.record(main_);
  }
  template <class... P, class... A>
  static void start(void (*kernel)(P...), gravel_stream_t stream, A... arguments) {
    gravel_launch_config how{GRAVEL_CUDA ? 264 : 2, GRAVEL_CUDA ? 256 : 64};
    how.stream = stream;
    gravel::launch_alone(kernel, how, static_cast<P>(arguments)...);
  }

  engram_options o_;
  gravel::rows table_;
  ngram_memory memory_;
  device_array<uint32_t> tokens_, sums_;
  device_array<float> a_, b_, c_;
  step_memory memory_of_step_[2];
  gravel_stream_t main_ = gravel_stream_create(), side_ = gravel_stream_create();
};

bool look_up(const engram_options& o, app::fact_list& facts) {
  uint64_t wrong = 0;
  {
    engram model(o);
    const double layers = model.time_step(false, true), lookups = model.time_step(true, false),
                 both = model.time_step(true, true), exposed = both - layers;
    wrong = model.wrong();
    const double gb_per_s = static_cast<double>(model.lookups() * row_words * sizeof(uint32_t)) / lookups / 1e9;
    facts = app::facts_of_job(program_name);
    facts.insert(facts.end(), {{"place", o.place},
                               {"mapped", model.is_mapped()},
                               {"rows_log2", o.rows_log2},
                               {"tokens", o.tokens},
                               {"lookups", model.lookups()},
                               {"zipf", o.zipf},
                               {"side", o.side},
                               {"layers_us", layers * 1e6},
                               {"lookups_us", lookups * 1e6},
                               {"both_us", both * 1e6},
                               {"exposed_us", exposed * 1e6},
                               {"gb_per_s", gb_per_s},
                               {"wrong", wrong}});
    if (gravel_my_pe() == 0)
      std::printf(
          "%llu rows a step of memory of the %s: layers %.1f us, lookups %.1f us (%.1f GB/s for each PE), both %.1f "
          "us; exposed %.1f us; %llu wrong\n",
          static_cast<unsigned long long>(model.lookups()), o.place.c_str(), layers * 1e6, lookups * 1e6, gb_per_s,
          both * 1e6, exposed * 1e6, static_cast<unsigned long long>(wrong));
    gravel_barrier_all();
  }
  return wrong == 0;
}

int main(int argc, char** argv) {
  return app::run_application({program_name, "Lookups in a memory of n-grams, beside a product of matrices."}, argc,
                              argv, engram_options{}, look_up);
}
