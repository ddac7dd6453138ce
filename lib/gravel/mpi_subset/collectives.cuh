// Barrier, reduce and allreduce over all processes. Elements are combined by kernels (lib/allreduce) in symmetric
// memory, into which and from which the program's data are copied.
#pragma once
#include <gravel/mpi_subset/job.cuh>

namespace gravel::detail::mpi_subset {

constexpr int all_ranks = -1;

template <gravel_reduction HOW, class T>
void reduce_staged(job& j, uint64_t count, int root) {
  T* const at = reinterpret_cast<T*>(j.staged);
  if (root == all_ranks) gravel_allreduce<HOW>(j.reducer, at, at, count);
  else gravel_reduce<HOW>(j.reducer, at, at, count, root);
}
template <class T>
void reduce_type(const char* call, job& j, MPI_Op how, uint64_t count, int root) {
  if (how == MPI_SUM) return reduce_staged<GRAVEL_SUM, T>(j, count, root);
  if (how == MPI_MIN) return reduce_staged<GRAVEL_MIN, T>(j, count, root);
  if (how == MPI_MAX) return reduce_staged<GRAVEL_MAX, T>(j, count, root);
  refuse(call,
         "unknown operation " + std::to_string(static_cast<int>(how)) + ": it takes MPI_SUM, MPI_MIN and MPI_MAX");
}
template <int = 0>
void reduce_for(const char* call, const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm,
                int root) {
  job& j = job_for(call, comm);
  check_type(call, type);
  check_count(call, count);
  if (root != all_ranks) check_rank(call, j, root);
  const bool keeps = root == all_ranks || root == j.rank;
  if (from == MPI_IN_PLACE && !keeps) refuse(call, "MPI_IN_PLACE at another rank than the root");
  const auto n = static_cast<uint64_t>(count), bytes = n * bytes_of(type);
  if (bytes > j.staged_bytes) {
    gravel_free(j.staged);
    j.staged_bytes = std::max<uint64_t>(bytes, 2 * j.staged_bytes);
    j.staged = gravel_malloc<char>(j.staged_bytes);
  }
  gravel_copy(j.staged, from == MPI_IN_PLACE ? to : from, bytes);
  switch (type) {
    case MPI_INT: reduce_type<int32_t>(call, j, how, n, root); break;
    case MPI_LONG: reduce_type<int64_t>(call, j, how, n, root); break;
    case MPI_FLOAT: reduce_type<float>(call, j, how, n, root); break;
    case MPI_DOUBLE: reduce_type<double>(call, j, how, n, root); break;
    default: refuse(call, "MPI_CHAR, which is no number: it takes MPI_INT, MPI_LONG, MPI_FLOAT and MPI_DOUBLE");
  }
  if (keeps) gravel_copy(to, j.staged, bytes);
}

/// It also completes the puts of all processes.
inline int MPI_Barrier(MPI_Comm comm) {
  job_for("MPI_Barrier", comm);
  gravel_barrier_all();
  return MPI_SUCCESS;
}
template <int = 0>
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm comm) {
  reduce_for("MPI_Allreduce", from, to, count, type, how, comm, all_ranks);
  return MPI_SUCCESS;
}
template <int = 0>
int MPI_Reduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, int root, MPI_Comm comm) {
  if (root < 0) check_rank("MPI_Reduce", job_for("MPI_Reduce", comm), root);
  reduce_for("MPI_Reduce", from, to, count, type, how, comm, root);
  return MPI_SUCCESS;
}

}  // namespace gravel::detail::mpi_subset
