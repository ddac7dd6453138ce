// Set-up and information.
#pragma once
#include <cstdio>

#include <gravel/nvshmem/job.cuh>

namespace gravel::detail::nvshmem {

/// Gives all translation units the handles of the job that gravel_init has joined.
inline void open_job() { process().set({gravel_handle()}, gravel_host_handle(), true); }
inline void close_job() {
  process().set({}, {}, false);
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
