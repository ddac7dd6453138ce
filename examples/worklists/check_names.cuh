// The check of connected components by all edges.
#pragma once
#include <gravel/algorithms.cuh>

namespace app {
using gravel::fetch_add;
using gravel::scope;
using gravel::worklist_graph;

/// The order in which a component's first vertex gives it its name.
struct name_order {
  gravel::detail::vertex_code codes;
  gravel::detail::replicated_bitmap layout;  ///< whose codes are the order; if it has no PEs, `codes` are

  GRAVEL_BOTH uint32_t of(uint32_t code) const {
    return layout.pes == 0 ? code : layout.code_of(codes.owner(code), codes.place(code));
  }
};

/// Counts mistakes: edges whose ends have different names, and vertices that come before the one that gives their
/// component its name; and components, by the vertices whose name is their own.
static __global__ void check_names(worklist_graph graph, name_order order, uint32_t me, const uint32_t* names,
                                   uint64_t* counts) {
  uint64_t wrong = 0, components = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < graph.own;
       v += uint64_t{gridDim.x} * blockDim.x) {
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) wrong += names[graph.targets[e]] != names[v];
    const uint32_t code = graph.codes.code(static_cast<int>(me), v);
    components += names[v] == code;
    wrong += order.of(names[v]) > order.of(code);
  }
  if (wrong) fetch_add<scope::device>(&counts[0], wrong);
  if (components) fetch_add<scope::device>(&counts[1], components);
}

}  // namespace app
