// The part of the Python module that uses Gravel's graph algorithms. Like job.hpp it knows nothing of Python.
//
// Common to all calls of this file:
// @errors gravel::error is thrown
#pragma once
#include <cstdint>
#include <memory>

#include "job.hpp"

namespace gravel::python {

/// This PE's part of a graph, in memory of the host, as gravel::worklist_graph has it. Vertices are distributed in
/// blocks, and each PE numbers its own in an order of its own.
struct graph_arrays {
  uint64_t vertices, block;       ///< of all PEs; of a PE, at most
  uint64_t own, edges, n_ghosts;  ///< of this PE
  const uint64_t* offsets;        ///< [own + 1]
  const uint32_t* targets;        ///< [edges]
  const float* weights;           ///< [edges], or nullptr
  const uint32_t* ghosts;         ///< [n_ghosts] codes, which ascend
  const uint64_t* ghost_numbers;  ///< [n_ghosts] their numbers in the whole graph
  const uint32_t* order;          ///< [own] of each number here, the place in this PE's block
  uint32_t shift;                 ///< of codes
};

/// A graph that is distributed over the PEs. All calls are collective. Results are those of this PE's block, [own], and
/// are there on return.
class divided_graph {
 public:
  virtual ~divided_graph() = default;
  /// Searches from the vertex `place` of PE `owner`.
  /// @param levels int32; -1: not found
  /// @param parents int64; -1: not found; the source is its own parent
  virtual void search(int owner, uint64_t place, memory levels, memory parents) = 0;
  /// Finds the distances from the vertex `place` of PE `owner`.
  /// @param distances float; infinite: not reached
  virtual void find_paths(int owner, uint64_t place, memory distances) = 0;
  /// Finds the ranks, whose sum is 1.
  /// @param ranks double
  virtual void rank(double damping, double tolerance, memory ranks) = 0;
  /// Finds the least vertex of each vertex's component, and returns the number of components.
  /// @param labels int64
  virtual uint64_t find_components(memory labels) = 0;
  /// Frees the memory. Nothing but the destructor may be called afterwards.
  virtual void close() = 0;
};

/// Copies this PE's part into device memory. Collective.
std::shared_ptr<divided_graph> make_graph(const graph_arrays& arrays);
/// Closes a graph of make_graph(). Collective.
void close_graph(const std::shared_ptr<divided_graph>& graph);
/// Closes all graphs that are open. Collective.
void close_graphs();

}  // namespace gravel::python
