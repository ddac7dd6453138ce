// NVSHMEM's extensions over Gravel: nvshmem.h has all calls.
#pragma once
#include <gravel/nvshmem/nvshmem.h>
