// Collectives that the host starts: over a team of PEs, on symmetric memory, in a stream or at once. A kernel of one
// block makes the call of device/collective.cuh, so results and errors are the same.
//
// Where all members reach each other's memory (gravel_team_t::directly), the calls with a stream may be captured into a
// CUDA graph: all members launch the graph as often, in the same order. Elsewhere a call in a stream capture is
// refused, as any gravel_launch is.
//
// Common to all calls of this file:
// @param team a team of which this PE is a member
// @param to results in symmetric memory, the same address at all PEs: [count], of allgather and alltoall [count of each
//   member]. It may be `from`, but must not overlap it in another way
// @param from what this PE contributes, in symmetric memory: [count], of alltoall and reduce_scatter [count for each
//   member]
// @param count number of elements, the same at all members
// @param root 0 to gravel_team_n_pes(team) - 1
// @param stream where the collective runs, behind the work that is there; nullptr: the PE's own stream
// @scope any host thread of each member; the members make the same calls of a team in the same order, and one call of a
//   team at a time runs
// @completion with a stream: as a kernel in it. Without: on return
// @errors gravel::error: this PE is no member, the team was destroyed, memory outside the heap. Calls that differ end
//   the job, as in kernels
// @source OpenSHMEM 1.5, collectives; NVSHMEM: nvshmemx_*_on_stream
#pragma once
#include "host/launch_alone.cuh"

namespace gravel::detail {

enum class team_collective : uint8_t { sync, barrier, broadcast, allgather, alltoall };

constexpr unsigned collective_threads = GRAVEL_CUDA ? 512 : 32;

template <int = 0>
__global__ void __launch_bounds__(512)
    run_team_collective(const __grid_constant__ gravel_t g, const __grid_constant__ gravel_team_t team,
                        team_collective which, char* to, const char* from, uint64_t bytes, int root) {
  const copy_team block = copy_team::block(g);
  if (which == team_collective::broadcast) inner::broadcast_bytes(g, team, block, to, from, bytes, root);
  else if (which == team_collective::allgather) inner::exchange_bytes(g, team, block, to, from, bytes, false);
  else if (which == team_collective::alltoall) inner::exchange_bytes(g, team, block, to, from, bytes, true);
  else inner::barrier_as(g, team, block, which == team_collective::sync);
}
template <gravel_reduction HOW, class T>
__global__ void __launch_bounds__(512)
    run_team_reduction(const __grid_constant__ gravel_t g, const __grid_constant__ gravel_team_t team, bool scatters,
                       T* to, const T* from, uint64_t count) {
  if (scatters) gravel_reduce_scatter_block<HOW>(g, team, to, from, count);
  else gravel_reduce_all_block<HOW>(g, team, to, from, count);
}

/// Throws unless the range lies in this PE's symmetric heap.
inline void check_symmetric(const char* call, const void* at, uint64_t bytes) {
  const gravel_t g = gravel_handle();
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(at) - g.heap);
  if (bytes && !lies_in_heap(offset, bytes, g.heap_bytes))
    fail_text(std::string(call) + ": memory outside the symmetric heap; allocate it with gravel_malloc");
}
/// Launches a kernel of a collective. Where all members reach each other's memory it needs no resolver.
template <class... P, class... A>
void launch_collective(const gravel_team_t& team, gravel_stream_t stream, void (*kernel)(P...), A... arguments) {
  const gravel_launch_config how{.grid = 1, .block = collective_threads, .stream = stream};
  if (team.directly) launch_alone(kernel, how, gravel_handle(), team, arguments...);
  else gravel_launch(kernel, how, gravel_handle(), team, arguments...);
}
/// `to_parts`, `from_parts`: of `bytes` bytes each.
inline void start_team_collective(const char* call, const gravel_team_t& team, team_collective which, void* to,
                                  const void* from, uint64_t bytes, uint64_t to_parts, uint64_t from_parts, int root,
                                  gravel_stream_t stream) {
  gravel_team_world();  // it is in the table of teams
  members_of(team, call);
  check_symmetric(call, to, to_parts * bytes);
  check_symmetric(call, from, from_parts * bytes);
  if (which == team_collective::broadcast && static_cast<uint32_t>(root) >= team.n_pes)
    fail_text(std::string(call) + " from PE " + std::to_string(root) + ": the team has PEs 0 to " +
              std::to_string(team.n_pes - 1));
  launch_collective(team, stream, run_team_collective<>, which, static_cast<char*>(to), static_cast<const char*>(from),
                    bytes, root);
}
template <gravel_reduction HOW, class T>
void start_team_reduction(const char* call, const gravel_team_t& team, bool scatters, T* to, const T* from,
                          uint64_t count, gravel_stream_t stream) {
  gravel_team_world();  // it is in the table of teams
  members_of(team, call);
  check_symmetric(call, to, count * sizeof(T));
  check_symmetric(call, from, count * sizeof(T) * (scatters ? team.n_pes : 1));
  launch_collective(team, stream, run_team_reduction<HOW, T>, scatters, to, from, count);
}

}  // namespace gravel::detail

/// Waits in a stream until all members have arrived. What kernels in the stream before have stored is there; messages
/// are not waited for.
inline void gravel_sync_on_stream(const gravel_team_t& team, gravel_stream_t stream) {
  gravel::detail::start_team_collective("gravel_sync_on_stream", team, gravel::detail::team_collective::sync, nullptr,
                                        nullptr, 0, 0, 0, 0, stream);
}
/// Waits in a stream until all members have arrived, and what kernels in the stream before have sent is applied.
inline void gravel_barrier_on_stream(const gravel_team_t& team, gravel_stream_t stream) {
  gravel::detail::start_team_collective("gravel_barrier_on_stream", team, gravel::detail::team_collective::barrier,
                                        nullptr, nullptr, 0, 0, 0, 0, stream);
}
/// Copies from[0 .. count) of member `root` to `to` of all members, in a stream. T: any trivially copyable type.
template <class T>
void gravel_broadcast_on_stream(const gravel_team_t& team, T* to, const T* from, uint64_t count, int root,
                                gravel_stream_t stream) {
  gravel::detail::start_team_collective("gravel_broadcast_on_stream", team, gravel::detail::team_collective::broadcast,
                                        to, from, count * sizeof(T), 1, 1, root, stream);
}
/// Gathers arrays in a stream, as gravel_allgather_block. T: any trivially copyable type.
template <class T>
void gravel_allgather_on_stream(const gravel_team_t& team, T* to, const T* from, uint64_t count,
                                gravel_stream_t stream) {
  gravel::detail::start_team_collective("gravel_allgather_on_stream", team, gravel::detail::team_collective::allgather,
                                        to, from, count * sizeof(T), team.n_pes, 1, 0, stream);
}
/// Exchanges parts in a stream, as gravel_alltoall_block. T: any trivially copyable type.
template <class T>
void gravel_alltoall_on_stream(const gravel_team_t& team, T* to, const T* from, uint64_t count,
                               gravel_stream_t stream) {
  gravel::detail::start_team_collective("gravel_alltoall_on_stream", team, gravel::detail::team_collective::alltoall,
                                        to, from, count * sizeof(T), team.n_pes, team.n_pes, 0, stream);
}
/// Combines arrays in a stream, as gravel_reduce_all_block.
/// @tparam HOW as of gravel_reduce_all_block
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce_all_on_stream(const gravel_team_t& team, T* to, const T* from, uint64_t count,
                                 gravel_stream_t stream) {
  gravel::detail::start_team_reduction<HOW>("gravel_reduce_all_on_stream", team, false, to, from, count, stream);
}
/// Combines arrays in a stream, and each member gets a part, as gravel_reduce_scatter_block.
/// @tparam HOW as of gravel_reduce_all_block
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce_scatter_on_stream(const gravel_team_t& team, T* to, const T* from, uint64_t count,
                                     gravel_stream_t stream) {
  gravel::detail::start_team_reduction<HOW>("gravel_reduce_scatter_on_stream", team, true, to, from, count, stream);
}

/// Waits until all members have arrived. Messages are not waited for.
inline void gravel_sync(const gravel_team_t& team) {
  gravel_sync_on_stream(team, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// gravel_quiet at every member, and a rendezvous of them.
inline void gravel_barrier(const gravel_team_t& team) {
  gravel_quiet();
  gravel_barrier_on_stream(team, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// Copies from[0 .. count) of member `root` to `to` of all members. T: any trivially copyable type.
template <class T>
void gravel_broadcast(const gravel_team_t& team, T* to, const T* from, uint64_t count, int root) {
  gravel_broadcast_on_stream(team, to, from, count, root, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// Gathers arrays, as gravel_allgather_block. T: any trivially copyable type.
template <class T>
void gravel_allgather(const gravel_team_t& team, T* to, const T* from, uint64_t count) {
  gravel_allgather_on_stream(team, to, from, count, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// Exchanges parts, as gravel_alltoall_block. T: any trivially copyable type.
template <class T>
void gravel_alltoall(const gravel_team_t& team, T* to, const T* from, uint64_t count) {
  gravel_alltoall_on_stream(team, to, from, count, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// Combines arrays, as gravel_reduce_all_block.
/// @tparam HOW as of gravel_reduce_all_block
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce_all(const gravel_team_t& team, T* to, const T* from, uint64_t count) {
  gravel_reduce_all_on_stream<HOW>(team, to, from, count, nullptr);
  gravel_stream_synchronize(nullptr);
}
/// Combines arrays, and each member gets a part, as gravel_reduce_scatter_block.
/// @tparam HOW as of gravel_reduce_all_block
template <gravel_reduction HOW = GRAVEL_SUM, class T>
void gravel_reduce_scatter(const gravel_team_t& team, T* to, const T* from, uint64_t count) {
  gravel_reduce_scatter_on_stream<HOW>(team, to, from, count, nullptr);
  gravel_stream_synchronize(nullptr);
}
