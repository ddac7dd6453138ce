// Put, get, accumulate. Origin and target have the same type and count.
#pragma once
#include <gravel/mpi_subset/windows.cuh>

namespace gravel::detail::mpi_subset {

/// What an access names, after its checks.
struct access {
  job& j;
  char* target;  ///< symmetric address
  uint64_t bytes;
};
inline access access_for(const char* call, window* w, int count, MPI_Datatype type, int rank, MPI_Aint displacement,
                         int target_count, MPI_Datatype target_type) {
  job& j = job_for(call, w);
  check_type(call, type);
  check_count(call, count);
  if (count != target_count || type != target_type)
    refuse(call, "count or type differ between origin and target, which is not supported");
  check_rank(call, j, rank);
  if (!w->may_access(rank))
    refuse(call, "no epoch for rank " + std::to_string(rank) +
                     ": call MPI_Win_fence, MPI_Win_lock, MPI_Win_lock_all or MPI_Win_start before");
  const window::part& p = w->parts[static_cast<size_t>(rank)];
  const uint64_t element = bytes_of(type), bytes = static_cast<uint64_t>(count) * element;
  // A displacement that is negative, or whose offset overflows, lies outside, too.
  const bool is_inside = displacement >= 0 && static_cast<uint64_t>(displacement) <= p.bytes / p.unit &&
                         bytes <= p.bytes - static_cast<uint64_t>(displacement) * p.unit;
  if (!is_inside)
    refuse(call, std::to_string(bytes) + " bytes at displacement " + std::to_string(displacement) + " (unit " +
                     std::to_string(p.unit) + ") do not lie in the window of rank " + std::to_string(rank) +
                     ", which has " + std::to_string(p.bytes) + " bytes");
  const uint64_t offset = static_cast<uint64_t>(displacement) * p.unit;
  if (offset % element)
    refuse(call, "byte " + std::to_string(offset) + " of the window of rank " + std::to_string(rank) +
                     " is no place for elements of " + std::to_string(element) + " bytes");
  return {j, w->base + offset, bytes};
}

/// MPI applies accumulates of one process to one place in the order of the calls. Tasks have no order: the call waits
/// for those that may write there.
inline void keep_order(job& j, int rank, uint64_t begin, uint64_t end) {
  job::range& r = j.under_way[static_cast<size_t>(rank)];
  if (begin < r.end && r.begin < end) j.finish_tasks();
  r = {std::min(r.begin, begin), std::max(r.end, end)};
}

inline int MPI_Put(const void* origin, int count, MPI_Datatype type, int rank, MPI_Aint displacement, int target_count,
                   MPI_Datatype target_type, MPI_Win win) {
  const access a = access_for("MPI_Put", win, count, type, rank, displacement, target_count, target_type);
  if (a.bytes == 0) return MPI_SUCCESS;
  const readable from(origin, a.bytes);
  gravel_put_bulk(a.j.g, a.target, from.data(), a.bytes, rank);
  a.j.puts = true;
  return MPI_SUCCESS;
}
inline int MPI_Get(void* origin, int count, MPI_Datatype type, int rank, MPI_Aint displacement, int target_count,
                   MPI_Datatype target_type, MPI_Win win) {
  const access a = access_for("MPI_Get", win, count, type, rank, displacement, target_count, target_type);
  if (a.bytes == 0) return MPI_SUCCESS;
  // Bulk gets need symmetric memory: into other memory they would fetch word by word.
  for (uint64_t first = 0; first < a.bytes; first += job::landing_bytes) {
    const uint64_t now = std::min(a.bytes - first, job::landing_bytes);
    gravel_get_bulk(a.j.g, a.j.landing, a.target + first, now, rank);
    gravel_quiet(a.j.g);
    gravel_copy(static_cast<char*>(origin) + first, a.j.landing, now);
  }
  return MPI_SUCCESS;
}
template <int = 0>
int MPI_Accumulate(const void* origin, int count, MPI_Datatype type, int rank, MPI_Aint displacement, int target_count,
                   MPI_Datatype target_type, MPI_Op how, MPI_Win win) {
  const access a = access_for("MPI_Accumulate", win, count, type, rank, displacement, target_count, target_type);
  if (how != MPI_SUM && how != MPI_MIN && how != MPI_MAX && how != MPI_REPLACE)
    refuse("MPI_Accumulate", "unknown operation " + std::to_string(static_cast<int>(how)) +
                                 ": it takes MPI_SUM, MPI_MIN, MPI_MAX and MPI_REPLACE");
  const auto begin = static_cast<uint64_t>(a.target - a.j.g.heap);
  if (a.bytes) keep_order(a.j, rank, begin, begin + a.bytes);
  const readable from(origin, a.bytes);
  for (uint64_t first = 0; first < a.bytes; first += job::most_payload, ++a.j.sent)
    gravel_task_put<accumulate_elements>(
        a.j.tasks, rank, a.target + first,
        {{from.data() + first, std::min<uint64_t>(a.bytes - first, job::most_payload)}, {}, {}}, a.j.done.at(a.j.rank),
        type, how);
  return MPI_SUCCESS;
}

}  // namespace gravel::detail::mpi_subset
