// Teams. A number of NVSHMEM stands for the place of a team of Gravel, the same at all members: the four that exist
// always, and 1 more than the place for the others.
#pragma once
#include <gravel/nvshmem/job.cuh>
#include <gravel/nvshmem/launch.cuh>

namespace gravel::detail::nvshmem {

constexpr uint32_t no_place = ~0u, place_of_node = 1, place_of_mapped = 2;
GRAVEL_BOTH uint32_t place_of(nvshmem_team_t team, uint32_t place_of_same_rank) {
  switch (team) {
    case NVSHMEM_TEAM_INVALID: return no_place;
    case NVSHMEM_TEAM_WORLD: return 0;
    case NVSHMEM_TEAM_SHARED: return place_of_mapped;
    case NVSHMEMX_TEAM_NODE: return place_of_node;
    case NVSHMEMX_TEAM_SAME_MYPE_NODE: return place_of_same_rank;
    default: return static_cast<uint32_t>(team - 1);
  }
}
inline nvshmem_team_t number_of(const gravel_team_t& team) {
  return team.n_pes ? static_cast<nvshmem_team_t>(team.id + 1) : NVSHMEM_TEAM_INVALID;
}

/// The team of a number, for the caller: a lane of a kernel, or a host thread. {} if there is none.
GRAVEL_BOTH gravel_team_t team_of(nvshmem_team_t team) {
#if !GRAVEL_ON_GPU
  if (!in_kernel()) {
    const uint32_t place = place_of(team, process().state.place_of_same_rank);
    return place < process_state::most_teams ? process().teams[place] : gravel_team_t{};
  }
#endif
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  return gravel_team_of(handle(), place_of(team, state_of_kernels().place_of_same_rank));
#else
  return {};
#endif
}
inline void remember(const gravel_team_t& team) {
  if (team.n_pes) process().teams[team.id] = team;
}

/// Makes the teams that exist always. PEs of the same number in their nodes are a team if all nodes have as many PEs,
/// one node behind the other; otherwise NVSHMEMX_TEAM_SAME_MYPE_NODE has no members.
inline void open_teams(device_state& state) {
  const gravel_team_t world = gravel_team_world(), node = gravel_team_node();
  for (const gravel_team_t& team : {world, node, gravel_team_mapped()}) process().teams[team.id] = team;
  state.place_of_same_rank = no_place;
  const int n = gravel_n_pes(), each = n / gravel_n_nodes();
  bool in_order = n % gravel_n_nodes() == 0;
  for (int pe = 0; pe < n; ++pe) in_order = in_order && gravel_node_of(pe) == pe / each;
  if (!in_order) return;
  gravel_team_t row, column;
  gravel_team_split_2d(world, each, &row, &column);
  gravel_team_destroy(row);
  remember(column);
  state.place_of_same_rank = column.id;
}

}  // namespace gravel::detail::nvshmem

GRAVEL_BOTH int nvshmem_team_my_pe(nvshmem_team_t team) {
  return gravel_team_my_pe(gravel::detail::nvshmem::team_of(team));
}
GRAVEL_BOTH int nvshmem_team_n_pes(nvshmem_team_t team) {
  return gravel_team_n_pes(gravel::detail::nvshmem::team_of(team));
}
GRAVEL_BOTH int nvshmem_team_translate_pe(nvshmem_team_t from, int pe, nvshmem_team_t to) {
  const gravel_team_t of = gravel::detail::nvshmem::team_of(from), in = gravel::detail::nvshmem::team_of(to);
#if !GRAVEL_ON_GPU
  if (!gravel::detail::nvshmem::in_kernel()) return of.n_pes && in.n_pes ? gravel_team_translate_pe(of, pe, in) : -1;
#endif
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  return gravel_team_translate_pe(gravel::detail::nvshmem::handle(), of, pe, in);
#else
  return -1;
#endif
}

inline int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                                      const nvshmem_team_config_t*, long, nvshmem_team_t* new_team) {
  *new_team = NVSHMEM_TEAM_INVALID;
  return gravel::detail::nvshmem::status_of([&] {
    const gravel_team_t team = gravel_team_split_strided(gravel::detail::nvshmem::team_of(parent), start, stride, size);
    gravel::detail::nvshmem::remember(team);
    *new_team = gravel::detail::nvshmem::number_of(team);
  });
}
inline int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange, const nvshmem_team_config_t*, long,
                                 nvshmem_team_t* xaxis_team, const nvshmem_team_config_t*, long,
                                 nvshmem_team_t* yaxis_team) {
  *xaxis_team = NVSHMEM_TEAM_INVALID;
  *yaxis_team = NVSHMEM_TEAM_INVALID;
  return gravel::detail::nvshmem::status_of([&] {
    gravel_team_t x, y;
    gravel_team_split_2d(gravel::detail::nvshmem::team_of(parent), xrange, &x, &y);
    gravel::detail::nvshmem::remember(x);
    gravel::detail::nvshmem::remember(y);
    *xaxis_team = gravel::detail::nvshmem::number_of(x);
    *yaxis_team = gravel::detail::nvshmem::number_of(y);
  });
}
inline int nvshmemx_team_get_uniqueid(nvshmemx_team_uniqueid_t* uniqueid) {
  return gravel::detail::nvshmem::status_of([&] { *uniqueid = gravel_team_unique_id(); });
}
/// The PE that has made the id is a member.
inline int nvshmemx_team_init(nvshmem_team_t* team, nvshmem_team_config_t* config, long config_mask, int npes,
                              int pe_idx_in_team) {
  *team = NVSHMEM_TEAM_INVALID;
  return gravel::detail::nvshmem::status_of([&] {
    if (!config || !(config_mask & NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID))
      gravel::detail::fail_text(
          "nvshmemx_team_init: no id; set `uniqueid` of the configuration, and NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID in "
          "the mask");
    const gravel_team_t joined = gravel_team_join(config->uniqueid, npes, pe_idx_in_team);
    gravel::detail::nvshmem::remember(joined);
    *team = gravel::detail::nvshmem::number_of(joined);
  });
}
/// Teams have no contexts of their own: their number is 0.
inline void nvshmem_team_get_config(nvshmem_team_t, nvshmem_team_config_t* config) {
  *config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  config->num_contexts = 0;
}
/// The teams that exist always, and NVSHMEM_TEAM_INVALID, are left as they are.
inline void nvshmem_team_destroy(nvshmem_team_t team) {
  if (team <= NVSHMEMX_TEAM_SAME_MYPE_NODE) return;
  gravel_team_t& known = gravel::detail::nvshmem::process().teams[team - 1];
  gravel_team_destroy(known);
  known = {};
}
