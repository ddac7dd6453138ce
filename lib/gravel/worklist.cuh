// Distributed worklists (docs/worklists.md): gravel_worklist, and the types that its programs need.
#pragma once
#include "lib/worklist/worklist.cuh"

namespace gravel {
using detail::double_sums;
using detail::float_sums;
using detail::least_keys;
using detail::sums;
using detail::vertex_code;
using detail::worklist_graph;
}  // namespace gravel
