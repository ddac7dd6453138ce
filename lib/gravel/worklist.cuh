// Distributed worklists (docs/worklists.md): gravel_worklist and what its programs say.
#pragma once
#include "lib/worklist/worklist.cuh"

namespace gravel {
using detail::worklist_graph;
}  // namespace gravel
