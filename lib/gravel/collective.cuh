// Collectives over teams of PEs that the host starts, at once or in a stream: gravel_reduce_all,
// gravel_barrier_on_stream and the like. <gravel/gravel.cuh> has teams, and the collectives of kernels.
#pragma once
#include "host/team_collectives.cuh"
