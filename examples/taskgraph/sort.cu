// Merge sort of 32-bit keys, whose merges are parallel too ("Fine-grain Task Aggregation and Coordination on GPUs",
// ISCA 2014, section 6). The leaves are some hundred instructions of a warp. The program runs it as a task graph on
// channels (sort_tasks.cuh), and by hand with persistent warps (bench/rivals/sort_threads.cuh). The oracle is
// std::sort.
#include <algorithm>
#include <optional>

#include <gravel/device_array.hpp>
#include "bench/rivals/sort_threads.cuh"
#include "examples/common/mix.hpp"
#include "examples/taskgraph/sort_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;
using gravel::device_array;

constexpr const char* program_name = "sort";

struct sort_options : task_graph_program_options {
  uint32_t n = GRAVEL_CUDA ? 1'000'000 : 20'000, seed = 1, distinct = 0, piece = 0;

  sort_options() {
    graph.max_depth = 14;
    graph.capacity = GRAVEL_CUDA ? 131041 : 4065;
    graph.local_levels = 0;
  }
  void add_options(command_line& line) {
    line.add_option("--n", n, "Keys").range(1u, 1u << 30).capture_default_str();
    line.add_option("--piece", piece, "Keys that a warp merges at once; 0: by their number").range(0u, 1u << 24);
    line.add_option("--distinct", distinct, "Different keys at most; 0: all that there are").capture_default_str();
    line.add_option("--seed", seed, "Of the keys").capture_default_str();
    add_common_options(line);
  }
  void check() {
    // A thousand pieces for a merge of all, or some.
    if (piece == 0) piece = std::clamp(n / 1024, 64u, 8192u);
  }
};

bool run(const sort_options& o, fact_list& facts) {
  facts = {
      {"program", program_name}, {"backend", gravel_backend()}, {"n", uint64_t{o.n}}, {"piece", uint64_t{o.piece}}};
  bool right = true;
  if (gravel_my_pe() == 0)
    std::printf("sort of %u keys, merged in pieces of %u, %s backend\n", o.n, o.piece, gravel_backend());
  all_succeed(program_name, [&] {
    std::vector<uint32_t> keys(o.n), found(o.n);
    for (uint32_t i = 0; i < o.n; ++i) {
      const auto key = static_cast<uint32_t>(mix(uint64_t{o.seed} << 32 | i) >> 20);
      keys[i] = o.distinct ? key % o.distinct : key;
    }
    std::vector<uint32_t> sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    device_array<uint32_t> input(keys), a(uint64_t{o.n}), b(uint64_t{o.n});
    const sort_keys arrays{a.data(), b.data(), o.piece};
    const auto prepare = [&] {
      gravel_copy(a.data(), input.data(), uint64_t{o.n} * 4);
      gravel::detail::current_backend().zero(b.data(), uint64_t{o.n} * 4);
    };
    const auto check = [&] {
      gravel_copy(found.data(), a.data(), uint64_t{o.n} * 4);
      const auto at = std::mismatch(found.begin(), found.end(), sorted.begin()).first;
      return at == found.end() ? std::string() : "key " + std::to_string(at - found.begin()) + " is not in its place";
    };
    if (o.has("tasks")) {
      sort_tasks::graph graph(arrays, o.graph);
      right &= run_and_report(
          o, "tasks", facts, prepare, [&] { sort_tasks::run(graph, o.n); }, check);
      report_counts(graph, facts);
    }
    if (o.has("threads")) {
      sort_threads::program by_hand(arrays, o.n);
      right &= run_and_report(
          o, "threads", facts, prepare, [&] { by_hand.run(o.blocks_by_hand(), o.threads); }, check);
    }
  });
  return end_of_run(right, facts);
}

int main(int argc, char** argv) {
  return run_application({program_name, "Merge sort of keys of 32 bits, each call and each piece of a merge a task."},
                         argc, argv, sort_options{}, run);
}
