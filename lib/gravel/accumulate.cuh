// gravel_accumulate: an array here, combined element by element with one at another PE, where that lies.
#pragma once
#include "lib/remote_task/accumulate.cuh"
