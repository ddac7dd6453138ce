// Constants and types. Enumerations, so that a wrong kind of argument does not compile.
#pragma once
#include <cstdint>
#include <string>

#define MPI_VERSION 3
#define MPI_SUBVERSION 1
#define MPI_SUCCESS 0
#define MPI_IN_PLACE (reinterpret_cast<void*>(~uintptr_t{0}))
#define MPI_WIN_NULL nullptr
#define MPI_GROUP_NULL nullptr

typedef enum { MPI_COMM_NULL, MPI_COMM_WORLD } MPI_Comm;
typedef enum { MPI_INFO_NULL } MPI_Info;
typedef enum { MPI_OP_NULL, MPI_SUM, MPI_MIN, MPI_MAX, MPI_REPLACE } MPI_Op;
/// MPI_AINT: only the refused calls take it.
typedef enum { MPI_DATATYPE_NULL, MPI_CHAR, MPI_INT, MPI_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_AINT } MPI_Datatype;
typedef enum { MPI_LOCK_EXCLUSIVE = 1, MPI_LOCK_SHARED } gravel_mpi_lock;
typedef intptr_t MPI_Aint;

namespace gravel::detail::mpi_subset {

struct group;
struct window;

/// Returns the bytes of an element; 0 for an unknown type.
constexpr uint64_t bytes_of(MPI_Datatype type) {
  switch (type) {
    case MPI_CHAR: return sizeof(char);
    case MPI_INT: return sizeof(int);
    case MPI_LONG: return sizeof(long);
    case MPI_FLOAT: return sizeof(float);
    case MPI_DOUBLE: return sizeof(double);
    default: return 0;
  }
}

}  // namespace gravel::detail::mpi_subset

typedef gravel::detail::mpi_subset::group* MPI_Group;
typedef gravel::detail::mpi_subset::window* MPI_Win;
