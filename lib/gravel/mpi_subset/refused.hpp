// Calls that the shared sources of the benchmarks contain for dynamic windows and collectives that do not block. The
// benchmarks of this subset compile with them. Each ends the job.
#pragma once
#include <gravel/mpi_subset/job.cuh>

namespace gravel::detail::mpi_subset {

struct MPI_Status {};
struct MPI_Request {};

#define GRAVEL_MPI_REFUSED(NAME, ...)                                                 \
  [[noreturn]] inline int NAME(__VA_ARGS__) {                                         \
    refuse(#NAME, "not supported: this is the subset of MPI that docs/mpi.md names"); \
  }
GRAVEL_MPI_REFUSED(MPI_Win_create_dynamic, MPI_Info, MPI_Comm, MPI_Win*)
GRAVEL_MPI_REFUSED(MPI_Win_attach, MPI_Win, void*, MPI_Aint)
GRAVEL_MPI_REFUSED(MPI_Get_address, const void*, MPI_Aint*)
GRAVEL_MPI_REFUSED(MPI_Send, const void*, int, MPI_Datatype, int, int, MPI_Comm)
GRAVEL_MPI_REFUSED(MPI_Recv, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*)
GRAVEL_MPI_REFUSED(MPI_Test, MPI_Request*, int*, MPI_Status*)
#undef GRAVEL_MPI_REFUSED

}  // namespace gravel::detail::mpi_subset
