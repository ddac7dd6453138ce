// Reads what the aggregators of all nodes say about themselves before they are connected, and compares it with what
// this one knows about the job.
#pragma once
#include <vector>

#include "host/aggregator/node_setup.hpp"
#include "host/node/hello.hpp"

namespace gravel::detail {

/// Returns the wirings by node; that of this node is empty. Throws gravel::error that names the node if its planes, PEs
/// or memory are not those of a node of this job.
std::vector<wiring> read_wirings(const all_wirings&, const node_setup&);

}  // namespace gravel::detail
