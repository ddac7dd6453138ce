// Remote tasks (docs/tasks.md): a message that starts a task at another PE.
#pragma once
#include "lib/remote_task/task.cuh"
