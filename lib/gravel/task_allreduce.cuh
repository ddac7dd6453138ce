// gravel_task_reducer: sums of arrays over all PEs by remote tasks (docs/tasks.md).
#pragma once
#include "lib/remote_task/task_allreduce.cuh"
