// Part of cuda_runtime.h.
#pragma once
#include <gravel/cuda_on_cpu/cuda_runtime.h>
