// Reductions of arrays over all PEs (docs/allreduce.md): gravel_allreduce, gravel_reduce.
#pragma once
#include "lib/allreduce/allreduce.cuh"
