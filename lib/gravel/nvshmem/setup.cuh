// Set-up and information.
#pragma once
#include <unistd.h>
#include <cstdio>

#include <algorithm>

#include <gravel/nvshmem/job.cuh>
#include <gravel/nvshmem/teams.cuh>
#if defined(MPI_VERSION)
#include <gravel/mpi.hpp>
#endif
#if GRAVEL_CUDA
#include <cuda.h>

#include <string>
#endif

namespace gravel::detail::nvshmem {

/// Gives all translation units the handles of the job that gravel_init has joined.
inline void open_job() {
  device_state state{gravel_handle(), no_place};
  open_teams(state);
  process().set(state, gravel_host_handle(), true);
}
inline void close_job() {
  process().set({}, {}, false);
  for (gravel_team_t& team : process().teams) team = {};
  gravel_finalize();
}

}  // namespace gravel::detail::nvshmem

// A template, so that only a source that calls it compiles the resolver.
template <int = 0>
void nvshmem_init() {
  gravel_init<>();
  gravel::detail::nvshmem::open_job();
}
template <int = 0>
int nvshmem_init_thread(int, int* provided) {
  nvshmem_init();
  if (provided) *provided = NVSHMEM_THREAD_SERIALIZED;
  return 0;
}

namespace gravel::detail::nvshmem {

/// Joins the job that the attributes name.
template <int = 0>
void init_by(unsigned flags, const nvshmemx_init_attr_t* attr) {
  if (flags & NVSHMEMX_INIT_WITH_UNIQUEID) {
    const nvshmemx_uniqueid_args_t& given = attr->args.uid_args;
    gravel_unique_id_t id;
    static_assert(sizeof(id.text) <= sizeof(given.id->internal));
    std::copy_n(given.id->internal, sizeof(id.text), id.text);
    gravel_init<>(id, given.myrank, given.nranks);
  } else if (flags & NVSHMEMX_INIT_WITH_MPI_COMM) {
#if defined(MPI_VERSION)
    gravel_init<>(gravel_mpi_group(*static_cast<MPI_Comm*>(attr->mpi_comm)));
#else
    fail_text("nvshmemx_init_attr with a communicator of MPI: include <mpi.h> before <nvshmem.h>");
#endif
  } else if (flags & NVSHMEMX_INIT_WITH_SHMEM) {
    fail_text("nvshmemx_init_attr: a job of OpenSHMEM cannot be joined; use a launcher, a communicator or a unique id");
  } else {
    gravel_init<>();
  }
  open_job();
}

}  // namespace gravel::detail::nvshmem

template <int = 0>
int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t* attr) {
  gravel::detail::nvshmem::init_by(flags, attr);
  return 0;
}
template <int = 0>
int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t* attr) {
  return nvshmemx_init_attr(flags, attr);
}
/// `mpi_comm`: the address of an MPI_Comm.
inline int nvshmemx_set_attr_mpi_comm_args(void* mpi_comm, nvshmemx_init_attr_t* attr) {
  attr->mpi_comm = mpi_comm;
  return 0;
}
inline int nvshmemx_set_attr_uniqueid_args(int myrank, int nranks, const nvshmemx_uniqueid_t* id,
                                           nvshmemx_init_attr_t* attr) {
  attr->args.uid_args.id = const_cast<nvshmemx_uniqueid_t*>(id);
  attr->args.uid_args.myrank = myrank;
  attr->args.uid_args.nranks = nranks;
  return 0;
}
/// PE 0 calls it, and waits for the others in nvshmemx_init_attr: at the name of its host, or, if that is no address,
/// on this host alone.
inline int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* id) {
  return gravel::detail::nvshmem::status_of([&] {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    gravel_unique_id_t made;
    try {
      made = gravel_unique_id(host);
    } catch (const gravel::error&) {
      made = gravel_unique_id();
    }
    std::copy_n(made.text, sizeof(made.text), id->internal);
  });
}

inline void nvshmem_query_thread(int* provided) { *provided = NVSHMEM_THREAD_SERIALIZED; }
inline int nvshmemx_init_status() {
  return gravel::detail::nvshmem::process().is_open ? NVSHMEM_STATUS_FULL_MPG : NVSHMEM_STATUS_NOT_INITIALIZED;
}
inline void nvshmem_finalize() { gravel::detail::nvshmem::close_job(); }
inline void nvshmemx_hostlib_finalize() { gravel::detail::nvshmem::close_job(); }

GRAVEL_BOTH int nvshmem_my_pe() {
#if GRAVEL_ON_GPU
  return gravel_my_pe(gravel::detail::nvshmem::handle());
#else
  return gravel::detail::nvshmem::in_kernel() ? gravel_my_pe(gravel::detail::nvshmem::handle()) : gravel_my_pe();
#endif
}
GRAVEL_BOTH int nvshmem_n_pes() {
#if GRAVEL_ON_GPU
  return gravel_n_pes(gravel::detail::nvshmem::handle());
#else
  return gravel::detail::nvshmem::in_kernel() ? gravel_n_pes(gravel::detail::nvshmem::handle()) : gravel_n_pes();
#endif
}
/// Ends the job. In a kernel the status is not kept: the launch fails, and the job ends with a message.
GRAVEL_BOTH void nvshmem_global_exit([[maybe_unused]] int status) {
#if GRAVEL_ON_GPU
  __trap();
#else
  gravel_abort("nvshmem_global_exit", status);
#endif
}

GRAVEL_BOTH void nvshmem_info_get_version(int* major, int* minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}
GRAVEL_BOTH void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}
/// `name`: room for NVSHMEM_MAX_NAME_LEN characters.
GRAVEL_BOTH void nvshmem_info_get_name(char* name) {
  constexpr const char* text = NVSHMEM_VENDOR_STRING;
  uint32_t at = 0;
  for (; text[at]; ++at) name[at] = text[at];
  name[at] = 0;
}

#if GRAVEL_CUDA
// Modules and libraries of CUDA's driver have a constant of the same name, which is not registered.
namespace gravel::detail::nvshmem {

/// Writes the state, or an empty one, into the constant of a module. Returns 0, or 1 if the module has none: then it
/// calls nothing of NVSHMEM.
inline int write_module(CUdeviceptr constant, size_t bytes, bool open) {
  const device_state state = open ? process().state : device_state{};
  if (bytes != sizeof(state)) {
    warn("nvshmemx_cumodule_init: the module was compiled with the headers of another version of Gravel");
    return 1;
  }
  const cudaError_t code = cudaMemcpy(reinterpret_cast<void*>(constant), &state, sizeof(state), cudaMemcpyHostToDevice);
  return code == cudaSuccess ? 0 : 1;
}
/// A function of CUDA's driver, with which the program is not linked.
template <class F>
F driver_function(const char* name) {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  const cudaError_t code = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
#endif
  if (code != cudaSuccess || !found) fail_text(std::string("the CUDA driver has no ") + name + "; it is too old");
  return reinterpret_cast<F>(found);
}
template <class Container>
int set_in(Container of, const char* function, bool open) {
  using get_global = CUresult (*)(CUdeviceptr*, size_t*, Container, const char*);
  CUdeviceptr constant = 0;
  size_t bytes = 0;
  if (driver_function<get_global>(function)(&constant, &bytes, of, "gravel_nvshmem_state") != CUDA_SUCCESS) return 1;
  return write_module(constant, bytes, open);
}

}  // namespace gravel::detail::nvshmem

inline int nvshmemx_cumodule_init(CUmodule module) {
  return gravel::detail::nvshmem::set_in(module, "cuModuleGetGlobal", true);
}
inline int nvshmemx_cumodule_finalize(CUmodule module) {
  return gravel::detail::nvshmem::set_in(module, "cuModuleGetGlobal", false);
}
inline int nvshmemx_culibrary_init(CUlibrary library) {
  return gravel::detail::nvshmem::set_in(library, "cuLibraryGetGlobal", true);
}
inline int nvshmemx_culibrary_finalize(CUlibrary library) {
  return gravel::detail::nvshmem::set_in(library, "cuLibraryGetGlobal", false);
}
#elif defined(GRAVEL_CUDA_ON_CPU)
// There is no state to set: kernels see that of the process.
inline int nvshmemx_cumodule_init(CUmodule) { return NVSHMEMX_SUCCESS; }
inline int nvshmemx_cumodule_finalize(CUmodule) { return NVSHMEMX_SUCCESS; }
inline int nvshmemx_culibrary_init(CUlibrary) { return NVSHMEMX_SUCCESS; }
inline int nvshmemx_culibrary_finalize(CUlibrary) { return NVSHMEMX_SUCCESS; }
#endif

// NVSHMEM's own benchmarks use this macro of its headers.
#define NVSHMEMI_ERROR_PRINT(...) std::fprintf(stderr, __VA_ARGS__)
