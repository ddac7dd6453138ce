// What the aggregators of all nodes say of themselves before they are connected, compared with what this one knows of
// the job.
#pragma once
#include <vector>

#include "host/aggregator/node_setup.hpp"
#include "host/node/hello.hpp"

namespace gravel::detail {

/// By node; empty for this one. Throws gravel::error that names the node, if it has other planes, PEs or memory than a
/// node of this job has.
std::vector<wiring> read_wirings(const all_wirings&, const node_setup&);

}  // namespace gravel::detail
