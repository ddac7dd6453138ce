// Graph algorithms on graphs that are divided among PEs (docs/worklists.md): breadth-first search, shortest paths,
// connected components, PageRank.
#pragma once
#include <gravel/worklist.cuh>
#include "lib/worklist/algorithms/breadth_first.cuh"
#include "lib/worklist/algorithms/connected_components.cuh"
#include "lib/worklist/algorithms/page_rank.cuh"
#include "lib/worklist/algorithms/shortest_paths.cuh"
#include "lib/worklist/components.cuh"
#include "lib/worklist/ranks.cuh"

namespace gravel {
using detail::breadth_first_options;
using detail::breadth_first_search;
using detail::connected_components;
using detail::page_rank;
using detail::page_rank_options;
using detail::paths_method;
using detail::shortest_paths;
using detail::shortest_paths_options;
}  // namespace gravel
