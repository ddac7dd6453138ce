"""Kernels and handlers of test_kernels.py. The job is joined with them, so conftest.py compiles them."""

from __future__ import annotations

import os

import gravel as gr

WALK = """
struct visit {  // counts the visit, and goes on to a random PE
  static constexpr const char* name = "visit";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t* visits, uint64_t random, uint32_t steps) const {
    gravel_local_add(g, &visits[random % 16], uint64_t{1});
    if (steps == 0) return;
    random = random * 6364136223846793005u + 1442695040888963407u;
    gravel_am<visit>(g, static_cast<int>((random >> 33) % g.n_pes), random >> 3, steps - 1);
  }
};
struct note {  // runs on the host
  static constexpr const char* name = "note";
  static constexpr bool on_host = true;
  using context = int;
  GRAVEL_HANDLER void operator()(const gravel_t&, int* notes, int value) const { notes[0] += value; }
};

__global__ void start(gravel_t g, uint64_t seed, uint32_t steps) {  // a walk for each lane
  const uint64_t lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  gravel_am<visit>(g, static_cast<int>(lane % g.n_pes), seed + lane, steps);
}
__global__ void __launch_bounds__(32) count(gravel_t g, uint64_t* table, const int64_t* ids, int n, uint64_t block) {
  __shared__ gravel_block_sender<32> sender;
  sender.begin(g);
  for (int i = static_cast<int>(blockIdx.x * 32 + threadIdx.x); i < n; i += static_cast<int>(gridDim.x) * 32)
    sender.inc(&table[static_cast<uint64_t>(ids[i]) % block], static_cast<int>(static_cast<uint64_t>(ids[i]) / block));
  sender.end();
}
__global__ void notify(gravel_t g, int value, int pe) { gravel_am<note>(g, pe, value); }

struct pair {
  float x;
  int n;
};
/* no kernel: __global__ void hidden() {} */
template <class T>
__global__ void fill(T* to, T value, bool twice, pair more) {  // needs no handle
  to[threadIdx.x] = value * (twice ? T{2} : T{1}) + static_cast<T>(more.x) * static_cast<T>(more.n);
}
__global__ void shape(uint32_t* to, unsigned char) {
  if (threadIdx.x + threadIdx.y + blockIdx.x + blockIdx.y == 0)
    to[0] = gridDim.x * 1000 + gridDim.y * 100 + blockDim.x * 10 + blockDim.y;
}
"""


def compiled() -> gr.Kernels:
    """With the backend of the tests, before gr.init(): handlers are registered when the job starts."""
    backend = os.environ.get("GRAVEL_TEST_BACKEND")
    return gr.Kernels(
        WALK, ["visit", "note"], kernels=["start", "count", "notify", "fill<float>", "shape"], backend=backend,
        options=["-O1"] if backend == "cuda" else ["-O0"],
    )  # fmt: skip
