// Part of cuda_runtime.h.
#pragma once
#include "cuda_runtime.h"
