// Graphs from files and generators, their rows, and their division among PEs. All functions run on the host. Link with
// libgravel_graph.
#pragma once
#include "lib/graph/graph.hpp"

namespace gravel {
using detail::assign_weights;
using detail::block_distribution;
using detail::by_degrees;
using detail::by_edges;
using detail::by_metis;
using detail::cage;
using detail::cage_size;
using detail::codes_of;
using detail::contiguous;
using detail::csr;
using detail::edge;
using detail::edge_list;
using detail::find_ghosts;
using detail::fits_weight;
using detail::ghost_list;
using detail::graph_format;
using detail::graph_share;
using detail::graph_size;
using detail::has_metis;
using detail::largest_weight;
using detail::make_csr;
using detail::mesh;
using detail::names_path_of;
using detail::partition;
using detail::read_graph;
using detail::read_names;
using detail::read_options;
using detail::rmat;
using detail::road_grid;
using detail::round_robin;
using detail::rows_of;
using detail::simplify;
using detail::vertex_code;
using detail::vertex_ids;
using detail::weight_between;
}  // namespace gravel
