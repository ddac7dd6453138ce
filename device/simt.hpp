// CUDA's vocabulary for kernels on both backends. A `.cuh` source that includes this runs on the GPU (nvcc) and on the
// CPU (g++; blocks on threads, lanes on fibers).
#pragma once
#if defined(__CUDACC__)
#include "device/simt_cuda.cuh"
#else
#include "device/cpu/simt_cpu.hpp"
#endif
