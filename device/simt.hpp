// The CUDA vocabulary for kernels, spelled once for each backend: include this, and one `.cuh` source runs on
// the GPU (nvcc) and on the CPU (g++, blocks on threads and lanes on fibers).
#pragma once
#if defined(__CUDACC__)
#include "device/simt_cuda.cuh"
#else
#include "device/cpu/simt_cpu.hpp"
#endif
