// Links and routers (docs/links.md): bulk data from one PE's memory into another's, in packets.
#pragma once
#include "lib/link/link.cuh"
