// NVSHMEM's interface over Gravel: its calls by types, thread scopes and teams, checked against what NVSHMEM's
// documentation says. One source for the CPU backend and for GPUs; run under ucx-run with any number of PEs and nodes.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "PE %d: wrong: %s\n", nvshmem_my_pe(), what.c_str());
}

/// Starts a kernel as a program of NVSHMEM does: with its arguments by address.
template <class... P>
void launch(void (*kernel)(P...), int blocks, int threads, P... values) {
  void* arguments[] = {&values...};
#if GRAVEL_CUDA
  const int code = nvshmemx_collective_launch(reinterpret_cast<const void*>(kernel), blocks, threads, arguments, 0, 0);
#else
  const int code = nvshmemx_collective_launch(kernel, blocks, threads, arguments, 0, nullptr);
#endif
  expect(code == 0, "nvshmemx_collective_launch");
  gravel_synchronize();
}

/// Copies of symmetric memory on the host.
template <class T>
std::vector<T> read(const T* from, size_t count) {
  std::vector<T> here(count);
  gravel_copy(here.data(), from, count * sizeof(T));
  return here;
}

constexpr int threads = 64;

struct shift_cells {
  int from_left[threads];
  unsigned long long count;
};
__global__ void shift(shift_cells* cells) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), lane = static_cast<int>(threadIdx.x);
  nvshmem_int_p(&cells->from_left[lane], me * threads + lane, (me + 1) % n);
  nvshmem_ulonglong_atomic_inc(&cells->count, 0);
  nvshmem_quiet();
  nvshmemx_barrier_all_block();
}

void check_shift() {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  auto* const cells = static_cast<shift_cells*>(nvshmem_calloc(1, sizeof(shift_cells)));
  launch(shift, 1, threads, cells);
  nvshmem_barrier_all();
  const shift_cells got = read(cells, 1)[0];
  for (int lane = 0; lane < threads; ++lane)
    expect(got.from_left[lane] == (me + n - 1) % n * threads + lane, "nvshmem_int_p to the right");
  expect(got.count == (me == 0 ? static_cast<unsigned long long>(n) * threads : 0), "nvshmem_ulonglong_atomic_inc");
  nvshmem_free(cells);
}

}  // namespace

int main() {
  nvshmem_init();
  check_shift();
  const int me = nvshmem_my_pe();
  nvshmem_finalize();
  if (failures == 0 && me == 0) std::printf("nvshmem_job: all right\n");
  return failures != 0;
}
