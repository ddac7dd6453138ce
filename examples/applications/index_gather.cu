// Index gather: every PE reads random words of a table that is spread over all PEs. With gravel_get the reads
// are non-blocking, all complete at the barrier; with --fetch every lane waits for each of its values before
// the next.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/rivals/direct_sender.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;

constexpr const char* program_name = "index_gather";

struct gather_options {
  uint32_t table_log2 = 20;
  uint64_t reads = 0, seed = 1;
  bool blocking = false;
  unsigned grid = 0, block = 128;

  void add_options(command_line& line);
  void check(const command_line& line);
  uint64_t symmetric_bytes() const { return (uint64_t{8} << table_log2) + 8 * reads; }
  void complete();
};

struct gather_job {
  uint64_t* table;   ///< symmetric: 2^log2_words words on each PE
  uint64_t* result;  ///< symmetric, as gravel_get writes it: `reads` words
  uint32_t log2_words, n_pes;
  uint64_t seed;

  struct place {
    uint32_t pe;
    uint64_t word;
  };
  /// What read number i of PE `reader` reads.
  GRAVEL_BOTH place place_of(uint32_t reader, uint64_t i) const {
    const uint64_t random = mix(seed ^ mix(uint64_t{reader} << 48 | i));
    return {pick(random, n_pes), mix(random) & ((uint64_t{1} << log2_words) - 1)};
  }
  /// What the table holds there.
  GRAVEL_BOTH uint64_t value_of(place at) const { return mix(uint64_t{at.pe} << 32 | at.word) ^ seed; }
};

constexpr uint64_t unread = 0xdeadbeefdeadbeefu;

__global__ void prepare(gather_job job, uint32_t me, uint64_t reads) {
  const lane_share words(uint64_t{1} << job.log2_words), results(reads);
  for (uint64_t w = words.first; w < words.last; ++w) job.table[w] = job.value_of({me, w});
  for (uint64_t i = results.first; i < results.last; ++i) job.result[i] = unread;
}

__global__ void get_words(gravel_t g, gather_job job, uint64_t first, uint64_t count) {
  const lane_share mine(count);
  for (uint64_t i = first + mine.first; i < first + mine.last; ++i) {
    const auto from = job.place_of(g.my_pe, i);
    gravel_get(g, &job.result[i], &job.table[from.word], static_cast<int>(from.pe));
  }
}

__global__ void fetch_words(gravel_t g, gather_job job, uint64_t first, uint64_t count) {
  const lane_share mine(count);
  for (uint64_t i = first + mine.first; i < first + mine.last; ++i) {
    const auto from = job.place_of(g.my_pe, i);
    job.result[i] = gravel_fetch_add(g, &job.table[from.word], 0, static_cast<int>(from.pe));
  }
}

void gather_options::add_options(command_line& line) {
  line.add_option("--table-log2", table_log2, "Words of the table per PE, as a power of two")
      .range(0, 32)
      .capture_default_str();
  line.add_option("--reads", reads, "Reads per PE; if not given, 1048576, or 8192 with --fetch")
      .range(uint64_t{0}, uint64_t{1} << 34);
  line.add_option("--seed", seed, "Of the random indices").capture_default_str();
  line.add_flag("--fetch", blocking, "Read with gravel_fetch_add, which waits, instead of gravel_get");
  line.add_option("--grid", grid, "Thread blocks; if not given, as many as fill the device, or 4 with --fetch")
      .range(1, 1 << 20);
  line.add_option("--block", block, "Lanes per thread block").range(1, 1024).capture_default_str();
}
void gather_options::check(const command_line& line) {
  if (line.count("--reads") == 0) reads = blocking ? 8192 : 1 << 20;
}
void gather_options::complete() {
  // Lanes that wait must leave room on the device for what answers them, so few blocks.
  if (grid == 0) grid = blocking ? 4 : blocks_to_fill_device();
}

bool gather_words(const gather_options& o, fact_list&) {
  const auto me = static_cast<uint32_t>(gravel_my_pe()), n_pes = static_cast<uint32_t>(gravel_n_pes());
  gather_job job{};
  job.table = gravel_malloc<uint64_t>(uint64_t{8} << o.table_log2);
  job.result = gravel_malloc<uint64_t>(8 * (o.reads ? o.reads : 1));
  job.log2_words = o.table_log2;
  job.n_pes = n_pes;
  job.seed = o.seed;
  gravel_launch(prepare, blocks_to_fill_device(), 128, job, me, o.reads);
  gravel_barrier_all();

  const double seconds = seconds_of([&] {
    progress report(program_name, me == 0);
    in_pieces(o.reads, o.blocking ? 4096 : 1 << 20, report, [&](uint64_t first, uint64_t count) {
      gravel_launch(o.blocking ? fetch_words : get_words, o.grid, o.block, gravel_handle(), job, first, count);
      gravel_synchronize();
    });
    gravel_barrier_all();
  });

  std::vector<uint64_t> result(o.reads);
  gravel_copy(result.data(), job.result, 8 * o.reads);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < o.reads; ++i) wrong += result[i] != job.value_of(job.place_of(me, i));
  wrong = gravel_sum_all(wrong);
  if (me == 0)
    std::printf(
        "%s: %u PEs on %d nodes, %s backend, %s\n%.3f s: %llu reads per PE, %.4g M reads/s in all\n%llu "
        "wrong values\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.blocking ? "blocking reads" : "non-blocking reads",
        seconds, static_cast<unsigned long long>(o.reads), static_cast<double>(o.reads) * n_pes / seconds / 1e6,
        static_cast<unsigned long long>(wrong));
  return wrong == 0;
}

int main(int argc, char** argv) {
  return run_application(
      {program_name, "Index gather: every PE reads random words of a table that is spread over all PEs."}, argc, argv,
      gather_options{}, gather_words);
}
