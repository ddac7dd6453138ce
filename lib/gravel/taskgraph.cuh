// Task graphs (docs/channels.md): tasks that spawn tasks and wait for their results, on one GPU or on those of all PEs.
#pragma once
#include "lib/taskgraph/shared_graph.cuh"
#include "lib/taskgraph/task_graph.cuh"
