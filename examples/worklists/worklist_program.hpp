// What the programs of distributed worklists share.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <gravel/worklist.cuh>
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/graph_input.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/random_stream.hpp"
#include "examples/common/ranking.hpp"

namespace app {
using gravel::csr;

struct worklist_program_options {
  std::string execution = "automatic";
  uint32_t fused_most = 0, fused_blocks = 0, capacity = 0, slack = 8, blocks = 0;
  unsigned repeat = 1;

  void add_options(command_line& app) {
    app.add_option("--execution", execution,
                   "How the list is worked off: rounds of the whole grid; many rounds in one kernel (fused); "
                   "automatic: as wide as it is; "
                   "one kernel without rounds (asynchronous)")
        .one_of({"automatic", "rounds", "fused", "asynchronous"})
        .capture_default_str();
    app.add_option("--fused-most", fused_most,
                   "Up to so many vertices are expanded in one kernel; 0: as the library says")
        .capture_default_str();
    app.add_option("--fused-blocks", fused_blocks, "By so many blocks; 0: as the library says")
        .range(0u, 32u)
        .capture_default_str();
    app.add_option(
           "--capacity", capacity,
           "Asynchronous: vertices of each rank that wait; what finds no room is done in rounds at the end; 0: all")
        .capture_default_str();
    app.add_option("--slack", slack, "Asynchronous: ranks beyond the lowest of all PEs that are worked on")
        .capture_default_str();
    app.add_option("--blocks", blocks, "Asynchronous: thread blocks; 0: as the library says").capture_default_str();
    app.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1u, 1000u).capture_default_str();
  }
  gravel_worklist_options options() const {
    auto how = gravel_execution::automatic;
    if (execution == "rounds") how = gravel_execution::rounds;
    else if (execution == "fused") how = gravel_execution::fused;
    else if (execution == "asynchronous") how = gravel_execution::asynchronous;
    return {.execution = how,
            .fused_most = fused_most,
            .fused_blocks = fused_blocks,
            .capacity = capacity,
            .slack = slack,
            .blocks = blocks};
  }
};

/// What a run did, at all PEs together. The constructor is collective.
struct run_summary {
  explicit run_summary(const gravel_worklist_counts& here)
      : here(here),
        expanded(gravel_sum_all(here.expanded)),
        followed(gravel_sum_all(here.edges)),
        sent(gravel_sum_all(here.sent)),
        pieces(gravel_sum_all(here.pieces)) {}
  gravel_worklist_counts here;  ///< at this PE; rounds and exchanges are alike or nearly so
  uint64_t expanded, followed, sent, pieces;
};
/// The graph as a whole. The constructor is collective.
struct graph_summary {
  explicit graph_summary(const device_part& part)
      : vertices(part.part.vertices),
        edges(gravel_sum_all(part.edges)),
        remote_edges(gravel_sum_all(part.ghosts.uses)) {}
  uint64_t vertices, edges, remote_edges;
};
/// What all of these programs write for --json; `own`: what only this one has.
inline fact_list facts_of_run(const char* program, const graph_input& input, const worklist_program_options& work,
                              const graph_summary& graph, const run_summary& run, const fact_list& own) {
  fact_list facts{{"program", program},
                  {"backend", gravel_backend()},
                  {"pes", static_cast<uint64_t>(gravel_n_pes())},
                  {"nodes", static_cast<uint64_t>(gravel_n_nodes())},
                  {"graph", input.description()},
                  {"division", input.division},
                  {"execution", work.execution},
                  {"vertices", graph.vertices},
                  {"edges", graph.edges},
                  {"remote_edges", graph.remote_edges},
                  {"expanded", run.expanded},
                  {"edges_followed", run.followed},
                  {"sent", run.sent},
                  {"rounds", run.here.rounds},
                  {"exchanges", run.here.exchanges},
                  {"kernels", run.here.launches},
                  {"pieces", run.pieces}};
  facts.insert(facts.end(), own.begin(), own.end());
  return facts;
}

/// A vertex by its PE and its number there.
struct vertex_place {
  int owner;
  uint64_t place;

  vertex_place(const graph_part& part, uint64_t vertex) {
    const uint64_t number = part.by.number_of(vertex);
    owner = part.by.owner(number);
    place = number - part.by.first[static_cast<size_t>(owner)];
  }
  /// Its number at this PE; ~0: it is at another one.
  uint64_t place_here() const { return owner == gravel_my_pe() ? place : ~uint64_t{0}; }
};
/// The vertex with the most edges. Collective.
inline uint64_t most_connected(const csr& rows, const graph_part& part) {
  std::vector<ranked<uint64_t>> degrees;
  for (uint64_t i = 0; i < rows.rows(); ++i) degrees.push_back({rows.degree(i), part.old_numbers[i]});
  return gather_best(std::move(degrees), 1).front().vertex;
}
/// `count` vertices that have edges, by a seed: those whose numbers, mixed, come first. Collective.
inline std::vector<uint64_t> draw_sources(const csr& rows, const graph_part& part, unsigned count, uint64_t seed) {
  std::vector<ranked<uint64_t>> drawn;
  for (uint64_t i = 0; i < rows.rows(); ++i)
    if (rows.degree(i) > 0) drawn.push_back({mix(part.old_numbers[i] ^ mix(seed)), part.old_numbers[i]});
  std::vector<uint64_t> sources;
  for (const ranked<uint64_t>& r : gather_best(std::move(drawn), count)) sources.push_back(r.vertex);
  return sources;
}

}  // namespace app
