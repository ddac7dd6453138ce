// A subset of MPI over Gravel: the calls of the OSU micro-benchmarks for one-sided accumulate, put and get, for
// allreduce, reduce and barrier (docs/mpi.md). A program finds this file as <mpi.h> if it is compiled as C++ with the
// folder of this file on its include path. <gravel/mpi.hpp> is something else: it starts Gravel in a program that uses
// an MPI library.
//
// What MPI 3.1 says about a call holds here, too, except for the differences that docs/mpi.md names. Calls that are not
// here do not compile. Arguments that are not supported end the job with a message.
#pragma once
#include <gravel/mpi_subset/collectives.cuh>
#include <gravel/mpi_subset/job.cuh>
#include <gravel/mpi_subset/names.hpp>
#include <gravel/mpi_subset/one_sided.cuh>
#include <gravel/mpi_subset/refused.hpp>
#include <gravel/mpi_subset/synchronization.cuh>
#include <gravel/mpi_subset/windows.cuh>

// All calls.
using gravel::detail::mpi_subset::MPI_Abort;
using gravel::detail::mpi_subset::MPI_Accumulate;
using gravel::detail::mpi_subset::MPI_Allreduce;
using gravel::detail::mpi_subset::MPI_Barrier;
using gravel::detail::mpi_subset::MPI_Comm_group;
using gravel::detail::mpi_subset::MPI_Comm_rank;
using gravel::detail::mpi_subset::MPI_Comm_size;
using gravel::detail::mpi_subset::MPI_Finalize;
using gravel::detail::mpi_subset::MPI_Get;
using gravel::detail::mpi_subset::MPI_Group_free;
using gravel::detail::mpi_subset::MPI_Group_incl;
using gravel::detail::mpi_subset::MPI_Init;
using gravel::detail::mpi_subset::MPI_Put;
using gravel::detail::mpi_subset::MPI_Reduce;
using gravel::detail::mpi_subset::MPI_Win_allocate;
using gravel::detail::mpi_subset::MPI_Win_complete;
using gravel::detail::mpi_subset::MPI_Win_create;
using gravel::detail::mpi_subset::MPI_Win_fence;
using gravel::detail::mpi_subset::MPI_Win_flush;
using gravel::detail::mpi_subset::MPI_Win_flush_local;
using gravel::detail::mpi_subset::MPI_Win_free;
using gravel::detail::mpi_subset::MPI_Win_lock;
using gravel::detail::mpi_subset::MPI_Win_lock_all;
using gravel::detail::mpi_subset::MPI_Win_post;
using gravel::detail::mpi_subset::MPI_Win_start;
using gravel::detail::mpi_subset::MPI_Win_unlock;
using gravel::detail::mpi_subset::MPI_Win_unlock_all;
using gravel::detail::mpi_subset::MPI_Win_wait;
using gravel::detail::mpi_subset::MPI_Wtime;

// Types and calls of the benchmarks' shared sources that end the job (refused.hpp).
using gravel::detail::mpi_subset::MPI_Get_address;
using gravel::detail::mpi_subset::MPI_Recv;
using gravel::detail::mpi_subset::MPI_Request;
using gravel::detail::mpi_subset::MPI_Send;
using gravel::detail::mpi_subset::MPI_Status;
using gravel::detail::mpi_subset::MPI_Test;
using gravel::detail::mpi_subset::MPI_Win_attach;
using gravel::detail::mpi_subset::MPI_Win_create_dynamic;
