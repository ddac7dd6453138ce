// Jobs of programs that use MPI: the ranks of a communicator are the PEs. It includes <mpi.h>.
#pragma once
#include <mpi.h>

#include <gravel/gravel.hpp>

/// Returns the process group of a communicator, for gravel_init<handlers...>(gravel_mpi_group(comm)): its ranks are the
/// numbers of the PEs.
/// @param comm an intracommunicator, which must exist until gravel_init returns
/// @return the group
/// @scope any host thread, between MPI_Init and MPI_Finalize; gravel_init calls MPI on the thread that calls it
/// @completion on return; it does not communicate
/// @errors as MPI says: by default an error of MPI ends the job
/// @source NVSHMEM: nvshmemx_set_attr_mpi_comm_args
inline gravel_process_group gravel_mpi_group(MPI_Comm comm) {
  gravel_process_group group{};
  MPI_Comm_rank(comm, &group.pe);
  MPI_Comm_size(comm, &group.n_pes);
  group.allgather = [comm](const void* mine, uint64_t bytes, void* all) {
    // MPI counts bytes with an int.
    constexpr uint64_t most = 1 << 30;
    if (bytes > most) gravel::detail::fail_text("an allgather of more than 1 GiB");
    const int count = static_cast<int>(bytes);
    if (MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm) != MPI_SUCCESS)
      gravel::detail::fail_text("MPI_Allgather failed");
  };
  return group;
}
