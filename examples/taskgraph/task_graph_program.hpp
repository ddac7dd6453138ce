// What the programs of task graphs share: their options, and how a run is timed, checked and reported.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/taskgraph.cuh>
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

namespace app {

struct task_graph_program_options {
  std::string version = "both", json;
  int repeat = 3;
  unsigned threads = GRAVEL_CUDA ? 256 : 32;  ///< of a block of the version by hand
  gravel_task_options graph;

  void add_common_options(command_line& line) {
    line.add_option("--by", version, "tasks (channels), threads (by hand) or both")
        .one_of({"tasks", "threads", "both"})
        .capture_default_str();
    line.add_option("--capacity", graph.capacity, "Of each channel; 2^k - 31 wastes nothing").capture_default_str();
    line.add_option("--frames", graph.frames, "Continuations of each depth; 0: by the number of workers")
        .capture_default_str();
    line.add_option("--width", graph.width, "Elements with which a channel is looked at first").capture_default_str();
    line.add_option("--max-depth", graph.max_depth, "Of a task").capture_default_str();
    line.add_option("--local-levels", graph.local_levels, "That run in shared memory, as far as there is room");
    line.add_option("--blocks", graph.blocks, "Of workers, and of the version by hand; 0: as many as fit")
        .capture_default_str();
    line.add_option("--warps", graph.warps, "Workers of a block; 0: as many as fit").range(0, 32).capture_default_str();
    line.add_option("--threads", threads, "Of a block of the version by hand").range(32u, 1024u).capture_default_str();
    const std::function<void(const std::string&)> take = [this](const std::string& who) {
      graph.dispatch = gravel_dispatch::host;
      if (who == "workers") graph.dispatch = gravel_dispatch::workers;
      else if (who == "schedulers") graph.dispatch = gravel_dispatch::schedulers;
    };
    line.add_option("--dispatch", take, "Who dispatches: workers, schedulers or host")
        .one_of({"workers", "schedulers", "host"});
    line.add_option("--schedulers", graph.schedulers, "How many of the workers, if schedulers dispatch")
        .capture_default_str();
    line.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1, 1000).capture_default_str();
  }
  /// Of the version by hand: as many as are said, else more than fit.
  unsigned blocks_by_hand() const { return graph.blocks ? graph.blocks : blocks_to_fill_device(); }
  bool has(const char* which) const { return version == "both" || version == which; }
};

/// Runs `work` some times, behind `prepare` and before `check`, which are not timed; `check` says what is wrong, if
/// anything is. Reports the fastest. Returns false if something was wrong.
template <class Prepare, class Work, class Check>
bool run_and_report(const task_graph_program_options& o, const char* which, fact_list& facts, Prepare&& prepare,
                    Work&& work, Check&& check) {
  double best = 0;
  bool right = true;
  for (int i = 0; i < o.repeat; ++i) {
    prepare();
    const double seconds = seconds_of(work);
    if (i == 0 || seconds < best) best = seconds;
    const std::string wrong = check();
    if (wrong.empty()) continue;
    right = false;
    std::fprintf(stderr, "by %s: %s\n", which, wrong.c_str());
  }
  if (gravel_my_pe() == 0)
    std::printf("by %-8s %10.3f ms, the fastest of %d: %s\n", which, best * 1e3, o.repeat, right ? "right" : "WRONG");
  facts.push_back({std::string(which) + "_seconds", best});
  return right;
}
/// The same for work with one number as its result, which must be `expected`.
template <class V, class Work>
bool run_and_report(const task_graph_program_options& o, const char* which, V expected, fact_list& facts, Work&& work) {
  V found{};
  const auto check = [&] {
    return found == expected ? std::string() : std::to_string(found) + " instead of " + std::to_string(expected);
  };
  return run_and_report(
      o, which, facts, [] {}, [&] { found = work(); }, check);
}

/// Lanes that run a task and a continuation of a graph whose tasks, and whose continuations, are all alike in that.
struct lanes_of_graph {
  uint32_t task = 0, continuation = 0;
  template <class Constants, class... T>
  explicit lanes_of_graph(const gravel_task_graph<Constants, T...>&) {
    const auto same = [](uint32_t& lanes, uint32_t of_type) {
      if (lanes != 0 && lanes != of_type)
        fail_text("lanes differ by type: what was at work is not known by counts of tasks and continuations");
      lanes = of_type;
    };
    (same(gravel::detail::task_facts<T>::is_continuation ? continuation : task, gravel::detail::task_facts<T>::lanes),
     ...);
  }
};

template <class Graph>
void report_counts(const Graph& graph, fact_list& facts) {
  const gravel_task_counts& c = graph.counts();
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  if (gravel_my_pe() == 0)
    std::printf(
        "tasks %llu in %llu batches by %u workers, of them in shared memory %llu in %llu; continuations %llu; refusals "
        "%llu\n",
        number(c.tasks), number(c.batches), graph.workers(), number(c.local_tasks), number(c.local_batches),
        number(c.continuations), number(c.refusals));
  const lanes_of_graph lanes(graph);
  facts.insert(facts.end(), {{"workers", uint64_t{graph.workers()}},
                             {"task_lanes", uint64_t{lanes.task}},
                             {"continuation_lanes", uint64_t{lanes.continuation}},
                             {"tasks", c.tasks},
                             {"batches", c.batches},
                             {"local_tasks", c.local_tasks},
                             {"local_batches", c.local_batches},
                             {"continuations", c.continuations},
                             {"refusals", c.refusals}});
}

/// Returns whether the result is right at all PEs. Collective.
inline bool end_of_run(bool right, fact_list& facts) {
  facts.push_back({"right", right});
  return gravel_min_all(uint64_t{right}) != 0;
}

}  // namespace app
