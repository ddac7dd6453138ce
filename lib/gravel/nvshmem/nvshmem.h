// NVSHMEM's interface over Gravel: a program that includes <nvshmem.h> and <nvshmemx.h> is compiled against Gravel
// without a change. It needs neither -rdc nor a library for the device.
//
// Each part is a thin layer: a call of NVSHMEM becomes the call of Gravel that docs/nvshmem.md names. What NVSHMEM's
// documentation says about a call holds here, too, except for the differences that are named there.
#pragma once
#include <cassert>  // programs rely on it

#if defined(GRAVEL_CUDA_ON_CPU)
// As NVSHMEM includes CUDA's.
#include <gravel/cuda_on_cpu/cuda.h>
#include <gravel/cuda_on_cpu/cuda_bf16.h>
#include <gravel/cuda_on_cpu/cuda_fp16.h>
#endif
#include <gravel/nvshmem/atomics.cuh>
#include <gravel/nvshmem/collectives.cuh>
#include <gravel/nvshmem/gather.cuh>
#include <gravel/nvshmem/job.cuh>
#include <gravel/nvshmem/launch.cuh>
#include <gravel/nvshmem/memory.cuh>
#include <gravel/nvshmem/order.cuh>
#include <gravel/nvshmem/queue_pairs.cuh>
#include <gravel/nvshmem/rma.cuh>
#include <gravel/nvshmem/setup.cuh>
#include <gravel/nvshmem/signals.cuh>
#include <gravel/nvshmem/streams.cuh>
#include <gravel/nvshmem/teams.cuh>
#include <gravel/nvshmem/types.cuh>
#include <gravel/nvshmem/waits.cuh>
